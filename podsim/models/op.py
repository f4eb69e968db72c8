"""Operations: what a graph computes, with shapes, on any machine; `models.layers` has composite ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

DType = Literal["fp8", "fp16", "fp32"]

PIECE_BYTES = 8
"""Pieces of tensors that a tile copies at full speed. [B]"""
DROPOUT = "dropout"
"""The elementwise function that draws random numbers."""
DTYPE_BYTES: dict[str, int] = {"fp8": 1, "fp16": 2, "fp32": 4, "int32": 4}


def result_dtype(operands: str) -> str:
    """Format of the result of a product: half of FP8 operands, that of the operands otherwise."""
    return "fp16" if operands == "fp8" else operands


def _row_bytes(row_length: int | None, size: int) -> int:
    """A row: pieces of it lie at fitting places if they divide it. A large piece without rows."""
    return PIECE_BYTES if row_length is None else row_length * size


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation of a graph."""

    name: str  # unique within its block, for example `attention/scores`
    shape: tuple[int, ...]
    dtype: DType = "fp16"  # number format of the result
    # names of the operations whose results it reads; names that start with `@` are inputs of the block, parameters or
    # stashed activations
    inputs: tuple[str, ...] = ()

    @property
    def element_count(self) -> int:
        """Elements of the result."""
        return math.prod(self.shape)

    @property
    def byte_count(self) -> int:
        """Size of the result. [B]"""
        return self.element_count * DTYPE_BYTES[self.dtype]

    @property
    def laid_out(self) -> tuple[tuple[int, int], ...]:
        """Tensors that change their layout for it: their size, and what lies together before and behind. [B]"""
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Product(Op):
    """Multiply-adds of two operands."""

    operands: DType | None = None  # number format of both; that of the result if None

    @property
    def operand_dtype(self) -> DType:
        """Number format of both operands."""
        return self.operands or self.dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class MatMul(Product):
    """Grouped matrix product: (groups, rows, inner) x (groups, inner, columns)."""

    inner: int  # length of the contracted axis
    left_arranged: bool = False  # the left operand already lies where the plan wants it
    right_arranged: bool = False  # likewise for the right operand; true for weights, which the plan allocates
    output_arranged: bool = True  # the consumer takes the result where the plan leaves it
    # elements of a row, where the left operand lies in rows one after the other; None where it lies in groups of
    # channels, as results of products do
    left_row_length: int | None = None
    contracts_rows: bool = False  # whether these rows are what is summed over

    @property
    def regrouped_elements(self) -> int:
        """Elements of the left operand that are transposed in grains: those of rows that are summed over.

        Rows that are no whole number of grains are not [poplibs_popops].
        """
        size = DTYPE_BYTES[self.operand_dtype]
        whole = _row_bytes(self.left_row_length, size) % PIECE_BYTES == 0
        return self.operand_elements[0] if self.contracts_rows and whole else 0

    @property
    def operand_elements(self) -> tuple[int, int]:
        """Elements of both operands."""
        groups = self.group_count * self.inner
        return groups * self.rows, groups * self.columns

    @property
    def laid_out(self) -> tuple[tuple[int, int], ...]:
        """Operands and result that do not lie where the plan wants them."""
        size, (left, right) = DTYPE_BYTES[self.operand_dtype], self.operand_elements
        moved = (
            (self.left_arranged, size * left, _row_bytes(self.left_row_length, size)),
            (self.right_arranged, size * right, PIECE_BYTES),
            (self.output_arranged, self.byte_count, PIECE_BYTES),
        )
        return tuple((byte_count, piece_bytes) for arranged, byte_count, piece_bytes in moved if not arranged)

    @property
    def group_count(self) -> int:
        """Independent products."""
        return math.prod(self.shape[:-2])

    @property
    def rows(self) -> int:
        """Rows of each result."""
        return self.shape[-2]

    @property
    def columns(self) -> int:
        """Columns of each result."""
        return self.shape[-1]

    @property
    def flop(self) -> int:
        """Floating-point operations, one multiply-add being two. [FLOP]"""
        return 2 * self.group_count * self.rows * self.inner * self.columns


@dataclass(frozen=True, slots=True, kw_only=True)
class Elementwise(Op):
    """One pass over a tensor by a named vertex (`add`, `mul`, `gelu`, `dropout`, …)."""

    function: str
    even: bool = False  # whether the tensor lies evenly on all tiles, as results of a sort do, however small it is
    # elements of a row, where each row lies on one tile as a whole; None where tiles hold equal parts
    row_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduce(Op):
    """Sum or maximum over one axis; `shape` is the result's."""

    input_count: int  # elements read
    # elements of a row, where each row lies on one tile as a whole; None where tiles hold equal parts
    row_length: int | None = None
    operand_dtype: DType = "fp16"  # number format of what is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearrange(Op):
    """The same elements laid out in another way over the tiles."""

    # elements of a row, where they lie in rows one after the other; None where they do not
    row_length: int | None = None
    reader_count: int = 1  # how often each element is in the result, which vertices read where it arrives

    @property
    def laid_out(self) -> tuple[tuple[int, int], ...]:
        """The tensor, every element once."""
        row_bytes = _row_bytes(self.row_length, DTYPE_BYTES[self.dtype])
        return ((self.byte_count // self.reader_count, row_bytes),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Op):
    """A part of a tensor once more, on the tiles where it lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Op):
    """Rows picked from a table: `shape` is (indices, row width)."""

    table_rows: int
    planned: bool = False  # the library plans the lookup by itself, as it does for edges of graphs


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterAdd(Op):
    """Rows added into a table: `shape` is (indices, row width)."""

    table_rows: int
    planned: bool = False  # the library plans the update by itself, and the table begins as zeros


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK(Op):
    """The largest of each row, with their places: `shape` is (rows, k)."""

    candidates: int  # elements of a row


Direction = Literal["forward", "input_grad", "weight_grad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv(Product):
    """One pass of a grouped convolution over any number of spatial axes.

    All fields but `shape` describe the forward convolution, whichever pass it is. `shape` is the result's:
    (batch, out_channels, *output_size), (batch, in_channels, *input_size) for the input gradient,
    (out_channels, in_channels / group_count, *kernel) for the weight gradient.
    """

    batch: int  # images per micro-batch
    in_channels: int  # input channels of all groups together
    out_channels: int  # output channels of all groups together
    group_count: int = 1  # convolution groups; equal to both channel counts if depthwise
    input_size: tuple[int, ...]
    output_size: tuple[int, ...]
    kernel: tuple[int, ...]  # spatial size of the filter
    stride: tuple[int, ...]  # step between output positions
    direction: Direction = "forward"

    @property
    def operand_elements(self) -> tuple[int, int]:
        """Elements of both operands of the pass: of input, weights and gradient the two that it reads."""
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
        """Floating-point operations, one multiply-add being two, padding counted as work. [FLOP]"""
        per_output = self.in_channels // self.group_count * math.prod(self.kernel)
        return 2 * self.batch * self.out_channels * math.prod(self.output_size) * per_output


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool(Op):
    """Maximum or mean over windows; `shape` is the result's, which in the backward pass is the input's."""

    window: int  # elements under one window; in the backward pass windows over one element
    backward: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardExchange(Op):
    """A tensor of which each shard of a layer has some rows, brought together; or partial sums, whose rows are divided.

    It is timed with the ring of the shards, and costs tiles nothing.
    """

    whole_count: int  # elements of all rows

    @property
    def whole_bytes(self) -> int:
        """Size of all rows. [B]"""
        return self.whole_count * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenExchange(Op):
    """Copies of tokens go from the shards that route them to those that hold their experts, or results go back.

    Shards of the same place in each group exchange all to all; shards of a group then gather what they have received,
    or add up their parts of the results before they send them. It is timed with the links, and costs tiles nothing.
    """

    group_count: int  # groups of shards, each with some of the experts
    sent_count: int  # elements that a shard sends to its fellow in each other group
    whole_count: int  # elements that the shards of a group gather or add up; 0 for groups of one


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSum(Op):
    """The sum of a small tensor over a group of neighbouring replicas, as distributed batch norm needs."""

    group_size: int  # replicas that take part
