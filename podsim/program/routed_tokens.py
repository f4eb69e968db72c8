"""All-to-all exchanges of tokens between the IPUs that route them and those that hold their experts.

IPUs of a replica that share its layers form groups of neighbours, each with some of the experts. IPUs of the same
place in every group exchange all to all, at once. What passes between chips is scheduled when the program is compiled,
so that the fullest link sets the time: every IPU puts what it sends on each link of its routes. IPUs meet, and those of
a group then gather in a ring what they have received, or have added up the results that they send.

Source: [lepikhin2021]; [gcl_topologies] for rings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from podsim.models import Workload
from podsim.models.op import DTYPE_BYTES, TokenExchange
from podsim.placement.cuts import Segment
from podsim.placement.topology import Channel, Routes
from podsim.program.rings import Ring
from podsim.program.task import Barrier, Exchange, Step, Transfer
from podsim.program.transfers import transfer
from podsim.scenario.hardware import System

ALL_TO_ALL = "all_to_all"


@dataclass(frozen=True, slots=True)
class Routed:
    """What the IPUs of a layer exchange once.

    Attributes:
        group_count: Groups of IPUs, each with some of the experts.
        sent_bytes: What an IPU sends to its fellow in each other group. [B]
        whole_bytes: What the IPUs of a group gather or add up; 0 for groups of one. [B]
    """

    group_count: int
    sent_bytes: int
    whole_bytes: int


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
    """The IPUs that share the layers of a stage, with the links between them.

    Attributes:
        system: The pod.
        ring_count: Rings that a sum over IPUs is divided over.
        members: The IPUs, neighbours in order; groups are equal parts of them.
    """

    system: System
    ring_count: int
    members: tuple[int, ...]

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.system)

    def steps(self, ipu: int, exchanges: Mapping[Routed, int]) -> Iterator[Step]:
        """The steps of an IPU while tokens are exchanged, as often as is said.

        All exchanges of a size start together and do alike, and take as long in one as they do one by one.
        """
        for routed, count in exchanges.items():
            yield Exchange(tuple(self._sent(ipu, routed, count)))
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

    def _sent(self, ipu: int, routed: Routed, count: int) -> Iterator[Transfer]:
        """What an IPU puts on each link; all begin after the latency of the longest route of any IPU."""
        others = (other for other in self._fellows(ipu, routed.group_count) if other != ipu)
        loads: Counter[Channel] = Counter()
        for other in others:
            loads.update(self._routes.between(ipu, other).channels)
        latency_s = self._latency_s(routed.group_count)
        for channel, messages in loads.items():
            sent = transfer("tokens", ALL_TO_ALL, (channel,), messages * routed.sent_bytes, latency_s)
            channels = tuple((name, count * time_ps) for name, time_ps in sent.channels)
            yield replace(sent, channels=channels, latency_ps=count * sent.latency_ps, size=count * sent.size)

    def _latency_s(self, group_count: int) -> float:
        """Sync and longest route of one exchange. [s]"""
        pairs = ((ipu, other) for ipu in self.members for other in self._fellows(ipu, group_count) if ipu != other)
        longest_s = max((self._routes.latency_s(*pair) for pair in pairs), default=0.0)
        return self.system.machine.ipu.multi_ipu_sync_s + longest_s
