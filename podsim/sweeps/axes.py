"""The values of a study's keys: lists, ranges, samples, and keys that vary together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podsim.errors import BadValueError, PodsimError
from podsim.sweeps.spec import RangeSpec, SamplesSpec, StudySpec, Value

_NUMBER_AND_UNIT: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(\D.*)?")
_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Axis:
    """Keys that vary together.

    Attributes:
        keys: Their names.
        values: Their values, one of each key at every place of the axis.
    """

    keys: tuple[str, ...]
    values: Sequence[tuple[Value, ...]]


def axes_of(study: StudySpec) -> tuple[Axis, ...]:
    """The axes that are crossed: groups that vary together, samples, and every other key on its own.

    Raises:
        BadValueError: Ends of a range have different units, a group names a key that is not there, its members
            differ in length, or ranges and samples do not go together.
    """
    given = {**study.names, **study.keys}
    drawn = {key: each for key, each in given.items() if isinstance(each, RangeSpec) and each.count is None}
    listed = {key: _values(key, each) for key, each in given.items() if key not in drawn}
    together = [_together(group, listed) for group in study.zipped]
    members = [key for axis in together for key in axis.keys]
    taken = set(members)
    if twice := next((key for key in taken if members.count(key) > 1), None):
        raise BadValueError(f"`zipped` names `{twice}` twice", "name each key once; keys of one group vary together")
    alone = [Axis((key,), [(value,) for value in values]) for key, values in listed.items() if key not in taken]
    return (*together, *alone, *_sampled(drawn, study.samples))


def _together(group: Sequence[str], listed: Mapping[str, Sequence[Value]]) -> Axis:
    missing = next((key for key in group if key not in listed), None)
    if missing is not None:
        raise BadValueError(f"`zipped` names `{missing}`, which has no list of values", "name keys of this study")
    counts = {key: len(listed[key]) for key in group}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{key} has {count}" for key, count in counts.items())
        raise BadValueError(f"keys that vary together need as many values each: {shown}", "give them as many values")
    return Axis(tuple(group), list(zip(*(listed[key] for key in group), strict=True)))


def _values(key: str, given: Sequence[Value] | RangeSpec) -> Sequence[Value]:
    if not isinstance(given, RangeSpec):
        return given
    assert given.count is not None
    steps = max(1, given.count - 1)
    at = _between(key, given)
    values = [at(step / steps) for step in range(given.count)]
    return list(dict.fromkeys(values)) if given.whole else values


def _sampled(drawn: Mapping[str, RangeSpec], samples: SamplesSpec | None) -> Iterator[Axis]:
    if not drawn and samples is None:
        return
    if samples is None:
        raise BadValueError(f"the range of `{next(iter(drawn))}` has no count", "give it a `count`, or add `samples`")
    if not drawn:
        raise BadValueError("there is no range to draw samples from", "write a range without `count`")
    ends = [_between(key, each) for key, each in drawn.items()]
    rows = _spread(len(drawn), samples)
    yield Axis(tuple(drawn), [tuple(at(share) for at, share in zip(ends, row, strict=True)) for row in rows])


def _spread(dimensions: int, samples: SamplesSpec) -> Sequence[Sequence[float]]:
    """Points of the unit cube. Source: `scipy.stats.qmc`."""
    try:
        from scipy.stats import qmc
    except ImportError as error:
        do = "pip install 'podsim[sweep]'"
        raise PodsimError("samples need scipy, which is not installed", do=do) from error
    if samples.method == "sobol" and samples.count & (samples.count - 1):
        do = "draw a power of two, such as 4 or 64, or write `method: latin_hypercube`"
        raise BadValueError(f"a Sobol sequence of {samples.count:,} points does not fill its ranges evenly", do)
    kind = qmc.Sobol if samples.method == "sobol" else qmc.LatinHypercube
    rows: Sequence[Sequence[float]] = kind(dimensions, seed=samples.seed).random(samples.count).tolist()
    return rows


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
        number = float(f"{number:.{_DIGITS}g}")
        number = round(number) if self.whole or number.is_integer() else number
        return f"{number} {self.unit}" if self.unit else number


def _between(key: str, given: RangeSpec) -> _Between:
    (first, unit), (last, other) = (_split(key, end) for end in (given.from_, given.to))
    if unit != other:
        what = f"`{key}` goes from {given.from_} to {given.to}, which have different units"
        raise BadValueError(what, "write both ends in the same unit")
    if given.scale == "log" and not first * last > 0:
        raise BadValueError(f"`{key}` has an end at 0, or ends of both signs", "use `scale: linear`")
    return _Between(first, last, unit, given.scale == "log", given.whole)


def _split(key: str, end: Value) -> tuple[float, str]:
    """A number and its unit."""
    match = None if isinstance(end, bool) else _NUMBER_AND_UNIT.fullmatch(str(end))
    if match is None:
        raise BadValueError(f"`{key}` needs numbers at the ends of its range, not {end}", "write 8 GB/s, or 8")
    return float(match[1]), (match[2] or "").strip()
