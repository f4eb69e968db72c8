"""How chips reduce and gather: rings, and halves for small messages; docs/background/collectives.md says which links.

Source: [gcl_topologies] for the rings; inferred: each ring has one IPU-Link of every connection, as long as a rail has
as many; more rings share all. IPUs meet after each step. Assumed: small messages go by halves [thakur2005], and up to
which size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from podsim.placement.topologies import topology_of
from podsim.placement.topology import Channel, Routes
from podsim.scenario.hardware import System
from podsim.tiles.collective import Steps

OWN_LINK = "/ring"
"""Behind the name of a connection in that of the links which the rings of a direction have to themselves."""


def ring_of(system: System, members: Sequence[int]) -> tuple[int, ...]:
    """IPUs, which are given from the first to the last, in the order of a ring: straight along where they lie apart."""
    if len(members) == 1 or members[-1] - members[0] >= len(members):
        return tuple(members)
    return topology_of(system).ring(members)


@dataclass(frozen=True, slots=True)
class RingLayout:
    """IPUs that reduce or gather together."""

    routes: Routes
    members: tuple[int, ...]  # the IPUs, in order
    ring_count: int  # rings that the data is divided over; every other one goes the other way
    # of the IPU-Link that each has to itself; None where they share all of a connection [B/s]
    own_link_bytes_per_s: float | None
    step_latency_s: float  # sync and longest route of one step [s]

    @classmethod
    def from_members(cls, system: System, routes: Routes, ring_count: int, members: tuple[int, ...]) -> Self:
        """The ring over some IPUs, which are in order."""
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
        """The ring around the IPUs that share a layer."""
        return cls.from_members(system, Routes(system), ring_count, ring_of(system, members))

    def sent(self, ipu: int, byte_count: float) -> Iterator[tuple[int, tuple[Channel, ...], float]]:
        """Receiver, links and bytes of what an IPU sends in one of the n - 1 steps, each a part of n of all bytes."""
        place, count = self.members.index(ipu), len(self.members)
        chunk, back = byte_count / count / self.ring_count, self.ring_count // 2
        for way, rings in ((1, self.ring_count - back), (-1, back)):
            if not rings:
                continue
            neighbour = self.members[(place + way) % count]
            channels = self.routes.between(ipu, neighbour).channels
            if self.own_link_bytes_per_s:
                own = rings * self.own_link_bytes_per_s
                channels = tuple(Channel(f"{channel.id}{OWN_LINK}{way:+}", own) for channel in channels)
            yield neighbour, channels, rings * chunk

    def steps_of(self, system: System, byte_count: float, halved_bytes: float) -> Steps:
        """Those of a reduce-scatter or an all-gather: around the ring, or by halves."""
        return halves(system, self.routes, self.members) if byte_count <= halved_bytes else self.steps

    @property
    def steps(self) -> Steps:
        """Those of one time around."""
        count = len(self.members)
        if count == 1:
            return Steps(())
        sent = (each for ipu in self.members for each in self.sent(ipu, 1.0))
        return Steps(((count - 1, self.step_latency_s, _fullest_s(sent)),))


def halves(system: System, routes: Routes, members: Sequence[int]) -> Steps:
    """The steps in which IPUs of a link domain reduce by halves, or gather: neighbours first."""
    ipus, found, apart = sorted(members), list[tuple[int, float, float]](), 1
    while apart < len(ipus):
        pairs = [(here, ipus[place ^ apart]) for place, here in enumerate(ipus) if place ^ apart < len(ipus)]
        latency_s = system.machine.ipu.multi_ipu_sync_s + max(routes.latency_s(*pair) for pair in pairs)
        sent = ((there, routes.between(here, there).channels, 1.0) for here, there in pairs)
        found.append((1, latency_s, _fullest_s(sent) / (2 * apart)))
        apart *= 2
    return Steps(tuple(found))


def _fullest_s(sent: Iterator[tuple[int, tuple[Channel, ...], float]]) -> float:
    """What the fullest link takes. [s]"""
    loads: dict[Channel, float] = defaultdict(float)
    for _, channels, byte_count in sent:
        for channel in channels:
            loads[channel] += byte_count / channel.bandwidth_bytes_per_s
    return max(loads.values())
