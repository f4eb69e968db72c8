"""How often a run is repeated, with uncertain inputs drawn from their ranges or with noise, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from podsim.errors import PodsimError

MOST_DRAWS: Final = 1_000_000
MOST_SEEDS: Final = 10_000
SHARE: Final = 0.8  # of the draws, how many lie in a range: those from P10 to P90
Z: Final = 1.2816
"""Standard deviations below which nine tenths of a normal distribution lie."""
_PERCENTILES, _PER_CENT = (10, 50, 90), 100


@dataclass(frozen=True)
class _Repeated:
    count: int
    seed: int = 0
    MOST: ClassVar[int]
    WHAT: ClassVar[str]
    CURE: ClassVar[str]

    def __post_init__(self) -> None:
        """Refuse a count or a seed that is not possible, whatever its type."""
        whole = [isinstance(number, int) and not isinstance(number, bool) for number in (self.count, self.seed)]
        if not (whole[0] and 1 <= self.count <= self.MOST):
            shown = f"{self.count:,}" if whole[0] else f"`{self.count}`"
            raise PodsimError(f"{shown} {self.WHAT} are not possible", do=self.CURE.format(self.MOST))
        if not (whole[1] and self.seed >= 0):
            wrong = f"{self.seed} is negative" if whole[1] else f"`{self.seed}` is no whole number"
            raise PodsimError(f"the seed {wrong}", do="use 0 or a positive whole number")


class Draws(_Repeated):
    """Number of Monte Carlo samples, `count` from 1 to 1,000,000, and a `seed` that is not negative."""

    MOST, WHAT = MOST_DRAWS, "draws of the uncertain inputs"
    CURE = "draw from 1 to {:,} times, for example 200"


class Seeds(_Repeated):
    """Number of runs with noise, `count` from 1 to 10,000, with seeds derived from one `seed`."""

    MOST, WHAT = MOST_SEEDS, "runs with noise"
    CURE = "ask for 1 to {:,}, for example 100"


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Result of sampling uncertain inputs."""

    draws: int
    seed: int
    impossible: int  # draws whose run is impossible, such as those in which the model does not fit
    drawn: tuple[str, ...]  # keys of the inputs that were drawn
    held: tuple[str, ...]  # keys of those that kept their values: none, since all are drawn
    metrics: Mapping[str, Mapping[str, float]]  # `p10`, `p50` and `p90` of a metric: what this share does not exceed
    model_scatter: float | None = None
    """Standard deviation of the factor common to all times of a draw, which stands for what the model itself gets
    wrong; None where the software stack gives none."""


@dataclass(frozen=True, slots=True)
class Noisy:
    """Result of runs with noise, as percentiles `p10`, `p50` and `p90`."""

    seeds: int
    seed: int
    engine: str
    event_count: int
    machines: int  # that wait for the latest of them
    run_updates: int | None  # of a run, evaluations in the training program included; None without an end of the run
    simulated_updates: int  # in each run; the rest was drawn from those of all runs
    weight_update_s: Mapping[str, float]  # percentiles of single weight updates
    mean_weight_update_s: float
    longer_s: float  # than a weight update without noise, the mean
    jitter_s: float  # standard deviation of weight updates within a run
    waiting_s: float  # what a session call takes longer, on average, since all machines wait for the latest
    drift: float  # how much longer a weight update takes at the end of a run than at its start
    drifting_s: float  # what it takes longer for that, on average over a run
    epoch_s: Mapping[str, float] | None  # percentiles of the weight updates of an epoch; None where that is not known
    time_to_train_s: Mapping[str, float] | None  # percentiles of the whole run


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """Return `p10`, `p50` and `p90`: values that this share of the samples does not exceed.

    >>> percentiles([4.0, 1.0, 3.0, 2.0])
    {'p10': 1.0, 'p50': 2.0, 'p90': 4.0}
    """
    ranked = sorted(values)
    return {f"p{share}": ranked[math.ceil(share / _PER_CENT * len(ranked)) - 1] for share in _PERCENTILES}


@dataclass(frozen=True, slots=True)
class Range:
    """Range of a metric in 80 % of the samples, from P10 to P90."""

    low: float
    high: float
    share: float = SHARE

    def holding(self, value: float) -> Range:
        """Return the range, widened to include a value.

        >>> Range(2.0, 3.0).holding(1.5)
        Range(low=1.5, high=3.0, share=0.8)
        """
        return Range(min(self.low, value), max(self.high, value), self.share)


def range_of(values: Iterable[float]) -> Range:
    """Return the range of samples.

    >>> range_of(range(1, 21))
    Range(low=2, high=18, share=0.8)
    """
    ends = percentiles(values)
    return Range(ends["p10"], ends["p90"])
