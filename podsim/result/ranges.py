"""How sure a headline is: the middle 80 % of what it may be, from the influences that a run measures anyway.

Each input moves a time from one end of its range over its value to the other end, on a straight line on either side.
Drawn as draws are, from a triangle whose peak is the value, it adds a mean, a variance and a third moment to the
logarithm of the time. Those of independent inputs, of the scatter of the model itself and of the number of samples to
converge add up: the standard deviation is the root of the sum of squares. P10 and P90 follow by the expansion of
Cornish and Fisher up to the skewness.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from podsim.draws import SHARE, Range
from podsim.format import format_duration_s, format_ends, format_figure, format_percent
from podsim.metrics import METRICS, PER_SECOND, SECONDS, Metric, metric_of

if TYPE_CHECKING:
    from podsim.result.base import Result

NORMAL_P90: Final = 1.2816
"""Standard deviations below which nine tenths of a normal distribution lie."""
_QUARTER: Final = 0.6745
"""The same of three quarters."""
_POINTS: Final = 32
_SIDE: Final = tuple(1 - math.sqrt(1 - (number + 0.5) / _POINTS) for number in range(_POINTS))
"""Distances from the peak of a triangle, as shares of that of the end, that stand for equal shares of the draws."""
_MOST: Final = 0.5
_LEAST_SIGMA: Final = 0.01
"""Ranges that are narrower are those of an answer that no assumption makes unsure."""
MODEL: Final = "the model itself"
MACHINE: Final = "machine and stack beyond what was compared"
CONVERGENCE: Final = "samples to converge"
LATE: Final = "waiting for late machines"


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one cause adds to the logarithm of a figure.

    Attributes:
        mean: Its mean.
        variance: Its variance.
        third: Its third central moment.
        basis: What the input that causes it rests on; empty where that is no input.
    """

    mean: float
    variance: float
    third: float = 0.0
    basis: str = ""


@dataclass(frozen=True, slots=True)
class Doubt:
    """How unsure a figure is, by its causes.

    Attributes:
        parts: What each adds to the logarithm of the time, or of the inverse of the rate: by the key of an input,
            `MODEL` or `CONVERGENCE`.
    """

    parts: Mapping[str, Contribution]

    @property
    def factors(self) -> tuple[float, float]:
        """P10 and P90 of the time, as multiples of it, so wide that the time itself lies between them."""
        return min(1.0, self.at(-NORMAL_P90)), max(1.0, self.at(NORMAL_P90))

    def at(self, deviations: float) -> float:
        """The time so many standard deviations from its middle, as a multiple of the time as it is predicted.

        Args:
            deviations: Of a normal distribution; 0 is the median.
        """
        mean, sigma = sum(each.mean for each in self.parts.values()), math.sqrt(self.variance)
        skewness = sum(each.third for each in self.parts.values()) / sigma**3 if sigma else 0.0
        return math.exp(mean + sigma * (deviations + skewness * (deviations**2 - 1) / 6))

    @property
    def is_in_the_middle(self) -> bool:
        """Whether the time as it is predicted lies in the middle half of what it may be."""
        low, high = self.at(-_QUARTER), self.at(_QUARTER)
        return low <= 1 <= high or math.isclose(low, 1) or math.isclose(high, 1)

    @property
    def variance(self) -> float:
        """The sum of all variances."""
        return sum(each.variance for each in self.parts.values())


def of_uniform(most: float) -> Contribution:
    """What is anywhere between nothing and the most that it may be.

    >>> of_uniform(6.0)
    Contribution(mean=3.0, variance=3.0, third=0.0, basis='')
    """
    return Contribution(most / 2, most**2 / 12)


def of_triangle(low: float, high: float, below: float, basis: str = "") -> Contribution:
    """What an input adds to the logarithm of a time, drawn from a triangle whose peak is its value.

    On either side of the peak, the distance from it as a share u of that of the end does not exceed 1 - √(1 - q) in a
    share q of the draws. The time moves with u on a straight line; points that stand for equal shares give the moments.

    Args:
        low: The time with the input at its lower end, as a multiple of that at its value.
        high: The same at the upper end.
        below: Share of the triangle below its peak: of the width of the range, as much as lies below the value.
        basis: What the input rests on.
    """
    values = [(share, math.log(1 + (end - 1) * u)) for share, end in ((below, low), (1 - below, high)) for u in _SIDE]
    return _part([(share / len(_SIDE), value) for share, value in values], basis)


def of_values(values: Sequence[float]) -> Contribution:
    """What something adds that has one of some values, each as often as any other."""
    return _part([(1 / len(values), each) for each in values])


def _part(weighted: Sequence[tuple[float, float]], basis: str = "") -> Contribution:
    """Mean and central moments of values with their shares."""
    mean = sum(share * value for share, value in weighted)
    variance, third = (sum(share * (value - mean) ** power for share, value in weighted) for power in (2, 3))
    return Contribution(mean, variance, third, basis)


@runtime_checkable
class Doubtful(Protocol):
    """What a result stands on, where it is known how unsure that makes it."""

    def doubts(self) -> Mapping[str, Doubt]:
        """How unsure each figure of a run is; empty where an input is not measured."""

    def unmeasured(self) -> Sequence[str]:
        """Keys of inputs that move the result, nobody measured how far."""

    def reasons(self) -> Sequence[str]:
        """Sentences that say what widens the scatter of the model itself."""


def ranges_of(result: Result) -> Mapping[str, Range]:
    """The middle 80 % of what the figures of a result may be, by their names; a figure without a range is left out.

    Args:
        result: Of any activity. What its inputs move is measured when this is first called, which takes about as long
            as ten runs.
    """
    return result.ranges


def measured_ranges(result: Result) -> dict[str, Range]:
    """Ranges from what the inputs of a result move, and of what is in proportion to it.

    Args:
        result: Of any activity.
    """
    stands_on = result.assumptions
    if not isinstance(stands_on, Doubtful):
        return {}
    found = {}
    for name, (low, high) in _factors(result, stands_on.doubts()):
        value = result.predicted(name) if hasattr(result, name) else None
        if value is not None:
            found[name] = Range(value * low, value * high)
    return found


def _factors(result: Result, doubts: Mapping[str, Doubt]) -> Iterator[tuple[str, tuple[float, float]]]:
    """P10 and P90 as factors, of what a run measures and of what follows from it."""
    for name, doubt in doubts.items():
        less, more = doubt.factors
        for each in (metric_of(name), *(metric for metric in METRICS.values() if metric.follows == name)):
            yield each.key, (1 / more, 1 / less) if each.more_is_better else (less, more)


def range_text(result: Result, figure: str) -> str:
    """The range of a figure beside its value, for example `80 %: 607 to 665`; empty if there is none."""
    found = result.ranges.get(figure)
    value = None if found is None else result.predicted(figure)
    if found is None or value is None:
        return ""
    return f"{format_percent(found.share, 0)}: {format_ends(metric_of(figure), value, found.low, found.high)}"


def ranges_line(ranges: Mapping[str, Range]) -> str:
    """The ranges of times and rates in a line; empty without any.

    >>> ranges_line({"tokens_per_s": Range(79.2, 98.1), "latency_s": Range(0.6, 0.7), "mfu": Range(0.1, 0.2)})
    '80 % ranges: 79.2 to 98.1 tokens/s; latency 600 ms to 700 ms'
    """
    known = ((metric_of(name), each) for name, each in ranges.items())
    told = [_in_words(metric, each) for metric, each in known if metric.unit in (SECONDS, PER_SECOND)]
    return f"{format_percent(SHARE, 0)} ranges: {'; '.join(told)}" if told else ""


def _in_words(metric: Metric, found: Range) -> str:
    if metric.unit == SECONDS:
        return f"{metric.label} {' to '.join(map(format_duration_s, (found.low, found.high)))}"
    words = "" if metric.label == metric.counted else f"{metric.label} "
    return f"{words}{format_ends(metric, found.low, found.low, found.high)} {metric.counted}/s"


def verdict_of(result: Result) -> tuple[str, ...]:
    """What a reader must know first: what was never compared, where the answer leans, and that most of it is assumed.

    Args:
        result: Of any activity.
    """
    stands_on, outside = result.assumptions, result.envelope.text
    told = [outside] if outside else []
    if not isinstance(stands_on, Doubtful):
        return tuple(told)
    doubts = stands_on.doubts()
    told += [*_leaning(result, doubts), *_weak(result, doubts)]
    if keys := stands_on.unmeasured():
        told.append(f"no range is given, since `--influence` alone measures what {', '.join(keys)} would move")
    return tuple(told)


def _leaning(result: Result, doubts: Mapping[str, Doubt]) -> Iterator[str]:
    """Whether the headline lies outside of the middle half of its range, with the median."""
    for name, doubt in list(doubts.items())[:1]:
        if not doubt.is_in_the_middle and hasattr(result, name) and (value := result.predicted(name)):
            metric, factor = metric_of(name), doubt.at(0.0)
            median = format_figure(metric, metric.slowed(value, factor))
            end = "fast" if factor > 1 else "slow"
            where = f"at the {end} end of its range, whose median is {median}"
            yield f"the headline lies {where} ({range_text(result, name)})"


def _weak(result: Result, doubts: Mapping[str, Doubt]) -> Iterator[str]:
    """Whether most of the answer, or of the doubt about it, is assumed, or fitted to runs that are not like it."""
    bases, words = {"assumed"}, "that are assumed"
    if not result.envelope.inside:
        bases, words = bases | {"calibrated"}, "that are assumed or were fitted to other runs"
    headline = next(iter(doubts.values()), Doubt({}))
    weak = {key: each.variance for key, each in headline.parts.items() if each.basis in bases}
    if math.sqrt(headline.variance) > _LEAST_SIGMA and (known := sum(weak.values())) > _MOST * headline.variance:
        largest = max(weak, key=lambda key: weak[key])
        yield (
            f"most of the doubt about this answer, {known / headline.variance:.0%} of its variance, "
            f"is in inputs {words}, above all `{largest}`"
        )
    elif (share := sum(part for basis, part in result.shares_by_basis.items() if basis in bases)) > _MOST:
        yield f"most of this answer, {share:.0%} of its time, stands on numbers {words}"
