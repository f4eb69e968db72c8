"""What chips reduce and gather together, as times: steps of rings and of halves, and sums inside a pass."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a reduce-scatter, or of an all-gather, which takes as many that are alike."""

    # how many, the latency of one [s], and its time for each byte of the whole [s/B]
    each: tuple[tuple[int, float, float], ...]

    @property
    def latency_s(self) -> float:
        """Of all of them. [s]"""
        return sum(count * latency_s for count, latency_s, _ in self.each)

    @property
    def s_per_byte(self) -> float:
        """Of all of them, for each byte of what is reduced or gathered. [s/B]"""
        return sum(count * per_byte_s for count, _, per_byte_s in self.each)

    def time_s(self, byte_count: float) -> float:
        """All steps, of so much that is reduced or gathered. [s]

        >>> Steps(((1, 1e-6, 5e-10), (1, 1e-6, 2.5e-10))).time_s(1000)
        2.75e-06
        """
        return self.latency_s + byte_count * self.s_per_byte


@dataclass(frozen=True, slots=True)
class Neighbours:
    """How single-IPU replicas that sit next to each other sum small tensors, inside the forward and backward pass."""

    small: Steps  # of a message that is halved
    large: Steps
    halved_bytes: float  # the largest message that is halved [B]
    clock_hz: float  # of the tiles that wait for it [Hz]

    def sum_s(self, byte_count: int) -> float:
        """Reduce-scatter and all-gather, twice the steps of either. [s]"""
        return 2 * (self.small if byte_count <= self.halved_bytes else self.large).time_s(byte_count)


FREE = Neighbours(Steps(()), Steps(()), 0.0, 1.0)
"""Their sums take no time."""
