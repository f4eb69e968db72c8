"""Noise of session calls and machines, sampled from tables of equally likely values.

The duration of a session call varies equally for all IPUs, with one random stream. A machine is sometimes slow,
with one stream per machine. Computation and exchange on IPUs have no noise [mlperf_logs]. A table entry is the mean of
the distribution between two quantiles, in closed form. Entries are rounded so that the error of every partial sum is at
most half a picosecond.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from podsim.program.host import CALL, Call
from podsim.program.task import Jitter, Work
from podsim.program.transfers import HOST
from podsim.scenario.software import Noise
from podsim.units import PS_PER_S, seconds_to_ps

Table = NDArray[np.int64]
"""Equally likely values in ascending order. [ps]"""
SMOOTH_ENTRIES = 2**12
"""Entries of a table of a distribution without a long tail, whose deviation is less than its mean."""
ENTRIES = 2**16
"""Entries of other tables: enough for dozens of nonzero entries if a machine is slow once in a thousand calls."""
_TABLES = 16
"""Number of cached tables, a few megabytes."""
_NORMAL = NormalDist()


@lru_cache(maxsize=_TABLES)
def log_normal_table(mean_ps: int, deviation_ps: float) -> Table:
    """Return the deviations from the mean of a log-normal duration, as a table of equally likely values. [ps]

    Entries are at least -mean_ps, and their sum is 0. The array is cached: do not write to it.
    """
    entries = SMOOTH_ENTRIES if deviation_ps < mean_ps else ENTRIES
    if not mean_ps or not deviation_ps:
        return np.zeros(entries, dtype=np.int64)
    # The share of the mean below the quantile z of the underlying normal distribution is the integral up to z - width.
    width = math.sqrt(math.log1p((deviation_ps / mean_ps) ** 2))
    inner = [_NORMAL.cdf(quantile - width) for quantile in _quantiles(entries)]
    shares = np.array([0.0, *inner, 1.0], dtype=np.float64)
    return _rounded(mean_ps * (entries * shares - np.arange(entries + 1, dtype=np.float64)))


@lru_cache
def _quantiles(entries: int) -> tuple[float, ...]:
    """Return the quantiles that divide the normal distribution into equally likely parts."""
    return tuple(_NORMAL.inv_cdf(number / entries) for number in range(1, entries))


def rare_delay_table(share: float, mean_ps: float, entries: int = ENTRIES) -> Table:
    """Return the table of a rare delay: zero, or with chance `share` (0 to 1) exponential with mean `mean_ps`. [ps]

    Entries are at least 0, and their mean is share x mean_ps.
    """
    if not share or not mean_ps:
        return np.zeros(entries, dtype=np.int64)
    # The part of the mean beyond the quantile 1 - v is v (1 + ln(share / v)) mean_ps, for v up to the share.
    beyond = np.minimum(np.arange(entries, -1, -1) / entries, share)
    with np.errstate(divide="ignore"):
        logs = np.where(beyond > 0, np.log(share / beyond), 0.0)
    whole = beyond * (1 + logs) * mean_ps * entries
    return _rounded(whole[0] - whole)


def _rounded(sums: NDArray[np.float64]) -> Table:
    """Return the differences of rounded sums; the sums themselves may exceed 64 bits. [ps]"""
    return np.diff(np.rint(sums)).astype(np.int64)


def maximum_table(table: Table, count: int) -> Table:
    """Return the table of the maximum of `count` samples from a table, with the same mean to the picosecond. [ps]"""
    edges = np.arange(len(table) + 1) / len(table)
    shares = edges**count
    sums = np.concatenate([[0.0], np.cumsum(np.diff(shares) * table)])
    return _rounded(np.interp(edges, shares, sums) * len(table))


def maximum_moments(table: Table, count: int) -> tuple[float, float]:
    """Return the exact mean and standard deviation of the maximum of `count` samples from a table. [ps]"""
    shares = np.diff((np.arange(len(table) + 1) / len(table)) ** count)
    mean = float(shares @ table)
    return mean, math.sqrt(float(shares @ (table - mean) ** 2))


LATE = "late machine"
_OF_CALL, _OF_MACHINES = range(2)


class NoisyCall:
    """Session call with noise, as far as one weight update bears it.

    If several updates share a call, each has its share of the variance and of the rare delays, so that a whole call
    varies as much as if it were sampled at once.
    """

    def __init__(self, noise: Noise, time_ps: int, updates_per_call: float, machines: int, *, apart: bool) -> None:
        """Prepare the noise; unless `apart`, all lanes share one sample of the delay of the slowest machine."""
        self.drift = noise.drift_on(machines) or 0.0
        self._noise, self._updates_per_call, self._machines, self._apart = noise, updates_per_call, machines, apart
        self._late = late_table(noise, updates_per_call)
        self._late_ps = min(time_ps, round(float(self._late.mean())))
        self._call_ps = time_ps - self._late_ps
        self._call = Work(CALL, ((HOST, self._call_ps),), CALL)
        self._is_late = bool(self._late.any())

    @property
    def wait_s(self) -> float:
        """Mean extra time since all machines wait for the slowest. [s]"""
        return (round(maximum_moments(self._late, self._machines)[0]) - self._late_ps) / PS_PER_S

    @property
    def call(self) -> Call:
        """Session call with the work of the calling process and of the machines."""
        return Call((self._call,), self._late_works)

    def _late_works(self, machine: int) -> tuple[Work, ...]:
        late = Work(LATE, ((HOST, self._late_ps),), _late_name(machine if self._apart else 0))
        return (late,) if self._is_late else ()

    @cached_property
    def levels(self) -> Table:
        """Deviations of the duration of calls that last for a whole run: one sample per run. [ps]"""
        return run_table(self._noise, self._call_ps, self._updates_per_call)

    def jitters(self, level_ps: int) -> dict[str, Jitter]:
        """Return the jitter of each stretch of work, by name; a call takes `level_ps` more throughout the run. [ps]"""
        spread_ps = seconds_to_ps(self._noise.call_spread_s) / math.sqrt(self._updates_per_call)
        call = log_normal_table(self._call_ps + level_ps, spread_ps) + level_ps
        return {CALL: Jitter(_OF_CALL, _values(call)), **self._late_jitters}

    @cached_property
    def _late_jitters(self) -> dict[str, Jitter]:
        """Jitter of slow machines; all machines share one table and have separate random streams."""
        if not self._is_late:
            return {}
        drawn = self._late if self._apart else maximum_table(self._late, self._machines)
        table = _values(drawn - self._late_ps)
        machines = range(self._machines if self._apart else 1)
        return {_late_name(machine): Jitter(_OF_MACHINES + machine, table) for machine in machines}


def _late_name(machine: int) -> str:
    return f"machine{machine}"


def _values(table: Table) -> tuple[int, ...]:
    return tuple(table.tolist())


def run_table(noise: Noise, time_ps: int, updates_per_call: float) -> Table:
    """Return deviations of the duration of calls that last for a whole run: one sample per run. [ps]"""
    return log_normal_table(time_ps, seconds_to_ps(noise.run_spread_s or 0.0) / updates_per_call)


def late_table(noise: Noise, updates_per_call: float) -> Table:
    """Return the delay of one machine in a weight update, as a table. [ps]"""
    return rare_delay_table(
        (noise.late_call_share or 0.0) / updates_per_call, seconds_to_ps(noise.late_call_time_s or 0.0)
    )
