"""Convolutional networks: chains of blocks."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.models import Block, Workload
from podsim.models.block import HostTensors
from podsim.models.convnet import (
    ConductivityShape,
    EfficientNetShape,
    EfficientNetV2Shape,
    NormStyle,
    ResNetShape,
    conductivity_cnn,
    efficientnet,
    efficientnet_v2,
    resnet,
)
from podsim.models.convnet.layers import Features
from podsim.models.layers import Formats
from podsim.models.transformer.shape import WHOLE, Shards
from podsim.scenario.activity import Activity
from podsim.scenario.base import Spec
from podsim.scenario.convnet_training import CONVNET_TRAINING, ImageDataSpec, PixelSpec
from podsim.scenario.families.base import BuiltModelSpec, Reading, forward_passes_of
from podsim.scenario.family import Family
from podsim.scenario.forward import ForwardScenario, PassSpec
from podsim.scenario.quantity import Count, Flag, Probability
from podsim.scenario.wording import counted
from podsim.watch import Watch

_GROUPS = 4
# Depth, groups, width of a group, pixels, classes and training images of MLPerf's benchmark.
_BENCHMARK = (50, 1, 64, 224, 1000, 1_281_167)
_PLAIN, _GROUPED = (1, 64), (32, 4)
_PIXELS, _CLASSES = 224, 1000


class NormSpec(Spec):
    """Normalisation layers."""

    kind: Literal["batch", "group"] = "batch"
    """Batch norm, or group norm, which needs no statistics over the batch."""
    replicas: Count = 1
    """Neighbouring replicas over which batch norm computes its statistics."""
    groups: Count = _GROUPS
    """Number of channel groups of group norm."""

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

    def style(self, *, trained: bool) -> NormStyle:
        """Return the normalisation for builders; a `trained` network computes no statistics."""
        groups = self.groups if self.kind == "group" else 0
        return NormStyle(groups=groups, folded=True) if trained else NormStyle(self.replicas, groups)


def images(size: int | None, class_count: int) -> str:
    """Return the end of a title: input size and number of classes, where they differ from ImageNet's.

    >>> images(224, 1000), images(380, 10)
    ('', ', images of 380 pixels, 10 classes')
    """
    pixels = "" if size in (None, _PIXELS) else f", images of {size} pixels"
    return pixels if class_count == _CLASSES else f"{pixels}, {class_count} classes"


class ConvnetSpec(BuiltModelSpec):
    """Convolutional network."""

    incidental: ClassVar[frozenset[str]] = frozenset()

    @property
    def reads_images(self) -> bool:
        """Always True."""
        return True

    @abstractmethod
    def network(
        self, batch_size: int, formats: Formats, *, trained: bool = False, normalises: bool = True
    ) -> tuple[Features, tuple[Block, ...]]:
        """Return the input and the blocks for a micro-batch.

        `trained`: True for forward passes, which drop no blocks and have fixed statistics in norms.
        `normalises`: True if the device casts and normalises images of 8 bits.
        """

    def workload(self, data: ImageDataSpec, formats: Formats, batch_size: int, shards: Shards = WHOLE) -> Workload:
        """Return the graph of one micro-batch of images."""
        images, blocks = self.network(batch_size, formats, normalises=data.arrives_in_bytes)
        decoded = batch_size if data.decoded_by_host else 0
        return self._workload(blocks, formats, batch_size, images.element_count * data.pixel_bytes, decoded)

    def read(self, spec: ForwardScenario, folder: Path, watch: Watch) -> Reading:
        """Return the trained model for one batch."""
        formats = Formats(spec.precision.activations, spec.precision.activations)
        data, size = spec.data, spec.batch_size
        images, blocks = self.network(size, formats, trained=True)
        decoded = size if data.decoded_by_host else 0
        sent_bytes = images.element_count * data.pixel_bytes
        return Reading(forward_passes_of(self._workload(blocks, formats, size, sent_bytes, decoded), spec))

    def _workload(
        self, blocks: tuple[Block, ...], formats: Formats, batch_size: int, sent_bytes: int, decoded: int
    ) -> Workload:
        return Workload(
            name=self.kind,
            blocks={block.name: block for block in blocks},
            order=tuple(block.name for block in blocks),
            samples_per_micro_batch=batch_size,
            host_input_bytes=sent_bytes,
            host_decode_count=decoded,
            host_tensors=HostTensors(inputs=1, labels=1, results=1),
            activation_dtype=formats.dtype,
        )


class ResNetSpec(ConvnetSpec):
    """ResNet v1.5 [he2016], or ResNeXt [xie2017] with more than one group."""

    kind: Literal["resnet"]
    """Family of the model."""
    depth: Literal[18, 34, 50, 101, 152] = 50
    """Number of layers."""
    groups: Count = 1
    """Groups of the 3x3 convolutions; 32 for ResNeXt 32x4d."""
    width_per_group: Count = 64
    """Channels of one group in the first stage; 4 for ResNeXt 32x4d."""
    image_size: Count = 224
    """Height and width of an image."""
    class_count: Count = 1000
    """Number of classes."""
    norm: NormSpec = NormSpec()
    """Normalisation layers."""

    def benchmark_on(self, data: ImageDataSpec) -> str | None:
        """Return `resnet` for ResNet-50 on ImageNet."""
        shape = (self.depth, self.groups, self.width_per_group, self.image_size, self.class_count)
        return "resnet" if (*shape, data.samples_per_epoch) == _BENCHMARK else None

    @property
    def title(self) -> str:
        """Name with depth and groups."""
        names = {_PLAIN: f"ResNet-{self.depth}", _GROUPED: f"ResNeXt-{self.depth} 32x4d"}
        widths = f"ResNet-{self.depth}, {self.groups} groups of {self.width_per_group} channels"
        return names.get((self.groups, self.width_per_group), widths) + images(self.image_size, self.class_count)

    @property
    def norm_replicas(self) -> int:
        """Number of neighbouring replicas over which its norm computes statistics."""
        return self.norm.replicas

    def network(
        self, batch_size: int, formats: Formats, *, trained: bool = False, normalises: bool = True
    ) -> tuple[Features, tuple[Block, ...]]:
        """Return the input and the blocks."""
        size, classes, norm = self.image_size, self.class_count, self.norm.style(trained=trained)
        shape = ResNetShape(self.depth, self.groups, self.width_per_group, size, classes, norm, normalises)
        return shape.images(batch_size), resnet(shape, batch_size, formats)


class EfficientNetSpec(ConvnetSpec):
    """EfficientNet [tan2019], or its variant with grouped convolutions [masters2021]."""

    kind: Literal["efficientnet"]
    """Family of the model."""
    size: Literal["b0", "b1", "b2", "b3", "b4"] = "b0"
    """A published size."""
    group_size: Count = 1
    """Channels in a group of the spatial convolutions: 1 for depthwise ones, 16 in the variant."""
    expand_ratio: Count = 6
    """Expansion of channels inside a block; 4 in the variant."""
    image_size: Count | None = None
    """Height and width of an image; the published one if left out."""
    class_count: Count = 1000
    """Number of classes."""
    norm: NormSpec = NormSpec()
    """Normalisation layers."""

    @property
    def title(self) -> str:
        """Name with its size."""
        groups = "" if self.group_size == 1 else f", groups of {self.group_size} channels"
        return f"EfficientNet-{self.size.upper()}{groups}{images(self.image_size, self.class_count)}"

    @property
    def norm_replicas(self) -> int:
        """Number of neighbouring replicas over which its norm computes statistics."""
        return self.norm.replicas

    def network(
        self, batch_size: int, formats: Formats, *, trained: bool = False, normalises: bool = True
    ) -> tuple[Features, tuple[Block, ...]]:
        """Return the input and the blocks."""
        size, classes, norm = self.image_size, self.class_count, self.norm.style(trained=trained)
        shape = EfficientNetShape(self.size, self.group_size, self.expand_ratio, size, classes, norm, normalises)
        return shape.images(batch_size), efficientnet(shape, batch_size, formats)


class EfficientNetV2Spec(ConvnetSpec):
    """EfficientNetV2 [tan2021], with a classifier of one dense layer or more."""

    kind: Literal["efficientnet_v2"]
    """Family of the model."""
    size: Literal["s", "m", "l", "b0", "b1", "b2", "b3"] = "s"
    """A published size."""
    image_size: Count | None = None
    """Height and width of an image; the published one of training if left out."""
    class_count: Count = 1000
    """Outputs: classes, or predicted numbers with `loss: l1`."""
    hidden_widths: tuple[Count, ...] = ()
    """Widths of dense layers before the output, with nothing between them."""
    loss: Literal["cross_entropy", "l1"] = "cross_entropy"
    """Cross entropy with smoothed labels, or the mean absolute error of predicted numbers."""
    stochastic_depth: Probability | None = None
    """Probability that the last block is dropped, image by image; 0 for none, the published one if left out."""
    norm: NormSpec = NormSpec()
    """Normalisation layers."""

    @property
    def title(self) -> str:
        """Name with its size and its outputs."""
        name, outputs = f"EfficientNetV2-{self.size.upper()}", counted(self.class_count, "predicted number")
        if self.loss == "l1":
            return f"{name}{images(self.image_size, _CLASSES)}, {outputs}"
        return name + images(self.image_size, self.class_count)

    @property
    def norm_replicas(self) -> int:
        """Number of neighbouring replicas over which its norm computes statistics."""
        return self.norm.replicas

    def network(
        self, batch_size: int, formats: Formats, *, trained: bool = False, normalises: bool = True
    ) -> tuple[Features, tuple[Block, ...]]:
        """Return the input and the blocks."""
        shape = EfficientNetV2Shape(
            size=self.size,
            image_size=self.image_size,
            output_count=self.class_count,
            hidden_widths=self.hidden_widths,
            loss=self.loss,
            stochastic_depth=0.0 if trained else self.stochastic_depth,
            norm=self.norm.style(trained=trained),
            normalises=normalises,
        )
        return shape.images(batch_size), efficientnet_v2(shape, batch_size, formats)


class ConductivityCnnSpec(ConvnetSpec):
    """Chain of convolutions that predicts one number from an image or a volume; each dimension is a parameter."""

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
    """Widths of the dense layers before the output."""

    @property
    def title(self) -> str:
        """Name with the number of convolutions and the input."""
        what = "images" if self.dimension_count < 3 else "volumes"
        return f"convolutional network, {len(self.channels)} convolutions, {what} of {self.image_size}"

    def network(
        self, batch_size: int, formats: Formats, *, trained: bool = False, normalises: bool = True
    ) -> tuple[Features, tuple[Block, ...]]:
        """Return the input and the blocks."""
        shape = ConductivityShape(
            self.image_size, self.dimension_count, self.input_channels, self.channels, self.dense_widths
        )
        return shape.images(batch_size), conductivity_cnn(shape, batch_size, formats)


class PixelDataSpec(PixelSpec):
    """The images."""

    decoded_by_host: Flag = True
    """Whether host servers decode each image; otherwise they only send it."""


ImageModelSpec = Annotated[
    ResNetSpec | EfficientNetSpec | EfficientNetV2Spec | ConductivityCnnSpec, Field(discriminator="kind")
]

FAMILY = Family(
    "a convolutional network",
    ImageModelSpec,
    {
        Activity.TRAINING: CONVNET_TRAINING,
        Activity.FORWARD: {"data": (PixelDataSpec, PixelDataSpec()), "forward": (PassSpec, ...)},
    },
)
