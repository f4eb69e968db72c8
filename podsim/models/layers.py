"""Composite layers as primitive operations appended to a `GraphBuilder`; each returns the name of its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podsim.models.op import Copy, DType, Elementwise, Gather, MatMul, Op, Rearrange, Reduce, ScatterAdd, ShardExchange

NO_PARTS: Final[Mapping[str, int]] = {}


class GraphBuilder:
    """Collects the operations of one block in execution order, with unique names."""

    def __init__(
        self, prefix: str, dtype: DType = "fp16", accumulator: DType = "fp16", functions: DType | None = None
    ) -> None:
        """`functions`: the format of layer norms and activations in a forward pass; as results if None."""
        self.dtype, self._prefix, self._accumulator = dtype, prefix, accumulator
        self.functions = functions or dtype
        self._ops: dict[str, Op] = {}
        self._partial_sums: list[str] = []
        self._width_sums: list[str] = []
        self._kept: list[str] = []

    def ops(self) -> tuple[Op, ...]:
        """The operations so far, in order."""
        return tuple(self._ops.values())

    def partial_sums(self) -> tuple[str, ...]:
        """Operations whose results the shards of a layer have to add up, in order."""
        return tuple(self._partial_sums)

    def add_up(self, source: str) -> str:
        """Note that a result is a partial sum, or a partial maximum, over shards."""
        self._partial_sums.append(source)
        return source

    def width_sums(self) -> tuple[str, ...]:
        """Operations whose results IPUs have to add up that divide the width of hidden states, in order."""
        return tuple(self._width_sums)

    def add_up_width(self, source: str) -> str:
        """Note that a result is a partial sum over parts of the width of hidden states."""
        self._width_sums.append(source)
        return source

    def kept(self) -> tuple[str, ...]:
        """Operations whose results are noted to be kept, in order."""
        return tuple(self._kept)

    def keep(self, source: str) -> str:
        """Note that the backward pass reads a result, which would otherwise be gone before the next is made."""
        self._kept.append(source)
        return source

    def share_out(self, name: str, shape: tuple[int, int], whole_count: int, source: str) -> str:
        """Append what brings together the rows of all shards, or sums them and leaves each with its own."""
        inputs = (source,)
        exchange = ShardExchange(
            name=self.name(name), shape=shape, dtype=self.dtype, inputs=inputs, whole_count=whole_count
        )
        return self.add(exchange)

    def name(self, name: str) -> str:
        """The full name of the next operation called `name`, made unique by a number."""
        full, number = f"{self._prefix}/{name}", 2
        while full in self._ops:
            full, number = f"{self._prefix}/{name}.{number}", number + 1
        return full

    def add(self, op: Op) -> str:
        """Append an operation and return its name."""
        self._ops[op.name] = op
        return op.name

    def matmul(
        self,
        name: str,
        shape: tuple[int, ...],
        inner: int,  # length of the contracted axis
        inputs: tuple[str, str],
        *,
        weights: bool = False,
        left_arranged: bool = False,  # the left operand keeps its groups of channels
        gradient_of_weights: bool = False,  # the result goes where the weights lie
        left_row_length: int | None = None,  # elements of a row, where the left operand lies in rows
        contracts_rows: bool = False,
    ) -> str:
        """Append a product; `weights`: the right operand is a parameter, the left keeps its groups of channels."""
        return self.add(
            MatMul(
                name=self.name(name),
                shape=shape,
                dtype=self.dtype,
                inner=inner,
                inputs=inputs,
                left_arranged=weights or left_arranged,
                right_arranged=weights,
                output_arranged=not gradient_of_weights,
                left_row_length=left_row_length,
                contracts_rows=contracts_rows,
            )
        )

    def elementwise(
        self,
        function: str,
        shape: tuple[int, ...],
        inputs: Sequence[str],
        dtype: DType | None = None,
        name: str = "",
        row_length: int | None = None,
        *,
        even: bool = False,
    ) -> str:
        """Append one elementwise pass, in the format of the results unless another is given; rows may be whole."""
        return self.add(
            Elementwise(
                name=self.name(name or function),
                shape=shape,
                inputs=tuple(inputs),
                function=function,
                dtype=dtype or self.dtype,
                even=even,
                row_length=row_length,
            )
        )

    def cast(self, name: str, shape: tuple[int, ...], source: str, dtype: DType) -> str:
        """Append a pass between half and single precision; none where the source has the format."""
        if self.functions == self.dtype:
            return source
        return self.elementwise("cast_single", shape, (source,), dtype, name=name)

    def accumulate(self, parameter: str, shape: tuple[int, ...], gradient: str) -> str:
        """Append the addition of a gradient to its accumulator."""
        inputs = (gradient, f"@{parameter}/accumulator")
        return self.elementwise("scaled_add", shape, inputs, self._accumulator, name=f"{parameter}/accumulate")

    def reduce(
        self,
        name: str,
        shape: tuple[int, ...],
        input_count: int,
        source: str,
        dtype: DType | None = None,  # its number format; that of results if None
        row_length: int | None = None,  # elements of a row, where rows lie on tiles as a whole
    ) -> str:
        """Append a reduction of `input_count` elements to `shape`, summed in single precision."""
        return self.add(
            Reduce(
                name=self.name(name),
                shape=shape,
                dtype="fp32",
                inputs=(source,),
                input_count=input_count,
                row_length=row_length,
                operand_dtype=dtype or self.dtype,
            )
        )

    def rearrange(self, name: str, shape: tuple[int, ...], source: str, row_length: int | None = None) -> str:
        """Append a change of layout; the elements of a row are given where rows are laid out one after the other."""
        return self.join(name, shape, (source,), row_length)

    def spread(
        self,
        name: str,
        shape: tuple[int, ...],
        source: str,
        reader_count: int,
        row_length: int | None,
        dtype: DType | None = None,
    ) -> str:
        """Append what brings each element of a tensor to all places of a larger one that read it."""
        return self.add(
            Rearrange(
                name=self.name(name),
                shape=shape,
                dtype=dtype or self.dtype,
                inputs=(source,),
                row_length=row_length,
                reader_count=reader_count,
            )
        )

    def join(self, name: str, shape: tuple[int, ...], sources: Sequence[str], row_length: int | None = None) -> str:
        """Append what lays several tensors together as one."""
        name, inputs = self.name(name), tuple(sources)
        return self.add(Rearrange(name=name, shape=shape, dtype=self.dtype, inputs=inputs, row_length=row_length))

    def cut(self, name: str, shape: tuple[int, ...], source: str, *, whole: bool) -> str:
        """Append the copy of a part of a tensor; what is `whole` is no part."""
        return (
            source if whole else self.add(Copy(name=self.name(name), shape=shape, dtype=self.dtype, inputs=(source,)))
        )

    def gather(
        self, name: str, shape: tuple[int, int], table_rows: int, inputs: tuple[str, ...], *, planned: bool = False
    ) -> str:
        """Append a look-up of rows, which the library may plan by itself."""
        name, dtype = self.name(name), self.dtype
        rows = Gather(name=name, shape=shape, dtype=dtype, inputs=inputs, table_rows=table_rows, planned=planned)
        return self.add(rows)

    def scatter_add(
        self,
        name: str,
        shape: tuple[int, int],
        table_rows: int,
        inputs: tuple[str, ...],
        *,
        accumulate: bool = False,
        planned: bool = False,
    ) -> str:
        """Append an update of rows; `accumulate` says that the table is a gradient accumulator."""
        dtype = self._accumulator if accumulate else self.dtype
        name = self.name(name)
        rows = ScatterAdd(name=name, shape=shape, dtype=dtype, inputs=inputs, table_rows=table_rows, planned=planned)
        return self.add(rows)


def linear(
    g: GraphBuilder,
    name: str,
    rows: int,
    inner: int,
    columns: int,
    source: str,
    *,
    bias: bool = True,
    groups: int = 1,
) -> str:
    """Dense layer, or `groups` of them side by side: one product with the weights, one broadcast add of the bias."""
    out = g.matmul(name, (groups, rows, columns), inner, (source, f"@{name}/weight"), weights=True)
    shape = (groups * rows, columns)
    return g.elementwise("bias_add", shape, (out, f"@{name}/bias"), name=f"{name}/bias") if bias else out


def linear_backward(
    g: GraphBuilder,
    name: str,
    rows: int,
    inner: int,
    columns: int,
    gradient: str,
    *,
    bias: bool = True,
    groups: int = 1,
    read: str = "",  # its input, where it is not kept under its own name
    parts: Mapping[str, int] = NO_PARTS,
) -> str:
    """Input gradient, weight gradient with its accumulation, and bias gradient of the same.

    `parts`: names and widths of the weights that lie side by side in it, if they are several. The product reads them
    where they lie, and each gets its part of the gradients as a copy [popart_lowering].
    """
    grad_in = g.matmul(
        f"{name}/input_grad", (groups, rows, inner), columns, (gradient, f"@{name}/weight"), left_arranged=True
    )
    grad_w = g.matmul(
        f"{name}/weight_grad",
        (groups, inner, columns),
        rows,
        (read or f"@{name}/input", gradient),
        gradient_of_weights=True,
    )
    widths = parts or {name: columns}
    for part, width in widths.items():
        g.accumulate(
            part, (groups * inner, width), g.cut(f"{part}/weight_grad", (inner, width), grad_w, whole=not parts)
        )
    if bias:
        grad_b = g.reduce(f"{name}/bias_grad", (groups * columns,), groups * rows * columns, gradient)
        for part, width in widths.items():
            cut = g.cut(f"{part}/bias_grad", (width,), grad_b, whole=not parts)
            g.accumulate(f"{part}/bias", (groups * width,), cut)
    return grad_in


def activate(g: GraphBuilder, function: str, shape: tuple[int, ...], source: str) -> str:
    """The function of a feed-forward block, between casts where it has a format of its own.

    `gelu_erf` is as a graph has it that no pattern joins, x·(1 + erf(x/√2))·½.
    """
    dtype, source = g.functions, g.cast(f"{function}/wide", shape, source, g.functions)
    if function == "gelu_erf":
        part = source
        for name, each in {"div": "divide_by_one_number", "erf": "erf", "add": "one_number"}.items():
            part = g.elementwise(each, shape, (part,), dtype, name=f"gelu/{name}")
        product = g.elementwise("mul", shape, (source, part), dtype, name="gelu/mul")
        out = g.elementwise("one_number", shape, (product,), dtype, name="gelu/half")
    elif function == "relu_squared":
        part = g.elementwise("relu", shape, (source,), dtype, name="relu")
        out = g.elementwise("square", shape, (part,), dtype, name="relu/square")
    else:
        out = g.elementwise(function, shape, (source,), dtype)
    return g.cast(f"{function}/narrow", shape, out, g.dtype)


def activate_backward(g: GraphBuilder, function: str, shape: tuple[int, ...], gradient: str, source: str) -> str:
    """The gradient of the same; that of erf is five passes, 2/√π·exp(-x²)·dy [popart_lowering]."""
    if function == "relu_squared":  # 2·relu(x)·dy, relu(x) computed again
        part = g.elementwise("relu", shape, (source,), name="relu_grad/relu")
        product = g.elementwise("mul", shape, (gradient, part), name="relu_grad/mul")
        return g.elementwise("one_number", shape, (product,), name="relu_grad/twice")
    if function != "gelu_erf":
        return g.elementwise(f"{function}_grad", shape, (gradient, source))
    half = g.elementwise("one_number", shape, (gradient,), name="gelu_grad/half")
    beside = g.elementwise("mul", shape, (half, "@gelu/add"), name="gelu_grad/mul")
    inner = g.elementwise("mul", shape, (half, source), name="gelu_grad/mul")
    power = "@gelu/div"
    for each in ("square", "one_number", "exp", "one_number"):
        power = g.elementwise(each, shape, (power,), name="gelu_grad/erf")
    inner = g.elementwise("mul", shape, (inner, power), name="gelu_grad/erf")
    inner = g.elementwise("divide_by_one_number", shape, (inner,), name="gelu_grad/div")
    return g.elementwise("add", shape, (beside, inner), name="gelu_grad/add")


def softmax(
    g: GraphBuilder,
    rows: int,
    columns: int,
    source: str,
    *,
    is_shared: bool = False,  # whether shards hold other columns, so that they have to join maxima and sums
    row_length: int | None = None,  # columns, where each row lies on one tile as a whole
    dtype: DType | None = None,
) -> str:
    """Softmax over the last axis: maximum, subtract, exponential, sum, scale."""
    joined, rest = g.add_up if is_shared else str, (dtype, row_length)

    def over_all(function: str, name: str, *sources: str) -> str:
        return g.elementwise(function, (rows, columns), sources, dtype, f"softmax/{name}", row_length)

    top = joined(g.reduce("softmax/max", (rows,), rows * columns, source, *rest))
    power = over_all("exp", "exp", over_all("sub", "sub", source, top))
    total = joined(g.reduce("softmax/sum", (rows,), rows * columns, power, *rest))
    inverse = g.elementwise("inverse", (rows,), (total,), "fp32", name="softmax/inverse")
    return over_all("mul", "scale", power, inverse)


def softmax_backward(
    g: GraphBuilder,
    rows: int,
    columns: int,
    probabilities: str,
    gradient: str,
    row_length: int | None = None,
    dtype: DType | None = None,
) -> str:
    """Gradient of softmax, p·(dy - sum(p·dy)); the last two arguments as above."""

    def over_all(function: str, *sources: str) -> str:
        return g.elementwise(function, (rows, columns), sources, dtype, f"softmax/{function}", row_length)

    product = over_all("mul", probabilities, gradient)
    total = g.reduce("softmax/sum", (rows,), rows * columns, product, dtype, row_length)
    return over_all("sub", product, over_all("mul", probabilities, total))


def layer_norm(g: GraphBuilder, name: str, rows: int, columns: int, source: str, *, is_shared: bool = False) -> str:
    """Layer norm: mean, mean of squares, normalise, scale, shift; if `is_shared`, IPUs with other columns join sums."""
    shape, joined, dtype = (rows, columns), g.add_up_width if is_shared else str, g.functions
    source = g.cast(f"{name}/wide", shape, source, dtype)
    squares = g.elementwise("square", shape, (source,), dtype, name=f"{name}/square")
    mean = joined(g.reduce(f"{name}/mean", (rows,), rows * columns, source, dtype))
    power = joined(g.reduce(f"{name}/power", (rows,), rows * columns, squares, dtype))
    inverse = g.elementwise("rsqrt", (rows,), (mean, power), "fp32", name=f"{name}/rsqrt")
    centred = g.elementwise("sub", shape, (source, mean), dtype, name=f"{name}/centre")
    normal = g.elementwise("mul", shape, (centred, inverse), dtype, name=f"{name}/normalise")
    scaled = g.elementwise("bias_add", shape, (normal, f"@{name}/gamma"), dtype, name=f"{name}/scale")
    shifted = g.elementwise("bias_add", shape, (scaled, f"@{name}/beta"), dtype, name=f"{name}/shift")
    return g.cast(f"{name}/narrow", shape, shifted, g.dtype)


def layer_norm_backward(
    g: GraphBuilder, name: str, rows: int, columns: int, gradient: str, *, is_shared: bool = False
) -> str:
    """Gradients of layer norm with respect to its input, gamma and beta; arguments as above."""
    shape, joined = (rows, columns), g.add_up_width if is_shared else str
    normal = g.elementwise("mul", shape, (f"@{name}/input", f"@{name}/inverse"), name=f"{name}/whiten")
    product = g.elementwise("mul", shape, (gradient, normal), name=f"{name}/mul")
    for parameter, source in (("gamma", product), ("beta", gradient)):
        total = g.reduce(f"{name}/{parameter}_grad", (columns,), rows * columns, source)
        g.accumulate(f"{name}/{parameter}", (columns,), total)
    scaled = g.elementwise("bias_add", shape, (gradient, f"@{name}/gamma"), name=f"{name}/scale")
    first = joined(g.reduce(f"{name}/mean_grad", (rows,), rows * columns, scaled))
    second = joined(g.reduce(f"{name}/power_grad", (rows,), rows * columns, product))
    centred = g.elementwise("sub", shape, (scaled, first), name=f"{name}/centre")
    fixed = g.elementwise("scaled_add", shape, (centred, second), name=f"{name}/correct")
    return g.elementwise("mul", shape, (fixed, f"@{name}/inverse"), name=f"{name}/scale_back")


def rms_norm(
    g: GraphBuilder,
    name: str,
    rows: int,
    columns: int,
    source: str,
    *,
    plus_one: bool = False,
    is_shared: bool = False,
) -> str:
    """Norm by the root of the mean square, and scale, by one more than gamma with `plus_one`; `is_shared` as above."""
    joined = g.add_up_width if is_shared else str
    gamma = f"@{name}/gamma"
    if plus_one:
        gamma = g.elementwise("add", (columns,), (gamma, "@one"), name=f"{name}/plus_one")
    shape = (rows, columns)
    squares = g.elementwise("square", shape, (source,), name=f"{name}/square")
    power = joined(g.reduce(f"{name}/power", (rows,), rows * columns, squares))
    inverse = g.elementwise("rsqrt", (rows,), (power,), "fp32", name=f"{name}/rsqrt")
    normal = g.elementwise("mul", shape, (source, inverse), name=f"{name}/normalise")
    return g.elementwise("bias_add", shape, (normal, gamma), name=f"{name}/scale")


def rms_norm_backward(
    g: GraphBuilder, name: str, rows: int, columns: int, gradient: str, *, is_shared: bool = False
) -> str:
    """Gradients of the same with respect to its input and gamma."""
    shape, joined = (rows, columns), g.add_up_width if is_shared else str
    normal = g.elementwise("mul", shape, (f"@{name}/input", f"@{name}/inverse"), name=f"{name}/whiten")
    product = g.elementwise("mul", shape, (gradient, normal), name=f"{name}/mul")
    total = g.reduce(f"{name}/gamma_grad", (columns,), rows * columns, product)
    g.accumulate(f"{name}/gamma", (columns,), total)
    scaled = g.elementwise("bias_add", shape, (gradient, f"@{name}/gamma"), name=f"{name}/scale")
    power = joined(g.reduce(f"{name}/power_grad", (rows,), rows * columns, product))
    fixed = g.elementwise("scaled_add", shape, (scaled, power), name=f"{name}/correct")
    return g.elementwise("mul", shape, (fixed, f"@{name}/inverse"), name=f"{name}/scale_back")


def rotate(g: GraphBuilder, shape: tuple[int, int], source: str) -> str:
    """Rotary positions, x·cos + turned(x)·sin; their gradient is the same with the angle reversed."""
    turned = g.rearrange("rotary/turn", shape, source)
    cosines = g.elementwise("mul", shape, (source, "@cosines"), name="rotary/cosine")
    sines = g.elementwise("mul", shape, (turned, "@sines"), name="rotary/sine")
    return g.elementwise("add", shape, (cosines, sines), name="rotary/add")


@dataclass(frozen=True, slots=True)
class Formats:
    """Number formats of a network."""

    dtype: DType = "fp16"  # weights, activations and their gradients
    accumulator: DType = "fp16"  # accumulated gradients
    # layer norms and activation functions of transformers in forward passes; as activations if None
    functions: DType | None = None

    def builder(self, prefix: str) -> GraphBuilder:
        """An empty sequence of operations."""
        return GraphBuilder(prefix, self.dtype, self.accumulator)


HALF: Final = Formats()
