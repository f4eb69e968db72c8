"""The next action of a batch, decided when it is idle or at the end of a step.

Between two decisions nothing changes but the length of contexts, so a stretch of decode steps is one sum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from podsim.runs.serving.arrivals import Requests
from podsim.runs.serving.batching import Batching, ContinuousBatching, StaticBatching, StepTable
from podsim.units import seconds_to_ps


class Stamps:
    """When each request starts, has its first token and has its last; -1 until then. [ps]"""

    __slots__ = ("first_token_ps", "last_token_ps", "requests", "start_ps")

    def __init__(self, requests: Requests) -> None:
        self.requests = requests
        self.start_ps, self.first_token_ps, self.last_token_ps = ([-1] * len(requests) for _ in range(3))


Queue = deque[int]
"""Numbers of the requests that wait, oldest first."""


def make_slot(batching: Batching, queue: Queue, stamps: Stamps) -> Slot:
    """A slot with the given kind of batching."""
    if isinstance(batching, StaticBatching):
        return StaticSlot(batching, queue, stamps)
    return ContinuousSlot(batching, queue, stamps)


class Slot(ABC):
    """The place of a batch in a replica: at any time a prefill, a stretch of decode steps, or nothing.

    It decides what to do, and is then told at which pace: that depends on what other batches of its replica decide.

    Attributes:
        idle: Whether it may start a batch.
        due_ps: When it has to decide again; None if only an arrival can change anything. [ps]
        busy_ps: Time it has worked. [ps]
    """

    __slots__ = (
        "_context",
        "_joining",
        "_queue",
        "_running",
        "_since_ps",
        "_size",
        "_stamps",
        "_step_count",
        "_stretch",
        "_table",
        "busy_ps",
        "due_ps",
        "idle",
    )

    def __init__(self, batching: Batching, queue: Queue, stamps: Stamps) -> None:
        self._size, self._queue, self._stamps = batching.size, queue, stamps
        self.idle = True
        self.due_ps: int | None = None
        self.busy_ps = 0
        # What it does: prompts that are taken in, or else sequences, the longest context and the steps to go.
        self._joining: list[int] = []
        self._running = self._context = self._stretch = 0
        self._step_count = self._since_ps = 0
        self._table: StepTable

    @property
    def takes_in(self) -> bool:
        """Whether a request that arrives could join at the end of a step, if the stretch ended there."""
        return False

    @abstractmethod
    def decide(self, now_ps: int) -> None:
        """Account for what has ended, and return what comes next."""

    def begin(self, now_ps: int, table: StepTable) -> None:
        """Start what has been decided, unless that is nothing."""
        self._since_ps, self._table = now_ps, table
        if self._joining:
            prompts = self._stamps.requests.prompt_tokens
            longest = max([prompts[number] for number in self._joining])
            self.due_ps = now_ps + table.prefill_ps(len(self._joining), longest)
        elif not self.idle:
            self.due_ps = now_ps + table.decode_ps(self._running, self._context, self._stretch)

    def cut(self, now_ps: int) -> None:
        """Let a stretch of decode steps end with the step under way."""
        if self._stretch > 1:
            elapsed = now_ps - self._since_ps
            self._stretch = self._table.steps_until(self._running, self._context, self._stretch, elapsed)
            self.due_ps = self._since_ps + self._table.decode_ps(self._running, self._context, self._stretch)

    def _take(self, most: int, now_ps: int) -> None:
        """Take in the requests that have waited longest."""
        queue, start_ps = self._queue, self._stamps.start_ps
        self._joining = [queue.popleft() for _ in range(min(most, len(queue)))]
        for number in self._joining:
            start_ps[number] = now_ps
        self.idle = False


class StaticSlot(Slot):
    """Runs one batch from its prefill to its last token."""

    __slots__ = ("_batch", "_wait_ps")

    def __init__(self, batching: StaticBatching, queue: Queue, stamps: Stamps) -> None:
        super().__init__(batching, queue, stamps)
        self._wait_ps = seconds_to_ps(batching.longest_wait_s)
        self._batch: list[int] = []

    def decide(self, now_ps: int) -> None:
        """Go on to the last token of all; then start a batch if it is full or its oldest has waited long enough."""
        if not self.idle:
            self._end(now_ps)
            self._stretch = self._steps_left()
            if self._stretch:
                return
            self.idle = True
        queue, self.due_ps = self._queue, None
        if not queue:
            return
        deadline = self._stamps.requests.arrival_ps[queue[0]] + self._wait_ps
        if len(queue) >= self._size or deadline <= now_ps:
            self._take(self._size, now_ps)
        else:
            self.due_ps = deadline

    def _end(self, now_ps: int) -> None:
        """Account for a prefill or a stretch; requests in it leave with their own last tokens."""
        self.busy_ps += now_ps - self._since_ps
        stamps, outputs = self._stamps, self._stamps.requests.output_tokens
        if self._joining:
            self._batch, self._joining = self._joining, []
            self._running, self._step_count = len(self._batch), 0
            self._context = 1 + max([stamps.requests.prompt_tokens[number] for number in self._batch])
            for number in self._batch:
                stamps.first_token_ps[number] = stamps.last_token_ps[number] = now_ps
            return
        before, self._step_count = self._step_count, self._step_count + self._stretch
        for number in self._batch:
            steps = min(outputs[number] - 1, self._step_count) - before
            if steps > 0:
                spent = self._table.decode_ps(self._running, self._context, steps)
                stamps.last_token_ps[number] = self._since_ps + spent
        self._context += self._stretch

    def _steps_left(self) -> int:
        outputs = self._stamps.requests.output_tokens
        return max([outputs[number] for number in self._batch]) - 1 - self._step_count


class ContinuousSlot(Slot):
    """Runs sequences side by side; a stretch of decode steps lasts until one is done or another may join."""

    __slots__ = ("_context_offset", "_done_at")

    def __init__(self, batching: ContinuousBatching, queue: Queue, stamps: Stamps) -> None:
        super().__init__(batching, queue, stamps)
        # By number of the request: steps of this slot after which it is done, and its context minus those so far.
        self._done_at: dict[int, int] = {}
        self._context_offset: dict[int, int] = {}

    @property
    def takes_in(self) -> bool:
        """Whether it decodes with places free, in a stretch that is longer than a step."""
        return self._stretch > 1 and self._running < self._size

    def decide(self, now_ps: int) -> None:
        """Account for what has ended; then prefill those who wait, or else decode."""
        if not self.idle:
            self.busy_ps += now_ps - self._since_ps
            if self._joining:
                self._end_prefill(now_ps)
            else:
                self._step_count += self._stretch
            self._leave(now_ps)
        self._running, self._stretch = len(self._done_at), 0
        free = self._size - self._running
        if self._queue and free:
            self._take(free, now_ps)
        elif self._running:
            self._context = self._step_count + max(self._context_offset.values())
            self._stretch = min(self._done_at.values()) - self._step_count
        else:
            self.idle, self.due_ps = True, None

    def _end_prefill(self, now_ps: int) -> None:
        requests, count = self._stamps.requests, self._step_count
        for number in self._joining:
            self._stamps.first_token_ps[number] = now_ps
            self._done_at[number] = count + requests.output_tokens[number] - 1
            self._context_offset[number] = requests.prompt_tokens[number] + 1 - count
        self._joining = []

    def _leave(self, now_ps: int) -> None:
        """Sequences that have their last token make room."""
        done_at, count = self._done_at, self._step_count
        for number in [number for number, end in done_at.items() if end == count]:
            self._stamps.last_token_ps[number] = now_ps
            del done_at[number], self._context_offset[number]
