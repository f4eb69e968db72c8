"""Which stretches of work have noise, and who draws it together, from tables of equally likely values.

The calling process takes longer or shorter for all IPUs alike, one stream; a machine is late now and then by itself, a
stream each; what IPUs compute and exchange has no noise [mlperf_logs]. An entry of a table is the mean of its share of
the distribution between two quantiles, in closed form, rounded so that sums from the first on are off by half a
picosecond at most.
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


LATE = "late machine"
_OF_CALL, _OF_MACHINES = range(2)


class NoisyCall:
    """A weight update's share of a session call, in stretches of work that add up to it.

    Where several updates share a call, each has its share of the variance and of the late calls, so that a whole call
    differs as much as if it were drawn at once.
    """

    def __init__(self, noise: Noise, time_ps: int, updates_per_call: float, machines: int, *, apart: bool) -> None:
        """Without `apart`, machines do not draw by themselves: every lane draws how late the latest of them is."""
        self.drift = noise.drift_on(machines) or 0.0
        self._noise, self._updates_per_call, self._machines, self._apart = noise, updates_per_call, machines, apart
        self._late = late_table(noise, updates_per_call)
        self._late_ps = min(time_ps, round(float(self._late.mean())))
        self._call_ps = time_ps - self._late_ps
        self._call = Work(CALL, ((HOST, self._call_ps),), CALL)
        self._is_late = bool(self._late.any())

    @property
    def wait_s(self) -> float:
        """What it takes longer, on average, since all machines wait for the latest. [s]"""
        return (round(latest_of(self._late, self._machines)[0]) - self._late_ps) / PS_PER_S

    @property
    def call(self) -> Call:
        """What the calling process and the machines do."""
        return Call((self._call,), self._late_works)

    def _late_works(self, machine: int) -> tuple[Work, ...]:
        late = Work(LATE, ((HOST, self._late_ps),), _late_name(machine if self._apart else 0))
        return (late,) if self._is_late else ()

    @cached_property
    def levels(self) -> Table:
        """What calls take more or less throughout a run: one draw for each run, which all of its updates bear. [ps]"""
        return run_table(self._noise, self._call_ps, self._updates_per_call)

    def jitters(self, level_ps: int) -> dict[str, Jitter]:
        """What the stretches draw from, by their names; a call takes `level_ps` more throughout the run. [ps]"""
        spread_ps = seconds_to_ps(self._noise.call_spread_s) / math.sqrt(self._updates_per_call)
        call = steady(self._call_ps + level_ps, spread_ps) + level_ps
        return {CALL: Jitter(_OF_CALL, _values(call)), **self._late_jitters}

    @cached_property
    def _late_jitters(self) -> dict[str, Jitter]:
        """All machines share a table, each with a stream of its own."""
        if not self._is_late:
            return {}
        drawn = self._late if self._apart else latest(self._late, self._machines)
        table = _values(drawn - self._late_ps)
        machines = range(self._machines if self._apart else 1)
        return {_late_name(machine): Jitter(_OF_MACHINES + machine, table) for machine in machines}


def _late_name(machine: int) -> str:
    return f"machine{machine}"


def _values(table: Table) -> tuple[int, ...]:
    return tuple(table.tolist())


def run_table(noise: Noise, time_ps: int, updates_per_call: float) -> Table:
    """What calls take more or less in all of a run: one draw for each run, which all of its updates bear. [ps]"""
    return steady(time_ps, seconds_to_ps(noise.run_spread_s or 0.0) / updates_per_call)


def late_table(noise: Noise, updates_per_call: float) -> Table:
    """How late one machine is. [ps]"""
    return late((noise.late_call_share or 0.0) / updates_per_call, seconds_to_ps(noise.late_call_time_s or 0.0))
