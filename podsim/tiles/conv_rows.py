"""Splits of batch and field over tiles: what a tile then computes and which inputs it reads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.models.op import DTYPE_BYTES
from podsim.scenario.ipu import Ipu
from podsim.tiles.conv_method import Method
from podsim.tiles.conv_shape import ConvShape
from podsim.tiles.conv_vertices import nx1_worker_cycles, row_segments, slic_worker_cycles
from podsim.tiles.split import distinct_parts
from podsim.tiles.vector import ceil_div

Ints = NDArray[Any]
_OUT_GROUPS_FED = (1, 4)
"""Groups of output channels that share an input, for which splits are kept: few favour a small halo."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Splits of batch and field in order of their tiles; one entry per split."""

    parts: Ints  # parts along the batch and each axis of the field, one line each
    tiles: Ints
    batch: Ints  # images of the fullest tile
    field: Ints  # output positions of the fullest tile, one line per axis
    owned: Ints  # input positions that lie on a tile before any exchange
    slowest: Ints  # the slowest worker with its rows; zero for vertices without a list of them. [worker cycles]
    fastest: Ints  # the same of the fastest. [worker cycles]
    favourites: Ints  # for each split the best with no more tiles, one line per criterion

    def within(self, tile_budget: Ints) -> Ints:
        """Indices of the best splits for each number of tiles, one line per criterion."""
        return np.asarray(self.favourites[:, np.searchsorted(self.tiles, tile_budget, side="right") - 1])


def row_splits(ipu: Ipu, method: Method, dtype: str, partials: str) -> Rows:
    """All splits of batch and field of a shape."""
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
    """Kernel positions per axis that meet an element on a tile, given those of the first axis.

    Zeros of a dilation meet the rest: of d neighbouring output positions each meets every d-th position.
    """
    sizes = (first_axis, *shape.kernel[1:]) if shape.kernel else ()
    return [
        np.minimum(size, ceil_div(size, dilation) * positions)
        for size, dilation, positions in zip(sizes, shape.dilation, field, strict=True)
    ]


def input_positions(shape: ConvShape, batch: Ints, field: Ints, first_axis: Any = None) -> Ints:
    """Input positions under the kernel: (out - 1)·stride + kernel per axis, or those in it if fewer."""
    sizes = (shape.kernel[0] if first_axis is None else first_axis, *shape.kernel[1:]) if shape.kernel else ()
    result = batch
    for axis, (size, positions) in enumerate(zip(sizes, field, strict=True)):
        span = (positions - 1) * shape.stride[axis] + (size - 1) * shape.kernel_dilation[axis] + 1
        used = np.minimum(ceil_div(span, shape.dilation[axis]), positions * size)
        result = result * np.minimum(used, shape.input_size[axis])
    return result


def _workers(ipu: Ipu, method: Method, batch: Ints, field: Ints, dtype: str, partials: str) -> tuple[Ints, Ints]:
    """The slowest and the fastest worker for one position of the kernel, or one part of it. [worker cycles]"""
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
    """Workers and exchange of a grain of channels for a few reuses of the input [cycles], and all that is read."""
    exchange = needed * method.in_grain * DTYPE_BYTES[dtype] // ipu.exchange.bytes_per_cycle
    taps = math.prod(method.shape.kernel)
    return [ipu.tile.worker_count * taps * groups * compute + exchange for groups in _OUT_GROUPS_FED] + [needed]


def _best_so_far(criterion: Ints) -> Ints:
    """Index of the least value up to each place."""
    least = np.minimum.accumulate(criterion)
    is_new = np.r_[True, least[1:] < least[:-1]]
    return np.asarray(np.maximum.accumulate(np.where(is_new, np.arange(len(criterion)), 0)))
