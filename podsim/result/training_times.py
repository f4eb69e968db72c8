"""Runs of training from start to end, that a time to train is computed from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Schedule:
    """Parameters of a run of weight updates and evaluations."""

    update_s: float  # time of one weight update [s]
    samples_per_update: float  # samples trained by one weight update
    setup_s: float  # from the start of the run to the first weight update [s]
    evaluation_every_samples: int | None  # samples between evaluations; None for a run without
    evaluation_samples: int
    # time to evaluate as many samples as one weight update trains; that of a weight update if left out [s]
    evaluation_step_s: float | None = None

    @property
    def evaluation_s(self) -> float:
        """Time of one evaluation. [s]

        An evaluation processes whole batches, either in the training program with its optimizer zeroed, where each
        takes the time of a weight update, or in a program of forward passes. Source: [mlperf_logs].
        """
        step_s = self.update_s if self.evaluation_step_s is None else self.evaluation_step_s
        return math.ceil(self.evaluation_samples / self.samples_per_update) * step_s


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """Run from start to convergence."""

    update_count: int  # weight updates
    evaluation_count: int
    setup_s: float  # time before the first weight update [s]
    training_s: float  # time of the weight updates [s]
    evaluation_s: float

    @property
    def time_to_train_s(self) -> float:
        """Time of the whole run. [s]"""
        return self.setup_s + self.training_s + self.evaluation_s


@dataclass(frozen=True, slots=True)
class EpochRun:
    """Run of epochs, with its parts."""

    update_s: float  # time of one weight update [s]
    samples_per_update: float  # samples trained by one weight update
    samples_per_epoch: int  # samples of the training set
    epoch_count: float
    updates_per_session_call: int  # weight updates that one call from the host runs; the last call is a whole one
    setup_s: float = 0.0  # from the start of the run to the first weight update [s]
    checkpoint_every_epochs: int = 0  # epochs between checkpoints, the last after the last epoch; 0 for none
    checkpoint_s: float = 0.0  # time that a checkpoint adds to the training [s]
    validation_setup_s: float = 0.0  # building and loading the validation program, once [s]
    restore_s: float = 0.0  # loading one checkpoint [s]
    evaluation_s: float = 0.0  # evaluating one checkpoint [s]

    @property
    def update_count(self) -> int:
        """Weight updates, rounded up to whole session calls."""
        return self._calls_of(self.epoch_count, math.ceil) * self.updates_per_session_call

    def updates_after(self, epoch: int) -> int:
        """Return the weight updates at the end of an epoch, in whole calls: rounded down, but up at the end of the run.

        Source: [mlperf_logs].
        """
        if epoch >= self.epoch_count:
            return self.update_count
        return self._calls_of(epoch, math.floor) * self.updates_per_session_call

    def _calls_of(self, epochs: float, whole: Callable[[float], int]) -> int:
        """Return the number of session calls of `epochs` epochs."""
        wanted = int(self.samples_per_epoch * epochs // self.samples_per_update)
        return whole(wanted / self.updates_per_session_call)

    @property
    def checkpoint_count(self) -> int:
        """Number of checkpoints: one every n epochs, the last after the last epoch."""
        return math.ceil(self.epoch_count / self.checkpoint_every_epochs) if self.checkpoint_every_epochs else 0

    @property
    def breakdown(self) -> dict[str, float]:
        """Time of each part. [s]"""
        count = self.checkpoint_count
        validates = count and (self.validation_setup_s or self.evaluation_s)
        return {
            "setup": self.setup_s,
            "training": self.update_count * self.update_s,
            "checkpoint": count * self.checkpoint_s,
            # The first checkpoint is loaded together with the program.
            "evaluation": self.validation_setup_s + count * self.evaluation_s + max(count - 1, 0) * self.restore_s
            if validates
            else 0.0,
        }

    @property
    def time_to_train_s(self) -> float:
        """Time of the whole run. [s]"""
        return math.fsum(self.breakdown.values())

    @property
    def throughput_samples_per_s(self) -> float:
        """Samples over the time of training, checkpoints included. [1/s]"""
        parts = self.breakdown
        return self.update_count * self.samples_per_update / (parts["training"] + parts["checkpoint"])


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """Time-to-train with its parts."""

    samples_per_update: float
    time_to_train_s: float | None = None  # if convergence is given; the olympic mean over several given runs [s]
    percentiles: Mapping[str, float] | None = None  # `p10`, `p50`, `p90` of time-to-train if convergence is sampled [s]
    # mean time of set-up, training, checkpoints and evaluation [s]
    breakdown: Mapping[str, float] = field(default_factory=dict)
    update_count: float | None = None  # mean weight updates of a run
    times_s: tuple[float, ...] = ()  # time of each given or sampled run [s]
    runs: tuple[TrainingRun | EpochRun, ...] = ()
    # parameters of runs that end after a number of samples or weight updates
    schedule: Schedule | None = None
    notes: tuple[str, ...] = ()  # remarks for the user on the time to train
