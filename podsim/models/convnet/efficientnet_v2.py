"""EfficientNetV2: stages of fused inverted bottlenecks, then of inverted bottlenecks with squeeze and excitation.

Source: [tan2021] for the sizes; [torchvision_efficientnet] for the layers of a block and stochastic depth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from podsim.models.block import Block
from podsim.models.convnet.blocks import (
    BATCH_NORM,
    NormStyle,
    StochasticDepth,
    chain_block,
    conv_norm,
    head_block,
    image,
    residual_block,
    stem_block,
)
from podsim.models.convnet.efficientnet import inverted_bottleneck, scaled_channels
from podsim.models.convnet.layers import Features, Layer, LayerChain
from podsim.models.layers import HALF, Formats

_HEAD: Final = 1280


@dataclass(frozen=True, slots=True)
class V2Stage:
    """A row of a published table of stages."""

    fused: bool  # True if one spatial convolution widens; otherwise a pointwise one does, in front of a depthwise one
    expand_ratio: int  # widening inside a block
    window: int  # length of the spatial filter along each axis
    stride: int  # step of the first block
    channels: int  # output channels
    repeats: int  # blocks


@dataclass(frozen=True, slots=True)
class V2Size:
    """A published size."""

    image_size: int  # height and width of an image in training
    stem_channels: int
    stages: tuple[V2Stage, ...]
    head_channels: int = _HEAD
    stochastic_depth: float = 0.2  # drop probability behind the last block


_FUSED, _DEPTHWISE = True, False
_BASE = (
    V2Stage(_FUSED, 1, 3, 1, 16, 1),
    V2Stage(_FUSED, 4, 3, 2, 32, 2),
    V2Stage(_FUSED, 4, 3, 2, 48, 2),
    V2Stage(_DEPTHWISE, 4, 3, 2, 96, 3),
    V2Stage(_DEPTHWISE, 6, 3, 1, 112, 5),
    V2Stage(_DEPTHWISE, 6, 3, 2, 192, 8),
)
_BASE_STEM: Final = 32


def _scaled(image_size: int, width: float, depth: float) -> V2Size:
    """Return the base network with its channels and its blocks scaled."""
    stages = tuple(
        V2Stage(
            each.fused,
            each.expand_ratio,
            each.window,
            each.stride,
            scaled_channels(each.channels, width),
            math.ceil(each.repeats * depth),
        )
        for each in _BASE
    )
    head = scaled_channels(_HEAD, width)
    return V2Size(image_size, scaled_channels(_BASE_STEM, width), stages, head)


SIZES: Final = {
    "s": V2Size(
        300,
        24,
        (
            V2Stage(_FUSED, 1, 3, 1, 24, 2),
            V2Stage(_FUSED, 4, 3, 2, 48, 4),
            V2Stage(_FUSED, 4, 3, 2, 64, 4),
            V2Stage(_DEPTHWISE, 4, 3, 2, 128, 6),
            V2Stage(_DEPTHWISE, 6, 3, 1, 160, 9),
            V2Stage(_DEPTHWISE, 6, 3, 2, 256, 15),
        ),
    ),
    "m": V2Size(
        384,
        24,
        (
            V2Stage(_FUSED, 1, 3, 1, 24, 3),
            V2Stage(_FUSED, 4, 3, 2, 48, 5),
            V2Stage(_FUSED, 4, 3, 2, 80, 5),
            V2Stage(_DEPTHWISE, 4, 3, 2, 160, 7),
            V2Stage(_DEPTHWISE, 6, 3, 1, 176, 14),
            V2Stage(_DEPTHWISE, 6, 3, 2, 304, 18),
            V2Stage(_DEPTHWISE, 6, 3, 1, 512, 5),
        ),
    ),
    "l": V2Size(
        384,
        32,
        (
            V2Stage(_FUSED, 1, 3, 1, 32, 4),
            V2Stage(_FUSED, 4, 3, 2, 64, 7),
            V2Stage(_FUSED, 4, 3, 2, 96, 7),
            V2Stage(_DEPTHWISE, 4, 3, 2, 192, 10),
            V2Stage(_DEPTHWISE, 6, 3, 1, 224, 19),
            V2Stage(_DEPTHWISE, 6, 3, 2, 384, 25),
            V2Stage(_DEPTHWISE, 6, 3, 1, 640, 7),
        ),
    ),
    "b0": _scaled(192, 1.0, 1.0),
    "b1": _scaled(192, 1.0, 1.1),
    "b2": _scaled(208, 1.1, 1.2),
    "b3": _scaled(240, 1.2, 1.4),
}
"""Published sizes by name."""


@dataclass(frozen=True, slots=True)
class EfficientNetV2Shape:
    """Dimensions of an EfficientNetV2."""

    size: str = "s"  # a key of `SIZES`
    image_size: int | None = None  # height and width of an image; the published one of training if None
    output_count: int = 1000  # classes, or predicted numbers
    hidden_widths: tuple[int, ...] = ()  # widths of dense layers in front of the last one
    loss: str = "cross_entropy"  # `cross_entropy` or `l1`
    stochastic_depth: float | None = None  # drop probability behind the last block; the published one if None
    norm: NormStyle = BATCH_NORM
    normalises: bool = True  # True if the device casts and normalises the images that arrive

    @property
    def published(self) -> V2Size:
        """The published size."""
        return SIZES[self.size]

    @property
    def drops(self) -> bool:
        """True if blocks are dropped at random in training."""
        return (self.published.stochastic_depth if self.stochastic_depth is None else self.stochastic_depth) > 0

    def images(self, batch: int) -> Features:
        """Return a batch of images."""
        return image(batch, self.image_size or self.published.image_size)


def efficientnet_v2(shape: EfficientNetV2Shape, batch: int, formats: Formats = HALF) -> tuple[Block, ...]:
    """Return the blocks `stem`, `block1a`, `block1b`, …, `head` for a micro-batch of `batch` images."""
    size, norm = shape.published, shape.norm
    images = shape.images(batch)
    stem, features = stem_block(images, size.stem_channels, 3, norm, formats, "swish", normalises=shape.normalises)
    blocks = [stem]
    for number, stage in enumerate(size.stages, start=1):
        for unit in range(stage.repeats):
            stride = stage.stride if unit == 0 else 1
            layers = tuple(_unit(stage, features, stride, norm))
            name = f"block{number}{chr(ord('a') + unit)}"
            if layers[-1].out != features:
                blocks.append(chain_block(name, features, LayerChain(layers), formats))
            else:
                # The probability grows evenly from 0 in front of the first block.
                if shape.drops and len(blocks) > 1:
                    layers = (*layers, StochasticDepth("stochastic_depth", features))
                blocks.append(residual_block(name, features, LayerChain(layers), LayerChain(), formats))
            features = layers[-1].out
    last = conv_norm("conv", features, size.head_channels, 1, norm, activation="swish")
    widths = (*shape.hidden_widths, shape.output_count)
    return (*blocks, head_block("head", last, features, widths, formats, shape.loss))


def _unit(stage: V2Stage, source: Features, stride: int, norm: NormStyle) -> Iterator[Layer]:
    """Yield the layers of a block without the way around it."""
    if not stage.fused:
        return inverted_bottleneck(source, stage.channels, stage.expand_ratio, stride, stage.window, norm)
    return _fused(stage, source, stride, norm)


def _fused(stage: V2Stage, source: Features, stride: int, norm: NormStyle) -> Iterator[Layer]:
    """Yield one spatial convolution that widens, and one that narrows unless nothing was widened."""
    if stage.expand_ratio == 1:
        yield from conv_norm("spatial", source, stage.channels, stage.window, norm, stride=stride, activation="swish")
        return
    wide = source.channels * stage.expand_ratio
    spatial = conv_norm("spatial", source, wide, stage.window, norm, stride=stride, activation="swish")
    yield from spatial
    yield from conv_norm("project", spatial[-1].out, stage.channels, 1, norm)
