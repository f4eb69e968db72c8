"""Problems and results of the planners of products, convolutions and look-ups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from podsim.models.op import DTYPE_BYTES
from podsim.scenario.ipu import Ipu
from podsim.tiles.account import Account
from podsim.tiles.conv_method import Method
from podsim.tiles.conv_shape import ConvShape

LARGEST_EXTENT = 2**24
"""Largest size of an axis of a product."""
SliceKind = Literal["multi-slice", "multi-update-add"]
"""Read rows of a table, or add to them."""


@dataclass(frozen=True, slots=True)
class MatMulShape:
    """A product to plan: `groups` times (rows, inner) x (inner, columns)."""

    rows: int
    inner: int
    columns: int
    groups: int = 1

    @property
    def flop(self) -> int:
        """Number of operations; a multiply-add counts as two. [FLOP]"""
        return 2 * self.groups * self.rows * self.inner * self.columns


@dataclass(frozen=True, slots=True)
class MatMulPlan:
    """The chosen split of a product and its cost."""

    shape: MatMulShape
    dtype: str  # format of the operands
    partials: str  # format of the partial results
    group_parts: int
    row_parts: int
    inner_parts: int  # parallel parts of the contracted axis; more than one needs a reduction
    column_parts: int
    column_slices: int
    inner_slices: int  # serial slices of the contracted axis
    account: Account  # tile cycles by kind
    temporary_bytes_per_tile: int  # peak of the temporaries on the fullest tile [B]

    @property
    def tiles_used(self) -> int:
        """Tiles that hold a part."""
        return self.group_parts * self.row_parts * self.inner_parts * self.column_parts

    def utilization(self, ipu: Ipu) -> float:
        """Share of the matrix units' peak, 0 to 1."""
        peak = ipu.peak_flop_per_s(self.dtype) / ipu.clock_hz
        return self.shape.flop / (self.account.cycles * peak)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvPlan:
    """The chosen split of a convolution and its cost."""

    shape: ConvShape
    dtype: str  # format of the operands
    partials: str  # format of the partial results
    method: Method  # vertex and transforms
    group_parts: int
    batch_parts: int  # parallel parts of the batch; of all positions if the kernel has one position
    field_parts: tuple[int, ...]  # parallel parts of each axis of the field
    kernel_parts: int  # parallel parts of the first axis of the kernel; more than one needs a reduction
    in_parts: int  # parallel parts of the input channels; more than one needs a reduction
    out_parts: int  # parallel parts of the output channels
    in_slices: int  # serial slices of the input channels
    out_slices: int  # serial slices of the output channels
    account: Account  # tile cycles by kind
    temporary_bytes_per_tile: int  # peak of the temporaries on the fullest tile [B]

    @property
    def tiles_used(self) -> int:
        """Tiles that hold a part."""
        rows = self.batch_parts * math.prod(self.field_parts)
        return self.group_parts * rows * self.kernel_parts * self.in_parts * self.out_parts

    def utilization(self, ipu: Ipu) -> float:
        """Share of the matrix units' peak, 0 to 1."""
        peak = ipu.peak_flop_per_s(self.dtype) / ipu.clock_hz
        return self.shape.flop / (self.account.cycles * peak)


@dataclass(frozen=True, slots=True)
class SliceShape:
    """A table and its lookups."""

    rows: int
    features: int  # elements of a row
    lookups: int  # number of rows that are read or added to


LEAST_INDICES: Final = 32
"""Minimum number of indices on a tile that holds indices."""


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """The chosen split of look-ups or updates and its cost."""

    kind: SliceKind  # rows are read or added to
    shape: SliceShape
    dtype: str  # format of the elements
    lookup_parts: int
    row_parts: int
    feature_parts: int
    turns: int  # serial parts of the look-ups
    account: Account  # tile cycles by kind
    temporary_bytes_per_tile: int  # peak of the temporaries on the fullest tile [B]

    @property
    def tiles_used(self) -> int:
        """Tiles that hold a part."""
        return self.lookup_parts * self.row_parts * self.feature_parts

    @property
    def has_indices_on_one_tile(self) -> bool:
        """True if no index moves between tiles before its use, which saves a superstep in a loop."""
        return self.kind == "multi-slice" and self.row_parts == 1 and self.shape.lookups <= LEAST_INDICES

    @property
    def result_bytes_per_tile(self) -> int:
        """Bytes of the result on a tile in use: rows read, or the part of the table that is added to. [B]"""
        shape, slices = self.shape, self.kind == "multi-slice"
        parts = (self.lookup_parts * self.turns, self.row_parts) if slices else (self.row_parts, self.lookup_parts)
        row_bytes = math.ceil(shape.features / self.feature_parts) * DTYPE_BYTES[self.dtype]
        return math.ceil((shape.lookups if slices else shape.rows) / math.prod(parts)) * row_bytes
