"""Time-to-train of a scenario's run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from podsim.engine import execute
from podsim.errors import MissingDataError
from podsim.models.op import DTYPE_BYTES
from podsim.placement import Plan
from podsim.program.compile import compile_evaluation
from podsim.runs.training.convergence import (
    draw_samples_to_converge,
    evaluation_interval_samples,
    mlperf_score,
)
from podsim.runs.training.epochs import EpochRun
from podsim.runs.training.reference import reference_points
from podsim.runs.training.run import (
    Schedule,
    TrainingRun,
    mean_run,
    mean_update_count,
    percentiles,
    run_of_updates,
    runs_to_convergence,
)
from podsim.scenario import TrainingScenario
from podsim.scenario.transformer_training import LoggedConvergence, RunSpec
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from podsim.scenario.convnet_training import EpochRunSpec, ValidationSpec

_DRAWS: Final = 1000
"""Imagined runs where the length of a run is not known for a batch."""


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """Time-to-train and its parts.

    Attributes:
        samples_per_update: Samples trained by one weight update.
        time_to_train_s: When convergence is given; the olympic mean over several given runs. [s]
        percentiles: `p10`, `p50`, `p90` of time-to-train when convergence is drawn. [s]
        breakdown: Mean time of set-up, training, checkpoints and evaluation. [s]
        update_count: Weight updates of the run, on average.
        times_s: Time of each run that is given or drawn. [s]
        runs: Those runs.
        schedule: The parts that they are made of, where they end after a number of samples or weight updates.
        notes: What a reader must know of how they come about.
    """

    samples_per_update: float
    time_to_train_s: float | None = None
    percentiles: Mapping[str, float] | None = None
    breakdown: Mapping[str, float] = field(default_factory=dict)
    update_count: float | None = None
    times_s: tuple[float, ...] = ()
    runs: tuple[TrainingRun | EpochRun, ...] = ()
    schedule: Schedule | None = None
    notes: tuple[str, ...] = ()


def train(spec: TrainingScenario, plan: Plan, update_s: float) -> TrainingOutcome:
    """The run of a scenario, given the time of one weight update.

    Raises:
        MissingDataError: Convergence is to be drawn and the batch size has no reference points, or the
            software stack does not say what a checkpoint costs.
    """
    if spec.run is None:
        return TrainingOutcome(_samples_per_update(plan))
    if isinstance(spec.run, RunSpec):
        return _samples(spec, spec.run, _schedule(spec.run, _samples_per_update(plan), plan, update_s), plan)
    from podsim.scenario.convnet_training import EpochRunSpec  # whose sections transformers do without

    if isinstance(spec.run, EpochRunSpec):
        return _epochs(spec, spec.run, plan, update_s)
    return TrainingOutcome(_samples_per_update(plan))


def _samples(spec: TrainingScenario, run: RunSpec, schedule: Schedule, plan: Plan) -> TrainingOutcome:
    updates = run.weight_updates
    if run.epochs is not None:
        updates = math.ceil((spec.data.samples_per_epoch or 0) * run.epochs / schedule.samples_per_update)
    if updates is not None:
        return _given([run_of_updates(schedule, updates)], schedule)
    samples = run.samples_to_converge
    if isinstance(samples, LoggedConvergence):
        if samples.batch_size != plan.layout.batch_size:
            return _at_another_batch(spec, plan, samples.batch_size, lambda drawn: _converged(drawn, schedule))
        samples = samples.runs
    if isinstance(samples, (int, float)):
        samples = (samples,)
    if isinstance(samples, tuple):
        return _given(list(runs_to_convergence(schedule, samples)), schedule)
    if samples is None:
        return TrainingOutcome(schedule.samples_per_update)
    points = reference_points(spec.benchmark or "")
    drawn = draw_samples_to_converge(points, schedule.samples_per_update, run.draws, run.seed)
    return _converged(drawn, schedule)


def _converged(drawn: Sequence[float], schedule: Schedule) -> TrainingOutcome:
    runs = list(runs_to_convergence(schedule, drawn))
    parts, updates = mean_run(runs), mean_update_count(runs)
    times_s = _times_s(runs)
    return TrainingOutcome(
        schedule.samples_per_update, None, percentiles(runs), parts, updates, times_s, tuple(runs), schedule
    )


def _at_another_batch(
    spec: TrainingScenario, plan: Plan, known: int, of_drawn: Callable[[Sequence[float]], TrainingOutcome]
) -> TrainingOutcome:
    """The run drawn from reference runs of the very network at this batch; without any no time to train, and why."""
    samples, here = _samples_per_update(plan), plan.layout.batch_size
    why = f"how long the run goes on is logged for {known:,} per weight update, not for {here:,}"
    try:
        drawn = draw_samples_to_converge(reference_points(spec.benchmark or ""), samples, _DRAWS, seed=0)
    except MissingDataError:
        cure = "give run.samples_to_converge or run.epochs as a number for this batch"
        return TrainingOutcome(samples, notes=(f"no time to train: {why}; {cure}",))
    return replace(of_drawn(drawn), notes=(f"{why}: drawn from MLPerf's reference runs",))


def _given(runs: list[TrainingRun], schedule: Schedule) -> TrainingOutcome:
    score = mlperf_score([run.time_to_train_s for run in runs])
    parts, updates = mean_run(runs), mean_update_count(runs)
    times_s = _times_s(runs)
    return TrainingOutcome(schedule.samples_per_update, score, None, parts, updates, times_s, tuple(runs), schedule)


def _times_s(runs: list[TrainingRun]) -> tuple[float, ...]:
    return tuple(run.time_to_train_s for run in runs)


def _samples_per_update(plan: Plan) -> float:
    layout = plan.layout
    return plan.workload.samples_per_micro_batch * layout.accumulation_factor * layout.replication_factor


def _schedule(run: RunSpec, samples: float, plan: Plan, update_s: float) -> Schedule:
    setup = plan.software.setup_s if run.setup is None else run.setup
    evaluation = run.evaluation
    if evaluation is None:
        return Schedule(update_s, samples, setup, None, 0)
    every = evaluation.every_samples or evaluation_interval_samples(samples)
    step_s = _forward_s(plan) if plan.software.evaluation == "forward_passes" else update_s
    return Schedule(update_s, samples, setup, every, evaluation.samples, step_s)


def _forward_s(plan: Plan) -> float:
    """The forward passes of as many samples as one weight update trains, with their session call. [s]"""
    return ps_to_seconds(execute(compile_evaluation(plan)).makespan_ps)


def _epochs(spec: TrainingScenario, run: EpochRunSpec, plan: Plan, update_s: float) -> TrainingOutcome:
    if run.batch_size not in (None, plan.layout.batch_size):
        return _at_another_batch(
            spec, plan, run.batch_size, lambda drawn: _drawn_epochs(spec, run, plan, update_s, drawn)
        )
    if run.epoch_count is None:
        return TrainingOutcome(_samples_per_update(plan))
    made = _epoch_run(spec, run, plan, update_s, run.epoch_count)
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
    """Weights in single precision, as checkpoints hold them. [B]"""
    return plan.workload.parameter_count * DTYPE_BYTES["fp32"]


def _checkpoint_s(plan: Plan) -> float:
    """Reading the weights back over the host link, and what the framework adds. [s]"""
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
    """The forward pass over the validation set on all replicas. [s]"""
    rounds = math.ceil(samples / (plan.layout.micro_batch_size * plan.layout.replication_factor))
    slowest = max(stage.forward.cycles for stage in plan.stages)
    return (rounds + len(plan.stages) - 1) * slowest / plan.system.machine.ipu.clock_hz
