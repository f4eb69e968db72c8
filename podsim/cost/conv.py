"""The convolution planner: how a convolution is split over tiles and over time, and what that costs.

For every vertex and every way to transform the operands for it, the convolution is cut into parallel
parts along groups, batch, field, kernel, input and output channels, and into serial slices along the
channels. The cheapest plan is taken whose temporaries fit the allowed share of tile memory. A part of
the field also receives its halo, the inputs that its neighbours need too. A convolution with a kernel
of one is planned just as a matrix product is.

Source: [poplibs_poplin] for the objective, the vertices and the transforms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.cost.account import Account
from podsim.cost.amp import amp_vertex_cycles
from podsim.cost.conv_method import Method, copy_cycles, methods
from podsim.cost.conv_rows import Rows, input_positions, kernel_share, row_splits
from podsim.cost.conv_shape import ConvShape
from podsim.cost.conv_vertices import (
    TileShare,
    hmac_cycles,
    nx1_cycles,
    outer_product_cycles,
    slic_cycles,
    vmac_cycles,
)
from podsim.cost.plans import ConvPlan
from podsim.cost.split import (
    ROW_PART_DIVISORS,
    SERIAL_SLICES,
    choose,
    distinct_parts,
    final_cast_cycles,
    slice_cycles,
    sum_partials,
)
from podsim.cost.vector import ceil_div
from podsim.errors import NoPlanError
from podsim.system import Ipu
from podsim.workload.op import DTYPE_BYTES

_MOST_ELEMENTS = 2**40
_KINDS = ("matmul", "reduction", "exchange", "rearrange", "superstep")


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Splits of one method; every field is an integer array of the same length but the first."""

    rows: Rows
    index: NDArray[Any]
    groups: NDArray[Any]
    out: NDArray[Any]
    inner: NDArray[Any]
    kernel: NDArray[Any]
    out_slices: NDArray[Any]
    in_slices: NDArray[Any]
    group_share: NDArray[Any]
    out_share: NDArray[Any]
    in_share: NDArray[Any]
    kernel_share: NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Costed:
    """A method with its splits, their cycles by kind and in all, and their temporaries."""

    method: Method
    candidates: _Candidates
    parts: NDArray[Any]
    cycles: NDArray[Any]
    temporary: NDArray[Any]


def plan_conv(
    ipu: Ipu,
    shape: ConvShape,
    dtype: str = "fp16",
    partials: str = "fp16",
    available_memory_proportion: float = 0.6,
    copy_cycles_per_byte: float | None = None,
) -> ConvPlan:
    """The cheapest method and split whose temporaries fit.

    When nothing fits, the bound is doubled until it passes twice the tile's memory and then dropped;
    whether the whole graph fits is the memory plan's question.

    Args:
        ipu: The chip.
        shape: The convolution.
        dtype: Format of the operands, `fp16` or `fp32`.
        partials: Format of the partial results.
        available_memory_proportion: Share of tile memory for temporaries, above 0.
        copy_cycles_per_byte: Rate of copies into another order; the library's own estimate if None. [cycles/B]

    Raises:
        NoPlanError: The convolution is larger than any memory.
    """
    _refuse_beyond_reason(shape)
    bound_bytes = available_memory_proportion * ipu.tile_memory_bytes
    planner = _Planner(ipu, dtype, partials, bound_bytes, copy_cycles_per_byte)
    costed = planner.whole(methods(ipu, shape, dtype))
    costed += planner.sliced(costed)
    cycles = np.concatenate([one.cycles for one in costed])
    temporary = np.concatenate([one.temporary for one in costed])
    best = choose(cycles, temporary, ipu.tile_memory_bytes, available_memory_proportion)
    ends = np.cumsum([len(one.temporary) for one in costed])
    owner = int(np.searchsorted(ends, best, side="right"))
    return _plan(shape, dtype, partials, costed[owner], best - int(ends[owner]))


def _refuse_beyond_reason(shape: ConvShape) -> None:
    if max(shape.input_count, shape.weight_count, shape.result_count) > _MOST_ELEMENTS:
        extents = (shape.batch, shape.groups * shape.in_channels, shape.groups * shape.out_channels)
        sizes = " and ".join("x".join(map(str, axes)) for axes in (extents + shape.field, shape.kernel))
        raise NoPlanError(
            f"a convolution of {sizes} is too large to be planned", do="make the micro-batch or the model smaller"
        )


def _plan(shape: ConvShape, dtype: str, partials: str, costed: _Costed, index: int) -> ConvPlan:
    c = costed.candidates
    batch_parts, *field_parts = (int(parts) for parts in c.rows.parts[:, c.index[index]])
    return ConvPlan(
        shape=shape,
        dtype=dtype,
        partials=partials,
        method=costed.method,
        group_parts=int(c.groups[index]),
        batch_parts=batch_parts,
        field_parts=tuple(field_parts),
        kernel_parts=int(c.kernel[index]),
        in_parts=int(c.inner[index]),
        out_parts=int(c.out[index]),
        in_slices=int(c.in_slices[index]),
        out_slices=int(c.out_slices[index]),
        account=Account(**{kind: float(cycles) for kind, cycles in zip(_KINDS, costed.parts[:, index], strict=True)}),
        temporary_bytes_per_tile=int(costed.temporary[index]),
    )


@dataclass
class _Planner:
    """Costs methods in turn and passes over those that cannot be the cheapest.

    Attributes:
        ipu: The chip.
        dtype: Format of the operands.
        partials: Format of the partial results.
        bound_bytes: Allowed temporaries per tile. [B]
        copy_cycles_per_byte: Rate of copies; the library's own estimate if None. [cycles/B]
        cheapest: Least cycles so far of a split within the bound.
    """

    ipu: Ipu
    dtype: str
    partials: str
    bound_bytes: float
    copy_cycles_per_byte: float | None
    cheapest: float = math.inf

    def whole(self, every: Iterable[Method]) -> list[_Costed]:
        """Splits without serial slices."""
        costed = []
        for method in every:
            copies = copy_cycles(self.ipu, method.moved_count, self.dtype, self.copy_cycles_per_byte)
            if _least_cycles(self.ipu, method, self.dtype) + copies < self.cheapest:
                costed.append(self._cost(method, SERIAL_SLICES[:1]))
        return costed

    def sliced(self, whole: Iterable[_Costed]) -> list[_Costed]:
        """Serial slices, which save memory but never cycles, of methods whose best split does not fit."""
        return [
            self._cost(one.method, SERIAL_SLICES[1:])
            for one in sorted(whole, key=lambda one: float(one.cycles.min()))
            if one.cycles.min() < self.cheapest
        ]

    def _cost(self, method: Method, slices: Sequence[tuple[int, int]]) -> _Costed:
        candidates = _enumerate(self.ipu, method, self.dtype, self.partials, slices)
        parts, temporary = _cost(self.ipu, method, candidates, self.dtype, self.partials, self.copy_cycles_per_byte)
        costed = _Costed(method, candidates, parts, parts.sum(axis=0), temporary)
        fitting = costed.cycles[temporary <= self.bound_bytes]
        self.cheapest = min(self.cheapest, float(fitting.min(initial=math.inf)))
        return costed


def _least_cycles(ipu: Ipu, method: Method, dtype: str) -> float:
    """Cycles of the inner loop alone for whole grains spread evenly over all tiles."""
    shape, half, vertices = method.shape, dtype == "fp16", ipu.vertices
    first, *others = shape.kernel or (1,)
    taps = ceil_div(first, method.filter_height) * math.prod(others) / math.prod(shape.dilation)
    positions = shape.batch * math.prod(shape.field) * ceil_div(shape.groups, method.group_grain)
    in_grains = ceil_div(shape.in_channels, method.in_grain)
    match method.vertex:
        case "amp":
            rate = ipu.amp.half_cycles_per_position if half else ipu.amp.single_cycles_per_position
            per_tap = float(in_grains * rate)
        case "vmac":
            per_tap = in_grains * vertices.vmac.tap * method.group_grain / vertices.vmac.half_width
        case "hmac":
            per_tap = float(vertices.hmac.output + in_grains)
        case _:
            per_tap = 0.0
    blocks = positions * ceil_div(shape.out_channels, method.out_grain)
    return float(blocks * taps * per_tap / ipu.tile_count)


def _enumerate(ipu: Ipu, method: Method, dtype: str, partials: str, slices: Sequence[tuple[int, int]]) -> _Candidates:
    """All splits of a method worth costing."""
    rows = row_splits(ipu, method, dtype, partials)
    splits = [_splits_of_slice(ipu, method, rows, *pair) for pair in slices]
    return _Candidates(rows, *np.concatenate(splits, axis=1))


def _splits_of_slice(ipu: Ipu, method: Method, rows: Rows, out_slices: int, in_slices: int) -> NDArray[Any]:
    """The lines of `_Candidates` behind the first, for one way of slicing serially."""
    shape = method.shape
    group_sets = ceil_div(shape.groups, method.group_grain)
    out_grains = ceil_div(ceil_div(shape.out_channels, out_slices), method.out_grain)
    in_grains = ceil_div(ceil_div(shape.in_channels, in_slices), method.in_grain)
    # The last axis of a kernel stays whole.
    kernel_rows = shape.kernel[0] if len(shape.kernel) > 1 else 1
    lengths = (group_sets, out_grains, in_grains, kernel_rows)
    grid = np.meshgrid(*(distinct_parts(length, ipu.tile_count) for length in lengths), indexing="ij")
    parts = np.stack([axis.ravel() for axis in grid])
    parts = parts[:, parts.prod(axis=0) <= ipu.tile_count]
    budget = ipu.tile_count // parts.prod(axis=0)
    choices = [rows.within(np.maximum(budget // divisor, 1)) for divisor in ROW_PART_DIVISORS]
    index = np.concatenate(choices)
    parts = np.tile(parts, len(index))
    shares = [ceil_div(length, part) for length, part in zip(lengths, parts, strict=True)]
    one = np.ones_like(parts[0])
    return np.stack((index.ravel(), *parts, one * out_slices, one * in_slices, *shares))


def _cost(
    ipu: Ipu, method: Method, c: _Candidates, dtype: str, partials: str, copy_cycles_per_byte: float | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cycles of every candidate by kind, in the order of `_KINDS`, and its temporaries. [cycles], [B]"""
    shape, rows, operand = method.shape, c.rows, DTYPE_BYTES[dtype]
    batch, field = rows.batch[c.index], rows.field[:, c.index]
    # Only the first axis of a kernel is ever split; for a flat shape it stands for the kernel of one.
    first = c.kernel_share if len(shape.kernel) > 1 else np.full_like(c.kernel_share, math.prod(shape.kernel))
    groups = np.minimum(c.group_share * method.group_grain, shape.groups)
    in_channels, out_channels = c.in_share * method.in_grain, c.out_share * method.out_grain
    positions = batch * field.prod(axis=0)
    left = groups * in_channels * input_positions(shape, batch, field, first)
    owned = groups * in_channels * rows.owned[c.index] // (c.out * c.kernel)
    right = groups * in_channels * out_channels * first * math.prod(shape.kernel[1:])
    result = groups * out_channels * positions
    bus = np.where(c.out % ipu.tiles_per_exchange_bus == 0, ipu.tiles_per_exchange_bus, 1)
    received = np.maximum(left - owned, 0)
    tiles = rows.tiles[c.index]
    exchange = ceil_div(received * operand, ipu.exchange_bytes_per_cycle * bus)
    exchange = exchange + ceil_div(right * operand * (tiles - 1) // tiles, ipu.exchange_bytes_per_cycle)
    sums, sums_exchange, stages = sum_partials(ipu, result, c.inner * c.kernel, partials)
    serial = c.out_slices * c.in_slices
    copies = copy_cycles(ipu, method.moved_count, dtype, copy_cycles_per_byte)
    slices = slice_cycles(ipu, shape.weight_count, shape.result_count, c.out_slices, c.in_slices, dtype)
    parts = (
        serial * _vertex_cycles(ipu, method, c, first, positions, dtype, partials),
        serial * sums,
        serial * (exchange + sums_exchange),
        copies + serial * slices + final_cast_cycles(ipu, shape.result_count, dtype, partials),
        (serial * (2 + stages) + 2 * (copies > 0)) * ipu.superstep_overhead_cycles,
    )
    running = operand * (np.where(received > 0, left, 0) + np.where(tiles > 1, right, 0))
    running = running + ceil_div(method.moved_count, ipu.tile_count) * operand + DTYPE_BYTES[partials] * result
    reducing = np.where(c.inner * c.kernel > 1, 2, 1) * DTYPE_BYTES[partials] * result
    return np.stack(parts).astype(float), np.maximum(running, reducing)


def _vertex_cycles(
    ipu: Ipu, method: Method, c: _Candidates, first: Any, positions: Any, dtype: str, partials: str
) -> NDArray[Any]:
    """Cycles of the fullest tile's vertex, none faster than the peak of the tiles in use."""
    tiles = c.groups * c.rows.tiles[c.index] * c.kernel * c.inner * c.out * c.out_slices * c.in_slices
    products = method.shape.flop / 2 / tiles
    estimate = _estimate(ipu, method, c, first, positions, dtype, partials)
    return np.asarray(np.maximum(estimate, products / ipu.products_per_cycle(dtype)))


def _estimate(
    ipu: Ipu, method: Method, c: _Candidates, first: Any, positions: Any, dtype: str, partials: str
) -> NDArray[Any]:
    """What the library estimates for the vertex."""
    share = _tile_share(method, c, first, positions)
    match method.vertex:
        case "slic":
            phases = np.minimum(method.shape.dilation[-1], c.rows.field[-1, c.index])
            return slic_cycles(ipu, share, c.rows.slowest[c.index], method.in_grain, phases)
        case "vmac":
            return vmac_cycles(ipu, share, method.group_grain)
        case "hmac":
            return hmac_cycles(ipu, share)
        case "outer_product":
            return outer_product_cycles(ipu, share)
    pointwise = amp_vertex_cycles(ipu, positions, share.in_groups, share.out_groups, share.conv_groups, dtype, partials)
    if not method.shape.kernel:
        return pointwise
    workers = c.rows.slowest[c.index], c.rows.fastest[c.index]
    spatial = nx1_cycles(ipu, share, workers, method.filter_height, dtype, partials)
    undilated = math.prod(method.shape.dilation) == 1 and method.filter_height == 1
    return np.where(undilated & (share.kernel_rows * share.kernel_width == 1), pointwise, spatial)


def _tile_share(method: Method, c: _Candidates, first: Any, positions: Any) -> TileShare:
    """The fullest tile's share; kernel positions are those that one output meets, for `amp` and `slic` all."""
    shape, one = method.shape, np.ones_like(c.index)
    if method.vertex in ("vmac", "hmac"):
        sizes = [first, *shape.kernel[1:]][: len(shape.kernel)]
        met = [ceil_div(size, dilation) * one for size, dilation in zip(sizes, shape.dilation, strict=True)]
    else:
        met = kernel_share(shape, c.rows.field[:, c.index], first)
    row_counts = [ceil_div(met[0], method.filter_height), *met[1:-1]] if len(met) > 1 else []
    return TileShare(
        conv_groups=c.group_share,
        in_groups=c.in_share,
        out_groups=c.out_share,
        positions=positions,
        kernel_rows=math.prod(row_counts, start=one),
        kernel_width=met[-1] if met else one,
    )
