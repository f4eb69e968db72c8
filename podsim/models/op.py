"""Operations of a graph with their shapes, on any machine; `models.layers` builds composite layers from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

DType = Literal["fp8", "fp16", "fp32"]

PIECE_BYTES = 8
"""Smallest piece of a tensor that a tile copies at full speed. [B]"""
DROPOUT = "dropout"
"""Name of the elementwise function that generates random numbers."""
DTYPE_BYTES: dict[str, int] = {"fp8": 1, "fp16": 2, "fp32": 4, "int32": 4}


def result_dtype(operands: str) -> str:
    """Return the format of a product's result: FP16 for FP8 operands, otherwise the operands' format."""
    return "fp16" if operands == "fp8" else operands


def _row_bytes(row_length: int | None, size: int) -> int:
    """Return the bytes of a row; without rows, a piece that is copied at full speed. [B]"""
    return PIECE_BYTES if row_length is None else row_length * size


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """An operation of a graph."""

    name: str  # unique within its block, for example `attention/scores`
    shape: tuple[int, ...]
    dtype: DType = "fp16"  # number format of the result
    # names of the operations whose results the operation reads; names that start with `@` are inputs of the block,
    # parameters or stashed activations
    inputs: tuple[str, ...] = ()

    @property
    def element_count(self) -> int:
        """Number of elements of the result."""
        return math.prod(self.shape)

    @property
    def byte_count(self) -> int:
        """Size of the result. [B]"""
        return self.element_count * DTYPE_BYTES[self.dtype]

    @property
    def layout_changes(self) -> tuple[tuple[int, int], ...]:
        """Layout changes for the operation, as (tensor size, size of pieces that stay contiguous). [B]"""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Product(Op):
    """A product of two operands, by multiply-adds."""

    operands: DType | None = None  # number format of both operands; the result's if None

    @property
    def operand_dtype(self) -> DType:
        """Number format of both operands."""
        return self.operands or self.dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul(Product):
    """Grouped matrix product: (groups, rows, inner) x (groups, inner, columns)."""

    inner: int  # length of the contracted axis
    left_arranged: bool = False  # True if the left operand already has the plan's layout
    right_arranged: bool = False  # likewise for the right operand; True for weights, which the plan allocates
    output_arranged: bool = True  # True if the consumer reads the result in the plan's layout
    # elements of a row, if the left operand is stored row by row; None if it is stored in groups of channels, as
    # results of products are
    left_row_length: int | None = None
    contracts_rows: bool = False  # True if the product sums over these rows

    @property
    def regrouped_elements(self) -> int:
        """Number of elements of the left operand that are transposed in grains, if the product sums over its rows.

        Rows that are not a whole number of grains are not transposed [poplibs_popops].
        """
        size = DTYPE_BYTES[self.operand_dtype]
        whole = _row_bytes(self.left_row_length, size) % PIECE_BYTES == 0
        return self.operand_elements[0] if self.contracts_rows and whole else 0

    @property
    def operand_elements(self) -> tuple[int, int]:
        """Number of elements of each operand."""
        groups = self.group_count * self.inner
        return groups * self.rows, groups * self.columns

    @property
    def layout_changes(self) -> tuple[tuple[int, int], ...]:
        """Layout changes of operands and result that do not have the plan's layout."""
        size, (left, right) = DTYPE_BYTES[self.operand_dtype], self.operand_elements
        moved = (
            (self.left_arranged, size * left, _row_bytes(self.left_row_length, size)),
            (self.right_arranged, size * right, PIECE_BYTES),
            (self.output_arranged, self.byte_count, PIECE_BYTES),
        )
        return tuple((byte_count, piece_bytes) for arranged, byte_count, piece_bytes in moved if not arranged)

    @property
    def group_count(self) -> int:
        """Number of independent products."""
        return math.prod(self.shape[:-2])

    @property
    def rows(self) -> int:
        """Number of rows of each result."""
        return self.shape[-2]

    @property
    def columns(self) -> int:
        """Number of columns of each result."""
        return self.shape[-1]

    @property
    def flop(self) -> int:
        """Number of operations; a multiply-add counts as two. [FLOP]"""
        return 2 * self.group_count * self.rows * self.inner * self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise(Op):
    """A pass over a tensor by a named vertex (`add`, `mul`, `gelu`, `dropout`, …)."""

    function: str
    # True if the tensor is spread evenly over all tiles however small it is, as results of a sort are
    even: bool = False
    # elements of a row, if rows are not split over tiles; None if tiles hold equal parts
    row_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Op):
    """A sum or maximum over one axis; `shape` is the result's."""

    input_count: int  # elements read
    # elements of a row, if rows are not split over tiles; None if tiles hold equal parts
    row_length: int | None = None
    operand_dtype: DType = "fp16"  # number format of the operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearrange(Op):
    """A change of a tensor's layout over the tiles."""

    # elements of a row, if the tensor is stored row by row; None otherwise
    row_length: int | None = None
    reader_count: int = 1  # copies of each element in the result; vertices read copies where they arrive

    @property
    def layout_changes(self) -> tuple[tuple[int, int], ...]:
        """Layout change of the tensor, with every element counted once."""
        row_bytes = _row_bytes(self.row_length, DTYPE_BYTES[self.dtype])
        return ((self.byte_count // self.reader_count, row_bytes),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Op):
    """A copy of a part of a tensor on the same tiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Op):
    """A look-up of rows in a table; `shape` is (indices, row width)."""

    table_rows: int
    planned: bool = False  # True if the library plans the look-up, as for edges of graphs


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterAdd(Op):
    """An addition of rows into a table; `shape` is (indices, row width)."""

    table_rows: int
    planned: bool = False  # True if the library plans the update; the table then begins as zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Op):
    """The k largest elements of each row, with their indices; `shape` is (rows, k)."""

    candidates: int  # elements of a row


Direction = Literal["forward", "input_grad", "weight_grad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv(Product):
    """A pass of a grouped convolution over any number of spatial axes.

    All fields except `shape` describe the forward convolution in each of the three passes. `shape` is the result's:
    (batch, out_channels, *output_size), (batch, in_channels, *input_size) for the input gradient,
    (out_channels, in_channels / group_count, *kernel) for the weight gradient.
    """

    batch: int  # images per micro-batch
    in_channels: int  # input channels of all groups
    out_channels: int  # output channels of all groups
    group_count: int = 1  # convolution groups; equal to both channel counts if depthwise
    input_size: tuple[int, ...]
    output_size: tuple[int, ...]
    kernel: tuple[int, ...]  # spatial size of the filter
    stride: tuple[int, ...]  # input positions from one output position to the next
    direction: Direction = "forward"
    regrouped: bool = False  # True if the first operand has smaller groups of channels than the plan

    @property
    def operand_elements(self) -> tuple[int, int]:
        """Number of elements of both operands of the pass: two of input, weights and gradient."""
        source = self.batch * self.in_channels * math.prod(self.input_size)
        weights = self.out_channels * self.in_channels // self.group_count * math.prod(self.kernel)
        gradient = self.batch * self.out_channels * math.prod(self.output_size)
        match self.direction:
            case "forward":
                return source, weights
            case "input_grad":
                return gradient, weights
            case "weight_grad":
                return source, gradient

    @property
    def flop(self) -> int:
        """Number of operations, padding included; a multiply-add counts as two. [FLOP]"""
        per_output = self.in_channels // self.group_count * math.prod(self.kernel)
        return 2 * self.batch * self.out_channels * math.prod(self.output_size) * per_output


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Op):
    """A maximum or mean over windows; `shape` is the result's, in the backward pass the input's."""

    window: int  # elements of a window; in the backward pass windows that contain an element
    backward: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardExchange(Op):
    """An all-gather of the rows of a layer's shards, or a reduce-scatter of their partial sums.

    The ring of the shards determines its time; tiles spend no cycles.
    """

    whole_count: int  # elements of the whole tensor

    @property
    def whole_bytes(self) -> int:
        """Size of the whole tensor. [B]"""
        return self.whole_count * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenExchange(Op):
    """A transfer of token copies from the shards that route tokens to the experts' shards, or of results back.

    Shards at the same place of each group exchange all to all. Shards of a group then gather the received tokens, or
    sum their partial results before sending. The links determine the time; tiles spend no cycles.
    """

    group_count: int  # groups of shards, each with some of the experts
    sent_count: int  # elements that a shard sends to one shard of each other group
    whole_count: int  # elements that the shards of a group gather or sum; 0 for groups of one


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSum(Op):
    """A sum of a small tensor over a group of neighbouring replicas, for distributed batch norm."""

    group_size: int  # replicas that take part
