"""Published runs that were compared, what is new about another run beside them, and how far off it may be therefore.

`reference_data/residuals.json` has every run that was compared, with its features and the logarithm of its predicted
over its measured time, predicted without any row of its own origin: an MLPerf campaign, a vendor's table, a paper.
The scatter of another run is the mean size of these errors, in which runs that are alike count more, times what makes
of it the standard deviation whose middle 80 % has the least interval score [gneiting2007]. What no run has is taken as
the least favourable of what runs have, and adds a step, which is that with the least score as well.

    sigma = spread * (sum of w * |error|) / (sum of w), sigma^2 += step^2 * (new features + log2(size / largest))
    w = stack * activity * model / rows of the configuration, each factor 1 where the run is the same in it
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, Final

from podsim.draws import Z
from podsim.format import format_count
from podsim.result.usage import one_copy, replicas_in_use
from podsim.scenario import data_file
from podsim.scenario.activity import Activity
from podsim.scenario.assumptions import numbers
from podsim.scenario.scenario import Scenario

FILE: Final = "reference_data/residuals.json"
_MISSED: Final = 10
"""What a missed per cent weighs beside one of width, for a middle of 80 %: 2 / (1 - 0.8)."""
_ALIKE: Final = 1e-4
"""Numbers that differ by less are the same: those of the file have five digits."""
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
"""Features in words: of names as they stand in a sentence, of numbers what is counted."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A published run beside its prediction."""

    row: str  # its name
    origin: str  # the campaign, table, paper or notebook that it was published in
    configuration: str  # what it shares with rows that are no evidence beside it
    role: str  # `calibration` or `hold-out`
    names: Mapping[str, str]  # features that are names
    sizes: Mapping[str, float]  # features that are numbers
    error: float  # logarithm of predicted over measured time, constants fitted without the rows of its origin
    known_variance: float  # what uncertain inputs and the measurement explain of its square
    sample_s: float  # predicted time of a sample, or of a token


@dataclass(frozen=True, slots=True)
class Alike:
    """What a run counts beside one that is the same in all."""

    stack: float  # with another framework
    activity: float  # of another activity
    model: float  # of another family or of other sizes
    spread: float  # standard deviation over the mean size of errors


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was compared that is like a run."""

    sigma: float  # standard deviation of the logarithm of predicted over measured time
    new: tuple[str, ...] = ()  # what of it no compared run has, in words


@dataclass(frozen=True, slots=True)
class Envelope:
    """Whether published runs like a simulated one have been compared with predictions.

    Attributes:
        outside: What of it no compared run has; empty inside of the envelope.
    """

    outside: Sequence[str] = ()

    @property
    def inside(self) -> bool:
        """Whether compared runs have all of it."""
        return not self.outside

    @property
    def text(self) -> str:
        """A line for a reader; empty inside of the envelope."""
        return "" if self.inside else f"unknown: never compared with a published run: {'; '.join(self.outside)}"

    def to_dict(self) -> dict[str, object]:
        """Plain types only."""
        return {"inside": self.inside, "outside": list(self.outside)}


_Model = tuple[str, tuple[tuple[str, float], ...]]
_Ends = tuple[str, float, str, float]


@dataclass(frozen=True)
class Residuals:
    """All runs that were compared, and what follows from leaving some of them out.

    Numbers of a machine itself, its chips apart, are known by how many IPUs it has: a card's memory says nothing of
    that of a machine with four.
    """

    runs: tuple[Compared, ...]
    alike: Alike  # what runs count that differ
    step: float = 0.0  # standard deviation that each new feature adds, and each doubling beyond all runs
    kernels: Mapping[str, float] = field(default_factory=dict)  # standard deviations of what is measured alone
    change: float = 0.0  # standard deviation of the logarithm of a change, as a share of it
    machine: Mapping[str, _Ends] = field(default_factory=dict)  # least and greatest number, as written and in SI units
    machines: Mapping[str, Mapping[str, _Ends]] = field(default_factory=dict)

    def of(self, names: Mapping[str, str], sizes: Mapping[str, float]) -> Evidence:
        """The evidence for a run with features that are names and features that are numbers."""
        new = tuple(self._new(names, sizes))
        variance = self.scatter(names, sizes) ** 2 + self.step**2 * sum(steps for steps, _ in new)
        return Evidence(math.sqrt(variance), tuple(words for _, words in new))

    def of_kernel(self, name: str) -> float:
        """Standard deviation of what is measured alone, by its name; what nobody measured is a step beyond all."""
        return self.kernels.get(name) or math.hypot(max(self.kernels.values()), self.step)

    def scatter(self, names: Mapping[str, str], sizes: Mapping[str, float]) -> float:
        """The standard deviation that runs show which are like it; arguments as of `of`.

        An activity, a stack, a family or a size that no run has is the least favourable of those that runs have.
        """
        same = self._same(names)
        activities, stacks = ({run.names[name] for run in same} for name in ("activity", "stack"))
        of_kind = [run for run in same if run.names["family"] == names["family"]]
        near = list(same)  # where the family is known, those whose numbers are nearest to what lies beyond all of them
        if of_kind:
            near = []
            for name, _, ends in _beyond(sizes, of_kind):
                nearest = min(ends, key=lambda end: abs(math.log(sizes[name] / end)))
                near += [run for run in of_kind if run.sizes.get(name) == nearest]
        models = {_model_of(names["family"], sizes)} | {_model_of(run.names["family"], run.sizes) for run in near}
        return max(self._mean(*like) for like in product(activities, {names["stack"]} & stacks or stacks, models))

    def _mean(self, activity: str, stack: str, model: _Model) -> float:
        """Mean size of errors, as a standard deviation."""
        errors = weights = 0.0
        for weight, error, other_activity, other_stack, other_model in self._rows:
            weight *= 1.0 if other_activity == activity else self.alike.activity
            weight *= 1.0 if other_stack == stack else self.alike.stack
            weight *= 1.0 if other_model == model else self.alike.model
            errors += weight * error
            weights += weight
        return self.alike.spread * errors / weights

    @cached_property
    def _rows(self) -> list[tuple[float, float, str, str, _Model]]:
        """Share in its configuration, size of the error, activity, stack and model of each run."""
        rows = Counter((run.origin, run.configuration) for run in self.runs)
        of_each = ((1 / rows[run.origin, run.configuration], run, run.names) for run in self.runs)
        return [
            (share, abs(run.error), names["activity"], names["stack"], _model_of(names["family"], run.sizes))
            for share, run, names in of_each
        ]

    def _same(self, names: Mapping[str, str]) -> Sequence[Compared]:
        """Runs of an activity; all of them where it has none."""
        return [run for run in self.runs if run.names["activity"] == names["activity"]] or self.runs

    def _new(self, names: Mapping[str, str], sizes: Mapping[str, float]) -> Iterator[tuple[float, str]]:
        """How many steps off each feature is that no run has, and the feature in words."""
        same, words = self._same(names), Activity(names["activity"]).label
        for name, value in names.items():
            if not any(run.names.get(name) == value for run in same):
                yield 1.0, WORDS[name].format(value, activity=words)
        of_kind = [run for run in same if run.names["family"] == names["family"]] or same
        for name, far, ends in _beyond(sizes, of_kind):
            least, most = (format_count(int(end)) for end in ends)
            span = least if least == most else f"{least} to {most}"
            yield math.log2(far), f"{WORDS[name]} {format_count(int(sizes[name]))} ({span})"


def _beyond(sizes: Mapping[str, float], runs: Sequence[Compared]) -> Iterator[tuple[str, float, tuple[float, float]]]:
    """Numbers that lie beyond those of all runs, how many times, and the least and greatest of these."""
    for name, value in sizes.items():
        known = [run.sizes[name] for run in runs if name in run.sizes]
        if known and (far := max(value / max(known), min(known) / value)) > 1:
            yield name, far, (min(known), max(known))


def _model_of(family: str, sizes: Mapping[str, float]) -> _Model:
    """What two runs share that train or ask the same model, on however many IPUs."""
    return family, tuple((name, value) for name, value in sizes.items() if name != "ipu_count")


def interval_score(sigma: float, error: float) -> float:
    """Width of the middle 80 % about a prediction, and ten times what it misses by, of logarithms [gneiting2007].

    >>> round(interval_score(0.1, 0.0), 4), round(interval_score(0.1, -0.2), 4)
    (0.2563, 0.9747)
    """
    half = Z * sigma
    return 2 * half + _MISSED * max(0.0, abs(error) - half)


def are_alike(one: Any, other: Any) -> bool:
    """Whether two scenarios ask for the same activity of the same model with the same framework."""
    names, others = features_of(one), features_of(other)
    models = _model_of(names["family"], dimensions_of(one)), _model_of(others["family"], dimensions_of(other))
    return models[0] == models[1] and all(names[each] == others[each] for each in ("activity", "stack"))


def features_of(spec: Any) -> dict[str, str]:
    """What a run is like, by name, its division chosen; what it does not have is left out."""
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
    """How large it is, by what is counted; what a kind of model does not have is left out."""
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
    """IPUs that a run uses."""
    return (one_copy if spec.activity is Activity.GENERATION else replicas_in_use)(spec).ipus_used


def framework_of(name: str) -> str:
    """A framework without its version.

    >>> framework_of("TensorFlow 2"), framework_of("PopART")
    ('TensorFlow', 'PopART')
    """
    return name.rstrip("0123456789. ")


def evidence_of(spec: Scenario) -> Evidence:
    """What was compared that is like a run, its division chosen; a stack that gives `model_scatter` is believed."""
    compared, given = residuals().of(features_of(spec), dimensions_of(spec)), spec.software.model_scatter
    return compared if given is None else replace(compared, sigma=float(given))


def numbers_beyond(spec: Scenario) -> Iterator[tuple[str, float, str]]:
    """Keys of machine and stack beyond all compared runs, the nearest number of these, and both in words."""
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


@lru_cache
def residuals() -> Residuals:
    """What ships."""
    plain = json.loads(data_file(FILE).read_text(encoding="utf-8"))
    runs = tuple(Compared(**each) for each in plain.pop("runs"))
    return Residuals(runs=runs, alike=Alike(**plain.pop("alike")), **plain)
