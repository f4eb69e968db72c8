"""Requests and when they come: a given rate, at random or evenly, with lengths that are fixed or drawn."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from podsim.errors import PodsimError
from podsim.scenario.wording import shown
from podsim.units import PS_PER_S, seconds_to_ps

MAX_REQUESTS: Final = 1_000_000
MAX_TOKENS: Final = 1 << 20
_SECONDS_PER_DAY: Final = 86_400
MAX_SPAN_DAYS: Final = 100
MAX_SPAN_PS: Final = MAX_SPAN_DAYS * _SECONDS_PER_DAY * PS_PER_S
"""Picoseconds of this many days still fit into 64 bits."""

PATTERNS: Final = ("poisson", "fixed")


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in the order of their arrival.

    Attributes:
        arrival_ps: When each request arrives, never before the one ahead of it. [ps]
        prompt_tokens: Tokens of its prompt, 1 or more.
        output_tokens: Tokens to generate for it, 1 or more; the first of them comes with the prefill.
    """

    arrival_ps: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]

    def __post_init__(self) -> None:
        counts = {len(self.arrival_ps), len(self.prompt_tokens), len(self.output_tokens)}
        if len(counts) > 1:
            raise PodsimError(
                "requests have unequal numbers of arrivals, prompts and outputs", do="give each request all three"
            )
        check_request_count(len(self.arrival_ps))
        for name, lengths in (("prompt", self.prompt_tokens), ("output", self.output_tokens)):
            _check_lengths(name, lengths)
        _check_arrivals(self.arrival_ps)

    def __len__(self) -> int:
        return len(self.arrival_ps)

    @property
    def span_ps(self) -> int:
        """From the first arrival to the last. [ps]"""
        return self.arrival_ps[-1] - self.arrival_ps[0]


@dataclass(frozen=True, slots=True)
class Load:
    """Requests that can come at any rate.

    The seed fixes lengths and gaps apart from each other: at another rate the same requests come in the
    same rhythm, only faster, so that points of a load curve differ by nothing but their rate.

    Attributes:
        lengths: (prompt, output) tokens; each request draws one of these pairs, all equally likely.
        request_count: Requests.
        seed: Seed of gaps and lengths.
        pattern: `poisson` for exponential gaps, `fixed` for equal ones.
    """

    lengths: tuple[tuple[int, int], ...]
    request_count: int
    seed: int = 0
    pattern: Literal["poisson", "fixed"] = "poisson"

    def __post_init__(self) -> None:
        check_request_count(self.request_count)
        if not self.lengths:
            raise PodsimError("there are no lengths to draw from", do="give at least one pair of prompt and output")
        for place, name in enumerate(("prompt", "output")):
            _check_lengths(name, [pair[place] for pair in self.lengths])
        if self.pattern not in PATTERNS:
            raise PodsimError(f"{shown(self.pattern)} is not a pattern of arrivals", do="use `poisson` or `fixed`")

    def at(self, rate_per_s: float) -> Requests:
        """The requests at a rate; the first comes at 0.

        Args:
            rate_per_s: Mean rate of arrivals. [1/s]

        >>> Load(((128, 16),), 3, pattern="fixed").at(2.0).arrival_ps
        (0, 500000000000, 1000000000000)
        """
        check_rate(rate_per_s)
        times = [unit / rate_per_s for unit in self._unit_times()]
        if not times[-1] * PS_PER_S <= MAX_SPAN_PS:
            raise _too_long(f"{self.request_count} requests at {rate_per_s:g}/s come")
        return self._with_lengths(tuple(map(seconds_to_ps, times)))

    def at_once(self) -> Requests:
        """The same requests, all of which arrive at the start."""
        return self._with_lengths((0,) * self.request_count)

    def _unit_times(self) -> Iterator[float]:
        """Arrivals at one per second."""
        if self.pattern == "fixed":
            yield from map(float, range(self.request_count))
            return
        generator, time = random.Random(f"gaps {self.seed}"), 0.0
        for _ in range(self.request_count):
            yield time
            time -= math.log1p(-generator.random())

    def _with_lengths(self, arrival_ps: tuple[int, ...]) -> Requests:
        generator, count = random.Random(f"lengths {self.seed}"), len(self.lengths)
        drawn = [self.lengths[int(generator.random() * count)] for _ in arrival_ps]
        return Requests(arrival_ps, tuple(prompt for prompt, _ in drawn), tuple(output for _, output in drawn))


def check_rate(rate_per_s: float) -> None:
    """Refuse a rate at which nothing would ever arrive.

    Raises:
        PodsimError: It is not a finite number above 0.
    """
    if not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise PodsimError(
            f"a rate of {rate_per_s:g} requests/s cannot be served", do="give a finite rate above 0, for example 2.5"
        )


def check_request_count(count: int) -> None:
    """Refuse zero requests, and more than a run can handle.

    Raises:
        PodsimError: The count is not within 1 to `MAX_REQUESTS`.
    """
    if not _is_whole(count) or not 1 <= count <= MAX_REQUESTS:
        raise PodsimError(f"{shown(count)} requests cannot be served", do=f"give 1 to {MAX_REQUESTS:,} requests")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_lengths(name: str, lengths: Sequence[int]) -> None:
    for each in lengths:
        if not _is_whole(each) or not 1 <= each <= MAX_TOKENS:
            raise PodsimError(f"{name} of {shown(each)} tokens", do=f"give 1 to {MAX_TOKENS:,} tokens")


def _check_arrivals(arrival_ps: Sequence[int]) -> None:
    if not all(map(_is_whole, arrival_ps)) or arrival_ps[0] < 0:
        raise PodsimError("arrivals are not whole picoseconds from 0 on", do="convert them with units.seconds_to_ps")
    for number, (earlier, later) in enumerate(pairwise(arrival_ps), start=1):
        if later < earlier:
            raise PodsimError(f"request {number} arrives before request {number - 1}", do="sort requests by arrival")
    if arrival_ps[-1] - arrival_ps[0] > MAX_SPAN_PS:
        raise _too_long("requests come")


def _too_long(what: str) -> PodsimError:
    return PodsimError(f"{what} over more than {MAX_SPAN_DAYS} days", do="give fewer requests, or a higher rate")
