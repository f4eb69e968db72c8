"""A ring of machines without a torus.

Between machines, which are ladders, half the cabling of a torus, which both sides of the ladder share:
`rail_link_count` links in all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podsim.placement.topologies.ladder import rail_of_a_side, walk
from podsim.scenario.hardware import System


def connections(system: System, first: int, last: int) -> Iterator[tuple[str, float]]:
    """Rung, rails and connections of machines, the shorter way round, with what each carries. [B/s]"""
    machines = system.domain_ipu_count // system.machine.ipu_count
    return walk(system, first, last, wraps=machines > 1, rail=_rail)


def ring(members: Sequence[int]) -> tuple[int, ...]:
    """Machine after machine, from side to side at each rung, so that each connection is passed once.

    >>> ring(range(8))
    (0, 1, 3, 2, 4, 5, 7, 6)
    """
    return tuple(sorted(members, key=lambda ipu: (ipu // 2, ipu % 2 ^ ipu // 2 % 2)))


def _rail(system: System, side: int, here: int, there: int) -> str:
    """Inside a machine a rail of its side, between machines the one that both sides share."""
    rungs = system.machine.ipu_count // 2
    machine, following = here // rungs, there // rungs
    return rail_of_a_side(system, side, here, there) if machine == following else f"machine{machine}-{following}"
