"""Parts of one training run, from start to end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from podsim.result.training_times import EpochRun, Schedule, TrainingRun


@dataclass(frozen=True, slots=True)
class RunPart:
    """Part of a run."""

    kind: str  # `setup`, `training`, `checkpoint`, `load` or `evaluation`
    time_s: float  # duration [s]
    update_count: int  # weight updates of the run at its end
    epoch: int = 0  # its epoch, or the epoch of its checkpoint; 0 without epochs


def parts_of_samples(run: TrainingRun, schedule: Schedule) -> Iterator[RunPart]:
    """Yield set-up, training up to each evaluation's mark, and each evaluation; their times add up to the run's."""
    yield RunPart("setup", run.setup_s, 0)
    done = 0
    for mark in range(1, run.evaluation_count + 1):
        reached = math.ceil(mark * (schedule.evaluation_every_samples or 0) / schedule.samples_per_update)
        yield RunPart("training", (reached - done) * schedule.update_s, reached)
        yield RunPart("evaluation", schedule.evaluation_s, reached)
        done = reached
    if run.update_count > done:
        yield RunPart("training", (run.update_count - done) * schedule.update_s, run.update_count)


def parts_of_epochs(run: EpochRun) -> Iterator[RunPart]:
    """Yield set-up, epochs, checkpoints, and the validation of each checkpoint; their times add up to the run's.

    The last epoch has a checkpoint, so that the first may have none. Source: [mlperf_logs].
    """
    yield RunPart("setup", run.setup_s, 0)
    saved, done = _saved_epochs(run), 0
    for epoch in range(1, epochs_of(run) + 1):
        reached = run.updates_after(epoch)
        yield RunPart("training", (reached - done) * run.update_s, reached, epoch)
        if epoch in saved:
            yield RunPart("checkpoint", run.checkpoint_s, reached, epoch)
        done = reached
    if not run.breakdown["evaluation"]:
        return
    for index, epoch in enumerate(saved):
        yield RunPart("load", run.restore_s if index else run.validation_setup_s, done, epoch)
        yield RunPart("evaluation", run.evaluation_s, done, epoch)


def epochs_of(run: EpochRun) -> int:
    """Return the number of started epochs."""
    return math.ceil(run.epoch_count)


def _saved_epochs(run: EpochRun) -> range:
    count = run.checkpoint_count
    first = epochs_of(run) - (count - 1) * run.checkpoint_every_epochs
    return range(first, epochs_of(run) + 1, run.checkpoint_every_epochs) if count else range(0)
