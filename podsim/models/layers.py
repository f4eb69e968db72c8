"""Composite layers, which append primitive operations to a `GraphBuilder` and return the name of their result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from podsim.models.op import Copy, DType, Elementwise, Gather, MatMul, Op, Rearrange, Reduce, ScatterAdd, ShardExchange

NO_PARTS: Final[Mapping[str, int]] = {}


class GraphBuilder:
    """Builder of the operations of a block, in execution order and with unique names."""

    def __init__(
        self, prefix: str, dtype: DType = "fp16", accumulator: DType = "fp16", functions: DType | None = None
    ) -> None:
        """Create an empty builder; `functions` is the format of layer norms and activations, by default `dtype`."""
        self.dtype, self._prefix, self._accumulator = dtype, prefix, accumulator
        self.functions = functions or dtype
        self._ops: dict[str, Op] = {}
        self._partial_sums: list[str] = []
        self._width_sums: list[str] = []
        self._kept: list[str] = []

    def ops(self) -> tuple[Op, ...]:
        """Return the operations so far, in order."""
        return tuple(self._ops.values())

    def partial_sums(self) -> tuple[str, ...]:
        """Return the names of results that are partial sums over the shards of a layer, in order."""
        return tuple(self._partial_sums)

    def mark_partial_sum(self, source: str) -> str:
        """Mark a result as a partial sum, or a partial maximum, over shards."""
        self._partial_sums.append(source)
        return source

    def width_sums(self) -> tuple[str, ...]:
        """Return the names of results that are partial sums over parts of the hidden width, in order."""
        return tuple(self._width_sums)

    def mark_width_sum(self, source: str) -> str:
        """Mark a result as a partial sum over parts of the hidden width."""
        self._width_sums.append(source)
        return source

    def kept_results(self) -> tuple[str, ...]:
        """Return the names of results that stay alive for the backward pass, in order."""
        return tuple(self._kept)

    def keep_result(self, source: str) -> str:
        """Mark a result that stays alive for the backward pass."""
        self._kept.append(source)
        return source

    def exchange_shards(self, name: str, shape: tuple[int, int], whole_count: int, source: str) -> str:
        """Append an all-gather of the rows of all shards, or a reduce-scatter of their partial sums."""
        inputs = (source,)
        exchange = ShardExchange(
            name=self.name(name), shape=shape, dtype=self.dtype, inputs=inputs, whole_count=whole_count
        )
        return self.add(exchange)

    def name(self, name: str) -> str:
        """Return the full, unique name of the next operation called `name`."""
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
        left_arranged: bool = False,  # True if the left operand is stored in groups of channels
        gradient_of_weights: bool = False,
        left_row_length: int | None = None,  # elements of a row, if the left operand is stored row by row
        contracts_rows: bool = False,
    ) -> str:
        """Append a product; with `weights`, the right operand is a parameter and the left is in groups of channels."""
        return self.add(
            MatMul(
                name=self.name(name),
                shape=shape,
                dtype=self.dtype,
                inner=inner,
                inputs=inputs,
                left_arranged=weights or left_arranged,
                right_arranged=weights,
                is_weight_gradient=gradient_of_weights,
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
        """Append an elementwise pass; with `row_length`, rows are not split over tiles."""
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
        """Append a cast between FP16 and FP32, unless functions have the format of results."""
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
        dtype: DType | None = None,  # number format of the source; that of results if None
        row_length: int | None = None,  # elements of a row, if rows are not split over tiles
    ) -> str:
        """Append a reduction of `input_count` elements to `shape`, summed in FP32."""
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
        """Append a change of layout; `row_length` is the length of rows, if the tensor is stored row by row."""
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
        """Append a broadcast, which copies each element of a tensor to `reader_count` places of a larger tensor."""
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
        """Append a concatenation of tensors."""
        name, inputs = self.name(name), tuple(sources)
        return self.add(Rearrange(name=name, shape=shape, dtype=self.dtype, inputs=inputs, row_length=row_length))

    def cut(self, name: str, shape: tuple[int, ...], source: str, *, whole: bool) -> str:
        """Append a copy of a part of a tensor; with `whole`, return the tensor itself."""
        return (
            source if whole else self.add(Copy(name=self.name(name), shape=shape, dtype=self.dtype, inputs=(source,)))
        )

    def gather(
        self, name: str, shape: tuple[int, int], table_rows: int, inputs: tuple[str, ...], *, planned: bool = False
    ) -> str:
        """Append a look-up of rows; with `planned`, the library plans the look-up."""
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
        """Append an update of rows; with `accumulate`, the table is a gradient accumulator."""
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
    """Append a dense layer, or `groups` independent ones: a product with the weights and an addition of the bias."""
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
    read: str = "",  # name of the layer's input, by default `@NAME/input`
    parts: Mapping[str, int] = NO_PARTS,
) -> str:
    """Append the gradients of a dense layer: of input, weights and bias, the last two with their accumulation.

    `parts` holds the names and widths of weights that are concatenated in the layer. Each part gets a copy of its part
    of the gradients [popart_lowering].
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
    """Append the activation function of a feed-forward block, between casts if functions have a different format.

    `gelu_erf` consists of the separate operations of x·(1 + erf(x/√2))·½, which no pattern of the library fuses.
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
    """Append the gradient of `activate`; for erf five passes, 2/√π·exp(-x²)·dy [popart_lowering]."""
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
    is_shared: bool = False,  # True if shards hold different columns and combine their maxima and sums
    row_length: int | None = None,  # number of columns, if rows are not split over tiles
    dtype: DType | None = None,
) -> str:
    """Append a softmax over the last axis: maximum, subtraction, exponential, sum, scale."""
    joined, rest = g.mark_partial_sum if is_shared else str, (dtype, row_length)

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
    """Append the gradient of softmax, p·(dy - sum(p·dy)), with `row_length` and `dtype` as in `softmax`."""

    def over_all(function: str, *sources: str) -> str:
        return g.elementwise(function, (rows, columns), sources, dtype, f"softmax/{function}", row_length)

    product = over_all("mul", probabilities, gradient)
    total = g.reduce("softmax/sum", (rows,), rows * columns, product, dtype, row_length)
    return over_all("sub", product, over_all("mul", probabilities, total))


def layer_norm(g: GraphBuilder, name: str, rows: int, columns: int, source: str, *, is_shared: bool = False) -> str:
    """Append a layer norm: mean, mean of squares, normalise, scale, shift.

    With `is_shared`, IPUs hold different columns and combine their sums.
    """
    shape, joined, dtype = (rows, columns), g.mark_width_sum if is_shared else str, g.functions
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
    """Append the gradients of `layer_norm` with respect to its input, gamma and beta."""
    shape, joined = (rows, columns), g.mark_width_sum if is_shared else str
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
    """Append an RMS norm, scaled by gamma, or by gamma + 1 with `plus_one`.

    With `is_shared`, IPUs hold different columns and combine their sums.
    """
    joined = g.mark_width_sum if is_shared else str
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
    """Append the gradients of `rms_norm` with respect to its input and gamma."""
    shape, joined = (rows, columns), g.mark_width_sum if is_shared else str
    normal = g.elementwise("mul", shape, (f"@{name}/input", f"@{name}/inverse"), name=f"{name}/whiten")
    product = g.elementwise("mul", shape, (gradient, normal), name=f"{name}/mul")
    total = g.reduce(f"{name}/gamma_grad", (columns,), rows * columns, product)
    g.accumulate(f"{name}/gamma", (columns,), total)
    scaled = g.elementwise("bias_add", shape, (gradient, f"@{name}/gamma"), name=f"{name}/scale")
    power = joined(g.reduce(f"{name}/power_grad", (rows,), rows * columns, product))
    fixed = g.elementwise("scaled_add", shape, (scaled, power), name=f"{name}/correct")
    return g.elementwise("mul", shape, (fixed, f"@{name}/inverse"), name=f"{name}/scale_back")


def rotate(g: GraphBuilder, shape: tuple[int, int], source: str) -> str:
    """Append rotary positions, x·cos + turned(x)·sin; the gradient is the same function of the reversed angle."""
    turned = g.rearrange("rotary/turn", shape, source)
    cosines = g.elementwise("mul", shape, (source, "@cosines"), name="rotary/cosine")
    sines = g.elementwise("mul", shape, (turned, "@sines"), name="rotary/sine")
    return g.elementwise("add", shape, (cosines, sines), name="rotary/add")


@dataclass(frozen=True, slots=True)
class Formats:
    """Number formats of a network."""

    dtype: DType = "fp16"  # weights, activations and their gradients
    accumulator: DType = "fp16"  # accumulated gradients
    # layer norms and activation functions of transformers in forward passes; `dtype` if None
    functions: DType | None = None

    def builder(self, prefix: str) -> GraphBuilder:
        """Return an empty graph builder with these formats."""
        return GraphBuilder(prefix, self.dtype, self.accumulator)


HALF: Final = Formats()
"""FP16 for all tensors."""
