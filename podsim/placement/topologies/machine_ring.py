"""Ring of machines, each of which is a ladder.

Two adjacent machines have half the cabling of a torus, `rail_link_count` links, which both sides of the ladder share.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from podsim.placement.topologies import Connection
from podsim.placement.topologies.ladder import rail_of_a_side, walk
from podsim.scenario.hardware import System


def connections(system: System, first: int, last: int) -> Iterator[Connection]:
    """Yield the rung, rails and machine connections of the shorter route."""
    machines = system.domain_ipu_count // system.machine.ipu_count
    return walk(system, first, last, wraps=machines > 1, rail=_rail)


def ring(members: Sequence[int]) -> tuple[int, ...]:
    """Return IPUs machine after machine, alternating sides at each rung, so that each connection is used once.

    >>> ring(range(8))
    (0, 1, 3, 2, 4, 5, 7, 6)
    """
    return tuple(sorted(members, key=lambda ipu: (ipu // 2, ipu % 2 ^ ipu // 2 % 2)))


def _rail(system: System, side: int, here: int, there: int) -> str:
    """Return the name of the rail of a side inside a machine, or of the shared connection between machines."""
    rungs = system.machine.ipu_count // 2
    machine, following = here // rungs, there // rungs
    return rail_of_a_side(system, side, here, there) if machine == following else f"machine{machine}-{following}"
