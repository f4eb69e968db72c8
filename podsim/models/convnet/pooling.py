"""Layers of convolutional networks that bring many positions to few."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.models.block import Parameter
from podsim.models.convnet.features import Features
from podsim.models.layers import GraphBuilder
from podsim.models.op import Pool


@dataclass(frozen=True, slots=True)
class Pooling:
    """Maximum over windows."""

    name: str  # its name within the block
    source: Features
    window: int  # length of the window along every axis
    stride: int  # step between windows

    @property
    def out(self) -> Features:
        """Its result."""
        self.source.check_window(self.name, self.stride)
        return self.source.strided(self.stride)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """None."""
        return ()

    @property
    def kept_elements(self) -> int:
        """Its result."""
        return self.out.element_count

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
class GlobalAverage:
    """The mean over all positions of each channel."""

    name: str  # its name within the block
    source: Features

    @property
    def out(self) -> Features:
        """One position."""
        return Features(self.source.batch, self.source.channels, ())

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """None."""
        return ()

    @property
    def kept_elements(self) -> int:
        """Its result."""
        return self.out.element_count

    def forward(self, g: GraphBuilder, source: str) -> str:
        """A sum, and a division of the little that is left."""
        total = g.reduce(self.name, self.out.shape, self.source.element_count, source)
        return g.elementwise("scale", self.out.shape, (total,), name=f"{self.name}/scale")

    def backward(self, g: GraphBuilder, gradient: str) -> str:
        """The gradient laid out over all positions."""
        scaled = g.elementwise("scale", self.out.shape, (gradient,), name=f"{self.name}/scale")
        return g.rearrange(f"{self.name}/broadcast", self.source.shape, scaled)
