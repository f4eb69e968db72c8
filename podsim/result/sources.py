"""Basis of each line of a breakdown: the shares that depend on published, measured, calibrated or assumed numbers.

The basis of a time is the weakest basis of the numbers that its cost depends on. The time of a kind is divided among
these in proportion to the times of tasks. A wait has the basis of the work that it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, get_args

from podsim.engine.trace import CONTENTION
from podsim.lazy import LazySequence
from podsim.program.prices import Price, Prices
from podsim.result.breakdown import apportion
from podsim.result.kinds import is_waiting
from podsim.scenario.assumptions import numbers
from podsim.scenario.quantity import Basis
from podsim.scenario.scenario import Scenario

_BASES: Final[tuple[str, ...]] = get_args(Basis)
"""Bases from the strongest to the weakest."""
_CERTAIN: Final = ("published", "measured")
_PER_MILLE: Final = 1000
_VERTICES: Final = "system.machine.ipu.vertices"


@dataclass(frozen=True, slots=True)
class Sources:
    """Basis of each line of a breakdown: time of each kind by basis of the inputs. [ps]"""

    lines: Sequence[tuple[str, Mapping[str, int]]] = ()

    @property
    def by_kind_ps(self) -> dict[str, Mapping[str, int]]:
        """Time by basis, by the name of the kind. [ps]"""
        return dict(self.lines)

    @property
    def total_ps(self) -> dict[str, int]:
        """Time of all kinds by basis, the strongest first. [ps]"""
        return _summed(self.by_kind_ps)

    @property
    def shares(self) -> dict[str, float]:
        """Shares of the time of all kinds by basis, the strongest first."""
        return _shares(self.total_ps)

    def main(self, kind: str) -> str:
        """Return the basis with the largest share of a kind of time; empty if unknown."""
        times = self.by_kind_ps.get(kind, {})
        return max(times, key=lambda basis: times[basis], default="")

    @property
    def text(self) -> str:
        """Text with the shares of all time, rounded so that they add up to 100 %; empty if unknown.

        >>> Sources((("matmul", {"published": 2}), ("host", {"calibrated": 1}))).text
        '66.7 % published or measured, 33.3 % calibrated'
        """
        total = self.total_ps
        groups = {"published or measured": sum(total.get(basis, 0) for basis in _CERTAIN)}
        groups |= {basis: time_ps for basis, time_ps in total.items() if basis not in _CERTAIN}
        shares = apportion(_PER_MILLE, groups) if any(groups.values()) else {}
        return ", ".join(f"{share / 10:.1f} % {name}" for name, share in shares.items() if share)

    def to_dict(self) -> dict[str, object]:
        """Return shares by basis, for each kind of time and in total."""
        kinds = {kind: _shares(times) for kind, times in self.by_kind_ps.items()}
        return {"kinds": kinds, "total": self.shares, "text": self.text}


def sources(spec: Scenario, prices: Callable[[], Prices], breakdown_ps: Mapping[str, int]) -> Sources:
    """Return the basis of each line of a breakdown, computed on first use."""

    def lines() -> Sequence[tuple[str, Mapping[str, int]]]:
        bases: dict[str, str] = {key: number.provenance.basis for key, number, _ in numbers(spec)}
        return divided(breakdown_ps, prices(), bases | {_VERTICES: spec.system.machine.ipu.vertices.basis}).lines

    return Sources(LazySequence(lines))


def divided(breakdown_ps: Mapping[str, int], prices: Prices, bases: Mapping[str, str]) -> Sources:
    """Divide a breakdown by basis, in proportion to the time of tasks by kind and price keys. [ps]"""
    weights: dict[str, dict[str, int]] = {kind: {} for kind in breakdown_ps if prices.get(kind)}
    for kind, times in weights.items():
        for price, time_ps in prices[kind].items():
            basis = _weakest(price, bases)
            times[basis] = times.get(basis, 0) + time_ps
    work = {kind: apportion(breakdown_ps[kind], weight) for kind, weight in weights.items()}
    if breakdown_ps.get(CONTENTION):
        # The way in which transfers share a channel is assumed.
        work[CONTENTION] = {_BASES[-1]: breakdown_ps[CONTENTION]}
    waited_for = _summed({kind: times for kind, times in work.items() if not is_waiting(kind)})
    waited_for = waited_for or {_BASES[-1]: 1}
    rest = {kind: apportion(time_ps, waited_for) for kind, time_ps in breakdown_ps.items() if kind not in work}
    return Sources(tuple((kind, _without_zeros((work | rest)[kind])) for kind in breakdown_ps))


def _weakest(price: Price, bases: Mapping[str, str]) -> str:
    """Return the weakest basis of the numbers at or below the given keys; without a number, assumed."""
    known = {basis for key, basis in bases.items() if any(f"{key}.".startswith(f"{each}.") for each in price)}
    return max(known, key=_BASES.index, default=_BASES[-1])


def _summed(by_kind_ps: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    sums = {basis: sum(times.get(basis, 0) for times in by_kind_ps.values()) for basis in _BASES}
    return _without_zeros(sums)


def _shares(times_ps: Mapping[str, int]) -> dict[str, float]:
    whole = sum(times_ps.values())
    return {basis: time_ps / whole for basis, time_ps in times_ps.items()} if whole else {}


def _without_zeros(times_ps: Mapping[str, int]) -> dict[str, int]:
    return {basis: times_ps[basis] for basis in _BASES if times_ps.get(basis)}
