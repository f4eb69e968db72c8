"""Layers of convolutional networks: parameters, operations of both passes, and saved elements."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Literal

from podsim.errors import ModelError
from podsim.models.block import Parameter
from podsim.models.layers import GraphBuilder, linear, linear_backward
from podsim.models.op import Conv, Direction, Pool


@dataclass(frozen=True, slots=True)
class Features:
    """A batch of feature maps."""

    batch: int  # images per micro-batch
    channels: int
    size: tuple[int, ...]  # height and width, or any number of spatial axes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (batch, channels, *size)."""
        return (self.batch, self.channels, *self.size)

    @property
    def element_count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def positions(self) -> int:
        """Number of positions of all images."""
        return self.batch * math.prod(self.size)

    def with_channels(self, channels: int) -> Features:
        """Return features with the same positions and other channels."""
        return replace(self, channels=channels)

    def strided(self, stride: int) -> Features:
        """Return the features after a window of a stride, padded so that a stride of 1 keeps the size."""
        return replace(self, size=tuple(-(-length // stride) for length in self.size))

    def check_window(self, name: str, window: int) -> None:
        """Refuse a window that is larger than the feature maps."""
        if self.size and min(self.size) < window:
            size, windows = ("x".join(map(str, each)) for each in (self.size, (window,) * len(self.size)))
            raise ModelError(
                f"{name}: feature maps of {size} are smaller than its {windows} window",
                key="model.image_size",
                do="use larger images",
            )


def check_groups(name: str, channels: int, groups: int, key: str) -> None:
    """Refuse groups that do not divide channels; `key` is the scenario key named in the error."""
    if channels % groups:
        raise ModelError(
            f"{name}: {groups} groups do not divide {channels} channels",
            key=key,
            do="change the size of the groups or the width of the model",
        )


Activation = Literal["relu", "swish"]


@dataclass(frozen=True, slots=True)
class Layer(ABC):
    """A layer; by default its size is that of its input, it has no parameters, and its result is saved."""

    name: str  # name within the block
    source: Features

    @property
    def out(self) -> Features:
        """Features of the result."""
        return self.source

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Trained tensors."""
        return ()

    @property
    def kept_elements(self) -> int:
        """Number of elements of the result that the backward pass reads."""
        return self.out.element_count

    @abstractmethod
    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append the forward pass and return the name of its result."""

    @abstractmethod
    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append the backward pass and return the name of the input's gradient."""


@dataclass(frozen=True, slots=True)
class Convolution(Layer):
    """A convolution without bias, padded so that stride 1 keeps the size."""

    out_channels: int
    window: int  # length of the filter along every axis
    stride: int = 1  # input positions from one output position to the next
    groups: int = 1
    needs_input_gradient: bool = True  # True if a preceding layer is trained
    # True if the backward pass of the following layer reads the result, as a norm's does
    result_is_read: bool = True

    @property
    def kernel(self) -> tuple[int, ...]:
        """Spatial size of the filter."""
        return (self.window,) * len(self.source.size)

    @property
    def out(self) -> Features:
        """Features of the result."""
        for channels in (self.source.channels, self.out_channels):
            check_groups(self.name, channels, self.groups, "model.group_size")
        return self.source.strided(self.stride).with_channels(self.out_channels)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape (out channels, in channels of a group, *kernel)."""
        return (self.out_channels, self.source.channels // self.groups, *self.kernel)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The weights of the filter."""
        return (Parameter(f"{self.name}/weight", self.weight_shape),)

    @property
    def kept_elements(self) -> int:
        """Number of elements of the result, if the backward pass reads it; otherwise 0."""
        return self.out.element_count if self.result_is_read else 0

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append one convolution."""
        return self._add(g, "forward", self.out.shape, (source, f"@{self.name}/weight"))

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append the weight gradient with its accumulation, and the input gradient if needed."""
        weights = self._add(g, "weight_grad", self.weight_shape, (f"@{self.name}/input", gradient))
        g.accumulate(self.name, self.weight_shape, weights)
        if not self.needs_input_gradient:
            return gradient
        return self._add(g, "input_grad", self.source.shape, (gradient, f"@{self.name}/weight"))

    def _add(self, g: GraphBuilder, direction: Direction, shape: tuple[int, ...], inputs: tuple[str, str]) -> str:
        name = self.name if direction == "forward" else f"{self.name}/{direction}"
        return g.add(
            Conv(
                name=g.name(name),
                shape=shape,
                dtype=g.dtype,
                inputs=inputs,
                batch=self.source.batch,
                in_channels=self.source.channels,
                out_channels=self.out_channels,
                group_count=self.groups,
                input_size=self.source.size,
                output_size=self.out.size,
                kernel=self.kernel,
                stride=(self.stride,) * len(self.kernel),
                direction=direction,
            )
        )


@dataclass(frozen=True, slots=True)
class Activate(Layer):
    """An activation function."""

    function: Activation = "relu"

    @property
    def kept_elements(self) -> int:
        """Number of saved elements: the result's, and for a swish the input's as well."""
        return self.source.element_count * (1 if self.function == "relu" else 2)

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append one elementwise pass."""
        return g.elementwise(self.function, self.source.shape, (source,), name=self.name)

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append one elementwise pass."""
        inputs = (gradient, f"@{self.name}")
        return g.elementwise(f"{self.function}_grad", self.source.shape, inputs, name=f"{self.name}/grad")


@dataclass(frozen=True, slots=True)
class Dense(Layer):
    """A dense layer with bias on features without positions."""

    width: int  # channels of the result

    @property
    def out(self) -> Features:
        """Features of the result."""
        return Features(self.source.batch, self.width, ())

    @property
    def inner(self) -> int:
        """Number of input elements per image."""
        return self.source.channels * math.prod(self.source.size)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The weights and the bias."""
        return (
            Parameter(f"{self.name}/weight", (self.inner, self.width)),
            Parameter(f"{self.name}/bias", (self.width,)),
        )

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append a product and a bias."""
        return linear(g, self.name, self.source.batch, self.inner, self.width, source)

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append the gradients of weights, bias and input."""
        return linear_backward(g, self.name, self.source.batch, self.inner, self.width, gradient)


@dataclass(frozen=True, slots=True)
class LayerChain:
    """A sequence of layers."""

    layers: tuple[Layer, ...] = field(default_factory=tuple)  # in order; each reads the result of the previous one

    @property
    def out(self) -> Features:
        """Features of the last layer's result."""
        return self.layers[-1].out

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Trained tensors of all layers."""
        return tuple(parameter for layer in self.layers for parameter in layer.parameters)

    @property
    def kept_elements(self) -> int:
        """Number of saved elements of all layers."""
        return sum(layer.kept_elements for layer in self.layers)

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append the forward passes in order."""
        for layer in self.layers:
            source = layer.forward(g, source)
        return source

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append the backward passes in reverse order."""
        for layer in reversed(self.layers):
            gradient = layer.backward(g, gradient)
        return gradient


@dataclass(frozen=True, slots=True)
class Pooling(Layer):
    """A maximum over windows."""

    window: int  # length of the window along every axis
    stride: int  # positions from one window to the next

    @property
    def out(self) -> Features:
        """Features of the result."""
        self.source.check_window(self.name, self.stride)
        return self.source.strided(self.stride)

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append one pass over windows."""
        return self._add(g, self.name, self.out.shape, source, backward=False)

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append one pass over windows."""
        return self._add(g, f"{self.name}/grad", self.source.shape, gradient, backward=True)

    def _add(self, g: GraphBuilder, name: str, shape: tuple[int, ...], source: str, *, backward: bool) -> str:
        axes, inputs = len(self.source.size), (source,)
        # In the backward pass, an input element is in as many windows as overlap.
        window = -(-(self.window**axes) // self.stride**axes) if backward else self.window**axes
        return g.add(
            Pool(name=g.name(name), shape=shape, dtype=g.dtype, inputs=inputs, window=window, backward=backward)
        )


@dataclass(frozen=True, slots=True)
class GlobalAverage(Layer):
    """A mean over all positions of each channel."""

    @property
    def out(self) -> Features:
        """Features of the result, without positions."""
        return Features(self.source.batch, self.source.channels, ())

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append a sum, and a division of its small result."""
        total = g.reduce(self.name, self.out.shape, self.source.element_count, source)
        return g.elementwise("scale", self.out.shape, (total,), name=f"{self.name}/scale")

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append the broadcast of the gradient over all positions."""
        scaled = g.elementwise("scale", self.out.shape, (gradient,), name=f"{self.name}/scale")
        return g.rearrange(f"{self.name}/broadcast", self.source.shape, scaled)
