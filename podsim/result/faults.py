"""What faults cost: how much longer a weight update takes with them, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from podsim.engine.trace import Trace
from podsim.engine.variation import SLOWED
from podsim.result.kinds import in_kind_order
from podsim.units import ps_to_seconds


@dataclass(frozen=True, slots=True)
class StretchReport:
    """A stretch of a run in which the same faults hold.

    Attributes:
        from_s: When it begins, in time spent on weight updates. [s]
        until_s: When it is over; None for the end of the run. [s]
        faults: Those that hold, in words.
        weight_update_s: Time of a weight update. [s]
        weight_updates: How many fall into it; None where nothing says how long the run is.
    """

    from_s: float
    until_s: float | None
    faults: tuple[str, ...]
    weight_update_s: float
    weight_updates: float | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """IPUs whose time changes alike.

    Attributes:
        ipus: Their numbers in the pod.
        more_s: Time by kind that they spend more in a weight update than without faults, or less; all of one
            adds up to what the update is longer. [s]
    """

    ipus: tuple[int, ...]
    more_s: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FaultReport:
    """What faults cost.

    Attributes:
        weight_update_without_s: A weight update without any of them. [s]
        stretches: Those of the run, in order.
        shown: Which of them the other numbers of the result are of.
        waiting: IPUs by how their time changes in it, those that are slowed first.
    """

    weight_update_without_s: float
    stretches: tuple[StretchReport, ...]
    shown: int
    waiting: tuple[Waiting, ...]


def waiting(healthy: Trace, slow: Trace) -> tuple[Waiting, ...]:
    """IPUs by how their time changes, those first that are slowed most, then small groups."""
    alike: dict[tuple[tuple[str, int], ...], list[int]] = {}
    for lane, account in slow.lanes.items():
        more = tuple(_more(healthy.lanes[lane], account))
        alike.setdefault(more, []).append(int(lane.removeprefix("ipu")))
    ordered = sorted(alike.items(), key=_smallest_group_first)
    return tuple(Waiting(tuple(ipus), {kind: ps_to_seconds(ps) for kind, ps in more}) for more, ipus in ordered)


def _smallest_group_first(alike: tuple[tuple[tuple[str, int], ...], list[int]]) -> tuple[int, int, int]:
    """Where only a few IPUs change in a way of their own, the fault is near."""
    more, ipus = alike
    return -dict(more).get(SLOWED, 0), len(ipus), ipus[0]


def _more(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Changes by kind. [ps]"""
    for kind in in_kind_order({**before, **after}):
        if change := after.get(kind, 0) - before.get(kind, 0):
            yield kind, change


def ranges(numbers: Sequence[int]) -> str:
    """Numbers with those in a row put together.

    >>> ranges([0, 1, 2, 5])
    '0-2, 5'
    """
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
