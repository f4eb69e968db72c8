"""Step times by simple formulas, and serving once more, token by token, to compare with."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from podsim.runs.serving import Batching, Requests, StaticBatching, StepTimes
from podsim.units import PS_PER_S, ps_to_seconds

SHORTEST_S = 1e-12


@dataclass(frozen=True)
class LinearSteps(StepTimes):
    """Steps that take so long per prompt token, per step, per sequence and per token of context. [s]"""

    prompt_token_s: float = 0.0
    step_s: float = 0.0
    sequence_s: float = 0.0
    context_s: float = 0.0
    max_batch: int = 1_000

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        return max(batch * prompt_tokens * self.prompt_token_s, SHORTEST_S)

    def decode_s(self, batch: int, context_tokens: int) -> float:
        return self.step_s + batch * self.sequence_s + context_tokens * self.context_s


@dataclass(frozen=True)
class OddSteps(StepTimes):
    """Steps of a few picoseconds in no order, so that many things happen at one instant."""

    spread: int
    max_batch: int = 1_000
    asked: list[tuple[int, int]] = field(default_factory=list)

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        return ps_to_seconds(1 + (batch * 31 + prompt_tokens * 17) % self.spread)

    def decode_s(self, batch: int, context_tokens: int) -> float:
        self.asked.append((batch, context_tokens))
        return ps_to_seconds(1 + (batch * 13 + context_tokens * 7) % self.spread)


def at_rate(rate_per_s: float, prompts: list[int], seed: int) -> Requests:
    """Poisson arrivals of prompts that want one token, independently of the package's own generator."""
    generator, time_s, arrivals = random.Random(seed), 0.0, []
    for _ in prompts:
        arrivals.append(round(time_s * PS_PER_S))
        time_s += generator.expovariate(rate_per_s)
    return Requests(tuple(arrivals), tuple(prompts), (1,) * len(prompts))


Times = tuple[list[int], list[int], list[int]]


class _Replica:
    """One replica that makes one token at a time."""

    def __init__(self) -> None:
        self.end: int | None = None
        self.members: list[int] = []
        self.joining: list[int] = []


class TokenByToken:
    """The same rules, stepped through without sums or blocks."""

    def __init__(self, requests: Requests, paces: Sequence[OddSteps], batching: Batching, replica_count: int) -> None:
        self.requests, self.paces, self.batching, self.copies = requests, paces, batching, replica_count
        self.queue: list[int] = []
        self.made = [0] * len(requests)
        self.start, self.first, self.last = ([-1] * len(requests) for _ in range(3))
        self.replicas = [_Replica() for _ in range(replica_count * len(paces))]
        self.present_area = self.now = self.next = 0

    def run(self) -> Times:
        while min(self.last) < 0:
            times = [replica.end for replica in self.replicas if replica.end is not None]
            if self.next < len(self.requests):
                times.append(self.requests.arrival_ps[self.next])
            if self.queue and isinstance(self.batching, StaticBatching) and self._deadline() > self.now:
                times.append(self._deadline())
            self._go_on(min(times))
        return self.start, self.first, self.last

    def _go_on(self, now: int) -> None:
        present = self.next - sum(each >= 0 for each in self.last)
        self.present_area += present * (now - self.now)
        self.now = now
        while self.next < len(self.requests) and self.requests.arrival_ps[self.next] == now:
            self.queue.append(self.next)
            self.next += 1
        begin: list[tuple[int, bool, int, int]] = []
        for number in sorted(range(len(self.replicas)), key=lambda each: (self._in_flight(each, but=each), each)):
            replica = self.replicas[number]
            if replica.end == now:
                self._finish(replica)
            if replica.end is None:
                begin += [(number, *step) for step in self._begin(replica)]
        for number, prefills, batch, tokens in begin:
            steps = self.paces[self._in_flight(number) - 1]
            seconds = (steps.prefill_s if prefills else steps.decode_s)(batch, tokens)
            self.replicas[number].end = now + round(seconds * PS_PER_S)

    def _in_flight(self, number: int, but: int = -1) -> int:
        """Batches in the same copy."""
        alike = range(number % self.copies, len(self.replicas), self.copies)
        return sum(bool(self.replicas[each].members or self.replicas[each].joining) for each in alike if each != but)

    def _deadline(self) -> int:
        assert isinstance(self.batching, StaticBatching)
        return self.requests.arrival_ps[self.queue[0]] + round(self.batching.longest_wait_s * PS_PER_S)

    def _finish(self, replica: _Replica) -> None:
        """One more token for those of the step that has ended."""
        replica.end = None
        static = isinstance(self.batching, StaticBatching)
        for number in replica.joining or replica.members:
            self.made[number] += 1
            if self.made[number] == 1:
                self.first[number] = self.now
            if self.made[number] == self.requests.output_tokens[number]:
                self.last[number] = self.now
        replica.members += replica.joining
        replica.joining = []
        running = [number for number in replica.members if self.last[number] < 0]
        replica.members = replica.members if static and running else running

    def _begin(self, replica: _Replica) -> Iterator[tuple[bool, int, int]]:
        """What comes next: prefill or decode, of how many, at how many tokens."""
        prompts = self.requests.prompt_tokens
        joining = self._joining(replica)
        del self.queue[: len(joining)]
        if joining:
            for number in joining:
                self.start[number] = self.now
            replica.joining = joining
            yield True, len(joining), max(prompts[number] for number in joining)
        elif replica.members:
            if isinstance(self.batching, StaticBatching):
                context = max(prompts[number] for number in replica.members) + self.made[replica.members[0]]
            else:
                context = max(prompts[number] + self.made[number] for number in replica.members)
            yield False, len(replica.members), context

    def _joining(self, replica: _Replica) -> list[int]:
        size = self.batching.size
        if not isinstance(self.batching, StaticBatching):
            return self.queue[: size - len(replica.members)]
        ready = self.queue and (len(self.queue) >= size or self._deadline() <= self.now)
        return self.queue[:size] if ready and not replica.members else []
