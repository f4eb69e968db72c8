"""Times of collectives between chips: steps of rings and of recursive halving, and sums inside a pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of a reduce-scatter; an all-gather has the same steps in reverse order."""

    # groups of equal steps: (step count, latency of one step [s], its time per byte of the whole tensor [s/B])
    groups: tuple[tuple[int, float, float], ...]

    @property
    def latency_s(self) -> float:
        """Total latency of all steps. [s]"""
        return sum(count * latency_s for count, latency_s, _ in self.groups)

    @property
    def s_per_byte(self) -> float:
        """Total time of all steps per byte of the tensor. [s/B]"""
        return sum(count * per_byte_s for count, _, per_byte_s in self.groups)

    def time_s(self, byte_count: float) -> float:
        """Return the time of all steps for a tensor of `byte_count` bytes. [s]

        >>> Steps(((1, 1e-6, 5e-10), (1, 1e-6, 2.5e-10))).time_s(1000)
        2.75e-06
        """
        return self.latency_s + byte_count * self.s_per_byte


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Steps in which neighbouring single-IPU replicas sum small tensors inside the forward and backward pass."""

    small: Steps  # steps of recursive halving, for small messages
    large: Steps  # steps of a ring, for larger messages
    halved_bytes: float  # largest message that is summed by recursive halving [B]
    clock_hz: float  # clock of the tiles that wait for the sum [Hz]

    def sum_s(self, byte_count: int) -> float:
        """Return the time of a reduce-scatter and an all-gather of `byte_count` bytes. [s]"""
        return 2 * (self.small if byte_count <= self.halved_bytes else self.large).time_s(byte_count)


FREE = Neighbours(Steps(()), Steps(()), 0.0, 1.0)
"""Neighbours whose sums take no time."""
