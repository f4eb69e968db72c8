"""Compilation of transfers over links, gateways and streaming memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil

from podsim.placement.topology import Channel, Routes, streaming_channels
from podsim.placement.topology import gw_hops as gw_channels
from podsim.program.task import Transfer
from podsim.scenario.hardware import System, present
from podsim.units import ps_to_seconds, seconds_to_ps

HOST, STREAMING, GW_LINK = "host", "streaming", "gw_link"


def transfer(
    name: str,
    kind: str,
    channels: Sequence[Channel],
    byte_count: float,
    latency_s: float = 0.0,
    receiver: int | None = None,
    tensor_count: int = 1,
) -> Transfer:
    """Return a transfer of `byte_count` over all of `channels` at once, with the lane of its receiver if it has one."""
    occupied = tuple((c.id, seconds_to_ps(byte_count / c.bandwidth_bytes_per_s)) for c in channels)
    lane = "" if receiver is None else f"ipu{receiver}"
    return Transfer(name, kind, occupied, seconds_to_ps(latency_s), ceil(byte_count), lane, tensor_count)


def link_transfer(
    routes: Routes,
    name: str,
    kind: str,
    source: int,
    target: int,
    byte_count: float,
    latency_s: float | None = None,
) -> Transfer:
    """Return a transfer over IPU-Links between two IPUs of one link domain, by default with the route's latency."""
    path = routes.between(source, target)
    return transfer(name, kind, path.channels, byte_count, path.latency_s if latency_s is None else latency_s, target)


def host_load(system: System, ipu: int, byte_count: float) -> Transfer:
    """Return the load of a prefetched input from the gateway's buffer to the IPU.

    The host fills the buffer ahead of time, so the IPU does not wait for the host link.
    """
    channels = streaming_channels(system, ipu, "read")
    return transfer("input", HOST, channels, byte_count, system.machine.streaming_memory.latency_s)


def streaming_transfer(
    system: System,
    name: str,
    ipu: int,
    direction: str,  # `read` or `write`
    byte_count: float,  # all tensors together [B]
    *,
    io_tiles: int = 0,  # number of tiles that take part, 0 for all
    tensor_count: int = 1,  # number of tensors, each in a separate remote buffer
) -> Transfer:
    """Return the transfer of tensors between an IPU and streaming memory; each tensor has the latency."""
    channels = streaming_channels(system, ipu, direction, io_tiles)
    latency_s = tensor_count * system.machine.streaming_memory.latency_s
    return transfer(name, STREAMING, channels, byte_count, latency_s, tensor_count=tensor_count)


def gw_hops(
    system: System,
    source: int,
    target: int,
    byte_count: float,
    staged_bytes: float,
    latencies: int,
    chips_s: float = 0.0,
) -> tuple[Transfer, ...]:
    """Return the hops between corresponding IPUs of two link domains: to the gateway, between gateways, to the IPU.

    A gateway forwards a fragment once it has received all of it. The first fragment of a collective passes the hops one
    after the other. The following fragments are pipelined, so that the fullest hop sets their time. A collective
    smaller than a fragment is not pipelined. Source: [gcl_topologies] for the staged size.

    `byte_count`: bytes of all collectives together [B]. `staged_bytes`: bytes of the first fragments, from
    `first_fragments_bytes` [B]. `latencies`: number of collectives, including those of small tensors; each pays the
    latency of each hop. `chips_s`: what the chips add to the latency of each collective. [s]
    """
    up, over, down = gw_channels(system, source, target)
    link, gateway = present(system.machine.gw_link), present(system.machine.gateway_link)
    first = min(byte_count, staged_bytes)
    gateway_s, link_s = (latencies * part.latency_s for part in (gateway, link))
    received = transfer("from gateway", GW_LINK, down, byte_count, gateway_s + latencies * chips_s, target)
    behind = transfer("behind", GW_LINK, (*up, *over), byte_count - first).channels if first < byte_count else ()
    return (
        transfer("to gateway", GW_LINK, up, first, gateway_s),
        transfer("gateway to gateway", GW_LINK, over, first, link_s),
        replace(received, channels=(*received.channels, *behind)),
    )


def first_fragments_bytes(system: System, sizes: Mapping[int, int], part_count: int = 1) -> float:
    """Return the bytes of the first fragments that collectives send between link domains in one step. [B]

    `sizes`: number of collectives by their bytes. `part_count`: number of parts of each collective; a step sends one.
    """
    fragment = present(system.machine.gw_link).fragment_bytes
    most = fragment * part_count if fragment else max(sizes, default=0)
    return sum(count * min(size, most) for size, count in sizes.items()) / part_count


def fullest_s(transfers: Iterable[Transfer]) -> tuple[float, float]:
    """Return the longest latency of simultaneous transfers, and the time of their fullest channel. [s]"""
    loads, latency_ps = Counter[str](), 0
    for each in transfers:
        latency_ps = max(latency_ps, each.latency_ps)
        for channel, time_ps in each.channels:
            loads[channel] += time_ps
    return ps_to_seconds(latency_ps), ps_to_seconds(max(loads.values()))
