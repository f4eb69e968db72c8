"""What a pipeline's stages cost and need for every way to cut the chain, with one layout apart from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from podsim.placement.cuts import Cuts
from podsim.placement.layout import Layout, PlanInput
from podsim.placement.schedule import PipelineSchedule
from podsim.scenario.hardware import System
from podsim.search.chain import Costs, Slices, Split, held_bytes, is_tied, least_maximum, most_even
from podsim.search.families import CheckpointedSlices


@dataclass(frozen=True, slots=True)
class CutChain:
    """A chain that has been cut."""

    layout: Layout
    cycles: float  # of the slowest IPU, estimated; what it needs of its memory where nothing fits
    end_bytes: float  # weights and what belongs to them on the IPU that holds the first and the last stage [B]


@dataclass(frozen=True, slots=True)
class Prices:
    """Cycles and memory of every part, for each share of memory for temporaries."""

    layout: Layout  # all but the cuts
    slices: Slices
    folded: bool  # whether the last stage shares IPU 0 with the first
    capacity_bytes: float  # memory of an IPU, code apart [B]
    held_bytes: Costs  # weights and what belongs to them, by part [B]
    parts: Sequence[tuple[Costs, Costs]]  # (cycles, bytes) of each stage that has an IPU to itself, in order
    ends: tuple[Costs, Costs]  # (cycles, bytes) of the IPU that holds the first and the last stage, if they share one
    allowed: Sequence[Sequence[int]]  # the shares that each IPU may use
    pinned: Sequence[float]  # the share of each IPU as it was written, if it was
    shards: int = 1  # IPUs that share a stage; others are counted in groups of them

    def fastest(self, limit_bytes: float = float("inf")) -> CutChain | None:
        """Return the fitting cuts with the least longest stage and under `limit_bytes` on the IPU of both ends."""
        priced = [np.where(used <= self.capacity_bytes, cycles, np.inf) for cycles, used in self._by_part()]
        priced[-1] = np.where(self._end_bytes < limit_bytes, priced[-1], np.inf)
        return self._pipeline(priced, most_even(*self._least(priced)))

    def leanest(self) -> CutChain | None:
        """Return the cuts with the least memory on the fullest IPU, even if they do not fit."""
        priced = [np.where(np.isfinite(used), used, np.inf) for _, used in self._by_part()]
        return self._pipeline(priced, least_maximum(*self._least(priced)))

    @property
    def _end_bytes(self) -> Costs:
        """Size of weights, accumulators and optimizer state before the first cut and behind the last one. [B]"""
        return np.asarray(self.held_bytes[0, :, None] + self.held_bytes[None, :, -1])

    def _by_part(self) -> list[tuple[Costs, Costs]]:
        return [*self.parts, self.ends]

    @property
    def _ipus(self) -> list[int]:
        """IPU of each part, the ends last."""
        first = 1 if self.folded else 0
        return [*range(first, first + len(self.parts)), 0]

    def _least(self, priced: Sequence[Costs]) -> tuple[list[Costs], Costs]:
        """Costs with the best share that each IPU may use, by part and of the ends; in the unit of what is priced."""
        least = [costs[list(self.allowed[ipu])].min(axis=0) for ipu, costs in zip(self._ipus, priced, strict=True)]
        return least[:-1], least[-1]

    def _pipeline(self, priced: Sequence[Costs], split: Split | None) -> CutChain | None:
        if split is None:
            return None
        cuts, size = split.cuts, self.slices.size
        places = [*pairwise(cuts), (cuts[0], cuts[-1])]
        shares = [0] * (self.layout.ipus_per_replica // self.shards)
        for ipu, costs, place in list(zip(self._ipus, priced, places, strict=True))[: None if self.folded else -1]:
            shares[ipu] = min(self.allowed[ipu], key=lambda share: (costs[share, *place], share))
        stages = (0, *cuts, size) if self.folded else cuts
        ipus = (0, *range(1, len(cuts)), 0) if self.folded else tuple(range(len(cuts) - 1))
        chosen = tuple(self.slices.chain.proportions[share] for share in shares for _ in range(self.shards))
        proportions = tuple(self.pinned) or chosen
        groups = tuple(range(ipu * self.shards, (ipu + 1) * self.shards) for ipu in ipus)
        made = Cuts(tuple(stages[:-1]), groups, self._checkpoints(stages, shares))
        layout = replace(self.layout, cuts=made, available_memory_proportion=proportions)
        return CutChain(layout, split.cost, float(self._end_bytes[cuts[0], cuts[-1]]))

    def _checkpoints(self, stages: Sequence[int], shares: Sequence[int]) -> tuple[int, ...] | None:
        """Return the starts of segments inside stages, or None if layers are the segments."""
        if self.slices.chain.workload.layers:
            return None
        if not isinstance(self.slices, CheckpointedSlices):
            return ()
        chosen: list[int] = []
        schedule = PipelineSchedule.from_name(self.layout.schedule, len(stages) - 1)
        for index, (start, stop) in enumerate(pairwise(stages)):
            room = self.capacity_bytes - float(self.held_bytes[start, stop])
            chosen += self.slices.checkpoints(shares[index], start, stop, schedule.stash_depth(index), room)
        return tuple(chosen)


def capacity_bytes(job: PlanInput) -> int:
    """Return the memory of an IPU without code, I/O tiles and what is left free. [B]"""
    ipu = job.system.machine.ipu
    compute_tiles = ipu.tile.count - job.layout.io_tiles
    reserve = round(job.layout.reserve * compute_tiles * ipu.tile.memory_bytes)
    return int(compute_tiles * (ipu.tile.memory_bytes - job.code_bytes_per_tile)) - reserve


def price(slices: Slices, job: PlanInput, pinned: Sequence[float] = (), shards: int = 1) -> Prices:
    """Price every stage of a layout. `job`: formats, optimizer, and the layout without its cuts."""
    chain, ipu_count = slices.chain, job.layout.ipus_per_replica // shards
    capacity = capacity_bytes(job)
    held = held_bytes(chain.workload, job)
    folded = ipu_count > 1 and is_tied(chain.workload)
    hand_over = _hand_over_cycles(slices, job.system) if ipu_count > 1 else np.zeros(slices.size + 1)
    handed = slices.cycles + hand_over[:, None] + hand_over[None, :]
    schedule = PipelineSchedule.from_name(job.layout.schedule, ipu_count + folded)
    depths = [schedule.stash_depth(index) for index in range(schedule.stage_count)]
    stages = [(handed, slices.memory_bytes(depth) + held) for depth in depths]
    # The last stage need not redo all, or keeps what fits beside what it holds.
    last_cycles, last_bytes = slices.last_stage(capacity - held[:, -1])
    cycles, used = stages[-1][0].copy(), stages[-1][1]
    cycles[:, :, -1] = last_cycles + hand_over + hand_over[-1]
    used[:, :, -1] = last_bytes + held[:, -1]
    stages[-1] = cycles, used
    every = list(range(len(chain.proportions)))
    allowed = [[chain.share_of(proportion)] for proportion in pinned[::shards]] or [every] * ipu_count
    if folded:
        ends = _shared(slices, held, stages[0][0], stages[-1][0], depths[0])
        stages = stages[1:-1]
    else:
        # Of a pipeline that reaches from the first block to the last the ends are nothing.
        nothing = np.full_like(slices.cycles, np.inf)
        nothing[:, 0, -1] = 0.0
        ends = nothing, nothing
    return Prices(job.layout, slices, folded, float(capacity), held, stages, ends, allowed, pinned, shards)


def _shared(slices: Slices, held: Costs, front: Costs, back: Costs, depth: int) -> tuple[Costs, Costs]:
    """Return time and memory of the IPU that holds the first and the last stage, by its cuts. [cycles], [B]"""
    kept = depth * slices.kept_bytes[0, :, None] + slices.kept_bytes[None, :, -1]
    peak = np.maximum(slices.peak_bytes[:, 0, :, None], slices.peak_bytes[:, None, :, -1])
    used = kept + peak + held[0, :, None] + held[None, :, -1]
    return front[:, 0, :, None] + back[:, None, :, -1], used


def _hand_over_cycles(slices: Slices, system: System) -> Costs:
    """Half a sync, and the transfers of activations and gradients over each cut. [cycles]"""
    ipu = system.machine.ipu
    over = slices.chain.input_bytes / system.machine.rung_bytes_per_s * ipu.clock_hz
    return np.asarray(np.append(over, 0.0) + ipu.multi_ipu_sync_cycles / 2)
