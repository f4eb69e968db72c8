"""Transfers and collectives alone on a machine: tiles of a chip, chips over IPU-Links, the host, streaming memory.

Inside a chip nothing queues, and the busiest port of a tile sets the time [poplibs_estimators]. Between chips the
fullest link does: what one tile sends leaves it before it enters the link, and what one receives leaves the link before
it enters the tile; a link that carries a little of many tiles starts anew for each of those that send [citadel2019].
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

from podsim.models.op import DTYPE_BYTES
from podsim.placement.topology import Channel, Route, Routes, streaming_channels
from podsim.program.rings import Ring
from podsim.program.transfers import first_fragments_bytes, fullest_s, gw_hops
from podsim.scenario.hardware import System, present
from podsim.scenario.ipu import Ipu
from podsim.scenario.software import Software
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
"""Those that can join each tile with those of its number on other chips."""
SUMS: Final = ("all-reduce", "reduce-scatter", "reduce")
ROOTED: Final = ("broadcast", "gather", "scatter")
"""Those with a tile that sends to the others, or receives from them."""
Sent = tuple[Route, float, float]
"""A route, the tiles that send over it, and their bytes."""
_PORT: Final = "port of a tile"
_MOST_STAGES: Final = 3
"""Of a sum over tiles [poplibs_poplin]."""
_PIECE_ELEMENTS: Final = 64
"""That are summed together at least, where what lies on several tiles is [poplibs_popops]."""


@dataclass(frozen=True, slots=True)
class Movement:
    """What moves, and how long it takes."""

    parts: tuple[tuple[str, float], ...]  # (what takes the time, how long) in order, all of which add up [s]
    moved_bytes: float  # what arrives, at all receivers together [B]
    bound: str  # what limits the rate of a large one

    @property
    def time_s(self) -> float:
        """All of it. [s]"""
        return sum(time_s for _, time_s in self.parts)

    @property
    def bytes_per_s(self) -> float:
        """What arrives at all receivers together over the time. [B/s]"""
        return self.moved_bytes / self.time_s

    def then(self, other: Movement) -> Movement:
        """One after the other; what arrives is what the second brings."""
        times: dict[str, float] = defaultdict(float)
        for name, time_s in (*self.parts, *other.parts):
            times[name] += time_s
        longer = self if self.time_s > other.time_s else other
        return Movement(tuple(times.items()), other.moved_bytes, longer.bound)


def _quickest(ways: Iterable[Movement]) -> Movement:
    return min(ways, key=lambda way: way.time_s)


@dataclass(frozen=True)
class Fabric:
    """Tiles that take part: the first of each of some chips of a pod."""

    ipu: Ipu
    tile_count: int
    chips: Sequence[int] = (0,)  # their numbers in the pod; the root is on the first
    system: System | None = None  # the pod; needed for several chips, the host and streaming memory
    others: bool = False  # whether of the chip of a root no other tile takes part

    @property
    def ipu_count(self) -> int:
        """Chips."""
        return len(self.chips)

    @property
    def all_tiles(self) -> int:
        """Tiles of all chips together."""
        return self.tile_count * self.ipu_count

    @cached_property
    def _routes(self) -> Routes:
        return Routes(present(self.system))

    def _word_s(self, tiles: int = 1) -> float:
        """A word from tile to tile of a chip. [s]

        Tiles that take part lie the further apart the more they are: between a pair and all tiles in proportion.
        """
        exchange, overhead = self.ipu.exchange, self.ipu.superstep.overhead_cycles
        alone = overhead if exchange.latency_cycles is None else exchange.latency_cycles
        loaded = alone if exchange.loaded_latency_cycles is None else exchange.loaded_latency_cycles
        share = (tiles - 1) / max(1, self.ipu.tile.count - 1)
        return (alone + (loaded - alone) * share) / self.ipu.clock_hz

    def exchange(self, port_bytes: float, moved_bytes: float = 0.0, tiles: int = 0) -> Movement:
        """One round of the exchange: bytes of the busiest port [B], between `tiles` apart (0: all of them)."""
        cycles = ceil_div(int(port_bytes), self.ipu.exchange.bytes_per_cycle)
        parts = (("latency", self._word_s(tiles or self.tile_count)), ("exchange", cycles / self.ipu.clock_hz))
        return Movement(parts, moved_bytes, _PORT)

    def read(self, byte_count: float, width_bytes: int) -> Movement:
        """Each tile loads from its own memory, one load per cycle. `byte_count`: of each tile [B]."""
        rate = width_bytes * self.ipu.clock_hz
        return Movement((("loads", byte_count / rate),), byte_count * self.all_tiles, "loads")

    def between_tiles(self, byte_count: float, senders: int = 1) -> Movement:
        """Each of some tiles sends to one other tile of the chip. `byte_count`: of each [B]."""
        return self.exchange(byte_count, byte_count * senders, senders)

    def between_ipus(self, byte_count: float, source: int, target: int, *, both_ways: bool = False) -> Movement:
        """Each tile sends to one tile of another chip. `byte_count`: of each [B]."""
        route = self._routes.between(source, target)
        moved = byte_count * self.tile_count * (1 + both_ways)
        return self._over_links([(route, self.tile_count, byte_count * self.tile_count)], moved, ports=self.tile_count)

    def across(self, byte_count: float) -> Movement:
        """Each tile sends to a random tile of the other half of the chips, all at once. `byte_count`: of each [B]."""
        chips, half = self.chips, self.ipu_count // 2
        sent = []
        for place, chip in enumerate(chips):
            others = chips[half:] if place < half else chips[:half]
            each = self.tile_count / len(others)
            sent += [(self._routes.between(chip, other), each, each * byte_count) for other in others]
        return self._over_links(sent, byte_count * self.all_tiles, ports=self.all_tiles)

    def _over_links(
        self, sent: Iterable[Sent], moved_bytes: float, *, ports: int = 0, local_bytes: float = 0.0, receivers: int = 0
    ) -> Movement:
        """What goes over routes at once: the fullest link, the ports of tiles, or how many tiles send.

        `ports`: tiles whose ports share all that is sent; not counted if 0; `local_bytes`: what the port of the root
        carries within its chip beside it [B]; `receivers`: tiles of a chip that receive, neighbours to which a
        connection has its links in proportion; all if 0. If it is one, all that a link brings passes its port too.
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
                # Nobody waits for the first.
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
        return Movement(parts, moved_bytes, max(times, key=lambda each: times[each]))

    def with_host(self, byte_count: float) -> Movement:
        """The host sends to each tile of each chip, each its own, or receives from each over the same links."""
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

    def with_memory(self, byte_count: float, direction: str) -> Movement:
        """Each tile of each chip reads from streaming memory, or writes to it. `byte_count`: of each tile [B]."""
        system = present(self.system)
        rates: dict[str, float] = defaultdict(float)
        machines: dict[str, float] = {}
        for ipu in self.chips:
            for channel in streaming_channels(system, ipu, direction, self.tile_count):
                if channel.id.startswith("machine"):
                    machines[channel.id] = channel.bandwidth_bytes_per_s
                else:
                    name = "link to the gateway" if "gateway" in channel.id else "streaming memory of an IPU"
                    rates[name] += channel.bandwidth_bytes_per_s
        rates["streaming memory of a machine"] = sum(machines.values())
        return self._streamed(byte_count, system.machine.streaming_memory.latency_s, rates)

    def _streamed(self, byte_count: float, latency_s: float, rates: Mapping[str, float]) -> Movement:
        bound, moved = min(rates, key=lambda name: rates[name]), byte_count * self.all_tiles
        return Movement((("latency", latency_s), (bound, moved / rates[bound])), moved, bound)

    def collective(self, name: Collective, byte_count: int, dtype: str = "fp32") -> Movement:
        """One collective of all tiles with nothing else on the machine.

        `byte_count`: of a tile: what it holds before a sum or an all-gather, what it sends to each other tile in an
        all-to-all, what the root sends to all or to each, what it receives from each [B].
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
    def _others(self) -> int:
        """Tiles that receive from a root, or send to it."""
        return self.all_tiles - (self.tile_count if self.others else 1)

    def _holders(self, byte_count: int, dtype: str) -> tuple[Fabric, int]:
        """The tiles that hold a share of a sum, which are few if its elements are, and a share. [B]"""
        elements, size = ceil_div(byte_count, DTYPE_BYTES[dtype]), DTYPE_BYTES[dtype]
        share = ceil_div(elements, self.all_tiles)
        chips = self.chips[: min(self.ipu_count, elements)]
        return replace(self, tile_count=ceil_div(ceil_div(elements, share), len(chips)), chips=chips), share * size

    def _broadcast(self, byte_count: float) -> Movement:
        """The root sends once and all listen; a chip passes on what it receives.

        On a chip two tiles that share a bus hear twice as much of what both are sent [poplibs_estimators].
        """
        moved = byte_count * self._others
        if self.ipu_count == 1:
            heard = self.ipu.exchange.tiles_per_bus if self.tile_count > 1 else 1
            return self.exchange(ceil_div(int(byte_count), heard), moved)
        routes = [self._routes.between(self.chips[0], chip) for chip in self.chips[1:]]
        farthest = max(routes, key=lambda route: route.latency_s)
        apart = Movement((("latency", self._word_s(self.tile_count) - self._word_s()),), 0.0, _PORT)
        return replace(apart.then(self._over_links([(farthest, 1, byte_count)], moved, ports=1)), bound=_PORT)

    def _rooted(self, name: str, byte_count: float) -> Movement:
        """To one tile from each, or from one tile to each: its port, or the links of its chip.

        A word that comes from far is sent before it is its turn to be received, so that only the first is waited for.
        """
        moved, gathers = byte_count * self._others, name == "gather"
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

    def _all_gather(self, byte_count: int) -> Movement:
        """Each tile hears all others, over the fullest link or its port."""
        return self._between_all(self.tile_count, byte_count)

    def _all_to_all(self, byte_count: int) -> Movement:
        """Each tile has something else for every other."""
        return self._between_all(self.tile_count**2, byte_count)

    def _between_all(self, messages: int, byte_count: float) -> Movement:
        """So many messages from each chip to each other, while the port of each tile receives from all tiles."""
        received = byte_count * (self.all_tiles - 1)
        inside = self.exchange(received, received * self.all_tiles)
        if self.ipu_count == 1:
            return inside
        pairs = ((here, there) for here in self.chips for there in self.chips if here != there)
        sent = [(self._routes.between(*pair), self.tile_count, byte_count * messages) for pair in pairs]
        links = self._over_links(sent, received * self.all_tiles)
        return max(inside, links, key=lambda movement: movement.time_s)

    def _sum(self, elements: int, depth: int, dtype: str, *, exchanged: bool = True) -> Movement:
        """Each tile sums some partials; of its superstep an exchange on the chip before it has had its part."""
        launch_s = self.ipu.superstep.overhead_cycles / self.ipu.clock_hz
        if exchanged:
            launch_s = max(0.0, launch_s - self._word_s(self.tile_count))
        cycles = reduce_vertex_cycles(self.ipu, elements, depth, dtype)
        return Movement((("sums", launch_s + float(cycles) / self.ipu.clock_hz),), 0.0, "sums")

    def _steps(self) -> Iterable[tuple[int, int]]:
        """Stages of a sum over the tiles of a chip, and the tiles that each of them joins."""
        for stages in range(1, _MOST_STAGES + 1):
            # Whole numbers, so that no root is rounded up by an error of its last digit.
            yield stages, next(n for n in range(1, self.tile_count + 1) if n**stages >= self.tile_count)

    def _reduce(self, byte_count: int, dtype: str) -> Movement:
        """To one tile: in pieces, the sums of which are summed there, as a library does that knows of no chips.

        A piece has 64 elements at least, and no more than the tiles together are enough for; the tiles that sum one
        follow each other. So of few elements all lie on the first chip, and whatever the others hold crosses the links.
        Source: [poplibs_popops].
        """
        elements, moved = ceil_div(byte_count, DTYPE_BYTES[dtype]), float(byte_count * (self.all_tiles - 1))
        if self.all_tiles == 1:
            return replace(self._sum(elements, 1, dtype, exchanged=False), moved_bytes=moved)
        depth = min(self.all_tiles, max(ceil_div(_PIECE_ELEMENTS, elements), math.isqrt(self.all_tiles)))
        parts = ceil_div(self.all_tiles, depth)
        # Pieces are cut along the elements too where there are more tiles than parts.
        cut = max(1, min(self.all_tiles // parts, elements * depth // _PIECE_ELEMENTS))
        share = ceil_div(elements, cut)
        gathered = self._collected(share * DTYPE_BYTES[dtype], depth, parts * cut)
        way = gathered.then(self._sum(share, depth, dtype, exchanged=self.ipu_count == 1))
        if parts > 1 or cut > 1:
            to_root = self.exchange(byte_count * parts).then(self._sum(elements, parts, dtype))
            spread = self.exchange(share * DTYPE_BYTES[dtype] * parts).then(self._sum(share, parts, dtype))
            way = way.then(_quickest((to_root, spread.then(self.exchange(byte_count)))))
        return replace(way, moved_bytes=moved)

    def _collected(self, byte_count: int, depth: int, pieces: int) -> Movement:
        """Partials of so many pieces come to a tile each, those of the first ones first."""
        inside = self.exchange(byte_count * (depth - 1))
        if self.ipu_count == 1:
            return inside
        chips = ceil_div(pieces, self.tile_count)
        held = byte_count * pieces * depth / self.ipu_count / chips
        pairs = ((here, there) for here in self.chips for there in self.chips[:chips] if here != there)
        sent = [(self._routes.between(*pair), self.tile_count, held) for pair in pairs]
        links = self._over_links(sent, 0.0, receivers=min(pieces, self.tile_count))
        return max(inside, links, key=lambda movement: movement.time_s)

    def _inside_scatter(self, byte_count: int, dtype: str) -> Movement:
        """Each tile of a chip sums its share of what all of them hold, in stages whose shares get smaller."""
        ways = []
        for stages, joined in self._steps():
            way, held = Movement((), 0.0, _PORT), ceil_div(byte_count, DTYPE_BYTES[dtype])
            for _ in range(stages):
                share = ceil_div(held, joined)
                sent = share * DTYPE_BYTES[dtype] * (joined - 1)
                way = way.then(self.exchange(sent, sent * self.tile_count))
                way, held = way.then(self._sum(share, joined, dtype)), share
            ways.append(way)
        return _quickest(ways)

    def _reduce_scatter(self, byte_count: int, dtype: str) -> Movement:
        """Sums over all tiles, of which each keeps its share: between chips only sums travel, or one tile has all."""
        best, moved = self._inside_scatter(byte_count, dtype), byte_count * (self.all_tiles - 1.0)
        if self.ipu_count > 1:
            holders, share = self._holders(byte_count, dtype)
            pairs = ((here, there) for here in self.chips for there in self.chips if here != there)
            sums = [(self._routes.between(*pair), holders.tile_count, byte_count / self.ipu_count) for pair in pairs]
            summed = self._sum(share // DTYPE_BYTES[dtype], self.ipu_count, dtype, exchanged=False)
            best = best.then(self._over_links(sums, 0.0)).then(summed)
            best = _quickest((best, self._reduce(byte_count, dtype).then(holders._rooted("scatter", share))))
        return replace(best, moved_bytes=moved)

    def over_chips(self, name: str, byte_count: int, software: Software) -> Movement:
        """Corresponding tiles of all chips reduce or gather bytes each [B]: in domains, then between them."""
        system = present(self.system)
        inside = defaultdict[int, list[int]](list)
        for chip in self.chips:
            inside[chip // system.domain_ipu_count].append(chip)
        domains = list(inside.values())
        whole = byte_count * self.tile_count * (self.ipu_count if name == "all-gather" else 1)
        times = 2 if name == "all-reduce" else 1
        moved = float(times * whole * (self.ipu_count - 1))
        rings = [Ring.of_shards(system, software.collective_rings, domain) for domain in domains]
        steps = [ring.steps_of(system, whole, software.halved_bytes) for ring in rings if len(ring.members) > 1]
        latency_s = times * max((step.latency_s for step in steps), default=0.0)
        carried_s = times * max((step.s_per_byte for step in steps), default=0.0) * whole
        # Each byte that a step sends passes the port of a tile.
        ports_s = times * whole * (1 - 1 / len(domains[0])) / self.ipu.exchange_bytes_per_s(self.tile_count)
        link = ("IPU-Link", carried_s) if carried_s >= ports_s else (_PORT, ports_s)
        parts = [("latency", latency_s), link]
        if len(domains) > 1:
            parts += self._between_domains(domains, whole, times * (len(domains) - 1))
        bound = max(parts[1:], key=lambda part: part[1])[0]
        return Movement(tuple(parts), moved, bound)

    def _between_domains(self, domains: Sequence[Sequence[int]], whole: float, steps: int) -> list[tuple[str, float]]:
        """So many steps over GW-Links, in each of which a chip sends a part of its part. [s]"""
        system, part_count = present(self.system), len(domains[0]) * len(domains)
        staged = first_fragments_bytes(system, {int(whole): 1}, part_count)
        sent = [
            gw_hops(system, source, target, whole / part_count, staged, 1)
            for here, there in zip(domains, (*domains[1:], domains[0]), strict=True)
            for source, target in zip(here, there, strict=True)
        ]
        times = [fullest_s(hop) for hop in zip(*sent, strict=True)]
        return [
            ("latency of gateways", steps * sum(latency_s for latency_s, _ in times)),
            ("GW-Link", steps * sum(carried_s for _, carried_s in times)),
        ]
