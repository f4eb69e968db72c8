"""Validated runs, the features of a run that none of them has, and the model error that follows.

`reference_data/residuals.json` has every validated run with its features and its log error, the logarithm of predicted
over measured time. Constants are fitted without the rows of the run's origin (an MLPerf round, a vendor's table, a
paper).

The model error of another run is the weighted mean of absolute log errors, as a standard deviation of normal errors.
Runs of another activity have a smaller weight, chosen by the interval score [gneiting2007]. The factor is not chosen:
these rows were known when the model was written, and by their score alone ranges of new runs would be too narrow. Each
feature that no run has adds a step, from the scores of these rows and of blind predictions.

    sigma = sqrt(pi / 2) * (sum of w * |error|) / (sum of w), sigma^2 += step^2 * (new features + log2(size / largest))
    w = (1 for a run of the same activity, otherwise `other_activity`) / rows of the configuration
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from podsim.draws import Z
from podsim.format import format_count
from podsim.result.reference_data import rows
from podsim.result.usage import one_copy, replicas_in_use
from podsim.scenario import data_file
from podsim.scenario.activity import Activity
from podsim.scenario.assumptions import numbers
from podsim.scenario.scenario import Scenario

FILE: Final = "reference_data/residuals.json"
_MISSED: Final = 10
"""Weight of the miss relative to the width in the interval score of an 80 % interval: 2 / (1 - 0.8)."""
SPREAD: Final = math.sqrt(math.pi / 2)
"""Ratio of the standard deviation to the mean absolute error of a normal distribution."""
_ALIKE: Final = 1e-4
"""Relative difference below which numbers are equal: the file has five digits."""
WORDS: Final = {
    "activity": "{activity}",
    "stack": "{activity} with {}",
    "family": "{activity} of a model of kind `{}`",
    "execution": "{activity} with {} execution",
    "shards": "{activity} with {}",
    "experts": "{activity} with {}",
    "formats": "{activity} with {}",
    "links": "{activity} over {}",
    "layer_count": "layers",
    "hidden_size": "hidden size",
    "depth": "depth",
    "sequence_length": "sequence length",
    "ipu_count": "IPUs",
}
"""Text of each feature: a phrase for a categorical feature, the counted noun for a numerical one."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Published run with its prediction."""

    row: str  # name of the row
    origin: str  # campaign, table, paper or notebook in which it was published
    configuration: str  # equal for rows that are not independent evidence
    role: str  # `calibration` or `hold-out`
    names: Mapping[str, str]  # categorical features
    sizes: Mapping[str, float]  # numerical features
    error: float  # logarithm of predicted over measured time; constants are fitted without the rows of its origin
    known_variance: float  # variance of the error that uncertain inputs and the measurement explain
    sample_s: float  # predicted time of a sample, or of a token


@dataclass(frozen=True, slots=True)
class Evidence:
    """Validated runs that are similar to a run."""

    sigma: float  # standard deviation of the logarithm of predicted over measured time
    new: tuple[str, ...] = ()  # text of each feature that no validated run has


@dataclass(frozen=True, slots=True)
class Envelope:
    """Features of a run that no validated run has.

    Attributes:
        outside: Text of each such feature; empty inside the validated envelope.
    """

    outside: Sequence[str] = ()

    @property
    def inside(self) -> bool:
        """True if validated runs have all features of the run."""
        return not self.outside

    @property
    def text(self) -> str:
        """A line for a reader; empty inside of the envelope."""
        return "" if self.inside else f"unknown: never compared with a published run: {'; '.join(self.outside)}"

    def to_dict(self) -> dict[str, object]:
        """Return plain types."""
        return {"inside": self.inside, "outside": list(self.outside)}


_Ends = tuple[str, float, str, float]


@dataclass(frozen=True)
class Residuals:
    """Validated runs, with an error model fitted to them by cross-validation.

    Numbers of a machine, except those of its chips, are grouped by its number of IPUs: the memory of a card says
    nothing about that of a machine with four IPUs.
    """

    runs: tuple[Compared, ...]
    other_activity: float = 1.0  # weight of a run of another activity, relative to one of the same
    step: float = 0.0  # standard deviation added by each new feature, and by each doubling beyond the range of all runs
    kernels: Mapping[str, float] = field(default_factory=dict)  # standard deviations of microbenchmarks
    change: float = 0.0  # relative standard deviation of the logarithm of a change
    machine: Mapping[str, _Ends] = field(default_factory=dict)  # smallest and largest number, as text and in SI units
    machines: Mapping[str, Mapping[str, _Ends]] = field(default_factory=dict)

    def evidence_for(self, names: Mapping[str, str], sizes: Mapping[str, float]) -> Evidence:
        """Return the evidence for a run with categorical features `names` and numerical features `sizes`."""
        new = tuple(self._new_features(names, sizes))
        variance = self.scatter(names["activity"]) ** 2 + self.step**2 * sum(steps for steps, _ in new)
        return Evidence(math.sqrt(variance), tuple(words for _, words in new))

    def kernel_sigma(self, name: str) -> float:
        """Return the standard deviation of a microbenchmark; without measurements, the largest plus a step."""
        return self.kernels.get(name) or math.hypot(max(self.kernels.values()), self.step)

    def scatter(self, activity: str) -> float:
        """Return the standard deviation of log errors of an activity; the largest of all if no run has it."""
        known = {run.names["activity"] for run in self.runs}
        return max(self._scatter(each) for each in {activity} & known or known)

    def _scatter(self, activity: str) -> float:
        rows = Counter((run.origin, run.configuration) for run in self.runs)
        errors = weights = 0.0
        for run in self.runs:
            weight = 1.0 if run.names["activity"] == activity else self.other_activity
            weight /= rows[run.origin, run.configuration]
            errors += weight * abs(run.error)
            weights += weight
        return SPREAD * errors / weights

    def _same_activity(self, names: Mapping[str, str]) -> Sequence[Compared]:
        """Return the runs with the same activity, or all runs if none has it."""
        return [run for run in self.runs if run.names["activity"] == names["activity"]] or self.runs

    def _new_features(self, names: Mapping[str, str], sizes: Mapping[str, float]) -> Iterator[tuple[float, str]]:
        """Yield the number of steps and the text of each feature that no validated run has."""
        same, words = self._same_activity(names), Activity(names["activity"]).label
        for name, value in names.items():
            if not any(run.names.get(name) == value for run in same):
                yield 1.0, WORDS[name].format(value, activity=words)
        of_kind = [run for run in same if run.names["family"] == names["family"]] or same
        for name, far, ends in _beyond_range(sizes, of_kind):
            least, most = (format_count(int(end)) for end in ends)
            span = least if least == most else f"{least} to {most}"
            yield math.log2(far), f"{WORDS[name]} {format_count(int(sizes[name]))} ({span})"


def _beyond_range(
    sizes: Mapping[str, float], runs: Sequence[Compared]
) -> Iterator[tuple[str, float, tuple[float, float]]]:
    """Yield each number outside the range of all runs, its factor beyond the range, and the range."""
    for name, value in sizes.items():
        known = [run.sizes[name] for run in runs if name in run.sizes]
        if known and (far := max(value / max(known), min(known) / value)) > 1:
            yield name, far, (min(known), max(known))


def _model_key(family: str, sizes: Mapping[str, float]) -> tuple[str, tuple[tuple[str, float], ...]]:
    """Return the identity of a model: family and sizes, without the number of IPUs."""
    return family, tuple((name, value) for name, value in sizes.items() if name != "ipu_count")


def interval_score(sigma: float, error: float) -> float:
    """Return the interval score of logarithms: interval width plus ten times the miss [gneiting2007].

    >>> round(interval_score(0.1, 0.0), 4), round(interval_score(0.1, -0.2), 4)
    (0.2563, 0.9747)
    """
    half = Z * sigma
    return 2 * half + _MISSED * max(0.0, abs(error) - half)


def are_alike(one: Any, other: Any) -> bool:
    """Return True if two scenarios have the same activity, model and framework."""
    names, others = features_of(one), features_of(other)
    models = _model_key(names["family"], dimensions_of(one)), _model_key(others["family"], dimensions_of(other))
    return models[0] == models[1] and all(names[each] == others[each] for each in ("activity", "stack"))


def features_of(spec: Any) -> dict[str, str]:
    """Return the categorical features of a run with a chosen layout; absent features are left out."""
    activity, division, model, precision = spec.activity, spec.parallelism, spec.model, getattr(spec, "precision", None)
    shards = getattr(division, "tensor_parallel", 1)
    of_weights = str(spec.memory.weights) if activity is Activity.GENERATION else ""
    formats = {str(getattr(precision, name, None)) for name in ("weights", "products", "activations")}
    found = {
        "activity": activity.value,
        "stack": framework_of(spec.software.framework),
        "family": model.kind,
        "execution": of_weights or str(getattr(division, "execution", "")),
        "shards": "layers shared among IPUs" if shards > 1 else "",
        "experts": "experts" if getattr(model, "experts", None) else "",
        "formats": ", ".join(sorted(formats - {"fp16", "None"})),
        "links": "GW-Links" if ipu_count(spec) > spec.system.domain_ipu_count else "",
    }
    return {name: value for name, value in found.items() if value}


def dimensions_of(spec: Any) -> dict[str, float]:
    """Return the numerical features of a run, such as layers and IPUs; absent features are left out."""
    model, of_tokens = spec.model, getattr(spec, "generation", None) or getattr(spec, "data", None)
    found = {
        "layer_count": getattr(model, "layer_count", None),
        "hidden_size": getattr(model, "hidden_size", None),
        "depth": getattr(model, "depth", None),
        "sequence_length": getattr(of_tokens, "sequence_length", None),
        "ipu_count": ipu_count(spec),
    }
    return {name: float(number) for name, number in found.items() if number is not None}


def ipu_count(spec: Any) -> int:
    """Return the number of IPUs that a run uses."""
    return (one_copy if spec.activity is Activity.GENERATION else replicas_in_use)(spec).ipus_used


def framework_of(name: str) -> str:
    """Return the name of a framework without its version.

    >>> framework_of("TensorFlow 2"), framework_of("PopART")
    ('TensorFlow', 'PopART')
    """
    return name.rstrip("0123456789. ")


def evidence_of(spec: Scenario) -> Evidence:
    """Return the evidence for a run with a chosen layout; `model_scatter` of its stack takes precedence."""
    compared, given = residuals().evidence_for(features_of(spec), dimensions_of(spec)), spec.software.model_scatter
    return compared if given is None else replace(compared, sigma=float(given))


def numbers_beyond(spec: Scenario) -> Iterator[tuple[str, float, str]]:
    """Yield machine and stack numbers outside the validated range: key, nearest validated number, and text."""
    table = residuals()
    known = {**table.machine, **table.machines.get(f"{spec.system.machine.ipu_count}", {})}
    for key, number, _ in numbers(spec):
        if key in known:
            low_text, low, high_text, high = known[key]
            least, most = number.provenance.range or (float(number), float(number))
            nearest = min(max(float(number), low), high)
            if not (math.isclose(nearest, number, rel_tol=_ALIKE) or least <= nearest <= most):
                span = low_text if low_text == high_text else f"{low_text} to {high_text}"
                yield (key, nearest, f"{key} {number.provenance.text} ({span})")


def blind_ranges_text(activity: Activity) -> str:
    """Return how many blind measurements the ranges of the last evaluated version held, for runs of an activity."""
    (*_, last) = rows("blind_ranges")
    if activity.label not in last["activity"]:
        return f"Ranges of {activity.label} were never compared with blind measurements"
    version, inside, count = last["version"].removesuffix(".0"), last["inside"], last["measurements"]
    return f"80 % ranges of podsim {version} held {inside} of {count} blind measurements; they are wider since"


@lru_cache
def residuals() -> Residuals:
    """Return the validated runs that ship with podsim."""
    plain = json.loads(data_file(FILE).read_text(encoding="utf-8"))
    runs = tuple(Compared(**each) for each in plain.pop("runs"))
    return Residuals(runs=runs, **plain)
