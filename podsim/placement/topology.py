"""Routes between IPUs: the channels that a transfer occupies, and its latency."""

from __future__ import annotations

from dataclasses import dataclass

from podsim import memo
from podsim.placement.topologies import topology_of
from podsim.scenario.hardware import System, present


@dataclass(frozen=True, slots=True)
class Channel:
    """Connection in one direction."""

    id: str
    bandwidth_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Route:
    """Path through the pod."""

    channels: tuple[Channel, ...]  # channels that a transfer occupies, all at once
    latency_s: float  # time until the first byte arrives [s]


class Routes:
    """Routes over the IPU-Links of a pod, cached for all pods with the same links."""

    def __init__(self, system: System) -> None:
        self._system, self._per_domain = system, system.domain_ipu_count
        machine, link = system.machine, system.machine.ipu_link
        self._known: dict[tuple[int, int], Route] = {}
        self.key: tuple[object, ...] = ()  # equal where all routes are
        if link is not None:
            rates = machine.rung_bytes_per_s, machine.rail_bytes_per_s
            made_of = (system.topology, self._per_domain, machine.ipu_count, rates)
            self.key = (*made_of, link.first_hop_latency_s, link.hop_latency_s, link.rung_latency_s)
            self._known = memo.ROUTES.get(self.key, dict)

    def between(self, source: int, target: int) -> Route:
        """Return the route between two IPUs of one link domain, numbered across the pod."""
        known = self._known.get((source, target))
        if known is not None:
            return known
        domain, first = divmod(source, self._per_domain)
        other, last = divmod(target, self._per_domain)
        if source == target or domain != other:
            raise ValueError(f"no IPU-Link route from IPU {source} to IPU {target}")
        if domain:
            inside = self.between(first, last)
            return Route(
                tuple(
                    Channel(f"domain{domain}/{channel.id.partition('/')[2]}", channel.bandwidth_bytes_per_s)
                    for channel in inside.channels
                ),
                inside.latency_s,
            )
        link = present(self._system.machine.ipu_link)
        walked = tuple(topology_of(self._system).connections(self._system, first, last))
        channels = tuple(Channel(f"domain0/{each.name}", each.bytes_per_s) for each in walked)
        hops_s = link.first_hop_latency_s + (len(channels) - 1) * link.hop_latency_s
        found = Route(channels, hops_s + sum(each.latency_s for each in walked))
        self._known[source, target] = found
        return found

    def latency_s(self, source: int, target: int) -> float:
        """Return the latency of the route between two IPUs of one link domain. [s]"""
        return self.between(source % self._per_domain, target % self._per_domain).latency_s


def route(system: System, source: int, target: int) -> Route:
    """Return the route over IPU-Links between two IPUs of one link domain, numbered across the pod."""
    return Routes(system).between(source, target)


def gw_hops(system: System, source: int, target: int) -> tuple[tuple[Channel, ...], ...]:
    """Return the channels of each hop between IPUs of two link domains: to the gateway, over GW-Links, to the IPU."""
    link = present(system.machine.gw_link)
    gateway, peer = (ipu // system.machine.ipu_count for ipu in (source, target))
    up = Channel(f"ipu{source}/gw/up", link.buffer_write_bytes_per_s)
    over = Channel(gw_link_id(gateway, peer), link.bandwidth_bytes_per_s)
    down = Channel(f"ipu{target}/gw/down", link.buffer_read_bytes_per_s)
    return (
        (up, *gateway_channels(system, source, "write")),
        (over,),
        (down, *gateway_channels(system, target, "read")),
    )


def gateway_channels(system: System, ipu: int, direction: str) -> tuple[Channel, ...]:
    """Return the channel from (`read`) or to an IPU's gateway, shared by all off-pod traffic; a plain card has none."""
    link = system.machine.gateway_link
    return () if link is None else (Channel(f"ipu{ipu}/gateway/{direction}", link.bandwidth_bytes_per_s),)


def gw_link_id(machine: int, peer: int) -> str:
    """Return the name of the channel of GW-Links from one machine to another."""
    return f"machine{machine}-{peer}/gw_link"


def host_link_ids(machine: int) -> tuple[str, str]:
    """Return the names of the channels of a machine's host link: from the host, and to it."""
    return f"machine{machine}/host_link", f"machine{machine}/host_link/up"


def memory_id(machine: int) -> str:
    """Return the name of the channel of a machine's streaming memory, which its IPUs share."""
    return f"machine{machine}/streaming"


def machine_memory(system: System, ipu: int) -> Channel:
    """Return the channel of the streaming memory of an IPU's machine."""
    machine = system.machine
    return Channel(memory_id(ipu // machine.ipu_count), machine.streaming_memory.machine_bytes_per_s)


def ipu_memory(system: System, ipu: int, direction: str, io_tiles: int = 0) -> Channel:
    """Return the channel of an IPU's share of streaming memory, bound by the ports of the tiles that take part."""
    memory, chip = system.machine.streaming_memory, system.machine.ipu
    rate = memory.read_bytes_per_s if direction == "read" else memory.write_bytes_per_s
    ports = chip.exchange_bytes_per_s(io_tiles or chip.tile.count)
    return Channel(f"ipu{ipu}/streaming/{direction}", min(rate, ports))


def streaming_channels(system: System, ipu: int, direction: str, io_tiles: int = 0) -> tuple[Channel, ...]:
    """Return the channels to streaming memory: the IPU's share, the link to the gateway, the memory of the machine."""
    own, shared = ipu_memory(system, ipu, direction, io_tiles), machine_memory(system, ipu)
    return own, *gateway_channels(system, ipu, direction), shared
