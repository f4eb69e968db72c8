"""Exchanges of tokens between the IPUs that route them and those that hold their experts.

All to all between IPUs of the same place in every group, then a ring in the group [lepikhin2021], [gcl_topologies] for
rings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from podsim.models import Workload
from podsim.models.op import DTYPE_BYTES, TokenExchange
from podsim.placement.cuts import Segment
from podsim.placement.topology import Routes
from podsim.program.rings import ALL_TO_ALL, AllToAll, Ring
from podsim.program.task import Barrier, Step
from podsim.scenario.hardware import System


@dataclass(frozen=True, slots=True)
class Routed:
    """What the IPUs of a layer exchange once."""

    group_count: int  # groups of IPUs, each with some of the experts
    sent_bytes: int  # what an IPU sends to its fellow in each other group [B]
    whole_bytes: int  # what the IPUs of a group gather or add up; 0 for groups of one [B]


def routed_in(workload: Workload, segments: Iterable[Segment], *, backward: bool = False) -> Counter[Routed]:
    """How often the IPUs of a layer exchange tokens in a pass over segments, by what they exchange."""
    found: Counter[Routed] = Counter()
    for segment in segments:
        for name in segment.blocks:
            block = workload.blocks[name]
            for op in block.backward if backward else block.forward:
                if isinstance(op, TokenExchange):
                    size = DTYPE_BYTES[op.dtype]
                    found[Routed(op.group_count, size * op.sent_count, size * op.whole_count)] += segment.count
    return found


@dataclass(frozen=True)
class ExpertGroups:
    """The IPUs that share the layers of a stage, with the links between them."""

    system: System
    ring_count: int  # rings that a sum over IPUs is divided over
    members: tuple[int, ...]  # the IPUs, neighbours in order; groups are equal parts of them

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.system)

    def steps(self, ipu: int, exchanges: Mapping[Routed, int]) -> Iterator[Step]:
        """The steps of an IPU while tokens are exchanged, as often as is said.

        All exchanges of a size start together and do alike, and take as long in one as they do one by one.
        """
        for routed, count in exchanges.items():
            yield self._all_to_all(ipu, routed.group_count).exchange(ipu, "tokens", routed.sent_bytes, count)
            yield Barrier(f"tokens of ipu{self.members[0]}", ALL_TO_ALL)
            if routed.whole_bytes:
                ring = Ring.of_shards(self.system, self.ring_count, self._group(ipu, routed.group_count))
                yield from ring.shard_sums(ipu, {routed.whole_bytes: count}, "experts")

    def _group(self, ipu: int, group_count: int) -> tuple[int, ...]:
        size = len(self.members) // group_count
        first = self.members.index(ipu) // size * size
        return self.members[first : first + size]

    def _fellows(self, ipu: int, group_count: int) -> tuple[int, ...]:
        """IPUs of the same place in all groups."""
        size = len(self.members) // group_count
        return self.members[self.members.index(ipu) % size :: size]

    def _all_to_all(self, ipu: int, group_count: int) -> AllToAll:
        """Between an IPU and its fellows; all begin after the latency of the longest route of any IPU."""
        size = len(self.members) // group_count
        places = (self._fellows(other, group_count) for other in self.members[:size])
        latency_s = max(AllToAll.of(self.system, self._routes, fellows).latency_s for fellows in places)
        return AllToAll(self._routes, self._fellows(ipu, group_count), latency_s)
