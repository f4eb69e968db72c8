"""Time-to-train of a scenario's run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from podsim.errors import MissingDataError
from podsim.plan import Plan
from podsim.specs import TrainingScenario
from podsim.specs.convnet_training import EpochRunSpec, ValidationSpec
from podsim.specs.run import RunSpec
from podsim.training.convergence import draw_samples_to_converge, evaluation_interval_samples, mlperf_score
from podsim.training.epochs import EpochRun, updates_per_call
from podsim.training.reference import reference_points
from podsim.training.run import (
    Schedule,
    TrainingRun,
    mean_run,
    mean_update_count,
    percentiles,
    run_of_updates,
    run_to_convergence,
)
from podsim.workload.op import DTYPE_BYTES


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """Time-to-train and its parts.

    Attributes:
        samples_per_update: Samples trained by one weight update.
        time_to_train_s: When convergence is given; the olympic mean over several given runs. [s]
        percentiles: `p10`, `p50`, `p90` of time-to-train when convergence is drawn. [s]
        breakdown: Mean time of set-up, training, checkpoints and evaluation. [s]
        update_count: Weight updates of the run, on average.
    """

    samples_per_update: float
    time_to_train_s: float | None = None
    percentiles: Mapping[str, float] | None = None
    breakdown: Mapping[str, float] = field(default_factory=dict)
    update_count: float | None = None


def train(spec: TrainingScenario, plan: Plan, update_s: float) -> TrainingOutcome:
    """The run of a scenario, given the time of one weight update.

    Raises:
        MissingDataError: Convergence is to be drawn and the batch size has no reference points, or the
            software stack does not say what a checkpoint costs.
    """
    samples = _samples_per_update(plan)
    match spec.run:
        case RunSpec():
            return _samples(spec, spec.run, _schedule(spec.run, samples, plan, update_s))
        case EpochRunSpec():
            return _epochs(spec, spec.run, plan, update_s)
    return TrainingOutcome(samples)


def _samples(spec: TrainingScenario, run: RunSpec, schedule: Schedule) -> TrainingOutcome:
    updates = run.weight_updates
    if run.epochs is not None:
        updates = math.ceil((spec.data.samples_per_epoch or 0) * run.epochs / schedule.samples_per_update)
    if updates is not None:
        return _given([run_of_updates(schedule, updates)], schedule)
    samples = run.samples_to_converge
    if isinstance(samples, (int, float)):
        return _given([run_to_convergence(schedule, samples)], schedule)
    if isinstance(samples, tuple):
        return _given([run_to_convergence(schedule, each) for each in samples], schedule)
    if samples is None:
        return TrainingOutcome(schedule.samples_per_update)
    points = reference_points(spec.model.reference_benchmark or "")
    drawn = draw_samples_to_converge(points, schedule.samples_per_update, run.draws, run.seed)
    runs = [run_to_convergence(schedule, each) for each in drawn]
    return TrainingOutcome(
        schedule.samples_per_update, None, percentiles(runs), mean_run(runs), mean_update_count(runs)
    )


def _given(runs: list[TrainingRun], schedule: Schedule) -> TrainingOutcome:
    score = mlperf_score([run.time_to_train_s for run in runs])
    return TrainingOutcome(schedule.samples_per_update, score, None, mean_run(runs), mean_update_count(runs))


def _samples_per_update(plan: Plan) -> float:
    layout = plan.layout
    return plan.workload.samples_per_micro_batch * layout.accumulation_factor * layout.replication_factor


def _schedule(run: RunSpec, samples: float, plan: Plan, update_s: float) -> Schedule:
    setup = plan.software.setup_s if run.setup is None else run.setup
    evaluation, every = run.evaluation, None
    if evaluation is not None:
        every = evaluation.every_samples or evaluation_interval_samples(samples)
    return Schedule(update_s, samples, setup, every, evaluation.samples if evaluation else 0)


def _epochs(spec: TrainingScenario, run: EpochRunSpec, plan: Plan, update_s: float) -> TrainingOutcome:
    samples, of_epoch = _samples_per_update(plan), spec.data.samples_per_epoch or 0
    made = EpochRun(
        update_s=update_s,
        samples_per_update=samples,
        samples_per_epoch=of_epoch,
        epoch_count=run.epochs,
        updates_per_session_call=updates_per_call(of_epoch, samples, run.session_calls_per_epoch),
        setup_s=0.0 if run.setup is None else run.setup,
        checkpoint_every_epochs=run.checkpoint.every_epochs if run.checkpoint else 0,
        checkpoint_s=_checkpoint_s(plan) if run.checkpoint else 0.0,
        validation_setup_s=_validation_setup_s(run.validation, plan) if run.validation else 0.0,
        restore_s=_checkpoint_bytes(plan)
        * spec.parallelism.host_process_count
        / plan.system.machine.host_link.bandwidth_bytes_per_s,
        evaluation_s=_evaluation_s(run.validation.samples, plan) if run.validation else 0.0,
    )
    return TrainingOutcome(samples, made.time_to_train_s, None, made.breakdown, made.update_count)


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
