"""One replica: what it does next, decided whenever it is idle or has come to the end of a step.

Between two decisions nothing changes but the length of contexts, so a stretch of decode steps is one sum.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from podsim.serving.arrivals import Requests
from podsim.serving.batching import Batching, StaticBatching, StepTable
from podsim.units import seconds_to_ps


class Stamps:
    """When each request starts, has its first token and has its last; -1 until then. [ps]"""

    __slots__ = ("first_token_ps", "last_token_ps", "requests", "start_ps")

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.start_ps, self.first_token_ps, self.last_token_ps = ([-1] * len(requests) for _ in range(3))


Queue = deque[int]
"""Numbers of the requests that wait, oldest first."""


class Replica(Protocol):
    """A server of the queue."""

    idle: bool
    due_ps: int | None
    busy_ps: int

    def arrived(self, now_ps: int) -> None:
        """A request has joined the queue."""

    def decide(self, now_ps: int) -> None:
        """Do what is to be done at the end of a step, or at any time while idle."""


def make_replica(batching: Batching, table: StepTable, queue: Queue, stamps: Stamps) -> Replica:
    """A replica that batches as told."""
    if isinstance(batching, StaticBatching):
        return StaticReplica(batching, table, queue, stamps)
    return ContinuousReplica(batching.size, table, queue, stamps)


class StaticReplica:
    """Runs one batch from its prefill to its last token.

    Attributes:
        idle: Whether it may start a batch.
        due_ps: When it has to decide again; None if only an arrival can change anything. [ps]
        busy_ps: Time it has worked. [ps]
    """

    def __init__(self, batching: StaticBatching, table: StepTable, queue: Queue, stamps: Stamps) -> None:
        self._size, self._wait_ps = batching.size, seconds_to_ps(batching.longest_wait_s)
        self._table, self._queue, self._stamps = table, queue, stamps
        self.idle = True
        self.due_ps: int | None = None
        self.busy_ps = 0

    def arrived(self, now_ps: int) -> None:
        """A running batch takes nobody in."""

    def decide(self, now_ps: int) -> None:
        """Start a batch if it is full or its oldest request has waited long enough."""
        queue = self._queue
        self.idle, self.due_ps = True, None
        if not queue:
            return
        deadline = self._stamps.requests.arrival_ps[queue[0]] + self._wait_ps
        if len(queue) >= self._size or deadline <= now_ps:
            self._start([queue.popleft() for _ in range(min(self._size, len(queue)))], now_ps)
        else:
            self.due_ps = deadline

    def _start(self, batch: list[int], now_ps: int) -> None:
        stamps, count = self._stamps, len(batch)
        prompt = max(stamps.requests.prompt_tokens[number] for number in batch)
        first = now_ps + self._table.prefill_ps(count, prompt)
        for number in batch:
            more = stamps.requests.output_tokens[number] - 1
            stamps.start_ps[number], stamps.first_token_ps[number] = now_ps, first
            stamps.last_token_ps[number] = first + self._table.decode_ps(count, prompt + 1, more)
        self.idle, self.due_ps = False, max(stamps.last_token_ps[number] for number in batch)
        self.busy_ps += self.due_ps - now_ps


class ContinuousReplica:
    """Runs sequences side by side; a stretch of decode steps lasts until one is done or another may join.

    Attributes:
        idle: Whether it has no sequences.
        due_ps: When its prefill or stretch of decode steps ends; None while idle. [ps]
        busy_ps: Time it has worked. [ps]
    """

    def __init__(self, size: int, table: StepTable, queue: Queue, stamps: Stamps) -> None:
        self._size, self._table, self._queue, self._stamps = size, table, queue, stamps
        self.idle = True
        self.due_ps: int | None = None
        self.busy_ps = 0
        self._joining: list[int] = []
        # By number of the request: steps of this replica after which it is done, and its context minus those so far.
        self._done_at: dict[int, int] = {}
        self._context_offset: dict[int, int] = {}
        self._step_count = 0
        self._since_ps = self._context = self._stretch = 0

    def arrived(self, now_ps: int) -> None:
        """Let a stretch of decode steps end with the step under way, if there is a free place."""
        if self._stretch and len(self._done_at) < self._size:
            elapsed = now_ps - self._since_ps
            self._stretch = self._table.steps_until(len(self._done_at), self._context, self._stretch, elapsed)
            self.due_ps = self._since_ps + self._decode_ps()

    def decide(self, now_ps: int) -> None:
        """Account for what has ended; then prefill those who wait, or else decode."""
        if not self.idle:
            self.busy_ps += now_ps - self._since_ps
            self._end_prefill(now_ps)
            self._end_stretch(now_ps)
        self._since_ps = now_ps
        free = self._size - len(self._done_at)
        if self._queue and free:
            self._start_prefill(now_ps, free)
        elif self._done_at:
            self._context = self._step_count + max(self._context_offset.values())
            self._stretch = min(self._done_at.values()) - self._step_count
            self.due_ps = now_ps + self._decode_ps()
        else:
            self.idle, self.due_ps = True, None

    def _decode_ps(self) -> int:
        return self._table.decode_ps(len(self._done_at), self._context, self._stretch)

    def _start_prefill(self, now_ps: int, free: int) -> None:
        self._joining = [self._queue.popleft() for _ in range(min(free, len(self._queue)))]
        for number in self._joining:
            self._stamps.start_ps[number] = now_ps
        prompt = max(self._stamps.requests.prompt_tokens[number] for number in self._joining)
        self.idle, self.due_ps = False, now_ps + self._table.prefill_ps(len(self._joining), prompt)

    def _end_prefill(self, now_ps: int) -> None:
        requests = self._stamps.requests
        for number in self._joining:
            self._stamps.first_token_ps[number] = now_ps
            self._done_at[number] = self._step_count + requests.output_tokens[number] - 1
            self._context_offset[number] = requests.prompt_tokens[number] + 1 - self._step_count
        self._joining = []

    def _end_stretch(self, now_ps: int) -> None:
        self._step_count += self._stretch
        self._stretch = 0
        for number in [number for number, end in self._done_at.items() if end == self._step_count]:
            self._stamps.last_token_ps[number] = now_ps
            del self._done_at[number], self._context_offset[number]
