"""Routes: which channels a transfer occupies, and how long before its first byte.

The topology of a pod says how the IPUs of a link domain are joined; gateways join link domains. Every connection
has one channel per direction.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.specs.hardware import System, given
from podsim.system.topologies import topology_of


@dataclass(frozen=True, slots=True)
class Channel:
    """One direction of one connection.

    Attributes:
        id: Unique in the pod.
        bandwidth_bytes_per_s: What it carries. [B/s]
    """

    id: str
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Route:
    """A way through the pod.

    Attributes:
        channels: What a transfer occupies, all at once.
        latency_s: Before the first byte arrives. [s]
    """

    channels: tuple[Channel, ...]
    latency_s: float


class Routes:
    """Routes over the IPU-Links of a pod; those of one link domain are those of every other."""

    def __init__(self, system: System) -> None:
        """No route is known yet."""
        self._system, self._per_domain = system, system.domain_ipu_count
        self._known: dict[tuple[int, int], tuple[tuple[str, float], ...]] = {}

    def between(self, source: int, target: int) -> Route:
        """The route between two IPUs of one link domain, numbered across the pod.

        Raises:
            ValueError: The IPUs are the same or in different link domains.
        """
        domain, first = divmod(source, self._per_domain)
        other, last = divmod(target, self._per_domain)
        if source == target or domain != other:
            raise ValueError(f"no IPU-Link route from IPU {source} to IPU {target}")
        walked = self._walked(first, last)
        channels = tuple(Channel(f"domain{domain}/{name}", bandwidth) for name, bandwidth in walked)
        return Route(channels, self._latency_s(len(walked)))

    def latency_s(self, source: int, target: int) -> float:
        """Of the route between two IPUs of one link domain. [s]"""
        return self._latency_s(len(self._walked(source % self._per_domain, target % self._per_domain)))

    def _walked(self, first: int, last: int) -> tuple[tuple[str, float], ...]:
        known = self._known.get((first, last))
        if known is None:
            known = tuple(topology_of(self._system).connections(self._system, first, last))
            self._known[first, last] = known
        return known

    def _latency_s(self, hops: int) -> float:
        link = given(self._system.machine.ipu_link)
        return link.first_hop_latency_s + (hops - 1) * link.hop_latency_s


def route(system: System, source: int, target: int) -> Route:
    """The route over IPU-Links between two IPUs of one link domain, numbered across the pod.

    Raises:
        ValueError: The IPUs are the same or in different link domains.
    """
    return Routes(system).between(source, target)


def gw_route(system: System, source: int, target: int) -> Route:
    """The way between IPUs of two link domains: up to the gateway, over GW-Links, down to the IPU."""
    machine, link, gateway_link = system.machine, given(system.machine.gw_link), given(system.machine.gateway_link)
    gateway, peer = (ipu // machine.ipu_count for ipu in (source, target))
    channels = (
        Channel(f"ipu{source}/gw/up", link.buffer_write_bytes_per_s),
        Channel(f"machine{gateway}-{peer}/gw_link", link.bandwidth_bytes_per_s),
        Channel(f"ipu{target}/gw/down", link.buffer_read_bytes_per_s),
    )
    return Route(channels, 2 * gateway_link.latency_s + link.latency_s)


def streaming_channels(system: System, ipu: int, direction: str, io_tiles: int = 0) -> tuple[Channel, ...]:
    """An IPU's path to its streaming memory, and the memory that the machine's IPUs share.

    Args:
        system: The pod.
        ipu: Number of the IPU in the pod.
        direction: `read` or `write`.
        io_tiles: Tiles that take part, each no faster than its port on the exchange; 0 for all.
    """
    memory, chip = system.machine.streaming_memory, system.machine.ipu
    rate = memory.read_bytes_per_s if direction == "read" else memory.write_bytes_per_s
    ports = chip.exchange_bytes_per_s(io_tiles or chip.tile.count)
    return (
        Channel(f"ipu{ipu}/streaming/{direction}", min(rate, ports)),
        Channel(f"machine{ipu // system.machine.ipu_count}/streaming", memory.machine_bytes_per_s),
    )
