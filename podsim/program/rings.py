"""Compilation of collectives on rings of IPUs, and of all-to-all exchanges.

IPUs that divide a layer in two dimensions form a grid. Either the IPUs of a row or those of a column are neighbours.
The rings of the other dimension share rails. The faster arrangement is used. An all-to-all is scheduled at compile
time, so the fullest link sets its time. Source: [lepikhin2021]; [gcl_topologies] for the routes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Final, Self

from podsim.placement.rings import RingLayout, ring_of
from podsim.placement.topology import Channel, Routes
from podsim.program.task import Barrier, Collective, Exchange, Step, Transfer
from podsim.program.transfers import transfer
from podsim.scenario.hardware import System
from podsim.units import ps_to_seconds, seconds_to_ps

ALL_REDUCE, TENSOR_PARALLEL, IO_GATHER = "all_reduce", "tensor_parallel", "io_gather"


class Ring(RingLayout):
    """Ring of IPUs that reduce or gather in steps."""

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
        """Yield the steps of an IPU while the shards of a layer reduce or gather tensors, one after the other.

        A tensor goes around the ring in n - 1 steps, twice for an all-reduce. All shards start together with equal
        steps, so all steps of tensors of one size are merged into one exchange without changing the time.

        `sums`: number of passes around the ring, by the bytes of the tensor. `link_weight`: relative speed of
        the transfers on a shared link; 1 for other transfers.
        """
        step_ps = seconds_to_ps(self.step_latency_s)
        for byte_count, count in sums.items():
            steps = count * (len(self.members) - 1)
            sent = (
                Transfer(
                    "chunk",
                    kind,
                    tuple((each.id, steps * seconds_to_ps(chunk / each.bandwidth_bytes_per_s)) for each in channels),
                    steps * step_ps,
                    ceil(link_weight * steps * ceil(chunk)),
                    f"ipu{neighbour}",
                )
                for neighbour, channels, chunk in self.sent(ipu, byte_count)
            )
            # An all-reduce is two passes around the ring: an even count is taken as all-reduces.
            what, times = ("all_gather", count) if count % 2 else ("all_reduce", count // 2)
            whole = Collective(what, self.members, byte_count * times, times, 1, of_shards=True)
            yield Exchange(tuple(sent), whole)
            yield Barrier(f"{name} of ipu{self.members[0]}", kind)

    def step(
        self, what: str, ipu: int, byte_count: float, tensor_count: int = 1, *, of_shards: bool = False
    ) -> Exchange:
        """Return one step of an IPU in an all-reduce, reduce-scatter or all-gather, as named in `task.Collective`."""
        steps = (2 if what == "all_reduce" else 1) * (len(self.members) - 1)
        collective = Collective(what, self.members, byte_count, tensor_count, steps, of_shards)
        return Exchange(self.chunks(ipu, byte_count, tensor_count), collective)

    def chunks(self, ipu: int, byte_count: float, tensor_count: int = 1) -> tuple[Transfer, ...]:
        """Return what an IPU sends in one of the n - 1 steps: 1/n of the bytes that the ring reduces or gathers."""
        latency_s = tensor_count * self.step_latency_s
        return tuple(
            transfer("chunk", ALL_REDUCE, channels, chunk, latency_s, neighbour)
            for neighbour, channels, chunk in self.sent(ipu, byte_count)
        )


@dataclass(frozen=True, slots=True)
class ShardSums:
    """Number of passes of tensors around the rings of IPUs that share a layer, by the tensors' bytes."""

    # rings of IPUs that divide heads, inner widths and vocabulary; all IPUs unless they divide the hidden width as well
    columns: Mapping[int, int] = field(default_factory=dict)
    rows: Mapping[int, int] = field(default_factory=dict)  # rings of IPUs that divide the hidden width

    def __add__(self, other: ShardSums) -> ShardSums:
        """Return the sum of both."""
        return ShardSums(Counter(self.columns) + Counter(other.columns), Counter(self.rows) + Counter(other.rows))


@dataclass(frozen=True, slots=True)
class ShardRings:
    """Rings of the IPUs that share a layer: one around all IPUs, or rows and columns of a grid."""

    columns: Mapping[int, Ring]  # ring of each IPU with the IPUs that have the same part of the hidden width
    # ring of each IPU with the IPUs that have the same heads, inner widths and vocabulary; empty without a grid
    rows: Mapping[int, Ring]

    @classmethod
    def from_members(
        cls,
        system: System,
        ring_count: int,  # number of rings over which data is divided
        members: Sequence[int],
        width_parts: int = 1,
        sums: ShardSums | None = None,
    ) -> Self:
        """Return the rings of adjacent IPUs; rows or columns are neighbours, whichever is faster for these `sums`."""
        if width_parts == 1:
            ring = Ring.around(system, ring_count, members)
            return cls(dict.fromkeys(members, ring), {})
        ways = [cls.grid(system, ring_count, members, width_parts, rows_first=each) for each in (True, False)]
        return min(ways, key=lambda way: way.time_s(sums or ShardSums()))

    @classmethod
    def grid(
        cls, system: System, ring_count: int, members: Sequence[int], width_parts: int, *, rows_first: bool
    ) -> Self:
        """Return the rings of a grid; with `rows_first`, IPUs of a row are neighbours, otherwise IPUs of a column."""
        size, routes = width_parts if rows_first else len(members) // width_parts, Routes(system)
        near = [
            Ring.from_members(system, routes, ring_count, ring_of(system, members[start : start + size]))
            for start in range(0, len(members), size)
        ]
        far = [Ring.from_members(system, routes, ring_count, tuple(members[start::size])) for start in range(size)]
        near_of, far_of = ({ipu: ring for ring in rings for ipu in ring.members} for rings in (near, far))
        return cls(far_of, near_of) if rows_first else cls(near_of, far_of)

    def steps(self, ipu: int, sums: ShardSums) -> Iterator[Step]:
        """Yield the steps of an IPU while shards reduce or gather the tensors of a pass."""
        yield from self.columns[ipu].shard_sums(ipu, sums.columns)
        if sums.rows:
            yield from self.rows[ipu].shard_sums(ipu, sums.rows, "rows")

    def time_s(self, sums: ShardSums) -> float:
        """Return the time of the sums while all rings of a kind share the links. [s]"""
        return _time_s(self.columns, sums.columns) + _time_s(self.rows, sums.rows)


def _time_s(rings: Mapping[int, Ring], sums: Mapping[int, int]) -> float:
    """Return the time of all steps of all rings at once: the fullest channel plus the longest latency. [s]"""
    if not sums:
        return 0.0
    byte_count, loads = sum(size * count for size, count in sums.items()), defaultdict[str, int](int)
    for ipu, ring in rings.items():
        for _, channels, chunk in ring.sent(ipu, byte_count):
            for channel in channels:
                loads[channel.id] += seconds_to_ps(chunk / channel.bandwidth_bytes_per_s)
    step_s = ps_to_seconds(max(loads.values())) + sum(sums.values()) * max(
        each.step_latency_s for each in rings.values()
    )
    return step_s * (len(next(iter(rings.values())).members) - 1)


ALL_TO_ALL: Final = "all_to_all"


@dataclass(frozen=True, slots=True)
class AllToAll:
    """Exchange in which all IPUs of a group in one link domain send to all others."""

    routes: Routes
    members: tuple[int, ...]
    latency_s: float  # sync, and the longest route between two members [s]

    @classmethod
    def from_members(cls, system: System, routes: Routes, members: tuple[int, ...]) -> Self:
        """Return the exchange between some IPUs."""
        pairs = ((here, there) for here in members for there in members if here != there)
        longest_s = max((routes.latency_s(*pair) for pair in pairs), default=0.0)
        return cls(routes, members, system.machine.ipu.multi_ipu_sync_s + longest_s)

    def exchange(self, ipu: int, name: str, sent_bytes: float, count: int = 1) -> Exchange:
        """Return one exchange in place of `count` equal exchanges; it takes the time of all of them."""
        whole_bytes = count * len(self.members) * sent_bytes
        collective = Collective(ALL_TO_ALL, self.members, whole_bytes, count, 1)
        return Exchange(tuple(self._sent(ipu, name, sent_bytes, count)), collective)

    def _sent(self, ipu: int, name: str, sent_bytes: float, count: int) -> Iterator[Transfer]:
        """Yield the traffic of an IPU on each link."""
        loads: Counter[Channel] = Counter()
        for other in self.members:
            if other != ipu:
                loads.update(self.routes.between(ipu, other).channels)
        for channel, messages in loads.items():
            sent = transfer(name, ALL_TO_ALL, (channel,), messages * sent_bytes, self.latency_s)
            channels = tuple((each, count * time_ps) for each, time_ps in sent.channels)
            yield replace(sent, channels=channels, latency_ps=count * sent.latency_ps, size=count * sent.size)
