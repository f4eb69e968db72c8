"""Writes the errors of predictions of published runs, fitted without the rows of their origin, and the error model.

The constants that are fitted to weight updates and passes are fitted again to the calibration rows of the other
origins, by least squares with a prior at the middle of each range. They are taken to act linearly on the logarithm of a
time, so that a run is simulated once per constant. `--check` derives the error model from the rows again.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

import numpy as np

from podsim.metrics import METRICS, OUTPUT_TOKEN, THROUGHPUT, TIME, UPDATE
from podsim.result.evidence import (
    FILE,
    Compared,
    Residuals,
    dimensions_of,
    features_of,
    interval_score,
)
from podsim.result.influence import StandsOn
from podsim.result.reference_data import rows
from podsim.runs import run
from podsim.scenario.activity import Activity
from podsim.scenario.assumptions import assumptions, numbers, with_number
from podsim.validation.compare import validate
from podsim.validation.comparison import RowComparison, evidence, level_of, origin_of
from podsim.validation.coverage import constant_sigma, left_out_runs, share_of
from podsim.validation.reference_data import CALIBRATION

TARGET = Path(__file__).resolve().parent.parent / FILE
_LEVEL = "update or pass"
_METRIC = {Activity.TRAINING: UPDATE, Activity.GENERATION: OUTPUT_TOKEN, Activity.FORWARD: THROUGHPUT}
_MOVED = 1.02
_ROW_ERROR = 0.03
"""Standard error of a row, relative to the range of a constant."""
_WEIGHTS = (1.0, 0.5, 0.25, 0.125)
_STEPS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
_CHANGES = tuple(0.01 * step for step in range(1, 51))
_LEAST_CHANGE = 0.05
"""Least logarithm of a change: smaller ones drown in the scatter of two measurements."""
_DIGITS = 5
_MACHINE, _CHIP = "system.machine.", "system.machine.ipu."
Ends = tuple[str, float, str, float]


@dataclass(frozen=True)
class Point:
    """A published run and what moves its prediction."""

    run: Compared  # it beside its prediction, with constants as they are
    slopes: Mapping[str, float]  # change of the logarithm of its time per unit of each fitted constant


@dataclass
class Constants:
    """Fitted constants: the value, and the middle and half the width of the range of each; what machines had."""

    value: dict[str, float] = field(default_factory=dict)
    middle: dict[str, float] = field(default_factory=dict)
    half: dict[str, float] = field(default_factory=dict)
    ranges: dict[str, Ends] = field(default_factory=dict)
    ranges_of_machines: dict[str, dict[str, Ends]] = field(default_factory=dict)


def points_of(comparisons: Sequence[RowComparison], known: Constants) -> Iterator[Point]:
    """Yield every row of a simulated weight update or pass."""
    moved: dict[str, Any] = {}
    done = set()
    for row in comparisons:
        if level_of(row.group) != _LEVEL or not row.scenarios or "evaluation" in row.group:
            continue
        title, name = row.scenarios[0], row.name.partition(":")[0]
        if name in done:  # a weight update stands before the throughput that is made of it
            continue
        done.add(name)
        if title not in moved:
            moved[title] = _moved(title, known)
        features, variance, slopes = moved[title]
        late = math.log(row.predicted / row.published)
        error = -late if row.unit.endswith("/s") else late
        found = replace(
            features,
            row=name,
            origin=origin_of(row),
            role=row.role,
            error=error,
            known_variance=variance + (row.uncertainty or 0.0) ** 2,
        )
        yield Point(found, slopes)


def _moved(title: str, known: Constants) -> tuple[Compared, float, dict[str, float]]:
    """Return the features of a run, the variance due to its inputs, and its slopes."""
    name, _, variant = title.partition("@")
    result = run(name, variant=variant or None)
    stands_on: Any = result.assumptions
    spec, probe = stands_on.spec, stands_on.probe
    metric = _METRIC[spec.activity]
    sign = -1 if METRICS[metric].more_is_better else 1

    def log_time(changed: Any) -> float:
        return sign * math.log(probe(changed, resplit=True).metrics[metric])

    parts = StandsOn(spec, probe, resplit=True).input_contributions(metric)
    fitted = {
        _constant(assumption): assumption
        for assumption in assumptions(spec)
        if assumption.basis == "calibrated" and assumption.level == _LEVEL
    }
    open_ = {each.key for each in fitted.values()}
    variance = sum(part.variance for key, part in parts.items() if key not in open_)
    base, slopes = log_time(spec), {}
    for constant, each in fitted.items():
        low, high = each.bounds
        known.value[constant], known.middle[constant] = each.number, (low + high) / 2
        known.half[constant] = (high - low) / 2
        change = log_time(with_number(spec, each.key, each.number * _MOVED)) - base
        if change:
            slopes[constant] = change / (each.number * (_MOVED - 1))
    of_machine = known.ranges_of_machines.setdefault(f"{spec.system.machine.ipu_count}", {})
    for key, number, _ in numbers(spec):
        _widen(known.ranges, key, number.provenance.text, float(number))
        if key.startswith(_MACHINE) and not key.startswith(_CHIP):
            _widen(of_machine, key, number.provenance.text, float(number))
    rate = getattr(result, THROUGHPUT, None)
    sample_s = 1 / rate if rate else math.exp(base)
    features = Compared("", "", evidence(spec), "", features_of(spec), dimensions_of(spec), 0.0, 0.0, sample_s)
    return features, variance, slopes


def _widen(ranges: dict[str, Ends], key: str, text: str, value: float) -> None:
    """Let the least and the greatest number at a key have another between them."""
    low_text, low, high_text, high = ranges.get(key, (text, value, text, value))
    low_text, low = (text, value) if value < low else (low_text, low)
    high_text, high = (text, value) if value > high else (high_text, high)
    ranges[key] = low_text, low, high_text, high


def _constant(each: Any) -> str:
    """Return a name for a constant that is unique across stacks."""
    return f"{each.key} = {each.value}"


def without_origins(points: Sequence[Point], known: Constants) -> tuple[Compared, ...]:
    """Return the runs, with errors of predictions fitted without the rows of their origin."""
    names = list(known.value)
    everything = _fitted(points, known, names)
    of_origin = {
        origin: _fitted([point for point in points if point.run.origin != origin], known, names) - everything
        for origin in {point.run.origin for point in points}
    }
    return tuple(
        replace(
            point.run,
            error=point.run.error
            + sum(
                point.slopes.get(name, 0.0) * float(step)
                for name, step in zip(names, of_origin[point.run.origin], strict=True)
            ),
        )
        for point in points
    )


def _fitted(points: Iterable[Point], known: Constants, names: Sequence[str]) -> Any:
    """Return the changes of constants, by least squares over the calibration rows and the middles of ranges."""
    matrix, right = [], []
    for point in points:
        if point.run.role == CALIBRATION:
            matrix.append([point.slopes.get(name, 0.0) * known.half[name] / _ROW_ERROR for name in names])
            right.append(-point.run.error / _ROW_ERROR)
    for index, name in enumerate(names):
        matrix.append([float(index == other) for other in range(len(names))])
        right.append((known.middle[name] - known.value[name]) / known.half[name])
    solution, *_ = np.linalg.lstsq(np.array(matrix), np.array(right), rcond=None)
    return solution * [known.half[name] for name in names]


def derived(runs: Sequence[Compared]) -> Residuals:
    """Return an error model of runs, whose parameters have the least score on runs predicted from other origins.

    The step is the geometric mean of two limits. Runs as they are predicted now give the lower one, because the model
    was extended to explain them. Blind predictions of earlier versions, which lacked these extensions, give the upper.
    """
    table = min((Residuals(tuple(runs), weight) for weight in _WEIGHTS), key=partial(_score, runs=runs))
    known = [replace(table, step=step) for step in _STEPS]
    tried = [each for each in (runs, tuple(blind_runs(runs))) if each]
    limits = [min(known, key=partial(_score, runs=each)).step for each in tried]
    return replace(table, step=round(geometric_mean(limits), 2), change=_change(runs))


def _score(table: Residuals, runs: Sequence[Compared]) -> float:
    return share_of("", left_out_runs(table, runs)).score


def blind_runs(runs: Iterable[Compared]) -> Iterator[Compared]:
    """Yield each run that was predicted before its figure was known, with the log error of the first prediction."""
    found = {run.row: run for run in runs}
    for row in rows("blind_predictions"):
        if row["quantity"] != TIME and (run := found.pop(row["row"], None)):
            late = math.log(float(row["predicted"]) / float(row["measured"]))
            yield replace(run, error=-late if row["unit"].endswith("/s") else late)


def _change(runs: Sequence[Compared]) -> float:
    """Return the relative error of changes, from pairs of runs with one model and stack on other machines.

    The pairs of a stack and a model count together as one, because their errors are correlated.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for one, other in combinations(runs, 2):
        change, error = math.log(one.sample_s / other.sample_s), one.error - other.error
        if _is_pair(one, other) and abs(change) > _LEAST_CHANGE:
            groups.setdefault(f"{one.names['stack']} {one.names['family']}", []).append((abs(change), error))

    def score(share: float) -> float:
        return sum(fmean(interval_score(share * change, error) for change, error in pairs) for pairs in groups.values())

    return min(_CHANGES, key=score)


def _is_pair(one: Compared, other: Compared) -> bool:
    """Return True for runs of the same model and stack that differ in version, IPUs or chip."""

    def model_of(each: Compared) -> tuple[dict[str, str], dict[str, float]]:
        names = {name: value for name, value in each.names.items() if name != "links"}
        return names, {**each.sizes, "ipu_count": 0.0}

    return one.configuration != other.configuration and model_of(one) == model_of(other)


def kernels_of(comparisons: Sequence[RowComparison]) -> dict[str, float]:
    """Return the standard deviations with the least score for each group of microbenchmarks."""
    groups: dict[str, list[Compared]] = {}
    for row in comparisons:
        if not row.scenarios:
            error = math.log(row.predicted / row.published)
            one = Compared(row.name, "", row.name, row.role, {}, {}, error, (row.uncertainty or 0.0) ** 2, 0.0)
            groups.setdefault(row.group.removeprefix("Mk1 ").removeprefix("Bow "), []).append(one)
    return {group: constant_sigma(runs) for group, runs in groups.items()}


def _rounded(value: Any) -> Any:
    """Round numbers to the digits that matter, so that the file is the same on every machine."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value


def plain_of(runs: Sequence[Compared]) -> dict[str, Any]:
    """Return the parameters that follow from the runs alone."""
    found = derived(runs)
    return {"other_activity": found.other_activity, "step": found.step, "change": found.change}


def main() -> int:
    """Write the file, which takes minutes; with `--check` report whether it follows from its rows."""
    if "--check" in sys.argv[1:] or "--derive" in sys.argv[1:]:
        plain = json.loads(TARGET.read_text(encoding="utf-8"))
        again = _rounded(plain_of(tuple(Compared(**each) for each in plain["runs"])))
        if "--check" in sys.argv[1:]:
            if all(plain[name] == each for name, each in again.items()):
                return 0
            print(f"{FILE}: out of date; run `python tools/make_residuals.py`", file=sys.stderr)
            return 1
        _write(plain | again)
        return 0
    comparisons, known = validate(list), Constants()
    points = tuple(points_of(comparisons, known))
    runs = tuple(Compared(**_rounded(asdict(without_origin))) for without_origin in without_origins(points, known))
    rest = {
        "kernels": kernels_of(comparisons),
        "machine": known.ranges,
        "machines": known.ranges_of_machines,
        "runs": list(map(asdict, runs)),
    }
    _write(_rounded(plain_of(runs)) | _rounded(rest))
    return 0


def _write(plain: Mapping[str, Any]) -> None:
    """Write the file with one run per line."""
    head = [
        f"{json.dumps(name)}: {json.dumps(each, ensure_ascii=False)}" for name, each in plain.items() if name != "runs"
    ]
    rows = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in plain["runs"])
    TARGET.write_text(",\n ".join(["{\n " + head[0], *head[1:], f'"runs": [\n  {rows}\n ]\n}}\n']), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
