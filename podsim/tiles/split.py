"""Shared parts of the planners of products and convolutions: parts, slices, sums of partials, the choice.

Source: [poplibs_poplin].
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.models.op import DTYPE_BYTES
from podsim.scenario.ipu import Ipu
from podsim.tiles.vector import ceil_div, elementwise_cycles

_ROUNDING = 1e-9
"""Bound on the rounding error of a root of an integer."""

_COLUMN_SLICES = tuple((columns, 1) for columns in (1, 2, 4, 8, 16))
_INNER_SLICES = tuple((1, inner) for inner in (2, 4, 8))
ROW_PART_DIVISORS = (1, 2, 4)
"""Divisors of the most row parts that fit; fewer parts leave tiles idle but broadcast fewer weights."""


def choose(cycles: NDArray[Any], temporary: NDArray[Any], tile_bytes: int, proportion: float) -> int:
    """Return the index of the cheapest candidate whose temporaries fit; ties go to less memory.

    The bound is `proportion` of the tile's memory. When nothing fits, it is doubled; beyond twice the memory, dropped.
    """
    bound = proportion * tile_bytes
    while bound <= 2 * tile_bytes and not (temporary <= bound).any():
        bound *= 2
    allowed = temporary <= bound if (temporary <= bound).any() else np.ones_like(temporary, dtype=bool)
    best = np.where(allowed, cycles, np.inf)
    cheapest = best == best.min()
    return int(np.argmin(np.where(cheapest, temporary, np.iinfo(np.int64).max)))


def frontier(cycles: NDArray[Any], temporary: NDArray[Any]) -> NDArray[Any]:
    """Return the indices of the candidates that `choose` may return, the cheapest first.

    >>> frontier(np.array([3, 1, 2, 1]), np.array([10, 50, 60, 40]))
    array([3, 0])
    """
    order = np.lexsort((temporary, cycles))
    least = np.minimum.accumulate(temporary[order])
    best: NDArray[Any] = order[np.concatenate([[True], least[1:] < least[:-1]])]
    return best


def serial_slices(ipu: Ipu) -> tuple[tuple[int, int], ...]:
    """Return the numbers of serial slices of (columns, contracted axis), first (1, 1)."""
    return (*_COLUMN_SLICES, *(_INNER_SLICES if ipu.vertices.slice.inner else ()))


def distinct_parts(length: int, most: int | None = None) -> NDArray[Any]:
    """Return the part counts up to a bound that give distinct shares: {ceil(length / share)}."""
    shares = ceil_div(length, np.arange(1, min(length, most or length) + 1))
    return np.unique(ceil_div(length, shares))


def sum_partials(
    ipu: Ipu, out: NDArray[Any], depth: NDArray[Any], partials: str
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return compute cycles, exchange cycles and stages of a sum of `depth` partials of `out` elements per tile."""
    vertex = ipu.vertices.reduction
    stage_count = 1 + (depth >= vertex.two_stage_depth) + (depth >= vertex.three_stage_depth)
    step = np.ceil(depth ** (1 / stage_count) - _ROUNDING).astype(int)
    held, left = out.copy(), depth.copy()
    cycles, exchange, stages = (np.zeros_like(out) for _ in range(3))
    for stage in (1, 2, 3):
        active = left > 1
        factor = np.where(stage_count == stage, left, np.minimum(step, left))
        share = ceil_div(held, factor)
        cycles = cycles + np.where(active, reduce_vertex_cycles(ipu, share, factor, partials), 0)
        sent = ceil_div(held * DTYPE_BYTES[partials], ipu.exchange.bytes_per_cycle)
        exchange = exchange + np.where(active, sent, 0)
        stages = stages + active
        held, left = np.where(active, share, held), np.where(active, ceil_div(left, factor), left)
    return cycles, exchange, stages


def strided_sum_cycles(ipu: Ipu, outputs: Any, depth: Any) -> Any:
    """Return the time of a tile to sum `depth` strided partials per element of `outputs`, in FP32. [cycles]

    Source: [poplibs_popops], strided reduction.
    """
    vertex, workers = ipu.vertices.reduction, ipu.tile.worker_count
    vectors = ceil_div(ceil_div(outputs, vertex.strided.vector), workers)
    return vertex.fixed + workers * (vertex.strided.worker_fixed + vectors * (vertex.strided.per_vector + depth))


def reduce_vertex_cycles(ipu: Ipu, outputs: Any, depth: Any, dtype: str) -> Any:
    """Return the time of a tile to sum `depth` partials per element of `outputs`. [cycles]

    Source: [poplibs_poplin], contiguous-input reduction of convolution partials.
    """
    vertex = ipu.vertices.reduction
    vectors = ceil_div(ceil_div(outputs, vertex.output_vector.for_format(dtype)), ipu.tile.worker_count)
    per_vector = vertex.cycles_per_partial * depth + vertex.output_overhead.for_format(dtype)
    return vertex.fixed + ipu.tile.worker_count * (vertex.worker_fixed + vectors * per_vector)


def slice_cycles(
    ipu: Ipu, weights: int, results: int, column_slices: NDArray[Any], inner_slices: NDArray[Any], dtype: str
) -> NDArray[Any]:
    """Return the cycles per slice to cut the weights and to join the results; inner slices add their results."""
    vertex = ipu.vertices.slice
    serial = column_slices * inner_slices
    fixed = vertex.fixed + ipu.tile.worker_count * vertex.worker_fixed
    rate = ipu.tile.count * vertex.elements_per_cycle
    join = np.where(
        inner_slices > 1,
        elementwise_cycles(ipu, "add", ceil_div(results, ipu.tile.count), dtype),
        fixed + ceil_div(results, rate * serial),
    )
    if vertex.rearranged:
        share, copy = ceil_div(results, ipu.tile.count * serial), ipu.vertices.transform
        sent = ceil_div(share * DTYPE_BYTES[dtype], ipu.exchange.bytes_per_cycle)
        join = join + ipu.vertices.call.copy_cycles + ceil_div(share * copy.cycles, copy.elements) + sent
    return np.where(serial > 1, fixed + ceil_div(weights, rate * serial) + join, 0)


def final_cast_cycles(ipu: Ipu, results: int, dtype: str, partials: str) -> int:
    """Return the cycles to cast all results from the format of the partials into `dtype`. [cycles]"""
    if dtype == partials:
        return 0
    return elementwise_cycles(ipu, "cast", ceil_div(results, ipu.tile.count), dtype)
