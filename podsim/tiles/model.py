"""The cost model: tile cycles of operations and blocks on one chip with one software stack."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from podsim.errors import MissingDataError, PodsimError
from podsim.extend import operation_cost
from podsim.memo import Memo
from podsim.models.op import (
    DROPOUT,
    DTYPE_BYTES,
    PIECE_BYTES,
    Conv,
    Copy,
    Elementwise,
    Gather,
    MatMul,
    Op,
    Pool,
    Rearrange,
    Reduce,
    ReplicaSum,
    ScatterAdd,
    ShardExchange,
    TokenExchange,
    TopK,
    Unexplained,
)
from podsim.scenario.ipu import Ipu
from podsim.tiles.account import Account, total
from podsim.tiles.collective import FREE, Neighbours
from podsim.tiles.conv_method import copy_cycles
from podsim.tiles.conv_shape import conv_shape
from podsim.tiles.planned import PLANNED_FOR, Chip, planned_conv, planned_matmul, planned_slices
from podsim.tiles.plans import ConvPlan, MatMulPlan, MatMulShape, SliceKind, SlicePlan, SliceShape
from podsim.tiles.vector import (
    WORD_BYTES,
    ceil_div,
    compare_swap_cycles,
    elementwise_cycles,
    layout_cycles,
    passes,
    pool_cycles,
    regroup_cycles,
    tile_share,
)

_Plan = TypeVar("_Plan", MatMulPlan, ConvPlan, SlicePlan)
_Value = TypeVar("_Value")
_SEED_STEPS = 3
_MOST = 4096
"""Maximum number of cached sequences, plans and other values."""
_MOST_SHARES = 32
"""Maximum number of cached plans of one operation, by their share of memory."""


@dataclass(frozen=True, slots=True)
class OpCost:
    """An operation with its cost."""

    op: Op
    account: Account  # tile cycles by kind
    temporary_bytes_per_tile: int = 0  # temporaries on the fullest tile without operands and result [B]
    plan: MatMulPlan | ConvPlan | None = None  # chosen split of a matrix product or convolution


@dataclass
class CostModel:
    """Cost model of one chip, with cached plans of equal sequences, products and convolutions."""

    ipu: Ipu
    layout_change_cycles_per_byte: float  # time of each copy of a layout change [cycles/B]
    partials: str = "fp16"  # format of matmul partials
    # sums of small tensors over neighbouring replicas; needed only for `ReplicaSum`
    neighbours: Neighbours | None = None
    accumulators_like_weights: bool = False  # True if accumulators have the layout of weights, False that of gradients
    unexplained_cycles_per_byte: float = 0.0  # unexplained work of each layer, per byte of its hidden state [cycles/B]
    traces_graphs: bool = False  # True if all layers have unexplained work, False if only those with split weights
    _sequences: Memo = field(default_factory=lambda: Memo(_MOST), repr=False)
    _plans: Memo = field(default_factory=lambda: Memo(_MOST), repr=False)
    _values: Memo = field(default_factory=lambda: Memo(_MOST), repr=False)
    _accounts: Memo = field(default_factory=lambda: Memo(_MOST), repr=False)
    _splits: CostModel | None = field(default=None, repr=False)

    @cached_property
    def _chip(self) -> Chip:
        return Chip(self.ipu)

    @cached_property
    def without_neighbours(self) -> CostModel:
        """The same model with free sums over neighbours; it is shared by models that differ in neighbours only."""
        if self.neighbours is None or self.neighbours == FREE:
            return self
        return self._with(FREE)

    def with_neighbours(self, neighbours: Neighbours | None) -> CostModel:
        """Return the model with these neighbours, whose sums take time."""

        def make() -> CostModel:
            model = self._with(neighbours)
            model.without_neighbours = self
            return model

        return self if neighbours == self.neighbours else self.memoize(self, ("neighbours", neighbours), make)

    def _with(self, neighbours: Neighbours | None) -> CostModel:
        return CostModel(self.ipu, self.layout_change_cycles_per_byte, self.partials, neighbours, *self._of_graphs)

    @property
    def splits(self) -> CostModel:
        """The model that chose the splits, and so decides the memory of operations."""
        chosen = self.without_neighbours._splits
        return chosen.splits if chosen else self.without_neighbours

    def memoize(self, owner: object, key: tuple[object, ...], make: Callable[[], _Value]) -> _Value:
        """Return the cached value for an object and a key; `make` computes it from the costs of this model."""
        # Keeping the object alive keeps its id unique.
        value: _Value = self._values.get((id(owner), *key), lambda: (owner, make()))[1]
        return value

    def with_splits(self, splits: CostModel) -> CostModel | None:
        """Return a model with the costs of this model and the splits of another.

        At the best split, a small change of a cost changes the sum as much as if the split were chosen again.

        Returns:
            The other model if its costs are equal; None if the models differ in more than supersteps and copies, so
            that splits have to be chosen again.
        """
        mine, others = self.without_neighbours, splits.without_neighbours
        old = others.ipu
        same = all(getattr(self.ipu, name) == getattr(old, name) for name in PLANNED_FOR if name != "superstep")
        if not same or self.partials != splits.partials:
            return None
        if mine._repriced_inputs == others._repriced_inputs:
            return others.with_neighbours(self.neighbours)
        if not old.superstep.overhead_cycles:  # supersteps that cost nothing cannot be counted by their cost
            return None
        mine._splits = others
        return mine.with_neighbours(self.neighbours)

    @property
    def key(self) -> tuple[object, ...]:
        """Inputs that the costs depend on, as a key."""
        return self._chip.key, self.layout_change_cycles_per_byte, self.partials, self.neighbours, self._of_graphs

    @property
    def _of_graphs(self) -> tuple[bool, float, bool]:
        """Inputs that say what graphs of the framework do."""
        return self.accumulators_like_weights, self.unexplained_cycles_per_byte, self.traces_graphs

    @property
    def _repriced_inputs(self) -> tuple[object, ...]:
        """Inputs that may change without choosing splits again."""
        return self.ipu.superstep, self.layout_change_cycles_per_byte, *self._of_graphs

    def _repriced(self, plan: _Plan, splits: CostModel) -> _Plan:
        """Return a plan of another model with the costs of supersteps and copies of this model."""
        account = plan.account
        supersteps = account.superstep / splits.ipu.superstep.overhead_cycles if account.superstep else 0.0
        moved = plan.method.moved_count if isinstance(plan, ConvPlan) else 0
        new, old = (
            copy_cycles(each.ipu, moved, plan.dtype, each.layout_change_cycles_per_byte) for each in (self, splits)
        )
        repriced = replace(
            account,
            superstep=supersteps * self.ipu.superstep.overhead_cycles,
            rearrange=account.rearrange + new - old,
        )
        return replace(plan, account=repriced)

    def sequence(self, ops: Iterable[Op], available_memory_proportion: float) -> tuple[OpCost, ...]:
        """Cost every operation of a sequence."""
        sequence, share = tuple(ops), available_memory_proportion
        return self._sequences.get((sequence, share), lambda: tuple(self.op(op, share) for op in sequence))

    def op(self, op: Op, available_memory_proportion: float) -> OpCost:
        """Cost one operation, by a registered function if there is one for its class."""
        cost, registered = self._op(op, available_memory_proportion), operation_cost.get(type(op).__name__)
        account = registered(op, self.ipu) if registered else None
        if account is None:
            return cost
        if not (isinstance(account, Account) and 0 < account.cycles < math.inf):
            what = f"the registered cost of {type(op).__name__} {op.name} is {account}, not a positive number of cycles"
            raise PodsimError(what, do="return an `Account` with cycles above 0, or None for podsim's own cost")
        return replace(cost, account=account)

    def _op(self, op: Op, available_memory_proportion: float) -> OpCost:
        match op:
            case MatMul():
                return self._matmul(op, available_memory_proportion)
            case Conv():
                conv = self.conv_plan(op, available_memory_proportion)
                return OpCost(op, conv.account + self._regrouped_channels(op), conv.temporary_bytes_per_tile, conv)
            case Pool():
                return OpCost(op, self._pool(op))
            case Elementwise():
                shared = op.function, op.element_count, op.dtype, op.row_length, op.even
                return OpCost(op, self._accounts.get(shared, lambda: self._elementwise(op)))
            case Reduce():
                return OpCost(op, self._reduce(op))
            case Rearrange():
                return OpCost(op, self._layout_changes(op) + self._remote_reads(op))
            case Copy():
                return OpCost(op, self._copy(op))
            case Unexplained():
                return OpCost(op, self._unexplained(op))
            case Gather() | ScatterAdd() if op.planned:
                found = self.slice_plan(op, available_memory_proportion)
                return OpCost(op, found.account, found.temporary_bytes_per_tile)
            case Gather() | ScatterAdd():
                return OpCost(op, self._rows(op))
            case ShardExchange() | TokenExchange():
                return OpCost(op, Account())
            case TopK():
                return OpCost(op, self._top_k(op))
            case ReplicaSum() if self.neighbours:
                seconds = self.neighbours.sum_s(op.byte_count)
                return OpCost(op, Account(all_reduce=seconds * self.neighbours.clock_hz))
        what = f"no cost formula for operation {op.name} of kind {type(op).__name__}"
        raise MissingDataError(what, do="add a case to CostModel.op in podsim/tiles/model.py")

    def layout_change(self, byte_count: float, piece_bytes: int = PIECE_BYTES) -> Account:
        """Return the cost of a layout change in pieces that are contiguous on one tile in both layouts."""
        pieces: int = ceil_div(ceil_div(byte_count, piece_bytes), self.ipu.tile.count)
        held, rate = pieces * piece_bytes, self.layout_change_cycles_per_byte
        return Account(
            rearrange=layout_cycles(self.ipu, held, rate, piece_bytes),
            superstep=2 * self.ipu.superstep.overhead_cycles,
        )

    def plan(self, op: MatMul, available_memory_proportion: float) -> MatMulPlan:
        """Return the plan of a matrix product."""
        shape, share = MatMulShape(op.rows, op.inner, op.columns, op.group_count), available_memory_proportion
        partials = "fp32" if op.dtype == "fp32" else self.partials

        def make() -> MatMulPlan:
            if self.without_neighbours is not self:
                return self.without_neighbours.plan(op, share)
            if self._splits:
                return self._repriced(self._splits.plan(op, share), self._splits)
            return planned_matmul(self._chip, shape, op.operand_dtype, partials, share)

        return self._plan((shape, op.operand_dtype, partials), share, make)

    def conv_plan(self, op: Conv, available_memory_proportion: float) -> ConvPlan:
        """Return the plan of one pass of a convolution."""
        shape, share = conv_shape(op), available_memory_proportion
        partials = "fp32" if op.dtype == "fp32" else self.partials

        def make() -> ConvPlan:
            if self.without_neighbours is not self:
                return self.without_neighbours.conv_plan(op, share)
            if self._splits:
                return self._repriced(self._splits.conv_plan(op, share), self._splits)
            copies = self.layout_change_cycles_per_byte
            return planned_conv(self._chip, shape, op.operand_dtype, partials, share, copies)

        return self._plan((shape, op.operand_dtype, partials), share, make)

    def slice_plan(self, op: Gather | ScatterAdd, available_memory_proportion: float) -> SlicePlan:
        """Return the plan of look-ups or updates of table rows."""
        shape, share = SliceShape(op.table_rows, op.shape[1], op.shape[0]), available_memory_proportion
        kind: SliceKind = "multi-slice" if isinstance(op, Gather) else "multi-update-add"

        def make() -> SlicePlan:
            if self.without_neighbours is not self:
                return self.without_neighbours.slice_plan(op, share)
            if self._splits:
                return self._repriced(self._splits.slice_plan(op, share), self._splits)
            return planned_slices(self._chip, kind, shape, op.dtype, share)

        return self._plan((kind, shape, op.dtype), share, make)

    def _plan(self, key: tuple[object, ...], proportion: float, make: Callable[[], _Plan]) -> _Plan:
        """Return the cached plan for a share of memory.

        A plan for a larger share whose temporaries fit the smaller share is also the best plan for the smaller share.
        """
        known: dict[float, _Plan] = self._plans.get(key, dict)
        found = known.get(proportion)
        if found is None:
            bound_bytes = proportion * self.ipu.tile.memory_bytes
            roomier = (
                plan
                for more, plan in list(known.items())
                if more >= proportion and plan.temporary_bytes_per_tile <= bound_bytes
            )
            found = known[proportion] = next(roomier, None) or make()
            for oldest in list(known)[: max(0, len(known) - _MOST_SHARES)]:
                known.pop(oldest, None)
        return found

    def _matmul(self, op: MatMul, available_memory_proportion: float) -> OpCost:
        plan = self.plan(op, available_memory_proportion)
        account = plan.account + self._layout_changes(op) + self._regrouped(op)
        if op.is_weight_gradient and self.accumulators_like_weights:
            account += self.layout_change(op.byte_count)
        return OpCost(op, account, plan.temporary_bytes_per_tile, plan)

    def _regrouped(self, op: MatMul) -> Account:
        """Return the cost to transpose grains of the left operand, which are spread evenly [poplibs_popops]."""
        cycles = copy_cycles(self.ipu, op.regrouped_elements, op.operand_dtype, None)
        return Account(rearrange=cycles, superstep=2 * self.ipu.superstep.overhead_cycles if cycles else 0.0)

    def _regrouped_channels(self, op: Conv) -> Account:
        """Return the cost to copy the first operand into larger groups of channels; its tiles are assumed to stay."""
        if not op.regrouped:
            return Account()
        held = DTYPE_BYTES[op.operand_dtype] * op.operand_elements[0] / self.ipu.tile.count
        return Account(rearrange=regroup_cycles(self.ipu, held), superstep=self.ipu.superstep.overhead_cycles)

    def _remote_reads(self, op: Rearrange) -> Account:
        """Return the exchange of elements that vertices read from other tiles without a copy."""
        more = op.byte_count - op.byte_count // op.reader_count
        return Account(exchange=more / self.ipu.tile.count / self.ipu.exchange.bytes_per_cycle)

    def _layout_changes(self, op: Op) -> Account:
        return total(self.layout_change(*each) for each in op.layout_changes)

    def _copy(self, op: Copy) -> Account:
        held = op.byte_count / self.ipu.tile.count
        return Account(rearrange=regroup_cycles(self.ipu, held), superstep=self.ipu.superstep.overhead_cycles)

    def _unexplained(self, op: Unexplained) -> Account:
        held = op.byte_count / self.ipu.tile.count if op.split_weights or self.traces_graphs else 0.0
        return Account(rearrange=self.unexplained_cycles_per_byte * held)

    def _elementwise(self, op: Elementwise) -> Account:
        if op.function not in self.ipu.vertices.elementwise:
            known = ", ".join(sorted(self.ipu.vertices.elementwise))
            raise MissingDataError(f"no vertex for elementwise function {op.function}", do=f"use one of: {known}")
        cycles = elementwise_cycles(self.ipu, op.function, self._share(op), op.dtype)
        account = Account(vector=cycles, superstep=self.ipu.superstep.overhead_cycles)
        return account + self._seeded() if op.function == DROPOUT else account

    def _share(self, op: Elementwise) -> int:
        """Return the elements on the fullest tile, in whole rows if `row_length` is set."""
        if op.row_length:
            return self._whole_rows(op.element_count, op.row_length)
        if op.even:
            return int(ceil_div(op.element_count, self.ipu.tile.count))
        return tile_share(self.ipu, op.element_count, op.dtype)

    def _whole_rows(self, element_count: int, row: int) -> int:
        """Return the elements on the fullest tile if rows are not split."""
        return int(ceil_div(ceil_div(element_count, row), self.ipu.tile.count)) * row

    def _seeded(self) -> Account:
        """Return the cost to save, seed and restore the random number generators for a dropout [poplibs_poprand]."""
        seed, workers = self.ipu.vertices.seed, self.ipu.tile.worker_count
        return Account(
            vector=seed.fixed + workers * seed.worker_fixed,
            superstep=_SEED_STEPS * self.ipu.superstep.overhead_cycles,
        )

    def _pool(self, op: Pool) -> Account:
        """Return the cost of a pool; one element crosses the exchange for each element of the result."""
        share = tile_share(self.ipu, op.element_count, op.dtype)
        return Account(
            vector=pool_cycles(self.ipu, share, op.shape[-1], op.window, op.dtype, backward=op.backward),
            exchange=ceil_div(share * DTYPE_BYTES[op.dtype], self.ipu.exchange.bytes_per_cycle),
            superstep=2 * self.ipu.superstep.overhead_cycles,
        )

    def _reduce(self, op: Reduce) -> Account:
        """Return the cost of local sums of one vector per cycle, their exchange, and a small final sum."""
        elements_per_cycle = self.ipu.tile.vector_width_bytes / DTYPE_BYTES[op.operand_dtype]
        share = op.input_count / self.ipu.tile.count
        local = (self._whole_rows(op.input_count, op.row_length) if op.row_length else share) / elements_per_cycle
        exchanged = op.byte_count / self.ipu.tile.count / self.ipu.exchange.bytes_per_cycle
        return Account(
            reduction=local + self.ipu.vertices.reduction.general_fixed,
            exchange=exchanged,
            superstep=2 * self.ipu.superstep.overhead_cycles,
        )

    def _top_k(self, op: TopK) -> Account:
        """Return the cost of all passes of the sorting network, each after a layout change of keys and indices."""
        rows, k = op.shape[0], op.shape[1]
        size = DTYPE_BYTES["fp32"] + DTYPE_BYTES["int32"]
        return total(
            self.layout_change(size * rows * left)
            + Account(vector=compare_swap_cycles(self.ipu, rows * left, distance * rows))
            for left, distance in passes(op.candidates, k)
        )

    def _rows(self, op: Gather | ScatterAdd) -> Account:
        """Return the cost of unplanned look-ups or updates, at the best split of the table over rows and columns.

        For look-ups, a table with fewer rows than tiles is copied; each copy serves a part of the indices.
        """
        copied = isinstance(op, Gather) and op.table_rows < self.ipu.tile.count
        splits = (
            self._row_cycles(op, columns, copies)
            for columns in _powers_of_two(op.shape[1])
            for copies in _powers_of_two(self.ipu.tile.count // columns if copied else 1)
        )
        exchanged = op.byte_count / self.ipu.tile.count / self.ipu.exchange.bytes_per_cycle
        return Account(vector=min(splits), exchange=exchanged, superstep=2 * self.ipu.superstep.overhead_cycles)

    def _row_cycles(self, op: Gather | ScatterAdd, column_parts: int, copies: int) -> int:
        """Return the cycles of a tile whose workers each scan all of the tile's indices. [cycles]"""
        vertex, workers = self.ipu.vertices.gather, self.ipu.tile.worker_count
        row_parts = max(1, min(op.table_rows, self.ipu.tile.count // (column_parts * copies)))
        indices, width = ceil_div(op.shape[0], copies), ceil_div(op.shape[1], column_parts)
        hits: int = ceil_div(indices, row_parts)
        words: int = ceil_div(width * DTYPE_BYTES[op.dtype], WORD_BYTES)
        if isinstance(op, Gather):
            hit = vertex.per_index + vertex.cycles_per_pair * words
            copied = ceil_div(op.table_rows, row_parts) * width * DTYPE_BYTES[op.dtype] if copies > 1 else 0
            received: int = ceil_div(copied, self.ipu.exchange.bytes_per_cycle)
            cycles: int = workers * (vertex.worker_fixed + hits * hit + (indices - hits) * vertex.skip)
            return cycles + received
        hit = vertex.update_per_index + vertex.update_cycles_per_atom * (words - 1)
        updated: int = workers * (vertex.update_worker_fixed + hits * hit + (indices - hits) * vertex.update_skip)
        return updated


def _powers_of_two(most: int) -> list[int]:
    """Return 1, 2, 4, … up to `most`."""
    return [1 << exponent for exponent in range(most.bit_length())]
