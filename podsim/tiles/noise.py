"""Distributions as tables: what a stretch of time takes more or less than on average, in entries of equal probability.

An entry is the mean of its share of the distribution, rounded so that the sums of entries from the first on are off by
half a picosecond at most. So a table has the mean of its distribution to the picosecond, and a draw is a look-up. The
tables are made of closed forms: the mean of a distribution between two quantiles.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.int64]
"""Picoseconds by quantile, ascending. [ps]"""
SMOOTH_ENTRIES = 2**12
"""Of a distribution that is narrower than its mean, which has no long tail."""
ENTRIES = 2**16
"""So many that a machine that is late once in a thousand calls has dozens of them."""
_TABLES = 16
"""So many are kept, some megabytes."""
_NORMAL = NormalDist()


@lru_cache(maxsize=_TABLES)
def steady(mean_ps: int, deviation_ps: float) -> Table:
    """A stretch of time with a log-normal distribution, which is never shorter than nothing, less its mean. [ps]

    Entries of at least -mean_ps, whose sum is 0; not to be written to.
    """
    entries = SMOOTH_ENTRIES if deviation_ps < mean_ps else ENTRIES
    if not mean_ps or not deviation_ps:
        return np.zeros(entries, dtype=np.int64)
    # The share of the mean up to a quantile z of the normal distribution behind it is its integral up to z - width.
    width = math.sqrt(math.log1p((deviation_ps / mean_ps) ** 2))
    inner = [_NORMAL.cdf(quantile - width) for quantile in _quantiles(entries)]
    shares = np.array([0.0, *inner, 1.0], dtype=np.float64)
    return _rounded(mean_ps * (entries * shares - np.arange(entries + 1, dtype=np.float64)))


@lru_cache
def _quantiles(entries: int) -> tuple[float, ...]:
    """Edges of parts of the normal distribution that are equally likely."""
    return tuple(_NORMAL.inv_cdf(number / entries) for number in range(1, entries))


def late(share: float, mean_ps: float, entries: int = ENTRIES) -> Table:
    """A delay that is met rarely (`share`, 0 to 1), and is then distributed exponentially. [ps]

    Entries of at least 0, whose mean is that of share x mean_ps.
    """
    if not share or not mean_ps:
        return np.zeros(entries, dtype=np.int64)
    # Of all delay, the part beyond the quantile 1 - v is v (1 + ln(share / v)) mean_ps, where v is at most the share.
    beyond = np.minimum(np.arange(entries, -1, -1) / entries, share)
    with np.errstate(divide="ignore"):
        logs = np.where(beyond > 0, np.log(share / beyond), 0.0)
    whole = beyond * (1 + logs) * mean_ps * entries
    return _rounded(whole[0] - whole)


def _rounded(sums: NDArray[np.float64]) -> Table:
    """Differences of sums that are rounded, which alone may not fit into 64 bits. [ps]"""
    return np.diff(np.rint(sums)).astype(np.int64)


def latest(table: Table, count: int) -> Table:
    """The largest of some draws as a table of its own, with the same mean to the picosecond. [ps]"""
    edges = np.arange(len(table) + 1) / len(table)
    shares = edges**count
    sums = np.concatenate([[0.0], np.cumsum(np.diff(shares) * table)])
    return _rounded(np.interp(edges, shares, sums) * len(table))


def latest_of(table: Table, count: int) -> tuple[float, float]:
    """Mean and standard deviation of the largest of some draws from a table, exactly. [ps]"""
    shares = np.diff((np.arange(len(table) + 1) / len(table)) ** count)
    mean = float(shares @ table)
    return mean, math.sqrt(float(shares @ (table - mean) ** 2))
