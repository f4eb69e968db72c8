"""Methods of collectives between chips; docs/background/collectives.md describes the links and the methods.

Source: [poplibs_collectives] for the methods, their choice and their programs, [gcl_topologies] for the rings and for
broadcasts. Inferred: each ring has one IPU-Link of every connection, if a rail has that many links; otherwise all rings
share all links. IPUs synchronise in each exchange. Assumed: Poplar merges neighbouring copies, and with several rings
also the exchanges of both directions; each remaining program costs a superstep.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Final, Self

from podsim import memo
from podsim.models.op import DTYPE_BYTES
from podsim.placement.topologies import topology_of
from podsim.placement.topology import Channel, Routes
from podsim.scenario.hardware import System
from podsim.scenario.ipu import Ipu
from podsim.tiles.collective import ALL_GATHER, PASSES, REDUCE_SCATTER, Pass
from podsim.tiles.vector import elementwise_cycles


def own_link_id(channel: str, way: int) -> str:
    """Return the name of the channel with the links of a connection that belong to the rings of one direction, ±1."""
    return f"{channel}/ring{way:+}"


@dataclass(frozen=True, slots=True)
class Method:
    """Program of a reduce-scatter or all-gather over n IPUs [poplibs_collectives]."""

    direction_count: int
    # supersteps (before the loop, in each step) of each pass: updates of an index, branches, copies, additions
    supersteps: Mapping[str, tuple[int, int]]
    meets: bool = False  # True if both directions carry whole fragments half of the way, instead of halves all the way

    def step_count(self, members: int) -> int:
        """Return the number of steps of a pass over some members."""
        return members // 2 if self.meets else members - 1

    @property
    def fragments(self) -> int:
        """Fragments of 1/n of the tensor that an IPU sends in a step, in all directions together."""
        return 2 if self.meets else 1


CLOCKWISE: Final = Method(1, {REDUCE_SCATTER: (4, 4), ALL_GATHER: (5, 4)})
"""One ring."""
PAIR: Final = Method(2, {REDUCE_SCATTER: (8, 7), ALL_GATHER: (9, 7)})
"""Pair of rings in both directions, each for half of the tensor."""
MEET_IN_MIDDLE: Final = Method(2, {REDUCE_SCATTER: (3, 12), ALL_GATHER: (6, 10)}, meets=True)
"""Both directions go half of the way around. Its first and last step have fewer supersteps, which `before` contains."""
_IN_PASS: Final[Mapping[str, tuple[int, int]]] = {REDUCE_SCATTER: (0, 1), ALL_GATHER: (0, 0)}
"""Supersteps of sums inside a pass: an addition in each step. GCL's program for groups of replicas is not published."""

_PAIR_OF_SHARDS: Final = ((4, 622_592), (8, 2_490_368), (16, 19_922_944))
"""(members at most, bytes of one IPU's shard from which a pair of rings gathers) [poplibs_collectives]."""
_BYTES_OF_REDUCTION: Final = 2
"""The limits of a reduce-scatter are twice as large, and count the whole tensor [poplibs_collectives]."""
_MANY_ELEMENTS: Final = 1 << 20
_BROADCAST_SUPERSTEPS: Final = 2  # a copy of what arrives, and a sum


def ring_of(system: System, members: Sequence[int]) -> tuple[int, ...]:
    """Return IPUs, given in ascending order, in the order of a ring.

    Adjacent IPUs follow the topology's ring. Others go straight along a torus, as it closes, and elsewhere up with
    every other one and down with the rest, as the IPUs of a ladder do.
    """
    if len(members) == 1 or _closes(system, members):
        return tuple(members)
    if members[-1] - members[0] >= len(members):
        return (*members[0::2], *members[1::2][::-1])
    return topology_of(system).ring(members)


def _stride(members: Sequence[int]) -> int:
    """Return the distance between neighbouring members: the IPUs of a replica."""
    ordered = sorted(members)
    return min((there - here for here, there in pairwise(ordered)), default=1)


def _closes(system: System, members: Sequence[int]) -> bool:
    """Return True if members that are not adjacent go all the way around a link domain without ends."""
    stride = _stride(members)
    return stride > 1 and system.topology != "ladder" and stride * len(members) >= system.domain_ipu_count


Message = tuple[int, tuple[Channel, ...], float]
"""Receiver, channels, and share of the bytes that an IPU sends in a step."""


@dataclass(frozen=True, slots=True)
class TileTimes:
    """Times of the work of tiles in a collective. A copy moves as many bytes as the exchange does."""

    sync_s: float  # sync of several IPUs [s]
    superstep_s: float  # overhead of a superstep [s]
    reduced_s_per_byte: float  # copy of a fragment and addition in half precision, per byte of the fragment [s/B]
    gathered_s_per_byte: float  # two copies of a received fragment, per byte of it [s/B]

    @classmethod
    def on(cls, ipu: Ipu, tile_count: int) -> Self:
        """Return the times of some tiles of a chip."""
        fewer, more = (elementwise_cycles(ipu, "add", count * _MANY_ELEMENTS, "fp16") for count in (1, 2))
        added_s = (more - fewer) / (_MANY_ELEMENTS * DTYPE_BYTES["fp16"]) / tile_count / ipu.clock_hz
        copied_s = 1 / ipu.exchange_bytes_per_s(tile_count)
        superstep_s = ipu.superstep.overhead_cycles / ipu.clock_hz
        return cls(ipu.multi_ipu_sync_s, superstep_s, copied_s + added_s, 2 * copied_s)


@dataclass(frozen=True, slots=True)
class RingLayout:
    """Ring of IPUs that reduce or gather together, with its links."""

    routes: Routes
    members: tuple[int, ...]  # IPUs in ring order
    ring_count: int  # rings over which data is divided; they alternate in direction
    # bandwidth of the IPU-Link of each ring; None if rings share all links of a connection [B/s]
    own_link_bytes_per_s: float | None
    exchange_latency_s: float  # latency of one exchange: sync and longest route [s]
    replica_ipus: int  # IPUs of a replica; 1 among the IPUs that share a layer, which the library takes as replicas
    closes: bool  # True if members that are not adjacent go all the way around
    tiles: TileTimes

    @classmethod
    def from_members(
        cls,
        system: System,
        routes: Routes,
        ring_count: int,
        members: tuple[int, ...],
        tile_count: int | None = None,  # tiles that add and copy; all tiles if left out
        replica_ipus: int | None = None,  # IPUs of a replica; the distance between members if left out
    ) -> Self:
        """Return the ring over some IPUs in the given order."""
        machine = system.machine
        link, links, ipu = machine.ipu_link, machine.rail_link_count, machine.ipu
        is_shipped = isinstance(system.topology, str)  # others say themselves what bandwidth a connection has
        own = link.bandwidth_bytes_per_s if link and is_shipped and ring_count <= (links or 0) else None
        latency_s = ipu.multi_ipu_sync_s + _longest_s(routes, members)
        tiles = TileTimes.on(ipu, tile_count or ipu.tile.count)
        size, closes = replica_ipus or _stride(members), _closes(system, members)
        return cls(routes, members, ring_count, own, latency_s, size, closes, tiles)

    @classmethod
    def around(cls, system: System, ring_count: int, members: Sequence[int], tile_count: int | None = None) -> Self:
        """Return the ring around IPUs that share a layer, each a replica to the library."""
        return cls.from_members(system, Routes(system), ring_count, ring_of(system, members), tile_count, 1)

    def method(self, name: str, byte_count: float) -> Method:
        """Return the method of a pass over a tensor of `byte_count` bytes [poplibs_collectives]."""
        count = len(self.members)
        if count <= 2 or (self.replica_ipus > 1 and not self.closes):
            return CLOCKWISE
        if self.replica_ipus > 1:
            return MEET_IN_MIDDLE
        size = byte_count / _BYTES_OF_REDUCTION if name == REDUCE_SCATTER else byte_count / count
        least = next((limit for most, limit in _PAIR_OF_SHARDS if count <= most), None)
        return MEET_IN_MIDDLE if least is None or size < least else PAIR

    def passes(self, name: str, byte_count: float) -> tuple[Pass, ...]:
        """Return the passes of a collective over a tensor of `byte_count` bytes; `name` as in `task.Collective`."""
        if len(self.members) == 1:
            return ()
        return tuple(self._known_pass(each, self.method(each, byte_count)) for each in PASSES[name])

    def time_s(self, name: str, byte_count: float) -> float:
        """Return the time of a collective over a tensor of `byte_count` bytes on an idle machine. [s]"""
        return sum(each.time_s(byte_count, self.link_s_per_byte) for each in self.passes(name, byte_count))

    @property
    def broadcast_s(self) -> float:
        """Time of a broadcast: every member sends a tiny tensor to all others and sums what arrives. [s]"""
        routes, members, tiles = self.routes, self.members, self.tiles

        def longest_s() -> float:
            """Return the latency of the longest route between two members. [s]"""
            return max(routes.latency_s(here, there) for here, there in combinations(members, 2))

        longest = memo.RINGS.get((routes.key, members, "pairs"), longest_s)
        return tiles.sync_s + longest + _BROADCAST_SUPERSTEPS * tiles.superstep_s

    @property
    def passes_in_pass(self) -> tuple[Pass, ...]:
        """Passes of an all-reduce of a small tensor by a few replicas inside a forward or backward pass."""
        if len(self.members) == 1:
            return ()
        methods = (replace(self.method(each, 0.0), supersteps=_IN_PASS) for each in PASSES["all_reduce"])
        return tuple(self._pass(name, method) for name, method in zip(PASSES["all_reduce"], methods, strict=True))

    def _known_pass(self, name: str, method: Method) -> Pass:
        group = len(self.members), self.ring_count, self.replica_ipus, self.closes, self.exchange_latency_s
        key = (name, method.direction_count, method.meets, group, self.tiles)
        return memo.RINGS.get(key, lambda: self._pass(name, method))

    def _pass(self, name: str, method: Method) -> Pass:
        steps, fragments = method.step_count(len(self.members)), method.fragments
        # Without a second ring, the two directions take turns. On a ring that closes, IPUs of a replica that are on the
        # same side of the ladder take turns, as forwarding would come to a deadlock [poplibs_collectives].
        exchanges = 1 if self.ring_count > 1 else method.direction_count
        if self.closes and self.replica_ipus > 2:
            exchanges *= self.replica_ipus // 2
        before, each = method.supersteps[name]
        supersteps_s = (before / steps + each) * self.tiles.superstep_s
        share = fragments / len(self.members)
        tile_s = self.tiles.reduced_s_per_byte if name == REDUCE_SCATTER else self.tiles.gathered_s_per_byte
        return Pass(name, steps, share, exchanges * self.exchange_latency_s + supersteps_s, share * tile_s)

    def messages(self, ipu: int) -> tuple[Message, ...]:
        """Return what an IPU sends in a step: receiver, channels and share of its bytes of each message."""
        key = (self.routes.key, self.members, self.ring_count, self.own_link_bytes_per_s, ipu)
        return memo.RINGS.get(key, lambda: tuple(self._messages(ipu)))

    def _messages(self, ipu: int) -> Iterator[Message]:
        place, count, back = self.members.index(ipu), len(self.members), self.ring_count // 2
        for way, rings in ((1, self.ring_count - back), (-1, back)):
            if not rings:
                continue
            neighbour = self.members[(place + way) % count]
            channels = self.routes.between(ipu, neighbour).channels
            if self.own_link_bytes_per_s:
                own = rings * self.own_link_bytes_per_s
                channels = tuple(Channel(own_link_id(channel.id, way), own) for channel in channels)
            yield neighbour, channels, rings / self.ring_count

    @property
    def link_s_per_byte(self) -> float:
        """Time of the fullest link per byte that each IPU sends in a step. [s/B]"""
        key = (self.routes.key, self.members, self.ring_count, self.own_link_bytes_per_s)
        return memo.RINGS.get(key, lambda: fullest_link_s_per_byte([self]))


def between_domains_s(system: System) -> float:
    """Return what the chips add to the latency of a step of a collective over GW-Links. [s]

    A sync before data is sent to the gateway, one before data is read from it, and the supersteps of a ring's step.
    """
    chip = system.machine.ipu
    _, supersteps = CLOCKWISE.supersteps[REDUCE_SCATTER]
    return 2 * chip.multi_ipu_sync_s + supersteps * chip.superstep.overhead_cycles / chip.clock_hz


def fullest_link_s_per_byte(rings: Sequence[RingLayout]) -> float:
    """Return the largest load of a link, in seconds per byte that each IPU sends in a step of all rings. [s/B]"""
    loads: dict[Channel, float] = defaultdict(float)
    for ring in rings:
        for ipu in ring.members if len(ring.members) > 1 else ():
            for _, channels, share in ring.messages(ipu):
                for channel in channels:
                    loads[channel] += share / channel.bandwidth_bytes_per_s
    return max(loads.values(), default=0.0)


def _longest_s(routes: Routes, members: tuple[int, ...]) -> float:
    """Return the latency of the longest route between neighbours of a ring. [s]"""
    ends = [pair for pair in zip(members, (*members[1:], members[0]), strict=True) if len(set(pair)) > 1]
    known = (routes.key, members)
    return memo.RINGS.get(known, lambda: max((routes.latency_s(*pair) for pair in ends), default=0.0))
