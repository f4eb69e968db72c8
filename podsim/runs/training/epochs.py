"""A run of a fixed number of epochs: host loop, checkpoints, and a validation of every checkpoint at the end.

Source: [mlperf_logs] for what such a run consists of, [tensorflow_cnns] for the host loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EpochRun:
    """The parts of a run of epochs.

    Attributes:
        update_s: Time of one weight update. [s]
        samples_per_update: Samples trained by one weight update.
        samples_per_epoch: Samples of the training set.
        epoch_count: Epochs.
        updates_per_session_call: Weight updates that one call from the host runs; the last call is a whole one.
        setup_s: From the start of the run to the first weight update. [s]
        checkpoint_every_epochs: Epochs between checkpoints, the last after the last epoch; 0 for none.
        checkpoint_s: What a checkpoint adds to the training. [s]
        validation_setup_s: Building and loading the validation program, once. [s]
        restore_s: Loading one checkpoint. [s]
        evaluation_s: Evaluating one checkpoint. [s]
    """

    update_s: float
    samples_per_update: float
    samples_per_epoch: int
    epoch_count: float
    updates_per_session_call: int
    setup_s: float = 0.0
    checkpoint_every_epochs: int = 0
    checkpoint_s: float = 0.0
    validation_setup_s: float = 0.0
    restore_s: float = 0.0
    evaluation_s: float = 0.0

    @property
    def update_count(self) -> int:
        """Weight updates, rounded up to whole session calls."""
        return self._calls_of(self.epoch_count, math.ceil) * self.updates_per_session_call

    def updates_after(self, epoch: int) -> int:
        """Weight updates at the end of an epoch: an epoch ends with the last call that ends in it, the run one later.

        Source: [mlperf_logs].
        """
        if epoch >= self.epoch_count:
            return self.update_count
        return self._calls_of(epoch, math.floor) * self.updates_per_session_call

    def _calls_of(self, epochs: float, whole: Callable[[float], int]) -> int:
        """Session calls of so many epochs."""
        wanted = int(self.samples_per_epoch * epochs // self.samples_per_update)
        return whole(wanted / self.updates_per_session_call)

    @property
    def checkpoint_count(self) -> int:
        """Checkpoints: one every n epochs, the last after the last epoch."""
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
