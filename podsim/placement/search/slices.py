"""Memory of every contiguous part of a chain: what it keeps between forward and backward pass, and while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np

from podsim.placement.alive import Needs
from podsim.placement.cuts import Segment, kept_elements
from podsim.placement.memory import segment_peak_bytes
from podsim.placement.search.chain import Chain, ranges
from podsim.placement.search.split import Costs, Places

SegmentsOf = Callable[[int, int], tuple[Segment, ...]]
"""Segments of blocks `i` up to `j`."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Segments of every contiguous part of a chain.

    Attributes:
        segments: What parts consist of, once for all that have as many blocks of each kind.
        place: Which of these blocks `i` up to `j` are at `[i, j]`; -1 where there are none.
    """

    segments: tuple[tuple[Segment, ...], ...]
    place: Places


@lru_cache(maxsize=8)
def partition_of(segments_of: SegmentsOf, size: int) -> Partition:
    """The segments of all parts; kept, as they are the same for every micro-batch."""
    known: dict[tuple[Segment, ...], int] = {}
    place = np.full((size + 1, size + 1), -1)
    for start in range(size):
        for stop in range(start + 1, size + 1):
            place[start, stop] = known.setdefault(segments_of(start, stop), len(known))
    return Partition(tuple(known), place)


class Slices:
    """Parts whose segments are given."""

    def __init__(self, chain: Chain, segments_of: SegmentsOf, *, recompute: bool, recompute_last: bool) -> None:
        """Keep the chain; everything is found when it is asked for."""
        self.chain, self._segments_of = chain, segments_of
        self._recompute, self._recompute_last = recompute, recompute_last
        self.size = len(chain.order)

    @cached_property
    def cycles(self) -> Costs:
        """All passes of one micro-batch of every part. [cycles]"""
        return ranges(self.chain.forward * (2 if self._recompute else 1) + self.chain.backward)

    @cached_property
    def kept_bytes(self) -> Costs:
        """Kept per micro-batch in flight, by part. [B]"""
        workload = self.chain.workload
        kept = cache(lambda segment: kept_elements(segment, workload, recompute=self._recompute))
        return self._table(lambda segments: sum(map(kept, segments))) * float(workload.stash_bytes)

    @cached_property
    def peak_bytes(self) -> Costs:
        """The most that lives only while a part runs, by share and part. [B]"""
        workload, recompute = self.chain.workload, self._recompute

        def table(needs: dict[str, Needs]) -> Costs:
            peak = cache(lambda blocks: segment_peak_bytes(Segment(blocks), workload, needs, recompute=recompute))
            return self._table(lambda segments: max(peak(each.blocks) for each in segments))

        return np.array([table(needs) for needs in self.chain.needs])

    def memory_bytes(self, depth: int) -> Costs:
        """Activations and temporaries with a number of micro-batches in flight, by share and part. [B]"""
        return depth * self.kept_bytes + self.peak_bytes

    def last_stage(self, room_bytes: Costs) -> tuple[Costs, Costs]:
        """Cycles and memory of the parts that reach the end of the chain, by share and start. [cycles], [B]

        Args:
            room_bytes: Memory beside what is held anyway, by start; parts are laid out so that they fit.
        """
        del room_bytes
        cycles = self.cycles[:, :, -1].copy()
        if self._recompute and not self._recompute_last:
            for start in range(self.size):
                last = self._segments_of(start, self.size)[-1]
                at = [self.chain.order.index(name) for name in last.blocks]
                cycles[:, start] -= last.count * self.chain.forward[:, at].sum(axis=1)
        return cycles, self.memory_bytes(1)[:, :, -1]

    def checkpoints(self, share: int, start: int, stop: int, depth: int, room_bytes: float) -> list[int]:
        """Blocks that start a segment inside a part, where that is a choice."""
        del share, start, stop, depth, room_bytes
        return []

    def _table(self, value: Callable[[tuple[Segment, ...]], float]) -> Costs:
        parts = partition_of(self._segments_of, self.size)
        # The last value is where a place of -1 points.
        return np.array([*map(value, parts.segments), np.inf])[parts.place]
