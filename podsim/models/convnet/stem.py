"""What every image network starts with: 8-bit images become normalised features."""

from __future__ import annotations

from collections.abc import Callable

from podsim.models.block import Block
from podsim.models.convnet.blocks import NormStyle
from podsim.models.convnet.features import Features
from podsim.models.convnet.layers import Activate, Convolution, Layer, LayerChain
from podsim.models.layers import Formats

_COLOURS = 3


def image(batch: int, size: int, dimension_count: int = 2, channels: int = _COLOURS) -> Features:
    """A batch of square images or cubic volumes."""
    return Features(batch, channels, (size,) * dimension_count)


def stem_block(
    source: Features,
    channels: int,
    window: int,
    norm: NormStyle,
    formats: Formats,
    activation: str,
    more: Callable[[Features], tuple[Layer, ...]] = lambda _: (),
) -> tuple[Block, Features]:
    """The block, and what it hands on: cast, normalise, a convolution of stride 2, norm, activation, `more`."""
    source.check_window("conv", window)
    conv = Convolution("conv", source, channels, window, 2, needs_input_gradient=False)
    behind = Activate(activation, conv.out, "swish" if activation == "swish" else "relu")
    chain = LayerChain((conv, norm.after("norm", conv.out), behind, *more(conv.out)))
    forward, backward = formats.builder("stem"), formats.builder("stem_backward")
    images = forward.elementwise("cast", source.shape, ("@images",))
    for name in ("shift", "scale"):
        images = forward.elementwise("bias_add", source.shape, (images,), name=f"images/{name}")
    chain.forward(forward, images)
    chain.backward(backward, "@gradient")
    block = Block(
        name="stem",
        forward=forward.ops(),
        backward=backward.ops(),
        parameters=chain.parameters,
        output_elements=chain.out.element_count,
        saved_elements=source.element_count + chain.kept_elements,
    )
    return block, chain.out
