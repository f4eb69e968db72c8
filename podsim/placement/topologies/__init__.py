"""Topologies of link domains: one module for each value of `topology`, with the same name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from podsim.scenario.hardware import System


class Connection(NamedTuple):
    """Links that join two IPUs, in one direction."""

    name: str  # routes with the same name share the connection; its two directions have different names
    bytes_per_s: float
    latency_s: float = 0.0  # latency in addition to that of a hop [s]


class Topology(Protocol):
    """Interface of a module in this package."""

    def connections(self, system: System, first: int, last: int) -> Iterator[Connection]:
        """Yield each connection on the route between two IPUs of a link domain."""

    def ring(self, members: Sequence[int]) -> tuple[int, ...]:
        """Return adjacent IPUs in ring order: each IPU is close to the next, and the last to the first."""


def topology_of(system: System) -> Topology:
    """Return the topology of a pod with several IPUs."""
    return _topology(system.topology)


@cache
def _topology(name: str) -> Topology:
    return cast(Topology, import_module(f"{__name__}.{name}"))
