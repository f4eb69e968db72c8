"""Exchange of tokens between the IPUs that route them and the IPUs that hold their experts.

An all-to-all between IPUs with the same position in every group is followed by a ring inside each group. Source:
[lepikhin2021]; [gcl_topologies] for rings.
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
    """Kind of token exchange between the IPUs of a layer, with the sizes of one exchange."""

    group_count: int  # groups of IPUs, each with some of the experts
    sent_bytes: int  # bytes from an IPU to its counterpart in each other group [B]
    whole_bytes: int  # bytes that the IPUs of a group gather or sum; 0 for groups of one IPU [B]


def routed_in(workload: Workload, segments: Iterable[Segment], *, backward: bool = False) -> Counter[Routed]:
    """Count the token exchanges of the IPUs of a layer in a pass over segments, by kind of exchange."""
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
    """IPUs that share the layers of a stage, divided into groups that hold different experts."""

    system: System
    ring_count: int  # number of rings over which a sum is divided
    members: tuple[int, ...]  # IPUs in order, adjacent; groups are equal consecutive parts

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.system)

    def steps(self, ipu: int, exchanges: Mapping[Routed, int]) -> Iterator[Step]:
        """Yield the steps of an IPU in token exchanges, given the number of exchanges of each kind.

        All IPUs start together with equal steps, so equal exchanges are merged into one without changing the time.
        """
        for routed, count in exchanges.items():
            yield self._all_to_all(ipu, routed.group_count).exchange(ipu, "tokens", routed.sent_bytes, count)
            yield Barrier(f"tokens of ipu{self.members[0]}", ALL_TO_ALL)
            if routed.whole_bytes:
                ring = Ring.around(self.system, self.ring_count, self._group(ipu, routed.group_count))
                yield from ring.shard_sums(ipu, {routed.whole_bytes: count}, "experts")

    def _group(self, ipu: int, group_count: int) -> tuple[int, ...]:
        size = len(self.members) // group_count
        first = self.members.index(ipu) // size * size
        return self.members[first : first + size]

    def _fellows(self, ipu: int, group_count: int) -> tuple[int, ...]:
        """Return the IPUs with the same position in all groups."""
        size = len(self.members) // group_count
        return self.members[self.members.index(ipu) % size :: size]

    def _all_to_all(self, ipu: int, group_count: int) -> AllToAll:
        """Return the exchange between an IPU and its counterparts, with the longest latency of any such exchange."""
        size = len(self.members) // group_count
        places = (self._fellows(other, group_count) for other in self.members[:size])
        latency_s = max(AllToAll.from_members(self.system, self._routes, fellows).latency_s for fellows in places)
        return AllToAll(self._routes, self._fellows(ipu, group_count), latency_s)
