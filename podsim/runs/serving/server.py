"""Replicas behind one queue, from instant to instant in whole picoseconds.

At one instant requests arrive first; then every batch that is idle or has ended a step decides: those of the
replicas with the fewest other batches first, then in order of number. The steps that begin there take the time
of as many batches as are then in flight in their replica; other batches of it take on that pace with their next
step. So the order of events at one instant is part of the model and not of the machinery.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from podsim.errors import PodsimError
from podsim.runs.serving.arrivals import MAX_SPAN_DAYS, MAX_SPAN_PS, Requests
from podsim.runs.serving.batching import Batching, StepTable, StepTimes
from podsim.runs.serving.outcome import ServingOutcome, Timeline, outcome_of
from podsim.runs.serving.replica import Queue, Stamps, make_slot
from podsim.scenario.wording import shown
from podsim.watch import Watch, in_portions, silent


@dataclass(frozen=True, slots=True)
class Service:
    """Replicas with their batching and times of steps.

    Attributes:
        steps: Time of the steps of a batch that a replica works on alone.
        batching: How requests become batches.
        replica_count: Equal replicas that take from one queue.
        crowded: Times of the same steps while 2, 3, … batches are in flight in a replica; without any, a replica
            works on one batch at a time.
    """

    steps: StepTimes
    batching: Batching
    replica_count: int = 1
    crowded: tuple[StepTimes, ...] = ()

    def __post_init__(self) -> None:
        count = self.replica_count
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise PodsimError(f"{shown(count)} replicas cannot serve", do="give a whole number of 1 or more")
        if self.batching.size > self.steps.max_batch:
            raise PodsimError(
                f"a batch of {self.batching.size} does not fit a replica that holds {self.steps.max_batch}",
                do=f"batch at most {self.steps.max_batch} requests",
            )

    @property
    def place_count(self) -> int:
        """Sequences that all replicas can run together."""
        return self.batching.size * self.replica_count * self.batches_in_flight

    @property
    def batches_in_flight(self) -> int:
        """Batches that a replica can work on at a time."""
        return 1 + len(self.crowded)


def serve(service: Service, requests: Requests, watch: Watch = silent) -> ServingOutcome:
    """Serve all requests to the last token of the last one.

    More than can be served is no reason to run for ever: the queue grows until the last arrival and is then
    worked off; `ServingOutcome.queue_grows` tells.

    Args:
        service: What serves.
        requests: What comes.
        watch: Passes on the names of portions of the requests.

    Raises:
        PodsimError: A step has no finite time above zero, or the run lasts too long to be counted.
    """
    return outcome_of(timeline_of(service, requests, watch))


def timeline_of(service: Service, requests: Requests, watch: Watch = silent) -> Timeline:
    """Serve all requests, and return when everything happened, without figures."""
    return _Run(service, requests).timeline(watch)


class _Run:
    """One run of a service."""

    def __init__(self, service: Service, requests: Requests) -> None:
        self._copies = service.replica_count
        self._queue: Queue = deque()
        self._stamps = Stamps(requests)
        # Whatever the steps remember between runs, each run asks anew: it depends on its own arguments only.
        self._paces = [StepTable(steps) for steps in (service.steps, *service.crowded)]
        count = self._copies * len(self._paces)
        # The first slots of all replicas come before the second ones.
        self._slots = [make_slot(service.batching, self._queue, self._stamps) for _ in range(count)]
        self._idle, self._open = set(range(count)), set[int]()
        self._running = [0] * self._copies
        # When slots have to decide again; times that have changed since stay in, and are passed over.
        self._due: list[tuple[int, int]] = []

    def timeline(self, watch: Watch) -> Timeline:
        self._serve(iter(in_portions(range(len(self._stamps.requests)), "request", watch)))
        stamps = self._stamps
        if max(stamps.last_token_ps) - stamps.requests.arrival_ps[0] > MAX_SPAN_PS:
            raise PodsimError(
                f"serving these requests takes more than {MAX_SPAN_DAYS} days",
                do="give fewer requests, or check the times of the steps",
            )
        return Timeline(
            stamps.requests,
            tuple(stamps.start_ps),
            tuple(stamps.first_token_ps),
            tuple(stamps.last_token_ps),
            tuple(slot.busy_ps for slot in self._slots),
        )

    def _serve(self, coming: Iterator[int]) -> None:
        """From instant to instant, until all have come and nothing is due."""
        arrival_ps, due, come = self._stamps.requests.arrival_ps, self._due, next(coming, None)
        while come is not None or due:
            now = due[0][0] if due else -1
            if come is not None and (not due or arrival_ps[come] <= now):
                now = arrival_ps[come]
                while come is not None and arrival_ps[come] == now:
                    self._queue.append(come)
                    come = next(coming, None)
                shortened, self._open = self._open, set()
                self._cut(shortened, now)
            numbers = self._deciding(now)
            if numbers:
                self._decide(numbers, now)

    def _deciding(self, now: int) -> list[int]:
        """Slots that have come to a decision, and idle ones if there is anything to take.

        Those of the replicas with the fewest other batches come first, then those with the lowest numbers.
        """
        due, slots, numbers = self._due, self._slots, set(self._idle) if self._queue else set()
        while due and due[0][0] <= now:
            time_ps, number = heappop(due)
            if slots[number].due_ps == time_ps:
                numbers.add(number)
        return sorted(numbers, key=self._others) if len(numbers) > 1 else list(numbers)

    def _others(self, number: int) -> tuple[int, int]:
        return self._running[number % self._copies] - (not self._slots[number].idle), number

    def _decide(self, numbers: Sequence[int], now: int) -> None:
        """First all say what they do, since their pace depends on how many batches of a replica run."""
        slots, running, copies = self._slots, self._running, self._copies
        changed: dict[int, int] = {}
        for number in numbers:
            slot = slots[number]
            was_idle = slot.idle
            slot.decide(now)
            if slot.idle is not was_idle:
                copy = number % copies
                changed.setdefault(copy, running[copy])
                running[copy] += 1 if was_idle else -1
                (self._idle.discard if was_idle else self._idle.add)(number)
        for number in numbers:
            slots[number].begin(now, self._paces[running[number % copies] - 1])
            self._note(number)
        if len(self._paces) > 1:
            crowded = {copy for copy, before in changed.items() if running[copy] != before}
            neighbours = (number for copy in crowded for number in range(copy, len(slots), copies))
            self._cut(sorted(set(neighbours).difference(numbers)), now)

    def _cut(self, numbers: Iterable[int], now: int) -> None:
        """End stretches with the step under way."""
        for number in numbers:
            slot = self._slots[number]
            before = slot.due_ps
            slot.cut(now)
            if slot.due_ps != before:
                self._note(number)

    def _note(self, number: int) -> None:
        """When a slot has to decide again, and whether an arrival would bring that forward."""
        slot = self._slots[number]
        if slot.due_ps is not None:
            heappush(self._due, (slot.due_ps, number))
        (self._open.add if slot.takes_in else self._open.discard)(number)
