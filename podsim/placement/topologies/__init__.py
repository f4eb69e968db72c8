"""How the IPUs of a link domain are joined: a module for each value of `topology`, of the same name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from podsim.scenario.hardware import System


class Topology(Protocol):
    """What a module of this package has."""

    def connections(self, system: System, first: int, last: int) -> Iterator[tuple[str, float]]:
        """(name, bandwidth) of what a route occupies, from one IPU of a link domain to another. [B/s]

        Two routes that yield the same name share that connection; each direction has a name of its own.
        """

    def ring(self, members: Sequence[int]) -> tuple[int, ...]:
        """Neighbouring IPUs in an order in which each is close to the next, and the last to the first."""


def topology_of(system: System) -> Topology:
    """The topology of a pod with several IPUs."""
    return _topology(system.topology)


@cache
def _topology(name: str) -> Topology:
    return cast(Topology, import_module(f"{__name__}.{name}"))
