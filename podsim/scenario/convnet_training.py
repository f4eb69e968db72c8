"""Sections of scenarios that train a convolutional network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from podsim.errors import BadValueError
from podsim.models.op import DTYPE_BYTES
from podsim.scenario.auto import AutoTrainingSpec
from podsim.scenario.base import Spec
from podsim.scenario.family import Sections
from podsim.scenario.quantity import Count, Flag, NumberFormat, SourcedBytes, SourcedTime
from podsim.scenario.scenario import Finding
from podsim.scenario.training import (
    SessionCall,
    TrainingDataSpec,
    TrainingLayoutSpec,
    TrainingMemorySpec,
    TrainingOptimizerSpec,
    TrainingRunSpec,
    TrainingScenario,
)

_BYTE = 1


class PixelSpec(Spec):
    """Pixel format of images on their way from the host."""

    pixel_format: Literal["uint8"] | NumberFormat = "uint8"
    """Format of images on their way from the host."""

    @property
    def arrives_in_bytes(self) -> bool:
        """True if pixels arrive as bytes, which the device casts and normalises."""
        return self.pixel_format == "uint8"

    @property
    def pixel_bytes(self) -> int:
        """Size of one value. [B]"""
        return _BYTE if self.pixel_format == "uint8" else DTYPE_BYTES[self.pixel_format]


class ImageDataSpec(TrainingDataSpec, PixelSpec):
    """The training data."""

    samples_per_epoch: Count
    """Images of the training set."""
    decoded_by_host: Flag = True
    """Whether host servers decode each image; otherwise they only send it."""
    prefetch_depth: Count | None = None
    """Micro-batches in the prefetch queue of each replica; the software stack's if left out."""
    loader: Literal["ahead", "synchronous"] = "ahead"
    """`ahead`: workers load images while the IPUs run. `synchronous`: the calling process has no workers; it loads the
    images of a session call one after the other before the call, each in `software.sample_load_time`."""

    @model_validator(mode="after")
    def _images_are_decoded_once(self) -> ImageDataSpec:
        if self.loader == "synchronous" and self.decoded_by_host:
            what = "a synchronous loader decodes the images itself; `decoded_by_host` would decode them twice"
            raise BadValueError(what, "write `decoded_by_host: false`")
        return self

    @property
    def loads_itself(self) -> bool:
        """True if the calling process loads its samples itself, one after the other before each call."""
        return self.loader == "synchronous"

    def late_samples(self, layout: TrainingLayoutSpec, updates_per_call: float) -> float:
        """Return the number of images per weight update that a process loads before its call."""
        if not self.loads_itself:
            return 0.0
        replicas = min(layout.replicas_per_process or layout.replication_factor, layout.replication_factor)
        return float(layout.micro_batch_size * layout.accumulation_factor * replicas)

    @property
    def host_decodes(self) -> bool:
        """True if host servers decode each image."""
        return self.decoded_by_host

    @property
    def ready_micro_batches(self) -> int | None:
        """Micro-batches in the prefetch queue of each replica, or None for the software stack's."""
        return self.prefetch_depth


class AutoImageSpec(AutoTrainingSpec):
    """Layout that the search chooses, except for the given keys."""

    recomputation: Literal["none", "segment"] | None = None
    """`segment` keeps the inputs of segments only and recomputes their forward pass."""
    replicas_per_process: Count = 2
    """Replicas that one process on a host serves; not chosen."""
    updates_per_session_call: SessionCall | None = None
    """Weight updates that one call from the host runs; not chosen."""
    reduction_merge_size: SourcedBytes | None = None
    """Size up to which gradients are reduced together; not chosen, the software stack's if left out."""


class ImageParallelismSpec(TrainingLayoutSpec):
    """Division of the run over IPUs."""

    auto: ClassVar[type[AutoTrainingSpec]] = AutoImageSpec
    recomputed_unit: ClassVar[str] = "segment"
    pipeline_splits: tuple[str, ...] = ()
    """Names of the blocks that start on the next IPU; the whole model is on one IPU if left out."""
    recomputation: Literal["none", "segment"] | None = None
    """`segment` keeps the inputs of segments only and recomputes their forward pass. If left out: `none`, or `segment`
    for pipelines of software stacks that recompute by default, as PopTorch does."""
    checkpoints: tuple[str, ...] = ()
    """Blocks that start a segment, in addition to blocks that start on an IPU."""
    replicas_per_process: Count = 2
    """Replicas that one process on a host serves [tensorflow_cnns]."""
    updates_per_session_call: SessionCall | None = None
    """Weight updates that one call from the host runs; the value of the run or of the software stack if left out."""
    reduction_merge_size: SourcedBytes | None = None
    """Size up to which gradients are reduced together; the software stack's if left out."""

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one data-parallel copy."""
        return len(self.pipeline_splits) + 1

    def merged_bytes(self, default_bytes: int) -> int:
        """Return the size up to which gradients are reduced together. [B]"""
        return default_bytes if self.reduction_merge_size is None else int(self.reduction_merge_size)

    def updates_per_call(self, spec: TrainingScenario) -> float:
        """Return the weight updates of one session call; not rounded if an epoch is divided into equal calls."""
        calls = spec.run.calls_per_epoch if spec.run else None
        if self.updates_per_session_call is not None:
            return self.updates_per_session_call
        if calls is None and spec.software.one_update_per_call:
            return 1.0
        calls = calls or spec.software.session_calls_per_epoch or 1
        return max(1.0, (spec.data.samples_per_epoch or 0) / self.batch_size / calls)

    @model_validator(mode="after")
    def _checkpoints_need_recomputation(self) -> ImageParallelismSpec:
        if self.checkpoints and self.recomputation != "segment":
            raise BadValueError("checkpoints serve recomputation, which is off", "add `recomputation: segment`")
        return self

    @model_validator(mode="after")
    def _splits_differ(self) -> ImageParallelismSpec:
        for name in self.pipeline_splits:
            if self.pipeline_splits.count(name) > 1:
                raise BadValueError(f"pipeline split `{name}` is given more than once", "name each block once")
        return self


class ImageMemorySpec(TrainingMemorySpec):
    """Use of memory."""


class ImageOptimizerSpec(TrainingOptimizerSpec):
    """The optimizer."""

    kind: Literal["sgd", "lars", "rmsprop", "adam", "adamw"] = "sgd"
    """SGD with momentum, LARS [you2017], RMSProp with momentum [tan2019], Adam [kingma2015] or AdamW
    [loshchilov2019]."""
    state: NumberFormat = "fp16"
    """Number format of the state."""

    @property
    def state_formats(self) -> tuple[NumberFormat, ...]:
        """Formats of the state: momentum and, with RMSProp, Adam and AdamW, the mean square."""
        return (self.state,) * (1 if self.kind in ("sgd", "lars") else 2)

    @property
    def arithmetic(self) -> NumberFormat:
        """Number format in which weights are updated: that of the optimizer state."""
        return self.state


class CheckpointSpec(Spec):
    """Checkpoints during the run."""

    every_epochs: Count
    """Epochs between checkpoints; the first is written after the first epoch."""


class ValidationSpec(Spec):
    """A validation of every checkpoint after training."""

    samples: Count
    """Images of the validation set."""
    setup: SourcedTime | None = None
    """Time to build and load the validation program; the software stack's if left out."""


_Epochs = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]


class LoggedEpochs(Spec):
    """Logged epochs, which apply to one batch size only."""

    count: _Epochs
    """Passes over the training set."""
    batch_size: Count
    """Images per weight update."""


def _kind_of_epochs(raw: Any) -> str:
    return "logged" if isinstance(raw, dict | LoggedEpochs) else "number"


class EpochRunSpec(TrainingRunSpec):
    """Length of the run."""

    epochs: (
        Annotated[
            Annotated[_Epochs, Tag("number")] | Annotated[LoggedEpochs, Tag("logged")], Discriminator(_kind_of_epochs)
        ]
        | None
    ) = None
    """Passes over the training set, with their batch size if they were logged for one; left out for throughput only."""
    samples: Annotated[float, Field(strict=True, ge=1, le=1e18, allow_inf_nan=False)] | None = None
    """Images of the run instead, whatever the batch."""
    session_calls_per_epoch: Count | None = None
    """Calls from the host per epoch; each runs a whole number of weight updates. The software stack's if left out."""
    setup: SourcedTime | None = None
    """Time from the start to the first weight update; 0 if left out."""
    checkpoint: CheckpointSpec | None = None
    """Left out when none are written."""
    validation: ValidationSpec | None = None
    """Left out when the run is not validated."""

    @model_validator(mode="after")
    def _there_is_something_to_validate(self) -> EpochRunSpec:
        if self.validation is not None and self.checkpoint is None:
            what = "every checkpoint is validated, and none is written"
            raise BadValueError(what, "add `checkpoint: {every_epochs: 4}`, or leave `validation` out")
        return self

    @model_validator(mode="after")
    def _run_has_one_end(self) -> EpochRunSpec:
        if self.epochs is not None and self.samples is not None:
            do = "keep one of the two; `null` takes the other away"
            raise BadValueError("`samples` and `epochs` are both given", do)
        if not self.has_end and (self.checkpoint is not None or self.setup is not None):
            name = "setup" if self.checkpoint is None else "checkpoint"
            what = f"`{name}` is given, but nothing says how long the run goes on"
            raise BadValueError(what, "give `epochs` or `samples`")
        return self

    @property
    def has_end(self) -> bool:
        """True if the length of the run is given."""
        return self.epochs is not None or self.samples is not None

    def epoch_count(self, samples_per_epoch: int) -> float | None:
        """Return the number of passes over the training set, or None if the length of the run is not given."""
        if self.samples is not None:
            return self.samples / samples_per_epoch
        return self.epochs.count if isinstance(self.epochs, LoggedEpochs) else self.epochs

    @property
    def is_drawn(self) -> bool:
        """Always False: the epochs are exact."""
        return False

    @property
    def is_converged(self) -> bool:
        """True if the epochs are those of a logged run, which reached its target; a plain number of epochs may not."""
        return isinstance(self.epochs, LoggedEpochs)

    @property
    def has_batch(self) -> bool:
        """True if the epochs were logged with a batch size."""
        return isinstance(self.epochs, LoggedEpochs)

    def without_end(self) -> EpochRunSpec:
        """Return the run without a length, so that only throughput follows, and with its session calls."""
        ends = ("epochs", "samples", "setup", "checkpoint", "validation")
        return self.model_copy(update=dict.fromkeys(ends))

    @property
    def batch_size(self) -> int | None:
        """Batch size that the epochs were logged with; None for any."""
        return self.epochs.batch_size if isinstance(self.epochs, LoggedEpochs) else None

    @property
    def calls_per_epoch(self) -> int | None:
        """Session calls per epoch, or None for the software stack's."""
        return self.session_calls_per_epoch

    def findings(self, spec: TrainingScenario) -> Iterator[Finding]:
        """Yield a problem if the training set is smaller than one batch."""
        batch, samples = spec.batch_size or spec.parallelism.batch_size, spec.data.samples_per_epoch or 0
        count = self.epoch_count(samples) if samples else None
        if count is None or samples * count >= batch:
            return
        if self.samples is not None:
            what, key = f"{self.samples:g} samples are", "samples"
        else:
            what, key = f"{count:g} epochs of {samples} samples are", "epochs"
        yield ("run", key), f"{what} less than a batch of {batch}", f"use more {key}, or a smaller batch"


CONVNET_TRAINING: Sections = {
    "data": (ImageDataSpec, ...),
    "parallelism": (ImageParallelismSpec, ...),
    "memory": (ImageMemorySpec, ImageMemorySpec()),
    "optimizer": (ImageOptimizerSpec, ImageOptimizerSpec()),
    "run": (EpochRunSpec | None, None),
}
"""Sections of a scenario that trains a convolutional network."""
