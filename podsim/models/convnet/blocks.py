"""From layers to the blocks that pipeline stages hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from podsim.models.block import Block, Parameter
from podsim.models.convnet.features import Features, check_groups
from podsim.models.convnet.layers import Activate, Convolution, Dense, Layer, LayerChain
from podsim.models.convnet.norm import Norm
from podsim.models.convnet.pooling import GlobalAverage
from podsim.models.layers import Formats, GraphBuilder, softmax


@dataclass(frozen=True, slots=True)
class NormStyle:
    """How a network normalises."""

    replicas: int = 1  # replicas that share the statistics of batch norm
    groups: int = 0  # groups of channels of group norm; 0 for batch norm
    folded: bool = False  # whether batch norm is folded into the convolutions in front of it

    def after(self, name: str, source: Features) -> Norm:
        """The norm behind a layer."""
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
    """A convolution, its norm, and its activation if it has one."""
    conv = Convolution(name, source, channels, window, stride, groups)
    layers: tuple[Layer, ...] = (conv, norm.after(f"{name}/norm", conv.out))
    if not activation:
        return layers
    return (*layers, Activate(f"{name}/{activation}", conv.out, "swish" if activation == "swish" else "relu"))


def chain_block(name: str, source: Features, chain: LayerChain, formats: Formats) -> Block:
    """A block without a way around it."""
    forward, backward = formats.builder(name), formats.builder(f"{name}_backward")
    chain.forward(forward, "@input")
    chain.backward(backward, "@gradient")
    last = chain.layers[-1]
    unkept = 0 if last.kept_elements else last.out.element_count
    return _block(name, source, chain, forward, backward, chain.kept_elements + unkept)


def residual_block(
    name: str, source: Features, main: LayerChain, shortcut: LayerChain, formats: Formats, *, activation: str = ""
) -> Block:
    """A block whose result is the sum of two ways; the shortcut may be empty."""
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
    """Mean over positions, one dense layer, cross entropy with smoothed labels."""
    average = GlobalAverage("average", layers[-1].out if layers else source)
    chain = LayerChain((*layers, average, Dense("classifier", average.out, classes)))
    forward, backward = formats.builder(name), formats.builder(f"{name}_backward")
    logits = chain.forward(forward, "@input")
    shape = (source.batch, classes)
    probabilities = softmax(forward, *shape, logits)
    forward.elementwise("log", shape, (probabilities,), name="loss/log")
    forward.elementwise("mul", shape, (probabilities, "@labels"), name="loss/mul")
    forward.reduce("loss/sum", (source.batch,), source.batch * classes, probabilities)
    smooth = backward.elementwise("scale", shape, ("@labels",), name="loss/smooth")
    gradient = backward.elementwise("sub", shape, ("@probabilities", smooth), name="loss/grad")
    chain.backward(backward, gradient)
    kept = chain.kept_elements + source.batch * classes
    return replace(_block(name, source, chain, forward, backward, kept), output_elements=0)


@dataclass(frozen=True, slots=True)
class SqueezeExcite:
    """Channels weighted by two dense layers on their means [tan2019]."""

    name: str  # its name within the block
    source: Features
    squeezed: int  # width between the two layers

    @property
    def out(self) -> Features:
        """As large as its input."""
        return self.source

    @property
    def _gate(self) -> LayerChain:
        average = GlobalAverage(f"{self.name}/average", self.source)
        squeeze = Dense(f"{self.name}/squeeze", average.out, self.squeezed)
        swish = Activate(f"{self.name}/swish", squeeze.out, "swish")
        return LayerChain((average, squeeze, swish, Dense(f"{self.name}/excite", swish.out, self.source.channels)))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Of both dense layers."""
        return self._gate.parameters

    @property
    def kept_elements(self) -> int:
        """Its result and what the gate keeps."""
        return self.source.element_count + self._gate.kept_elements

    def forward(self, g: GraphBuilder, source: str) -> str:
        """The gate, and its product with the input."""
        narrow = (self.source.batch, self.source.channels)
        gate = g.elementwise("sigmoid", narrow, (self._gate.forward(g, source),), name=f"{self.name}/sigmoid")
        return g.elementwise("bias_add", self.source.shape, (source, gate), name=f"{self.name}/scale")

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Through the product to the input and to the gate, whose gradient is laid out over all positions."""
        narrow, wide = (self.source.batch, self.source.channels), self.source.shape
        product = g.elementwise("mul", wide, (gradient, f"@{self.name}/input"), name=f"{self.name}/mul")
        gate = g.reduce(f"{self.name}/gate_grad", narrow, self.source.element_count, product)
        gate = g.elementwise("sigmoid_grad", narrow, (gate,), name=f"{self.name}/sigmoid_grad")
        through = self._gate.backward(g, gate)
        scaled = g.elementwise("bias_add", wide, (gradient, f"@{self.name}/gate"), name=f"{self.name}/scale")
        return g.elementwise("add", wide, (scaled, through), name=f"{self.name}/add")
