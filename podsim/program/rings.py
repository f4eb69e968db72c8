"""Rings of IPUs for collectives: their order, their directions, and what a step moves.

Replicas of one IPU, and the shards of a layer, form a ring of neighbours around their topology. Replicas of several
IPUs form a ring for each IPU, straight along the topology; where that does not close, the last hop goes all the way
back. One rule holds for both: the software stack divides the data over so many rings, which take turns in direction.
Each has one IPU-Link of every connection on its way, as long as a rail has as many; more rings share all of them. IPUs
meet after each step. Source: [gcl_topologies] for the rings; that each has a link is inferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from podsim.placement.topologies import topology_of
from podsim.placement.topology import Channel, Routes
from podsim.program.task import Barrier, Collective, Exchange, Step, Transfer
from podsim.program.transfers import transfer
from podsim.scenario.hardware import System

ALL_REDUCE, TENSOR_PARALLEL = "all_reduce", "tensor_parallel"
OWN_LINK = "/ring"
"""Behind the name of a connection in that of the links which the rings of a direction have to themselves."""


def ring_of(system: System, members: Sequence[int]) -> tuple[int, ...]:
    """Neighbouring IPUs in the order of a ring."""
    return topology_of(system).ring(members) if len(members) > 1 else tuple(members)


@dataclass(frozen=True, slots=True)
class Ring:
    """IPUs that reduce or gather together.

    Attributes:
        routes: Of the pod.
        members: The IPUs, in order.
        ring_count: Rings that the data is divided over; every other one goes the other way.
        own_link_bytes_per_s: Of the IPU-Link that each has to itself; None where they share all of a connection. [B/s]
        step_latency_s: Sync and longest route of one step. [s]
    """

    routes: Routes
    members: tuple[int, ...]
    ring_count: int
    own_link_bytes_per_s: float | None
    step_latency_s: float

    @classmethod
    def of(cls, system: System, routes: Routes, ring_count: int, members: tuple[int, ...]) -> Self:
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
    def of_shards(cls, system: System, ring_count: int, members: Sequence[int]) -> Self:
        """The ring around the IPUs that share a layer."""
        return cls.of(system, Routes(system), ring_count, ring_of(system, members))

    def shard_sums(self, ipu: int, sums: Mapping[int, int], name: str = "shards") -> Iterator[Step]:
        """The steps of an IPU while the shards of a layer reduce or gather tensors, one after the other.

        Each goes around in n - 1 steps, twice if it is added up on all shards. They start together and do alike, so
        that the steps of all tensors of a size take as long in one exchange as they do one by one.

        Args:
            ipu: One of the members.
            sums: How often tensors go around, by their bytes.
            name: Of those who meet.
        """
        for byte_count, count in sums.items():
            steps = count * (len(self.members) - 1)
            sent = (
                replace(
                    each,
                    kind=TENSOR_PARALLEL,
                    channels=tuple((channel, steps * time_ps) for channel, time_ps in each.channels),
                    latency_ps=steps * each.latency_ps,
                    size=steps * each.size,
                )
                for each in self.chunks(ipu, byte_count)
            )
            # Summed up is reduced and gathered: around the ring twice.
            what, times = ("all_gather", count) if count % 2 else ("all_reduce", count // 2)
            yield Exchange(tuple(sent), Collective(what, self.members, byte_count * times, times, 1))
            yield Barrier(f"{name} of ipu{self.members[0]}", TENSOR_PARALLEL)

    def step(self, what: str, ipu: int, byte_count: float, tensor_count: int = 1) -> Exchange:
        """One of the steps in which an IPU reduces and gathers (`all_reduce`), or does one of the two.

        Args:
            what: As `podsim.program.task.Collective` names it.
            ipu: One of the members.
            byte_count: As `chunks` has it. [B]
            tensor_count: As `chunks` has it.
        """
        steps = (2 if what == "all_reduce" else 1) * (len(self.members) - 1)
        collective = Collective(what, self.members, byte_count, tensor_count, steps)
        return Exchange(self.chunks(ipu, byte_count, tensor_count), collective)

    def chunks(self, ipu: int, byte_count: float, tensor_count: int = 1) -> tuple[Transfer, ...]:
        """What an IPU sends in one of the n - 1 steps in which the ring reduces or gathers.

        Args:
            ipu: The sender.
            byte_count: All that the ring reduces or gathers; a step moves one part of n per IPU. [B]
            tensor_count: Tensors that it is made of, each with the latency of a step.
        """
        place, count = self.members.index(ipu), len(self.members)
        chunk, latency_s = byte_count / count / self.ring_count, tensor_count * self.step_latency_s
        back = self.ring_count // 2
        sent = []
        for way, rings in ((1, self.ring_count - back), (-1, back)):
            if not rings:
                continue
            neighbour = self.members[(place + way) % count]
            channels = self.routes.between(ipu, neighbour).channels
            if self.own_link_bytes_per_s:
                own = rings * self.own_link_bytes_per_s
                channels = tuple(Channel(f"{each.id}{OWN_LINK}{way:+}", own) for each in channels)
            sent.append(transfer("chunk", ALL_REDUCE, channels, rings * chunk, latency_s, neighbour))
        return tuple(sent)
