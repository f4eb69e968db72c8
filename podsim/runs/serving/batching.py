"""How waiting requests become batches, and what a step of a batch takes."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from podsim.errors import PodsimError
from podsim.scenario.wording import shown
from podsim.units import seconds_to_ps


class StepTimes(Protocol):
    """Time of the steps of one replica."""

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        """A batch of prompts, padded to the longest, until their first output tokens. [s]"""

    def decode_s(self, batch: int, context_tokens: int) -> float:
        """One more token for every sequence of a batch. [s]

        Args:
            batch: Sequences.
            context_tokens: Tokens that the longest of them has already: its prompt and output so far.
        """

    @property
    def max_batch(self) -> int:
        """Sequences that a replica can hold."""


@dataclass(frozen=True, slots=True)
class StaticBatching:
    """A batch stays together until the last token of its longest output.

    It starts when a replica is free and `size` requests wait, or the oldest has waited long enough.
    Sequences that are done keep their place: a step takes the time of the whole batch, at the context of
    the longest prompt. A request nevertheless leaves with its own last token.

    Attributes:
        size: Most requests of a batch.
        longest_wait_s: How long the oldest request waits for others; 0 starts with whatever is there. [s]
    """

    size: int
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
    """Sequences join between steps and leave when they are done.

    Whenever a step has ended and places are free, waiting requests take them and are prefilled together
    while the running sequences pause; then all decode. Source: [yu2022] for scheduling between steps,
    [agrawal2024] for prefills ahead of decodes.

    Attributes:
        size: Most sequences at a time.
    """

    size: int

    def __post_init__(self) -> None:
        _check_size(self.size)


Batching = StaticBatching | ContinuousBatching


def _check_size(size: int) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise PodsimError(f"a batch of {shown(size)} requests", do="give a whole number of 1 or more")


class StepTable:
    """Times of steps in whole picoseconds, with running sums over contexts that grow token by token.

    Each step is rounded by itself, so that a sum over many equals what stepping through them gives.
    """

    def __init__(self, steps: StepTimes) -> None:
        """Keep the steps, whose times are asked for when they are first needed."""
        self._steps = steps
        self._prefill: dict[tuple[int, int], int] = {}
        self._decode: dict[int, _Sums] = {}

    def prefill_ps(self, batch: int, prompt_tokens: int) -> int:
        """A batch of prompts. [ps]"""
        key = batch, prompt_tokens
        if key not in self._prefill:
            seconds = self._steps.prefill_s(batch, prompt_tokens)
            self._prefill[key] = _whole(seconds, f"prefill of {batch} prompts of {prompt_tokens} tokens")
        return self._prefill[key]

    def decode_ps(self, batch: int, context_tokens: int, count: int) -> int:
        """Time of a number of steps in a row, the first at this context. [ps]"""
        if not count:
            return 0
        sums = self._covering(batch, context_tokens, count)
        first = context_tokens - sums.first
        return sums.sums[first + count] - sums.sums[first]

    def steps_until(self, batch: int, context_tokens: int, most: int, elapsed_ps: int) -> int:
        """Steps until the first end of a step that is not before `elapsed_ps`; at most `most`."""
        sums = self._covering(batch, context_tokens, most)
        first = context_tokens - sums.first
        return bisect_left(sums.sums, sums.sums[first] + elapsed_ps, first, first + most) - first

    def _covering(self, batch: int, context_tokens: int, count: int) -> _Sums:
        sums = self._decode.get(batch)
        if sums is None:
            sums = self._decode[batch] = _Sums(context_tokens, [0])
        last = sums.first + len(sums.sums) - 1
        if context_tokens + count > last:
            ahead = [self._step_ps(batch, context) for context in range(last, context_tokens + count)]
            sums.sums.extend(list(accumulate(ahead, initial=sums.sums[-1]))[1:])
        if context_tokens < sums.first:
            ahead = [self._step_ps(batch, context) for context in range(context_tokens, sums.first)]
            *before, shift = accumulate(ahead, initial=0)
            sums.sums[:] = [*before, *(shift + each for each in sums.sums)]
            sums.first = context_tokens
        return sums

    def _step_ps(self, batch: int, context_tokens: int) -> int:
        seconds = self._steps.decode_s(batch, context_tokens)
        return _whole(seconds, f"decode step of {batch} sequences at {context_tokens} tokens")


@dataclass(slots=True)
class _Sums:
    """Time of all steps from the first context on: none, one, two, … of them. [ps]"""

    first: int
    sums: list[int]


def _whole(seconds: float, what: str) -> int:
    time_ps = seconds_to_ps(seconds) if math.isfinite(seconds) else 0
    if time_ps < 1:
        raise PodsimError(f"a {what} takes {seconds:g} s", do="give every step a finite time of 1 ps or more")
    return time_ps
