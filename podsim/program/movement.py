"""Transfers and collectives alone on a machine: tiles of a chip, chips over IPU-Links, the host, streaming memory.

Inside a chip the exchange is scheduled when the program is compiled: nothing queues, and the busiest port of a tile
sets the time [poplibs_estimators]. Between chips the fullest link does. A message of one tile leaves the tile before
it enters the link, and many tiles that send a little are held up by the number of their messages [citadel2019].
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
OVER_IPUS: Final = ("all-reduce", "all-gather", "reduce-scatter")
"""Those that can join each tile with those of its number on other chips."""
SUMS: Final = ("all-reduce", "reduce-scatter", "reduce")
_WORD_BYTES: Final = 4
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


def _quickest(ways: Iterable[Movement]) -> Movement:
    return min(ways, key=lambda way: way.time_s)


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

    def _over_links(
        self, sent: Iterable[tuple[Route, float, float]], streams: int, moved_bytes: float, local_bytes: float = 0.0
    ) -> Movement:
        """Messages over routes at once: the fullest link, the ports of tiles, or the number of messages.

        Args:
            sent: Route, messages and bytes.
            streams: Tiles whose ports share all of it; none if 0.
            moved_bytes: What arrives. [B]
            local_bytes: What these ports carry within a chip beside it. [B]
        """
        link = given(given(self.system).machine.ipu_link)
        messages: dict[Channel, float] = defaultdict(float)
        loads: dict[Channel, float] = defaultdict(float)
        latency_s, slowest, hops, all_bytes = 0.0, float("inf"), 1, 0.0
        for route, count, byte_count in sent:
            latency_s, hops = max(latency_s, route.latency_s), max(hops, len(route.channels))
            all_bytes += byte_count
            slowest = min(slowest, *(channel.bandwidth_bytes_per_s for channel in route.channels))
            for channel in route.channels:
                messages[channel] += count
                loads[channel] += byte_count
        start_s = (link.message_time_s or 0.0) + ((link.forwarded_message_time_s or 0.0) if hops > 1 else 0.0)
        starts_s = start_s * max(0.0, max(messages.values()) - 1)
        links_s = max(load / channel.bandwidth_bytes_per_s for channel, load in loads.items())
        # A message leaves its tile before it enters the link.
        port = self.ipu.exchange_bytes_per_s(1)
        ports_s = (all_bytes * (1 / port + 1 / slowest) + local_bytes / port) / streams if streams else 0.0
        times = {"IPU-Link": links_s, "port of a tile": ports_s}
        bound = max(times, key=lambda name: times[name])
        carried_s = times[bound]
        parts = (("latency", latency_s), (bound, carried_s), ("messages", max(0.0, starts_s - carried_s)))
        return Movement(parts, moved_bytes, bound if starts_s <= carried_s else "messages")

    def with_host(self, byte_count: float) -> Movement:
        """The host sends to each tile of each chip, each its own, or receives from each over the same links.

        Args:
            byte_count: Of each tile. [B]
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
        if over_ipus and self.ipu_count > 1 and name in OVER_IPUS:
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
            case "reduce-scatter":
                return self._reduce_scatter(byte_count, dtype)
        holders, share = self._holders(byte_count, dtype)
        to_all = self._reduce_scatter(byte_count, dtype).then(holders._all_gather(share))
        to_one = self._reduce(byte_count, dtype)
        if name == "all-reduce":
            to_one = to_one.then(self._broadcast(byte_count))
        return replace(_quickest((to_all, to_one)), moved_bytes=float(byte_count * (self.all_tiles - 1)))

    def _holders(self, byte_count: int, dtype: str) -> tuple[Fabric, int]:
        """The tiles that hold a share of a sum, which are few if its elements are, and the bytes of a share."""
        elements, size = ceil_div(byte_count, DTYPE_BYTES[dtype]), DTYPE_BYTES[dtype]
        share = ceil_div(elements, self.all_tiles)
        chips = min(self.ipu_count, elements)
        return replace(self, tile_count=ceil_div(ceil_div(elements, share), chips), ipu_count=chips), share * size

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
        moved, gathers = byte_count * (self.all_tiles - 1), name == "gather"
        inside = self.exchange(moved, self.all_tiles - 1 if gathers else 0, moved)
        if self.ipu_count == 1:
            return inside
        pairs = [(ipu, 0) if gathers else (0, ipu) for ipu in self._remote()]
        sent = [(self._routes.between(*pair), self.tile_count, byte_count * self.tile_count) for pair in pairs]
        # What a root sends leaves its port before it enters a link; what it receives comes from many ports.
        links = self._over_links(sent, 0 if gathers else 1, moved, byte_count * (self.tile_count - 1))
        return max(inside, links, key=lambda movement: movement.time_s)

    def _all_gather(self, byte_count: int) -> Movement:
        """Each tile hears all others, at once or, between chips, those of its number first."""
        received = byte_count * (self.all_tiles - 1)
        moved = float(received * self.all_tiles)
        inside = self.exchange(received, self.all_tiles - 1, moved)
        if self.ipu_count == 1:
            return inside
        links = self._between_all(self.tile_count, byte_count * self.tile_count, moved)
        at_once = max(inside, links, key=lambda movement: movement.time_s)
        gathered = byte_count * self.ipu_count * (self.tile_count - 1)
        after = self.exchange(gathered, self.tile_count - 1, moved)
        return _quickest((at_once, self._rings("all-gather", byte_count, "fp32").then(after)))

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
        summed = self._inside_scatter(byte_count, dtype)
        shares, share = replace(self, ipu_count=1)._holders(byte_count, dtype)
        holders = shares.tile_count
        collected = self.exchange(share * (holders - 1), holders - 1, moved)
        best = _quickest((*ways, summed.then(collected)))
        if self.ipu_count > 1:
            # One tile of each chip sends its sum to the root, or each tile its share of it to that of its number.
            ways = [best.then(self._to_root(byte_count, 1, dtype))]
            ways.append(summed.then(self._to_root(byte_count, holders, dtype)).then(collected))
            best = _quickest(ways)
        return replace(best, moved_bytes=moved)

    def _to_root(self, byte_count: int, holders: int, dtype: str) -> Movement:
        """Sums of chips, each spread over some tiles, go to the first chip, which sums them."""
        routes = (self._routes.between(ipu, 0) for ipu in self._remote())
        sent = [(route, float(holders), float(byte_count)) for route in routes]
        share = ceil_div(ceil_div(byte_count, DTYPE_BYTES[dtype]), holders)
        return self._over_links(sent, holders, 0.0).then(self._sum(share, self.ipu_count, dtype))

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
        return _quickest(ways)

    def _reduce_scatter(self, byte_count: int, dtype: str) -> Movement:
        """Sums over all tiles, of which each keeps its share; between chips only sums travel."""
        best, moved = self._inside_scatter(byte_count, dtype), byte_count * (self.all_tiles - 1.0)
        if self.ipu_count > 1:
            rings = best.then(self._rings("reduce-scatter", ceil_div(byte_count, self.tile_count), dtype))
            holders, share = self._holders(byte_count, dtype)
            best = _quickest((rings, self._reduce(byte_count, dtype).then(holders._rooted("scatter", share))))
        return replace(best, moved_bytes=moved)

    def _rings(self, name: str, byte_count: int, dtype: str) -> Movement:
        """Each tile with those of its number: rings over all chips. Source: [gcl_topologies]."""
        whole_bytes, count = byte_count * self.tile_count, self.ipu_count
        if name == "all-gather":
            return self._turns(whole_bytes * count, (self.tile_count,))
        # A chunk of a sum is a piece of each tile, or all that some of the tiles hold.
        spreads = (self.tile_count, ceil_div(self.tile_count, count))
        summed = self._turns(whole_bytes, spreads, dtype)
        if name == "reduce-scatter":
            return summed
        both = summed.then(self._turns(whole_bytes, spreads))
        return replace(both, moved_bytes=2 * summed.moved_bytes)

    def _turns(self, whole_bytes: int, spreads: Iterable[int], summed: str | None = None) -> Movement:
        """The n - 1 steps of two rings, one in each direction, with half of a chunk each.

        Args:
            whole_bytes: All chunks. [B]
            spreads: Numbers of tiles that a chunk may lie on.
            summed: Format of what each step adds; None if it only gathers.
        """
        order, count = topology_of(given(self.system)).ring(range(self.ipu_count)), self.ipu_count
        ways = (order,) if count == 2 else (order, order[::-1])
        chunk = ceil_div(whole_bytes, count * len(ways))
        routes = [self._routes.between(a, b) for way in ways for a, b in zip(way, (*way[1:], way[0]), strict=True)]
        steps = []
        for tiles in spreads:
            messages = float(min(tiles, ceil_div(chunk, _WORD_BYTES)))
            step = self._over_links([(route, messages, float(chunk)) for route in routes], tiles * count, 0.0)
            if summed:
                share = ceil_div(ceil_div(chunk * len(ways), tiles), DTYPE_BYTES[summed])
                step = step.then(self._sum(share, 2, summed))
            steps.append(step)
        step = _quickest(steps)
        parts = tuple((kind, time_s * (count - 1)) for kind, time_s in step.parts)
        return Movement(parts, float(whole_bytes) * (count - 1), step.bound)
