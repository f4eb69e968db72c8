"""Transfers and collectives alone on a machine: tiles of a chip, chips over IPU-Links, the host, streaming memory.

Inside a chip the exchange is scheduled when the program is compiled: nothing queues, and the busiest port of a tile
sets the time [poplibs_estimators]. Between chips the fullest link does. A message of one tile leaves the tile before
it enters the link, and many tiles that send a little are held up by the number of their messages [citadel2019].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from podsim.models.op import DTYPE_BYTES
from podsim.placement.topologies import topology_of
from podsim.placement.topology import Channel, Route, Routes, streaming_channels
from podsim.scenario.hardware import System, given
from podsim.scenario.ipu import Ipu
from podsim.tiles.split import reduce_vertex_cycles
from podsim.tiles.vector import ceil_div

Collective = Literal[
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "gather", "scatter", "reduce"
]
COLLECTIVES: Final[tuple[Collective, ...]] = (
    *("all-reduce", "all-gather", "reduce-scatter", "all-to-all"),
    *("broadcast", "gather", "scatter", "reduce"),
)
_FRAGMENT_CYCLES: Final = 3
"""Instructions of the exchange for a piece that does not follow the one before it [poplibs_estimators]."""
_MOST_STAGES: Final = 3
"""Of a sum over tiles [poplibs_poplin]."""


@dataclass(frozen=True, slots=True)
class Movement:
    """What moves, and how long it takes.

    Attributes:
        parts: (what takes the time, how long) in order, all of which add up. [s]
        moved_bytes: What arrives, at all receivers together. [B]
        bound: What limits the rate of a large one.
    """

    parts: tuple[tuple[str, float], ...]
    moved_bytes: float
    bound: str

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


@dataclass(frozen=True)
class Fabric:
    """Tiles that take part: the first of each chip, on the first chips of a pod.

    Attributes:
        ipu: The chip.
        tile_count: Tiles of each chip.
        ipu_count: Chips.
        system: The pod; needed for several chips, the host and streaming memory.
    """

    ipu: Ipu
    tile_count: int
    ipu_count: int = 1
    system: System | None = None

    @property
    def all_tiles(self) -> int:
        """Tiles of all chips together."""
        return self.tile_count * self.ipu_count

    @cached_property
    def _routes(self) -> Routes:
        return Routes(given(self.system))

    def _word_s(self, *, loaded: bool) -> float:
        """A word from tile to tile of a chip. [s]"""
        exchange, overhead = self.ipu.exchange, self.ipu.superstep.overhead_cycles
        cycles = overhead if exchange.latency_cycles is None else exchange.latency_cycles
        if loaded and exchange.loaded_latency_cycles is not None:
            cycles = exchange.loaded_latency_cycles
        return cycles / self.ipu.clock_hz

    def exchange(self, port_bytes: float, fragments: int = 0, moved_bytes: float = 0.0, tiles: int = 0) -> Movement:
        """One round of the on-chip exchange.

        Args:
            port_bytes: What the busiest tile receives or sends. [B]
            fragments: Pieces that it takes from different places.
            moved_bytes: What all tiles receive. [B]
            tiles: Tiles that send; those of the chip if 0.
        """
        cycles = ceil_div(int(port_bytes), self.ipu.exchange.bytes_per_cycle) + _FRAGMENT_CYCLES * fragments
        latency_s = self._word_s(loaded=(tiles or self.tile_count) > 1)
        parts = (("latency", latency_s), ("exchange", cycles / self.ipu.clock_hz))
        return Movement(parts, moved_bytes, "port of a tile")

    def read(self, byte_count: float, width_bytes: int) -> Movement:
        """Each tile loads from its own memory, one load per cycle.

        Args:
            byte_count: Of each tile. [B]
            width_bytes: Of a load. [B]
        """
        rate = width_bytes * self.ipu.clock_hz
        return Movement((("loads", byte_count / rate),), byte_count * self.all_tiles, "loads")

    def between_tiles(self, byte_count: float, senders: int = 1) -> Movement:
        """Each of some tiles sends to one other tile of the chip.

        Args:
            byte_count: Of each. [B]
            senders: How many.
        """
        return self.exchange(byte_count, 0, byte_count * senders, senders)

    def between_ipus(self, byte_count: float, source: int, target: int, *, both_ways: bool = False) -> Movement:
        """Each tile sends to one tile of another chip.

        Args:
            byte_count: Of each. [B]
            source: Number of the chip in the pod.
            target: That of the other.
            both_ways: Whether as much goes the other way at the same time.
        """
        route = self._routes.between(source, target)
        moved = byte_count * self.tile_count * (1 + both_ways)
        return self._over_links([(route, self.tile_count, byte_count * self.tile_count)], self.tile_count, moved)

    def across(self, byte_count: float) -> Movement:
        """Each tile sends to a random tile of the other half of the chips, all at once.

        Args:
            byte_count: Of each. [B]
        """
        chips, half = range(self.ipu_count), self.ipu_count // 2
        sent = []
        for chip in chips:
            others = chips[half:] if chip < half else chips[:half]
            each = self.tile_count / len(others)
            sent += [(self._routes.between(chip, other), each, each * byte_count) for other in others]
        return self._over_links(sent, self.all_tiles, byte_count * self.all_tiles)

    def _over_links(self, sent: Iterable[tuple[Route, float, float]], streams: int, moved_bytes: float) -> Movement:
        """Messages over routes at once: the fullest link, the ports of tiles, or the number of messages.

        Args:
            sent: Route, messages and bytes.
            streams: Tiles that send to, or receive from, one of them.
            moved_bytes: What arrives. [B]
        """
        link = given(given(self.system).machine.ipu_link)
        messages: dict[Channel, float] = defaultdict(float)
        loads: dict[Channel, float] = defaultdict(float)
        latency_s, slowest, hops = 0.0, float("inf"), 1
        for route, count, byte_count in sent:
            latency_s, hops = max(latency_s, route.latency_s), max(hops, len(route.channels))
            slowest = min(slowest, *(channel.bandwidth_bytes_per_s for channel in route.channels))
            for channel in route.channels:
                messages[channel] += count
                loads[channel] += byte_count
        start_s = (link.message_time_s or 0.0) + ((link.forwarded_message_time_s or 0.0) if hops > 1 else 0.0)
        starts_s = start_s * max(0.0, max(messages.values()) - 1)
        links_s = max(load / channel.bandwidth_bytes_per_s for channel, load in loads.items())
        # A message leaves its tile before it enters the link.
        stream_s = 1 / self.ipu.exchange_bytes_per_s(1) + 1 / slowest
        ports_s = max(loads.values()) / streams * stream_s if streams else 0.0
        times = {"IPU-Link": links_s, "port of a tile": ports_s}
        bound = max(times, key=lambda name: times[name])
        carried_s = times[bound]
        parts = (("latency", latency_s), (bound, carried_s), ("messages", max(0.0, starts_s - carried_s)))
        return Movement(parts, moved_bytes, bound if starts_s <= carried_s else "messages")

    def from_host(self, byte_count: float) -> Movement:
        """The host sends to each tile of each chip, each its own.

        Args:
            byte_count: To each tile. [B]
        """
        machine = given(self.system).machine
        machines = ceil_div(self.ipu_count, machine.ipu_count)
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
        """Each tile of each chip reads from streaming memory, or writes to it.

        Args:
            byte_count: Of each tile. [B]
            direction: `read` or `write`.
        """
        system = given(self.system)
        rates: dict[str, float] = defaultdict(float)
        machines: dict[str, float] = {}
        for ipu in range(self.ipu_count):
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

    def collective(
        self, name: Collective, byte_count: int, dtype: str = "fp32", *, over_ipus: bool = False
    ) -> Movement:
        """One collective with nothing else on the machine.

        Args:
            name: Which.
            byte_count: Of a tile: what it holds before a sum or an all-gather, what it sends to each other tile in an
                all-to-all, what the root sends to all or to each, what it receives from each. [B]
            dtype: Format of what is summed.
            over_ipus: Whether corresponding tiles of all chips take part with each other, as in replicated tensors,
                and not all tiles with all.
        """
        if over_ipus and self.ipu_count > 1 and name in ("all-reduce", "all-gather", "reduce-scatter"):
            return self._rings(name, byte_count, dtype)
        match name:
            case "broadcast":
                return self._broadcast(byte_count)
            case "gather" | "scatter":
                return self._rooted(name, byte_count)
            case "all-gather":
                return self._all_gather(byte_count)
            case "all-to-all":
                return self._all_to_all(byte_count)
            case "reduce":
                return self._reduce(byte_count, dtype)
            case "reduce-scatter":
                return self._reduce_scatter(byte_count, dtype)
        whole = self._reduce_scatter(byte_count, dtype).then(self._all_gather(ceil_div(byte_count, self.all_tiles)))
        small = self._reduce(byte_count, dtype).then(self._broadcast(byte_count))
        return min(whole, small, key=lambda movement: movement.time_s)

    def _remote(self) -> range:
        return range(1, self.ipu_count)

    def _broadcast(self, byte_count: float) -> Movement:
        """The root sends once and all listen; a chip passes on what it receives."""
        moved = byte_count * (self.all_tiles - 1)
        if self.ipu_count == 1:
            return self.exchange(byte_count, 0, moved)
        routes = [self._routes.between(0, ipu) for ipu in self._remote()]
        farthest = max(routes, key=lambda route: route.latency_s)
        return self._over_links([(farthest, 1, byte_count)], 1, moved)

    def _rooted(self, name: str, byte_count: float) -> Movement:
        """To one tile from each, or from one tile to each: its port, or the links of its chip."""
        moved = byte_count * (self.all_tiles - 1)
        inside = self.exchange(moved, self.all_tiles - 1 if name == "gather" else 0, moved)
        if self.ipu_count == 1:
            return inside
        pairs = [(0, ipu) if name == "scatter" else (ipu, 0) for ipu in self._remote()]
        sent = [(self._routes.between(*pair), self.tile_count, byte_count * self.tile_count) for pair in pairs]
        links = self._over_links(sent, 0, moved)
        return max(inside, links, key=lambda movement: movement.time_s)

    def _all_gather(self, byte_count: float) -> Movement:
        """Each tile hears all others."""
        received = byte_count * (self.all_tiles - 1)
        moved = received * self.all_tiles
        inside = self.exchange(received, self.all_tiles - 1, moved)
        if self.ipu_count == 1:
            return inside
        links = self._between_all(self.tile_count, byte_count * self.tile_count, moved)
        return max(inside, links, key=lambda movement: movement.time_s)

    def _all_to_all(self, byte_count: float) -> Movement:
        """Each tile has something else for every other."""
        received = byte_count * (self.all_tiles - 1)
        moved = received * self.all_tiles
        inside = self.exchange(received, self.all_tiles - 1, moved)
        if self.ipu_count == 1:
            return inside
        links = self._between_all(self.tile_count**2, byte_count * self.tile_count**2, moved)
        return max(inside, links, key=lambda movement: movement.time_s)

    def _between_all(self, messages: int, byte_count: float, moved_bytes: float) -> Movement:
        """As much from each chip to each other."""
        chips = range(self.ipu_count)
        pairs = [(self._routes.between(a, b), messages, byte_count) for a in chips for b in chips if a != b]
        return self._over_links(pairs, 0, moved_bytes)

    def _sum(self, elements: int, depth: int, dtype: str) -> Movement:
        """Each tile sums some partials; of its superstep the exchange before it has had its part."""
        launch_s = max(0.0, self.ipu.superstep.overhead_cycles / self.ipu.clock_hz - self._word_s(loaded=True))
        cycles = reduce_vertex_cycles(self.ipu, elements, depth, dtype)
        return Movement((("sums", launch_s + float(cycles) / self.ipu.clock_hz),), 0.0, "sums")

    def _steps(self) -> Iterable[tuple[int, int]]:
        """Stages of a sum over the tiles of a chip, and the tiles that each of them joins."""
        for stages in range(1, _MOST_STAGES + 1):
            # Whole numbers, so that no root is rounded up by an error of its last digit.
            yield stages, next(n for n in range(1, self.tile_count + 1) if n**stages >= self.tile_count)

    def _reduce(self, byte_count: int, dtype: str) -> Movement:
        """To one tile: in stages over fewer and fewer tiles, or spread over all of them and collected."""
        elements, moved = ceil_div(byte_count, DTYPE_BYTES[dtype]), float(byte_count * (self.all_tiles - 1))
        ways = []
        for stages, joined in self._steps():
            way = Movement((), moved, "port of a tile")
            for _ in range(stages):
                exchanged = self.exchange(byte_count * (joined - 1), joined - 1, moved)
                way = way.then(exchanged).then(self._sum(elements, joined, dtype))
            ways.append(way)
        if elements >= self.tile_count:
            spread = self._inside_scatter(byte_count, dtype)
            ways.append(spread.then(self.exchange(byte_count, self.tile_count - 1, moved)))
        best = min(ways, key=lambda way: way.time_s)
        if self.ipu_count > 1:
            sent = [(self._routes.between(ipu, 0), 1.0, float(byte_count)) for ipu in self._remote()]
            best = best.then(self._over_links(sent, 1, moved)).then(self._sum(elements, self.ipu_count, dtype))
        return Movement(best.parts, moved, best.bound)

    def _inside_scatter(self, byte_count: int, dtype: str) -> Movement:
        """Each tile of a chip sums its share of what all of them hold, in stages whose shares get smaller."""
        ways = []
        for stages, joined in self._steps():
            way, held = Movement((), 0.0, "port of a tile"), ceil_div(byte_count, DTYPE_BYTES[dtype])
            for _ in range(stages):
                share = ceil_div(held, joined)
                sent = share * DTYPE_BYTES[dtype] * (joined - 1)
                way = way.then(self.exchange(sent, joined - 1, sent * self.tile_count))
                way, held = way.then(self._sum(share, joined, dtype)), share
            ways.append(way)
        return min(ways, key=lambda way: way.time_s)

    def _reduce_scatter(self, byte_count: int, dtype: str) -> Movement:
        """Sums over all tiles, of which each keeps its share; between chips only sums travel."""
        inside, moved = self._inside_scatter(byte_count, dtype), byte_count * (self.all_tiles - 1.0)
        if self.ipu_count > 1:
            inside = inside.then(self._rings("reduce-scatter", ceil_div(byte_count, self.tile_count), dtype))
        return Movement(inside.parts, moved, inside.bound)

    def _rings(self, name: str, byte_count: int, dtype: str) -> Movement:
        """Two rings over all chips, one in each direction, with a half each. Source: [gcl_topologies]."""
        order, count = topology_of(given(self.system)).ring(range(self.ipu_count)), self.ipu_count
        whole = byte_count * self.tile_count * (count if name == "all-gather" else 1)
        ways = (order,) if count == 2 else (order, order[::-1])
        chunk = ceil_div(whole, count * len(ways))
        hops = [(a, b) for way in ways for a, b in zip(way, (*way[1:], way[0]), strict=True)]
        sent = [(self._routes.between(a, b), 1.0, float(chunk)) for a, b in hops]
        step = self._over_links(sent, self.tile_count, 0.0)
        if name != "all-gather":
            share = ceil_div(ceil_div(chunk * len(ways), self.tile_count), DTYPE_BYTES[dtype])
            step = step.then(self._sum(share, 2, dtype))
        parts = tuple((kind, time_s * (count - 1)) for kind, time_s in step.parts)
        done = Movement(parts, float(whole) * (count - 1), step.bound)
        if name == "all-reduce":
            gathered = self._rings("all-gather", ceil_div(byte_count, count), dtype)
            return Movement(done.then(gathered).parts, done.moved_bytes * 2, done.bound)
        return done
