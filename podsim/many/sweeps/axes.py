"""The values of a study's keys: lists, ranges, samples, and keys that vary together."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podsim.errors import BadValueError, PodsimError
from podsim.many.sweeps.spec import MOST_POINTS, RangeSpec, SamplesSpec, StudySpec, Value
from podsim.scenario.document import KeyPath

NUMBER_AND_UNIT: Final = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(\D.*)?")
_DIGITS: Final = 12
_MOST_LISTED: Final = 2 * MOST_POINTS
"""Values that are listed or drawn for all axes together; one study cannot need more, and they have to be in memory."""


class AxisError(BadValueError):
    """Values of a study that do not go together.

    Attributes:
        path: Key path in the study of what is wrong.
    """

    def __init__(self, message: str, do: str, path: KeyPath) -> None:
        super().__init__(message, do)
        self.path = path


@dataclass(frozen=True, slots=True)
class SweptAxis:
    """Keys that vary together.

    Attributes:
        keys: Their names.
        values: Their values, one of each key at every place of the axis.
    """

    keys: tuple[str, ...]
    values: Sequence[tuple[Value, ...]]


def axes_of(study: StudySpec) -> tuple[SweptAxis, ...]:
    """The axes that are crossed: groups that vary together, samples, and every other key on its own.

    Raises:
        AxisError: Ends of a range have different units, a group names a key that is not there, its members
            differ in length, or ranges and samples do not go together.
    """
    given = {**study.names, **study.keys}
    drawn = {key: each for key, each in given.items() if isinstance(each, RangeSpec) and each.count is None}
    _check_count(study, {key: each for key, each in given.items() if key not in drawn}, len(drawn))
    listed = {key: _values(_path(key, study), each) for key, each in given.items() if key not in drawn}
    together = [_together(group, listed, ("zipped", place)) for place, group in enumerate(study.zipped)]
    members = [key for axis in together for key in axis.keys]
    taken = set(members)
    if twice := next((key for key in members if members.count(key) > 1), None):
        what, do = f"`zipped` names `{twice}` twice", "name each key once; keys of one group vary together"
        raise AxisError(what, do, ("zipped",))
    alone = [SweptAxis((key,), _Alone(values)) for key, values in listed.items() if key not in taken]
    return (*together, *alone, *_sampled({_path(key, study): each for key, each in drawn.items()}, study.samples))


def _check_count(study: StudySpec, counted: Mapping[str, Sequence[Value] | RangeSpec], drawn: int) -> None:
    """Refuse more values than fit into memory, before there are any."""
    zipped = {key for group in study.zipped for key in group}
    counts = {
        key: len(each) if not isinstance(each, RangeSpec) else (each.count or 0) * (each.whole or key in zipped)
        for key, each in counted.items()
    }
    paths = {_path(key, study): count for key, count in counts.items()}
    paths["samples", "count"] = drawn * (study.samples.count if study.samples else 0)
    total, (path, most) = sum(paths.values()), max(paths.items(), key=lambda item: item[1])
    if total > _MOST_LISTED:
        what = f"the study lists {total:,} values, {most:,} of them here; the limit is {_MOST_LISTED:,}"
        raise AxisError(what, "give a smaller `count`", path)


def _path(key: str, study: StudySpec) -> KeyPath:
    return ("keys" if key in study.keys else "names", key)


def _together(group: Sequence[str], listed: Mapping[str, Sequence[Value]], path: KeyPath) -> SweptAxis:
    missing = next((key for key in group if key not in listed), None)
    if missing is not None:
        raise AxisError(f"`zipped` names `{missing}`, which has no list of values", "name keys of this study", path)
    counts = {key: len(listed[key]) for key in group}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{key} has {count}" for key, count in counts.items())
        what = f"keys that vary together need as many values each: {shown}"
        raise AxisError(what, "give them as many values", path)
    return SweptAxis(tuple(group), list(zip(*(listed[key] for key in group), strict=True)))


def _values(path: KeyPath, given: Sequence[Value] | RangeSpec) -> Sequence[Value]:
    if not isinstance(given, RangeSpec):
        return given
    assert given.count is not None
    values = _Steps(_between(path, given), given.count)
    return list(dict.fromkeys(values)) if given.whole else values


def _sampled(drawn: Mapping[KeyPath, RangeSpec], samples: SamplesSpec | None) -> Iterator[SweptAxis]:
    if not drawn and samples is None:
        return
    if samples is None:
        path = next(iter(drawn))
        raise AxisError(f"the range of `{path[-1]}` has no count", "give it a `count`, or add `samples`", path)
    if not drawn:
        raise AxisError("there is no range to draw samples from", "write a range without `count`", ("samples",))
    ends = [_between(path, each) for path, each in drawn.items()]
    rows = _spread(len(drawn), samples)
    yield SweptAxis(
        tuple(str(path[-1]) for path in drawn),
        [tuple(at(share) for at, share in zip(ends, row, strict=True)) for row in rows],
    )


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
class _Alone(Sequence[tuple[Value, ...]]):
    """Values of a key that varies on its own."""

    values: Sequence[Value]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, place: Any) -> Any:
        return (self.values[place],)


@dataclass(frozen=True, slots=True)
class _Steps(Sequence[Value]):
    """Values of a range, made when they are asked for: there may be millions."""

    at: _Between
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: Any) -> Any:
        if not 0 <= place < self.length:
            raise IndexError(place)
        return self.at(place / max(1, self.length - 1))


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
    if unit != other:
        what = f"`{path[-1]}` goes from {given.from_} to {given.to}, which have different units"
        raise AxisError(what, "write both ends in the same unit", path)
    if not math.isfinite(last - first):
        what = f"`{path[-1]}` goes from {given.from_} to {given.to}, which is too far for numbers"
        raise AxisError(what, "write ends nearer to 0", path)
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
