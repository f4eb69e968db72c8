"""Replicas behind one queue, on SimPy with whole picoseconds.

At one instant requests arrive first; then every replica that is idle or has ended a step decides, in order
of its number. So the order of events at one instant is part of the model and not of the machinery.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import groupby

from simpy import Environment, Event

from podsim.errors import PodsimError
from podsim.serving.arrivals import MAX_SPAN_DAYS, MAX_SPAN_PS, Requests
from podsim.serving.batching import Batching, StepTable, StepTimes
from podsim.serving.outcome import ServingOutcome, Timeline, outcome_of
from podsim.serving.replica import Queue, Stamps, make_replica
from podsim.specs.wording import shown

# Behind everything else that happens at the same instant: SimPy uses 0 (urgent) and 1 (normal).
_LAST = 2


@dataclass(frozen=True, slots=True)
class Service:
    """What serves.

    Attributes:
        steps: Time of the steps of one replica.
        batching: How requests become batches.
        replica_count: Equal replicas that take from one queue.
    """

    steps: StepTimes
    batching: Batching
    replica_count: int = 1

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
        return self.batching.size * self.replica_count


def serve(service: Service, requests: Requests) -> ServingOutcome:
    """Serve all requests to the last token of the last one.

    More than can be served is no reason to run for ever: the queue grows until the last arrival and is then
    worked off; `ServingOutcome.queue_grows` tells.

    Raises:
        PodsimError: A step has no finite time above zero, or the run lasts too long to be counted.
    """
    return outcome_of(_Run(service, requests).timeline())


class _Run:
    """One run of a service."""

    def __init__(self, service: Service, requests: Requests) -> None:
        self._env = Environment(initial_time=0)
        self._queue: Queue = deque()
        self._stamps = Stamps(requests)
        # Whatever the steps remember between runs, each run asks anew: it depends on its own arguments only.
        table = StepTable(service.steps)
        self._replicas = [
            make_replica(service.batching, table, self._queue, self._stamps) for _ in range(service.replica_count)
        ]
        self._idle = set(range(service.replica_count))
        # When replicas have to decide again; times that have changed since stay in, and are passed over.
        self._due: list[tuple[int, int]] = []
        self._wake_ps: int | None = None

    def timeline(self) -> Timeline:
        self._env.process(self._arrivals())
        self._env.run()
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
            tuple(replica.busy_ps for replica in self._replicas),
        )

    def _arrivals(self) -> Generator[Event, None, None]:
        """Requests join the queue, those of one instant together."""
        env, arrival_ps = self._env, self._stamps.requests.arrival_ps
        for time_ps, numbers in groupby(range(len(arrival_ps)), key=arrival_ps.__getitem__):
            yield env.timeout(time_ps - env.now)
            self._queue.extend(numbers)
            for number, replica in enumerate(self._replicas):
                before = replica.due_ps
                replica.arrived(time_ps)
                if replica.due_ps != before:
                    self._note(number)
            self._wake(time_ps)

    def _wake(self, at_ps: int) -> None:
        """Have the replicas decide at this instant, unless they will at an earlier one."""
        if self._wake_ps is not None and self._wake_ps <= at_ps:
            return
        self._wake_ps = at_ps
        event = Event(self._env)
        event._ok, event._value = True, None
        event.callbacks = [self._decide]
        self._env.schedule(event, _LAST, at_ps - self._env.now)  # type: ignore[arg-type]

    def _decide(self, _: Event) -> None:
        now = int(self._env.now)
        if self._wake_ps != now:
            return
        self._wake_ps = None
        for number in self._deciding(now):
            replica = self._replicas[number]
            replica.decide(now)
            (self._idle.add if replica.idle else self._idle.discard)(number)
            self._note(number)
        if self._due:
            self._wake(self._due[0][0])

    def _deciding(self, now: int) -> list[int]:
        """Replicas that have come to a decision, and idle ones if there is anything to take, in order."""
        due, numbers = self._due, set(self._idle) if self._queue else set()
        while due and due[0][0] <= now:
            time_ps, number = heappop(due)
            if self._replicas[number].due_ps == time_ps:
                numbers.add(number)
        return sorted(numbers)

    def _note(self, number: int) -> None:
        due_ps = self._replicas[number].due_ps
        if due_ps is not None:
            heappush(self._due, (due_ps, number))
