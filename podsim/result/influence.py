"""Influence of uncertain inputs on a result, and the prediction interval of each metric.

Each input is set to both ends of its range, and the run is repeated. An input without effect is not used. Matrix
products and convolutions keep their splits over tiles, because at the best split this gives the same slope as a new
plan. Inputs that invalidate the splits, such as the number of tiles, are only changed on request, because every product
has to be planned again.

The time is taken as linear in the input on either side of its value. The value is the median of the input: either side
is equally likely, and on each the density falls linearly to 0 at the end of the range. So the input adds a mean, a
variance and a third moment to the logarithm of the time. Moments of independent inputs, of the model error and of the
samples to converge add up. P10 and P90 follow from the Cornish-Fisher expansion up to the skewness.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from pydantic import ValidationError

from podsim.draws import SHARE, Range, Z
from podsim.errors import PodsimError
from podsim.format import format_duration_s, format_ends, format_figure, format_percent
from podsim.lazy import LazySequence
from podsim.metrics import METRICS, PER_SECOND, SECONDS, TIME, Metric, metric_of
from podsim.result.evidence import (
    Envelope,
    Evidence,
    are_alike,
    blind_ranges_text,
    evidence_of,
    numbers_beyond,
    residuals,
)
from podsim.result.gaps import gaps_of
from podsim.scenario.assumptions import GIVEN, Assumption, assumptions, watched, with_number
from podsim.scenario.scenario import Scenario

if TYPE_CHECKING:
    from podsim.result.base import Result

_QUARTER: Final = 0.6745
"""Upper quartile of the standard normal distribution."""
_POINTS: Final = 32
_SIDE: Final = tuple(1 - math.sqrt(1 - (number + 0.5) / _POINTS) for number in range(_POINTS))
"""Quadrature points of one side of a distribution: relative distances from the value, equally likely."""
_MOST: Final = 0.5
_LEAST_SIGMA: Final = 0.01
"""Standard deviation of log time below which a result does not depend on assumptions."""
MODEL: Final = "the model itself"
MACHINE: Final = "machine and stack beyond what was compared"
CONVERGENCE: Final = "samples to converge"
LATE: Final = "waiting for late machines"
_Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Contribution:
    """Contribution of one cause to the log of a metric; an input's basis comes with it."""

    mean: float
    variance: float
    third: float = 0.0  # central moment
    basis: str = ""


@dataclass(frozen=True, slots=True)
class LogSpread:
    """Uncertainty of a time or an inverse rate, as contributions by input key, `MODEL` and other causes."""

    parts: Mapping[str, Contribution]

    @property
    def factors(self) -> tuple[float, float]:
        """P10 and P90 of the time, as multiples of it, so wide that the time itself lies between them."""
        return min(1.0, self.quantile(-Z)), max(1.0, self.quantile(Z))

    def quantile(self, deviations: float) -> float:
        """Return the quantile at `deviations` standard deviations from the median, relative to the point prediction."""
        mean, sigma = sum(part.mean for part in self.parts.values()), math.sqrt(self.variance)
        skewness = sum(part.third for part in self.parts.values()) / sigma**3 if sigma else 0.0
        return math.exp(mean + sigma * (deviations + skewness * (deviations**2 - 1) / 6))

    @property
    def is_between_quartiles(self) -> bool:
        """True if the point prediction lies between the quartiles."""
        low, high = self.quantile(-_QUARTER), self.quantile(_QUARTER)
        return low <= 1 <= high or math.isclose(low, 1) or math.isclose(high, 1)

    @property
    def variance(self) -> float:
        """The sum of all variances."""
        return sum(part.variance for part in self.parts.values())


def uniform_contribution(most: float) -> Contribution:
    """Return the moments of a uniform distribution from 0 to `most`.

    >>> uniform_contribution(6.0)
    Contribution(mean=3.0, variance=3.0, third=0.0, basis='')
    """
    return Contribution(most / 2, most**2 / 12)


def input_contribution(low: float, high: float, basis: str = "") -> Contribution:
    """Return an input's contribution to the log of a time; `low` and `high` are the time's factors at its ends.

    Either side of the value is equally likely. On each, the q-quantile of the distance from the value, relative to that
    of the end, is 1 - √(1 - q).
    """
    values = [math.log(1 + (end - 1) * distance) for end in (low, high) for distance in _SIDE]
    return _moments([(1 / len(values), value) for value in values], basis)


def discrete_contribution(values: Sequence[float]) -> Contribution:
    """Return the contribution of a cause whose values are equally likely."""
    return _moments([(1 / len(values), value) for value in values])


def _moments(weighted: Sequence[tuple[float, float]], basis: str = "") -> Contribution:
    """Return the mean and central moments of weighted values."""
    mean = sum(share * value for share, value in weighted)
    variance, third = (sum(share * (value - mean) ** power for share, value in weighted) for power in (2, 3))
    return Contribution(mean, variance, third, basis)


# Runs with other inputs


@dataclass(frozen=True, slots=True)
class Measure:
    """Outcome of a repeated run."""

    headline: float | None  # headline metric; None if the run was skipped because it takes long
    others: object  # all other values that an input may change, to be compared
    metrics: Mapping[str, float] = field(default_factory=dict)  # headline and other metrics by key
    times_to_train_s: Sequence[float] = ()  # given or sampled times; empty if the run has no end
    longer: float = 0.0  # mean relative slowdown, due to waits for slow machines and to drift


_Spec = TypeVar("_Spec", bound=Scenario)
_Repeated = TypeVar("_Repeated", bound=Scenario, contravariant=True)


class Probe(Protocol[_Repeated]):
    """Function that repeats one kind of run with other inputs."""

    @property
    def metric(self) -> str:
        """Key of the headline metric, for example `tokens_per_s`."""

    def __call__(self, spec: _Repeated, *, resplit: bool) -> Measure | None:
        """Run a scenario; return None if products need other splits and `resplit` is False."""


_End = Measure | Exception | None
"""Outcome of a run with an input at an end of its range, the error if impossible, or None if skipped."""


class StandsOn(LazySequence[_Row]):
    """Assumptions of a result as plain data, the most influential first; computed on first use."""

    def __init__(self, spec: _Spec, probe: Probe[_Spec], *, resplit: bool = False) -> None:
        """Store the run and its probe; `resplit` also moves inputs that change the splits of products."""
        super().__init__(self._rows)
        self.spec: Scenario = spec
        self.probe: Probe[Any] = probe
        self._resplit = resplit

    def __reduce__(self) -> tuple[object, ...]:
        """Leave out cached results, which can be computed again."""
        return partial(StandsOn, resplit=self._resplit), (self.spec, self.probe)

    @cached_property
    def evidence(self) -> Evidence:
        """Validated runs that are similar to this run, and the model error that follows from them."""
        return evidence_of(self.spec)

    @cached_property
    def _machine(self) -> tuple[float, tuple[str, ...]]:
        """Absolute log change of the time due to machine numbers outside the validated range, and their texts.

        Each such number is replaced by the nearest number of a validated run, and the times are compared.
        """
        beyond = [number for number in numbers_beyond(self.spec) if number[0] in self._watched[1]]
        moving = [number for number in beyond if self._log_change(dict([number[:2]])) != 0]
        change = self._log_change(dict(number[:2] for number in moving))
        return math.inf if change is None else change, tuple(words for _, _, words in moving)

    def _log_change(self, numbers: Mapping[str, float]) -> float | None:
        """Return the absolute log ratio of the time to the time with other numbers; None if impossible."""
        spec = self.spec
        try:
            for key, value in numbers.items():
                spec = with_number(spec, key, value)
            other = self.probe(spec, resplit=True) if numbers else self._base
        except (PodsimError, ValidationError):
            return None
        if other is None or other.headline is None or self._base.headline is None:
            return None
        return abs(math.log(other.headline / self._base.headline))

    @property
    def machine_sigma(self) -> float:
        """Standard deviation of log time due to machine and stack numbers outside the validated range.

        It is proportional to the log change of the time, or one step if the nearest validated numbers are impossible.
        """
        change, table = self._machine[0], residuals()
        return table.step if math.isinf(change) else table.change * change

    @property
    def sigma(self) -> float:
        """Standard deviation of the model's log error."""
        return math.hypot(self.evidence.sigma, self.machine_sigma)

    def envelope(self) -> Envelope:
        """Return the features of this run that no validated run shares."""
        return Envelope((*self.evidence.new, *self._machine[1]))

    @cached_property
    def _watched(self) -> tuple[Measure, frozenset[str]]:
        """Unchanged run, and the keys of the numbers that it reads."""
        spec, read = watched(self.spec)
        base = self.probe(spec, resplit=True)
        assert base is not None and base.headline
        return base, frozenset(read)

    @property
    def _base(self) -> Measure:
        return self._watched[0]

    @cached_property
    def inputs(self) -> Mapping[str, Assumption]:
        """Uncertain inputs by key, including those without effect on the result."""
        return {unsure.key: unsure for unsure in assumptions(self.spec)}

    @property
    def figures(self) -> Mapping[str, float]:
        """Metrics that have an uncertainty, by name, the headline metric included."""
        return self._logarithmic(self._base)

    def _logarithmic(self, measure: Measure) -> dict[str, float]:
        headline = {} if measure.headline is None else {self.probe.metric: measure.headline}
        return {name: value for name, value in {**measure.metrics, **headline}.items() if value > 0}

    def is_like(self, other: StandsOn) -> bool:
        """Return True if another run has the same activity, model and stack, so that model errors cancel."""
        return are_alike(self.spec, other.spec)

    @cached_property
    def _moving(self) -> dict[Assumption, list[_End]]:
        """Inputs that change the result, with the runs at both ends of their ranges."""
        read = (unsure for unsure in self.inputs.values() if unsure.key in self._watched[1])
        tried = ((unsure, [self._moved(unsure.key, bound) for bound in unsure.bounds]) for unsure in read)
        still = self._base.others
        return {
            unsure: ends
            for unsure, ends in tried
            if not all(isinstance(end, Measure) and end.others == still for end in ends)
        }

    def _moved(self, key: str, value: float) -> _End:
        """Run with another value of one input; return the error if that is impossible."""
        try:
            moved = with_number(self.spec, key, value, is_certain=True)
            return self.probe(moved, resplit=self._resplit)
        except (PodsimError, ValidationError) as error:
            return error

    def _rows(self) -> Sequence[_Row]:
        unmeasured, rows = self.unmeasured(), []
        for unsure, ends in self._moving.items():
            low, high = map(self._change, ends)
            known = None if unsure.key in unmeasured else {"metric": self.probe.metric, "low": low, "high": high}
            size = max(abs(low or 0.0), abs(high or 0.0)) if known else math.inf
            rows.append((known is None, -size, unsure.to_dict() | {"influence": known}))
        return [row for *_, row in sorted(rows, key=lambda ranked: ranked[:2])]

    def _change(self, end: _End) -> float | None:
        """Return the relative change of the headline metric; None for an impossible run."""
        if not isinstance(end, Measure) or end.headline is None or self._base.headline is None:
            return None
        return end.headline / self._base.headline - 1

    def unmeasured(self) -> list[str]:
        """Return the keys of inputs that change splits and were therefore not moved."""
        return [
            unsure.key
            for unsure, ends in self._moving.items()
            if any(end is None or (isinstance(end, Measure) and end.headline is None) for end in ends)
        ]

    def moved(self, name: str) -> dict[str, tuple[float, float]]:
        """Return the factors of a metric's time at both ends of each input's range, by key of the input.

        The factor is 1 at an end where the run is impossible.
        """
        value, is_rate = self.figures[name], metric_of(name).more_is_better
        times = {}
        for unsure, ends in self._moving.items():
            low, high = (self._logarithmic(end).get(name, value) if isinstance(end, Measure) else value for end in ends)
            times[unsure.key] = (value / low, value / high) if is_rate else (low / value, high / value)
        return times

    def input_contributions(self, name: str) -> dict[str, Contribution]:
        """Return the contribution of each input to the spread of a metric's time."""
        return {key: input_contribution(*times, self.inputs[key].basis) for key, times in self.moved(name).items()}

    def spreads(self) -> dict[str, LogSpread]:
        """Return the spread of each metric, the headline first; empty if an input has not been moved."""
        return self._spreads

    @cached_property
    def _spreads(self) -> dict[str, LogSpread]:
        spreads = {}
        for name in sorted(self.figures, key=lambda name: name != self.probe.metric) if not self.unmeasured() else ():
            parts = {MODEL: Contribution(0.0, self.evidence.sigma**2)}
            if self.machine_sigma:
                parts[MACHINE] = Contribution(0.0, self.machine_sigma**2)
            parts |= self.input_contributions(name)
            if self.slowdown:
                parts[LATE] = uniform_contribution(math.log1p(self.slowdown))
            if name == TIME and self._base.times_to_train_s:
                parts[CONVERGENCE] = discrete_contribution(self.converging())
            spreads[name] = LogSpread(parts)
        return spreads

    @property
    def slowdown(self) -> float:
        """Mean relative slowdown of a run in which machines wait for slow ones."""
        return self._base.longer

    def converging(self) -> list[float]:
        """Return the log ratios of each given or sampled time to train to the predicted one; empty for an open end."""
        predicted_s = self.figures.get(TIME, math.nan)
        return [math.log(time_s / predicted_s) for time_s in self._base.times_to_train_s]


def spread_of_change(before: StandsOn, after: StandsOn, name: str, times: float) -> LogSpread | None:
    """Return the spread of the ratio of a metric's time in two runs; None if an input has not been moved.

    For runs of one model and stack, the model error is proportional to the change, as pairs of published runs show.
    Otherwise the errors of both runs count. An input that the user changed between the runs is certain. A shared input
    has the same value in both runs. An input that differs counts in each run. Runs with the same seed sample the same
    numbers of samples to converge.
    """
    first, second = before.inputs, after.inputs
    shared = {key for key in first if key in second and first[key].is_like(second[key])}
    asked = {key for side in (first, second) for key in side if key not in shared and side[key].source == GIVEN}
    if {*before.unmeasured(), *after.unmeasured()} - asked:
        return None
    off = [residuals().change * math.log(times)]
    if not before.is_like(after):
        off = [sigma for side in (before, after) for sigma in (side.evidence.sigma, side.machine_sigma)]
    parts = {MODEL: Contribution(0.0, sum(sigma**2 for sigma in off))}
    was, now, still = before.moved(name), after.moved(name), (1.0, 1.0)
    for key in (key for key in was | now if key not in asked):
        (low, high), ends = was.get(key, still), now.get(key, still)
        if key in shared:
            parts[key] = input_contribution(ends[0] / low, ends[1] / high, first[key].basis)
            continue
        if key in was:
            parts[f"{key}, before"] = input_contribution(1 / low, 1 / high, first[key].basis)
        if key in now:
            parts[key] = input_contribution(*ends, second[key].basis)
    if longer := math.log1p(after.slowdown) - math.log1p(before.slowdown):
        parts[LATE] = uniform_contribution(longer)
    old, new = (side.converging() if name == TIME else [] for side in (before, after))
    if len(old) == len(new):
        old, new = [], [after_it - before_it for before_it, after_it in zip(old, new, strict=True)]
    drawn = ((f"{CONVERGENCE}, before", old), (CONVERGENCE, new))
    return LogSpread(parts | {cause: discrete_contribution(logs) for cause, logs in drawn if logs})


# Ranges of metrics and warnings


def measured_ranges(result: Result) -> dict[str, Range]:
    """Return 80 % prediction intervals of the metrics, including those proportional to a measured metric."""
    stands_on, ranges = result.assumptions, {}
    for name, doubt in stands_on.spreads().items() if isinstance(stands_on, StandsOn) else ():
        less, more = doubt.factors
        for metric in (metric_of(name), *(metric for metric in METRICS.values() if metric.follows == name)):
            value = result.predicted(metric.key) if hasattr(result, metric.key) else None
            if value is not None:
                low, high = (1 / more, 1 / less) if metric.more_is_better else (less, more)
                ranges[metric.key] = Range(value * low, value * high)
    return ranges


def range_text(result: Result, figure: str) -> str:
    """Return the range of a metric as text, for example `80 %: 607 to 665`; empty if there is none."""
    known = result.ranges.get(figure)
    value = None if known is None else result.predicted(figure)
    if known is None or value is None:
        return ""
    return f"{format_percent(known.share, 0)}: {format_ends(metric_of(figure), value, known.low, known.high)}"


def blind_ranges_note(result: Result) -> Iterator[str]:
    """Yield how many blind measurements ranges of such runs held, if the result has ranges."""
    stands_on = result.assumptions
    if isinstance(stands_on, StandsOn) and result.ranges:
        yield blind_ranges_text(stands_on.spec.activity)


def ranges_line(ranges: Mapping[str, Range]) -> str:
    """Return the ranges of times and rates in one line; empty if there are none.

    >>> ranges_line({"tokens_per_s": Range(79.2, 98.1), "latency_s": Range(0.6, 0.7), "mfu": Range(0.1, 0.2)})
    '80 % ranges: 79.2 to 98.1 tokens/s; latency 600 ms to 700 ms'
    """

    def with_range(metric: Metric, known: Range) -> str:
        if metric.unit == SECONDS:
            return f"{metric.label} {' to '.join(map(format_duration_s, (known.low, known.high)))}"
        words = "" if metric.label == metric.counted else f"{metric.label} "
        return f"{words}{format_ends(metric, known.low, known.low, known.high)} {metric.counted}/s"

    metrics = ((metric_of(name), known) for name, known in ranges.items())
    texts = [with_range(metric, known) for metric, known in metrics if metric.unit in (SECONDS, PER_SECOND)]
    return f"{format_percent(SHARE, 0)} ranges: {'; '.join(texts)}" if texts else ""


def verdict_of(result: Result) -> Iterator[str]:
    """Yield the warnings to read first: missing validation, known gaps, bias, and dependence on assumed inputs."""
    stands_on = result.assumptions
    if result.envelope.text:
        yield result.envelope.text
    if not isinstance(stands_on, StandsOn):
        return
    yield from gaps_of(stands_on.spec)
    name, headline = next(iter(stands_on.spreads().items()), ("", LogSpread({})))
    if not headline.is_between_quartiles and hasattr(result, name) and (value := result.predicted(name)):
        metric, factor = metric_of(name), headline.quantile(0.0)
        median, end = format_figure(metric, metric.slowed(value, factor)), "fast" if factor > 1 else "slow"
        where = f"at the {end} end of its range, whose median is {median}"
        yield f"the headline lies {where} ({range_text(result, name)})"
    yield from _weak(result, headline)
    if keys := stands_on.unmeasured():
        yield f"no range is given, since `--influence` alone measures what {', '.join(keys)} would move"


def _weak(result: Result, headline: LogSpread) -> Iterator[str]:
    """Yield a warning if most of the time or of its variance comes from assumed inputs, or from fits to other runs."""
    bases, words = {"assumed"}, "that are assumed"
    if not result.envelope.inside:
        bases, words = bases | {"calibrated"}, "that are assumed or were fitted to other runs"
    weak = {key: part.variance for key, part in headline.parts.items() if part.basis in bases}
    if math.sqrt(headline.variance) > _LEAST_SIGMA and (known := sum(weak.values())) > _MOST * headline.variance:
        largest = max(weak, key=lambda key: weak[key])
        yield (
            f"most of the doubt about this answer, {known / headline.variance:.0%} of its variance, "
            f"is in inputs {words}, above all `{largest}`"
        )
    elif (share := sum(part for basis, part in result.shares_by_basis.items() if basis in bases)) > _MOST:
        yield f"most of this answer, {share:.0%} of its time, stands on numbers {words}"
