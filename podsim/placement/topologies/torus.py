"""Torus topology: a ladder whose ends are joined on both sides. Source: [gcl_topologies]."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.placement.topologies import Connection
from podsim.placement.topologies.ladder import ring, walk
from podsim.scenario.hardware import System

__all__ = ["connections", "ring"]


def connections(system: System, first: int, last: int) -> Iterator[Connection]:
    """Yield the rung and rails of the shorter route."""
    return walk(system, first, last, wraps=True)
