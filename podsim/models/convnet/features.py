"""Feature maps: what convolutional layers hand on, with the checks that shapes must pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from podsim.errors import ModelError


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
