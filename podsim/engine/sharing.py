"""How transfers share channels: max-min fairness [bertsekas1992], in whole numbers; see docs/background/engine.md.

The speeds of all transfers rise together until a channel is full. A speed is stored as the time of the whole transfer
at that speed, in whole picoseconds. The capacity of a channel is stored in units of 2^-48 of its full speed. Channels
that fill at the same speed are settled together, so that the result does not depend on the order of transfers or
channels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from podsim.program.task import Slowdown

CHANNEL_BITS = 48
WHOLE = 1 << CHANNEL_BITS
"""Capacity of a channel at its full speed."""
_RIVAL_BITS = 13
"""Resolution of the comparison between kinds of transfers: 2^-13 of a channel's capacity."""
NO_SPEED = 0
"""Marker in place of the time of a transfer whose channel has no capacity."""


class SharedChannel:
    """Channel with the transfers that are on it now, and its current capacity."""

    __slots__ = ("capacity", "users")

    def __init__(self) -> None:
        self.users: set[Sharer] = set()
        self.capacity = WHOLE


@dataclass(frozen=True, slots=True)
class ChannelLoad:
    """Load that one transfer puts on one channel."""

    channel: SharedChannel
    time_ps: int  # time of the transfer alone on the channel [ps]
    weight: int  # time per unit of the transfer's size [2^-48 ps]


class Sharer:
    """Transfer under way, with its size and its load on each channel."""

    __slots__ = ("kind", "loads", "size")
    kind: str
    size: int
    loads: tuple[ChannelLoad, ...]


def capacities(slowdowns: Iterable[Slowdown]) -> Mapping[int, int]:
    """Return the capacity of a channel from each time [ps] on, given its slowdowns in order."""
    rooms: dict[int, int] = {}
    for slowdown in slowdowns:
        rooms[slowdown.start_ps] = slowdown.speed.numerator * WHOLE // slowdown.speed.denominator
        if slowdown.end_ps is not None:
            rooms[slowdown.end_ps] = WHOLE
    return rooms


def weight_of(time_ps: int, size: int) -> int:
    """Return the time on a channel per unit of a transfer's size, at least 1. [2^-48 ps]"""
    return max(1, (time_ps << CHANNEL_BITS) // size)


def dependent(changed: Iterable[SharedChannel]) -> set[Sharer]:
    """Return the transfers whose speeds depend on these channels, directly or through other transfers."""
    seen, ahead = set(changed), list(changed)
    found: set[Sharer] = set()
    while ahead:
        for flow in ahead.pop().users - found:
            found.add(flow)
            for load in flow.loads:
                if load.channel not in seen:
                    seen.add(load.channel)
                    ahead.append(load.channel)
    return found


def fair_times(flows: Collection[Sharer]) -> Mapping[Sharer, int]:
    """Return the time of each transfer at its fair speed among `flows`, or `NO_SPEED`. [ps]"""
    rooms: dict[SharedChannel, int] = {}
    weights: dict[SharedChannel, int] = {}
    for flow in flows:
        for load in flow.loads:
            rooms[load.channel] = load.channel.capacity
            weights[load.channel] = weights.get(load.channel, 0) + load.weight
    times: dict[Sharer, int] = {}
    while open_channels := [channel for channel, weight in weights.items() if weight > 0]:
        weight, room, tightest = _tightest(open_channels, weights, rooms)
        settled = {flow for channel in tightest for flow in channel.users if flow in flows and flow not in times}
        if not settled:
            break
        for flow in settled:
            times[flow] = max(1, _rounded(flow.size * weight, room)) if room else NO_SPEED
        for flow in settled:
            for load in flow.loads:
                weights[load.channel] -= load.weight
                taken = _rounded(load.time_ps << CHANNEL_BITS, times[flow]) if times[flow] != NO_SPEED else 0
                rooms[load.channel] = max(0, rooms[load.channel] - taken)
    return times


def separate_times(times: Mapping[Sharer, int]) -> Mapping[Sharer, tuple[int, str]]:
    """Return the time of each transfer without other kinds of transfers, and the kind that slows it most.

    Args:
        times: Time of each transfer at its fair speed; transfers that share channels are all in it. [ps]
    """
    if all(len({flow.kind for flow in load.channel.users}) == 1 for flow in times for load in flow.loads):
        return {}
    found: dict[Sharer, tuple[int, str]] = {}
    for kind in {flow.kind for flow in times}:
        alone = fair_times({flow for flow in times if flow.kind == kind})
        found |= {flow: (time, _rival(flow, times) if time < times[flow] else "") for flow, time in alone.items()}
    return found


def _rival(flow: Sharer, times: Mapping[Sharer, int]) -> str:
    """Return the other kind that uses most capacity of a transfer's channels, or the transfer's kind if it is alone."""
    taken: dict[str, int] = {}
    for used in flow.loads:
        for other in used.channel.users:
            if other.kind == flow.kind or times[other] == NO_SPEED:
                continue
            for load in other.loads:
                if load.channel is used.channel:
                    room = (load.time_ps << _RIVAL_BITS) // times[other]
                    taken[other.kind] = taken.get(other.kind, 0) + room
    return max(sorted(kind for kind in taken if taken[kind]), key=lambda kind: taken[kind], default=flow.kind)


def _tightest(
    channels: list[SharedChannel], weights: Mapping[SharedChannel, int], rooms: Mapping[SharedChannel, int]
) -> tuple[int, int, list[SharedChannel]]:
    """Return the channels that fill first, with the weight on each and the capacity left on each."""
    weight, room = 0, 1
    full: list[SharedChannel] = []
    for channel in channels:
        ahead = weights[channel] * room - weight * rooms[channel]
        if ahead > 0 or not full:
            weight, room, full = weights[channel], rooms[channel], [channel]
        elif ahead == 0:
            full.append(channel)
    return weight, room, full


def _rounded(numerator: int, denominator: int) -> int:
    """Return the quotient, rounded to the nearest integer, halves up."""
    return (2 * numerator + denominator) // (2 * denominator)
