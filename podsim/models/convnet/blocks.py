"""Blocks of convolutional networks, built from layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from podsim.models.block import Block, Parameter
from podsim.models.convnet.layers import (
    Activate,
    Convolution,
    Dense,
    Features,
    GlobalAverage,
    Layer,
    LayerChain,
    check_groups,
)
from podsim.models.layers import Formats, GraphBuilder, softmax
from podsim.models.op import ReplicaSum


@dataclass(frozen=True, slots=True)
class Norm(Layer):
    """A batch norm, over one replica or a group of replicas, or a group norm."""

    replicas: int = 1  # replicas that share statistics; batch norm only
    groups: int = 0  # groups of channels with statistics per image, as in group norm; 0 for batch norm
    # True if the statistics of a trained batch norm are folded into the preceding weights, so that a bias remains
    folded: bool = False

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Scale and shift of every channel; only a shift if folded."""
        channels = (self.source.channels,)
        if self.folded:
            return (Parameter(f"{self.name}/beta", channels),)
        return (Parameter(f"{self.name}/gamma", channels), Parameter(f"{self.name}/beta", channels))

    @property
    def kept_elements(self) -> int:
        """Zero: the input is saved by the preceding layer, and a following activation saves its own result."""
        return 0

    @property
    def _statistics(self) -> tuple[int]:
        return (self.source.batch * self.groups if self.groups else self.source.channels,)

    @property
    def _image_channels(self) -> tuple[int, int]:
        """Shape of statistics of each image and channel: (images, channels)."""
        return self.source.batch, self.source.channels

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append one pass for each statistic, then whiten, scale and shift."""
        shape = self.source.shape
        if self.folded:
            return g.elementwise("bias_add", shape, (source, f"@{self.name}/beta"), name=f"{self.name}/shift")
        mean, power = self._sums(g, ("mean", "power"), source)
        inverse = g.elementwise("rsqrt", self._statistics, (mean, power), "fp32", name=f"{self.name}/rsqrt")
        mean, inverse = self._spread(g, "mean", mean), self._spread(g, "rsqrt", inverse)
        centred = g.elementwise("bias_add", shape, (source, mean), name=f"{self.name}/centre")
        white = g.elementwise("bias_add", shape, (centred, inverse), name=f"{self.name}/whiten")
        scaled = g.elementwise("bias_add", shape, (white, f"@{self.name}/gamma"), name=f"{self.name}/scale")
        return g.elementwise("bias_add", shape, (scaled, f"@{self.name}/beta"), name=f"{self.name}/shift")

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append the gradients of scale, shift and input; the input is whitened again.

        Source: [poplibs_popnn], which computes the parameters' and the input's gradients separately.
        """
        shape, channels = self.source.shape, (self.source.channels,)
        for name in ("mean", "rsqrt"):
            self._spread(g, name, f"@{self.name}/{name}")
        centred = g.elementwise("bias_add", shape, (f"@{self.name}/input",), name=f"{self.name}/centre")
        white = g.elementwise("bias_add", shape, (centred,), name=f"{self.name}/whiten")
        product = g.elementwise("mul", shape, (white, gradient), name=f"{self.name}/mul")
        for parameter, source in (("gamma", product), ("beta", gradient)):
            total = g.reduce(f"{self.name}/{parameter}_grad", channels, self.source.element_count, source)
            g.accumulate(f"{self.name}/{parameter}", channels, total)
        scaled = g.elementwise("bias_add", shape, (gradient, f"@{self.name}/gamma"), name=f"{self.name}/scale")
        product = g.elementwise("mul", shape, (white, scaled), name=f"{self.name}/mul")
        names = ("mean_grad", "power_grad")
        mean, power = (self._spread(g, *each) for each in zip(names, self._sums(g, names, product), strict=True))
        projected = g.elementwise("bias_add", shape, (white, power), name=f"{self.name}/project")
        fixed = g.elementwise("add", shape, (scaled, projected), name=f"{self.name}/correct")
        shifted = g.elementwise("bias_add", shape, (fixed, mean), name=f"{self.name}/shift_back")
        return g.elementwise("bias_add", shape, (shifted,), name=f"{self.name}/scale_back")

    def _sums(self, g: GraphBuilder, names: Sequence[str], source: str) -> list[str]:
        """Append sums over all positions, and over the channels or the replicas of a group."""
        sums = [self._sum(g, name, source) for name in names]
        if self.replicas == 1:
            return sums
        both = (len(names) * self._statistics[0],)
        name = g.name(f"{self.name}/{names[0]}/replicas")
        g.add(ReplicaSum(name=name, shape=both, dtype="fp32", inputs=tuple(sums), group_size=self.replicas))
        return [name] * len(names)

    def _sum(self, g: GraphBuilder, name: str, source: str) -> str:
        """Append the sum over each channel; a group norm then sums an image's channels over each group."""
        if not self.groups:
            return g.reduce(f"{self.name}/{name}", self._statistics, self.source.element_count, source)
        total = g.reduce(f"{self.name}/{name}/channels", self._image_channels, self.source.element_count, source)
        return g.reduce(f"{self.name}/{name}", self._statistics, math.prod(self._image_channels), total)

    def _spread(self, g: GraphBuilder, name: str, source: str) -> str:
        """Append the broadcast of a group's statistic to the channels of the group."""
        return g.rearrange(f"{self.name}/{name}/spread", self._image_channels, source) if self.groups else source


@dataclass(frozen=True, slots=True)
class NormStyle:
    """Kind of norm of a network."""

    replicas: int = 1  # replicas that share the statistics of batch norm
    groups: int = 0  # groups of channels of group norm; 0 for batch norm
    folded: bool = False  # True if batch norm is folded into the preceding convolutions

    def norm_after(self, name: str, source: Features) -> Norm:
        """Return the norm that follows a layer."""
        check_groups(name, source.channels, self.groups or 1, "model.norm.groups")
        return Norm(name, source, self.replicas, self.groups, self.folded and not self.groups)


BATCH_NORM: Final = NormStyle()


def conv_norm(
    name: str,
    source: Features,
    channels: int,
    window: int,
    norm: NormStyle,
    *,
    stride: int = 1,
    groups: int = 1,
    activation: str = "",
) -> tuple[Layer, ...]:
    """Return a convolution, its norm, and its activation if one is given."""
    conv = Convolution(name, source, channels, window, stride, groups)
    layers: tuple[Layer, ...] = (conv, norm.norm_after(f"{name}/norm", conv.out))
    if not activation:
        return layers
    return (*layers, Activate(f"{name}/{activation}", conv.out, "swish" if activation == "swish" else "relu"))


def chain_block(name: str, source: Features, chain: LayerChain, formats: Formats) -> Block:
    """Return a block without a shortcut."""
    forward, backward = formats.builder(name), formats.builder(f"{name}_backward")
    chain.forward(forward, "@input")
    chain.backward(backward, "@gradient")
    last = chain.layers[-1]
    unkept = 0 if last.kept_elements else last.out.element_count
    return _block(name, source, chain, forward, backward, chain.kept_elements + unkept)


def residual_block(
    name: str, source: Features, main: LayerChain, shortcut: LayerChain, formats: Formats, *, activation: str = ""
) -> Block:
    """Return a block whose result is the sum of a main path and a shortcut; the shortcut may be empty."""
    forward, backward = formats.builder(name), formats.builder(f"{name}_backward")
    out, last = main.out, Activate("out", main.out)
    ways = (main.forward(forward, "@input"), shortcut.forward(forward, "@input"))
    total = forward.elementwise("add", out.shape, ways, name="residual")
    gradient = "@gradient"
    if activation:
        last.forward(forward, total)
        gradient = last.backward(backward, gradient)
    grads = (main.backward(backward, gradient), shortcut.backward(backward, gradient))
    backward.elementwise("add", source.shape, grads, name="residual")
    kept = main.kept_elements + shortcut.kept_elements + out.element_count
    both = LayerChain(main.layers + shortcut.layers)
    return _block(name, source, both, forward, backward, kept, out)


def _block(
    name: str,
    source: Features,
    layers: LayerChain,
    forward: GraphBuilder,
    backward: GraphBuilder,
    kept: int,
    out: Features | None = None,
) -> Block:
    return Block(
        name=name,
        forward=forward.ops(),
        backward=backward.ops(),
        parameters=layers.parameters,
        output_elements=(out or layers.out).element_count,
        saved_elements=kept,
    )


def classifier_block(name: str, layers: tuple[Layer, ...], source: Features, classes: int, formats: Formats) -> Block:
    """Return the block with the mean over positions, one dense layer and cross entropy with smoothed labels."""
    return head_block(name, layers, source, (classes,), formats)


def head_block(
    name: str,
    layers: tuple[Layer, ...],
    source: Features,
    widths: Sequence[int],  # of the dense layers, the last being the output
    formats: Formats,
    loss: str = "cross_entropy",
) -> Block:
    """Return the block with the mean over positions, dense layers one after the other, and a loss."""
    dense: list[Layer] = [GlobalAverage("average", layers[-1].out if layers else source)]
    for number, width in enumerate(widths, start=1):
        name_of_layer = "classifier" if number == len(widths) else f"classifier{number}"
        dense.append(Dense(name_of_layer, dense[-1].out, width))
    chain = LayerChain((*layers, *dense))
    forward, backward = formats.builder(name), formats.builder(f"{name}_backward")
    output, shape = chain.forward(forward, "@input"), (source.batch, widths[-1])
    if loss == "l1":
        gradient = _absolute_error(forward, backward, shape, output)
    else:
        gradient = _cross_entropy(forward, backward, shape, output)
    chain.backward(backward, gradient)
    kept = chain.kept_elements + math.prod(shape)
    return replace(_block(name, source, chain, forward, backward, kept), output_elements=0)


def _cross_entropy(forward: GraphBuilder, backward: GraphBuilder, shape: tuple[int, int], logits: str) -> str:
    """Append softmax, loss and gradient; return the name of the gradient."""
    probabilities = softmax(forward, *shape, logits)
    forward.elementwise("log", shape, (probabilities,), name="loss/log")
    forward.elementwise("mul", shape, (probabilities, "@labels"), name="loss/mul")
    forward.reduce("loss/sum", shape[:1], math.prod(shape), probabilities)
    smooth = backward.elementwise("scale", shape, ("@labels",), name="loss/smooth")
    return backward.elementwise("sub", shape, ("@probabilities", smooth), name="loss/grad")


def _absolute_error(forward: GraphBuilder, backward: GraphBuilder, shape: tuple[int, int], output: str) -> str:
    """Append the mean absolute error and its gradient, a scaled sign; return the name of the gradient."""
    error = forward.elementwise("sub", shape, (output, "@labels"), name="loss/sub")
    size = forward.elementwise("abs", shape, (error,), name="loss/abs")
    forward.reduce("loss/mean", (1,), math.prod(shape), size)
    sign = backward.elementwise("sign", shape, ("@error",), name="loss/sign")
    return backward.elementwise("scale", shape, (sign,), name="loss/grad")


@dataclass(frozen=True, slots=True)
class SqueezeExcite(Layer):
    """A gate on channels, computed by two dense layers from the channels' means [tan2019]."""

    squeezed: int  # width between the two layers

    @property
    def _gate(self) -> LayerChain:
        average = GlobalAverage(f"{self.name}/average", self.source)
        squeeze = Dense(f"{self.name}/squeeze", average.out, self.squeezed)
        swish = Activate(f"{self.name}/swish", squeeze.out, "swish")
        return LayerChain((average, squeeze, swish, Dense(f"{self.name}/excite", swish.out, self.source.channels)))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Trained tensors of both dense layers."""
        return self._gate.parameters

    @property
    def kept_elements(self) -> int:
        """Number of saved elements: the result's and the gate's."""
        return self.source.element_count + self._gate.kept_elements

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append the gate and its product with the input."""
        narrow = (self.source.batch, self.source.channels)
        gate = g.elementwise("sigmoid", narrow, (self._gate.forward(g, source),), name=f"{self.name}/sigmoid")
        return g.elementwise("bias_add", self.source.shape, (source, gate), name=f"{self.name}/scale")

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append the gradients of the product: to the input, and through the gate, whose gradient is broadcast."""
        narrow, wide = (self.source.batch, self.source.channels), self.source.shape
        product = g.elementwise("mul", wide, (gradient, f"@{self.name}/input"), name=f"{self.name}/mul")
        gate = g.reduce(f"{self.name}/gate_grad", narrow, self.source.element_count, product)
        gate = g.elementwise("sigmoid_grad", narrow, (gate,), name=f"{self.name}/sigmoid_grad")
        through = self._gate.backward(g, gate)
        scaled = g.elementwise("bias_add", wide, (gradient, f"@{self.name}/gate"), name=f"{self.name}/scale")
        return g.elementwise("add", wide, (scaled, through), name=f"{self.name}/add")


@dataclass(frozen=True, slots=True)
class StochasticDepth(Layer):
    """A layer that drops whole images at random and scales the others [torchvision_efficientnet]."""

    @property
    def kept_elements(self) -> int:
        """Elements of the random factors, one per image."""
        return self.source.batch

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append one random factor per image, and its product with the features."""
        factor = g.elementwise("dropout", (self.source.batch,), ("@ones",), name=f"{self.name}/factor")
        return g.elementwise("bias_add", self.source.shape, (source, factor), name=f"{self.name}/scale")

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append the product of the gradient with the same factors."""
        inputs = (gradient, f"@{self.name}/factor")
        return g.elementwise("bias_add", self.source.shape, inputs, name=f"{self.name}/scale")


_COLOURS = 3


def image(batch: int, size: int, dimension_count: int = 2, channels: int = _COLOURS) -> Features:
    """Return the features of a batch of square images or cubic volumes."""
    return Features(batch, channels, (size,) * dimension_count)


def stem_block(
    source: Features,
    channels: int,
    window: int,
    norm: NormStyle,
    formats: Formats,
    activation: str,
    more: Callable[[Features], tuple[Layer, ...]] = lambda _: (),
    *,
    normalises: bool = True,  # True if 8-bit images are cast and normalised on the device
) -> tuple[Block, Features]:
    """Return the block and its result: cast, normalise, a convolution of stride 2, norm, activation, `more`."""
    source.check_window("conv", window)
    conv = Convolution("conv", source, channels, window, 2, needs_input_gradient=False)
    behind = Activate(activation, conv.out, "swish" if activation == "swish" else "relu")
    chain = LayerChain((conv, norm.norm_after("norm", conv.out), behind, *more(conv.out)))
    forward, backward = formats.builder("stem"), formats.builder("stem_backward")
    images = "@images"
    if normalises:
        images = forward.elementwise("cast", source.shape, (images,))
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
