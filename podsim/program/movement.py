"""Times of transfers and collectives on an idle machine: between tiles, chips, the host and streaming memory.

Inside a chip nothing queues, and the busiest port of a tile sets the time [poplibs_estimators]. Between chips the
fullest link sets the time. Data leaves the sending tile before it enters the link, and leaves the link before it enters
the receiving tile. A link has a start-up time for each sending tile, which dominates small messages [citadel2019].
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from podsim.models.op import DTYPE_BYTES
from podsim.placement.rings import between_domains_s, ring_of
from podsim.placement.topology import Channel, Route, Routes, gateway_channels, ipu_memory, machine_memory
from podsim.program.rings import Ring
from podsim.program.transfers import first_fragments_bytes, fullest_s, gw_hops
from podsim.scenario.hardware import System, present
from podsim.scenario.ipu import Ipu
from podsim.scenario.software import Software
from podsim.tiles.collective import PASSES
from podsim.tiles.split import reduce_vertex_cycles
from podsim.tiles.vector import ceil_div

Collective = Literal[
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "gather", "scatter", "reduce"
]
COLLECTIVES: Final[tuple[Collective, ...]] = (
    *("all-reduce", "all-gather", "reduce-scatter", "all-to-all"),
    *("broadcast", "gather", "scatter", "reduce"),
)
OVER_IPUS: Final = ("all-reduce", "all-gather", "reduce-scatter")
"""Collectives that can also run between tiles with the same number on several chips."""
SUMS: Final = ("all-reduce", "reduce-scatter", "reduce")
ROOTED: Final = ("broadcast", "gather", "scatter")
"""Collectives with a root tile, which sends to all others or receives from them."""
Sent = tuple[Route, float, float]
"""Route, number of tiles that send over it, and their bytes together."""
_PORT: Final = "port of a tile"
_MOST_STAGES: Final = 3
"""Maximum number of stages of a sum over tiles [poplibs_poplin]."""
_PIECE_ELEMENTS: Final = 64
"""Minimum number of elements that one tile sums in a reduction over tiles [poplibs_popops]."""


@dataclass(frozen=True, slots=True)
class TransferTime:
    """Predicted time of a transfer or collective, with its bytes and its bottleneck."""

    parts: tuple[tuple[str, float], ...]  # (cause, time), in order; the times add up [s]
    moved_bytes: float  # bytes that arrive at all receivers together [B]
    bound: str  # bottleneck for large transfers

    @property
    def time_s(self) -> float:
        """Total time. [s]"""
        return sum(time_s for _, time_s in self.parts)

    @property
    def bytes_per_s(self) -> float:
        """Bytes that arrive at all receivers, divided by the time. [B/s]"""
        return self.moved_bytes / self.time_s

    def then(self, other: TransferTime) -> TransferTime:
        """Return the time of this transfer followed by another one, with the bytes of the second."""
        times: dict[str, float] = defaultdict(float)
        for name, time_s in (*self.parts, *other.parts):
            times[name] += time_s
        longer = self if self.time_s > other.time_s else other
        return TransferTime(tuple(times.items()), other.moved_bytes, longer.bound)


def _quickest(ways: Iterable[TransferTime]) -> TransferTime:
    return min(ways, key=lambda way: way.time_s)


@dataclass(frozen=True)
class Participants:
    """Tiles that take part in a transfer or collective: the first `tile_count` tiles of each chip."""

    ipu: Ipu
    tile_count: int  # participating tiles per chip
    chips: Sequence[int] = (0,)  # numbers of the chips in the pod; the root is on the first
    system: System | None = None  # the pod; needed for several chips, the host and streaming memory
    root_alone: bool = False  # True if the root is the only participating tile of its chip

    @property
    def ipu_count(self) -> int:
        """Number of chips."""
        return len(self.chips)

    @property
    def all_tiles(self) -> int:
        """Number of tiles on all chips together."""
        return self.tile_count * self.ipu_count

    @cached_property
    def _routes(self) -> Routes:
        return Routes(present(self.system))

    def _word_s(self, tiles: int = 1) -> float:
        """Return the latency of a word between tiles of a chip, when `tiles` tiles take part. [s]

        The latency is interpolated between that of a pair of tiles and that of all tiles.
        """
        exchange, overhead = self.ipu.exchange, self.ipu.superstep.overhead_cycles
        alone = overhead if exchange.latency_cycles is None else exchange.latency_cycles
        loaded = alone if exchange.loaded_latency_cycles is None else exchange.loaded_latency_cycles
        share = (tiles - 1) / max(1, self.ipu.tile.count - 1)
        return (alone + (loaded - alone) * share) / self.ipu.clock_hz

    def exchange(self, port_bytes: float, moved_bytes: float = 0.0, tiles: int = 0) -> TransferTime:
        """Return the time of one exchange, given the bytes of the busiest port [B], among `tiles` tiles (0: all)."""
        cycles = ceil_div(int(port_bytes), self.ipu.exchange.bytes_per_cycle)
        parts = (("latency", self._word_s(tiles or self.tile_count)), ("exchange", cycles / self.ipu.clock_hz))
        return TransferTime(parts, moved_bytes, _PORT)

    def read(self, byte_count: float, width_bytes: int) -> TransferTime:
        """Return the time in which each tile loads `byte_count` bytes from its own memory, one load per cycle."""
        rate = width_bytes * self.ipu.clock_hz
        return TransferTime((("loads", byte_count / rate),), byte_count * self.all_tiles, "loads")

    def between_tiles(self, byte_count: float, senders: int = 1) -> TransferTime:
        """Return the time in which `senders` tiles each send `byte_count` bytes to another tile of the chip."""
        return self.exchange(byte_count, byte_count * senders, senders)

    def between_ipus(self, byte_count: float, source: int, target: int, *, both_ways: bool = False) -> TransferTime:
        """Return the time in which each tile sends to one tile of another chip. `byte_count`: per tile [B]."""
        route = self._routes.between(source, target)
        moved = byte_count * self.tile_count * (1 + both_ways)
        return self._over_links([(route, self.tile_count, byte_count * self.tile_count)], moved, ports=self.tile_count)

    def across(self, byte_count: float) -> TransferTime:
        """Return the time in which each tile sends `byte_count` bytes to a random tile in the other half of chips."""
        chips, half = self.chips, self.ipu_count // 2
        sent = []
        for place, chip in enumerate(chips):
            others = chips[half:] if place < half else chips[:half]
            each = self.tile_count / len(others)
            sent += [(self._routes.between(chip, other), each, each * byte_count) for other in others]
        return self._over_links(sent, byte_count * self.all_tiles, ports=self.all_tiles)

    def _over_links(
        self, sent: Iterable[Sent], moved_bytes: float, *, ports: int = 0, local_bytes: float = 0.0, receivers: int = 0
    ) -> TransferTime:
        """Return the time of simultaneous traffic over routes, bound by the fullest link, tile ports, or start-ups.

        `ports`: number of tiles whose ports share all traffic; 0 ignores ports. `local_bytes`: additional traffic of
        the root's port within its chip [B]. `receivers`: number of receiving tiles of a chip, 0 for all; they use a
        proportional part of the links of a connection. With one receiver, all traffic of a link also passes its port.
        """
        to_one = receivers == 1
        link, port = present(present(self.system).machine.ipu_link), self.ipu.exchange_bytes_per_s(1)
        loads: dict[Channel, float] = defaultdict(float)
        starts: dict[Channel, float] = defaultdict(float)
        latency_s, ports_s = 0.0, 0.0
        for route, senders, byte_count in sent:
            latency_s = max(latency_s, route.latency_s)
            slowest = min(channel.bandwidth_bytes_per_s for channel in route.channels)
            ports_s += byte_count * (1 / port + (0.0 if to_one else 1 / slowest)) / (ports or 1)
            start_s, forwarded_s = link.message_time_s or 0.0, 0.0
            for channel in route.channels:
                links = round(channel.bandwidth_bytes_per_s / link.bandwidth_bytes_per_s)
                used = ceil_div(links * (receivers or self.tile_count), self.tile_count)
                # The first sender does not wait.
                waiting = senders if channel in loads else max(0.0, senders - 1)
                starts[channel] += waiting * (links / used * start_s + forwarded_s)
                loads[channel] += byte_count
                forwarded_s = link.forwarded_message_time_s or 0.0
        carried = {each: max(load / each.bandwidth_bytes_per_s, starts[each]) for each, load in loads.items()}
        received = {each: load / port if to_one else 0.0 for each, load in loads.items()}
        fullest = max(loads, key=lambda each: carried[each] + received[each])
        name = "messages" if carried[fullest] == starts[fullest] else "IPU-Link"
        times = {name: carried[fullest], _PORT: received[fullest]}
        if (ports or to_one) and ports_s > sum(times.values()):
            times = {_PORT: ports_s}
        times[_PORT] = times.get(_PORT, 0.0) + local_bytes / port
        parts = (("latency", latency_s), *times.items())
        return TransferTime(parts, moved_bytes, max(times, key=lambda each: times[each]))

    def with_host(self, byte_count: float) -> TransferTime:
        """Return the time in which the host sends different data to each tile, or receives data from each tile."""
        machine = present(self.system).machine
        machines = len({chip // machine.ipu_count for chip in self.chips})
        gateway = machine.gateway_link
        rates = {
            "ports of tiles": self.ipu.exchange_bytes_per_s(self.all_tiles),
            "host link": machines * machine.host_link.bandwidth_bytes_per_s,
        }
        if gateway is not None:
            rates["link to the gateway"] = self.ipu_count * gateway.bandwidth_bytes_per_s
        latency_s = machine.host_link.latency_s + (gateway.latency_s if gateway else 0.0)
        return self._streamed(byte_count, latency_s, rates)

    def with_memory(self, byte_count: float, direction: str) -> TransferTime:
        """Return the time in which each tile reads `byte_count` bytes from streaming memory, or writes them."""
        system = present(self.system)
        rates: dict[str, float] = defaultdict(float)
        machines: dict[str, float] = {}
        for ipu in self.chips:
            shared = machine_memory(system, ipu)
            machines[shared.id] = shared.bandwidth_bytes_per_s
            own = ipu_memory(system, ipu, direction, self.tile_count)
            rates["streaming memory of an IPU"] += own.bandwidth_bytes_per_s
            for channel in gateway_channels(system, ipu, direction):
                rates["link to the gateway"] += channel.bandwidth_bytes_per_s
        rates["streaming memory of a machine"] = sum(machines.values())
        return self._streamed(byte_count, system.machine.streaming_memory.latency_s, rates)

    def _streamed(self, byte_count: float, latency_s: float, rates: Mapping[str, float]) -> TransferTime:
        bound, moved = min(rates, key=lambda name: rates[name]), byte_count * self.all_tiles
        return TransferTime((("latency", latency_s), (bound, moved / rates[bound])), moved, bound)

    def collective(self, name: Collective, byte_count: int, dtype: str = "fp32") -> TransferTime:
        """Return the time of one collective of all tiles on an idle machine.

        `byte_count`: bytes of one tile [B]. In a sum or an all-gather, this is the tile's input; in an all-to-all, the
        data from one tile to another; in a broadcast, scatter or gather, the data between the root and one tile.
        """
        match name:
            case "broadcast":
                return self._broadcast(byte_count)
            case "gather" | "scatter":
                return self._rooted(name, byte_count)
            case "all-gather":
                return self._all_gather(byte_count)
            case "all-to-all":
                return self._all_to_all(byte_count)
            case "reduce-scatter":
                return self._reduce_scatter(byte_count, dtype)
        to_one = self._reduce(byte_count, dtype)
        if name == "reduce":
            return to_one
        holders, share = self._holders(byte_count, dtype)
        to_all = self._reduce_scatter(byte_count, dtype).then(holders._all_gather(share))
        best = _quickest((to_all, to_one.then(self._broadcast(byte_count))))
        return replace(best, moved_bytes=float(byte_count * (self.all_tiles - 1)))

    @property
    def _receiver_count(self) -> int:
        """Number of tiles that receive from a root, or send to it."""
        return self.all_tiles - (self.tile_count if self.root_alone else 1)

    def _holders(self, byte_count: int, dtype: str) -> tuple[Participants, int]:
        """Return the tiles that each hold a share of a sum, fewer than all if elements are few, and the share. [B]"""
        elements, size = ceil_div(byte_count, DTYPE_BYTES[dtype]), DTYPE_BYTES[dtype]
        share = ceil_div(elements, self.all_tiles)
        chips = self.chips[: min(self.ipu_count, elements)]
        return replace(self, tile_count=ceil_div(ceil_div(elements, share), len(chips)), chips=chips), share * size

    def _broadcast(self, byte_count: float) -> TransferTime:
        """Return the time of a broadcast: the root sends once, all tiles receive, and chips forward to other chips.

        Two tiles of a chip that share a bus receive data that is sent to both at twice the rate [poplibs_estimators].
        """
        moved = byte_count * self._receiver_count
        if self.ipu_count == 1:
            heard = self.ipu.exchange.tiles_per_bus if self.tile_count > 1 else 1
            return self.exchange(ceil_div(int(byte_count), heard), moved)
        routes = [self._routes.between(self.chips[0], chip) for chip in self.chips[1:]]
        farthest = max(routes, key=lambda route: route.latency_s)
        apart = TransferTime((("latency", self._word_s(self.tile_count) - self._word_s()),), 0.0, _PORT)
        return replace(apart.then(self._over_links([(farthest, 1, byte_count)], moved, ports=1)), bound=_PORT)

    def _rooted(self, name: str, byte_count: float) -> TransferTime:
        """Return the time of a gather or scatter, bound by the root's port or the links of its chip.

        Words from distant tiles are sent early enough to arrive in sequence, so that only the first latency counts.
        """
        moved, gathers = byte_count * self._receiver_count, name == "gather"
        if self.ipu_count == 1:
            return self.exchange(moved, moved, 1 if gathers else 0)
        root, *others = self.chips
        pairs = [(other, root) if gathers else (root, other) for other in others]
        senders = self.tile_count if gathers else 1
        sent = [(self._routes.between(*pair), senders, byte_count * self.tile_count) for pair in pairs]
        local = moved - byte_count * self.tile_count * len(others)
        if gathers:
            return self._over_links(sent, moved, local_bytes=local, receivers=1)
        return self._over_links(sent, moved, ports=1, local_bytes=local)

    def _all_gather(self, byte_count: int) -> TransferTime:
        """Return the time in which each tile receives from all others, bound by the fullest link or the tile's port."""
        return self._between_all(self.tile_count, byte_count)

    def _all_to_all(self, byte_count: int) -> TransferTime:
        """Return the time in which each tile sends different data to every other tile."""
        return self._between_all(self.tile_count**2, byte_count)

    def _between_all(self, messages: int, byte_count: float) -> TransferTime:
        """Return the time of N messages between each pair of chips, while each tile receives from all tiles."""
        received = byte_count * (self.all_tiles - 1)
        inside = self.exchange(received, received * self.all_tiles)
        if self.ipu_count == 1:
            return inside
        pairs = ((here, there) for here in self.chips for there in self.chips if here != there)
        sent = [(self._routes.between(*pair), self.tile_count, byte_count * messages) for pair in pairs]
        links = self._over_links(sent, received * self.all_tiles)
        return max(inside, links, key=lambda movement: movement.time_s)

    def _sum(self, elements: int, depth: int, dtype: str, *, exchanged: bool = True) -> TransferTime:
        """Return the time in which each tile sums partials; a preceding exchange hides part of its launch."""
        launch_s = self.ipu.superstep.overhead_cycles / self.ipu.clock_hz
        if exchanged:
            launch_s = max(0.0, launch_s - self._word_s(self.tile_count))
        cycles = reduce_vertex_cycles(self.ipu, elements, depth, dtype)
        return TransferTime((("sums", launch_s + float(cycles) / self.ipu.clock_hz),), 0.0, "sums")

    def _steps(self) -> Iterable[tuple[int, int]]:
        """Yield each possible number of stages of a sum over a chip, with the number of tiles that a stage joins."""
        for stages in range(1, _MOST_STAGES + 1):
            # Integers, so that no root is rounded up by a floating-point error.
            yield stages, next(n for n in range(1, self.tile_count + 1) if n**stages >= self.tile_count)

    def _reduce(self, byte_count: int, dtype: str) -> TransferTime:
        """Return the time of a sum to one tile: tiles sum parts of it, and the root sums their results.

        The library ignores chip boundaries. A part has at least 64 elements, and consecutive tiles sum the parts. If
        elements are few, all summing tiles are on the first chip, and the data of the other chips crosses the links.
        Source: [poplibs_popops].
        """
        elements, moved = ceil_div(byte_count, DTYPE_BYTES[dtype]), float(byte_count * (self.all_tiles - 1))
        if self.all_tiles == 1:
            return replace(self._sum(elements, 1, dtype, exchanged=False), moved_bytes=moved)
        depth = min(self.all_tiles, max(ceil_div(_PIECE_ELEMENTS, elements), math.isqrt(self.all_tiles)))
        parts = ceil_div(self.all_tiles, depth)
        # Parts are also divided along the elements if there are more tiles than parts.
        cut = max(1, min(self.all_tiles // parts, elements * depth // _PIECE_ELEMENTS))
        share = ceil_div(elements, cut)
        gathered = self._collected(share * DTYPE_BYTES[dtype], depth, parts * cut)
        way = gathered.then(self._sum(share, depth, dtype, exchanged=self.ipu_count == 1))
        if parts > 1 or cut > 1:
            to_root = self.exchange(byte_count * parts).then(self._sum(elements, parts, dtype))
            spread = self.exchange(share * DTYPE_BYTES[dtype] * parts).then(self._sum(share, parts, dtype))
            way = way.then(_quickest((to_root, spread.then(self.exchange(byte_count)))))
        return replace(way, moved_bytes=moved)

    def _collected(self, byte_count: int, depth: int, pieces: int) -> TransferTime:
        """Return the time in which the partials of `pieces` parts arrive; the first tiles receive one part each."""
        inside = self.exchange(byte_count * (depth - 1))
        if self.ipu_count == 1:
            return inside
        chips = ceil_div(pieces, self.tile_count)
        held = byte_count * pieces * depth / self.ipu_count / chips
        pairs = ((here, there) for here in self.chips for there in self.chips[:chips] if here != there)
        sent = [(self._routes.between(*pair), self.tile_count, held) for pair in pairs]
        links = self._over_links(sent, 0.0, receivers=min(pieces, self.tile_count))
        return max(inside, links, key=lambda movement: movement.time_s)

    def _inside_scatter(self, byte_count: int, dtype: str) -> TransferTime:
        """Return the time of a reduce-scatter over the tiles of each chip, in stages with shrinking shares."""
        ways = []
        for stages, joined in self._steps():
            way, held = TransferTime((), 0.0, _PORT), ceil_div(byte_count, DTYPE_BYTES[dtype])
            for _ in range(stages):
                share = ceil_div(held, joined)
                sent = share * DTYPE_BYTES[dtype] * (joined - 1)
                way = way.then(self.exchange(sent, sent * self.tile_count))
                way, held = way.then(self._sum(share, joined, dtype)), share
            ways.append(way)
        return _quickest(ways)

    def _reduce_scatter(self, byte_count: int, dtype: str) -> TransferTime:
        """Return the time of a reduce-scatter: chips exchange only sums, or one tile sums all and scatters."""
        best, moved = self._inside_scatter(byte_count, dtype), byte_count * (self.all_tiles - 1.0)
        if self.ipu_count > 1:
            holders, share = self._holders(byte_count, dtype)
            pairs = ((here, there) for here in self.chips for there in self.chips if here != there)
            sums = [(self._routes.between(*pair), holders.tile_count, byte_count / self.ipu_count) for pair in pairs]
            summed = self._sum(share // DTYPE_BYTES[dtype], self.ipu_count, dtype, exchanged=False)
            best = best.then(self._over_links(sums, 0.0)).then(summed)
            best = _quickest((best, self._reduce(byte_count, dtype).then(holders._rooted("scatter", share))))
        return replace(best, moved_bytes=moved)

    def over_chips(self, name: str, byte_count: int, software: Software) -> TransferTime:
        """Return the time in which corresponding tiles of all chips reduce or gather, first inside link domains."""
        system = present(self.system)
        inside = defaultdict[int, list[int]](list)
        for chip in self.chips:
            inside[chip // system.domain_ipu_count].append(chip)
        domains = list(inside.values())
        whole = byte_count * self.tile_count * (self.ipu_count if name == "all-gather" else 1)
        what = name.replace("-", "_")
        times = len(PASSES[what])
        moved = float(times * whole * (self.ipu_count - 1))
        rings = [
            Ring.from_members(system, self._routes, software.collective_rings, ring_of(system, domain), self.tile_count)
            for domain in domains
        ]
        ring = max(rings, key=lambda each: each.time_s(what, whole))
        passes = ring.passes(what, whole)
        latency_s = sum(each.step_count * each.latency_s for each in passes)
        tiles_s = whole * sum(each.step_count * each.tile_s_per_byte for each in passes)
        sent = whole * sum(each.step_count * each.share for each in passes)
        carried_s = sent * ring.link_s_per_byte
        ports_s = sent / self.ipu.exchange_bytes_per_s(self.tile_count)  # each sent byte passes the port of a tile
        link = ("IPU-Link", carried_s) if carried_s >= ports_s else (_PORT, ports_s)
        parts = [("latency", latency_s), ("tiles", tiles_s), link]
        if len(domains) > 1:
            parts += self._between_domains(domains, whole, times * (len(domains) - 1))
        bound = max(parts[1:], key=lambda part: part[1])[0]
        return TransferTime(tuple(parts), moved, bound)

    def _between_domains(self, domains: Sequence[Sequence[int]], whole: float, steps: int) -> list[tuple[str, float]]:
        """Return the time of `steps` steps over GW-Links; in a step, a chip sends a part of its share. [s]"""
        system, part_count = present(self.system), len(domains[0]) * len(domains)
        staged = first_fragments_bytes(system, {int(whole): 1}, part_count)
        sent = [
            gw_hops(system, source, target, whole / part_count, staged, 1, between_domains_s(system))
            for here, there in zip(domains, (*domains[1:], domains[0]), strict=True)
            for source, target in zip(here, there, strict=True)
        ]
        times = [fullest_s(hop) for hop in zip(*sent, strict=True)]
        return [
            ("latency of gateways", steps * sum(latency_s for latency_s, _ in times)),
            ("GW-Link", steps * sum(carried_s for _, carried_s in times)),
        ]
