"""A training run: set-up, weight updates, evaluations; from one weight update to time-to-train."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Protocol

from podsim import draws


@dataclass(frozen=True, slots=True)
class Schedule:
    """The parts of a run.

    Attributes:
        update_s: Time of one weight update. [s]
        samples_per_update: Samples trained by one weight update.
        setup_s: From the start of the run to the first weight update. [s]
        evaluation_every_samples: Samples between evaluations; None for a run without.
        evaluation_samples: Samples of one evaluation.
        evaluation_step_s: Time in which as many samples are evaluated as one weight update trains; that of a
            weight update if left out. [s]
    """

    update_s: float
    samples_per_update: float
    setup_s: float
    evaluation_every_samples: int | None
    evaluation_samples: int
    evaluation_step_s: float | None = None

    @property
    def evaluation_s(self) -> float:
        """Time of one evaluation. [s]

        It runs on whole batches, either in the training program with its optimizer zeroed, so that each
        lasts as long as a weight update, or in a program of forward passes. Source: [mlperf_logs].
        """
        step_s = self.update_s if self.evaluation_step_s is None else self.evaluation_step_s
        return math.ceil(self.evaluation_samples / self.samples_per_update) * step_s


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One run from start to convergence.

    Attributes:
        update_count: Weight updates.
        evaluation_count: Evaluations.
        setup_s: Time before the first weight update. [s]
        training_s: Time of the weight updates. [s]
        evaluation_s: Time of the evaluations. [s]
    """

    update_count: int
    evaluation_count: int
    setup_s: float
    training_s: float
    evaluation_s: float

    @property
    def time_to_train_s(self) -> float:
        """Time of the whole run. [s]"""
        return self.setup_s + self.training_s + self.evaluation_s


def run_of_updates(schedule: Schedule, update_count: int) -> TrainingRun:
    """A run of a fixed number of weight updates, and the evaluations whose mark it passes."""
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
    """Runs that end at the first evaluation at which so many samples have been seen.

    An evaluation takes place after the weight update that passes its mark, so a logged number of
    samples may lie up to one update above the mark it belongs to. Runs that end at the same mark are equal.
    """
    every, per_update = schedule.evaluation_every_samples, schedule.samples_per_update
    if every is None:
        updates = (math.ceil(each / per_update) for each in samples)
        yield from map(cache(partial(run_of_updates, schedule)), updates)
        return
    at_mark = cache(partial(_run_of_evaluations, schedule, every))
    for each in samples:
        yield at_mark(max(1, math.ceil((each - per_update) / every)))


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
    """A run of some kind."""

    @property
    def time_to_train_s(self) -> float:
        """Time of the whole run. [s]"""


def percentiles(runs: Sequence[Timed]) -> dict[str, float]:
    """`p10`, `p50`, `p90` of time-to-train: the value that this share of runs does not exceed. [s]"""
    return draws.percentiles(run.time_to_train_s for run in runs)


def mean_run(runs: Sequence[TrainingRun]) -> dict[str, float]:
    """Mean time of each part of a run. [s]"""
    count = len(runs)
    return {
        part: math.fsum(getattr(run, f"{part}_s") for run in runs) / count
        for part in ("setup", "training", "evaluation")
    }


def mean_update_count(runs: Sequence[TrainingRun]) -> float:
    """Weight updates of a run, on average."""
    return math.fsum(run.update_count for run in runs) / len(runs)
