"""Times of collectives between chips: passes of equal steps."""

from __future__ import annotations

from dataclasses import dataclass

REDUCE_SCATTER, ALL_GATHER = "reduce_scatter", "all_gather"
PASSES = {
    REDUCE_SCATTER: (REDUCE_SCATTER,),
    ALL_GATHER: (ALL_GATHER,),
    "all_reduce": (REDUCE_SCATTER, ALL_GATHER),
}
"""Passes of each collective, one after the other."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Reduce-scatter or all-gather of a tensor in equal steps."""

    name: str  # `reduce_scatter` or `all_gather`
    step_count: int
    share: float  # what a chip sends in a step, relative to the whole tensor
    latency_s: float  # latency of one step: exchanges and supersteps [s]
    tile_s_per_byte: float  # copies and additions of one step on the tiles, per byte of the whole tensor [s/B]

    def time_s(self, byte_count: float, link_s_per_byte: float) -> float:
        """Return the time of all steps for a tensor of `byte_count` bytes. [s]

        `link_s_per_byte`: time of the fullest link per byte that a chip sends in a step. [s/B]

        >>> Pass("all_gather", 3, 0.25, 1e-6, 1e-10).time_s(1000, 4e-10)
        3.6e-06
        """
        return self.step_count * (self.latency_s + byte_count * (self.share * link_s_per_byte + self.tile_s_per_byte))


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Sum of a small tensor over neighbouring single-IPU replicas inside a forward or backward pass."""

    passes: tuple[Pass, ...]
    link_s_per_byte: float  # time of the fullest link per byte that a chip sends in a step [s/B]
    clock_hz: float  # clock of the tiles that wait for the sum [Hz]

    def sum_s(self, byte_count: int) -> float:
        """Return the time of the all-reduce of `byte_count` bytes. [s]"""
        return sum(each.time_s(byte_count, self.link_s_per_byte) for each in self.passes)


FREE = Neighbours((), 0.0, 1.0)
"""Neighbours whose sums take no time."""
