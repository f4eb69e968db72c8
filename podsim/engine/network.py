"""Transfers under way on the channels of a program; docs/background/engine.md has the rules.

The remainder of a transfer is stored in units of 2^-62 of its size, and its end is rounded up to the next picosecond,
so that the order of events at one instant does not change the result.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from itertools import count
from typing import cast

from simpy import Environment, Event

from podsim.engine.sharing import (
    NO_SPEED,
    ChannelLoad,
    SharedChannel,
    Sharer,
    dependent,
    fair_times,
    separate_times,
    weight_of,
)
from podsim.program.task import Transfer

# Priority after all other events of the same instant: SimPy uses 0 (urgent) and 1 (normal).
_LAST = 2
_LEFT_BITS = 62
_ALL = 1 << _LEFT_BITS
_SLACK = _ALL >> 8
"""Remainder, as a fraction of a picosecond, that counts as finished; larger than the accumulated rounding error."""

Loads = tuple[ChannelLoad, ...]
"""Loads of a transfer on its channels, without channels on which it takes no time."""


class Flow(Sharer):
    """Transfer under way on SimPy."""

    __slots__ = (
        *("alone", "begin", "duration", "end", "finish", "left", "lost", "noted", "rival", "since"),
        *("spans", "transfer", "waiter"),
    )

    def __init__(self, transfer: Transfer, loads: Loads, waiter: Waiter) -> None:
        self.transfer, self.loads, self.waiter = transfer, loads, waiter
        self.size, self.kind = transfer.units, transfer.kind
        self.alone, self.noted, self.rival = -1, -1, ""
        self.lost: dict[str, int] = {}  # time lost to transfers of each other kind [ps]
        self.spans: list[tuple[int, int, int]] = []  # (begin, end, time of the whole transfer at this speed) [ps]
        self.left = _ALL
        self.duration = self.finish = self.since = self.begin = self.end = -1

    def note(self, now: int) -> None:
        """Record the time lost to other kinds, and the span at constant speed, since the last change of speed."""
        if 0 < self.alone < self.duration:
            lost = (now - self.noted) * (self.duration - self.alone) // self.duration
            self.lost[self.rival] = self.lost.get(self.rival, 0) + lost
        if self.duration > 0 and now > self.noted:
            self.spans.append((self.noted, now, self.duration))
        self.noted = now


class Waiter:
    """Counter of the open transfers that a lane waits for, with the event of their completion."""

    __slots__ = ("done", "open")

    def __init__(self, done: Event, open_count: int) -> None:
        self.done, self.open = done, open_count


class Network:
    """Channels of a program and the transfers on them."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._channels: dict[str, SharedChannel] = {}
        self._changed: set[SharedChannel] = set()
        self._ends: list[tuple[int, int, Flow]] = []
        self._number = count()
        self._settling = False
        self._wake_at = -1
        self.started = 0

    def loads(self, transfer: Transfer) -> Loads:
        """Return the loads of a transfer on its channels."""
        size = transfer.units
        return tuple(
            ChannelLoad(self._channels.setdefault(name, SharedChannel()), time, weight_of(time, size))
            for name, time in transfer.channels
            if time
        )

    def change(self, name: str, capacities: Mapping[int, int]) -> None:
        """Set the capacity of a channel from each given time [ps] on."""
        channel = self._channels.setdefault(name, SharedChannel())
        for time, capacity in capacities.items():
            self._call(lambda _, room=capacity: self._set(channel, room), time, priority=0)

    def _set(self, channel: SharedChannel, capacity: int) -> None:
        channel.capacity = capacity
        self._changed.add(channel)
        self._settle_soon()

    def start(self, flow: Flow) -> None:
        """Start a transfer now; speeds are computed once all transfers of this instant have started."""
        self.started += 1
        flow.begin = now = int(self._env.now)
        for load in flow.loads:
            load.channel.users.add(flow)
            self._changed.add(load.channel)
        if not flow.loads:
            flow.finish = now
            heapq.heappush(self._ends, (now, next(self._number), flow))
        self._settle_soon()

    def _settle_soon(self) -> None:
        if not self._settling:
            self._settling = True
            self._call(self._settle, 0)

    def _call(self, function: object, delay: int, priority: int = _LAST) -> None:
        event = Event(self._env)
        event._ok, event._value = True, None
        event.callbacks = [function]  # type: ignore[list-item]
        self._env.schedule(event, priority, delay)  # type: ignore[arg-type]

    def _settle(self, _: Event | None = None) -> None:
        """End every transfer that is due, then recompute the speeds of all transfers affected by a changed channel."""
        self._settling = False
        now = int(self._env.now)
        if self._wake_at == now:
            self._wake_at = -1
        # Transfers that are due end first: a transfer that starts at the same instant does not share with them.
        ends = self._ends
        while ends and ends[0][0] <= now:
            finish, _number, flow = heapq.heappop(ends)
            if flow.finish == finish:
                self._end(flow)
        affected = dependent(self._changed)
        self._changed.clear()
        times = fair_times(affected)
        separate = separate_times(times)
        for sharer, duration in times.items():
            flow = cast(Flow, sharer)
            alone, rival = separate.get(flow, (duration, ""))
            if (duration, alone, rival) == (flow.duration, flow.alone, flow.rival):
                continue
            flow.note(now)
            flow.alone, flow.rival = alone, rival
            if duration == flow.duration:
                continue
            if flow.duration > 0:
                flow.left -= (now - flow.since << _LEFT_BITS) // flow.duration
            flow.since, flow.duration, flow.finish = now, duration, -1
            if duration != NO_SPEED:
                flow.finish = now + (flow.left * duration + _ALL - _SLACK >> _LEFT_BITS)
                heapq.heappush(ends, (flow.finish, next(self._number), flow))
        self._schedule_wake(now)

    def _schedule_wake(self, now: int) -> None:
        ends = self._ends
        while ends and ends[0][2].finish != ends[0][0]:
            heapq.heappop(ends)
        if ends and (self._wake_at < now or ends[0][0] < self._wake_at):
            self._wake_at = ends[0][0]
            self._call(self._settle, self._wake_at - now)

    def _end(self, flow: Flow) -> None:
        flow.finish = -1
        for load in flow.loads:
            load.channel.users.discard(flow)
            self._changed.add(load.channel)
        flow.end = int(self._env.now)
        flow.note(flow.end)
        waiter = flow.waiter
        waiter.open -= 1
        if not waiter.open:
            waiter.done.succeed()
