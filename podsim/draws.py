"""How often a run is repeated, with uncertain inputs drawn from their ranges or with noise, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from podsim.errors import PodsimError

MOST_DRAWS: Final = 1_000_000
MOST_SEEDS: Final = 10_000
_PERCENTILES, _PER_CENT = (10, 50, 90), 100


@dataclass(frozen=True, slots=True)
class Draws:
    """How often inputs are drawn.

    Attributes:
        count: Draws, from 1 to 1,000,000.
        seed: Seed of the draws, not negative.
    """

    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn.

        Raises:
            PodsimError: There are too few or too many draws, or the seed is negative or no whole number.
        """
        _check_count(
            self.count, MOST_DRAWS, "draws of the uncertain inputs", "draw from 1 to {:,} times, for example 200"
        )
        _check_seed(self.seed)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """What came of the draws.

    Attributes:
        draws: How many there were.
        seed: Seed of the draws.
        impossible: Draws whose run is impossible, such as those in which the model does not fit.
        drawn: Keys of the inputs that were drawn.
        held: Keys of those that kept their values: none, since all are drawn.
        metrics: `p10`, `p50` and `p90` of each metric: the value that this share of draws does not exceed.
        model_scatter: Standard deviation of the factor common to all times of a draw, which stands for what the model
            itself gets wrong; None where the software stack gives none.
    """

    draws: int
    seed: int
    impossible: int
    drawn: tuple[str, ...]
    held: tuple[str, ...]
    metrics: Mapping[str, Mapping[str, float]]
    model_scatter: float | None = None


@dataclass(frozen=True, slots=True)
class Seeds:
    """How often a run is repeated with noise, each time with a seed of its own.

    Attributes:
        count: Runs, from 1 to 10,000.
        seed: What their seeds are made of, not negative.
    """

    count: int
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be run.

        Raises:
            PodsimError: There are too few or too many runs, or the seed is negative or no whole number.
        """
        _check_count(self.count, MOST_SEEDS, "runs with noise", "ask for 1 to {:,}, for example 100")
        _check_seed(self.seed)


@dataclass(frozen=True, slots=True)
class Noisy:
    """What came of the runs with noise.

    Attributes:
        seeds: How many there were.
        seed: What their seeds were made of.
        engine: Which engine ran them.
        event_count: Events of all of them.
        machines: Machines that wait for the latest of them.
        run_updates: Weight updates of a run, those included that evaluations in the training program go through; None
            without an end of the run.
        simulated_updates: As many of them as were simulated in each run; the rest was drawn from those of all runs.
        weight_update_s: `p10`, `p50` and `p90` of single weight updates: what this share does not exceed. [s]
        mean_weight_update_s: Their mean. [s]
        longer_s: What that is longer than a weight update without noise. [s]
        jitter_s: Their standard deviation within a run. [s]
        waiting_s: What its session call takes longer, on average, since all machines wait for the latest. [s]
        drift: How much longer a weight update takes at the end of a run than at its start.
        drifting_s: What it takes longer for that, on average over a run. [s]
        epoch_s: Percentiles of the weight updates of an epoch; None where its samples are not known. [s]
        time_to_train_s: Percentiles of the whole run. [s]
    """

    seeds: int
    seed: int
    engine: str
    event_count: int
    machines: int
    run_updates: int | None
    simulated_updates: int
    weight_update_s: Mapping[str, float]
    mean_weight_update_s: float
    longer_s: float
    jitter_s: float
    waiting_s: float
    drift: float
    drifting_s: float
    epoch_s: Mapping[str, float] | None
    time_to_train_s: Mapping[str, float] | None


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """`p10`, `p50` and `p90`: the value that this share of them does not exceed.

    >>> percentiles([4.0, 1.0, 3.0, 2.0])
    {'p10': 1.0, 'p50': 2.0, 'p90': 4.0}
    """
    ranked = sorted(values)
    return {f"p{share}": ranked[math.ceil(share / _PER_CENT * len(ranked)) - 1] for share in _PERCENTILES}


SHARE: Final = 0.8
"""Of the draws, how many lie in a range: those from P10 to P90."""


@dataclass(frozen=True, slots=True)
class Range:
    """Between what a figure lies in four fifths of the draws.

    Attributes:
        low: What a tenth of the draws does not exceed.
        high: What nine tenths do not exceed.
        share: Share of the draws between both.
    """

    low: float
    high: float
    share: float = SHARE

    def holding(self, value: float) -> Range:
        """The range, as wide as to hold a value.

        >>> Range(2.0, 3.0).holding(1.5)
        Range(low=1.5, high=3.0, share=0.8)
        """
        return Range(min(self.low, value), max(self.high, value), self.share)


def range_of(values: Iterable[float]) -> Range:
    """The range of some draws.

    >>> range_of(range(1, 21))
    Range(low=2, high=18, share=0.8)
    """
    ends = percentiles(values)
    return Range(ends["p10"], ends["p90"])


def _is_whole(number: object) -> TypeGuard[int]:
    """Python takes any type for a number of the command line."""
    return isinstance(number, int) and not isinstance(number, bool)


def _check_count(count: object, most: int, what: str, do: str) -> None:
    if not _is_whole(count):
        raise PodsimError(f"`{count}` {what} are not possible", do=do.format(most))
    if not 1 <= count <= most:
        raise PodsimError(f"{count:,} {what} are not possible", do=do.format(most))


def _check_seed(seed: object) -> None:
    do = "use 0 or a positive whole number"
    if not _is_whole(seed):
        raise PodsimError(f"the seed `{seed}` is no whole number", do=do)
    if seed < 0:
        raise PodsimError(f"the seed {seed} is negative", do=do)
