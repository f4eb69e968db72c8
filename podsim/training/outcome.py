"""What a scenario's run comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from podsim.plan import Plan
from podsim.specs import ScenarioSpec
from podsim.training.convergence import draw_samples_to_converge, evaluation_interval_samples, mlperf_score
from podsim.training.reference import reference_points
from podsim.training.run import (
    Schedule,
    TrainingRun,
    mean_run,
    percentiles,
    run_of_updates,
    run_to_convergence,
)


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """Time-to-train and its parts.

    Attributes:
        schedule: What the run is made of.
        time_to_train_s: When convergence is given; the olympic mean over several given runs. [s]
        percentiles: `p10`, `p50`, `p90` of time-to-train when convergence is drawn. [s]
        breakdown: Mean time of set-up, training and evaluation. [s]
    """

    schedule: Schedule
    time_to_train_s: float | None
    percentiles: Mapping[str, float] | None
    breakdown: Mapping[str, float]


def train(spec: ScenarioSpec, plan: Plan, update_s: float) -> TrainingOutcome:
    """The run of a scenario, given the time of one weight update.

    Raises:
        MissingDataError: Convergence is to be drawn and the batch size has no reference points.
    """
    schedule = _schedule(spec, plan, update_s)
    run = spec.run
    if run is None:
        return TrainingOutcome(schedule, None, None, {})
    if run.weight_updates is not None:
        return _given([run_of_updates(schedule, run.weight_updates)], schedule)
    samples = run.samples_to_converge
    if isinstance(samples, (int, float)):
        return _given([run_to_convergence(schedule, samples)], schedule)
    if isinstance(samples, tuple):
        return _given([run_to_convergence(schedule, each) for each in samples], schedule)
    if samples is None:
        return TrainingOutcome(schedule, None, None, {})
    drawn = draw_samples_to_converge(reference_points("bert"), schedule.samples_per_update, run.draws, run.seed)
    runs = [run_to_convergence(schedule, each) for each in drawn]
    return TrainingOutcome(schedule, None, percentiles(runs), mean_run(runs))


def _given(runs: list[TrainingRun], schedule: Schedule) -> TrainingOutcome:
    return TrainingOutcome(schedule, mlperf_score([run.time_to_train_s for run in runs]), None, mean_run(runs))


def _schedule(spec: ScenarioSpec, plan: Plan, update_s: float) -> Schedule:
    options = plan.options
    samples = plan.workload.samples_per_micro_batch * options.accumulation_factor * options.replication_factor
    run = spec.run
    evaluation = run.evaluation if run else None
    setup = run.setup.value if run and run.setup else plan.software.setup_s
    every = None
    if evaluation is not None:
        every = evaluation.every_samples or evaluation_interval_samples(samples)
    return Schedule(update_s, samples, setup, every, evaluation.samples if evaluation else 0)
