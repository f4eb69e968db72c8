"""Matrix products and convolutions of ONNX as operations, and the work of those that are not simulated."""

from __future__ import annotations

import math
from collections.abc import Callable

from podsim.models.graph.node import Node, Shape, Tensor
from podsim.models.layers import GraphBuilder
from podsim.models.op import Conv

_BATCH_AND_CHANNELS = 2


def _shape(tensor: Tensor | None) -> Shape:
    assert tensor is not None and tensor.shape is not None
    return tensor.shape


def _bias(node: Node, g: GraphBuilder, product: str) -> None:
    if node.optional(2) is not None:
        g.elementwise("bias_add", _shape(node.result), (product, "@bias"))


def _matmul(node: Node, g: GraphBuilder) -> None:
    """Rows of all samples together if the right operand is a constant matrix, a product per group otherwise."""
    left, right, out = _shape(node.inputs[0]), _shape(node.inputs[1]), _shape(node.result)
    inner, columns = left[-1], right[-1] if len(right) > 1 else 1
    rows = left[-2] if len(left) > 1 else 1
    weights = [each is not None and each.constant for each in node.inputs[:2]]
    groups = math.prod(out) // (rows * columns)
    if weights[1] and math.prod(right) == inner * columns:
        groups, rows = 1, groups * rows
    _add_product(g, (groups, rows, columns), inner, left_weights=weights[0], right_weights=weights[1])


def _gemm(node: Node, g: GraphBuilder) -> None:
    left, out = _shape(node.inputs[0]), _shape(node.result)
    inner = left[0] if node.attributes.get("transA") else left[-1]
    right = node.inputs[1]
    _add_product(g, (1, out[0], out[1]), inner, left_weights=False, right_weights=right is not None and right.constant)
    _bias(node, g, "@product")


def _add_product(
    g: GraphBuilder, shape: tuple[int, int, int], inner: int, *, left_weights: bool, right_weights: bool
) -> None:
    g.matmul("product", shape, inner, ("@left", "@right"), weights=right_weights, left_arranged=left_weights)


def _conv(node: Node, g: GraphBuilder) -> None:
    source, weights, out = _shape(node.inputs[0]), _shape(node.inputs[1]), _shape(node.result)
    kernel = weights[_BATCH_AND_CHANNELS:]
    conv = Conv(
        name=g.name("product"),
        shape=out,
        dtype=g.dtype,
        inputs=("@input", "@weight"),
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
    """The gradient of the input of the convolution that leads from the result to the input."""
    source, weights, out = _shape(node.inputs[0]), _shape(node.inputs[1]), _shape(node.result)
    kernel = weights[_BATCH_AND_CHANNELS:]
    conv = Conv(
        name=g.name("product"),
        shape=out,
        dtype=g.dtype,
        inputs=("@input", "@weight"),
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
    """Every weight and recurrent weight meets every element of a sequence once."""
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
"""Work of products that are not simulated, and the operand whose shape tells it."""


def is_product(operator: str) -> bool:
    """Whether an operator's work is counted in FLOP."""
    return operator in PRODUCTS or operator in _ESTIMATES


def unmapped_flop(node: Node) -> int:
    """Work of a product that is not simulated; 0 for other operators. [FLOP]"""
    if node.operator not in _ESTIMATES or not node.shapes_known:
        return 0
    estimate, place = _ESTIMATES[node.operator]
    return estimate(node, _shape(node.inputs[place]))
