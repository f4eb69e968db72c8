"""ResNet v1.5 and ResNeXt: the stride of a bottleneck is on its 3x3 convolution.

Source: [he2016], [xie2017]; [tensorflow_cnns] for the normalisation of 8-bit images on the IPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from podsim.errors import ModelError
from podsim.models.block import Block
from podsim.models.convnet.blocks import (
    BATCH_NORM,
    NormStyle,
    classifier_block,
    conv_norm,
    image,
    residual_block,
    stem_block,
)
from podsim.models.convnet.layers import Features, Layer, LayerChain, Pooling
from podsim.models.layers import HALF, Formats

_UNITS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
_FIRST_BOTTLENECK = 50
_WIDTH, _EXPANSION = 64, 4


@dataclass(frozen=True, slots=True)
class ResNetShape:
    """Dimensions of a ResNet."""

    depth: int = 50  # 18, 34, 50, 101 or 152
    groups: int = 1  # groups of the 3x3 convolutions; bottlenecks only
    width_per_group: int = 64  # channels of one group in the first stage
    image_size: int = 224  # height and width of an image
    class_count: int = 1000
    norm: NormStyle = BATCH_NORM
    normalises: bool = True  # True if the device casts and normalises the images that arrive

    def images(self, batch: int) -> Features:
        """Return the input features of a batch."""
        return image(batch, self.image_size)


def resnet(shape: ResNetShape, batch: int, formats: Formats = HALF) -> tuple[Block, ...]:
    """Return the blocks `stem`, `stage1/unit1`, …, `head` for a micro-batch of `batch` images."""
    if shape.depth < _FIRST_BOTTLENECK and (shape.groups, shape.width_per_group) != (1, _WIDTH):
        raise ModelError(
            f"a ResNet of {shape.depth} layers has no groups",
            key="model.depth",
            do="leave groups and width_per_group out, or use 50 layers or more",
        )
    stem, features = _stem(shape, batch, formats)
    blocks = [stem]
    for stage, count in enumerate(_UNITS[shape.depth], start=1):
        for unit in range(1, count + 1):
            stride = 2 if unit == 1 and stage > 1 else 1
            main = LayerChain(tuple(_unit(shape, features, _WIDTH << stage - 1, stride)))
            shortcut = LayerChain()
            if stride > 1 or main.out.channels != features.channels:
                shortcut = LayerChain(conv_norm("shortcut", features, main.out.channels, 1, shape.norm, stride=stride))
            name = f"stage{stage}/unit{unit}"
            blocks.append(residual_block(name, features, main, shortcut, formats, activation="relu"))
            features = main.out
    return (*blocks, classifier_block("head", (), features, shape.class_count, formats))


def _stem(shape: ResNetShape, batch: int, formats: Formats) -> tuple[Block, Features]:
    def pooled(features: Features) -> tuple[Layer, ...]:
        return (Pooling("pool", features, 3, 2),)

    images = shape.images(batch)
    return stem_block(images, _WIDTH, 7, shape.norm, formats, "relu", pooled, normalises=shape.normalises)


def _unit(shape: ResNetShape, source: Features, width: int, stride: int) -> Iterator[Layer]:
    """Yield the layers of a unit: two 3x3 convolutions, or 1x1, 3x3 and 1x1 from 50 layers on."""
    if shape.depth < _FIRST_BOTTLENECK:
        first = conv_norm("conv1", source, width, 3, shape.norm, stride=stride, activation="relu")
        yield from first
        yield from conv_norm("conv2", first[-1].out, width, 3, shape.norm)
        return
    inner = width * shape.width_per_group // _WIDTH * shape.groups
    narrow = conv_norm("conv1", source, inner, 1, shape.norm, activation="relu")
    spatial = conv_norm(
        "conv2", narrow[-1].out, inner, 3, shape.norm, stride=stride, groups=shape.groups, activation="relu"
    )
    yield from (*narrow, *spatial)
    yield from conv_norm("conv3", spatial[-1].out, width * _EXPANSION, 1, shape.norm)
