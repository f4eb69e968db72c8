"""Batch norm and group norm, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from podsim.models.block import Parameter
from podsim.models.convnet.features import Features
from podsim.models.layers import GraphBuilder
from podsim.models.op import ReplicaSum


@dataclass(frozen=True, slots=True)
class Norm:
    """Batch norm, over the replicas of a group if it has more than one, or group norm."""

    name: str  # its name within the block
    source: Features
    replicas: int = 1  # replicas that share statistics; batch norm only
    groups: int = 0  # groups of channels with statistics per image, as in group norm; 0 for batch norm
    # whether known statistics are folded into the weights in front, as batch norm allows once a network is trained; a
    # bias is left
    folded: bool = False

    @property
    def out(self) -> Features:
        """As large as its input."""
        return self.source

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Scale and shift of every channel."""
        channels = (self.source.channels,)
        if self.folded:
            return (Parameter(f"{self.name}/beta", channels),)
        return (Parameter(f"{self.name}/gamma", channels), Parameter(f"{self.name}/beta", channels))

    @property
    def kept_elements(self) -> int:
        """Nothing: its input is kept, and an activation behind it keeps its own result."""
        return 0

    @property
    def _statistics(self) -> tuple[int]:
        return (self.source.batch * self.groups if self.groups else self.source.channels,)

    @property
    def _of_images(self) -> tuple[int, int]:
        """(images, channels)."""
        return self.source.batch, self.source.channels

    def forward(self, g: GraphBuilder, source: str) -> str:
        """Statistics in one pass each, whiten, scale and shift."""
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
        """Whiten the input again; gradients of scale and shift; gradient of the input with sums of its own.

        Source: [poplibs_popnn], which computes the two apart.
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
        """Sums over all positions, and over the channels of a group or the replicas of a group."""
        sums = [self._sum(g, name, source) for name in names]
        if self.replicas == 1:
            return sums
        both = (len(names) * self._statistics[0],)
        name = g.name(f"{self.name}/{names[0]}/replicas")
        g.add(ReplicaSum(name=name, shape=both, dtype="fp32", inputs=tuple(sums), group_size=self.replicas))
        return [name] * len(names)

    def _sum(self, g: GraphBuilder, name: str, source: str) -> str:
        """The sum of each channel; in group norm those of an image's channels first, then those of its groups."""
        if not self.groups:
            return g.reduce(f"{self.name}/{name}", self._statistics, self.source.element_count, source)
        total = g.reduce(f"{self.name}/{name}/channels", self._of_images, self.source.element_count, source)
        return g.reduce(f"{self.name}/{name}", self._statistics, math.prod(self._of_images), total)

    def _spread(self, g: GraphBuilder, name: str, source: str) -> str:
        """A statistic of groups, laid out for each channel before it meets the activations."""
        return g.rearrange(f"{self.name}/{name}/spread", self._of_images, source) if self.groups else source
