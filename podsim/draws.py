"""Settings and results of repeated runs: Monte Carlo samples of uncertain inputs, and runs with noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from podsim.errors import PodsimError

MOST_DRAWS: Final = 1_000_000
MOST_SEEDS: Final = 10_000
SHARE: Final = 0.8  # share of the samples in a range, from P10 to P90
Z: Final = 1.2816
"""P90 of the standard normal distribution."""
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
    impossible: int  # samples with an impossible run, for example if the model does not fit
    drawn: tuple[str, ...]  # keys of the sampled inputs
    held: tuple[str, ...]  # keys of the inputs that kept their values: none, since all are sampled
    metrics: Mapping[str, Mapping[str, float]]  # `p10`, `p50` and `p90` of each metric
    model_scatter: float | None = None
    """Standard deviation of the model error, a factor common to all times of a sample; None if unknown."""


@dataclass(frozen=True, slots=True)
class Noisy:
    """Result of runs with noise, as percentiles `p10`, `p50` and `p90`."""

    seeds: int
    seed: int
    engine: str
    event_count: int
    machines: int  # machines that wait for the slowest one
    run_updates: (
        int | None
    )  # weight updates of a run, with evaluations in the training program; None if the run has no end
    simulated_updates: int  # simulated updates of each run; the others are sampled from those of all runs
    weight_update_s: Mapping[str, float]  # percentiles of single weight updates
    mean_weight_update_s: float
    longer_s: float  # mean delay relative to a weight update without noise
    jitter_s: float  # standard deviation of weight updates within a run
    waiting_s: float  # mean delay of a session call, because all machines wait for the slowest one
    drift: float  # relative slowdown of a weight update from start to end of a run
    drifting_s: float  # mean delay by drift over a run
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
