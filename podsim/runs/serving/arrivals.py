"""Requests with their lengths and arrivals: at a rate, of users, or from a file."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice, pairwise
from operator import gt
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from podsim.errors import PodsimError
from podsim.scenario.csv_file import Row, rows_of, text_of
from podsim.scenario.wording import quoted
from podsim.units import PS_PER_S, seconds_to_ps

MAX_REQUESTS: Final = 1_000_000
MAX_TOKENS: Final = 1 << 20
_SECONDS_PER_DAY: Final = 86_400
MAX_SPAN_DAYS: Final = 100
MAX_SPAN_PS: Final = MAX_SPAN_DAYS * _SECONDS_PER_DAY * PS_PER_S
"""Longest time between arrivals; as picoseconds it fits into 64 bits. [ps]"""

PATTERNS: Final = ("poisson", "fixed")


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in the order of their arrival."""

    arrival_ps: tuple[int, ...]  # arrival of each request, in order [ps]
    prompt_tokens: tuple[int, ...]  # tokens of its prompt, 1 or more
    output_tokens: tuple[int, ...]  # tokens to generate for it, 1 or more; the prefill generates the first

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

    def head(self, count: int) -> Requests:
        """Return the first `count` requests."""
        return Requests(self.arrival_ps[:count], self.prompt_tokens[:count], self.output_tokens[:count])

    @property
    def span_ps(self) -> int:
        """Time from the first arrival to the last. [ps]"""
        return self.arrival_ps[-1] - self.arrival_ps[0]


@dataclass(frozen=True, slots=True)
class Users:
    """Users who send a request, wait for its last token, think, and send the next: a closed loop.

    For any service, N users = X·(R + Z), with the rate X, the latency R and the think time Z [denning1978].
    """

    first_ps: tuple[int, ...]  # first request of each user, in order [ps]
    # think time after each request, in the order in which requests arrive, at least 1 [ps]
    think_ps: tuple[int, ...]
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.think_ps)

    def head(self, count: int) -> Users:
        """Return the first `count` requests of the same users."""
        return Users(
            self.first_ps[:count], self.think_ps[:count], self.prompt_tokens[:count], self.output_tokens[:count]
        )


@dataclass(frozen=True)
class Load:
    """Random requests, without a rate: `at_rate` sets their arrivals.

    The seed determines lengths and gaps independently of each other. At another rate, the same requests arrive with all
    gaps longer or shorter by the same factor, so that points of a load curve differ only in their rate.
    """

    # (prompt, output) tokens; each request samples one of these pairs, all equally likely
    lengths: tuple[tuple[int, int], ...]
    request_count: int
    seed: int = 0  # seed of gaps and lengths
    pattern: Literal["poisson", "fixed"] = "poisson"  # `poisson` for exponential gaps, `fixed` for equal ones

    def __post_init__(self) -> None:
        check_request_count(self.request_count)
        if not self.lengths:
            raise PodsimError("there are no lengths to draw from", do="give at least one pair of prompt and output")
        for place, name in enumerate(("prompt", "output")):
            _check_lengths(name, [pair[place] for pair in self.lengths])
        if self.pattern not in PATTERNS:
            raise PodsimError(f"{quoted(self.pattern)} is not a pattern of arrivals", do="use `poisson` or `fixed`")

    def at_rate(self, rate_per_s: float) -> Requests:
        """Return the requests with a mean rate of arrivals; the first arrives at 0. [1/s]

        >>> Load(((128, 16),), 3, pattern="fixed").at_rate(2.0).arrival_ps
        (0, 500000000000, 1000000000000)
        """
        check_rate(rate_per_s)
        last_s = float(self._unit_times[-1]) / rate_per_s
        if not last_s * PS_PER_S <= MAX_SPAN_PS:
            raise _too_long(f"{self.request_count} requests at {rate_per_s:g}/s come")
        arrival_ps = np.rint(self._unit_times / rate_per_s * PS_PER_S).astype(np.int64)  # as seconds_to_ps rounds
        return Requests(tuple(arrival_ps.tolist()), *self._drawn)

    def at_once(self) -> Requests:
        """Return the requests with all arrivals at 0."""
        return Requests((0,) * self.request_count, *self._drawn)

    def of_users(self, count: int, think_s: float) -> Users:
        """Return the requests as sent by users, who wait for an answer and then think for a mean time of `think_s`.

        Every user thinks before the first request: for a random time, or so that the first requests have equal gaps.

        >>> Load(((128, 16),), 4, pattern="fixed").of_users(2, 3.0).first_ps
        (0, 1500000000000)
        """
        if not 1 <= count <= self.request_count:
            what = f"{count} users send {self.request_count} requests"
            raise PodsimError(what, do="give as many requests as users at least, and many times more for percentiles")
        if not 0 <= think_s * PS_PER_S <= MAX_SPAN_PS:
            raise PodsimError(f"a user thinks {think_s:g} s", do=f"give a time of 0 s to {MAX_SPAN_DAYS} days")
        random_ = random.Random(f"thoughts {self.seed}").random
        if self.pattern == "fixed":
            firsts = [seconds_to_ps(think_s * user / count) for user in range(count)]
            thoughts = [max(1, seconds_to_ps(think_s))] * self.request_count
        else:
            times_s = (-math.log1p(-random_()) * think_s for _ in range(count + self.request_count))
            times_ps = [max(1, seconds_to_ps(time_s)) for time_s in times_s]
            firsts, thoughts = sorted(times_ps[:count]), times_ps[count:]
        return Users(tuple(firsts), tuple(thoughts), *self._drawn)

    @cached_property
    def _unit_times(self) -> NDArray[np.float64]:
        """Arrivals at a mean rate of one per second. [s]"""
        if self.pattern == "fixed":
            return np.arange(float(self.request_count))
        random_ = random.Random(f"gaps {self.seed}").random
        log1p = math.log1p  # NumPy's may differ in the last bit
        gaps = (-log1p(-random_()) for _ in range(self.request_count - 1))
        return np.fromiter(accumulate(gaps, initial=0.0), np.float64, self.request_count)

    @cached_property
    def _drawn(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Prompt and output tokens of all requests."""
        random_, lengths, count = random.Random(f"lengths {self.seed}").random, self.lengths, len(self.lengths)
        prompts, outputs = zip(*[lengths[int(random_() * count)] for _ in range(self.request_count)], strict=True)
        return prompts, outputs


def check_rate(rate_per_s: float) -> None:
    """Raise `PodsimError` for a rate of requests that is not finite and above 0."""
    if not (math.isfinite(rate_per_s) and rate_per_s > 0):
        raise PodsimError(
            f"a rate of {rate_per_s:g} requests/s cannot be served", do="give a finite rate above 0, for example 2.5"
        )


def check_request_count(count: int) -> None:
    """Raise `PodsimError` for a number of requests below 1 or above a million."""
    if not _is_whole(count) or not 1 <= count <= MAX_REQUESTS:
        raise PodsimError(f"{quoted(count)} requests cannot be served", do=f"give 1 to {MAX_REQUESTS:,} requests")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _check_lengths(name: str, lengths: Sequence[int]) -> None:
    if set(map(type, lengths)) <= {int} and min(lengths) >= 1 and max(lengths) <= MAX_TOKENS:
        return  # fast check of a million lengths
    for length in lengths:
        if not _is_whole(length) or not 1 <= length <= MAX_TOKENS:
            raise PodsimError(f"{name} of {quoted(length)} tokens", do=f"give 1 to {MAX_TOKENS:,} tokens")


def _check_arrivals(arrival_ps: Sequence[int]) -> None:
    if not (set(map(type, arrival_ps)) <= {int} or all(map(_is_whole, arrival_ps))) or arrival_ps[0] < 0:
        raise PodsimError("arrivals are not whole picoseconds from 0 on", do="convert them with units.seconds_to_ps")
    if any(map(gt, arrival_ps, islice(arrival_ps, 1, None))):
        number = next(number for number, (earlier, later) in enumerate(pairwise(arrival_ps), 1) if later < earlier)
        raise PodsimError(f"request {number} arrives before request {number - 1}", do="sort requests by arrival")
    if arrival_ps[-1] - arrival_ps[0] > MAX_SPAN_PS:
        raise _too_long("requests come")


def _too_long(what: str) -> PodsimError:
    return PodsimError(f"{what} over more than {MAX_SPAN_DAYS} days", do="give fewer requests, or a higher rate")


COLUMNS: Final = ("arrival_s", "prompt_tokens", "output_tokens")
_LATEST_S: Final = 1e10


def read_arrivals(path: Path, most_tokens: int = 2 * MAX_TOKENS) -> Requests:
    """Read the requests of a CSV file; their arrivals count from the first one.

    The first line names the columns, in any order: `arrival_s` in seconds from any origin, `prompt_tokens` and
    `output_tokens`. Other columns and blank lines are ignored.

    Raises:
        PodsimError: A row is wrong, or its prompt and output together have more than `most_tokens`.
    """
    return parse_arrivals(text_of(path), str(path), most_tokens)


def parse_arrivals(text: str, name: str, most_tokens: int = 2 * MAX_TOKENS) -> Requests:
    r"""Read the requests of a CSV text, as in `read_arrivals`; `name` is the file in error messages.

    >>> parse_arrivals("arrival_s,prompt_tokens,output_tokens\n5,128,16\n5.5,64,8\n", "trace.csv").arrival_ps
    (0, 500000000000)
    """
    times_s = list[float]()

    def request(row: Row) -> tuple[int, int]:
        time, prompt, output = COLUMNS
        lengths = _tokens(row, prompt), _tokens(row, output)
        if sum(lengths) > most_tokens:
            what = f"{lengths[0]} + {lengths[1]} tokens of prompt and output; a sequence has room for {most_tokens}"
            raise row.wrong(prompt, what, "shorten the request, or make room for longer sequences")
        time_s = row.number(
            time, f"a time of 0 to {_LATEST_S:g} seconds", lambda number: 0 <= number <= _LATEST_S, "0.25"
        )
        if times_s and time_s < times_s[-1]:
            raise row.wrong(time, f"{time_s!r} comes before {times_s[-1]!r}, above", "sort the rows by arrival_s")
        if times_s and seconds_to_ps(time_s - times_s[0]) > MAX_SPAN_PS:
            what = f"more than {MAX_SPAN_DAYS} days after the first"
            raise row.wrong(time, what, "cut the file; arrival_s is in seconds")
        times_s.append(time_s)
        return lengths

    prompts, outputs = zip(*rows_of(text, name, request, COLUMNS, most=MAX_REQUESTS), strict=True)
    return Requests(tuple(seconds_to_ps(time_s - times_s[0]) for time_s in times_s), prompts, outputs)


def _tokens(row: Row, column: str) -> int:
    needs = f"a whole number from 1 to {MAX_TOKENS}"
    return int(row.number(column, needs, lambda number: 1 <= number <= MAX_TOKENS and number.is_integer(), "128"))
