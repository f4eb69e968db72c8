"""Errors of runs that were left out while constants were fitted, and what they say of predictions nobody has checked.

A published run is left out with its configuration, or with all runs of its framework, family, chip or size; the
constants are fitted again to the calibration rows that remain, and the run is predicted with them. Constants act
linearly on the logarithm of a time within what they move here: a run is simulated once with each constant moved.
A constant that no row is left for is replaced by that of its base stack, or by what could be said without one
(`PARAMETERS`), and a switch of a software stack whose rows are all left out (`reference_data/switches.csv`) by what its
base has.

Scatter is what it takes, beside the spread from uncertain inputs and that of the measurement, to hold `SHARE` of the
left-out errors. Configurations count, not rows: the rows of one weigh as one. Quantiles are those of n + 1 intervals,
so that a few configurations say less than many.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, Final

import numpy as np

from podsim.draws import SHARE
from podsim.errors import PodsimError
from podsim.format import format_duration_s
from podsim.metrics import METRICS, OUTPUT_TOKEN, THROUGHPUT, UPDATE
from podsim.result.envelope import numbers_of
from podsim.result.influence import StandsOn
from podsim.result.ranges import MODEL
from podsim.result.ranges import NORMAL_P90 as Z
from podsim.result.reference_data import rows
from podsim.result.scatter import (
    ALL,
    FILE,
    KERNELS,
    Covered,
    Scatter,
    ScatterTable,
    Traits,
    framework_of,
    plain_table,
    traits_of,
)
from podsim.runs import run
from podsim.scenario import data_file, load_scenario
from podsim.scenario.assumptions import Assumption, assumptions, with_number
from podsim.validation.comparison import RowComparison, Sizes, evidence, sizes_of
from podsim.validation.reference_data import CALIBRATION
from podsim.watch import Watch

_ENOUGH: Final = 4
"""Configurations from which on a quantile of `SHARE` is one of them."""
_ROW_ERROR: Final = 0.03
"""What a row is weighed with against what is said of a constant without rows."""
_MOVED: Final = 1.02
_LEAST_SIGMA: Final = 0.005
"""The least standard deviation of the scatter: an assumption, since few rows cannot show that errors are smaller."""
_TRAINING, _GENERATION, _FORWARD = "training", "generation", "forward"
_GRAPHS: Final = "PyTorch Geometric"
_METRIC: Final = {
    _TRAINING: UPDATE,
    _GENERATION: OUTPUT_TOKEN,
    _FORWARD: THROUGHPUT,
}
_GROUPS: Final = frozenset(
    {
        *("BERT weight update", "ResNet-50 weight update", "published throughput"),
        *("published forward passes", "published text generation", "published graph networks"),
    }
)
"""Groups of comparisons that stand for their runs; the others are made of the same runs."""


@dataclass(frozen=True, slots=True)
class FittedConstant:
    """A fitted constant, and what could be said of it without the rows that it was fitted to.

    Attributes:
        name: Its name, with its framework where others have their own.
        key: Key path in a scenario.
        activity: Activity whose times it moves; all if None.
        frameworks: Frameworks that have it; all if empty.
        without: Its value where no row is left; the name of the constant of its base stack, if that has one.
        spread: How far that may be off, as one standard deviation.
        fitted_with: The framework whose calibration rows it is fitted to.
        scenario: A scenario that has it.
        unit: Unit of both.
    """

    name: str
    key: str
    activity: str | None
    frameworks: tuple[str, ...]
    without: float | str
    spread: float
    fitted_with: str
    scenario: str
    unit: str = "s"

    @property
    def committed(self) -> Assumption:
        """It in the files of hardware, with its range."""
        (found,) = (each for each in assumptions(load_scenario(self.scenario).spec) if each.key == self.key)
        return found

    def instead(self, said: float) -> str:
        """What stands for it where no row is left, and within what."""
        least, most = max(0.0, said - self.spread), said + self.spread
        value, *both = (_quantity(each, self.unit) for each in (said, least, most))
        ends = " to ".join(both)
        of_base = f", as {self.without}" if isinstance(self.without, str) else ""
        return f"{self.name}: {value}{of_base}, {ends}"

    def acts_on(self, point: LeftOutRun) -> bool:
        """Whether a run's time depends on it."""
        is_meant = self.activity in (None, point.activity)
        return is_meant and (not self.frameworks or point.framework in self.frameworks)


def _quantity(value: float, unit: str) -> str:
    return format_duration_s(value) if unit == "s" else f"{value:.3g} {unit}"


_OF_POPART: Final = "session call of PopART"
_CALL, _GRAPH_S = "software.host_call", "software.sample_load_time"
_BERT, _RESNET = "bert_v1.1_pod64_open", "resnet50_v1.1_pod16"
_PACKED, _SCHNET = "bert_large_phase1_packed_pytorch_pod16", "schnet_qm9_bow_pod64"
_C600 = "resnet50_c600"
PARAMETERS: Final = (
    # Two estimates of the library for copies of large pieces, 0.44 and 0.625 cycles per byte: their geometric mean.
    FittedConstant(
        *("layout changes", "software.layout_change_cycles_per_byte", None, (), 0.52, 0.15, "PopART", _BERT),
        unit="cycles/B",
    ),
    # Session calls of frameworks are 30 to 140 ms apart: their mean. That of PopART is the base of the others.
    FittedConstant(_OF_POPART, _CALL, _TRAINING, ("PopART", "PaddlePaddle"), 0.08, 0.06, "PopART", _BERT),
    FittedConstant(
        *("session call of TensorFlow", _CALL, _TRAINING, ("TensorFlow",), _OF_POPART, 0.06, "TensorFlow", _RESNET)
    ),
    FittedConstant("session call of PyTorch", _CALL, _TRAINING, ("PyTorch",), _OF_POPART, 0.06, "PyTorch", _PACKED),
    FittedConstant("streams", "software.stream_time", None, ("PyTorch",), 0.0, 20e-6, "PyTorch", _PACKED),
    FittedConstant(
        "stream of graphs", "software.stream_time", _TRAINING, (_GRAPHS,), "streams", 30e-6, _GRAPHS, _SCHNET
    ),
    FittedConstant("load of graphs", _GRAPH_S, _TRAINING, (_GRAPHS,), 50e-6, 50e-6, _GRAPHS, _SCHNET),
    FittedConstant("forward call", "software.forward_call", _FORWARD, (), 0.3e-3, 0.3e-3, "PopART", _C600),
    FittedConstant("forward exchange", "software.forward_exchange", _FORWARD, (), 50e-6, 50e-6, "PopART", _C600),
)


@dataclass(frozen=True, slots=True)
class LeftOutRun:
    """A published run and what moves its prediction.

    Attributes:
        name: The row.
        title: The scenario.
        configuration: What it shares with rows that are no evidence beside it.
        role: `calibration` or `hold-out`.
        activity: What the model does.
        framework: The framework without its version.
        sdk: Version of the SDK.
        family: Kind of the model.
        chip: Name of the chip.
        ipu_count: IPUs in use.
        machine: Numbers of the machine by key.
        error: Logarithm of predicted over measured time.
        input_sigma: Standard deviation of that logarithm from uncertain inputs.
        data_sigma: That of the measurement.
        slopes: Change of the logarithm per unit of each parameter.
        switches: Change of the logarithm without each switch of its stack that was chosen.
    """

    name: str
    title: str
    configuration: str
    role: str
    activity: str
    framework: str
    sdk: str
    family: str
    chip: str
    ipu_count: int
    machine: Mapping[str, float]
    error: float
    input_sigma: float
    data_sigma: float
    slopes: Mapping[str, float]
    switches: Mapping[str, float]

    @property
    def traits(self) -> Traits:
        """What distances are measured by."""
        return Traits(self.activity, self.framework, self.family, self.ipu_count, self.machine)

    @property
    def known_variance(self) -> float:
        """What inputs and measurement explain."""
        return self.input_sigma**2 + self.data_sigma**2


# Measuring


def points_of(comparisons: Sequence[RowComparison], progress: Watch) -> tuple[LeftOutRun, ...]:
    """The rows that stand for a run, each with what moves its prediction.

    Args:
        comparisons: All rows.
        progress: Passes on the names of the scenarios.
    """
    chosen = [row for row in comparisons if row.group.partition(",")[0].removeprefix("PaddlePaddle ") in _GROUPS]
    moved = {title: _moved(title) for title in progress(tuple(dict.fromkeys(row.scenarios[0] for row in chosen)))}
    return tuple(_point(row, moved[row.scenarios[0]]) for row in chosen)


def _point(row: RowComparison, moved: LeftOutRun) -> LeftOutRun:
    late = math.log(row.predicted / row.published)
    error = -late if row.unit.endswith("/s") else late
    name = row.name.partition(":")[0]
    return replace(moved, name=name, role=row.role, error=error, data_sigma=row.uncertainty or 0.0)


def _moved(title: str) -> LeftOutRun:
    """A run with all that moves it; its error and measurement are left open."""
    name, _, variant = title.partition("@")
    result = run(name, variant=variant or None)
    stands_on: Any = result.assumptions
    spec, probe = stands_on.spec, stands_on.probe
    framework, sdk = framework_of(spec.software.framework), spec.software.sdk
    metric = _METRIC[spec.activity.value]
    sign = -1 if METRICS[metric].more_is_better else 1

    def log_time(changed: Any) -> float:
        try:
            measure = probe(changed, anew=True)
        except (PodsimError, ValueError):
            return base
        return base if measure is None else sign * math.log(measure.metrics[metric])

    base = 0.0
    base = log_time(spec)
    traits = traits_of(spec, numbers_of(spec)["ipu_count"])
    point = LeftOutRun(
        "",
        title,
        evidence(spec),
        "",
        *(spec.activity.value, framework, sdk, spec.model.kind, spec.system.machine.ipu.name, traits.ipu_count),
        traits.hardware,
        *(0.0, 0.0, 0.0, {}, {}),
    )
    uncertain = {each.key: each for each in assumptions(spec)}
    doubt = StandsOn(spec, probe, anew=True).doubts()[metric]
    variance = sum(part.variance for cause, part in doubt.parts.items() if cause != MODEL)
    slopes = {}
    for parameter in PARAMETERS:
        if parameter.acts_on(point) and parameter.key in uncertain:
            number = uncertain[parameter.key].number
            change = log_time(with_number(spec, parameter.key, number * _MOVED)) - base
            slopes[parameter.name] = change / (number * (_MOVED - 1))
    switches = {key: effect for key, effect in _switched(title, point, base, sign, metric) if effect}
    return replace(point, input_sigma=math.sqrt(variance), slopes=slopes, switches=switches)


def _acts_on(switch: Mapping[str, str], point: LeftOutRun) -> bool:
    """Whether a switch was chosen for the stack of a run."""
    sdks = switch["sdks"].split()
    return point.framework in switch["frameworks"].split() and (not sdks or point.sdk in sdks)


def _switched(title: str, point: LeftOutRun, base: float, sign: int, metric: str) -> Iterator[tuple[str, float]]:
    """What a run's time does without each switch of its stack."""
    name, _, variant = title.partition("@")
    for row in rows("switches"):
        if not _acts_on(row, point):
            continue
        try:
            changed: Any = run(name, variant=variant or None, overrides=[f"{row['key']}={row['otherwise']}"])
        except PodsimError:
            continue  # a key that this activity does not have, or a division that does not fit without it
        yield row["key"], sign * math.log(getattr(changed, metric)) - base


# Leaving out


class LeftOut:
    """Points, with the constants fitted to any of them."""

    def __init__(
        self,
        points: Sequence[LeftOutRun],
        committed: Mapping[str, float],
        products: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """Nothing is fitted yet.

        Args:
            points: All rows.
            committed: Values of the parameters that the predictions were made with.
            products: Logarithms of predicted over measured times of matrix products, by format of their operands.
        """
        self.points = tuple(points)
        self.committed = committed
        self.products = products or {}
        self._found: dict[frozenset[str], Any] = {}
        self._switches = [(row, frozenset(row["rows"].split())) for row in rows("switches")]
        self._all = self._fitted(frozenset())

    def errors(self, chosen: Iterable[LeftOutRun], without: Iterable[LeftOutRun] = ()) -> dict[str, float]:
        """Errors of points that are left out together, by name; others may be left out with them."""
        left = tuple(chosen)
        gone = frozenset(point.name for point in (*left, *without))
        change = self._fitted(gone) - self._all
        reverted = self._reverted(gone)
        return {
            point.name: point.error
            + sum(
                point.slopes.get(parameter.name, 0.0) * step for parameter, step in zip(PARAMETERS, change, strict=True)
            )
            + sum(point.switches.get(each["key"], 0.0) for each in reverted if _acts_on(each, point))
            for point in left
        }

    def without_each(self, constant: FittedConstant) -> dict[str, float]:
        """What a constant is fitted to be without each configuration of calibration rows that it acts on, by name."""
        index = PARAMETERS.index(constant)
        acted_on = [point for point in self.points if point.role == CALIBRATION and point.slopes.get(constant.name)]
        found: dict[str, float] = {}
        for name, same in _by(acted_on, lambda point: point.configuration).items():
            change = (self._fitted(frozenset(point.name for point in same)) - self._all)[index]
            value = self.committed[constant.name] + float(change)
            found[name] = value
        return found

    def replaced(self, gone: Sequence[LeftOutRun]) -> tuple[str, ...]:
        """What stands for constants and switches that no row is left for and that points which are left out have."""
        names = frozenset(point.name for point in gone)
        known = self._known_without(names)
        had = {name for point in gone for name, slope in point.slopes.items() if slope}
        return (
            *(each.instead(self._said(each, known)) for each in PARAMETERS if each.name in had - known),
            *(
                f"{each['key'].partition('.')[2]}: {each['otherwise']}"
                for each in self._reverted(names)
                if any(each["key"] in point.switches and _acts_on(each, point) for point in gone)
            ),
        )

    def _known_without(self, gone: frozenset[str]) -> set[str]:
        """Constants that calibration rows are left for."""
        left = [point for point in self.points if point.role == CALIBRATION and point.name not in gone]
        return {name for point in left for name, slope in point.slopes.items() if slope}

    def _said(self, constant: FittedConstant, known: Collection[str]) -> float:
        """What is said of a constant without its rows; of one with a base that rows are left for, what that has."""
        if not isinstance(constant.without, str):
            return constant.without
        if constant.without in known:
            return self.committed[constant.without]
        (base,) = (each for each in PARAMETERS if each.name == constant.without)
        return self._said(base, known)

    def _reverted(self, gone: frozenset[str]) -> list[dict[str, str]]:
        """Switches whose rows are all gone."""
        return [switch for switch, names in self._switches if names <= gone]

    def _fitted(self, gone: frozenset[str]) -> Any:
        """Parameters less their committed values, by least squares over the calibration rows that remain."""
        if gone not in self._found:
            matrix, right = [], []
            for point in self.points:
                if point.role == CALIBRATION and point.name not in gone:
                    matrix.append([point.slopes.get(each.name, 0.0) * each.spread / _ROW_ERROR for each in PARAMETERS])
                    right.append(-point.error / _ROW_ERROR)
            known = self._known_without(gone)
            for index, each in enumerate(PARAMETERS):
                matrix.append([float(index == other) for other in range(len(PARAMETERS))])
                right.append((self._said(each, known) - self.committed[each.name]) / each.spread)
            solution, *_ = np.linalg.lstsq(np.array(matrix), np.array(right))
            self._found[gone] = solution * [each.spread for each in PARAMETERS]
        return self._found[gone]

    # What the errors say

    def table(self, remaining: Sequence[LeftOutRun]) -> ScatterTable:
        """What scatter follows from the points that remain; the others are as if nobody had measured them.

        Args:
            remaining: The points.
        """
        names = {point.name for point in remaining}
        gone = [point for point in self.points if point.name not in names]
        alone: dict[str, float] = {}
        for same in _by(remaining, lambda point: point.configuration).values():
            alone |= self.errors(same, gone)
        covered = {
            activity: _covered(points, alone) for activity, points in _by(remaining, lambda p: p.activity).items()
        }
        products = {dtype: _quantile([abs(each) for each in errors]) / Z for dtype, errors in self.products.items()}
        table = ScatterTable(covered, _sigma(remaining, alone), {}, products)
        steps: dict[str, dict[str, float]] = {}
        for kind, groups in _distances(remaining).items():
            found: dict[str, list[float]] = {}
            for activity, group in groups:
                inside = {point.name for point in group}
                rest = [point for point in remaining if point.name not in inside]
                step = _step(kind, group, rest, self.errors(group, gone), alone)
                if step is not None:
                    found.setdefault(activity, []).append(step)
            every = [step for each in found.values() for step in each]
            pooled = _quantile(every) if every else table.base
            of_activities = found if kind in _BY_ACTIVITY else {}
            steps[kind] = {
                activity: _quantile(each) if len(each) >= _ENOUGH else max(_quantile(each), pooled)
                for activity, each in of_activities.items()
            } | {ALL: pooled}
        return replace(table, steps=steps)


_BY_ACTIVITY: Final = ("framework", "family")


def _distances(points: Sequence[LeftOutRun]) -> dict[str, list[tuple[str, list[LeftOutRun]]]]:
    """By kind of distance, groups to leave out, with their activity; each leaves something of its activity."""
    by_activity = _by(points, lambda point: point.activity)
    found: dict[str, list[tuple[str, list[LeftOutRun]]]] = {
        "activity": list(by_activity.items()) if len(by_activity) > 1 else [],
        "framework": [],
        "family": [],
        "size": [],
        "hardware": [],
    }
    for activity, each in by_activity.items():
        sizes = sorted({point.ipu_count for point in each})
        parts: tuple[tuple[str, Iterable[list[LeftOutRun]]], ...] = (
            ("framework", _by(each, lambda point: point.framework).values()),
            ("family", _by(each, lambda point: point.family).values()),
            ("size", ([p for p in each if p.ipu_count > size] for size in sizes[1:-1])),
            ("hardware", _by(each, lambda point: point.chip).values()),
        )
        for kind, groups in parts:
            found[kind] += [(activity, group) for group in groups if group and len(group) < len(each)]
    return found


def _step(
    kind: str,
    group: Sequence[LeftOutRun],
    rest: Sequence[LeftOutRun],
    errors: Mapping[str, float],
    alone: Mapping[str, float],
) -> float | None:
    """What one unit of a distance adds, as a standard deviation, to hold `SHARE` of a group that is left out.

    A run that is far in another way as well tells nothing of this one; None if there is no other.
    """
    same = [point for point in rest if point.activity == group[0].activity]
    known = {framework: _base(points, same, alone) for framework, points in _by(same, lambda p: p.framework).items()}
    families = {point.family for point in same}
    pooled = _sigma(same or rest, alone)
    covered = _covered(same, alone) if same else None
    excess = []
    for points in _by(group, lambda point: point.configuration).values():
        each = []
        for point in points:
            is_far = (kind != "framework" and point.framework not in known) or (
                kind != "family" and point.family not in families
            )
            units = _units(kind, point, covered)
            if units > 0 and (kind == "activity" or not is_far):
                base = known.get(point.framework, pooled)
                each.append(((errors[point.name] / Z) ** 2 - point.known_variance - base**2) / units)
        if each:
            excess.append(fmean(each))
    return math.sqrt(max(0.0, _quantile(excess))) if excess else None


def _units(kind: str, point: LeftOutRun, covered: Covered | None) -> float:
    """Units of variance that a distance has."""
    if kind in ("activity", "framework", "family") or covered is None:
        return 1.0
    if kind == "size":
        return max(0.0, math.log2(point.ipu_count / covered.ipu_count))
    alone = ScatterTable({point.activity: replace(covered, ipu_count=point.ipu_count)}, 0.0, _ONLY_HARDWARE)
    framework = replace(point.traits, framework=ALL, family=(covered.families or ("",))[0])
    return alone.of(framework).sigma ** 2 - covered.base[ALL] ** 2


_ONLY_HARDWARE: Final = {"framework": {ALL: 0.0}, "family": {ALL: 0.0}, "size": {ALL: 0.0}, "hardware": {ALL: 1.0}}


def _covered(points: Sequence[LeftOutRun], alone: Mapping[str, float]) -> Covered:
    """What the points of one activity cover."""
    base = {
        framework: _base(each, points, alone) for framework, each in sorted(_by(points, lambda p: p.framework).items())
    }
    hardware: dict[str, tuple[float, float]] = {}
    for point in points:
        for key, number in point.machine.items():
            low, high = hardware.get(key, (number, number))
            hardware[key] = min(low, number), max(high, number)
    families = tuple(sorted({point.family for point in points}))
    most = max(point.ipu_count for point in points)
    return Covered({ALL: _sigma(points, alone), **base}, families, most, dict(sorted(hardware.items())))


def _base(own: Sequence[LeftOutRun], pool: Sequence[LeftOutRun], alone: Mapping[str, float]) -> float:
    """Of a framework: its own where it has enough configurations, otherwise no less than that of all."""
    few = len({point.configuration for point in own}) < _ENOUGH
    return max(_sigma(own, alone), _sigma(pool, alone)) if few else _sigma(own, alone)


def _sigma(points: Iterable[LeftOutRun], errors: Mapping[str, float]) -> float:
    """What it takes beside inputs and measurement to hold `SHARE` of the configurations."""
    excess = [
        fmean((errors[point.name] / Z) ** 2 - point.known_variance for point in same)
        for same in _by(points, lambda point: point.configuration).values()
    ]
    return math.sqrt(max(_LEAST_SIGMA**2, _quantile(excess)))


def _quantile(values: Sequence[float]) -> float:
    """The value that `SHARE` of n + 1 intervals lie below; the greatest where there are too few.

    >>> _quantile([1.0, 2.0, 3.0, 4.0]), _quantile([5.0, 1.0])
    (4.0, 5.0)
    """
    ranked = sorted(values)
    place = SHARE * (len(ranked) + 1) - 1
    if place >= len(ranked) - 1:
        return ranked[-1]
    below = max(0, math.floor(place))
    return ranked[below] + (max(0.0, place) - below) * (ranked[below + 1] - ranked[below])


def _by(points: Iterable[LeftOutRun], key: Callable[[LeftOutRun], str]) -> dict[str, list[LeftOutRun]]:
    found: dict[str, list[LeftOutRun]] = {}
    for point in points:
        found.setdefault(key(point), []).append(point)
    return found


# Parts that are left out


@dataclass(frozen=True, slots=True)
class LeftOutRow:
    """A row that was left out.

    Attributes:
        name: The row.
        error: Its error then, as a share of the measured time.
        now: Its error with constants fitted to all calibration rows.
    """

    name: str
    error: float
    now: float


@dataclass(frozen=True, slots=True)
class LeftOutPart:
    """Rows that were left out together.

    Attributes:
        name: What was left out.
        rows: Its rows.
        configurations: Its configurations.
        inside: Of these, those inside of ranges that were made without it; one whose rows differ counts in parts.
        replaced: What stood for its constants and switches that no row was left for.
    """

    name: str
    rows: tuple[LeftOutRow, ...]
    configurations: int
    inside: float
    replaced: tuple[str, ...] = ()

    @property
    def sizes(self) -> Sizes:
        """How large its errors are, left out."""
        return sizes_of([row.error for row in self.rows])

    @property
    def mean_now(self) -> float:
        """Mean size of its errors with constants fitted to all calibration rows."""
        return fmean(abs(row.now) for row in self.rows)


_IMAGES: Final = ("resnet", "efficientnet")
WHOLE: Final[Mapping[str, Callable[[LeftOutRun], bool]]] = {
    "all of PyTorch": lambda point: point.framework == "PyTorch",
    "all of MLPerf v2.0": lambda point: "_v2.0_" in point.name,
    "all Bow": lambda point: point.chip == "Bow",
    "all convolutional networks": lambda point: point.family in _IMAGES,
    "all on more than 64 IPUs": lambda point: point.ipu_count > 64,
}
"""Groups that are left out whole, which may share rows."""
_ONE_BY_ONE: Final[Mapping[str, Callable[[LeftOutRun], str]]] = {
    "configuration": lambda point: point.configuration,
    "stack": lambda point: point.framework,
    "family": lambda point: point.family,
    "chip": lambda point: point.chip,
}
GROUPS: Final = "groups"
"""The groups of `WHOLE`."""
BY: Final = (*_ONE_BY_ONE, GROUPS)
"""What can be left out."""


def left_out(points: LeftOut, by: str) -> tuple[LeftOutPart, ...]:
    """Errors of each part that is left out, with the ranges that the rest gives it.

    Args:
        points: All rows.
        by: One of `BY`.
    """
    if by == GROUPS:
        parts = {name: [point for point in points.points if is_in(point)] for name, is_in in WHOLE.items()}
    else:
        parts = _by(points.points, _ONE_BY_ONE[by])
    return tuple(_part(points, name, part) for name, part in parts.items())


def _part(points: LeftOut, name: str, part: Sequence[LeftOutRun]) -> LeftOutPart:
    names = {point.name for point in part}
    table = points.table([point for point in points.points if point.name not in names])
    errors = points.errors(part)
    flags = [
        fmean(_is_inside(errors[point.name], point, table.of(point.traits)) for point in same)
        for same in _by(part, lambda point: point.configuration).values()
    ]
    found = (LeftOutRow(p.name, math.expm1(errors[p.name]), math.expm1(p.error)) for p in part)
    return LeftOutPart(name, tuple(found), len(flags), sum(flags), points.replaced(part))


def _is_inside(error: float, point: LeftOutRun, scatter: Scatter) -> bool:
    return abs(error) <= Z * math.sqrt(scatter.sigma**2 + point.known_variance)


def together(parts: Sequence[LeftOutPart]) -> LeftOutPart:
    """All rows of all parts; one that belongs to two of them counts twice.

    Args:
        parts: The parts.
    """
    rows_of_all = tuple(row for part in parts for row in part.rows)
    return LeftOutPart("together", rows_of_all, sum(p.configurations for p in parts), sum(p.inside for p in parts))


@dataclass(frozen=True, slots=True)
class FreedomLeft:
    """How much of an agreement was chosen.

    Attributes:
        runs: Framework and activity.
        configurations: Distinct configurations that constants are fitted to.
        constants: Names of the constants.
        switches: Keys of switches that were chosen after one of these rows was seen, with their values.
    """

    runs: str
    configurations: int
    constants: tuple[str, ...]
    switches: tuple[str, ...]

    @property
    def left(self) -> int:
        """Configurations beyond what was chosen for them; below zero, more was chosen than there is to meet."""
        return self.configurations - len(self.constants) - len(self.switches)


def freedom_left(points: LeftOut) -> tuple[FreedomLeft, ...]:
    """What was chosen for the calibration rows of each framework and activity.

    Args:
        points: All rows.
    """
    found = []
    for runs, same in _by(points.points, lambda point: f"{point.framework}, {point.activity}").items():
        chosen = [point for point in same if point.role == CALIBRATION]
        names = {point.name for point in chosen}
        switches = tuple(f"{r['key']} = {r['chosen']}" for r in rows("switches") if names & set(r["rows"].split()))
        constants = tuple(
            each.name
            for each in PARAMETERS
            if chosen and (each.fitted_with, each.activity or _TRAINING) == (chosen[0].framework, chosen[0].activity)
        )
        if chosen:
            found.append(FreedomLeft(runs, len({point.configuration for point in chosen}), constants, switches))
    return tuple(found)


# The file


def products_of(comparisons: Sequence[RowComparison]) -> dict[str, list[float]]:
    """Errors of measured matrix products, by format, and of convolutions and transfers.

    Args:
        comparisons: All rows.
    """
    found: dict[str, list[float]] = {}
    for row in comparisons:
        machine, _, what = row.group.partition(" ")
        if machine == "GEMM" or (machine == "Mk1" and what in KERNELS):
            found.setdefault(what, []).append(math.log(row.published / row.predicted))
    return found


def committed_values() -> dict[str, float]:
    """What the parameters are in the files of hardware."""
    found: dict[str, float] = {}
    for parameter in PARAMETERS:
        found[parameter.name] = parameter.committed.number
    return found


def shipped() -> LeftOut:
    """The points that ship, as they were when the file was made."""
    plain = json.loads(data_file(FILE).read_text(encoding="utf-8"))
    machines = plain["machines"]
    points = [LeftOutRun(**(each | {"machine": machines[each["machine"]]})) for each in plain["points"]]
    return LeftOut(points, plain["committed"], plain["products"])


def as_plain(points: LeftOut) -> dict[str, Any]:
    """What the file holds: the table, and the points that it follows from.

    Args:
        points: All rows.
    """
    machines: dict[str, Mapping[str, float]] = {}
    plain = []
    for point in points.points:
        name = next((n for n, numbers in machines.items() if numbers == point.machine), f"machine {len(machines) + 1}")
        machines[name] = point.machine
        plain.append(_rounded(asdict(point) | {"machine": name}))
    return {
        "table": _rounded(plain_table(points.table(points.points))),
        "committed": points.committed,
        "products": _rounded(points.products),
        "points": plain,
        "machines": machines,
    }


def _rounded(value: Any) -> Any:
    """Numbers with as many digits as matter, so that the file is the same on every machine."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list | tuple) else value
