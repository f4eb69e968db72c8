"""How much weight updates differ from one another, in logged runs and as predicted.

A block of updates with a call from the host each tells the spread of a call: its time, from block to block, differs by
that of one call times the root of their number, if calls are independent. Evaluations are blocks of few calls and say
the same. Neighbours are compared, so that slow drift is left out; it is counted apart.

Source: [mlperf_logs].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from podsim.validation.intervals import Floats, LoggedRun, LoggedRuns

_OF_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
LATE_S = 0.04
"""An evaluation that lasts longer than those around it by more has met a late call. [s]"""
_WINDOW = 3
"""Evaluations on either side that one is compared with."""
_THIRDS = 3
_WITHOUT_CHECKPOINT = 0.45
"""Share of epochs, the fastest, that hold no checkpoint and follow none: of every four one has one and one follows."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How much the blocks of a submission's runs differ.

    Attributes:
        scenario: The scenario that replays it.
        role: `calibration` or `hold-out`.
        hosts: Host servers.
        machines: Machines.
        update_s: Median time of a weight update. [s]
        calls: Calls from the host in a block, usually.
        updates: Weight updates in a block, usually.
        variation: Standard deviation of blocks of a run, drift included, over their mean.
        call_s: Standard deviation of a call that explains the spread of neighbouring blocks. [s]
        usual_call_s: The same from the middle half of the differences alone, which late calls hardly enter. [s]
        correlation: Of neighbouring blocks.
        skewness: Of the blocks of a run.
        first_s: What the first block takes longer than others, median over runs; 0 for epochs. [s]
        worst_first_s: The same, of the run with the slowest. [s]
        drift: The last third of a run over the first, mean over runs, less 1.
        between_runs: Standard deviation of the runs' medians, over their mean.
        usual_evaluation_s: That of a call in evaluations, likewise from the middle half; 0 without. [s]
        evaluation_calls: Calls of evaluations that were compared.
        late_calls: Evaluations that met a late call.
        late_s: How much longer these took beyond `LATE_S`, on average. [s]
    """

    scenario: str
    role: str
    hosts: int
    machines: int
    update_s: float
    calls: float
    updates: float
    variation: float
    call_s: float
    usual_call_s: float
    correlation: float
    skewness: float
    first_s: float
    worst_first_s: float
    drift: float
    between_runs: float
    usual_evaluation_s: float
    evaluation_calls: int
    late_calls: int
    late_s: float


def spread_of(logged: LoggedRuns) -> Spread:
    """What the runs of a submission say.

    Args:
        logged: The runs.
    """
    steady = [_steady(run) for run in logged.runs]
    medians = np.array([np.median(run.update_s) for run in steady])
    calls = float(np.median([np.median(run.updates) for run in steady])) / max(1, round(logged.updates_per_call))
    update_s, updates = float(np.median(medians)), calls * max(1, round(logged.updates_per_call))
    apart = _apart(logged, steady) * updates / math.sqrt(calls)
    late = [each for run in logged.runs for each in _late(run.evaluation_s)]
    beyond = [each - LATE_S for each in late if each > LATE_S]
    first = [_first_s(run) for run in logged.runs]
    return Spread(
        scenario=logged.scenario,
        role=logged.role,
        hosts=int(logged.spec.system.host_count),
        machines=int(logged.spec.system.machine_count),
        update_s=update_s,
        calls=calls,
        updates=updates,
        variation=_root_mean([_relative(run, np.std) for run in steady]),
        call_s=float(np.sqrt(np.mean(apart**2) / 2)),
        usual_call_s=_usual(apart),
        correlation=float(np.mean([_correlation(run.update_s) for run in steady])),
        skewness=float(np.mean([_skewness(run.update_s) for run in steady])),
        first_s=float(np.median(first)),
        worst_first_s=max(first),
        drift=float(np.mean([_relative(run, _rise) for run in steady])),
        between_runs=float(np.std(medians, ddof=1) / update_s),
        usual_evaluation_s=_usual(_evaluations_apart(logged)),
        evaluation_calls=len(late) * logged.calls_per_evaluation,
        late_calls=len(beyond),
        late_s=float(np.mean(beyond)) if beyond else 0.0,
    )


def _steady(run: LoggedRun) -> LoggedRun:
    """Without the first block; of epochs, those without a checkpoint in or before them, which are faster."""
    kept = np.arange(len(run.block_s)) > 0
    if not len(run.evaluation_s):
        kept &= run.update_s <= np.quantile(run.update_s, _WITHOUT_CHECKPOINT)
    return LoggedRun(run.block_s[kept], run.updates[kept], run.evaluation_s)


def _first_s(run: LoggedRun) -> float:
    """What the first block takes longer than others; nothing is said of epochs, which may hold a checkpoint. [s]"""
    if not len(run.evaluation_s):
        return 0.0
    return float(run.block_s[0] - run.updates[0] * np.median(run.update_s[1:]))


def _apart(logged: LoggedRuns, steady: Sequence[LoggedRun]) -> Floats:
    """Differences of the mean update of blocks that nothing but chance makes different. [s]

    Neighbours of one run; of epochs, which have checkpoints, the same ones of two runs.
    """
    if logged.calls_per_evaluation:
        return np.concatenate([np.diff(run.update_s) for run in steady])
    most = max(len(run.update_s) for run in logged.runs)
    whole = [run.update_s for run in logged.runs if len(run.update_s) == most]
    usual = np.median(whole, axis=0)
    fast = usual <= np.quantile(usual, _WITHOUT_CHECKPOINT)
    fast[0] = False
    return np.concatenate([(one - other)[fast] for one, other in combinations(whole, 2)])


def _usual(apart: Floats) -> float:
    """Standard deviation of what differs so, from the middle half of the differences."""
    return float(np.median(np.abs(apart)) * _OF_NORMAL / math.sqrt(2)) if len(apart) else 0.0


def _evaluations_apart(logged: LoggedRuns) -> Floats:
    """Differences of neighbouring evaluations, each as one of a single call; the first of a run may be slow. [s]"""
    apart = [np.diff(run.evaluation_s[1:]) for run in logged.runs]
    return np.concatenate(apart) / math.sqrt(max(1, logged.calls_per_evaluation))


def _late(evaluation_s: Floats) -> Iterator[float]:
    """How much longer each evaluation but the first takes than the median of those around it. [s]"""
    for number in range(1, len(evaluation_s)):
        near = evaluation_s[max(1, number - _WINDOW) : number + _WINDOW + 1]
        yield float(evaluation_s[number] - np.median(near))


def _relative(run: LoggedRun, measure: Callable[[Floats], float]) -> float:
    return float(measure(run.update_s) / np.mean(run.update_s))


def _rise(values: Floats) -> float:
    third = len(values) // _THIRDS
    return float(np.mean(values[-third:]) - np.mean(values[:third]))


def _correlation(values: Floats) -> float:
    apart = values - np.mean(values)
    return float(apart[1:] @ apart[:-1] / (apart @ apart))


def _skewness(values: Floats) -> float:
    return float(np.mean((values - np.mean(values)) ** 3) / np.std(values) ** 3)


def _root_mean(values: Sequence[float]) -> float:
    return math.sqrt(math.fsum(value * value for value in values) / len(values))
