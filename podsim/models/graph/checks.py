"""What makes a node impossible that the shape inference of ONNX does not look at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import AttributeProto
from onnx.defs import OpSchema

from podsim.models.graph.node import Shape
from podsim.models.graph.proto import number_attribute
from podsim.scenario.wording import counted

if TYPE_CHECKING:
    from onnx import NodeProto

Values = Mapping[str, np.ndarray[Any, Any]]
Shapes = Sequence[Shape]

_SPATIAL = 2
"""The first axis with positions; batch and channels are in front of it."""
_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "DeformConv": 1, "QLinearConv": 3}
"""Which input of a convolution holds its weights."""
_WINDOWED = {*_WEIGHTS, "AveragePool", "LpPool", "MaxPool"}
_CHANNELS = {*_WINDOWED, "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization"}
"""Operators on a batch of channels."""
_NORMS_FROM_AXIS = {"LayerNormalization", "RMSNormalization"}
_MOST_AXES = 2**31 - 1
_DIVISIONS = {"Div", "Mod"}


class ImpossibleError(Exception):
    """A node contradicts itself or what it reads."""


def refuse(reason: str) -> None:
    """Raise, if there is a reason.

    Raises:
        ImpossibleError: There is one.
    """
    if reason:
        raise ImpossibleError(reason)


def against_schema(node: NodeProto, schema: OpSchema) -> str:
    """What a node cannot do without and is not there, or is there as something else."""
    written = {each.name: each for each in node.attribute}
    for name, attribute in schema.attributes.items():
        if attribute.required and name not in written:
            return f"its attribute `{name}` is missing"
        kind = str(attribute.type).rpartition(".")[2]
        if name in written and AttributeProto.AttributeType.Name(written[name].type) != kind:
            return f"its attribute `{name}` has to be of type {kind}"
    if len(node.input) < schema.min_input:
        return f"it reads {counted(len(node.input), 'tensor')}, and needs {schema.min_input}"
    for place, (name, formal) in enumerate(zip(node.input, schema.inputs, strict=False)):
        if not name and formal.option == OpSchema.FormalParameterOption.Single:
            return f"its input {place + 1} is left out"
    return _fatal(node)


def _fatal(node: NodeProto) -> str:
    """Where the shape inference of ONNX cuts off bits beyond 32, or reads past an end and takes the process along."""
    axis, batch_axes = number_attribute(node, "axis", 0), number_attribute(node, "batch_dims", 0)
    parts = number_attribute(node, "num_outputs", len(node.output))
    if abs(axis) > _MOST_AXES:
        return f"its attribute `axis` is {axis}, and no tensor has as many axes"
    if not 0 <= batch_axes <= _MOST_AXES:
        return f"its attribute `batch_dims` is {batch_axes}, which is no number of axes"
    if node.op_type == "Split" and parts != len(node.output):
        return f"its attribute `num_outputs` is {parts}, and it has {counted(len(node.output), 'output')}"
    return ""


def wrong_operands(node: NodeProto, shapes: Shapes, values: Values) -> str:
    """What is wrong with the operands or attributes of a node.

    Args:
        node: A node of the standard operator set.
        shapes: Those of its inputs, in order; empty for one that is left out.
        values: Those inputs that are known.
    """
    if node.op_type in _CHANNELS and len(shapes[0]) < _SPATIAL:
        return f"it works on a batch of channels, and reads a tensor of shape {list(shapes[0])}"
    checks: tuple[Callable[[], str], ...] = (
        lambda: _wrong_convolution(node, shapes),
        lambda: _wrong_norm(node, shapes),
        lambda: _wrong_numbers(node, values),
    )
    return next(filter(None, (check() for check in checks)), "")


def wrong_result(node: NodeProto, read: Shape, sizes: Sequence[int | None]) -> str:
    """What is wrong with the shape that follows for a result.

    Args:
        node: A node of the standard operator set.
        read: Shape of its first input.
        sizes: Inferred sizes, None where one is not known.
    """
    known = [size for size in sizes if size is not None]
    least = 1 if node.op_type in _WINDOWED and 0 not in read else 0
    if min(known, default=least) >= least:
        return ""
    shown = ", ".join("?" if size is None else str(size) for size in sizes)
    return f"from a tensor of shape {list(read)} its result would have the shape [{shown}]"


def _wrong_convolution(node: NodeProto, shapes: Shapes) -> str:
    place = _WEIGHTS.get(node.op_type)
    if place is None:
        return ""
    groups, channels, weights = number_attribute(node, "group", 1), shapes[0][1], shapes[place]
    if len(weights) != len(shapes[0]):
        return f"its weights have {len(weights)} axes, and what it reads has {len(shapes[0])}"
    if groups < 1:
        return f"its attribute `group` is {groups}, and has to be at least 1"
    for what, count in (("input", channels), ("output", weights[0])):
        # The weights of a transposed convolution start with the channels that it reads.
        if count % groups and (what == "input" or node.op_type != "ConvTranspose"):
            return f"{count} {what} channels cannot be divided into {groups} groups"
    taken = weights[0] if node.op_type == "ConvTranspose" else weights[1] * groups
    if taken != channels:
        return f"its weights of shape {list(weights)} take {taken} input channels, and it reads {channels}"
    return _wrong_kernel(node, weights)


def _wrong_kernel(node: NodeProto, weights: Shape) -> str:
    kernel = next((list(each.ints) for each in node.attribute if each.name == "kernel_shape"), None)
    if kernel in (None, list(weights[_SPATIAL:])):
        return ""
    return f"its attribute `kernel_shape` is {kernel}, and its weights have the shape {list(weights)}"


def _wrong_norm(node: NodeProto, shapes: Shapes) -> str:
    if node.op_type == "GroupNormalization":
        groups, channels = number_attribute(node, "num_groups", 1), shapes[0][1]
        if groups < 1 or channels % groups:
            return f"{channels} channels cannot be divided into {groups} groups"
    if node.op_type in _NORMS_FROM_AXIS:
        axis, rank = number_attribute(node, "axis", -1), len(shapes[0])
        if not -rank <= axis < rank:
            return f"its attribute `axis` is {axis}, and it reads a tensor of shape {list(shapes[0])}"
    return ""


def _wrong_numbers(node: NodeProto, values: Values) -> str:
    """A sequence without steps, and a division of whole numbers by zero, which has no result."""
    if node.op_type == "Range" and node.input[2] in values and not values[node.input[2]].any():
        return "its step is 0"
    if node.op_type in _DIVISIONS and all(name in values for name in node.input):
        divisor = values[node.input[1]]
        if divisor.dtype.kind in "iu" and not divisor.all():
            return "it divides whole numbers by 0"
    return ""
