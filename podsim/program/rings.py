"""Rings of IPUs for collectives, and exchanges of all with all, as steps of a program.

IPUs that divide a layer in two dimensions are a grid of rows and columns: those of one are neighbours, those of the
other lie apart, in rings that share rails; the faster of both ways is taken. All to all is scheduled when the program
is compiled, so that the fullest link sets the time. Source: [lepikhin2021]; [gcl_topologies] for the routes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final, Self

from podsim.placement.rings import Around, ring_of
from podsim.placement.topology import Channel, Routes
from podsim.program.task import Barrier, Collective, Exchange, Step, Transfer
from podsim.program.transfers import transfer
from podsim.scenario.hardware import System
from podsim.units import ps_to_seconds

ALL_REDUCE, TENSOR_PARALLEL, IO_GATHER = "all_reduce", "tensor_parallel", "io_gather"


class Ring(Around):
    """IPUs that reduce or gather together, step by step."""

    __slots__ = ()

    def shard_sums(
        self,
        ipu: int,
        sums: Mapping[int, int],
        name: str = "shards",
        *,
        kind: str = TENSOR_PARALLEL,
        link_weight: float = 1.0,
    ) -> Iterator[Step]:
        """The steps of an IPU while the shards of a layer reduce or gather tensors, one after the other.

        Each goes around in n - 1 steps, twice if it is added up on all shards. They start together and do alike, so
        that the steps of all tensors of a size take as long in one exchange as they do one by one.

        `sums`: how often tensors go around, by their bytes; `link_weight`: speed on a shared link, where it is 1 for
        other transfers.
        """
        for byte_count, count in sums.items():
            steps = count * (len(self.members) - 1)
            sent = (
                replace(
                    chunk,
                    kind=kind,
                    channels=tuple((channel, steps * time_ps) for channel, time_ps in chunk.channels),
                    latency_ps=steps * chunk.latency_ps,
                    size=ceil(link_weight * steps * chunk.size),
                )
                for chunk in self.chunks(ipu, byte_count)
            )
            # Summed up is reduced and gathered: around the ring twice.
            what, times = ("all_gather", count) if count % 2 else ("all_reduce", count // 2)
            whole = Collective(what, self.members, byte_count * times, times, 1, of_shards=True)
            yield Exchange(tuple(sent), whole)
            yield Barrier(f"{name} of ipu{self.members[0]}", kind)

    def step(
        self, what: str, ipu: int, byte_count: float, tensor_count: int = 1, *, of_shards: bool = False
    ) -> Exchange:
        """One step of an IPU in an all-reduce, or in one of its halves, as `task.Collective` names them."""
        steps = (2 if what == "all_reduce" else 1) * (len(self.members) - 1)
        collective = Collective(what, self.members, byte_count, tensor_count, steps, of_shards)
        return Exchange(self.chunks(ipu, byte_count, tensor_count), collective)

    def chunks(self, ipu: int, byte_count: float, tensor_count: int = 1) -> tuple[Transfer, ...]:
        """What an IPU sends in one of the n - 1 steps: one part of n of all bytes that the ring reduces or gathers."""
        latency_s = tensor_count * self.step_latency_s
        return tuple(
            transfer("chunk", ALL_REDUCE, channels, chunk, latency_s, neighbour)
            for neighbour, channels, chunk in self.sent(ipu, byte_count)
        )


@dataclass(frozen=True, slots=True)
class ShardSums:
    """How often tensors go around the rings of the IPUs that share a layer, by their bytes."""

    # around those which divide heads, inner widths and words; all of them unless they divide the width too
    columns: Mapping[int, int] = field(default_factory=dict)
    rows: Mapping[int, int] = field(default_factory=dict)  # around those which divide the width of hidden states

    def __add__(self, other: ShardSums) -> ShardSums:
        """Those of both."""
        return ShardSums(Counter(self.columns) + Counter(other.columns), Counter(self.rows) + Counter(other.rows))


@dataclass(frozen=True, slots=True)
class ShardRings:
    """The rings of the IPUs that share a layer: one around all of them, or those of a grid."""

    columns: Mapping[int, Ring]  # the ring of each IPU with those that have the same part of the width
    # the ring of each IPU with those that have the same heads, inner widths and words; none without a grid
    rows: Mapping[int, Ring]

    @classmethod
    def of(
        cls,
        system: System,
        ring_count: int,  # rings that data is divided over
        members: Sequence[int],
        width_parts: int = 1,
        sums: ShardSums | None = None,
    ) -> Self:
        """The rings of some neighbours: of rows or of columns adjacent, whichever is faster for these `sums`."""
        if width_parts == 1:
            ring = Ring.of_shards(system, ring_count, members)
            return cls(dict.fromkeys(members, ring), {})
        ways = [cls.grid(system, ring_count, members, width_parts, rows_first=each) for each in (True, False)]
        return min(ways, key=lambda way: way.time_s(sums or ShardSums()))

    @classmethod
    def grid(
        cls, system: System, ring_count: int, members: Sequence[int], width_parts: int, *, rows_first: bool
    ) -> Self:
        """The rings of a grid whose rows, or whose columns, are neighbours; arguments as above."""
        size, routes = width_parts if rows_first else len(members) // width_parts, Routes(system)
        near = [
            Ring.of(system, routes, ring_count, ring_of(system, members[start : start + size]))
            for start in range(0, len(members), size)
        ]
        far = [Ring.of(system, routes, ring_count, tuple(members[start::size])) for start in range(size)]
        near_of, far_of = ({ipu: ring for ring in rings for ipu in ring.members} for rings in (near, far))
        return cls(far_of, near_of) if rows_first else cls(near_of, far_of)

    def steps(self, ipu: int, sums: ShardSums) -> Iterator[Step]:
        """The steps of an IPU while shards reduce or gather tensors of a pass."""
        yield from self.columns[ipu].shard_sums(ipu, sums.columns)
        if sums.rows:
            yield from self.rows[ipu].shard_sums(ipu, sums.rows, "rows")

    def time_s(self, sums: ShardSums) -> float:
        """What goes around takes so long while all rings of a kind share the links. [s]"""
        return _time_s(self.columns, sums.columns) + _time_s(self.rows, sums.rows)


def _time_s(rings: Mapping[int, Ring], sums: Mapping[int, int]) -> float:
    """Steps of all rings at once: the fullest channel, and the longest latency of each. [s]"""
    if not sums:
        return 0.0
    byte_count, loads = sum(size * count for size, count in sums.items()), Counter[str]()
    for ipu, ring in rings.items():
        for chunk in ring.chunks(ipu, byte_count):
            loads.update(dict(chunk.channels))
    step_s = ps_to_seconds(max(loads.values())) + sum(sums.values()) * max(
        each.step_latency_s for each in rings.values()
    )
    return step_s * (len(next(iter(rings.values())).members) - 1)


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
