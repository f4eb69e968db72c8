"""Coverage and width of the prediction intervals of published runs, by leave-one-origin-out cross-validation.

An origin is an MLPerf round, a vendor's table or a paper. Its rows are predicted with constants fitted without them,
and their intervals come from the rows of other origins. For comparison there are constant intervals by the mean size of
errors of the other origins, one for all or one for each group. The score is the width plus ten times the miss
[gneiting2007], in per cent; the rows of a configuration count as one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean
from typing import Final

from podsim.draws import SHARE, Z
from podsim.result.evidence import SPREAD, Compared, Residuals, interval_score

TARGET: Final = (0.8, 1.0)
"""Target coverage. Rows that were known when the model was written err less than new ones, so more may be inside."""
SIGMAS: Final = tuple(0.01 * 1.1**step for step in range(40))
"""Standard deviations to try: 1 to 41 %."""
_GROUPS: Final[Mapping[str, Callable[[Compared], str]]] = {
    "one band for all": lambda run: "",
    "a band for each activity": lambda run: run.names["activity"],
    "a band for each stack": lambda run: f"{run.names['activity']} {run.names['stack']}",
    "a band for each family": lambda run: f"{run.names['activity']} {run.names['family']}",
}


@dataclass(frozen=True, slots=True)
class LeftOutRun:
    """A published run with the range that the other origins give it."""

    run: Compared
    sigma: float  # standard deviation of the logarithm of predicted over measured time
    new: tuple[str, ...]  # features that no run of other origins has

    @property
    def is_inside(self) -> bool:
        """True if the measurement lies in the middle 80 %."""
        return abs(self.run.error) <= Z * self.sigma


@dataclass(frozen=True, slots=True)
class Share:
    """Coverage of the prediction intervals of a group of runs."""

    name: str  # common feature of the runs
    rows: int
    configurations: int  # number of configurations, each counted once
    inside: float  # share of the configurations inside
    mean_error: float  # mean size of the errors, as logarithms
    width: float  # mean width of their ranges, as logarithms
    score: float  # mean interval score, as logarithms


@dataclass(frozen=True, slots=True)
class Coverage:
    """Ranges of all runs, each origin left out whole."""

    runs: tuple[LeftOutRun, ...]
    bands: tuple[Share, ...]  # the same runs with constant intervals chosen from the other origins

    @property
    def origins(self) -> tuple[Share, ...]:
        """The runs of each origin."""
        names = dict.fromkeys(run.run.origin for run in self.runs)
        return tuple(share_of(name, [run for run in self.runs if run.run.origin == name]) for name in names)

    @property
    def total(self) -> Share:
        """Coverage of all runs."""
        return share_of("all", self.runs)

    @property
    def error_of_share(self) -> float:
        """Standard deviation of the share inside, if each configuration were inside of its range four times in five."""
        return math.sqrt(SHARE * (1 - SHARE) / self.total.configurations)

    @property
    def outside(self) -> tuple[LeftOutRun, ...]:
        """Runs outside of their ranges, the furthest first."""
        found = [run for run in self.runs if not run.is_inside]
        return tuple(sorted(found, key=lambda each: -abs(each.run.error) / each.sigma))


def share_of(name: str, runs: Sequence[LeftOutRun]) -> Share:
    """Return the coverage of runs, counting each configuration once."""
    same: dict[tuple[str, str], list[LeftOutRun]] = {}
    for run in runs:
        same.setdefault((run.run.origin, run.run.configuration), []).append(run)

    def mean(of: Callable[[LeftOutRun], float]) -> float:
        return fmean(fmean(map(of, rows)) for rows in same.values())

    return Share(
        name,
        len(runs),
        len(same),
        mean(lambda each: each.is_inside),
        mean(lambda each: abs(each.run.error)),
        mean(lambda each: 2 * Z * each.sigma),
        mean(lambda each: interval_score(each.sigma, each.run.error)),
    )


def coverage(table: Residuals) -> Coverage:
    """Leave each origin out, and hold what the others say beside constant bands."""
    bands = (share_of(name, _banded(table, group_of)) for name, group_of in _GROUPS.items())
    return Coverage(left_out_runs(table), tuple(bands))


def left_out_runs(table: Residuals, runs: Sequence[Compared] | None = None) -> tuple[LeftOutRun, ...]:
    """Return runs, all of the table if None, with ranges predicted from the other origins only."""
    runs = table.runs if runs is None else runs
    others = {origin: without_origin(table, origin) for origin in {run.origin for run in runs}}
    found = [(run, others[run.origin].evidence_for(run.names, run.sizes)) for run in runs]
    return tuple(LeftOutRun(run, math.sqrt(each.sigma**2 + run.known_variance), each.new) for run, each in found)


def without_origin(table: Residuals, origin: str) -> Residuals:
    """Return the table without the runs of one origin."""
    return replace(table, runs=tuple(run for run in table.runs if run.origin != origin))


def _banded(table: Residuals, group_of: Callable[[Compared], str]) -> list[LeftOutRun]:
    """Return the runs with constant intervals, each chosen by the score on the same group of the other origins."""

    @cache
    def sigma_of(origin: str, group: str) -> float:
        rest = without_origin(table, origin).runs
        return mean_sigma([each for each in rest if group_of(each) == group] or rest)

    found = ((run, sigma_of(run.origin, group_of(run))) for run in table.runs)
    return [LeftOutRun(run, math.sqrt(sigma**2 + run.known_variance), ()) for run, sigma in found]


def mean_sigma(runs: Sequence[Compared]) -> float:
    """Return the standard deviation of normal errors with the mean size of these, counting each configuration once."""
    return SPREAD * share_of("", [LeftOutRun(run, 0.0, ()) for run in runs]).mean_error


def constant_sigma(runs: Sequence[Compared]) -> float:
    """Return the standard deviation with the least interval score, counting each configuration once."""
    rows = Counter((run.origin, run.configuration) for run in runs)

    def score(sigma: float) -> float:
        return sum(interval_score(sigma, run.error) / rows[run.origin, run.configuration] for run in runs)

    return min(SIGMAS, key=score)
