"""What a result stands on: the inputs that are neither published nor measured, by how far each moves it.

Each is moved to both ends of its range, and what is planned, simulated and made of it is compared. An input
that moves nothing is not used. Matrix products and convolutions keep their splits; at the best split that gives
the same slope as choosing anew. Inputs of the chip for which splits have no meaning, such as its tiles, are
moved on request alone, since every product is then planned anew; so are all inputs of long simulations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from podsim.deferred import Deferred
from podsim.errors import PodsimError
from podsim.specs.assumptions import Assumption, assumptions, with_number
from podsim.specs.reads import watched
from podsim.specs.scenario import Scenario

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
    """

    headline: float | None
    others: object
    metrics: Mapping[str, float] = field(default_factory=dict)
    times_to_train_s: Sequence[float] = ()
    parts: Mapping[str, float] = field(default_factory=dict)


_Spec = TypeVar("_Spec", bound=Scenario)
_Repeated = TypeVar("_Repeated", bound=Scenario, contravariant=True)


class Probe(Protocol[_Repeated]):
    """One kind of run, repeated with other inputs."""

    @property
    def metric(self) -> str:
        """Name of the headline as results spell it, for example `tokens_per_s`."""

    def __call__(self, spec: _Repeated, *, anew: bool) -> Measure | None:
        """The run of a scenario; None if its products have to be split anew and `anew` does not allow it."""


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

    def _found(self) -> Iterator[_Row]:
        spec, read = watched(self.spec)
        base = self.probe(spec, anew=True)
        assert base is not None and base.headline
        used = frozenset(read)
        rows = [row for each in assumptions(self.spec) if (row := self._row(each, base, used)) is not None]
        yield from sorted(rows, key=_rank)

    def _row(self, assumption: Assumption, base: Measure, used: Collection[str]) -> _Row | None:
        """An assumption with its influence, or None if it moves nothing."""
        key = assumption.key
        ends = [self._moved(key, bound, base if key not in used else None) for bound in assumption.bounds]
        if all(isinstance(end, Measure) and end.others == base.others for end in ends):
            return None
        if any(end is None or (isinstance(end, Measure) and end.headline is None) for end in ends):
            return assumption.to_dict() | {"influence": None}
        low, high = (_change(end, base) for end in ends)
        return assumption.to_dict() | {"influence": {"metric": self.probe.metric, "low": low, "high": high}}

    def _moved(self, key: str, value: float, same: Measure | None) -> Measure | Exception | None:
        """The run with another number at a key, or why it is impossible; the same if nothing reads the number."""
        try:
            spec = with_number(self.spec, key, value)
            return same or self.probe(spec, anew=self._anew)
        except (PodsimError, ValidationError) as error:
            return error

    def __reduce__(self) -> tuple[object, ...]:
        """Without what can be found again."""
        return partial(StandsOn, anew=self._anew), (self.spec, self.probe)


def _change(end: Measure | Exception | None, base: Measure) -> float | None:
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
