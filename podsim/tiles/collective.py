"""Sums of small tensors over a few neighbouring replicas, inside the forward and backward pass."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Neighbours:
    """How single-IPU replicas that sit next to each other exchange small tensors.

    Attributes:
        step_latency_s: Sync, link and small reduction of one step of a collective. [s]
        bandwidth_bytes_per_s: Of the link between two of them. [B/s]
        clock_hz: Of the tiles that wait for it. [Hz]
    """

    step_latency_s: float
    bandwidth_bytes_per_s: float
    clock_hz: float

    def sum_s(self, byte_count: int, group_size: int) -> float:
        """Reduce-scatter and all-gather by halving: log2(n) steps each, (n - 1)/n of the bytes each. [s]

        >>> Neighbours(1e-6, 1e9, 1e9).sum_s(1000, 4)
        5.5e-06
        """
        if group_size == 1:
            return 0.0
        steps = 2 * math.ceil(math.log2(group_size))
        moved = 2 * (group_size - 1) / group_size * byte_count
        return steps * self.step_latency_s + moved / self.bandwidth_bytes_per_s


FREE = Neighbours(0.0, math.inf, 1.0)
"""Their sums take no time."""
