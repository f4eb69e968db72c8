"""Algorithms of collectives between chips: rings, and recursive halving for small messages.

docs/background/collectives.md describes the links. Source: [gcl_topologies] for the rings. Inferred: each ring has one
IPU-Link of every connection, if a rail has that many links; otherwise all rings share all links. IPUs synchronise after
each step. Assumed: recursive halving for small messages [thakur2005], and its size limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from podsim import memo
from podsim.placement.topologies import topology_of
from podsim.placement.topology import Channel, Routes
from podsim.scenario.hardware import System
from podsim.tiles.collective import Steps


def own_link_id(channel: str, way: int) -> str:
    """Return the name of the channel with the links of a connection that belong to the rings of one direction, ±1."""
    return f"{channel}/ring{way:+}"


def ring_of(system: System, members: Sequence[int]) -> tuple[int, ...]:
    """Return IPUs, given in ascending order, in the order of a ring; IPUs that are not adjacent stay in order."""
    if len(members) == 1 or members[-1] - members[0] >= len(members):
        return tuple(members)
    return topology_of(system).ring(members)


@dataclass(frozen=True, slots=True)
class RingLayout:
    """Ring of IPUs that reduce or gather together, with its links."""

    routes: Routes
    members: tuple[int, ...]  # IPUs in ring order
    ring_count: int  # rings over which data is divided; they alternate in direction
    # bandwidth of the IPU-Link of each ring; None if rings share all links of a connection [B/s]
    own_link_bytes_per_s: float | None
    step_latency_s: float  # latency of one step: sync and longest route [s]

    @classmethod
    def from_members(cls, system: System, routes: Routes, ring_count: int, members: tuple[int, ...]) -> Self:
        """Return the ring over some IPUs in the given order."""
        ends = zip(members, (*members[1:], members[0]), strict=True)
        longest_s = max((routes.latency_s(here, there) for here, there in ends if here != there), default=0.0)
        link, links, sync_s = (
            system.machine.ipu_link,
            system.machine.rail_link_count,
            system.machine.ipu.multi_ipu_sync_s,
        )
        own = link.bandwidth_bytes_per_s if link and ring_count <= (links or 0) else None
        return cls(routes, members, ring_count, own, sync_s + longest_s)

    @classmethod
    def around(cls, system: System, ring_count: int, members: Sequence[int]) -> Self:
        """Return the ring around the IPUs that share a layer."""
        return cls.from_members(system, Routes(system), ring_count, ring_of(system, members))

    def sent(self, ipu: int, byte_count: float) -> Iterator[tuple[int, tuple[Channel, ...], float]]:
        """Yield receiver, channels and bytes of each message of an IPU in one of the n - 1 steps, which moves 1/n."""
        place, count = self.members.index(ipu), len(self.members)
        chunk, back = byte_count / count / self.ring_count, self.ring_count // 2
        for way, rings in ((1, self.ring_count - back), (-1, back)):
            if not rings:
                continue
            neighbour = self.members[(place + way) % count]
            channels = self.routes.between(ipu, neighbour).channels
            if self.own_link_bytes_per_s:
                own = rings * self.own_link_bytes_per_s
                channels = tuple(Channel(own_link_id(channel.id, way), own) for channel in channels)
            yield neighbour, channels, rings * chunk

    def steps_of(self, system: System, byte_count: float, halved_bytes: float) -> Steps:
        """Return the steps of a reduce-scatter or all-gather: around the ring or, for small messages, by halving."""
        return halves(system, self.routes, self.members) if byte_count <= halved_bytes else self.steps

    @property
    def steps(self) -> Steps:
        """Steps of one pass around the ring."""
        count = len(self.members)
        if count == 1:
            return Steps(())
        sent = (each for ipu in self.members for each in self.sent(ipu, 1.0))
        return Steps(((count - 1, self.step_latency_s, _fullest_s(sent)),))


def halves(system: System, routes: Routes, members: Sequence[int]) -> Steps:
    """Return the steps of a reduce-scatter or all-gather by recursive halving in a link domain, neighbours first."""
    sync_s = system.machine.ipu.multi_ipu_sync_s
    ipus = tuple(sorted(members))
    return memo.HALVINGS.get((routes.key, sync_s, ipus), lambda: _halves(sync_s, routes, ipus))


def _halves(sync_s: float, routes: Routes, ipus: tuple[int, ...]) -> Steps:
    found, apart = list[tuple[int, float, float]](), 1
    while apart < len(ipus):
        pairs = [(here, ipus[place ^ apart]) for place, here in enumerate(ipus) if place ^ apart < len(ipus)]
        latency_s = sync_s + max(routes.latency_s(*pair) for pair in pairs)
        sent = ((there, routes.between(here, there).channels, 1.0) for here, there in pairs)
        found.append((1, latency_s, _fullest_s(sent) / (2 * apart)))
        apart *= 2
    return Steps(tuple(found))


def _fullest_s(sent: Iterator[tuple[int, tuple[Channel, ...], float]]) -> float:
    """Return the time of the fullest link. [s]"""
    loads: dict[Channel, float] = defaultdict(float)
    for _, channels, byte_count in sent:
        for channel in channels:
            loads[channel] += byte_count / channel.bandwidth_bytes_per_s
    return max(loads.values())
