"""What stands inside a node of an ONNX file: attributes, inner graphs, and its name in messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from onnx import AttributeProto, helper

from podsim.models.graph.onnx_file import printable

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def _inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type in _GRAPHS:
            yield from (attribute.graphs or (attribute.g,))


def inner_nodes(node: NodeProto) -> Iterator[NodeProto]:
    """All nodes of the inner graphs of a node, at any depth."""
    for graph in _inner_graphs(node):
        for inner in graph.node:
            yield inner
            yield from inner_nodes(inner)


def captured_names(node: NodeProto) -> list[str]:
    """Names that inner graphs of a node read from outside."""
    names: dict[str, None] = {}
    for graph in _inner_graphs(node):
        inside = {each.name for each in (*graph.input, *graph.initializer)}
        for inner in graph.node:
            read = [name for name in (*inner.input, *captured_names(inner)) if name and name not in inside]
            names.update(dict.fromkeys(read))
            inside.update(inner.output)
        names.update(dict.fromkeys(each.name for each in graph.output if each.name and each.name not in inside))
    return list(names)


def number_attribute(node: NodeProto, name: str, default: int) -> int:
    """A whole number, or its default."""
    return next((int(each.i) for each in node.attribute if each.name == name), default)


def plain_attributes(node: NodeProto) -> Iterator[tuple[str, Any]]:
    """Numbers, texts and lists of numbers."""
    for each in node.attribute:
        value = helper.get_attribute_value(each)
        if isinstance(value, bytes):
            yield each.name, value.decode(errors="replace")
        elif isinstance(value, int | float):
            yield each.name, value
        elif each.type in (AttributeProto.INTS, AttributeProto.FLOATS):
            yield each.name, tuple(value)


def name_of_node(index: int, node: NodeProto) -> str:
    """Its name, or one made of its operator and place."""
    return printable(node.name) or f"{printable(node.op_type)}_{index}"


def called(node: NodeProto) -> str:
    """A node in a message."""
    return f"`{printable(node.name or node.op_type)}`"


def first_line(error: Exception) -> str:
    """What an error of the library says first, without its place."""
    text = printable(str(error).strip().splitlines()[0]) if str(error).strip() else type(error).__name__
    return text.rpartition("] ")[2][:120]
