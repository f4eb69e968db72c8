"""The values of a study's keys: lists, ranges, samples, and keys that vary together."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from podsim.errors import BadValueError, PodsimError
from podsim.scenario.document import KeyPath
from podsim.study.sweep.spec import MOST_POINTS, RangeSpec, SamplesSpec, StudySpec, Value

NUMBER_AND_UNIT: Final = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\D.*)?")
_DIGITS: Final = 12
_MOST_LISTED: Final = 2 * MOST_POINTS
"""Values that are listed or drawn for all axes together; one study cannot need more, and they have to be in memory."""


class AxisError(BadValueError):
    """Values of a study that do not go together, with the key path in the study of what is wrong."""

    def __init__(self, message: str, do: str, path: KeyPath) -> None:
        super().__init__(message, do)
        self.path = path


@dataclass(frozen=True, slots=True)
class SweptAxis:
    """Keys that vary together, and one value of each at every place of the axis."""

    keys: tuple[str, ...]
    values: Sequence[tuple[Value, ...]]


def axes_of(study: StudySpec) -> tuple[SweptAxis, ...]:
    """The axes that are crossed: groups that vary together, samples, and every other key on its own.

    Raises:
        AxisError: Ends of a range have different units, a group names a key that is not there, its members
            differ in length, or ranges and samples do not go together.
    """
    given = {**study.names, **study.keys}
    paths: dict[str, KeyPath] = {key: ("keys" if key in study.keys else "names", key) for key in given}
    drawn = {paths[key]: each for key, each in given.items() if isinstance(each, RangeSpec) and each.count is None}
    counted = {key: each for key, each in given.items() if paths[key] not in drawn}
    grouped = [key for group in study.zipped for key in group]
    listed_counts = {
        paths[key]: len(each) if not isinstance(each, RangeSpec) else (each.count or 0) * (each.whole or key in grouped)
        for key, each in counted.items()
    }
    _check_count(listed_counts | {("samples", "count"): len(drawn) * (study.samples.count if study.samples else 0)})
    listed = {key: _values(paths[key], each) for key, each in counted.items()}
    together = [_together(group, listed, ("zipped", place)) for place, group in enumerate(study.zipped)]
    if twice := next((key for key in grouped if grouped.count(key) > 1), None):
        what, do = f"`zipped` names `{twice}` twice", "name each key once; keys of one group vary together"
        raise AxisError(what, do, ("zipped",))
    alone = [
        SweptAxis((key,), _Made(len(values), partial(_one_of, values)))
        for key, values in listed.items()
        if key not in grouped
    ]
    return (*together, *alone, *_sampled(drawn, study.samples))


def _check_count(counts: Mapping[KeyPath, int]) -> None:
    """Refuse more values than fit into memory, before there are any."""
    total, (path, most) = sum(counts.values()), max(counts.items(), key=lambda item: item[1])
    if total > _MOST_LISTED:
        what = f"the study lists {total:,} values, {most:,} of them here; the limit is {_MOST_LISTED:,}"
        raise AxisError(what, "give a smaller `count`", path)


def _together(group: Sequence[str], listed: Mapping[str, Sequence[Value]], path: KeyPath) -> SweptAxis:
    missing = next((key for key in group if key not in listed), None)
    if missing is not None:
        raise AxisError(f"`zipped` names `{missing}`, which has no list of values", "name keys of this study", path)
    if len({len(listed[key]) for key in group}) > 1:
        shown = ", ".join(f"{key} has {len(listed[key])}" for key in group)
        what = f"keys that vary together need as many values each: {shown}"
        raise AxisError(what, "give them as many values", path)
    return SweptAxis(tuple(group), list(zip(*(listed[key] for key in group), strict=True)))


def _values(path: KeyPath, given: Sequence[Value] | RangeSpec) -> Sequence[Value]:
    if not isinstance(given, RangeSpec):
        return given
    count = given.count or 0
    values = _Made(count, partial(_step, _between(path, given), count))
    return list(dict.fromkeys(values)) if given.whole else values


def _sampled(drawn: Mapping[KeyPath, RangeSpec], samples: SamplesSpec | None) -> Iterator[SweptAxis]:
    if drawn and samples is None:
        path = next(iter(drawn))
        raise AxisError(f"the range of `{path[-1]}` has no count", "give it a `count`, or add `samples`", path)
    if not drawn and samples is not None:
        raise AxisError("there is no range to draw samples from", "write a range without `count`", ("samples",))
    if samples is not None:
        ends = [_between(path, each) for path, each in drawn.items()]
        rows = _spread(len(drawn), samples)
        values = [tuple(at(share) for at, share in zip(ends, row, strict=True)) for row in rows]
        yield SweptAxis(tuple(str(path[-1]) for path in drawn), values)


def _spread(dimensions: int, samples: SamplesSpec) -> Sequence[Sequence[float]]:
    """Points of the unit cube. Source: `scipy.stats.qmc`."""
    try:
        from scipy.stats import qmc
    except ImportError as error:
        do = "pip install 'podsim[sweep]'"
        raise PodsimError("samples need scipy, which is not installed", do=do) from error
    if samples.method == "sobol" and samples.count & (samples.count - 1):
        do = "draw a power of two, such as 4 or 64, or write `method: latin_hypercube`"
        what = f"a Sobol sequence of {samples.count:,} points does not fill its ranges evenly"
        raise AxisError(what, do, ("samples", "count"))
    kind = qmc.Sobol if samples.method == "sobol" else qmc.LatinHypercube
    rows: Sequence[Sequence[float]] = kind(dimensions, seed=samples.seed).random(samples.count).tolist()
    return rows


@dataclass(frozen=True, slots=True)
class _Made(Sequence[Any]):
    """Values that are made when they are asked for: there may be millions."""

    length: int
    make: Callable[[int], Any]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: Any) -> Any:
        if not 0 <= place < self.length:
            raise IndexError(place)
        return self.make(place)


def _one_of(values: Sequence[Value], place: int) -> tuple[Value, ...]:
    return (values[place],)


def _step(between: _Between, count: int, place: int) -> Value:
    return between(place / max(1, count - 1))


@dataclass(frozen=True, slots=True)
class _Between:
    """Values between two ends, by the share of the way."""

    first: float
    last: float
    unit: str
    logarithmic: bool
    whole: bool

    def __call__(self, share: float) -> Value:
        if self.logarithmic:
            number = self.first * (self.last / self.first) ** share
        else:
            number = self.first + (self.last - self.first) * share
        number = float(f"{number:.{_DIGITS}g}") + 0.0  # not -0
        number = round(number) if self.whole or number.is_integer() else number
        return f"{number} {self.unit}" if self.unit else number


def _between(path: KeyPath, given: RangeSpec) -> _Between:
    (first, unit), (last, other) = (_split(path, end) for end in (given.from_, given.to))
    between = f"`{path[-1]}` goes from {given.from_} to {given.to}, which"
    if unit != other:
        raise AxisError(f"{between} have different units", "write both ends in the same unit", path)
    if not math.isfinite(last - first):
        raise AxisError(f"{between} is too far for numbers", "write ends nearer to 0", path)
    if given.scale == "log" and (min(first, last) <= 0 <= max(first, last) or not math.isfinite(last / first)):
        raise AxisError(f"`{path[-1]}` has an end at 0, or ends of both signs", "use `scale: linear`", path)
    return _Between(first, last, unit, given.scale == "log", given.whole)


def _split(path: KeyPath, end: Value) -> tuple[float, str]:
    """A number and its unit."""
    match = None if isinstance(end, bool) else NUMBER_AND_UNIT.fullmatch(str(end))
    if match is None:
        what = f"`{path[-1]}` needs numbers at the ends of its range, not {end}"
        raise AxisError(what, "write 8 GB/s, or 8", path)
    return float(match[1]), (match[2] or "").strip()
