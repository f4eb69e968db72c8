"""Scenarios of convolutional networks: images, chains of blocks, epochs."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.specs.base import Spec
from podsim.specs.quantity import Count, CountOrZero, Flag, NumberFormat, SourcedBytes, SourcedTime
from podsim.specs.scenario import AvailableMemory, PrecisionSpec, TrainingScenario

_GROUPS = 4


class NormSpec(Spec):
    """Normalisation."""

    kind: Literal["batch", "group"] = "batch"
    """Batch norm, or group norm, which needs no statistics over the batch."""
    replicas: Count = 1
    """Neighbouring replicas over which batch norm takes its statistics."""
    groups: Count = _GROUPS
    """Groups of channels of group norm."""

    @model_validator(mode="after")
    def _group_norm_is_local(self) -> NormSpec:
        if self.kind == "group" and self.replicas > 1:
            raise BadValueError("group norm takes no statistics over replicas", "leave `replicas` out")
        return self

    @model_validator(mode="after")
    def _batch_norm_has_no_groups(self) -> NormSpec:
        if self.kind == "batch" and self.groups != _GROUPS:
            raise BadValueError("batch norm has no groups", "leave `groups` out, or write `kind: group`")
        return self


class ResNetSpec(Spec):
    """ResNet v1.5 [he2016], or ResNeXt [xie2017] with more than one group."""

    kind: Literal["resnet"]
    """Family of the model."""
    depth: Literal[18, 34, 50, 101, 152] = 50
    """Layers."""
    groups: Count = 1
    """Groups of the 3x3 convolutions; 32 for ResNeXt 32x4d."""
    width_per_group: Count = 64
    """Channels of one group in the first stage; 4 for ResNeXt 32x4d."""
    image_size: Count = 224
    """Height and width of an image."""
    class_count: Count = 1000
    """Classes."""
    norm: NormSpec = NormSpec()
    """Normalisation."""


class EfficientNetSpec(Spec):
    """EfficientNet [tan2019], or its variant with grouped convolutions [masters2021]."""

    kind: Literal["efficientnet"]
    """Family of the model."""
    size: Literal["b0", "b1", "b2", "b3", "b4"] = "b0"
    """A published size."""
    group_size: Count = 1
    """Channels of a group of the spatial convolutions: 1 is depthwise, 16 the variant."""
    expand_ratio: Count = 6
    """Widening inside a block; 4 in the variant."""
    image_size: Count | None = None
    """Height and width of an image; the published one if left out."""
    class_count: Count = 1000
    """Classes."""
    norm: NormSpec = NormSpec()
    """Normalisation."""


class ConductivityCnnSpec(Spec):
    """A network that predicts the ion conductivity of a microstructure [conductivity2024].

    The paper gives no dimensions, so that each is a parameter.
    """

    kind: Literal["conductivity_cnn"]
    """Family of the model."""
    image_size: Count = 128
    """Length of each edge of the image or volume."""
    dimension_count: Literal[2, 3] = 2
    """2 for images, 3 for volumes."""
    input_channels: Count = 1
    """Channels of the input."""
    channels: Annotated[tuple[Count, ...], Field(min_length=1)] = (32, 64, 128, 256)
    """Output channels of each convolution; each is followed by pooling over windows of 2."""
    dense_widths: tuple[Count, ...] = (256,)
    """Widths of the dense layers in front of the output."""


ImageModelSpec = Annotated[ResNetSpec | EfficientNetSpec | ConductivityCnnSpec, Field(discriminator="kind")]
IMAGE_KINDS = ("resnet", "efficientnet", "conductivity_cnn")


class ImageDataSpec(Spec):
    """The training data."""

    samples_per_epoch: Count
    """Images of the training set."""
    decoded_by_host: Flag = True
    """Whether host servers decode each image; otherwise they only send it."""
    prefetch_depth: Count = 3
    """Micro-batches that wait ready in front of each replica."""


class ImageParallelismSpec(Spec):
    """How the run is divided over IPUs."""

    micro_batch_size: Count
    """Images per run of the graph."""
    accumulation_factor: Count
    """Micro-batches per weight update."""
    replication_factor: Count
    """Data-parallel copies."""
    pipeline_splits: tuple[str, ...] = ()
    """Blocks that start on the next IPU; without any the whole model is on one IPU."""
    recomputation: Literal["none", "segment"] = "none"
    """`segment` keeps the inputs of segments only and redoes their forward pass."""
    checkpoints: tuple[str, ...] = ()
    """Blocks that start a segment, beside those that start on an IPU."""
    replicas_per_process: Count = 2
    """Replicas that one process on a host serves [tensorflow_cnns]."""
    reduction_merge_size: SourcedBytes | None = None
    """Gradients are reduced together up to this size; the software stack's if left out."""

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one data-parallel copy."""
        return len(self.pipeline_splits) + 1

    @model_validator(mode="after")
    def _checkpoints_serve(self) -> ImageParallelismSpec:
        if self.checkpoints and self.recomputation == "none":
            raise BadValueError("checkpoints serve recomputation, which is off", "add `recomputation: segment`")
        return self

    @model_validator(mode="after")
    def _splits_differ(self) -> ImageParallelismSpec:
        for name in self.pipeline_splits:
            if self.pipeline_splits.count(name) > 1:
                raise BadValueError(f"pipeline split `{name}` is given more than once", "name each block once")
        return self

    @model_validator(mode="after")
    def _replicas_can_be_placed(self) -> ImageParallelismSpec:
        count = self.ipus_per_replica
        if count & (count - 1):
            what = f"a replica of {count} IPUs cannot be placed"
            raise BadValueError(what, "use 0, 1, 3, 7, … pipeline splits, for 1, 2, 4, 8, … IPUs")
        need = 2 * count - 1
        if self.accumulation_factor < need:
            raise BadValueError(
                f"accumulation_factor {self.accumulation_factor} is too small for {count} pipeline stages",
                f"use 2·{count} - 1 = {need} micro-batches or more",
            )
        return self


class ImageMemorySpec(Spec):
    """How memory is used."""

    available_memory_proportion: AvailableMemory = 0.2
    """Share of tile memory for the temporaries of an operation; one number, or one per IPU."""
    io_tiles: CountOrZero = 0
    """Tiles that fetch data while the others compute."""


class ImageOptimizerSpec(Spec):
    """The optimizer."""

    kind: Literal["sgd", "lars", "rmsprop"] = "sgd"
    """SGD with momentum, LARS [you2017] or RMSProp with momentum [tan2019]."""
    state: NumberFormat = "fp16"
    """Number format of the state."""


class CheckpointSpec(Spec):
    """Checkpoints during the run."""

    every_epochs: Count
    """Epochs between checkpoints; the first is written after the first epoch."""


class ValidationSpec(Spec):
    """A validation of every checkpoint after training."""

    samples: Count
    """Images of the validation set."""
    setup: SourcedTime | None = None
    """Building and loading the validation program; the software stack's if left out."""


class EpochRunSpec(Spec):
    """How long the run goes on."""

    epochs: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
    """Passes over the training set."""
    session_calls_per_epoch: Count = 1
    """Calls from the host per epoch; each runs a whole number of weight updates."""
    setup: SourcedTime | None = None
    """From the start to the first weight update; none if left out."""
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


class ImageScenarioSpec(TrainingScenario):
    """One question about a convolutional network: how it runs on a pod."""

    model: ImageModelSpec
    """The model."""
    data: ImageDataSpec
    """The data."""
    parallelism: ImageParallelismSpec
    """How the run is divided over IPUs; `auto` to have it chosen."""
    batch_size: Count | None = None
    """Images per weight update; needed where parallelism is `auto`, checked elsewhere."""
    memory: ImageMemorySpec = ImageMemorySpec()
    """How memory is used."""
    optimizer: ImageOptimizerSpec = ImageOptimizerSpec()
    """The optimizer."""
    precision: PrecisionSpec = PrecisionSpec()
    """Number formats."""
    run: EpochRunSpec | None = None
    """Left out to get throughput alone."""

    @property
    def host_process_count(self) -> int:
        """Processes on all hosts."""
        return -(-self.parallelism.replication_factor // self.parallelism.replicas_per_process)
