"""Splits of a convolution over tiles and their costs, for one vertex and one transform of the operands.

Source: [poplibs_poplin] for the objective, the vertices and the transforms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.models.op import DTYPE_BYTES, result_dtype
from podsim.scenario.ipu import Ipu
from podsim.tiles.amp import amp_vertex_cycles
from podsim.tiles.conv_method import Method, copy_cycles
from podsim.tiles.conv_shape import ConvShape
from podsim.tiles.conv_vertices import (
    TileShare,
    hmac_cycles,
    nx1_cycles,
    nx1_worker_cycles,
    outer_product_cycles,
    row_segments,
    slic_cycles,
    slic_worker_cycles,
    vmac_cycles,
)
from podsim.tiles.split import (
    ROW_PART_DIVISORS,
    distinct_parts,
    final_cast_cycles,
    slice_cycles,
    sum_partials,
)
from podsim.tiles.vector import ceil_div

Ints = NDArray[Any]
_OUT_GROUPS_FED = (1, 4)
"""Counts of output channel groups per input for which the best splits are kept; a low count favours a small halo."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Splits of batch and field, sorted by number of tiles; one entry per split."""

    parts: Ints  # parts along the batch and along each axis of the field, one line per axis
    tiles: Ints  # tiles of a split
    batch: Ints  # images on the fullest tile
    field: Ints  # output positions on the fullest tile, one line per axis
    owned: Ints  # input positions that lie on a tile before any exchange
    slowest: Ints  # slowest worker's time for its rows; zero for vertices without a list of rows [worker cycles]
    fastest: Ints  # fastest worker's time for its rows, likewise [worker cycles]
    favourites: Ints  # for each split the index of the best split with no more tiles, one line per criterion

    def best_within(self, tile_budget: Ints) -> Ints:
        """Return the indices of the best splits for each number of tiles, one line per criterion."""
        return np.asarray(self.favourites[:, np.searchsorted(self.tiles, tile_budget, side="right") - 1])


def row_splits(ipu: Ipu, method: Method, dtype: str, partials: str) -> Rows:
    """Return all splits of the batch and field of a convolution."""
    shape = method.shape
    axes = [distinct_parts(length, ipu.tile.count) for length in (shape.batch, *shape.field)]
    parts = axes[0][np.newaxis]
    for axis in axes[1:]:
        parts = np.concatenate((np.repeat(parts, len(axis), axis=1), np.tile(axis, parts.shape[1])[np.newaxis]))
        parts = parts[:, parts.prod(axis=0) <= ipu.tile.count]
    tiles = parts.prod(axis=0)
    order = np.argsort(tiles, kind="stable")
    parts, tiles = parts[:, order], tiles[order]
    batch = ceil_div(shape.batch, parts[0])
    field = np.stack([ceil_div(n, p) for n, p in zip(shape.field, parts[1:], strict=True)] or [tiles])[: len(axes) - 1]
    needed = input_positions(shape, batch, field)
    owned = batch.copy()
    for size, part in zip(shape.input_size or shape.field, parts[1:], strict=True):
        owned = owned * ceil_div(size, part)
    slowest, fastest = _workers(ipu, method, batch, field, dtype, partials)
    positions = batch * field.prod(axis=0)
    criteria = [slowest if slowest.any() else positions]
    if shape.field:
        criteria += _with_halo(ipu, method, criteria[0] if slowest.any() else positions, needed, dtype)
    return Rows(
        parts=parts,
        tiles=tiles,
        batch=batch,
        field=field,
        owned=np.minimum(owned, needed),
        slowest=slowest,
        fastest=fastest,
        favourites=np.stack([_best_so_far(criterion) for criterion in criteria]),
    )


def kernel_share(shape: ConvShape, field: Ints, first_axis: Any) -> list[Any]:
    """Return the kernel positions per axis that meet an element on a tile.

    With a dilation d the other positions meet zeros: each of d neighbouring outputs meets every d-th position.
    `first_axis` is the number of kernel positions along the first axis.
    """
    sizes = (first_axis, *shape.kernel[1:]) if shape.kernel else ()
    return [
        np.minimum(size, ceil_div(size, dilation) * positions)
        for size, dilation, positions in zip(sizes, shape.dilation, field, strict=True)
    ]


def input_positions(shape: ConvShape, batch: Ints, field: Ints, first_axis: Any = None) -> Ints:
    """Return the input positions under the kernel: (out - 1)·stride + kernel per axis, at most the input's size."""
    sizes = (shape.kernel[0] if first_axis is None else first_axis, *shape.kernel[1:]) if shape.kernel else ()
    result = batch
    for axis, (size, positions) in enumerate(zip(sizes, field, strict=True)):
        span = (positions - 1) * shape.stride[axis] + (size - 1) * shape.kernel_dilation[axis] + 1
        used = np.minimum(ceil_div(span, shape.dilation[axis]), positions * size)
        result = result * np.minimum(used, shape.input_size[axis])
    return result


def _workers(ipu: Ipu, method: Method, batch: Ints, field: Ints, dtype: str, partials: str) -> tuple[Ints, Ints]:
    """Return the slowest and the fastest worker's time for one position or part of the kernel. [worker cycles]"""
    shape = method.shape
    if not shape.field or method.vertex not in ("amp", "slic"):
        return np.zeros_like(batch), np.zeros_like(batch)
    met = [ceil_div(positions, dilation) for positions, dilation in zip(field, shape.dilation, strict=True)]
    rows = batch * math.prod(met[:-1], start=np.ones_like(batch))
    segments = row_segments(ipu.tile.worker_count, rows, met[-1])
    if method.vertex == "amp":
        return nx1_worker_cycles(ipu, segments, dtype, partials)
    slowest = slic_worker_cycles(ipu, segments, shape.stride[-1], partials)
    return slowest, slowest


def _with_halo(ipu: Ipu, method: Method, compute: Ints, needed: Ints, dtype: str) -> list[Ints]:
    """Return the criteria of splits: compute and exchange for a few reuses of the input [cycles], and inputs read."""
    exchange = needed * method.in_grain * DTYPE_BYTES[dtype] // ipu.exchange.bytes_per_cycle
    taps = math.prod(method.shape.kernel)
    return [ipu.tile.worker_count * taps * groups * compute + exchange for groups in _OUT_GROUPS_FED] + [needed]


def _best_so_far(criterion: Ints) -> Ints:
    """Return for each place the index of the least value up to it."""
    least = np.minimum.accumulate(criterion)
    is_new = np.r_[True, least[1:] < least[:-1]]
    return np.asarray(np.maximum.accumulate(np.where(is_new, np.arange(len(criterion)), 0)))


KINDS = ("matmul", "reduction", "exchange", "rearrange", "superstep")
"""Kinds of work, in the order of the lines of costs."""


@dataclass(frozen=True, slots=True)
class SplitArrays:
    """Candidates for the split of one method; all fields except `rows` are integer arrays of the same length.

    `index` selects a split of `rows`. `groups`, `out`, `inner` and `kernel` are parallel parts of channel groups,
    output channels, input channels and kernel rows; a `_share` is the number of grains on the fullest tile.
    """

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


def enumerate_splits(
    ipu: Ipu, method: Method, dtype: str, partials: str, slices: Sequence[tuple[int, int]]
) -> SplitArrays:
    """Return the splits of a method that are worth costing."""
    rows = row_splits(ipu, method, dtype, partials)
    splits = [_splits_of_slice(ipu, method, rows, *pair) for pair in slices]
    return SplitArrays(rows, *np.concatenate(splits, axis=1))


def _splits_of_slice(ipu: Ipu, method: Method, rows: Rows, out_slices: int, in_slices: int) -> NDArray[Any]:
    """Return the arrays of `SplitArrays`, without `rows`, for one number of serial slices."""
    shape = method.shape
    group_sets = ceil_div(shape.groups, method.group_grain)
    out_grains = ceil_div(ceil_div(shape.out_channels, out_slices), method.out_grain)
    in_grains = ceil_div(ceil_div(shape.in_channels, in_slices), method.in_grain)
    # The last axis of a kernel stays whole.
    kernel_rows = shape.kernel[0] if len(shape.kernel) > 1 else 1
    lengths = (group_sets, out_grains, in_grains, kernel_rows)
    grid = np.meshgrid(*(distinct_parts(length, ipu.tile.count) for length in lengths), indexing="ij")
    parts = np.stack([axis.ravel() for axis in grid])
    parts = parts[:, parts.prod(axis=0) <= ipu.tile.count]
    budget = ipu.tile.count // parts.prod(axis=0)
    choices = [rows.best_within(np.maximum(budget // divisor, 1)) for divisor in ROW_PART_DIVISORS]
    index = np.concatenate(choices)
    parts = np.tile(parts, len(index))
    shares = [ceil_div(length, part) for length, part in zip(lengths, parts, strict=True)]
    one = np.ones_like(parts[0])
    return np.stack((index.ravel(), *parts, one * out_slices, one * in_slices, *shares))


def split_costs(
    ipu: Ipu, method: Method, c: SplitArrays, dtype: str, partials: str, copy_cycles_per_byte: float | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the cycles of every candidate by kind, as in `KINDS` [cycles], and its temporaries [B]."""
    shape, rows, operand = method.shape, c.rows, DTYPE_BYTES[dtype]
    batch, field = rows.batch[c.index], rows.field[:, c.index]
    # Only the first axis of a kernel is split; for kernels of fewer axes it holds all kernel positions.
    first = c.kernel_share if len(shape.kernel) > 1 else np.full_like(c.kernel_share, math.prod(shape.kernel))
    groups = np.minimum(c.group_share * method.group_grain, shape.groups)
    in_channels, out_channels = c.in_share * method.in_grain, c.out_share * method.out_grain
    positions = batch * field.prod(axis=0)
    left = groups * in_channels * input_positions(shape, batch, field, first)
    owned = groups * in_channels * rows.owned[c.index] // (c.out * c.kernel)
    right = groups * in_channels * out_channels * first * math.prod(shape.kernel[1:])
    result = groups * out_channels * positions
    bus = np.where(c.out % ipu.exchange.tiles_per_bus == 0, ipu.exchange.tiles_per_bus, 1)
    received = np.maximum(left - owned, 0)
    tiles = rows.tiles[c.index]
    exchange = ceil_div(received * operand, ipu.exchange.bytes_per_cycle * bus)
    exchange = exchange + ceil_div(right * operand * (tiles - 1) // tiles, ipu.exchange.bytes_per_cycle)
    sums, sums_exchange, stages = sum_partials(ipu, result, c.inner * c.kernel, partials)
    serial = c.out_slices * c.in_slices
    copies = copy_cycles(ipu, method.moved_count, dtype, copy_cycles_per_byte)
    slices = slice_cycles(ipu, shape.weight_count, shape.result_count, c.out_slices, c.in_slices, result_dtype(dtype))
    parts = (
        serial * _vertex_cycles(ipu, method, c, first, positions, dtype, partials),
        serial * sums,
        serial * (exchange + sums_exchange),
        copies + serial * slices + final_cast_cycles(ipu, shape.result_count, result_dtype(dtype), partials),
        (serial * (2 + stages) + 2 * (copies > 0)) * ipu.superstep.overhead_cycles,
    )
    running = operand * (np.where(received > 0, left, 0) + np.where(tiles > 1, right, 0))
    running = running + ceil_div(method.moved_count, ipu.tile.count) * operand + DTYPE_BYTES[partials] * result
    reducing = np.where(c.inner * c.kernel > 1, 2, 1) * DTYPE_BYTES[partials] * result
    return np.stack(parts).astype(float), np.maximum(running, reducing)


def _vertex_cycles(
    ipu: Ipu, method: Method, c: SplitArrays, first: Any, positions: Any, dtype: str, partials: str
) -> NDArray[Any]:
    """Return the time of the fullest tile's vertex, at least that of the used tiles at their peak. [cycles]"""
    tiles = c.groups * c.rows.tiles[c.index] * c.kernel * c.inner * c.out * c.out_slices * c.in_slices
    products = method.shape.flop / 2 / tiles
    estimate = _estimate(ipu, method, c, first, positions, dtype, partials)
    return np.asarray(np.maximum(estimate, products / ipu.products_per_cycle(dtype)))


def _estimate(
    ipu: Ipu, method: Method, c: SplitArrays, first: Any, positions: Any, dtype: str, partials: str
) -> NDArray[Any]:
    """Return the library's estimate for the vertex. [cycles]"""
    share = _tile_share(method, c, first, positions)
    match method.vertex:
        case "slic":
            phases = np.minimum(method.shape.dilation[-1], c.rows.field[-1, c.index])
            return slic_cycles(ipu, share, c.rows.slowest[c.index], method.in_grain, phases)
        case "vmac":
            return vmac_cycles(ipu, share, method.group_grain)
        case "hmac":
            return hmac_cycles(ipu, share, method.in_grain, dtype)
        case "outer_product":
            return outer_product_cycles(ipu, share)
    groups = share.in_groups, share.out_groups, share.conv_groups
    pointwise = amp_vertex_cycles(ipu, positions, *groups, dtype, partials, share.out_grain)
    if not method.shape.kernel:
        return pointwise
    workers = c.rows.slowest[c.index], c.rows.fastest[c.index]
    spatial = nx1_cycles(ipu, share, workers, method.filter_height, dtype, partials)
    undilated = math.prod(method.shape.dilation) == 1 and method.filter_height == 1
    return np.where(undilated & (share.kernel_rows * share.kernel_width == 1), pointwise, spatial)


def _tile_share(method: Method, c: SplitArrays, first: Any, positions: Any) -> TileShare:
    """Return the fullest tile's share.

    For `vmac` and `hmac`, kernel positions are those that one output meets; for other vertices, those that any meets.
    """
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
        out_grain=method.out_grain if method.vertex == "amp" else None,
    )
