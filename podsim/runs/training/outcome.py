"""Time-to-train: a run of set-up, weight updates and evaluations, from the time of one weight update.

Its number of samples is given, or sampled from MLPerf's reference convergence points. A run of a fixed number of epochs
has a host loop, checkpoints, and a validation of every checkpoint at the end.

Source: [mlperf_logs] for the parts of such runs, [tensorflow_cnns] for the host loop.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from podsim import disk, draws, memo
from podsim.engine import execute
from podsim.errors import MissingDataError
from podsim.format import format_percent
from podsim.models.op import DTYPE_BYTES
from podsim.placement import Plan
from podsim.program.compile import compile_evaluation
from podsim.result.training_times import EpochRun, Schedule, TrainingOutcome, TrainingRun
from podsim.scenario import TrainingScenario, data_file
from podsim.scenario.transformer_training import LoggedConvergence, LoggedUpdates, RunSpec, whole_updates
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from podsim.scenario.convnet_training import EpochRunSpec, ValidationSpec


def run_of_updates(schedule: Schedule, update_count: int) -> TrainingRun:
    """Return a run of a fixed number of weight updates, with the evaluations that fall into it."""
    every = schedule.evaluation_every_samples
    evaluations = 0 if every is None else math.floor(update_count * schedule.samples_per_update / every)
    return TrainingRun(
        update_count=update_count,
        evaluation_count=evaluations,
        setup_s=schedule.setup_s,
        training_s=update_count * schedule.update_s,
        evaluation_s=evaluations * schedule.evaluation_s,
    )


def runs_to_convergence(schedule: Schedule, samples: Iterable[float]) -> Iterator[TrainingRun]:
    """Yield runs that end at the first evaluation after the given numbers of samples.

    An evaluation takes place after the weight update that passes its mark, so a logged number of samples may be up to
    one update above its mark. Runs that end at the same mark are equal.
    """
    every, per_update = schedule.evaluation_every_samples, schedule.samples_per_update
    if every is None:
        updates = (math.ceil(sample / per_update) for sample in samples)
        yield from map(cache(partial(run_of_updates, schedule)), updates)
        return
    at_mark = cache(partial(_run_of_evaluations, schedule, every))
    for sample in samples:
        yield at_mark(max(1, math.ceil((sample - per_update) / every)))


def _run_of_evaluations(schedule: Schedule, every: float, marks: int) -> TrainingRun:
    updates = math.ceil(marks * every / schedule.samples_per_update)
    return TrainingRun(
        update_count=updates,
        evaluation_count=marks,
        setup_s=schedule.setup_s,
        training_s=updates * schedule.update_s,
        evaluation_s=marks * schedule.evaluation_s,
    )


class Timed(Protocol):
    """Run of any kind."""

    @property
    def time_to_train_s(self) -> float:
        """Time of the whole run. [s]"""


def percentiles(runs: Sequence[Timed]) -> dict[str, float]:
    """Return `p10`, `p50`, `p90` of time-to-train: the value that this share of runs does not exceed. [s]"""
    return draws.percentiles(run.time_to_train_s for run in runs)


def mean_run(runs: Sequence[TrainingRun]) -> dict[str, float]:
    """Return the mean time of each part of a run. [s]"""
    count = len(runs)
    return {
        part: math.fsum(getattr(run, f"{part}_s") for run in runs) / count
        for part in ("setup", "training", "evaluation")
    }


def mean_update_count(runs: Sequence[TrainingRun]) -> float:
    """Return the mean number of weight updates of a run."""
    return math.fsum(run.update_count for run in runs) / len(runs)


_INTERVAL_SAMPLES = 25_000
_INTERVAL_SHARE = 0.05
_INTERVAL_SLOPE, _INTERVAL_OFFSET = 230.23, 3_000_000


@dataclass(frozen=True, slots=True)
class ReferencePoint:
    """Samples to converge of reference runs at one batch size."""

    batch_size: int  # samples per weight update
    samples: tuple[int, ...]  # samples to converge, one per run


def evaluation_interval_samples(batch_size: float) -> int:
    """Return the samples between evaluations by MLPerf's rule for BERT: floor(0.05·(230.23·GBS + 3e6) / 25000)·25000.

    Source: [mlperf_training_rules].

    >>> evaluation_interval_samples(3072), evaluation_interval_samples(6144)
    (175000, 200000)
    """
    share = _INTERVAL_SHARE * (_INTERVAL_SLOPE * batch_size + _INTERVAL_OFFSET)
    return math.floor(share / _INTERVAL_SAMPLES) * _INTERVAL_SAMPLES


def draw_samples_to_converge(
    points: Sequence[ReferencePoint], batch_size: float, draw_count: int, seed: int
) -> tuple[float, ...]:
    """Sample the samples to converge of runs: quantiles, interpolated between the reference points around the batch."""
    known = sorted(points, key=lambda point: point.batch_size)
    if not known or not known[0].batch_size <= batch_size <= known[-1].batch_size:
        span = f"{known[0].batch_size} to {known[-1].batch_size}" if known else "none"
        raise MissingDataError(
            f"no reference convergence for {batch_size:,.0f} samples per weight update (known: {span})",
            do="give run.samples_to_converge as a number",
        )
    key = disk.digest(
        [b"draws", memo.SOURCES.get(__name__, _source), repr((known, batch_size, draw_count, seed)).encode()]
    )
    return memo.DRAWS.get(
        key, lambda: disk.cached(key, lambda: _drawn(known, batch_size, draw_count, seed), list, _numbers)
    )


def _numbers(data: Sequence[object]) -> tuple[float, ...]:
    """Return cached samples."""
    found = tuple(each for each in data if isinstance(each, float))
    if len(found) != len(data):
        raise TypeError(data)
    return found


def _source() -> bytes:
    """Return a hash of the code that samples, and of the version of the library of random numbers."""
    return disk.source([Path(__file__), disk.library("numpy").with_name("version.py")])


def _drawn(known: Sequence[ReferencePoint], batch_size: float, draw_count: int, seed: int) -> tuple[float, ...]:
    """Sample between reference points, which are in the order of their batch sizes."""
    import numpy as np  # slow import, not needed for cached samples

    quantiles = np.random.default_rng(seed).random(draw_count)
    upper = next(i for i, point in enumerate(known) if point.batch_size >= batch_size)
    lower = max(upper - 1, 0) if known[upper].batch_size > batch_size else upper
    low, high = (np.quantile(known[i].samples, quantiles) for i in (lower, upper))
    gap = known[upper].batch_size - known[lower].batch_size
    weight = (batch_size - known[lower].batch_size) / gap if gap else 0.0
    return tuple(float(value) for value in low + weight * (high - low))


def mlperf_score(values: Sequence[float]) -> float:
    """Return MLPerf's olympic mean: the mean without the best and the worst run; of fewer than three runs, of all.

    >>> mlperf_score([1.0, 2.0, 3.0, 10.0])
    2.5
    """
    kept = sorted(values)[1:-1] if len(values) > 2 else list(values)
    return math.fsum(kept) / len(kept)


@lru_cache
def reference_points(benchmark: str) -> tuple[ReferencePoint, ...]:
    """Return the samples to converge of MLPerf's reference runs, by batch size. Source: [mlperf_rcp]."""
    with data_file("reference_data/mlperf_rcp.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["benchmark"] == benchmark]
    return tuple(ReferencePoint(int(row["gbs"]), tuple(int(run) for run in row["runs"].split())) for row in rows)


_ROUNDING: Final = 1e-12
_DRAWS: Final = 1000
"""Number of sampled runs if the length of a run is not known for a batch."""


def train(spec: TrainingScenario, plan: Plan, update_s: float) -> TrainingOutcome:
    """Return the run of a scenario, from the time of one weight update."""
    if spec.run is None:
        return TrainingOutcome(_samples_per_update(plan))
    if isinstance(spec.run, RunSpec):
        return _samples(spec, spec.run, _schedule(spec.run, _samples_per_update(plan), plan, update_s), plan)
    from podsim.scenario.convnet_training import EpochRunSpec  # not needed for transformers

    if isinstance(spec.run, EpochRunSpec):
        return _epochs(spec, spec.run, plan, update_s)
    return TrainingOutcome(_samples_per_update(plan))


def _samples(spec: TrainingScenario, run: RunSpec, schedule: Schedule, plan: Plan) -> TrainingOutcome:
    work, updates = run.sample_count(spec), run.weight_updates
    if work is not None:
        updates = whole_updates(work, schedule.samples_per_update)
    if isinstance(updates, LoggedUpdates):
        if updates.batch_size != plan.layout.batch_size:
            return _without_updates(updates, schedule, plan)
        updates = updates.count
    if updates is not None:
        return _given_outcome([run_of_updates(schedule, updates)], schedule)
    samples = run.samples_to_converge
    if isinstance(samples, LoggedConvergence):
        if samples.batch_size != plan.layout.batch_size:
            found = _at_another_batch(spec, plan, samples.batch_size, lambda drawn: _converged(drawn, schedule))
            is_new_rule = samples.division == "open" and found.percentiles is not None
            return replace(found, notes=(_other_rules(spec, samples, schedule, plan),)) if is_new_rule else found
        samples = samples.runs
    if isinstance(samples, (int, float)):
        samples = (samples,)
    if isinstance(samples, tuple):
        return _given_outcome(list(runs_to_convergence(schedule, samples)), schedule)
    if samples is None:
        return TrainingOutcome(schedule.samples_per_update)
    points = reference_points(spec.benchmark or "")
    drawn = draw_samples_to_converge(points, schedule.samples_per_update, run.draws, run.seed)
    return _converged(drawn, schedule)


def _converged(drawn: Sequence[float], schedule: Schedule) -> TrainingOutcome:
    runs = list(runs_to_convergence(schedule, drawn))
    parts, updates = mean_run(runs), mean_update_count(runs)
    times_s = tuple(run.time_to_train_s for run in runs)
    return TrainingOutcome(
        schedule.samples_per_update, None, percentiles(runs), parts, updates, times_s, tuple(runs), schedule
    )


def _without_updates(updates: LoggedUpdates, schedule: Schedule, plan: Plan) -> TrainingOutcome:
    """Return an outcome without a time to train, since weight updates are given for another batch, and the cure."""
    here = plan.layout.batch_size
    samples = math.ceil(updates.count * updates.batch_size * (schedule.samples_per_update / here) * (1 - _ROUNDING))
    why = f"{updates.count:,} of run.weight_updates are of a batch of {updates.batch_size:,}, and the batch is {here:,}"
    cure = f"write `run.weight_updates=null` and `run.samples={samples}` for as many samples in this batch"
    return TrainingOutcome(schedule.samples_per_update, notes=(f"no time to train: {why}; {cure}",))


def _other_rules(spec: TrainingScenario, logged: LoggedConvergence, schedule: Schedule, plan: Plan) -> str:
    """Return a note that the logged runs are of the open division and the sampled ones of the closed division."""
    here, known = plan.layout.batch_size, logged.batch_size
    own = sum(logged.runs) / len(logged.runs)
    try:
        samples = schedule.samples_per_update / here * known
        drawn = draw_samples_to_converge(reference_points(spec.benchmark or ""), samples, _DRAWS, seed=0)
        share = sum(drawn) / len(drawn) / own - 1
        more = f"; at {known:,} the reference runs need {format_percent(share, 0)} more samples"
    except MissingDataError:
        more = ""
    return (
        f"other rules: the runs of this file are of MLPerf's open division, logged for {known:,} per weight update. "
        f"For {here:,} the time is drawn from MLPerf's reference runs of the closed division{more}. Compare it with "
        "a run of the closed division, not with the time of this file"
    )


def _at_another_batch(
    spec: TrainingScenario, plan: Plan, known: int, of_drawn: Callable[[Sequence[float]], TrainingOutcome]
) -> TrainingOutcome:
    """Return the run sampled from reference runs of the same network at this batch, or without a time to train."""
    samples, here = _samples_per_update(plan), plan.layout.batch_size
    why = f"how long the run goes on is logged for {known:,} per weight update, not for {here:,}"
    try:
        drawn = draw_samples_to_converge(reference_points(spec.benchmark or ""), samples, _DRAWS, seed=0)
    except MissingDataError:
        ends = "run.samples_to_converge" if hasattr(spec.run, "samples_to_converge") else "run.epochs or run.samples"
        cure = f"give {ends} as a number for this batch"
        return TrainingOutcome(samples, notes=(f"no time to train: {why}; {cure}",))
    return replace(of_drawn(drawn), notes=(f"{why}: drawn from MLPerf's reference runs",))


def _given_outcome(runs: list[TrainingRun], schedule: Schedule) -> TrainingOutcome:
    times_s = tuple(run.time_to_train_s for run in runs)
    score = mlperf_score(times_s)
    parts, updates = mean_run(runs), mean_update_count(runs)
    return TrainingOutcome(schedule.samples_per_update, score, None, parts, updates, times_s, tuple(runs), schedule)


def _samples_per_update(plan: Plan) -> float:
    layout = plan.layout
    return plan.workload.samples_per_micro_batch * layout.accumulation_factor * layout.replication_factor


def _schedule(run: RunSpec, samples: float, plan: Plan, update_s: float) -> Schedule:
    setup = plan.software.setup_s if run.setup is None else run.setup
    evaluation = run.evaluation
    if evaluation is None:
        return Schedule(update_s, samples, setup, None, 0)
    every = evaluation.every_samples or evaluation_interval_samples(samples)
    step_s = update_s
    if plan.software.evaluation == "forward_passes":
        step_s = ps_to_seconds(execute(compile_evaluation(plan)).makespan_ps)
    return Schedule(update_s, samples, setup, every, evaluation.samples, step_s)


def _epochs(spec: TrainingScenario, run: EpochRunSpec, plan: Plan, update_s: float) -> TrainingOutcome:
    if run.batch_size not in (None, plan.layout.batch_size):
        return _at_another_batch(
            spec, plan, run.batch_size, lambda drawn: _drawn_epochs(spec, run, plan, update_s, drawn)
        )
    if not (epochs := run.epoch_count(spec.data.samples_per_epoch or 1)):
        return TrainingOutcome(_samples_per_update(plan))
    made = _epoch_run(spec, run, plan, update_s, epochs)
    time_s = made.time_to_train_s
    parts, updates = made.breakdown, made.update_count
    return TrainingOutcome(made.samples_per_update, time_s, None, parts, updates, (time_s,), (made,))


def _drawn_epochs(
    spec: TrainingScenario, run: EpochRunSpec, plan: Plan, update_s: float, drawn: Sequence[float]
) -> TrainingOutcome:
    one = _epoch_run(spec, run, plan, update_s, drawn[0])
    of = {epochs: replace(one, epoch_count=epochs) for epochs in set(drawn)}
    runs = [of[epochs] for epochs in drawn]
    parts = {part: math.fsum(each.breakdown[part] for each in runs) / len(runs) for part in runs[0].breakdown}
    updates = math.fsum(each.update_count for each in runs) / len(runs)
    times_s = tuple(each.time_to_train_s for each in runs)
    return TrainingOutcome(_samples_per_update(plan), None, percentiles(runs), parts, updates, times_s, tuple(runs))


def _epoch_run(spec: TrainingScenario, run: EpochRunSpec, plan: Plan, update_s: float, epochs: float) -> EpochRun:
    return EpochRun(
        update_s=update_s,
        samples_per_update=_samples_per_update(plan),
        samples_per_epoch=spec.data.samples_per_epoch or 0,
        epoch_count=epochs,
        updates_per_session_call=max(1, int(plan.layout.updates_per_session_call)),
        setup_s=0.0 if run.setup is None else run.setup,
        checkpoint_every_epochs=run.checkpoint.every_epochs if run.checkpoint else 0,
        checkpoint_s=_checkpoint_s(plan) if run.checkpoint else 0.0,
        validation_setup_s=_validation_setup_s(run.validation, plan) if run.validation else 0.0,
        restore_s=_checkpoint_bytes(plan)
        * spec.parallelism.host_process_count(spec)
        / plan.system.machine.host_link.bandwidth_bytes_per_s,
        evaluation_s=_evaluation_s(run.validation.samples, plan) if run.validation else 0.0,
    )


def _checkpoint_bytes(plan: Plan) -> float:
    """Return the size of the weights in single precision, as in checkpoints. [B]"""
    return (plan.workload.whole or plan.workload).parameter_count * DTYPE_BYTES["fp32"]


def _checkpoint_s(plan: Plan) -> float:
    """Return the time to read the weights over the host link, plus the framework's overhead. [s]"""
    cost = plan.software.checkpoint_s
    if cost is None:
        raise MissingDataError(
            f"{plan.software.name} does not say what a checkpoint costs",
            do="set `software.checkpoint`, for example to `2.5 s`",
            key="run.checkpoint",
        )
    return cost + _checkpoint_bytes(plan) / plan.system.machine.host_link.bandwidth_bytes_per_s


def _validation_setup_s(validation: ValidationSpec, plan: Plan) -> float:
    if validation.setup is not None:
        return validation.setup
    if plan.software.validation_setup_s is None:
        raise MissingDataError(
            f"{plan.software.name} does not say how long the set-up of a validation takes",
            do="set `run.validation.setup`, for example to `20 s`",
            key="run.validation",
        )
    return plan.software.validation_setup_s


def _evaluation_s(samples: int, plan: Plan) -> float:
    """Return the time of the forward passes over the validation set on all replicas. [s]"""
    rounds = math.ceil(samples / (plan.layout.micro_batch_size * plan.layout.replication_factor))
    slowest = max(stage.forward.cycles for stage in plan.stages)
    return (rounds + len(plan.stages) - 1) * slowest / plan.system.machine.ipu.clock_hz
