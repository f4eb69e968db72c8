"""Parts that may be cut into segments anywhere: which checkpoints need least memory, or spare most work."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from podsim.placement.search.slices import Slices
from podsim.placement.search.split import Costs

_MOST_LIMITS = 192


class CheckpointedSlices(Slices):
    """Parts of a chain of blocks in which any block may start a segment.

    More segments keep more inputs; longer ones need more memory while they are redone. For each limit on
    the largest segment, dynamic programming finds the fewest bytes of inputs.
    """

    @cached_property
    def _limits(self) -> list[Costs]:
        """Peaks of segments that are tried as the largest, by share. [B]"""
        limits = [np.unique(peaks[np.isfinite(peaks)]) for peaks in self.peak_bytes]
        return [each[np.linspace(0, len(each) - 1, min(_MOST_LIMITS, len(each))).astype(int)] for each in limits]

    @cached_property
    def _fewest_kept(self) -> list[Costs]:
        """Inputs kept of blocks `i` up to `j` with limit `l` at `[i, j, l]`, by share. [B]"""
        return [self._fewest(share) for share in range(len(self.chain.proportions))]

    def _fewest(self, share: int) -> Costs:
        limits, peaks, inputs = self._limits[share], self.peak_bytes[share], self.chain.stashed_bytes
        kept = np.full((self.size + 1, self.size + 1, len(limits)), np.inf)
        for start in range(self.size + 1):
            kept[start, start] = 0.0
        for stop in range(1, self.size + 1):
            for cut in range(stop):
                longer = np.where(peaks[cut, stop] <= limits, kept[: cut + 1, cut] + inputs[cut], np.inf)
                kept[: cut + 1, stop] = np.minimum(kept[: cut + 1, stop], longer)
        return kept

    def memory_bytes(self, depth: int) -> Costs:
        """Activations and temporaries with the checkpoints that need least."""
        return np.array(
            [
                np.where(np.eye(self.size + 1, dtype=bool), np.inf, (depth * kept + limits).min(axis=2))
                for kept, limits in zip(self._fewest_kept, self._limits, strict=True)
            ]
        )

    def last_stage(self, room_bytes: Costs) -> tuple[Costs, Costs]:
        """With the last segment, which is not redone, as long as memory allows."""
        if self._recompute_last:
            return super().last_stage(room_bytes)
        shares = range(len(self.chain.proportions))
        cycles, used = self.cycles[:, :, -1].copy(), self.memory_bytes(1)[:, :, -1]
        for share in shares:
            for start in range(self.size):
                last = self._longest_last(share, start, float(room_bytes[start]))
                cycles[share, start] -= self.chain.forward[share, last:].sum()
                used[share, start] = self._with_last(share, start, last).min()
        return cycles, used

    def _longest_last(self, share: int, start: int, room_bytes: float) -> int:
        """Where the last segment starts: as early as fits, or as needs least memory."""
        used = [float(self._with_last(share, start, last).min()) for last in range(start, self.size)]
        fitting = [place for place, need in enumerate(used) if need <= room_bytes]
        return start + (fitting[0] if fitting else int(np.argmin(used)))

    def _with_last(self, share: int, start: int, last: int) -> Costs:
        """Memory of a part whose last segment starts there, by limit. [B]"""
        limits = self._limits[share]
        need = self._fewest_kept[share][start, last] + self.chain.stashed_bytes[last] + limits
        return np.where(limits >= self.peak_bytes[share, last, -1], need, np.inf)

    def checkpoints(self, share: int, start: int, stop: int, depth: int, room_bytes: float) -> list[int]:
        """Blocks behind the first that start a segment."""
        if not self._recompute:
            return []
        limits, kept = self._limits[share], self._fewest_kept[share]
        if stop == self.size and not self._recompute_last:
            last = self._longest_last(share, start, room_bytes)
            limit = int(self._with_last(share, start, last).argmin())
            return [*self._starts(share, start, last, limit), last][1:] if last > start else []
        limit = int((depth * kept[start, stop] + limits).argmin())
        return self._starts(share, start, stop, limit)[1:]

    def _starts(self, share: int, start: int, stop: int, limit: int) -> list[int]:
        """Starts of the segments of a part that keep fewest inputs under a limit."""
        kept, inputs, peaks = (
            self._fewest_kept[share][start, :, limit],
            self.chain.stashed_bytes,
            self.peak_bytes[share],
        )
        starts: list[int] = []
        while stop > start:
            under = (cut for cut in range(start, stop) if peaks[cut, stop] <= self._limits[share][limit])
            stop = min(under, key=lambda cut: kept[cut] + inputs[cut])
            starts.insert(0, stop)
        return starts
