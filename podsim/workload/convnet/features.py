"""Feature maps: what convolutional layers hand on, with the checks that shapes must pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from podsim.errors import ModelError


@dataclass(frozen=True, slots=True)
class Features:
    """A batch of feature maps.

    Attributes:
        batch: Images per micro-batch.
        channels: Channels.
        size: Height and width, or any number of spatial axes.
    """

    batch: int
    channels: int
    size: tuple[int, ...]

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

    def strided(self, name: str, kernel: Sequence[int], stride: int) -> Features:
        """What is left of the positions by a window that moves by `stride`, padded so that stride 1 keeps all.

        Raises:
            ModelError: A feature map is smaller than the window.
        """
        for length, window in zip(self.size, kernel, strict=True):
            if length < window - window // 2:
                size = "x".join(map(str, self.size))
                raise ModelError(
                    f"{name}: feature maps of {size} are smaller than its {'x'.join(map(str, kernel))} window",
                    key="model.image_size",
                    do="use larger images",
                )
        return replace(self, size=tuple(-(-length // stride) for length in self.size))


def check_groups(name: str, channels: int, groups: int) -> None:
    """Refuse groups that do not divide channels.

    Raises:
        ModelError: They do not.
    """
    if channels % groups:
        raise ModelError(
            f"{name}: {groups} groups do not divide {channels} channels",
            key="model",
            do="change the size of the groups or the width of the model",
        )
