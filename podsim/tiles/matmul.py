"""The matmul planner: it chooses the cheapest split of a product (groups, rows, inner, columns) that fits.

A product is split into parallel parts along all axes, and into serial slices of columns or of the inner axis. The
layout of the allocated weights decides which operand the matrix unit holds. Source: [poplibs_poplin] for the objective
and the costs; [gemm_bow] for measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.errors import NoPlanError
from podsim.models.op import DTYPE_BYTES, result_dtype
from podsim.scenario.ipu import Ipu
from podsim.tiles.account import Account
from podsim.tiles.amp import amp_vertex_cycles, out_grains
from podsim.tiles.plans import LARGEST_EXTENT, MatMulPlan, MatMulShape
from podsim.tiles.split import (
    ROW_PART_DIVISORS,
    choose,
    distinct_parts,
    final_cast_cycles,
    frontier,
    serial_slices,
    slice_cycles,
    sum_partials,
)
from podsim.tiles.vector import ceil_div

_MOST_ELEMENTS = 2**40


@dataclass(frozen=True, slots=True)
class _Candidates:
    """Candidates for the split; all fields are integer arrays of the same length."""

    groups: NDArray[Any]
    rows: NDArray[Any]
    inner: NDArray[Any]
    columns: NDArray[Any]
    column_slices: NDArray[Any]
    inner_slices: NDArray[Any]
    group_share: NDArray[Any]
    row_share: NDArray[Any]
    inner_grains: NDArray[Any]
    column_grains: NDArray[Any]
    column_grain: NDArray[Any]  # columns of a grain


@dataclass(frozen=True, slots=True)
class CostedSplits:
    """Splits of a product, one of which is the cheapest for any share of memory."""

    ipu: Ipu
    shape: MatMulShape
    dtype: str
    partials: str
    candidates: _Candidates
    parts: dict[str, NDArray[Any]]  # cycles of every candidate, by kind of work [cycles]
    cycles: NDArray[Any]
    temporary: NDArray[Any]  # [B]

    def plan(self, available_memory_proportion: float) -> MatMulPlan:
        """Return the cheapest split whose temporaries fit."""
        index = choose(self.cycles, self.temporary, self.ipu.tile.memory_bytes, available_memory_proportion)
        c = self.candidates
        return MatMulPlan(
            shape=self.shape,
            dtype=self.dtype,
            partials=self.partials,
            group_parts=int(c.groups[index]),
            row_parts=int(c.rows[index]),
            inner_parts=int(c.inner[index]),
            column_parts=int(c.columns[index]),
            column_slices=int(c.column_slices[index]),
            inner_slices=int(c.inner_slices[index]),
            account=Account(**{kind: float(values[index]) for kind, values in self.parts.items()}),
            temporary_bytes_per_tile=int(self.temporary[index]),
        )


def plan_matmul(
    ipu: Ipu,
    shape: MatMulShape,
    dtype: str = "fp16",  # format of the operands: `fp8`, `fp16` or `fp32`
    partials: str = "fp16",
    available_memory_proportion: float = 0.6,  # share of tile memory for temporaries, above 0
) -> MatMulPlan:
    """Return the cheapest split whose temporaries fit.

    When nothing fits, the bound is doubled until it passes twice the tile's memory and then dropped; the memory plan
    decides if the whole graph fits.
    """
    return costed_splits(ipu, shape, dtype, partials).plan(available_memory_proportion)


def costed_splits(ipu: Ipu, shape: MatMulShape, dtype: str, partials: str) -> CostedSplits:
    """Return the splits that are the cheapest for some share of memory."""
    _refuse_beyond_reason(shape)
    candidates = _enumerate(ipu, shape, dtype)
    parts = _cost(ipu, shape, candidates, dtype, partials)
    cycles = np.asarray(sum(parts.values()))
    temporary = _temporary_bytes(candidates, ipu, dtype, partials)
    best = frontier(cycles, temporary)
    kept = _Candidates(*(getattr(candidates, name)[best] for name in _Candidates.__slots__))
    parts = {kind: values[best] for kind, values in parts.items()}
    return CostedSplits(ipu, shape, dtype, partials, kept, parts, cycles[best], temporary[best])


def _refuse_beyond_reason(shape: MatMulShape) -> None:
    extents = (shape.groups, shape.rows, shape.inner, shape.columns)
    operands = (shape.rows * shape.inner, shape.inner * shape.columns, shape.rows * shape.columns)
    if max(extents) > LARGEST_EXTENT or shape.groups * max(operands) > _MOST_ELEMENTS:
        raise NoPlanError(
            f"a matrix product of {'x'.join(map(str, extents))} is too large to be planned",
            do="make the micro-batch or the model smaller",
        )


def _enumerate(ipu: Ipu, shape: MatMulShape, dtype: str) -> _Candidates:
    """Return the splits that are worth costing."""
    inner_grain, grains = ipu.amp.in_channels(dtype), out_grains(ipu, shape.columns)
    rows = [_splits_of_slice(ipu, shape, inner_grain, grain, *pair) for grain in grains for pair in serial_slices(ipu)]
    return _Candidates(*np.concatenate(rows, axis=1))


def _splits_of_slice(
    ipu: Ipu, shape: MatMulShape, inner_grain: int, column_grain: int, column_slices: int, inner_slices: int
) -> NDArray[Any]:
    """Return the arrays of `_Candidates` for one number of serial slices."""
    column_grains = ceil_div(ceil_div(shape.columns, column_slices), column_grain)
    inner_grains = ceil_div(ceil_div(shape.inner, inner_slices), inner_grain)
    axes = (distinct_parts(shape.groups), distinct_parts(column_grains), distinct_parts(inner_grains))
    groups, columns, inner = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    fits = groups * columns * inner <= ipu.tile.count
    groups, columns, inner = groups[fits], columns[fits], inner[fits]
    most = np.minimum(shape.rows, ipu.tile.count // (groups * columns * inner))
    rows = np.concatenate([np.maximum(most // divisor, 1) for divisor in ROW_PART_DIVISORS])
    groups, columns, inner = (np.tile(axis, len(ROW_PART_DIVISORS)) for axis in (groups, columns, inner))
    row_share = ceil_div(shape.rows, rows)
    rows = ceil_div(shape.rows, row_share)
    one = np.ones_like(rows)
    return np.stack(
        (
            *(groups, rows, inner, columns, one * column_slices, one * inner_slices),
            *(ceil_div(shape.groups, groups), row_share),
            *(ceil_div(inner_grains, inner), ceil_div(column_grains, columns), one * column_grain),
        )
    )


def _tile_elements(c: _Candidates, ipu: Ipu, dtype: str) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the elements of left operand, right operand and partial result on the fullest tile."""
    inner = c.inner_grains * ipu.amp.in_channels(dtype)
    columns = c.column_grains * c.column_grain
    return (
        c.group_share * c.row_share * inner,
        c.group_share * inner * columns,
        c.group_share * c.row_share * columns,
    )


def _temporary_bytes(c: _Candidates, ipu: Ipu, dtype: str, partials: str) -> NDArray[Any]:
    """Return the peak of the temporaries on the fullest tile. [B]

    While the vertex runs, these are the broadcast operands and the partials; during the reduction, the sent and the
    received partials.
    """
    left, right, out = _tile_elements(c, ipu, dtype)
    operand, partial = DTYPE_BYTES[dtype], DTYPE_BYTES[partials]
    running = operand * (np.where(c.columns > 1, left, 0) + np.where(c.rows > 1, right, 0)) + partial * out
    reducing = np.where(c.inner > 1, 2, 1) * partial * out
    result: NDArray[Any] = np.maximum(running, reducing)
    return result


def _cost(ipu: Ipu, shape: MatMulShape, c: _Candidates, dtype: str, partials: str) -> dict[str, NDArray[Any]]:
    """Return the cycles of every candidate by kind of work. [cycles]"""
    left, right, out = _tile_elements(c, ipu, dtype)
    operand, result = DTYPE_BYTES[dtype], result_dtype(dtype)
    port = ipu.exchange.bytes_per_cycle
    # Each tile already owns its share of an operand and receives the rest; two tiles on one bus
    # that need the same left operand receive it at double rate.
    bus = np.where(c.columns % ipu.exchange.tiles_per_bus == 0, ipu.exchange.tiles_per_bus, 1)
    exchange = ceil_div(left * operand * (c.columns - 1) // c.columns, port * bus)
    exchange = exchange + ceil_div(right * operand * (c.rows - 1) // c.rows, port)
    extents = c.row_share, c.inner_grains, c.column_grains, c.group_share
    grains = out_grains(ipu, shape.columns)
    vertex = np.select(
        [c.column_grain == grain for grain in grains],
        [amp_vertex_cycles(ipu, *extents, dtype, partials, grain) for grain in grains],
    )
    sums, sums_exchange, stages = sum_partials(ipu, out, c.inner, partials)
    serial = c.column_slices * c.inner_slices
    weights, results = shape.groups * shape.inner * shape.columns, shape.groups * shape.rows * shape.columns
    slices = slice_cycles(ipu, weights, results, c.column_slices, c.inner_slices, result)
    return {
        "matmul": serial * vertex,
        "reduction": serial * sums,
        "exchange": serial * (exchange + sums_exchange),
        "rearrange": serial * slices + final_cast_cycles(ipu, results, result, partials),
        "superstep": serial * (2 + stages) * ipu.superstep.overhead_cycles * np.ones(len(serial)),
    }
