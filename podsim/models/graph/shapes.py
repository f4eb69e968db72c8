"""Shapes of the tensors of an ONNX graph, inferred in one pass over the nodes; small constants are computed as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto, defs, helper, numpy_helper, shape_inference
from onnx.checker import ValidationError
from onnx.defs import OpSchema
from onnx.reference import ReferenceEvaluator

from podsim.errors import Problem, SpecError
from podsim.escaped import printable
from podsim.models.graph.node import Node, Shape, Tensor
from podsim.models.graph.onnx_file import (
    FLOATS,
    NARROW,
    SMALL_ELEMENTS,
    STORED,
    as_inferred,
    captured_names,
    element_count,
    first_line,
    format_of,
    inner_nodes,
    inputs_of,
    item_bytes_of,
    name_of_node,
    node_label,
    number_attribute,
    plain_attributes,
    shape_of,
    sizes_of,
    value_of,
)
from podsim.scenario.wording import counted
from podsim.watch import Watch, in_portions, silent

if TYPE_CHECKING:
    from onnx import NodeProto, TypeProto

Values = Mapping[str, np.ndarray[Any, Any]]
OperandShapes = Sequence[Shape]

_SPATIAL = 2
"""First axis with positions; batch and channels precede it."""
_WEIGHTS = {"Conv": 1, "ConvInteger": 1, "ConvTranspose": 1, "DeformConv": 1, "QLinearConv": 3}
"""Index of the input with the weights of a convolution."""
_WINDOWED = {*_WEIGHTS, "AveragePool", "LpPool", "MaxPool"}
_CHANNELS = {*_WINDOWED, "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization"}
"""Operators on a batch of channels."""
_NORMS_FROM_AXIS = {"LayerNormalization", "RMSNormalization"}
_MOST_AXES = 2**31 - 1
_DIVISIONS = {"Div", "Mod"}


class ImpossibleError(Exception):
    """Contradiction within a node, or between a node and its inputs."""


def refuse(reason: str) -> None:
    """Raise `ImpossibleError` unless the reason is empty."""
    if reason:
        raise ImpossibleError(reason)


def against_schema(node: NodeProto, schema: OpSchema) -> str:
    """Return which attribute or input is missing or of a wrong type; empty if none is."""
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
    """Return what would crash the shape inference of ONNX or overflow its 32-bit numbers; empty if nothing."""
    axis, batch_axes = number_attribute(node, "axis", 0), number_attribute(node, "batch_dims", 0)
    parts = number_attribute(node, "num_outputs", len(node.output))
    if abs(axis) > _MOST_AXES:
        return f"its attribute `axis` is {axis}, and no tensor has as many axes"
    if not 0 <= batch_axes <= _MOST_AXES:
        return f"its attribute `batch_dims` is {batch_axes}, which is no number of axes"
    if node.op_type == "Split" and parts != len(node.output):
        return f"its attribute `num_outputs` is {parts}, and it has {counted(len(node.output), 'output')}"
    return ""


def wrong_operands(node: NodeProto, shapes: OperandShapes, values: Values) -> str:
    """Return the fault of a node's operands or attributes, or nothing; an omitted input has an empty shape."""
    if node.op_type in _CHANNELS and len(shapes[0]) < _SPATIAL:
        return f"it works on a batch of channels, and reads a tensor of shape {list(shapes[0])}"
    checks: tuple[Callable[[], str], ...] = (
        lambda: _wrong_convolution(node, shapes),
        lambda: _wrong_norm(node, shapes),
        lambda: _wrong_numbers(node, values),
    )
    return next(filter(None, (check() for check in checks)), "")


def wrong_result(node: NodeProto, read: Shape, sizes: Sequence[int | None]) -> str:
    """Return the fault of a result's inferred `sizes` (None if unknown), or nothing."""
    known = [size for size in sizes if size is not None]
    least = 1 if node.op_type in _WINDOWED and 0 not in read else 0
    if min(known, default=least) >= least:
        return ""
    shown = ", ".join("?" if size is None else str(size) for size in sizes)
    return f"from a tensor of shape {list(read)} its result would have the shape [{shown}]"


def _wrong_convolution(node: NodeProto, shapes: OperandShapes) -> str:
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


def _wrong_norm(node: NodeProto, shapes: OperandShapes) -> str:
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
    """Return the fault of a range with a step of 0, or of an integer division by 0."""
    if node.op_type == "Range" and node.input[2] in values and not values[node.input[2]].any():
        return "its step is 0"
    if node.op_type in _DIVISIONS and all(name in values for name in node.input):
        divisor = values[node.input[1]]
        if divisor.dtype.kind in "iu" and not divisor.all():
            return "it divides whole numbers by 0"
    return ""


_STANDARD = ("", "ai.onnx")
_SIZED_BY_INPUT = {"NonZero", "Compress", "Unique"}
"""Operators whose result is at most as large as their input, though its shape depends on values."""
_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
_LAST_VERSION = 2**31 - 1
_ANOTHER_MODEL = "correct the model and export it again, or choose other sizes for the dimensions that it leaves open"


class Shapes:
    """Types, values and origins of the tensors of a graph, node by node."""

    def __init__(self, model: onnx.ModelProto, file: str) -> None:
        self._file, self._graph = file, model.graph
        self._opsets = list(model.opset_import)
        self._versions = {each.domain or "": each.version for each in model.opset_import}
        for version in self._versions.values():
            if not 0 < version <= _LAST_VERSION:
                what = f"version {version} of an operator set cannot be"
                raise SpecError([Problem(file, "", what, "export the model again; the file is damaged")])
        self._types: dict[str, TypeProto] = {}
        self._values: dict[str, np.ndarray[Any, Any]] = {}
        self._tensors: dict[str, Tensor] = {}
        self._stated = {each.name: each.type for each in (*model.graph.value_info, *model.graph.output)}
        self._names: dict[str, int] = {}
        self.parameters: dict[str, tuple[int, ...]] = {}
        for value in inputs_of(model.graph):
            self._note(value.name, value.type, constant=False)
        for tensor in model.graph.initializer:
            self._store(tensor.name, tensor)

    def __contains__(self, name: str) -> bool:
        """Return True if a tensor is known."""
        return name in self._tensors

    def __getitem__(self, name: str) -> Tensor:
        """Return a tensor by its name."""
        return self._tensors[name]

    def nodes(self, watch: Watch = silent) -> Iterator[Node]:
        """Yield every node with its shapes, in the order of the file."""
        for index, node in enumerate(in_portions(self._graph.node, "node", watch)):
            if not node.output:
                continue
            self._check(node)
            if node.op_type == "Constant" and node.domain in _STANDARD:
                self._constant(index, node)
                continue
            yield self._node(index, node, self._infer(index, node))

    def _check(self, node: NodeProto) -> None:
        for name in (*node.input, *captured_names(node)):
            if name and name not in self._tensors:
                what = f"node {node_label(node)} reads `{printable(name)}`, which nothing before it makes"
                raise SpecError([Problem(self._file, "", what, "export the model again")])
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                what = (
                    f"attribute `{printable(attribute.name)}` of node {node_label(node)} refers to that of a function"
                )
                raise SpecError([Problem(self._file, "", f"{what}, and it is in none", "export the model again")])

    def _store(self, name: str, tensor: onnx.TensorProto) -> None:
        """Store the type of a stored tensor, its value if small, and its shape if it is a parameter."""
        shape = tuple(tensor.dims)
        if min(shape, default=0) < 0:
            what = f"the stored tensor `{printable(name)}` has a negative size: {list(shape)}"
            raise SpecError([Problem(self._file, "", what, "export the model again")])
        if tensor.data_type not in STORED:
            what = f"the stored tensor `{printable(name)}` has elements of type {tensor.data_type}, which ONNX has not"
            raise SpecError([Problem(self._file, "", what, "export the model again; the file is damaged, or too new")])
        kind = helper.make_tensor_type_proto(tensor.data_type, shape)
        value = value_of(tensor)
        if value is not None:
            self._values[name] = value
        parameters: frozenset[str] = frozenset()
        # A single number is a constant of a formula, not a weight.
        if format_of(tensor.data_type) in FLOATS | NARROW and element_count(shape) > 1:
            self.parameters[name] = shape
            parameters = frozenset([name])
        self._note(name, kind, constant=True, parameters=parameters)

    def _note(
        self, name: str, kind: TypeProto | None, *, constant: bool, parameters: frozenset[str] = frozenset()
    ) -> None:
        shape = None
        is_float, item_bytes = True, 4
        if kind is not None:
            self._types[name] = kind
            shape = shape_of(kind)
            element = format_of(kind.tensor_type.elem_type)
            is_float, item_bytes = element in FLOATS, item_bytes_of(kind.tensor_type.elem_type)
        self._tensors[name] = Tensor(name, shape, is_float, item_bytes, constant, parameters)

    def _constant(self, index: int, node: NodeProto) -> None:
        if not node.attribute:
            raise self._impossible(index, node, "it has no value")
        for attribute in node.attribute:
            if attribute.name == "value":
                self._store(node.output[0], attribute.t)
                return
        value = np.asarray(next(helper.get_attribute_value(each) for each in node.attribute))
        if value.dtype.kind in "fi":
            value = value.astype(np.float32 if value.dtype.kind == "f" else np.int64)
            self._store(node.output[0], numpy_helper.from_array(value))
        else:
            self._note(node.output[0], None, constant=True)

    def _infer(self, index: int, node: NodeProto) -> str:
        """Infer the results of a node; return why their shapes are unknown, or an empty text."""
        read = [self._tensors[name] for name in (*node.input, *captured_names(node)) if name]
        constant = node.op_type not in _RANDOM and all(each.constant for each in read)
        parameters = frozenset(name for each in read if each.constant for name in each.parameters)
        try:
            types, unknown_shape = self._result_types(node)
        except ImpossibleError as reason:
            raise self._impossible(index, node, str(reason)) from None
        values = self._evaluate(node, types) if constant or node.op_type in ("Shape", "Size") else {}
        for name in filter(None, node.output):
            kind = types.get(name) or self._stated_type(name)
            if name in values:
                self._values[name] = values[name]
                kind = helper.make_tensor_type_proto(
                    helper.np_dtype_to_tensor_dtype(values[name].dtype), values[name].shape
                )
            known = constant or name in values
            self._note(name, kind, constant=known, parameters=parameters if constant else frozenset())
        unknown = [name for name in filter(None, node.output) if self._tensors[name].shape is None]
        return (unknown_shape or "the shape of its result depends on data") if unknown else ""

    def _impossible(self, index: int, node: NodeProto, reason: str) -> SpecError:
        what = f"{printable(node.op_type)} `{name_of_node(index, node)}` cannot work: {reason}"
        return SpecError([Problem(self._file, "", what, _ANOTHER_MODEL)])

    def _result_types(self, node: NodeProto) -> tuple[Mapping[str, TypeProto], str]:
        if node.domain not in _STANDARD:
            return {}, f"the operator set {printable(node.domain)} is not known"
        version = self._versions.get("", self._versions.get("ai.onnx", 1))
        try:
            schema = defs.get_schema(node.op_type, max_inclusive_version=version)
        except defs.SchemaError:
            return {}, "ONNX has no such operator"
        if any(self._tensors[name].shape is None for name in (*node.input, *captured_names(node)) if name):
            return {}, "the shape of what it reads is not known"
        shapes = [self._tensors[name].shape or () if name else () for name in node.input]
        refuse(against_schema(node, schema) or wrong_operands(node, shapes, self._values))
        types, unknown_shape = self._inferred(node, schema)
        for kind in types.values():
            refuse(wrong_result(node, shapes[0] if shapes else (), sizes_of(kind)))
        self._refuse_other_elements(node, types)
        return types, unknown_shape

    def _inferred(self, node: NodeProto, schema: defs.OpSchema) -> tuple[Mapping[str, TypeProto], str]:
        names = [name for name in (*node.input, *captured_names(node)) if name]
        types = {name: self._types[name] for name in names}
        data = {name: numpy_helper.from_array(self._values[name], name) for name in names if name in self._values}
        try:
            return shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=self._opsets), ""
        except shape_inference.InferenceError as error:
            # Errors of a single node with an inner graph may be wrong, since the inference lacks its surroundings.
            if not any(inner_nodes(node)):
                read = " and ".join(str(list(self._tensors[name].shape or ())) for name in names) or "nothing"
                raise ImpossibleError(f"{first_line(error)}; it reads {read}") from None
            return {}, first_line(error)
        except (ValidationError, RuntimeError, ValueError, TypeError) as error:
            return {}, first_line(error)

    def _refuse_other_elements(self, node: NodeProto, results: Mapping[str, TypeProto]) -> None:
        """Refuse a reshape that changes the number of elements, which the shape inference does not check."""
        kind = results.get(node.output[0]) if node.op_type == "Reshape" else None
        shape = None if kind is None else shape_of(kind)
        read = self._tensors[node.input[0]].shape if shape is not None else None
        if shape is not None and read is not None and element_count(shape) != element_count(read):
            raise ImpossibleError(f"it cannot bring the shape {list(read)} to {list(shape)}")

    def _stated_type(self, name: str) -> TypeProto | None:
        """Return the type of a tensor stated in the file, if its sizes are given."""
        kind = self._stated.get(name)
        return kind if kind is not None and shape_of(kind) is not None else None

    def _evaluate(self, node: NodeProto, types: Mapping[str, TypeProto]) -> dict[str, np.ndarray[Any, Any]]:
        """Return the values of small results; empty if they cannot be computed."""
        names = [name for name in node.input if name]
        if node.domain not in _STANDARD:
            return {}
        if node.op_type in ("Shape", "Size"):
            shape = self._tensors[names[0]].shape
            if shape is None:
                return {}
            start, end = (number_attribute(node, key, other) for key, other in (("start", 0), ("end", len(shape))))
            size = np.array(shape[start:end], np.int64)
            return {node.output[0]: size if node.op_type == "Shape" else np.array(size.prod(), np.int64)}
        if any(name not in self._values for name in names) or any(captured_names(node)):
            return {}
        shapes = [shape_of(types[name]) if name in types else None for name in node.output if name]
        sized = all(shape is not None and element_count(shape) <= SMALL_ELEMENTS for shape in shapes)
        if not sized and node.op_type not in _SIZED_BY_INPUT:
            return {}
        try:
            with np.errstate(all="raise"):
                results = ReferenceEvaluator(node, opsets=self._versions).run(
                    None, {name: self._values[name] for name in names}
                )
        # If a reference implementation raises, the value stays unknown.
        except Exception:
            return {}
        pairs = zip(node.output, results, strict=False)
        return {
            name: as_inferred(np.asarray(value), types.get(name))
            for name, value in pairs
            if name and isinstance(value, np.ndarray | np.generic)
        }

    def _node(self, index: int, node: NodeProto, unknown_shape: str) -> Node:
        inputs = tuple(self._tensors[name] if name else None for name in node.input)
        constants = {
            place: float(self._values[name].item())
            for place, name in enumerate(node.input)
            if name in self._values and self._values[name].size == 1
        }
        standard = node.domain in _STANDARD
        return Node(
            name=self._unique(name_of_node(index, node)),
            operator=node.op_type if standard else f"{printable(node.domain)}.{printable(node.op_type)}",
            version=self._versions.get("", self._versions.get("ai.onnx", 1)),
            inputs=inputs,
            outputs=tuple(self._tensors[name] for name in node.output if name),
            captured=tuple(self._tensors[name] for name in captured_names(node)),
            attributes=dict(plain_attributes(node)),
            constants=constants,
            inner_operators=tuple(inner.op_type for inner in inner_nodes(node)),
            unknown_shape=unknown_shape,
        )

    def _unique(self, name: str) -> str:
        short = full = name.strip("/")
        number = self._names.get(short, 1)
        while full in self._names:
            number += 1
            full = f"{short}.{number}"
        self._names[short] = number
        self._names.setdefault(full, 1)
        return full
