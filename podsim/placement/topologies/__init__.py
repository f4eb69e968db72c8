"""Topologies of link domains: one module for each value of `topology`, with the same name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from podsim.scenario.hardware import System


class Topology(Protocol):
    """Interface of a module in this package."""

    def connections(self, system: System, first: int, last: int) -> Iterator[tuple[str, float]]:
        """Yield (name, bandwidth [B/s]) of each connection on the route between two IPUs of a link domain.

        Two routes that yield the same name share that connection. The two directions of a connection have different
        names.
        """

    def ring(self, members: Sequence[int]) -> tuple[int, ...]:
        """Return adjacent IPUs in ring order: each IPU is close to the next, and the last to the first."""


def topology_of(system: System) -> Topology:
    """Return the topology of a pod with several IPUs."""
    return _topology(system.topology)


@cache
def _topology(name: str) -> Topology:
    return cast(Topology, import_module(f"{__name__}.{name}"))
