"""Mappers from ONNX operators to operations; an operator without a vertex has the cost of the most similar one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from podsim.models.graph.node import Node, Shape, Tensor
from podsim.models.layers import GraphBuilder, layer_norm, softmax
from podsim.models.op import Conv, Pool


def _shape(tensor: Tensor | None) -> Shape:
    """Return the shape of a tensor that must be known."""
    assert tensor is not None and tensor.shape is not None
    return tensor.shape


def _batch(node: Node, g: GraphBuilder) -> None:
    """Append a batch norm: a scale and a shift, since its statistics are constants."""
    scaled = g.elementwise("bias_add", _shape(node.source), (f"@{node.source.name}", "@scale"), name="scale")
    g.elementwise("bias_add", _shape(node.source), (scaled, "@shift"), name="shift")


def _rows_and_columns(node: Node) -> tuple[int, int]:
    shape = _shape(node.source)
    columns = math.prod(shape[int(node.attributes.get("axis", -1)) % len(shape) :])
    return math.prod(shape) // columns, columns


def _layer(node: Node, g: GraphBuilder) -> None:
    layer_norm(g, "norm", *_rows_and_columns(node), f"@{node.source.name}")


def _root_mean_square(node: Node, g: GraphBuilder) -> None:
    (rows, columns), source = _rows_and_columns(node), f"@{node.source.name}"
    squares = g.elementwise("square", (rows, columns), (source,))
    power = g.reduce("power", (rows,), rows * columns, squares)
    inverse = g.elementwise("rsqrt", (rows,), (power,), "fp32")
    normal = g.elementwise("mul", (rows, columns), (source, inverse))
    g.elementwise("bias_add", (rows, columns), (normal, "@scale"), name="scale")


def _group(node: Node, g: GraphBuilder) -> None:
    """Append a group norm; an instance norm has a group for each channel."""
    shape = _shape(node.source)
    groups = int(node.attributes.get("num_groups", shape[1]))
    statistics, source = (shape[0] * groups,), f"@{node.source.name}"
    sums = [g.reduce(name, statistics, math.prod(shape), source) for name in ("mean", "power")]
    inverse = g.elementwise("rsqrt", statistics, sums, "fp32")
    for name, operand in (("centre", sums[0]), ("whiten", inverse), ("scale", "@scale"), ("shift", "@shift")):
        source = g.elementwise("bias_add", shape, (source, operand), name=name)


NORMS: dict[str, Callable[[Node, GraphBuilder], None]] = {
    "BatchNormalization": _batch,
    "GroupNormalization": _group,
    "InstanceNormalization": _group,
    "LayerNormalization": _layer,
    "RMSNormalization": _root_mean_square,
}


_BATCH_AND_CHANNELS = 2


def _bias(node: Node, g: GraphBuilder, product: str) -> None:
    if node.optional(2) is not None:
        g.elementwise("bias_add", _shape(node.result), (product, "@bias"))


def _matmul(node: Node, g: GraphBuilder) -> None:
    """Append a product: one over all samples' rows if the right operand is a constant matrix, else one per group."""
    left, right, out = _shape(node.inputs[0]), _shape(node.inputs[1]), _shape(node.result)
    inner, columns = left[-1], right[-1] if len(right) > 1 else 1
    rows = left[-2] if len(left) > 1 else 1
    weights = [each is not None and each.constant for each in node.inputs[:2]]
    groups = math.prod(out) // (rows * columns)
    if weights[1] and math.prod(right) == inner * columns:
        groups, rows = 1, groups * rows
    _add_product(g, node, (groups, rows, columns), inner, left_weights=weights[0], right_weights=weights[1])


def _gemm(node: Node, g: GraphBuilder) -> None:
    left, out = _shape(node.inputs[0]), _shape(node.result)
    inner = left[0] if node.attributes.get("transA") else left[-1]
    right = node.inputs[1]
    weights = right is not None and right.constant
    _add_product(g, node, (1, out[0], out[1]), inner, left_weights=False, right_weights=weights)
    _bias(node, g, "@product")


def _add_product(
    g: GraphBuilder, node: Node, shape: tuple[int, int, int], inner: int, *, left_weights: bool, right_weights: bool
) -> None:
    g.matmul("product", shape, inner, _operands(node), weights=right_weights, left_arranged=left_weights)


def _operands(node: Node) -> tuple[str, str]:
    """Return the names of both operands of a product; an operand from one stored tensor has the tensor's name."""
    left, right = (each for each in node.inputs[:2] if each is not None)
    return _operand_name(left), _operand_name(right)


def _operand_name(tensor: Tensor) -> str:
    (name,) = tensor.parameters if tensor.constant and len(tensor.parameters) == 1 else (tensor.name,)
    return f"@{name}"


def _conv(node: Node, g: GraphBuilder) -> None:
    source, weights, out = (
        _shape(node.inputs[0]),
        _shape(node.inputs[1]),
        _shape(node.result),
    )
    kernel = weights[_BATCH_AND_CHANNELS:]
    conv = Conv(
        name=g.name("product"),
        shape=out,
        dtype=g.dtype,
        inputs=_operands(node),
        batch=source[0],
        in_channels=source[1],
        out_channels=out[1],
        group_count=int(node.attributes.get("group", 1)),
        input_size=source[_BATCH_AND_CHANNELS:],
        output_size=out[_BATCH_AND_CHANNELS:],
        kernel=kernel,
        stride=tuple(node.attributes.get("strides", (1,) * len(kernel))),
    )
    _bias(node, g, g.add(conv))


def _conv_transpose(node: Node, g: GraphBuilder) -> None:
    """Append a transposed convolution, as the input gradient of a convolution from its result to its input."""
    source, weights, out = (
        _shape(node.inputs[0]),
        _shape(node.inputs[1]),
        _shape(node.result),
    )
    kernel = weights[_BATCH_AND_CHANNELS:]
    conv = Conv(
        name=g.name("product"),
        shape=out,
        dtype=g.dtype,
        inputs=_operands(node),
        batch=source[0],
        in_channels=out[1],
        out_channels=source[1],
        group_count=int(node.attributes.get("group", 1)),
        input_size=out[_BATCH_AND_CHANNELS:],
        output_size=source[_BATCH_AND_CHANNELS:],
        kernel=kernel,
        stride=tuple(node.attributes.get("strides", (1,) * len(kernel))),
        direction="input_grad",
    )
    _bias(node, g, g.add(conv))


PRODUCTS: dict[str, Callable[[Node, GraphBuilder], None]] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
}


def _convolution_flop(node: Node, weights: Shape) -> int:
    return 2 * node.result.element_count * math.prod(weights[1:])


def _product_flop(node: Node, inner: Shape) -> int:
    return 2 * node.result.element_count * inner[-1]


def _recurrent_flop(node: Node, source: Shape) -> int:
    """Return the work of a recurrent network; every weight is used once per element of a sequence. [FLOP]"""
    steps = math.prod(source[:2])
    return 2 * steps * sum(math.prod(_shape(each)) for each in node.inputs[1:3])


_ESTIMATES: dict[str, tuple[Callable[[Node, Shape], int], int]] = {
    "ConvInteger": (_convolution_flop, 1),
    "DeformConv": (_convolution_flop, 1),
    "QLinearConv": (_convolution_flop, 3),
    "MatMulInteger": (_product_flop, 0),
    "QLinearMatMul": (_product_flop, 0),
    "GRU": (_recurrent_flop, 0),
    "LSTM": (_recurrent_flop, 0),
    "RNN": (_recurrent_flop, 0),
}
"""Functions for the work of products that are not simulated, with the index of the operand whose shape they need."""


def is_product(operator: str) -> bool:
    """Return True if an operator's work is counted in FLOP."""
    return operator in PRODUCTS or operator in _ESTIMATES


def unmapped_flop(node: Node) -> int:
    """Return the work of a product that is not simulated; 0 for other operators. [FLOP]"""
    if node.operator not in _ESTIMATES or not node.shapes_known:
        return 0
    estimate, place = _ESTIMATES[node.operator]
    return estimate(node, _shape(node.inputs[place]))


Mapper = Callable[[Node, GraphBuilder], None]

PASSES: dict[str, tuple[str, ...]] = {
    "Abs": ("scale",),
    "And": ("max",),
    "Ceil": ("scale",),
    "Celu": ("exp", "max"),
    "Clip": ("max",),
    "Elu": ("exp", "max"),
    "Equal": ("max",),
    "Erf": ("erf",),
    "Exp": ("exp",),
    "Floor": ("scale",),
    "Gelu": ("gelu",),
    "Greater": ("max",),
    "GreaterOrEqual": ("max",),
    "HardSigmoid": ("scaled_add", "max"),
    "HardSwish": ("scaled_add", "max", "mul"),
    "IsInf": ("max",),
    "IsNaN": ("max",),
    "LeakyRelu": ("relu",),
    "Less": ("max",),
    "LessOrEqual": ("max",),
    "Log": ("log",),
    "Max": ("max",),
    "Min": ("max",),
    "Mish": ("exp", "log", "tanh", "mul"),
    "Neg": ("scale",),
    "Not": ("max",),
    "Or": ("max",),
    "PRelu": ("relu",),
    "Reciprocal": ("inverse",),
    "Relu": ("relu",),
    "Round": ("scale",),
    "Selu": ("exp", "max"),
    "Sigmoid": ("sigmoid",),
    "Sign": ("scale",),
    "Softplus": ("exp", "log"),
    "Softsign": ("max", "divide"),
    "Sqrt": ("sqrt",),
    "Sub": ("sub",),
    "Sum": ("add",),
    "Swish": ("swish",),
    "Tanh": ("tanh",),
    "ThresholdedRelu": ("relu",),
    "Where": ("max",),
    "Xor": ("max",),
}
"""Elementwise passes over the result, by operator."""

BROADCAST: dict[str, tuple[str, str]] = {
    "Add": ("add", "add"),
    "Mul": ("mul", "scale"),
    "Div": ("divide", "scale"),
}
"""Pass with another tensor, and pass with a constant number, by operator; a constant vector takes a `bias_add`."""

REDUCTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "ArgMax": ((), ()),
    "ArgMin": ((), ()),
    "GlobalAveragePool": ((), ()),
    "GlobalMaxPool": ((), ()),
    "ReduceL1": (("scale",), ()),
    "ReduceL2": (("square",), ("sqrt",)),
    "ReduceLogSum": ((), ("log",)),
    "ReduceLogSumExp": (("exp",), ("log",)),
    "ReduceMax": ((), ()),
    "ReduceMean": ((), ()),
    "ReduceMin": ((), ()),
    "ReduceProd": ((), ()),
    "ReduceSum": ((), ()),
    "ReduceSumSquare": (("square",), ()),
}
"""Passes over the input before a sum, and over the result after it, by operator."""

FREE = {
    "Constant",
    "ConstantOfShape",
    "Dropout",
    "Expand",
    "Flatten",
    "Identity",
    "Reshape",
    "Shape",
    "Size",
    "Slice",
    "Split",
    "Squeeze",
    "Unsqueeze",
}
"""Operators without a cost: views of tensors, and values known before the run."""

MOVES = {"Concat", "DepthToSpace", "Pad", "Reverse", "SpaceToDepth", "Tile", "Transpose"}
"""Operators that only move elements."""

_POOLS = {"AveragePool", "LpPool", "MaxPool"}
_NEW_SOFTMAX = 13
_TAPS_PER_AXIS = 2


def _general_power(node: Node, g: GraphBuilder) -> None:
    _apply(g, ("log", "scale", "exp"), _shape(node.result), _input_name(node.source))


def mapper_of(node: Node) -> Mapper | None:
    """Return the function that appends a node's operations, or None for an unknown operator."""
    name = node.operator
    if name in FREE or (name == "Cast" and node.source.is_float == node.result.is_float):
        return _free
    if name == "Pow":
        return _power if _exponent(node) is not None else _general_power
    for names, mapper in _TABLES:
        if name in names:
            return mapper
    return None


def _free(node: Node, g: GraphBuilder) -> None:
    """Append nothing, for nodes that cost nothing."""


def _apply(g: GraphBuilder, functions: Sequence[str], shape: Shape, source: str) -> str:
    for function in functions:
        source = g.elementwise(function, shape, (source,))
    return source


def _input_name(tensor: Tensor) -> str:
    return f"@{tensor.name}"


def _passes(node: Node, g: GraphBuilder) -> None:
    _apply(g, PASSES[node.operator], _shape(node.result), _input_name(node.source))


def _broadcast(node: Node, g: GraphBuilder) -> None:
    """Append a pass with another tensor, a constant number, or a constant that is broadcast."""
    full, number = BROADCAST[node.operator]
    small = min(node.read, key=lambda each: each.element_count)
    if small.constant and small.element_count == 1:
        full = number
    elif small.constant and small.element_count < node.result.element_count:
        full = "bias_add"
    g.elementwise(full, _shape(node.result), [_input_name(each) for each in node.read])


def _exponent(node: Node) -> str | None:
    """Return the vertex for a power with a constant exponent of 2, ½, -1 or -½, or None."""
    return {2.0: "square", 0.5: "sqrt", -1.0: "inverse", -0.5: "rsqrt"}.get(node.constants.get(1, 0.0))


def _power(node: Node, g: GraphBuilder) -> None:
    g.elementwise(_exponent(node) or "square", _shape(node.result), (_input_name(node.source),))


def _cast(node: Node, g: GraphBuilder) -> None:
    g.elementwise("cast", _shape(node.result), (_input_name(node.source),))


def _softmax(node: Node, g: GraphBuilder) -> None:
    shape = _shape(node.source)
    new = node.version >= _NEW_SOFTMAX
    axis = int(node.attributes.get("axis", -1 if new else 1)) % max(1, len(shape))
    columns = shape[axis] if new else math.prod(shape[axis:])
    out = softmax(g, math.prod(shape) // columns, columns, _input_name(node.source))
    if node.operator == "LogSoftmax":
        g.elementwise("log", shape, (out,))


def _reduce(node: Node, g: GraphBuilder) -> None:
    before, after = REDUCTIONS[node.operator]
    source = _apply(g, before, _shape(node.source), _input_name(node.source))
    total = g.reduce("sum", _shape(node.result), node.source.element_count, source)
    _apply(g, after, _shape(node.result), total)


def _pool(node: Node, g: GraphBuilder) -> None:
    window = math.prod(node.attributes["kernel_shape"])
    shape, inputs = _shape(node.result), (_input_name(node.source),)
    g.add(Pool(name=g.name("pool"), shape=shape, dtype=g.dtype, inputs=inputs, window=window))


def _move(node: Node, g: GraphBuilder) -> None:
    g.rearrange("move", _shape(node.result), _input_name(node.source))


def _resize(node: Node, g: GraphBuilder) -> None:
    """Append a resize: copies of the nearest elements, or sums over neighbours along every resized axis."""
    shape = _shape(node.result)
    out = g.rearrange("move", shape, _input_name(node.source))
    if node.attributes.get("mode", "nearest") != "nearest":
        axes = sum(new != old for new, old in zip(shape, _shape(node.source), strict=True))
        _apply(g, ("scaled_add",) * (_TAPS_PER_AXIS**axes - 1), shape, out)


def _gather(node: Node, g: GraphBuilder) -> None:
    """Append a look-up of rows; a single index is a view and costs nothing."""
    table, indices, axis = _shape(node.source), node.inputs[1], int(node.attributes.get("axis", 0))
    count = indices.element_count if indices is not None else 1
    if count > 1:
        width = node.result.element_count // count
        g.gather("rows", (count, width), table[axis], (_input_name(node.source), "@indices"))


def _norm(node: Node, g: GraphBuilder) -> None:
    NORMS[node.operator](node, g)


_TABLES: tuple[tuple[frozenset[str], Mapper], ...] = (
    (frozenset(PRODUCTS), lambda node, g: PRODUCTS[node.operator](node, g)),
    (frozenset(NORMS), _norm),
    (frozenset(PASSES), _passes),
    (frozenset(BROADCAST), _broadcast),
    (frozenset(REDUCTIONS), _reduce),
    (frozenset(MOVES), _move),
    (frozenset(_POOLS), _pool),
    (frozenset({"Softmax", "LogSoftmax"}), _softmax),
    (frozenset({"Resize", "Upsample"}), _resize),
    (frozenset({"Gather"}), _gather),
    (frozenset({"Cast"}), _cast),
)
