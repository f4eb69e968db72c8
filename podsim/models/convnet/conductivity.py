"""A chain of convolutions that predicts one number from an image or a volume, such as an ion conductivity."""

from __future__ import annotations

from dataclasses import dataclass, replace

from podsim.models.block import Block
from podsim.models.convnet.blocks import chain_block, image
from podsim.models.convnet.layers import Activate, Convolution, Dense, Features, Layer, LayerChain, Pooling
from podsim.models.layers import HALF, Formats

_WINDOW, _POOL = 3, 2


@dataclass(frozen=True, slots=True)
class ConductivityShape:
    """Dimensions of the network."""

    image_size: int = 128  # length of every edge
    dimension_count: int = 2  # 2 for images, 3 for volumes
    input_channels: int = 1
    channels: tuple[int, ...] = (32, 64, 128, 256)  # output channels of each convolution; pooling follows each
    dense_widths: tuple[int, ...] = (256,)  # widths of the dense layers before the single output

    def images(self, batch: int) -> Features:
        """Return the input features of a batch."""
        return image(batch, self.image_size, self.dimension_count, self.input_channels)


def conductivity_cnn(shape: ConductivityShape, batch: int, formats: Formats = HALF) -> tuple[Block, ...]:
    """Return the blocks `conv1`, `conv2`, …, `head` for a micro-batch of `batch` images."""
    features = shape.images(batch)
    blocks = []
    for number, channels in enumerate(shape.channels, start=1):
        conv = Convolution("conv", features, channels, _WINDOW, needs_input_gradient=number > 1, result_is_read=False)
        chain = LayerChain((conv, Activate("relu", conv.out), Pooling("pool", conv.out, _POOL, _POOL)))
        blocks.append(chain_block(f"conv{number}", features, chain, formats))
        features = chain.out
    return (*blocks, _head(features, LayerChain(_dense(shape, features)), formats))


def _head(source: Features, chain: LayerChain, formats: Formats) -> Block:
    """Return the head: dense layers and a squared error, whose cost is mostly its supersteps."""
    block = chain_block("head", source, chain, formats)
    loss, gradient = formats.builder("loss"), formats.builder("loss_backward")
    shape = (source.batch, 1)
    error = loss.elementwise("sub", shape, ("@output", "@labels"))
    loss.reduce("sum", (1,), source.batch, loss.elementwise("square", shape, (error,)))
    gradient.elementwise("scale", shape, (error,))
    return replace(
        block, forward=block.forward + loss.ops(), backward=gradient.ops() + block.backward, output_elements=0
    )


def _dense(shape: ConductivityShape, features: Features) -> tuple[Layer, ...]:
    layers: list[Layer] = []
    for number, width in enumerate(shape.dense_widths, start=1):
        dense = Dense(f"dense{number}", features, width)
        layers += [dense, Activate(f"dense{number}/relu", dense.out)]
        features = dense.out
    return (*layers, Dense("output", features, 1))
