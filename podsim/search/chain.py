"""A model as a chain of blocks with what each costs and holds, for one micro-batch size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim import memo
from podsim.models import Workload
from podsim.placement.alive import LiveOp, Needs, needs
from podsim.placement.cuts import Segment, kept_elements
from podsim.placement.layout import ON_CHIP, PlanInput
from podsim.placement.memory import segment_peak_bytes
from podsim.placement.stage_cost import BlockCost, block_cost, state_bytes
from podsim.tiles.model import CostModel

Costs = NDArray[Any]
Places = NDArray[np.int_]
_SLACK = 1 + 1e-9
_MOST_WAYS = 4_000_000
_FEWEST_STARTS = 16


@dataclass(frozen=True, slots=True)
class Split:
    """Cuts of a chain and their cost."""

    # boundaries of the parts in between: part k holds blocks from cut k up to cut k + 1; what lies before the first cut
    # and after the last one belongs to the ends
    cuts: tuple[int, ...]
    cost: float


def least_maximum(parts: Sequence[Costs], ends: Costs) -> Split | None:
    """Return the split with the least cost of the most expensive part, by dynamic programming over the cuts.

    >>> one = np.array([[np.inf, 3, 5], [np.inf, np.inf, 2], [np.inf, np.inf, np.inf]])
    >>> whole = np.array([[np.inf, np.inf, 0], [np.inf] * 3, [np.inf] * 3])
    >>> least_maximum([one, one], whole)
    Split(cuts=(0, 1, 2), cost=3.0)

    `parts`: for each part in order, the cost of holding blocks `i` up to `j` at `[i, j]`; infinite where that is not
    possible; `ends`: the cost of holding what lies before `i` and behind `j` at `[i, j]`; The split, or None if there
    is none of finite cost.
    """
    return _best(parts, ends, np.maximum)


def most_even(parts: Sequence[Costs], ends: Costs) -> Split | None:
    """Return the split with the least maximum and then the least sum of squares; its cost is the maximum.

    The pipeline fills and drains faster when the other stages are short too.
    """
    least = least_maximum(parts, ends)
    if least is None:
        return None
    limit = least.cost * _SLACK
    squares = [np.where(costs <= limit, costs**2, np.inf) for costs in (*parts, ends)]
    even = _best(squares[:-1], squares[-1], np.add)
    return Split(even.cuts, least.cost) if even else least


def _best(parts: Sequence[Costs], ends: Costs, join: Any) -> Split | None:
    starts = np.flatnonzero(np.isfinite(ends).any(axis=1))
    most = max(_FEWEST_STARTS, _MOST_WAYS // len(ends) ** 2)
    if len(starts) > most:
        # Time and memory grow with starts x cuts x cuts; so long a chain is cut well enough on a coarser grid.
        starts = starts[np.linspace(0, len(starts) - 1, most).astype(int)]
    size = len(ends)
    reached = np.where(np.arange(size)[None, :] == starts[:, None], 0.0, np.inf)
    comes_from = []
    for costs in parts:
        ways = join(reached[:, :, None], costs[None, :, :])
        comes_from.append(ways.argmin(axis=1))
        reached = ways.min(axis=1)
    whole = join(reached, ends[starts])
    if not np.isfinite(whole).any():
        return None
    row, cut = np.unravel_index(int(whole.argmin()), whole.shape)
    cuts = [int(cut)]
    for step in reversed(comes_from):
        cuts.append(int(step[row, cuts[-1]]))
    return Split(tuple(reversed(cuts)), float(whole.min()))


@dataclass(frozen=True, slots=True)
class CostedChain:
    """Blocks in order, costed for several shares of memory for temporaries."""

    workload: Workload
    proportions: tuple[float, ...]  # the shares, smallest first
    forward: Costs  # forward pass by share and block [cycles]
    redone: Costs  # what is redone of it where the block ends a segment [cycles]
    backward: Costs  # backward pass by share and block [cycles]
    needs: tuple[dict[str, Needs], ...]  # for each share, memory that each block needs while it runs

    def share_of(self, proportion: float) -> int:
        """Index of the costs with a share of memory; one that is left out costs as much as the next smaller one."""
        return max(index for index, each in enumerate(self.proportions) if each <= proportion)

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the blocks."""
        return self.workload.order

    def per_block(self, value: Callable[[str], float]) -> Costs:
        """Return a value for every block, in order."""
        values = {name: value(name) for name in self.workload.blocks}
        return np.array([values[name] for name in self.order], dtype=float)

    @property
    def unread(self) -> Costs:
        """Forward time that is not recomputed if a block ends a segment, by share and block. [cycles]"""
        return self.forward - self.redone

    @property
    def input_bytes(self) -> Costs:
        """Size of the input of each block. [B]"""
        return self.per_block(self.workload.input_elements) * self.workload.activation_bytes

    @property
    def stashed_bytes(self) -> Costs:
        """Size of the input of each block as stashed for the backward pass. [B]"""
        return self.per_block(self.workload.input_elements) * self.workload.stash_bytes

    def least_cycles(self, *, recompute: bool) -> tuple[float, float]:
        """Cycles of all blocks, and of the longest, with unlimited memory. [cycles]"""
        cycles = self.forward[-1] + (self.redone[-1] if recompute else 0) + self.backward[-1]
        return float(cycles.sum()), float(cycles.max())


def held_bytes(workload: Workload, job: PlanInput) -> Costs:
    """Return the weights, accumulators and optimizer state on chip of every range of blocks. [B]"""
    one = job.precision.accumulator_bytes

    def block_bytes(name: str) -> float:
        """Return the least memory of a block. [B]"""
        owned = [parameter for parameter in workload.blocks[name].parameters if parameter.tied_to is None]
        sizes = [each.element_count for each in owned]
        on_chip = job.layout.optimizer_storage == ON_CHIP
        stored = job.precision.stored_bytes(owned) + sum(sizes) * one
        return stored + (state_bytes(sizes, job) if on_chip else 0)

    values = {name: block_bytes(name) for name in workload.blocks}
    return ranges(np.array([values[name] for name in workload.order], dtype=float))


def is_tied(workload: Workload) -> bool:
    """Return True if the last block shares weights with the first, so that both belong on one IPU."""
    first, last = workload.order[0], workload.blocks[workload.order[-1]]
    owners = [parameter.tied_to.split("/")[0] for parameter in last.parameters if parameter.tied_to is not None]
    return first in owners


def ranges(values: Costs) -> Costs:
    """Return the sums over blocks `i` up to `j` at `[…, i, j]`.

    >>> ranges(np.array([1.0, 10.0]))[0]
    array([ 0.,  1., 11.])
    """
    total = np.concatenate([np.zeros((*values.shape[:-1], 1)), values.cumsum(axis=-1)], axis=-1)
    return np.asarray(total[..., None, :] - total[..., :, None])


def chain_of(workload: Workload, model: CostModel, proportions: Sequence[float]) -> CostedChain:
    """Cost every block with every share of memory.

    A share that the fastest plans do not use up costs what the next larger one does, and is left out.
    """
    costed: list[tuple[float, dict[str, BlockCost]]] = []
    for proportion in sorted(proportions, reverse=True):
        blocks = costed[-1][1].values() if costed else ()
        largest_bytes = max((cost.temporary_bytes_per_tile for cost in blocks), default=float("inf"))
        if largest_bytes <= proportion * model.ipu.tile.memory_bytes:
            costed[-1] = (proportion, costed[-1][1])
            continue
        costed.append((proportion, {name: block_cost(name, workload, model, proportion) for name in workload.blocks}))
    costed.reverse()
    return CostedChain(
        workload=workload,
        proportions=tuple(proportion for proportion, _ in costed),
        forward=np.array([[costs[name].forward_account.cycles for name in workload.order] for _, costs in costed]),
        redone=np.array([[costs[name].redone_account.cycles for name in workload.order] for _, costs in costed]),
        backward=np.array([[costs[name].backward_account.cycles for name in workload.order] for _, costs in costed]),
        needs=tuple({name: cost.needs for name, cost in costs.items()} for _, costs in costed),
    )


def bare_chain(workload: Workload) -> CostedChain:
    """Return the blocks as if their operations took no time and needed no temporaries."""
    # Keeping the model alive keeps its id unique.
    chain: CostedChain = memo.BARE.get(id(workload), lambda: _bare_chain(workload))
    return chain


def _bare_chain(workload: Workload) -> CostedChain:
    nothing = np.zeros((1, len(workload.order)))
    bare = {
        name: needs(workload, name, *([LiveOp(op) for op in ops] for ops in (block.forward, block.backward)))
        for name, block in workload.blocks.items()
    }
    return CostedChain(workload, (1.0,), nothing, nothing, nothing, (bare,))


SegmentsOf = Callable[[int, int], tuple[Segment, ...]]
"""Segments of blocks `i` up to `j`."""


@dataclass(frozen=True, slots=True)
class Partition:
    """Segments of every contiguous part of a chain."""

    # what parts consist of, once for all that have as many blocks of each kind
    segments: tuple[tuple[Segment, ...], ...]
    place: Places  # which of these blocks `i` up to `j` are at `[i, j]`; -1 where there are none


@lru_cache(maxsize=8)
def partition_of(segments_of: SegmentsOf, size: int) -> Partition:
    """Return the segments of all parts, cached because every micro-batch size has the same segments."""
    known: dict[tuple[Segment, ...], int] = {}
    place = np.full((size + 1, size + 1), -1)
    for start in range(size):
        for stop in range(start + 1, size + 1):
            place[start, stop] = known.setdefault(segments_of(start, stop), len(known))
    return Partition(tuple(known), place)


class Slices:
    """Parts whose segments are given."""

    def __init__(self, chain: CostedChain, segments_of: SegmentsOf, *, recompute: bool, recompute_last: bool) -> None:
        self.chain, self._segments_of = chain, segments_of
        self._recompute, self._recompute_last = recompute, recompute_last
        self.size = len(chain.order)

    @cached_property
    def cycles(self) -> Costs:
        """Time of all passes of one micro-batch, by share and part. [cycles]"""
        cycles = ranges(self.chain.forward * (2 if self._recompute else 1) + self.chain.backward)
        return cycles - self._unread if self._recompute and self.chain.unread.any() else cycles

    @cached_property
    def _unread(self) -> Costs:
        """Time that is not recomputed at the ends of segments, by share and part. [cycles]"""
        place = {name: at for at, name in enumerate(self.chain.order)}

        def table(unread: Costs) -> Costs:
            at_ends = cache(lambda each: each.count * unread[place[each.blocks[-1]]])
            return self._table(lambda segments: sum(map(at_ends, segments)))

        tables = np.array([table(unread) for unread in self.chain.unread])
        return np.where(np.isfinite(tables), tables, 0.0)

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
            return self._table(lambda segments: max(peak(segment.blocks) for segment in segments))

        return np.array([table(needs) for needs in self.chain.needs])

    def memory_bytes(self, depth: int) -> Costs:
        """Activations and temporaries with a number of micro-batches in flight, by share and part. [B]"""
        return depth * self.kept_bytes + self.peak_bytes

    def last_stage(self, _room_bytes: Costs, /) -> tuple[Costs, Costs]:
        """Cycles and memory of the parts that reach the end, by share and start, laid out to fit. [cycles], [B]"""
        cycles = self.cycles[:, :, -1].copy()
        if self._recompute and not self._recompute_last:
            for start in range(self.size):
                last = self._segments_of(start, self.size)[-1]
                at = [self.chain.order.index(name) for name in last.blocks]
                whole = self.chain.forward[:, at].sum(axis=1) - self.chain.unread[:, at[-1]]
                cycles[:, start] -= last.count * whole
        return cycles, self.memory_bytes(1)[:, :, -1]

    def _table(self, value: Callable[[tuple[Segment, ...]], float]) -> Costs:
        parts = partition_of(self._segments_of, self.size)
        # The last value is where a place of -1 points.
        return np.array([*map(value, parts.segments), np.inf])[parts.place]
