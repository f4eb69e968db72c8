"""Spread of weight updates in logged runs of MLPerf.

Logs have the time and the number of weight updates of each block (BERT) or epoch (ResNet-50). If each update has one
call from the host and calls are independent, the standard deviation of a block is that of a call times the square root
of their number. Evaluations are blocks of few calls and give a second estimate. Neighbouring blocks are compared, so
that slow drift is excluded; it is measured separately.

Source: [mlperf_logs].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsim.engine import execute
from podsim.placement import make_plan
from podsim.placement.job import training_job
from podsim.placement.plan import shared_cost_model
from podsim.program.compile import compile_program
from podsim.result.reference_data import PADDLE, rows, scenario_name
from podsim.result.training_times import EpochRun
from podsim.runs.training.noise import all_runs, job_of
from podsim.scenario import TrainingScenario, load_scenario
from podsim.scenario.convnet_training import EpochRunSpec
from podsim.units import ps_to_seconds
from podsim.watch import Watch

Floats = NDArray[np.float64]
_SAME = ("round", "division", "benchmark", "ipus", "framework", "submitter")
_NOMINAL_PER_PACK = 2
_NEIGHBOURS = 3
"""Blocks on either side that a block is compared with."""
_PASSES = 5
_PULL = 0.25
"""Weight of the distance from the marks relative to that from the neighbours, both in updates."""
_SLACK = 0.7
"""Deviation of the sequences of a run from their average, in sequences of an update."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """Logged run."""

    block_s: Floats  # time of each training block, or of each epoch. [s]
    updates: Floats  # weight updates of each
    evaluation_s: Floats  # time of each evaluation between blocks; empty where all evaluations come last. [s]

    @property
    def update_s(self) -> Floats:
        """Mean time of a weight update, by block. [s]"""
        return self.block_s / self.updates


@dataclass(frozen=True, slots=True)
class LoggedRuns:
    """The runs of one submission."""

    scenario: str  # the scenario that replays it
    role: str  # `calibration` where constants of noise are fitted to it, or `hold-out`
    spec: TrainingScenario
    updates_per_call: float  # weight updates that one call from the host runs
    calls_per_evaluation: int  # such calls of one evaluation; 0 where all evaluations come last
    runs: tuple[LoggedRun, ...]


def logged_runs(role: str | None = None) -> Iterator[LoggedRuns]:
    """Yield submissions with their runs; PaddlePaddle's are left out, because their blocks end differently."""
    known = {_key(row): row for row in rows("mlperf_submissions")}
    known_to_noise = (row for row in rows("mlperf_intervals") if row["framework"] != PADDLE)
    chosen = (row for row in known_to_noise if role in (None, row["role"]))
    for key, found in groupby(chosen, _key):
        yield _submission(known[key], list(found))


def _key(row: dict[str, str]) -> tuple[str, ...]:
    return tuple(row[name] for name in _SAME)


def _submission(row: dict[str, str], found: Sequence[dict[str, str]]) -> LoggedRuns:
    name = scenario_name(row)
    spec = load_scenario(name).spec.require(TrainingScenario)
    by_run = {number: {each["of"]: each for each in run} for number, run in groupby(found, lambda each: each["run"])}
    runs = tuple(_run(row, spec, run) for run in by_run.values())
    calls = int(row["eval_device_steps"] or 0) if row["benchmark"] == "bert" else 0
    return LoggedRuns(name, found[0]["role"], spec, spec.parallelism.updates_per_call(spec), calls, runs)


def _run(row: dict[str, str], spec: TrainingScenario, run: dict[str, dict[str, str]]) -> LoggedRun:
    if epochs := run.get("epoch"):
        times = _numbers(epochs["durations_s"])
        return LoggedRun(times, _updates_of_epochs(spec, len(times)), np.array([]))
    blocks, times = run["block"], _numbers(run["block"]["durations_s"])
    samples, packs = _numbers(blocks["samples"]), float(row["packs_per_step"])
    if blocks["counted"] == "nominal":
        updates = updates_at_nominal_marks(samples, packs * _NOMINAL_PER_PACK)
    else:
        updates = updates_of_samples(times, samples, float(row["samples_per_step_actual"]))
    return LoggedRun(times, updates, _numbers(run["evaluation"]["durations_s"]))


def _numbers(text: str) -> Floats:
    return np.array([float(each) for each in text.split()])


def updates_at_nominal_marks(samples: Floats, per_update: float) -> Floats:
    """Return updates per block for a log with a fixed count per update: a block ends beyond its mark.

    >>> updates_at_nominal_marks(np.array([200_000, 400_000, 600_000]), 6144).tolist()
    [33.0, 33.0, 32.0]
    """
    return np.diff(np.floor(samples / per_update) + 1, prepend=0)


def updates_of_samples(block_s: Floats, samples: Floats, per_update: float) -> Floats:
    """Return updates per block for a log of real sequences, whose number varies between updates.

    Where the log has the sequences trained by the end of a block, their number says it. Where it has marks alone, a
    block ends with the first update beyond its mark, give or take what updates differ by; if that leaves a choice,
    blocks have as many updates as make them most like those around them.
    """
    marks = samples / per_update
    if not np.allclose(samples, samples[0] * np.arange(1, len(samples) + 1)):
        return np.round(np.diff(marks, prepend=0))
    ends = [np.arange(np.ceil(mark - _SLACK), np.ceil(mark + _SLACK) + 1).tolist() for mark in marks]
    updates = np.full(len(block_s), marks[0])
    for _ in range(_PASSES):
        near = np.array([_around(block_s / updates, number) for number in range(len(block_s))])
        updates = _most_even(block_s / near, ends, marks)
    return updates


def _most_even(wanted: Floats, ends: Sequence[Sequence[float]], marks: Floats) -> Floats:
    """Return updates per block close to `wanted`, whose ends lie half an update behind the marks on average.

    The first block, which may be slow, may have any.
    """
    ways: dict[float, tuple[float, tuple[float, ...]]] = {0.0: (0.0, ())}
    for number, (want, possible, mark) in enumerate(zip(wanted, ends, marks, strict=True)):
        ways = {
            end: min(
                (
                    cost + bool(number) * (end - before - want) ** 2 + _PULL * (end - mark - 0.5) ** 2,
                    (*way, end - before),
                )
                for before, (cost, way) in ways.items()
            )
            for end in possible
        }
    return np.array(min(ways.values())[1])


def _around(values: Floats, number: int) -> float:
    """Return the median of the neighbours of a value, without the first block, which may be slow."""
    first = max(1, number - _NEIGHBOURS)
    return float(np.median(np.concatenate([values[first:number], values[number + 1 : number + 1 + _NEIGHBOURS]])))


def _updates_of_epochs(spec: TrainingScenario, count: int) -> Floats:
    assert isinstance(spec.run, EpochRunSpec) and spec.data.samples_per_epoch
    batch, per_call = spec.parallelism.batch_size, int(spec.parallelism.updates_per_call(spec))
    run = EpochRun(0.0, batch, spec.data.samples_per_epoch, count, per_call)
    return np.diff([float(run.updates_after(epoch)) for epoch in range(count + 1)])


_OF_NORMAL = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""
LATE_S = 0.04
"""Delay relative to neighbouring evaluations from which on an evaluation had a slow call. [s]"""
_WINDOW = 3
"""Evaluations on either side that one is compared with."""
_THIRDS = 3
_WITHOUT_CHECKPOINT = 0.45
"""Share of epochs, the fastest, that hold no checkpoint and follow none: of every four one has one and one follows."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of the blocks of a submission's runs."""

    scenario: str  # the scenario that replays it
    role: str  # `calibration` or `hold-out`
    hosts: int
    machines: int
    update_s: float  # median time of a weight update. [s]
    calls: float  # calls from the host in a block, usually
    updates: float  # weight updates in a block, usually
    variation: float  # standard deviation of blocks of a run, drift included, over their mean
    call_s: float  # standard deviation of a call that explains the spread of neighbouring blocks. [s]
    usual_call_s: float  # the same from the middle half of the differences alone, which late calls hardly enter. [s]
    correlation: float
    skewness: float  # of the blocks of a run
    first_s: float  # what the first block takes longer than others, median over runs; 0 for epochs. [s]
    worst_first_s: float  # the same, of the run with the slowest. [s]
    drift: float  # the last third of a run over the first, mean over runs, less 1
    between_runs: float  # standard deviation of the runs' medians, over their mean
    usual_evaluation_s: float  # that of a call in evaluations, likewise from the middle half; 0 without. [s]
    evaluation_calls: int  # calls of evaluations that were compared
    late_calls: int  # evaluations that met a late call
    late_s: float  # how much longer these took beyond `LATE_S`, on average. [s]


def spread_of(logged: LoggedRuns) -> Spread:
    """Return the spread of the runs of a submission."""
    steady = [_steady(run) for run in logged.runs]
    medians = np.array([np.median(run.update_s) for run in steady])
    calls = float(np.median([np.median(run.updates) for run in steady])) / max(1, round(logged.updates_per_call))
    update_s, updates = float(np.median(medians)), calls * max(1, round(logged.updates_per_call))
    apart = _chance_differences(logged, steady) * updates / math.sqrt(calls)
    late = [each for run in logged.runs for each in _delays(run.evaluation_s)]
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
        usual_call_s=_robust_sigma(apart),
        correlation=float(np.mean([_correlation(run.update_s) for run in steady])),
        skewness=float(np.mean([_skewness(run.update_s) for run in steady])),
        first_s=float(np.median(first)),
        worst_first_s=max(first),
        drift=float(np.mean([_relative(run, _rise) for run in steady])),
        between_runs=float(np.std(medians, ddof=1) / update_s),
        usual_evaluation_s=_robust_sigma(_evaluations_apart(logged)),
        evaluation_calls=len(late) * logged.calls_per_evaluation,
        late_calls=len(beyond),
        late_s=float(np.mean(beyond)) if beyond else 0.0,
    )


def _steady(run: LoggedRun) -> LoggedRun:
    """Return the run without its first block; of epochs, only those without a checkpoint."""
    kept = np.arange(len(run.block_s)) > 0
    if not len(run.evaluation_s):
        kept &= run.update_s <= np.quantile(run.update_s, _WITHOUT_CHECKPOINT)
    return LoggedRun(run.block_s[kept], run.updates[kept], run.evaluation_s)


def _first_s(run: LoggedRun) -> float:
    """Return the extra time of the first block; zero for epochs, which may contain a checkpoint. [s]"""
    if not len(run.evaluation_s):
        return 0.0
    return float(run.block_s[0] - run.updates[0] * np.median(run.update_s[1:]))


def _chance_differences(logged: LoggedRuns, steady: Sequence[LoggedRun]) -> Floats:
    """Return differences of the mean update between blocks that differ only by chance. [s]

    Blocks are compared with neighbours of the same run, and epochs, which have checkpoints, with the same epoch of
    other runs.
    """
    if logged.calls_per_evaluation:
        return np.concatenate([np.diff(run.update_s) for run in steady])
    most = max(len(run.update_s) for run in logged.runs)
    whole = [run.update_s for run in logged.runs if len(run.update_s) == most]
    usual = np.median(whole, axis=0)
    fast = usual <= np.quantile(usual, _WITHOUT_CHECKPOINT)
    fast[0] = False
    return np.concatenate([(one - other)[fast] for one, other in combinations(whole, 2)])


def _robust_sigma(apart: Floats) -> float:
    """Return the standard deviation, from the middle half of pairwise differences."""
    return float(np.median(np.abs(apart)) * _OF_NORMAL / math.sqrt(2)) if len(apart) else 0.0


def _evaluations_apart(logged: LoggedRuns) -> Floats:
    """Return differences of neighbouring evaluations per call; the first of a run may be slow. [s]"""
    apart = [np.diff(run.evaluation_s[1:]) for run in logged.runs]
    return np.concatenate(apart) / math.sqrt(max(1, logged.calls_per_evaluation))


def _delays(evaluation_s: Floats) -> Iterator[float]:
    """Yield the delay of each evaluation but the first relative to the median of its neighbours. [s]"""
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


RUNS: Final = 20
_UPDATES: Final = 200


@dataclass(frozen=True, slots=True)
class NoisyRow:
    """A submission beside runs with noise."""

    logged: Spread  # what its logs say
    without_s: float  # a weight update without noise. [s]
    mean_s: float  # with noise, on average. [s]
    blocks: float  # standard deviation of blocks of as many updates as those in the logs, over their mean
    runs: float  # standard deviation of the means of runs, each as long as those in the logs, over their mean

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
    """Return submissions whose software stacks have noise, each with simulated runs."""
    known = {
        logged_run.scenario: logged_run
        for logged_run in logged_runs(role)
        if logged_run.spec.software.noise is not None
    }
    return tuple(_row(known[name], seed) for name in watch(list(known)))


def _row(logged: LoggedRuns, seed: int) -> NoisyRow:
    job = training_job(logged.spec)
    plan, row = make_plan(job, shared_cost_model(job)), spread_of(logged)
    without = execute(compile_program(plan), explicit=False)
    runs = all_runs(job_of(logged.spec, plan, _UPDATES, seed), RUNS, without.event_count)
    mean_s = float(np.mean([run.times_s for run in runs]))
    within_s = float(np.std([run.times_s - run.level_s for run in runs]))
    level_s = float(np.std([run.level_s for run in runs], ddof=1))
    whole = np.mean([np.sum(run.updates) for run in logged.runs])
    return NoisyRow(
        logged=row,
        without_s=ps_to_seconds(without.makespan_ps),
        mean_s=mean_s,
        blocks=within_s / (mean_s * math.sqrt(row.updates)),
        runs=math.hypot(level_s, within_s / math.sqrt(whole)) / mean_s,
    )


def mean_factor(rows: Sequence[NoisyRow]) -> float:
    """Return the geometric root mean square factor between predicted and logged spread; 1 without rows."""
    squares = [math.log(row.factor) ** 2 for row in rows]
    return math.exp(math.sqrt(math.fsum(squares) / max(1, len(squares))))
