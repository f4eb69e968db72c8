"""What a result stands on: the inputs that are unsure, by how far each moves it.

Each is moved to both ends of its range, and what is planned, simulated and made of it is compared. An input
that moves nothing is not used. Matrix products and convolutions keep their splits; at the best split that gives
the same slope as choosing anew. Inputs of the chip for which splits have no meaning, such as its tiles, are
moved on request alone, since every product is then planned anew.

The same runs say how unsure each figure of the result is, together with the scatter of the model itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from podsim.deferred import Deferred
from podsim.errors import PodsimError
from podsim.metrics import TIME, metric_of
from podsim.result.evidence import Envelope, Evidence, are_alike, evidence_of, numbers_beyond, residuals
from podsim.result.ranges import (
    CONVERGENCE,
    LATE,
    MACHINE,
    MODEL,
    Contribution,
    Doubt,
    of_triangle,
    of_uniform,
    of_values,
)
from podsim.scenario.assumptions import GIVEN, Assumption, assumptions, watched, with_number
from podsim.scenario.scenario import Scenario

_Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Measure:
    """The outcome of a run.

    Attributes:
        headline: The figure that stands for it; None if it was left out because it takes long.
        others: All else that an input may move, to be compared.
        metrics: The headline and the figures beside it, by the names that results have for them.
        times_to_train_s: Times of the runs that are given or drawn; empty without an end of the run. [s]
        parts: Mean times of the parts of a run; empty without an end of the run. [s]
        longer: What times are longer on average, as a share, where machines are late now and then and all
            wait, and where runs slow down.
    """

    headline: float | None
    others: object
    metrics: Mapping[str, float] = field(default_factory=dict)
    times_to_train_s: Sequence[float] = ()
    parts: Mapping[str, float] = field(default_factory=dict)
    longer: float = 0.0


_Spec = TypeVar("_Spec", bound=Scenario)
_Repeated = TypeVar("_Repeated", bound=Scenario, contravariant=True)


class Probe(Protocol[_Repeated]):
    """One kind of run, repeated with other inputs."""

    @property
    def metric(self) -> str:
        """Name of the headline as results spell it, for example `tokens_per_s`."""

    def __call__(self, spec: _Repeated, *, anew: bool) -> Measure | None:
        """The run of a scenario; None if its products have to be split anew and `anew` does not allow it."""


_End = Measure | Exception | None
"""A run with an input at an end of its range, why it is impossible, or None if it was left out."""


class StandsOn(Deferred[_Row]):
    """The assumptions of a result as plain data, the most influential first; found when they are first asked for."""

    def __init__(self, spec: _Spec, probe: Probe[_Spec], *, anew: bool = False) -> None:
        """Nothing is run yet.

        Args:
            spec: The scenario of the result.
            probe: Repeats its run.
            anew: Whether inputs are moved too for which products have to be split anew.
        """
        super().__init__(self._found)
        self.spec: Scenario = spec
        self.probe: Probe[Any] = probe
        self._anew = anew

    @cached_property
    def evidence(self) -> Evidence:
        """What was compared that is like it, and what the model itself gets wrong therefore."""
        return evidence_of(self.spec)

    @cached_property
    def _machine(self) -> tuple[float, tuple[str, ...]]:
        """What numbers beyond those of all compared runs change: the logarithm of the time, and those that do.

        The time is held against that with each of them at the nearest number of a compared run.
        """
        beyond = [each for each in numbers_beyond(self.spec) if each[0] in self._watched[1]]
        moving = [each for each in beyond if self._log_change(dict([each[:2]])) != 0]
        change = self._log_change(dict(each[:2] for each in moving))
        return math.inf if change is None else change, tuple(words for _, _, words in moving)

    def _log_change(self, numbers: Mapping[str, float]) -> float | None:
        """Logarithm of the time over that with other numbers; None if it is impossible with them."""
        spec = self.spec
        try:
            for key, value in numbers.items():
                spec = with_number(spec, key, value)
            other = self.probe(spec, anew=True) if numbers else self._base
        except (PodsimError, ValidationError):
            return None
        if other is None or other.headline is None or self._base.headline is None:
            return None
        return abs(math.log(other.headline / self._base.headline))

    @property
    def machine_sigma(self) -> float:
        """Standard deviation of the logarithm of the time from what was never compared of machine and stack.

        A share of the change that it makes, or the widest step where the nearest compared numbers are impossible.
        """
        change, table = self._machine[0], residuals()
        return table.step if math.isinf(change) else table.change * change

    def envelope(self) -> Envelope:
        """What of the run no compared run has."""
        return Envelope((*self.evidence.new, *self._machine[1]))

    @cached_property
    def _watched(self) -> tuple[Measure, frozenset[str]]:
        """The run as it is, and the keys of the numbers that it reads."""
        spec, read = watched(self.spec)
        base = self.probe(spec, anew=True)
        assert base is not None and base.headline
        return base, frozenset(read)

    @property
    def _base(self) -> Measure:
        return self._watched[0]

    @cached_property
    def inputs(self) -> Mapping[str, Assumption]:
        """Every number that is unsure, by its key, whether or not it moves anything."""
        return {each.key: each for each in assumptions(self.spec)}

    @property
    def figures(self) -> Mapping[str, float]:
        """The figures of the run that it is known how unsure they are, the headline among them."""
        return _figures(self._base, self.probe.metric)

    def is_like(self, other: StandsOn) -> bool:
        """Whether another run is of the same activity, model and stack, so that both are off alike."""
        return are_alike(self.spec, other.spec)

    @cached_property
    def _moving(self) -> list[tuple[Assumption, list[_End]]]:
        """Inputs that move anything, each with the runs at both ends of its range."""
        tried = (
            (each, [self._moved(each.key, bound) for bound in each.bounds])
            for each in self.inputs.values()
            if each.key in self._watched[1]
        )
        return [
            (each, ends)
            for each, ends in tried
            if not all(isinstance(end, Measure) and end.others == self._base.others for end in ends)
        ]

    def _found(self) -> Iterator[_Row]:
        yield from sorted((self._row(each, ends) for each, ends in self._moving), key=_rank)

    def _row(self, assumption: Assumption, ends: Sequence[_End]) -> _Row:
        """An assumption with its influence."""
        if _unmeasured(ends):
            return assumption.to_dict() | {"influence": None}
        low, high = (_change(end, self._base) for end in ends)
        return assumption.to_dict() | {"influence": {"metric": self.probe.metric, "low": low, "high": high}}

    def unmeasured(self) -> list[str]:
        """Keys of inputs for which products have to be split anew, which nobody asked for."""
        return [each.key for each, ends in self._moving if _unmeasured(ends)]

    def moved(self, name: str) -> dict[Assumption, tuple[float, float]]:
        """The time of a figure with an input at both ends of its range, as multiples, by the inputs that move any."""
        value = self.figures[name]
        return {each: _times(ends, name, value, self.probe.metric) for each, ends in self._moving}

    def of_inputs(self, name: str) -> dict[str, Contribution]:
        """What each input adds to the doubt about the time of a figure."""
        return {each.key: _part(each, times) for each, times in self.moved(name).items()}

    def reasons(self) -> tuple[str, ...]:
        """What of the run no compared run has."""
        return tuple(self.envelope().outside)

    def doubts(self) -> dict[str, Doubt]:
        """How unsure each figure is, the headline first; empty where an input is not measured."""
        return self._doubts

    @cached_property
    def _doubts(self) -> dict[str, Doubt]:
        return {} if self.unmeasured() else dict(self._doubted())

    def _doubted(self) -> Iterator[tuple[str, Doubt]]:
        metric, base = self.probe.metric, self._base
        for name in sorted(self.figures, key=lambda each: each != metric):
            parts = {MODEL: Contribution(0.0, self.evidence.sigma**2)}
            if self.machine_sigma:
                parts[MACHINE] = Contribution(0.0, self.machine_sigma**2)
            parts |= self.of_inputs(name)
            if self.late:
                parts[LATE] = of_uniform(math.log1p(self.late))
            if name == TIME and base.times_to_train_s:
                parts[CONVERGENCE] = of_values(self.converging())
            yield name, Doubt(parts)

    @property
    def late(self) -> float:
        """What times are longer on average, as a share, where machines wait for late ones."""
        return self._base.longer

    def converging(self) -> list[float]:
        """Logarithms of the times to train that are given or drawn, over the predicted one; none without an end."""
        predicted_s = self.figures.get(TIME, math.nan)
        return [math.log(each / predicted_s) for each in self._base.times_to_train_s]

    def _moved(self, key: str, value: float) -> _End:
        """The run with another number at a key, or why it is impossible."""
        try:
            return self.probe(with_number(self.spec, key, value), anew=self._anew)
        except (PodsimError, ValidationError) as error:
            return error

    def __reduce__(self) -> tuple[object, ...]:
        """Without what can be found again."""
        return partial(StandsOn, anew=self._anew), (self.spec, self.probe)


def _unmeasured(ends: Sequence[_End]) -> bool:
    return any(end is None or (isinstance(end, Measure) and end.headline is None) for end in ends)


def _figures(measure: Measure, metric: str) -> dict[str, float]:
    """All figures of a run that have a logarithm, the headline among them."""
    found = dict(measure.metrics) | ({} if measure.headline is None else {metric: measure.headline})
    return {name: value for name, value in found.items() if value > 0}


def _times(ends: Sequence[_End], name: str, value: float, metric: str) -> tuple[float, float]:
    """The time of a figure with an input at both ends, as multiples; 1 at an end where no run is possible."""
    moved = [_figures(end, metric).get(name, value) if isinstance(end, Measure) else value for end in ends]
    low, high = (value / each if metric_of(name).more_is_better else each / value for each in moved)
    return low, high


def _part(assumption: Assumption, times: tuple[float, float]) -> Contribution:
    """What an input adds to the doubt about a time that is so many times as long at both ends of its range."""
    first, last = assumption.bounds
    likely = min(max(assumption.number, first), last)
    below = (likely - first) / (last - first) if first < last else 1.0
    return of_triangle(*times, below, assumption.basis)


def doubt_of_change(before: StandsOn, after: StandsOn, name: str, times: float) -> Doubt | None:
    """How unsure the ratio of a time is to what it was in another run.

    What the model itself gets wrong of a change is a share of it for runs of one model and one stack, as pairs of
    published runs show; otherwise it is what it gets wrong of either run. There is no doubt about an input that differs
    because it was given with the question. Any other is in both runs what it is in one of them, or, where each has its
    own, counts in each.

    Args:
        before: What the first result stands on.
        after: The same of the second.
        name: The figure.
        times: The ratio.

    Returns:
        None where an input is not measured.
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
    was, now = ({each.key: ends for each, ends in side.moved(name).items()} for side in (before, after))
    still = (1.0, 1.0)
    for key in (key for key in was | now if key not in asked):
        (low, high), ends = was.get(key, still), now.get(key, still)
        if key in shared:
            parts[key] = _part(first[key], (ends[0] / low, ends[1] / high))
            continue
        if key in was:
            parts[f"{key}, before"] = _part(first[key], (1 / low, 1 / high))
        if key in now:
            parts[key] = _part(second[key], ends)
    return Doubt(parts | dict(_by_chance(before, after, name)))


def _by_chance(before: StandsOn, after: StandsOn, name: str) -> Iterator[tuple[str, Contribution]]:
    """What late machines and the samples to converge add to a change; runs of one seed draw these alike."""
    if longer := math.log1p(after.late) - math.log1p(before.late):
        yield LATE, of_uniform(longer)
    was, now = (side.converging() if name == TIME else [] for side in (before, after))
    if len(was) == len(now):
        was, now = [], [new - old for old, new in zip(was, now, strict=True)]
    yield from ((key, of_values(each)) for key, each in ((f"{CONVERGENCE}, before", was), (CONVERGENCE, now)) if each)


def _change(end: _End, base: Measure) -> float | None:
    """Of the headline, as a share; None for a run that is impossible."""
    if not isinstance(end, Measure) or end.headline is None or base.headline is None:
        return None
    return end.headline / base.headline - 1


def _rank(row: _Row) -> tuple[bool, float]:
    """Known influences first, the largest before the others."""
    influence = row["influence"]
    if not isinstance(influence, Mapping):
        return True, 0.0
    return False, -max(abs(end or 0.0) for end in (influence["low"], influence["high"]))
