"""Exchanges in which each of some IPUs sends something else to every other.

What passes between chips is scheduled when the program is compiled, so that the fullest link sets the time: every IPU
puts what it sends on each link of its routes.

Source: [lepikhin2021]; [gcl_topologies] for the routes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

from podsim.placement.topology import Channel, Routes
from podsim.program.task import Collective, Exchange, Transfer
from podsim.program.transfers import transfer
from podsim.scenario.hardware import System

ALL_TO_ALL: Final = "all_to_all"


@dataclass(frozen=True, slots=True)
class AllToAll:
    """IPUs of one link domain that exchange all to all."""

    routes: Routes
    members: tuple[int, ...]
    latency_s: float  # sync, and the longest route between two of them [s]

    @classmethod
    def of(cls, system: System, routes: Routes, members: tuple[int, ...]) -> Self:
        """The exchange between some IPUs."""
        pairs = ((here, there) for here in members for there in members if here != there)
        longest_s = max((routes.latency_s(*pair) for pair in pairs), default=0.0)
        return cls(routes, members, system.machine.ipu.multi_ipu_sync_s + longest_s)

    def exchange(self, ipu: int, name: str, sent_bytes: float, count: int = 1) -> Exchange:
        """All that an IPU sends in so many exchanges, which take as long in one as they do one by one."""
        whole_bytes = count * len(self.members) * sent_bytes
        collective = Collective(ALL_TO_ALL, self.members, whole_bytes, count, 1)
        return Exchange(tuple(self._sent(ipu, name, sent_bytes, count)), collective)

    def _sent(self, ipu: int, name: str, sent_bytes: float, count: int) -> Iterator[Transfer]:
        """What an IPU puts on each link."""
        loads: Counter[Channel] = Counter()
        for other in self.members:
            if other != ipu:
                loads.update(self.routes.between(ipu, other).channels)
        for channel, messages in loads.items():
            sent = transfer(name, ALL_TO_ALL, (channel,), messages * sent_bytes, self.latency_s)
            channels = tuple((each, count * time_ps) for each, time_ps in sent.channels)
            yield replace(sent, channels=channels, latency_ps=count * sent.latency_ps, size=count * sent.size)
