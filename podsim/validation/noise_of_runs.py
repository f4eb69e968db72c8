"""Runs with noise in the engine beside logged ones: how much weight updates, blocks of them and whole runs differ.

Source: [mlperf_logs].
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from podsim.engine import execute
from podsim.placement import make_plan
from podsim.placement.job import training_job
from podsim.placement.plan import shared_cost_model
from podsim.program.compile import compile_program
from podsim.runs.training.noisy_runs import all_runs, job_of
from podsim.units import ps_to_seconds
from podsim.validation.noise import LoggedRuns, Spread, logged_runs, spread_of
from podsim.watch import Watch

RUNS: Final = 20
_UPDATES: Final = 200


@dataclass(frozen=True, slots=True)
class NoisyRow:
    """A submission beside runs with noise.

    Attributes:
        logged: What its logs say.
        without_s: A weight update without noise. [s]
        mean_s: With noise, on average. [s]
        blocks: Standard deviation of blocks of as many updates as those in the logs, over their mean.
        runs: Standard deviation of the means of runs, each as long as those in the logs, over their mean.
    """

    logged: Spread
    without_s: float
    mean_s: float
    blocks: float
    runs: float

    @property
    def logged_blocks(self) -> float:
        """Standard deviation of logged blocks over their mean, drift left out."""
        row = self.logged
        return row.call_s * math.sqrt(row.calls) / (row.update_s * row.updates)

    @property
    def factor(self) -> float:
        """Spread of blocks as predicted, over the logged one."""
        return self.blocks / self.logged_blocks


def noisy_rows(role: str | None, seed: int, watch: Watch) -> tuple[NoisyRow, ...]:
    """Submissions whose software stacks have noise, each with runs of its own.

    Args:
        role: `calibration` or `hold-out`; both if left out.
        seed: What the seeds of the runs are made of.
        watch: Passes on the names of the scenarios.
    """
    known = {each.scenario: each for each in logged_runs(role) if each.spec.software.noise is not None}
    return tuple(_row(known[name], seed) for name in watch(list(known)))


def _row(logged: LoggedRuns, seed: int) -> NoisyRow:
    job = training_job(logged.spec)
    plan, row = make_plan(job, shared_cost_model(job)), spread_of(logged)
    without = execute(compile_program(plan), explicit=False)
    runs = all_runs(job_of(logged.spec, plan, _UPDATES, seed), RUNS, without.event_count)
    mean_s = float(np.mean([each.times_s for each in runs]))
    within_s = float(np.std([each.times_s - each.level_s for each in runs]))
    level_s = float(np.std([each.level_s for each in runs], ddof=1))
    whole = np.mean([np.sum(each.updates) for each in logged.runs])
    return NoisyRow(
        logged=row,
        without_s=ps_to_seconds(without.makespan_ps),
        mean_s=mean_s,
        blocks=within_s / (mean_s * math.sqrt(row.updates)),
        runs=math.hypot(level_s, within_s / math.sqrt(whole)) / mean_s,
    )


def mean_factor(rows: Sequence[NoisyRow]) -> float:
    """By what factor spreads are off, in the root mean square of its logarithm; 1 for no row."""
    squares = [math.log(each.factor) ** 2 for each in rows]
    return math.exp(math.sqrt(math.fsum(squares) / max(1, len(squares))))
