"""EfficientNet: inverted bottlenecks with squeeze and excitation, scaled in width, depth and resolution.

Source: [tan2019]; [masters2021] for groups of 16 channels and an expansion of 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from podsim.models.block import Block
from podsim.models.convnet.blocks import (
    BATCH_NORM,
    NormStyle,
    SqueezeExcite,
    chain_block,
    classifier_block,
    conv_norm,
    image,
    residual_block,
    stem_block,
)
from podsim.models.convnet.layers import Features, Layer, LayerChain
from podsim.models.layers import HALF, Formats

# Expansion, channels, repeats, stride and window of every stage of B0.
_STAGES = (
    (False, 16, 1, 1, 3),
    (True, 24, 2, 2, 3),
    (True, 40, 2, 2, 5),
    (True, 80, 3, 2, 3),
    (True, 112, 3, 1, 5),
    (True, 192, 4, 2, 5),
    (True, 320, 1, 1, 3),
)
# Scale of width, scale of depth, and image size.
_SCALES = {
    "b0": (1.0, 1.0, 224),
    "b1": (1.0, 1.1, 240),
    "b2": (1.1, 1.2, 260),
    "b3": (1.2, 1.4, 300),
    "b4": (1.4, 1.8, 380),
}
_STEM_CHANNELS, _HEAD_CHANNELS = 32, 1280
_CHANNEL_GRAIN, _LEAST_SHARE = 8, 0.9
_SQUEEZE = 4


@dataclass(frozen=True, slots=True)
class EfficientNetShape:
    """Dimensions of an EfficientNet."""

    size: str = "b0"  # `b0` to `b4`
    group_size: int = 1  # channels of a group of the spatial convolutions; 1 is depthwise
    expand_ratio: int = 6  # widening inside a block
    image_size: int | None = None  # height and width of an image; the published one if None
    class_count: int = 1000
    norm: NormStyle = BATCH_NORM
    normalises: bool = True  # True if the device casts and normalises the images that arrive

    def images(self, batch: int) -> Features:
        """Return the input features of a batch."""
        return image(batch, self.image_size or _SCALES[self.size][2])

    def channels(self, base: int) -> int:
        """Return the scaled number of channels."""
        return scaled_channels(base, _SCALES[self.size][0])

    def repeats(self, base: int) -> int:
        """Return a number of repeats scaled and rounded up."""
        return math.ceil(base * _SCALES[self.size][1])


def scaled_channels(base: int, width: float) -> int:
    """Return channels scaled to a multiple of 8, never by more than a tenth down.

    >>> scaled_channels(32, 1.4), scaled_channels(16, 1.2)
    (48, 24)
    """
    wanted = base * width
    rounded = max(_CHANNEL_GRAIN, int(wanted + _CHANNEL_GRAIN / 2) // _CHANNEL_GRAIN * _CHANNEL_GRAIN)
    return rounded if rounded >= _LEAST_SHARE * wanted else rounded + _CHANNEL_GRAIN


def efficientnet(shape: EfficientNetShape, batch: int, formats: Formats = HALF) -> tuple[Block, ...]:
    """Return the blocks `stem`, `block1a`, `block2a`, `block2b`, …, `head` for a micro-batch of `batch` images."""
    images, width, norm = shape.images(batch), shape.channels(_STEM_CHANNELS), shape.norm
    stem, features = stem_block(images, width, 3, norm, formats, "swish", normalises=shape.normalises)
    blocks = [stem]
    for stage, (expands, base, count, first_stride, window) in enumerate(_STAGES, start=1):
        for unit in range(shape.repeats(count)):
            stride = first_stride if unit == 0 else 1
            ratio = shape.expand_ratio if expands else 1
            channels = shape.channels(base)
            layers = inverted_bottleneck(features, channels, ratio, stride, window, norm, shape.group_size)
            main = LayerChain(tuple(layers))
            name = f"block{stage}{chr(ord('a') + unit)}"
            if main.out == features:
                blocks.append(residual_block(name, features, main, LayerChain(), formats))
            else:
                blocks.append(chain_block(name, features, main, formats))
            features = main.out
    last = conv_norm("conv", features, shape.channels(_HEAD_CHANNELS), 1, norm, activation="swish")
    return (*blocks, classifier_block("head", last, features, shape.class_count, formats))


def inverted_bottleneck(
    source: Features, channels: int, ratio: int, stride: int, window: int, norm: NormStyle, group_size: int = 1
) -> Iterator[Layer]:
    """Yield layers that widen by `ratio`, convolve in groups of `group_size`, weight the channels and narrow."""
    inner = source
    if ratio > 1:
        wide = conv_norm("expand", source, source.channels * ratio, 1, norm, activation="swish")
        yield from wide
        inner = wide[-1].out
    groups = max(1, inner.channels // group_size)
    spatial = conv_norm(
        "spatial", inner, inner.channels, window, norm, stride=stride, groups=groups, activation="swish"
    )
    yield from spatial
    yield SqueezeExcite("squeeze_excite", spatial[-1].out, max(1, source.channels // _SQUEEZE))
    yield from conv_norm("project", spatial[-1].out, channels, 1, norm)
