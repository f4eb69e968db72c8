"""Replicas that serve one queue, event by event in whole picoseconds; `podsim/engine/_core.c` implements the same.

At each instant, requests arrive first. Then every batch that is idle or has ended a step decides what to do next:
batches of the replicas with the fewest other batches first, then in order of number. Then steps begin; their times
depend on the number of batches now in flight in their replica. Steps that are in progress keep their times.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PodsimError
from podsim.extend import scheduler
from podsim.runs.serving.arrivals import MAX_SPAN_DAYS, MAX_SPAN_PS, Requests, Users
from podsim.runs.serving.outcome import ServingOutcome, Timeline, outcome_of
from podsim.scenario.wording import quoted
from podsim.units import PS_PER_S, ps_to_seconds, seconds_to_ps
from podsim.watch import PORTION, Watch, in_portions, silent

NEVER: Final = (1 << 63) - 1
"""Arrival time of a request whose arrival is not known yet. [ps]"""

_core_serve: Callable[..., None] | None = None
with suppress(ImportError):
    from podsim.engine._core import serve as _core_serve


class StepTimes(Protocol):
    """Times of the steps of one replica."""

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        """Return the time of a batch of prompts, padded to the longest, until their first output tokens. [s]"""

    def decode_s(self, batch: int, context_tokens: int) -> float:
        """Return the time of one more token per sequence of a batch; the longest has `context_tokens` so far. [s]"""

    def decode_steps_s(self, batch: int, contexts: range) -> Sequence[float] | NDArray[np.float64]:
        """Return the times of one more token at each context; classes that know many at once override this. [s]"""
        return [self.decode_s(batch, context) for context in contexts]

    @property
    def max_batch(self) -> int:
        """Number of sequences that a replica can hold."""


@dataclass(frozen=True, slots=True)
class StaticBatching:
    """Batching in which a batch stays together until the last token of its longest output.

    A batch starts when a replica is free and `size` requests wait, or the oldest has waited for `longest_wait_s`.
    Finished sequences keep their places: a step takes the time of the whole batch, at the context of the longest
    prompt. But a request leaves with its own last token.
    """

    size: int  # largest number of requests in a batch
    # time that the oldest request waits for others; 0 to start with any that are present [s]
    longest_wait_s: float = 0.0

    def __post_init__(self) -> None:
        _check_size(self.size)
        if not (math.isfinite(self.longest_wait_s) and self.longest_wait_s >= 0):
            raise PodsimError(
                f"a longest wait of {self.longest_wait_s:g} s",
                do="give a finite number of seconds, 0 or more; the last batch may never be full",
            )


@dataclass(frozen=True, slots=True)
class ContinuousBatching:
    """Batching in which sequences join between steps and leave when they are finished.

    Whenever a step has ended and places are free, waiting requests take them and are prefilled together while the
    running sequences pause; then all decode. Source: [yu2022] for scheduling between steps, [agrawal2024] for prefills
    ahead of decodes.
    """

    size: int  # largest number of sequences at a time

    def __post_init__(self) -> None:
        _check_size(self.size)


@dataclass(frozen=True, slots=True)
class RegisteredBatching:
    """Batching in which a registered function says between steps how many waiting requests join."""

    size: int  # largest number of sequences at a time
    name: str  # name of the function

    def __post_init__(self) -> None:
        _check_size(self.size)

    def admitted(self, waiting: int, running: int, waited_s: float) -> int:
        """Return the number of waiting requests that join a batch now."""
        admit = scheduler.get(self.name)
        assert admit is not None
        count = admit(waiting, running, self.size, waited_s)
        if not isinstance(count, int) or not 0 <= count <= min(waiting, self.size - running):
            what = f"scheduler `{self.name}` admits {quoted(count)} of {waiting} requests to a batch of {running}"
            raise PodsimError(what, do=f"return a whole number from 0 to {min(waiting, self.size - running)}")
        return count


Batching = StaticBatching | ContinuousBatching | RegisteredBatching


def _check_size(size: int) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise PodsimError(f"a batch of {quoted(size)} requests", do="give a whole number of 1 or more")


@dataclass(frozen=True, slots=True)
class Service:
    """Equal replicas that serve one queue, with their batching and the times of their steps."""

    steps: StepTimes  # times of steps with one batch in flight
    batching: Batching  # rule that forms batches
    replica_count: int = 1  # equal replicas that serve one queue
    # times of the same steps with 2, 3, … batches in flight; empty if a replica processes one batch at a time
    crowded: tuple[StepTimes, ...] = ()

    def __post_init__(self) -> None:
        count = self.replica_count
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise PodsimError(f"{quoted(count)} replicas cannot serve", do="give a whole number of 1 or more")
        if self.batching.size > self.steps.max_batch:
            raise PodsimError(
                f"a batch of {self.batching.size} does not fit a replica that holds {self.steps.max_batch}",
                do=f"batch at most {self.steps.max_batch} requests",
            )

    @property
    def place_count(self) -> int:
        """Number of sequences that all replicas can run together."""
        return self.batching.size * self.replica_count * self.batches_in_flight

    @property
    def batches_in_flight(self) -> int:
        """Number of batches that a replica can process at a time."""
        return 1 + len(self.crowded)


Coming = Requests | Users
"""Requests to serve: with known arrivals, or of users, who send the next request after an answer."""


def serve(service: Service, requests: Coming, watch: Watch = silent) -> ServingOutcome:
    """Serve all requests to their last tokens, and return the metrics.

    Above the saturation, the queue grows until the last arrival; `ServingOutcome.queue_grows` is then True.

    Raises:
        PodsimError: Serving takes more than a hundred days.
    """
    return outcome_of(timeline_of(service, requests, watch), closed=isinstance(requests, Users))


def timeline_of(service: Service, requests: Coming, watch: Watch = silent) -> Timeline:
    """Serve all requests to their last tokens, and return the times of all events."""
    timeline = served_compiled(service, requests, watch) or served_in_python(service, requests, watch)
    if timeline.makespan_ps > MAX_SPAN_PS:
        raise PodsimError(
            f"serving these requests takes more than {MAX_SPAN_DAYS} days",
            do="give fewer requests, or check the times of the steps",
        )
    return timeline


def served_compiled(service: Service, requests: Coming, watch: Watch = silent) -> Timeline | None:
    """Serve requests in the compiled core; return None without a core, or if times do not fit into 64 bits."""
    batching = service.batching
    if _core_serve is None or isinstance(batching, RegisteredBatching):
        return None
    count, paces = len(requests), _paces(service)
    coming = in_portions(range(count), "request", watch)
    zeros = array("q", (0,))
    try:
        prompts, outputs = array("q", requests.prompt_tokens), array("q", requests.output_tokens)
        thoughts, arrivals = array("q", _thoughts(requests)), array("q", _arrivals(requests))
        stamps = zeros * count, zeros * count, zeros * count, zeros * (service.replica_count * len(paces))
        _core_serve(
            (prompts, outputs, thoughts, arrivals, *stamps),
            (batching.size, _wait_ps(batching), _stays(batching), service.replica_count, len(paces)),
            lambda pace, *prompts: paces[pace].prefill_ps(*prompts),
            lambda pace, *steps: array("q", paces[pace].steps_ps(*steps)),
            None if watch is silent else lambda: deque(islice(coming, PORTION), 0),
            PORTION,
        )
    except OverflowError:
        return None
    return Timeline(_with_arrivals(requests, arrivals), *map(tuple, stamps))


def _thoughts(requests: Coming) -> Sequence[int]:
    """Return the think time after each request; empty for requests without users. [ps]"""
    return requests.think_ps if isinstance(requests, Users) else ()


def _arrivals(requests: Coming) -> Sequence[int]:
    """Return the arrivals of requests; requests that users send after an answer have `NEVER`. [ps]"""
    if isinstance(requests, Requests):
        return requests.arrival_ps
    return [*requests.first_ps, *[NEVER] * (len(requests) - len(requests.first_ps))]


def _with_arrivals(requests: Coming, arrival_ps: Iterable[int]) -> Requests:
    """Return requests with their arrivals, which for users are known only after serving."""
    if isinstance(requests, Requests):
        return requests
    return Requests(tuple(arrival_ps), requests.prompt_tokens, requests.output_tokens)


def served_in_python(service: Service, requests: Coming, watch: Watch = silent) -> Timeline:
    """Serve requests without the compiled core."""
    return _Run(service, requests).timeline(watch)


def _paces(service: Service) -> list[StepTable]:
    """Return new tables of the times of steps, with 1, 2, … batches in flight."""
    return [StepTable(steps) for steps in (service.steps, *service.crowded)]


def _wait_ps(batching: Batching) -> int:
    return seconds_to_ps(batching.longest_wait_s) if isinstance(batching, StaticBatching) else 0


def _stays(batching: Batching) -> bool:
    """Return True if finished sequences keep their places until their whole batch is finished."""
    return isinstance(batching, StaticBatching)


class StepTable:
    """Cached times of steps in whole picoseconds, with running sums of consecutive decode steps.

    Each step is rounded separately, so that a sum over many steps equals the sum of single steps.
    """

    def __init__(self, steps: StepTimes) -> None:
        self._steps = steps
        self._prefill: dict[tuple[int, int], int] = {}
        self._decode: dict[int, _Sums] = {}

    def prefill_ps(self, batch: int, prompt_tokens: int) -> int:
        """Return the time of the prefill of a batch of prompts. [ps]"""
        key = batch, prompt_tokens
        if key not in self._prefill:
            seconds = self._steps.prefill_s(batch, prompt_tokens)
            self._prefill[key] = _whole_ps(seconds, f"prefill of {batch} prompts of {prompt_tokens} tokens")
        return self._prefill[key]

    def steps_ps(self, batch: int, first: int, stop: int) -> list[int]:
        """Return the times of decode steps at contexts from `first` to `stop` - 1, without cache. [ps]"""
        times_s = np.asarray(self._steps.decode_steps_s(batch, range(first, stop)), np.float64)
        times_ps = np.rint(times_s * PS_PER_S)  # as seconds_to_ps rounds
        if not (np.isfinite(times_ps) & (times_ps >= 1)).all():
            for context, seconds in zip(range(first, stop), times_s.tolist(), strict=True):
                _whole_ps(seconds, f"decode step of {batch} sequences at {context} tokens")
        return list(map(int, times_ps.tolist()))

    def decode_ps(self, batch: int, context_tokens: int, count: int) -> int:
        """Return the time of `count` consecutive steps, the first at this context. [ps]"""
        if not count:
            return 0
        sums = self._covering(batch, context_tokens, count)
        first = context_tokens - sums.first
        return sums.sums[first + count] - sums.sums[first]

    def steps_until(self, batch: int, context_tokens: int, most: int, elapsed_ps: int) -> int:
        """Return the number of steps until a step ends at or after `elapsed_ps`, at most `most`."""
        sums = self._covering(batch, context_tokens, most)
        first = context_tokens - sums.first
        return bisect_left(sums.sums, sums.sums[first] + elapsed_ps, first, first + most) - first

    def _covering(self, batch: int, context_tokens: int, count: int) -> _Sums:
        """Return the running sums of a batch, extended to hold `count` steps from a context on."""
        sums = self._decode.get(batch)
        if sums is None:
            sums = self._decode[batch] = _Sums(context_tokens, [0])
        last = sums.first + len(sums.sums) - 1
        if context_tokens + count > last:
            ahead = self.steps_ps(batch, last, context_tokens + count)
            sums.sums.extend(islice(accumulate(ahead, initial=sums.sums[-1]), 1, None))
        if context_tokens < sums.first:
            *before, shift = accumulate(self.steps_ps(batch, context_tokens, sums.first), initial=0)
            sums.sums[:] = [*before, *(shift + sum_ps for sum_ps in sums.sums)]
            sums.first = context_tokens
        return sums


@dataclass(slots=True)
class _Sums:
    """Running sums of the times of consecutive decode steps of a batch."""

    first: int  # context of the first step [tokens]
    sums: list[int]  # time of the first 0, 1, 2, … steps [ps]


def _whole_ps(seconds: float, what: str) -> int:
    """Return the time of a step as a whole number; raise `PodsimError` if it is not finite or below 1 ps. [ps]"""
    time_ps = seconds_to_ps(seconds) if math.isfinite(seconds) else 0
    if time_ps < 1:
        raise PodsimError(f"a {what} takes {seconds:g} s", do="give every step a finite time of 1 ps or more")
    return time_ps


@dataclass(slots=True, eq=False)
class _Slot:
    """Place for a batch in a replica: it is idle, runs a prefill, or runs several decode steps."""

    copy: int  # number of the replica
    table: StepTable  # times of the current steps
    idle: bool = True
    due_ps: int | None = None  # time of its next decision; None if only an arrival can change anything [ps]
    since_ps: int = 0  # start of the current prefill or decode steps [ps]
    busy_ps: int = 0  # busy time so far [ps]
    joining: range = range(0)  # requests in prefill
    # by request: the step count of this slot at which it ends, and its context minus the step count
    members: dict[int, tuple[int, int]] = field(default_factory=dict)
    step_count: int = 0  # decode steps so far
    running: int = 0  # occupied places
    context: int = 0  # tokens of the longest sequence
    stretch: int = 0  # decode steps until the next decision

    def begin(self, now_ps: int, table: StepTable, prompt_tokens: tuple[int, ...]) -> None:
        """Start the prefill or the decode steps that `_decide` chose, and set when they end; nothing if idle."""
        if self.idle:
            return
        self.since_ps, self.table = now_ps, table
        if self.joining:
            longest = max(prompt_tokens[self.joining.start : self.joining.stop])
            self.due_ps = now_ps + table.prefill_ps(len(self.joining), longest)
        else:
            self.due_ps = now_ps + table.decode_ps(self.running, self.context, self.stretch)

    def cut(self, now_ps: int) -> None:
        """Let the slot decide again after the decode step in progress, instead of after several steps."""
        if self.stretch > 1:
            elapsed = now_ps - self.since_ps
            self.stretch = self.table.steps_until(self.running, self.context, self.stretch, elapsed)
            self.due_ps = self.since_ps + self.table.decode_ps(self.running, self.context, self.stretch)


class _Run:
    """State of a service while it serves; requests are numbered in the order of their arrival."""

    def __init__(self, service: Service, requests: Coming) -> None:
        self._think_ps, self._arrival_ps = _thoughts(requests), list(_arrivals(requests))
        self._requests, self._size = requests, service.batching.size
        self._registered = service.batching if isinstance(service.batching, RegisteredBatching) else None
        self._wait_ps, self._stays = _wait_ps(service.batching), _stays(service.batching)
        self._paces, self._copies = _paces(service), service.replica_count
        # The first slots of all replicas come before their second slots.
        self._slots = [_Slot(copy, pace) for pace in self._paces for copy in range(self._copies)]
        self._running = [0] * self._copies
        self._come = self._taken = 0  # numbers of requests that have arrived, and that have started
        self._start_ps, self._first_token_ps, self._last_token_ps = ([-1] * len(requests) for _ in range(3))

    def timeline(self, watch: Watch) -> Timeline:
        """Process events until all requests have arrived and no slot has work, and return the times of all events."""
        arrival_ps, coming = self._arrival_ps, in_portions(range(len(self._requests)), "request", watch)
        come = next(coming, None)  # the next request to arrive
        while True:
            instants = [slot.due_ps for slot in self._slots if slot.due_ps is not None]
            if come is not None and arrival_ps[come] < NEVER:
                instants.append(arrival_ps[come])
            if not instants:
                break
            now = min(instants)
            arrive = come is not None and arrival_ps[come] == now
            while come is not None and arrival_ps[come] == now:
                self._come, come = come + 1, next(coming, None)
            if arrive and not self._stays:
                for slot in self._slots:
                    if slot.running < self._size:
                        slot.cut(now)
            self._decide_all(now)
        if self._taken < self._come:
            assert self._registered is not None
            what = f"scheduler `{self._registered.name}` never starts {self._come - self._taken:,} requests"
            raise PodsimError(what, do="let it admit a request to an empty batch when no more arrive")
        stamps = (self._start_ps, self._first_token_ps, self._last_token_ps, (slot.busy_ps for slot in self._slots))
        return Timeline(_with_arrivals(self._requests, arrival_ps), *map(tuple, stamps))

    def _decide_all(self, now: int) -> None:
        """Let all due slots decide, and then begin, because times of steps depend on the number of running batches."""
        running, wait = self._running, self._come > self._taken
        deciding = [
            slot for slot in self._slots if (slot.due_ps is not None and slot.due_ps <= now) or (wait and slot.idle)
        ]
        before = {slot.copy: running[slot.copy] for slot in deciding}
        for slot in sorted(deciding, key=lambda slot: running[slot.copy] - (not slot.idle)):
            idle = slot.idle
            self._decide(slot, now)
            running[slot.copy] += idle - slot.idle
        for slot in deciding:
            slot.begin(now, self._paces[running[slot.copy] - 1], self._requests.prompt_tokens)
        for copy, count in before.items():
            if running[copy] != count:
                for slot in self._slots[copy :: self._copies]:
                    if slot not in deciding:
                        slot.cut(now)

    def _decide(self, slot: _Slot, now: int) -> None:
        """Record the finished work of a slot; then choose a prefill of waiting requests, decode steps, or idleness."""
        requests, members = self._requests, slot.members
        if not slot.idle:
            slot.busy_ps += now - slot.since_ps
            for number in slot.joining:
                self._first_token_ps[number] = now
                prompt, output = requests.prompt_tokens[number], requests.output_tokens[number]
                members[number] = slot.step_count + output - 1, prompt + 1 - slot.step_count
            slot.joining = range(0)
            slot.step_count += slot.stretch
        done = [number for number, (end, _) in members.items() if end <= slot.step_count]
        for number in done:
            if members[number][0] == slot.step_count:
                self._last_token_ps[number] = now
                self._schedule_next(number, now)
        if len(done) == len(members):
            members.clear()
        elif not self._stays:
            for number in done:
                del members[number]
        slot.running, slot.stretch = len(members), 0
        waiting, room = self._come - self._taken, 0 if self._stays and members else self._size - len(members)
        deadline = self._arrival_ps[self._taken] + self._wait_ps if waiting else None
        joining = min(waiting, room) if waiting >= self._size or (deadline is not None and deadline <= now) else 0
        if self._registered and waiting and room:
            waited_s = ps_to_seconds(now - self._arrival_ps[self._taken])
            joining, deadline = self._registered.admitted(waiting, len(members), waited_s), None
        if joining:
            slot.joining = range(self._taken, self._taken + joining)
            self._start_ps[slot.joining.start : slot.joining.stop] = [now] * len(slot.joining)
            self._taken, slot.idle = slot.joining.stop, False
        elif members:
            slot.context = slot.step_count + max([offset for _, offset in members.values()])
            slot.stretch = min([end for end, _ in members.values() if end > slot.step_count]) - slot.step_count
        else:
            slot.idle, slot.due_ps = True, deadline

    def _schedule_next(self, number: int, now: int) -> None:
        """Schedule the next request of the user whose request has just ended; nothing without users."""
        if self._think_ps:
            insort(self._arrival_ps, now + self._think_ps[number], self._come)
            self._arrival_ps.pop()
