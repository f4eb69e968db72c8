"""Rings of IPUs for collectives. Source: [gcl_topologies]."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.specs.hardware import System
from podsim.specs.software import Software
from podsim.system import route, topology_of


def ring_of(system: System, members: Sequence[int]) -> tuple[int, ...]:
    """Neighbouring IPUs in the order of a ring."""
    return topology_of(system).ring(members) if len(members) > 1 else tuple(members)


def step_latency_s(system: System, software: Software, ring: Sequence[int]) -> float:
    """Sync and longest route of one step of a ring. [s]"""
    ends = zip(ring, (*ring[1:], ring[0]), strict=True)
    longest = max((route(system, here, there).latency_s for here, there in ends if here != there), default=0.0)
    return max(longest, software.collective_step_latency_s)
