"""Normalisations of ONNX as operations."""

from __future__ import annotations

import math
from collections.abc import Callable

from podsim.models.graph.node import Node, Shape
from podsim.models.layers import GraphBuilder, layer_norm


def _shape(node: Node) -> Shape:
    assert node.source.shape is not None
    return node.source.shape


def _batch(node: Node, g: GraphBuilder) -> None:
    """Statistics are constants, so that a scale and a shift are left."""
    scaled = g.elementwise("bias_add", _shape(node), (f"@{node.source.name}", "@scale"), name="scale")
    g.elementwise("bias_add", _shape(node), (scaled, "@shift"), name="shift")


def _rows_and_columns(node: Node) -> tuple[int, int]:
    shape = _shape(node)
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
    """Statistics of every sample over groups of channels; instance norm has a group for each channel."""
    shape = _shape(node)
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
