"""Transfers over links, gateways and streaming memory as tasks of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from podsim.placement.topology import Channel, Routes, gw_route, streaming_channels
from podsim.placement.topology import gw_hops as gw_channels
from podsim.program.task import Transfer
from podsim.scenario.hardware import System, given
from podsim.units import seconds_to_ps

HOST, STREAMING, GW_LINK = "host", "streaming", "gw_link"


def transfer(name: str, kind: str, channels: Sequence[Channel], byte_count: float, latency_s: float = 0.0) -> Transfer:
    """A transfer of `byte_count` over all of `channels` at once."""
    occupied = tuple((c.id, seconds_to_ps(byte_count / c.bandwidth_bytes_per_s)) for c in channels)
    return Transfer(name, kind, occupied, seconds_to_ps(latency_s), ceil(byte_count))


def link_transfer(
    routes: Routes,
    name: str,
    kind: str,
    source: int,
    target: int,
    byte_count: float,
    latency_s: float | None = None,
) -> Transfer:
    """Over IPU-Links between two IPUs of one link domain, with the route's own latency if none is given."""
    path = routes.between(source, target)
    return transfer(name, kind, path.channels, byte_count, path.latency_s if latency_s is None else latency_s)


def host_load(system: System, ipu: int, byte_count: float) -> Transfer:
    """A prefetched input, from the gateway's buffer to the IPU.

    The host fills the buffer ahead of time, so the host link itself is not waited for.
    """
    channels = streaming_channels(system, ipu, "read")
    return transfer("input", HOST, channels, byte_count, system.machine.streaming_memory.latency_s)


def streaming_transfer(
    system: System,
    name: str,
    ipu: int,
    direction: str,
    byte_count: float,
    *,
    io_tiles: int = 0,
    tensor_count: int = 1,
) -> Transfer:
    """Tensors between an IPU and its streaming memory, one after the other, each after the latency.

    Args:
        system: The pod.
        name: What is moved.
        ipu: Number of the IPU in the pod.
        direction: `read` or `write`.
        byte_count: All tensors together. [B]
        io_tiles: Tiles that take part, 0 for all.
        tensor_count: Tensors, each a remote buffer of its own.
    """
    channels = streaming_channels(system, ipu, direction, io_tiles)
    return transfer(name, STREAMING, channels, byte_count, tensor_count * system.machine.streaming_memory.latency_s)


def gw_hops(system: System, source: int, target: int, byte_count: float, tensor_count: int) -> tuple[Transfer, ...]:
    """Between corresponding IPUs of two link domains, one after the other.

    The gateways store and forward: IPU to gateway, gateway to gateway over GW-Links, gateway to IPU.
    Each of the tensors that make up the bytes pays the latency of each hop.
    """
    up, link, down = gw_channels(system, source, target)
    machine = system.machine
    parts = (given(machine.gateway_link), given(machine.gw_link))
    gateway_s, link_s = (tensor_count * each.latency_s for each in parts)
    return (
        transfer("to gateway", GW_LINK, up, byte_count, gateway_s),
        transfer("gateway to gateway", GW_LINK, link, byte_count, link_s),
        transfer("from gateway", GW_LINK, down, byte_count, gateway_s),
    )


def gw_path(system: System, source: int, target: int, byte_count: float, tensor_count: int) -> tuple[Transfer, ...]:
    """The same with gateways that pass on what comes in at once: the slowest hop counts, and all latencies."""
    way = gw_route(system, source, target)
    return (transfer("over gateways", GW_LINK, way.channels, byte_count, tensor_count * way.latency_s),)
