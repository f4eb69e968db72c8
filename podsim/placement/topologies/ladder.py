"""Ladder topology: two IPUs per rung, a rail on each side.

A route crosses the rung first and then walks the rail of its target's side. Source: [poplibs_traffic_model] for
the routing, [popxl_rts_tutorial] for the link counts, [gcl_topologies] for the ring.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from podsim.placement.topologies import Connection
from podsim.scenario.hardware import System, present

_SIDES = 2


def connections(system: System, first: int, last: int) -> Iterator[Connection]:
    """Yield the rung and rails of a route."""
    return walk(system, first, last)


def ring(members: Sequence[int]) -> tuple[int, ...]:
    """Return adjacent IPUs up one side of the ladder and down the other.

    >>> ring(range(6))
    (0, 2, 4, 5, 3, 1)
    """
    return (*members[0::2], *members[1::2][::-1])


def rail_of_a_side(system: System, side: int, here: int, there: int) -> str:
    """Return the name of the connection between two rungs on one side."""
    return f"rail{side}/rung{here}-{there}"


def walk(
    system: System,
    first: int,
    last: int,
    *,
    wraps: bool = False,  # True if the ends of the ladder are joined; the route then takes the shorter way
    rail: Callable[[System, int, int, int], str] = rail_of_a_side,
) -> Iterator[Connection]:
    """Yield each connection on a route; `rail` names a rail (system, side, lower, upper)."""
    (start, side), (end, last_side) = divmod(first, _SIDES), divmod(last, _SIDES)
    if side != last_side:
        latency_s = present(system.machine.ipu_link).rung_latency_s or 0.0
        yield Connection(f"rung{start}/to{last_side}", system.machine.rung_bytes_per_s, latency_s)
    if start != end:
        bytes_per_s = system.machine.rail_bytes_per_s
        for here, there, direction in _rail_hops(system.domain_ipu_count // _SIDES, start, end, wraps=wraps):
            yield Connection(f"{rail(system, last_side, here, there)}/{direction}", bytes_per_s)


def _rail_hops(rungs: int, start: int, end: int, *, wraps: bool) -> Iterator[tuple[int, int, str]]:
    """Yield (lower rung, upper rung, direction) of every rail on the way."""
    up, down = (end - start) % rungs, (start - end) % rungs
    go_up = up <= down if wraps else end > start
    for step in range(up if go_up else down):
        here = (start + step) % rungs if go_up else (start - step - 1) % rungs
        yield here, (here + 1) % rungs, "up" if go_up else "down"
