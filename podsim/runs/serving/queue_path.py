"""How many requests there are, over time: steps up and down, their exact integral, and a drawing of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.units import PS_PER_S

Int64s = NDArray[np.int64]

DRAWN_INTERVALS = 1_000
_FEWEST_ARRIVALS = 100
_WARM_UP = 0.25
_SLICES = 30
_STANDARD_ERRORS = 2


@dataclass(frozen=True, slots=True)
class CountPath:
    """A count that changes at instants; each count holds until the next instant, the last one for ever.

    Attributes:
        time_ps: Instants in order, no two alike. [ps]
        count: Count from each instant on.
    """

    time_ps: Int64s
    count: Int64s

    def at(self, time_ps: NDArray[Any]) -> Int64s:
        """The count at any instants from the first on."""
        return self.count[np.searchsorted(self.time_ps, time_ps, side="right") - 1]

    @property
    def area_ps(self) -> int:
        """Integral of the count up to the last instant, exact. [ps]"""
        gaps = np.diff(self.time_ps).tolist()
        return sum(gap * count for gap, count in zip(gaps, self.count.tolist(), strict=False))


def count_path(up_ps: Sequence[int], down_ps: Sequence[int], end_ps: int) -> CountPath:
    """One up at each of some instants, one down at each of others; ups and downs of one instant are settled.

    Args:
        up_ps: Instants from 0 on. [ps]
        down_ps: Others. [ps]
        end_ps: Where the path ends. [ps]

    >>> path = count_path([0, 2], [3, 5], 6)
    >>> path.time_ps.tolist(), path.count.tolist(), path.area_ps
    ([0, 2, 3, 5, 6], [1, 2, 1, 0, 0], 6)
    """
    instants = np.concatenate([np.asarray(up_ps, np.int64), np.asarray(down_ps, np.int64), [0, end_ps]])
    changes = np.repeat(np.array([1, -1, 0]), [len(up_ps), len(down_ps), 2])
    time_ps, where = np.unique(instants, return_inverse=True)
    totals = np.zeros(len(time_ps), np.int64)
    np.add.at(totals, where, changes)
    return CountPath(time_ps, np.cumsum(totals))


@dataclass(frozen=True, slots=True)
class QueueLength:
    """Requests that wait, over time, in equal intervals from the first arrival to the last token.

    Attributes:
        time_s: Ends of the intervals, one more than there are intervals. [s]
        mean: Mean over each interval.
        peak: Most at any time of each interval.
    """

    time_s: tuple[float, ...]
    mean: tuple[float, ...]
    peak: tuple[int, ...]


def draw(path: CountPath) -> QueueLength:
    """A path in equal intervals: their means keep its integral, their peaks its extremes."""
    end = int(path.time_ps[-1])
    intervals = min(DRAWN_INTERVALS, end)
    edges = np.array([end * number // intervals for number in range(intervals + 1)], np.int64)
    times = np.unique(np.concatenate([edges, path.time_ps]))
    counts, starts = path.at(times[:-1]), np.searchsorted(times, edges[:-1])
    means = np.add.reduceat(counts * np.diff(times).astype(np.float64), starts) / np.diff(edges)
    peaks = np.maximum.reduceat(counts, starts)
    return QueueLength(
        tuple(float(edge) for edge in edges / PS_PER_S), tuple(map(float, means)), tuple(map(int, peaks))
    )


def grows(path: CountPath, arrival_count: int, last_arrival_ps: int) -> bool | None:
    """Whether a queue grows while requests come, or None if they are too few to tell.

    The last three quarters of the time of arrivals are cut into slices. If the queue gains more per slice
    than two standard errors of that gain, it grows. A queue that only swings gains about nothing, since what
    one slice gains another gives back.

    Source: [law2015] for means of batches; the rule itself is this project's.
    """
    if arrival_count < _FEWEST_ARRIVALS or last_arrival_ps < _SLICES:
        return None
    edges = np.linspace(_WARM_UP * last_arrival_ps, last_arrival_ps, _SLICES + 1)
    gains = np.diff(path.at(edges).astype(np.float64))
    return bool(gains.mean() > _STANDARD_ERRORS * gains.std(ddof=1) / np.sqrt(_SLICES))
