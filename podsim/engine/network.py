"""Channels that transfers share fairly.

A channel gives each of its k transfers 1/k of itself. A transfer that would need W_c on channel c alone
advances, on all its channels at once, as fast as the slowest of them lets it: it would need
max(k_c·W_c) in all. Progress is kept as an exact fraction and only the end of a transfer is rounded,
up to the next picosecond, so that the order of events at one instant changes nothing.
"""

from __future__ import annotations

import heapq
from fractions import Fraction
from itertools import count
from math import ceil

from simpy import Environment, Event

from podsim.program.task import Transfer

# Behind everything else that happens at the same instant: SimPy uses 0 (urgent) and 1 (normal).
_LAST = 2
_WHOLE = Fraction(1)


class Channel:
    """Carries the transfers that are on it now."""

    __slots__ = ("users",)

    def __init__(self) -> None:
        self.users: set[Flow] = set()


Loads = tuple[tuple[Channel, int], ...]
"""Channels of a transfer, each with the time the transfer needs on it alone. [ps]"""


class Flow:
    """A transfer under way."""

    __slots__ = ("begin", "duration", "end", "finish", "left", "loads", "since", "transfer", "waiter")

    def __init__(self, transfer: Transfer, loads: Loads, waiter: Waiter) -> None:
        self.transfer, self.loads, self.waiter = transfer, loads, waiter
        self.left = _WHOLE
        self.duration = self.finish = self.since = self.begin = self.end = -1


class Waiter:
    """Counts the transfers that a lane waits for."""

    __slots__ = ("done", "open")

    def __init__(self, done: Event, open_count: int) -> None:
        self.done, self.open = done, open_count


class Network:
    """All channels of a program and the transfers on them."""

    def __init__(self, env: Environment) -> None:
        """Start with no transfer under way."""
        self._env = env
        self._channels: dict[str, Channel] = {}
        self._changed: set[Channel] = set()
        self._ends: list[tuple[int, int, Flow]] = []
        self._number = count()
        self._settling = False
        self._wake_at = -1

    def loads(self, transfer: Transfer) -> Loads:
        """The channels of a transfer."""
        return tuple((self._channels.setdefault(name, Channel()), work) for name, work in transfer.channels)

    def start(self, flow: Flow) -> None:
        """Let a transfer flow from this instant on; shares are settled once all of the instant have started."""
        flow.begin = now = int(self._env.now)
        for channel, _ in flow.loads:
            channel.users.add(flow)
            self._changed.add(channel)
        if not flow.loads:
            flow.finish = now
            heapq.heappush(self._ends, (now, next(self._number), flow))
        if not self._settling:
            self._settling = True
            self._call(self._settle, 0)

    def _call(self, function: object, delay: int) -> None:
        event = Event(self._env)
        event._ok, event._value = True, None
        event.callbacks = [function]  # type: ignore[list-item]
        self._env.schedule(event, _LAST, delay)  # type: ignore[arg-type]

    def _settle(self, _: Event | None = None) -> None:
        """End every transfer that is due, then give all on a changed channel their new speed."""
        self._settling = False
        now = int(self._env.now)
        if self._wake_at == now:
            self._wake_at = -1
        # What is due goes first: whoever starts at the same instant must not find it still there.
        ends = self._ends
        while ends and ends[0][0] <= now:
            finish, _number, flow = heapq.heappop(ends)
            if flow.finish == finish:
                self._end(flow)
        affected = {flow for channel in self._changed for flow in channel.users}
        self._changed.clear()
        for flow in affected:
            duration = max([len(channel.users) * work for channel, work in flow.loads])
            if duration == flow.duration:
                continue
            if flow.duration > 0 and now > flow.since:
                flow.left -= Fraction(now - flow.since, flow.duration)
            flow.since, flow.duration = now, duration
            flow.finish = now + (duration if flow.left is _WHOLE else ceil(flow.left * duration))
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
        for channel, _ in flow.loads:
            channel.users.discard(flow)
            self._changed.add(channel)
        flow.end = int(self._env.now)
        waiter = flow.waiter
        waiter.open -= 1
        if not waiter.open:
            waiter.done.succeed()
