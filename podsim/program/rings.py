"""Rings of IPUs for collectives: their order, their directions, and what a step moves.

Replicas of one IPU, and the shards of a layer, form a ring of neighbours around their topology, which always closes.
Replicas of several IPUs form a ring for each IPU, straight along the topology, which closes where that does and if the
replicas fill the link domain. The software stack says which of them use both directions of their links, half the data
each, and which share of a link it gets to carry. Source: [gcl_topologies].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from podsim.placement.plan import Plan
from podsim.placement.topologies import topology_of
from podsim.placement.topology import Routes
from podsim.program.task import Barrier, Exchange, Step, Transfer
from podsim.program.transfers import link_transfer
from podsim.scenario.hardware import System
from podsim.scenario.software import Software

ALL_REDUCE, TENSOR_PARALLEL = "all_reduce", "tensor_parallel"


def ring_of(system: System, members: Sequence[int]) -> tuple[int, ...]:
    """Neighbouring IPUs in the order of a ring."""
    return topology_of(system).ring(members) if len(members) > 1 else tuple(members)


def _step_latency_s(routes: Routes, software: Software, ring: Sequence[int]) -> float:
    """Sync and longest route of one step of a ring. [s]"""
    ends = zip(ring, (*ring[1:], ring[0]), strict=True)
    longest = max((routes.latency_s(here, there) for here, there in ends if here != there), default=0.0)
    return max(longest, software.collective_step_latency_s)


@dataclass(frozen=True, slots=True)
class Ring:
    """IPUs that reduce or gather together.

    Attributes:
        routes: Of the pod.
        software: Which share of a link a collective gets to carry, and how long its steps take at least.
        members: The IPUs, in order.
        both_ways: Whether half of the data goes the other way.
        step_latency_s: Sync and longest route of one step. [s]
    """

    routes: Routes
    software: Software
    members: tuple[int, ...]
    both_ways: bool
    step_latency_s: float

    @classmethod
    def of_shards(cls, system: System, software: Software, members: Sequence[int]) -> Self:
        """The ring around the IPUs that share a layer."""
        return cls._of(Routes(system), software, ring_of(system, members), software.collective_both_ways)

    @classmethod
    def of_replicas(cls, plan: Plan, routes: Routes, members: tuple[int, ...]) -> Self:
        """The ring over replicas, whose members are in order."""
        system, software, ipus_per_replica = plan.system, plan.software, plan.layout.ipus_per_replica
        if ipus_per_replica == 1:
            return cls._of(routes, software, members, software.collective_both_ways)
        closes = topology_of(system).CLOSED and len(members) * ipus_per_replica == system.domain_ipu_count
        return cls._of(routes, software, members, software.collective_both_ways_along_torus and closes)

    @classmethod
    def _of(cls, routes: Routes, software: Software, members: tuple[int, ...], both_ways: bool) -> Self:
        return cls(routes, software, members, both_ways, _step_latency_s(routes, software, members))

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
            yield Exchange(tuple(sent))
            yield Barrier(f"{name} of ipu{self.members[0]}", TENSOR_PARALLEL)

    def chunks(self, ipu: int, byte_count: float, tensor_count: int = 1) -> tuple[Transfer, ...]:
        """What an IPU sends in one of the n - 1 steps in which the ring reduces or gathers.

        Args:
            ipu: The sender.
            byte_count: All that the ring reduces or gathers; a step moves one part of n per IPU. [B]
            tensor_count: Tensors that it is made of, each with the latency of a step.
        """
        place, count = self.members.index(ipu), len(self.members)
        targets = {self.members[(place + 1) % count]}
        if self.both_ways:
            targets.add(self.members[place - 1])
        chunk = byte_count / count / len(targets) / (self.software.collective_link_share or 1)
        latency_s = tensor_count * self.step_latency_s
        return tuple(
            link_transfer(self.routes, "chunk", ALL_REDUCE, ipu, target, chunk, latency_s) for target in sorted(targets)
        )
