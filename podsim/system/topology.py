"""Routes: which channels a transfer occupies, and how long before its first byte.

IPUs form a ladder: two per rung, a rail on each side. A route crosses the rung first and then walks
the rail of its target's side; on a torus it takes the shorter way round. Every connection has one
channel per direction.

Source: [poplibs_traffic_model] for the routing, [popxl_rts_tutorial] for the link counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.specs.hardware import System, given

_SIDES = 2


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


def route(system: System, source: int, target: int) -> Route:
    """The route over IPU-Links between two IPUs of one link domain, numbered across the pod.

    Raises:
        ValueError: The IPUs are the same or in different link domains.
    """
    domain, first = divmod(source, system.domain_ipu_count)
    other, last = divmod(target, system.domain_ipu_count)
    if source == target or domain != other:
        raise ValueError(f"no IPU-Link route from IPU {source} to IPU {target}")
    (rung, side), (last_rung, last_side) = divmod(first, _SIDES), divmod(last, _SIDES)
    machine, channels = system.machine, []
    if side != last_side:
        channels.append(Channel(f"domain{domain}/rung{rung}/to{last_side}", machine.rung_bytes_per_s))
    for here, there, direction in _rail_hops(system, rung, last_rung):
        name = f"domain{domain}/rail{last_side}/rung{here}-{there}/{direction}"
        channels.append(Channel(name, machine.rail_bytes_per_s))
    link = given(machine.ipu_link)
    latency = link.first_hop_latency_s + (len(channels) - 1) * link.hop_latency_s
    return Route(tuple(channels), latency)


def _rail_hops(system: System, start: int, end: int) -> list[tuple[int, int, str]]:
    """(lower rung, upper rung, direction) of every rail that is walked."""
    rungs = system.domain_ipu_count // _SIDES
    up, down = (end - start) % rungs, (start - end) % rungs
    wraps = system.topology == "torus"
    go_up = up <= down if wraps else end > start
    hops = []
    for step in range(up if go_up else down):
        here = (start + step) % rungs if go_up else (start - step - 1) % rungs
        hops.append((here, (here + 1) % rungs, "up" if go_up else "down"))
    return hops


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
