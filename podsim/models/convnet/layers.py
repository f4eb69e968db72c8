"""Layers of convolutional networks: parameters, operations of both passes, and what is kept between them."""

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
        """(batch, channels, *size)."""
        return (self.batch, self.channels, *self.size)

    @property
    def element_count(self) -> int:
        """All elements."""
        return math.prod(self.shape)

    @property
    def positions(self) -> int:
        """Positions of all images together."""
        return self.batch * math.prod(self.size)

    def with_channels(self, channels: int) -> Features:
        """As many positions, other channels."""
        return replace(self, channels=channels)

    def strided(self, stride: int) -> Features:
        """What is left of the positions by a window that moves by `stride`, padded so that stride 1 keeps all."""
        return replace(self, size=tuple(-(-length // stride) for length in self.size))

    def check_window(self, name: str, window: int) -> None:
        """Refuse a window that has no room."""
        if self.size and min(self.size) < window:
            size, windows = ("x".join(map(str, each)) for each in (self.size, (window,) * len(self.size)))
            raise ModelError(
                f"{name}: feature maps of {size} are smaller than its {windows} window",
                key="model.image_size",
                do="use larger images",
            )


def check_groups(name: str, channels: int, groups: int, key: str) -> None:
    """Refuse groups that do not divide channels; `key` is the one to blame."""
    if channels % groups:
        raise ModelError(
            f"{name}: {groups} groups do not divide {channels} channels",
            key=key,
            do="change the size of the groups or the width of the model",
        )


Activation = Literal["relu", "swish"]


@dataclass(frozen=True, slots=True)
class Layer(ABC):
    """A layer: as large as its input, without parameters, and its result is kept, unless it says otherwise."""

    name: str  # its name within the block
    source: Features

    @property
    def out(self) -> Features:
        """What it hands on."""
        return self.source

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Trained tensors."""
        return ()

    @property
    def kept_elements(self) -> int:
        """Elements of its result that the backward pass reads."""
        return self.out.element_count

    @abstractmethod
    def forward(self, g: GraphBuilder, source: str) -> str:
        """Append the forward pass; returns the name of the result."""

    @abstractmethod
    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Append the backward pass; returns the name of the input's gradient."""


@dataclass(frozen=True, slots=True)
class Convolution(Layer):
    """A convolution without bias, padded so that stride 1 keeps the size."""

    out_channels: int
    window: int  # length of the filter along every axis
    stride: int = 1  # step between positions
    groups: int = 1
    needs_input_gradient: bool = True  # whether something in front of it is trained
    # whether the backward pass of the layer behind it reads its result again, as a norm does
    result_is_read: bool = True

    @property
    def kernel(self) -> tuple[int, ...]:
        """Spatial size of the filter."""
        return (self.window,) * len(self.source.size)

    @property
    def out(self) -> Features:
        """Its result."""
        for channels in (self.source.channels, self.out_channels):
            check_groups(self.name, channels, self.groups, "model.group_size")
        return self.source.strided(self.stride).with_channels(self.out_channels)

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """(out channels, in channels of a group, *kernel)."""
        return (self.out_channels, self.source.channels // self.groups, *self.kernel)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The filter."""
        return (Parameter(f"{self.name}/weight", self.weight_shape),)

    @property
    def kept_elements(self) -> int:
        """Its result, if it is read again."""
        return self.out.element_count if self.result_is_read else 0

    def forward(self, g: GraphBuilder, source: str) -> str:
        """One convolution."""
        return self._add(g, "forward", self.out.shape, (source, f"@{self.name}/weight"))

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Input gradient, weight gradient and its accumulation."""
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
        """Its result; a swish keeps its input too."""
        return self.source.element_count * (1 if self.function == "relu" else 2)

    def forward(self, g: GraphBuilder, source: str) -> str:
        """One pass."""
        return g.elementwise(self.function, self.source.shape, (source,), name=self.name)

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """One pass."""
        inputs = (gradient, f"@{self.name}")
        return g.elementwise(f"{self.function}_grad", self.source.shape, inputs, name=f"{self.name}/grad")


@dataclass(frozen=True, slots=True)
class Dense(Layer):
    """A dense layer with bias on features without positions."""

    width: int  # channels of the result

    @property
    def out(self) -> Features:
        """Its result."""
        return Features(self.source.batch, self.width, ())

    @property
    def inner(self) -> int:
        """Elements per image that it reads."""
        return self.source.channels * math.prod(self.source.size)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Weights and bias."""
        return (
            Parameter(f"{self.name}/weight", (self.inner, self.width)),
            Parameter(f"{self.name}/bias", (self.width,)),
        )

    def forward(self, g: GraphBuilder, source: str) -> str:
        """One product, one bias."""
        return linear(g, self.name, self.source.batch, self.inner, self.width, source)

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """Three gradients."""
        return linear_backward(g, self.name, self.source.batch, self.inner, self.width, gradient)


@dataclass(frozen=True, slots=True)
class LayerChain:
    """Layers one after the other."""

    layers: tuple[Layer, ...] = field(default_factory=tuple)  # all of them, each reading what the one before hands on

    @property
    def out(self) -> Features:
        """What the last one hands on."""
        return self.layers[-1].out

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Of all layers."""
        return tuple(parameter for layer in self.layers for parameter in layer.parameters)

    @property
    def kept_elements(self) -> int:
        """Of all layers."""
        return sum(layer.kept_elements for layer in self.layers)

    def forward(self, g: GraphBuilder, source: str) -> str:
        """In order."""
        for layer in self.layers:
            source = layer.forward(g, source)
        return source

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """In reverse order."""
        for layer in reversed(self.layers):
            gradient = layer.backward(g, gradient)
        return gradient


@dataclass(frozen=True, slots=True)
class Pooling(Layer):
    """Maximum over windows."""

    window: int  # length of the window along every axis
    stride: int  # step between windows

    @property
    def out(self) -> Features:
        """Its result."""
        self.source.check_window(self.name, self.stride)
        return self.source.strided(self.stride)

    def forward(self, g: GraphBuilder, source: str) -> str:
        """One pass."""
        return self._add(g, self.name, self.out.shape, source, backward=False)

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """One pass."""
        return self._add(g, f"{self.name}/grad", self.source.shape, gradient, backward=True)

    def _add(self, g: GraphBuilder, name: str, shape: tuple[int, ...], source: str, *, backward: bool) -> str:
        axes, inputs = len(self.source.size), (source,)
        # Going back, an element of the input lies under as many windows as overlap.
        window = -(-(self.window**axes) // self.stride**axes) if backward else self.window**axes
        return g.add(
            Pool(name=g.name(name), shape=shape, dtype=g.dtype, inputs=inputs, window=window, backward=backward)
        )


@dataclass(frozen=True, slots=True)
class GlobalAverage(Layer):
    """The mean over all positions of each channel."""

    @property
    def out(self) -> Features:
        """One position."""
        return Features(self.source.batch, self.source.channels, ())

    def forward(self, g: GraphBuilder, source: str) -> str:
        """A sum, and a division of the little that is left."""
        total = g.reduce(self.name, self.out.shape, self.source.element_count, source)
        return g.elementwise("scale", self.out.shape, (total,), name=f"{self.name}/scale")

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """The gradient laid out over all positions."""
        scaled = g.elementwise("scale", self.out.shape, (gradient,), name=f"{self.name}/scale")
        return g.rearrange(f"{self.name}/broadcast", self.source.shape, scaled)
