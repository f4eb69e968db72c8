"""Experts of a feed-forward block, and the numbers of tokens routed to them.

Graphs have fixed shapes, so products of all experts have as many rows as the fullest expert has tokens, or as a
capacity allows [jiang2024] [lepikhin2021].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

Routing = Literal["even", "random"]
# Expected counts are rounded to this many digits before they are rounded up, so that rounding errors do not count.
_DIGITS = 9
_PARTS = 100


@dataclass(frozen=True, slots=True)
class Experts:
    """Feed-forward networks of a layer; each token uses a few of the networks."""

    count: int  # experts of a layer
    per_token: int  # experts that each token uses
    # `even`: all experts at work get equal numbers of tokens; `random`: each token chooses at random
    routing: Routing = "even"
    imbalance: float = 1.0  # tokens of the fullest expert over the mean
    # capacity of each expert over the mean number of tokens; tokens beyond are dropped. None for no limit
    capacity_factor: float | None = None

    def expected_hit(self, tokens: int) -> float:
        """Return the expected number of experts that get tokens, for random choices: E·(1 - (1 - k/E)^tokens)."""
        return self.count * (1 - (1 - self.per_token / self.count) ** tokens)

    def even_load(self, tokens: int) -> tuple[int, int]:
        """Return (experts at work, mean tokens of these), both rounded up."""
        at_work = _rounded_up(self.expected_hit(tokens))
        return at_work, -(-tokens * self.per_token // at_work)

    def load(self, tokens: int) -> tuple[int, int]:
        """Return (experts at work, rows of their products)."""
        at_work, even = self.even_load(tokens)
        if self.capacity_factor is not None:
            return at_work, self._room(tokens, self.capacity_factor)
        return at_work, max(even, _rounded_up(self.fullest_tokens(tokens)))

    def _room(self, tokens: int, capacity_factor: float) -> int:
        """Return the capacity of each expert in tokens, at most all: c·k·n/E, rounded up [lepikhin2021]."""
        return min(tokens, _rounded_up(capacity_factor * self.per_token * tokens / self.count))

    def fullest_tokens(self, tokens: int) -> float:
        """Return the expected tokens of the fullest expert, at most all."""
        if self.routing == "random":
            return expected_fullest(tokens, self.count, self.per_token)
        at_work, _ = self.even_load(tokens)
        return min(float(tokens), self.imbalance * tokens * self.per_token / at_work)

    def least_factor(self, tokens: int) -> float:
        """Return the least capacity factor without dropped tokens, rounded up to two decimals."""
        factor = self.fullest_tokens(tokens) * self.count / (tokens * self.per_token)
        return math.ceil(round(_PARTS * factor, _DIGITS)) / _PARTS

    def dropped_share(self, tokens: int) -> float:
        """Return the expected share of the tokens' choices that exceed the capacity.

        Random choices of an expert follow a binomial distribution. Otherwise one expert is the fullest, and the others
        share the remaining tokens evenly.
        """
        if self.capacity_factor is None:
            return 0.0
        room, choices = self._room(tokens, self.capacity_factor), tokens * self.per_token
        if self.routing == "random":
            return self.count * _mean_beyond(tokens, self.per_token / self.count, room) / choices
        fullest = self.fullest_tokens(tokens)
        others = (choices - fullest) / max(1, self.count - 1)
        return (max(0.0, fullest - room) + (self.count - 1) * max(0.0, others - room)) / choices


def expected_fullest(tokens: int, count: int, per_token: int) -> float:
    """Return the mean tokens of the fullest expert, if each token chooses `per_token` experts at random.

    The number n of tokens that choose an expert has the mean n·k/E and the variance n·k/E·(1 - k/E); any two of these
    numbers are correlated by -1/(E - 1), since all add up to n·k. Many tokens make them normal. The largest of E normal
    numbers with this sum is s·e above their mean, where s² = n·k·(E - k)/(E·(E - 1)) and e is the mean of the largest
    of E independent standard normal numbers [david2003].
    """
    if count == per_token:
        return float(tokens)
    spread = math.sqrt(tokens * per_token * (count - per_token) / (count * (count - 1)))
    return min(float(tokens), tokens * per_token / count + spread * mean_of_largest(count))


_FARTHEST, _STEPS = 12.0, 4800


@cache
def mean_of_largest(count: int) -> float:
    """Return the mean of the maximum of `count` independent standard normal numbers.

    It is the integral of 1 - F^n above 0 minus that of F^n below 0, by Simpson's rule.

    >>> round(mean_of_largest(2), 6), round(mean_of_largest(8), 4)
    (0.56419, 1.4236)
    """
    width = _FARTHEST / _STEPS
    total = 0.0
    for step in range(_STEPS + 1):
        below = math.erfc(step * width / math.sqrt(2)) / 2
        weight = 1 if step in (0, _STEPS) else 4 if step % 2 else 2
        total += weight * (1 - (1 - below) ** count - below**count)
    return total * width / 3


def _mean_beyond(tokens: int, share: float, room: int) -> float:
    """Return the mean excess of a binomial number above a limit."""
    if share == 1:
        return float(max(0, tokens - room))
    odds, of_all = math.log(share) - math.log1p(-share), tokens * math.log1p(-share)

    def probability(number: int) -> float:
        ways = math.lgamma(tokens + 1) - math.lgamma(number + 1) - math.lgamma(tokens - number + 1)
        return math.exp(ways + number * odds + of_all)

    return sum((number - room) * probability(number) for number in range(room + 1, tokens + 1))


def _rounded_up(number: float) -> int:
    return math.ceil(round(number, _DIGITS))
