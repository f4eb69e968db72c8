"""Reader of ONNX files; it checks the file and drops values of weights, of which only shapes are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper
from onnx.checker import ValidationError

from podsim.errors import Problem, SpecError
from podsim.escaped import printable
from podsim.models.graph.node import LARGEST_DIMENSION
from podsim.scenario.wording import known_here
from podsim.user_file import content_of

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

_GRAPHS = (AttributeProto.GRAPH, AttributeProto.GRAPHS)


def _inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type in _GRAPHS:
            yield from (attribute.graphs or (attribute.g,))


def inner_nodes(node: NodeProto) -> Iterator[NodeProto]:
    """Yield the nodes of the inner graphs of a node, at any depth."""
    for graph in _inner_graphs(node):
        for inner in graph.node:
            yield inner
            yield from inner_nodes(inner)


def captured_names(node: NodeProto) -> list[str]:
    """Return the names that inner graphs of a node read from outside."""
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
    """Return an integer attribute, or its default."""
    return next((int(each.i) for each in node.attribute if each.name == name), default)


def plain_attributes(node: NodeProto) -> Iterator[tuple[str, Any]]:
    """Yield the attributes that are numbers, texts or lists of numbers."""
    for each in node.attribute:
        value = helper.get_attribute_value(each)
        if isinstance(value, bytes):
            yield each.name, value.decode(errors="replace")
        elif isinstance(value, int | float):
            yield each.name, value
        elif each.type in (AttributeProto.INTS, AttributeProto.FLOATS):
            yield each.name, tuple(value)


def name_of_node(index: int, node: NodeProto) -> str:
    """Return the name of a node, or one from its operator and index."""
    return printable(node.name) or f"{printable(node.op_type)}_{index}"


def node_label(node: NodeProto) -> str:
    """Return the name of a node for messages."""
    return f"`{printable(node.name or node.op_type)}`"


def first_line(error: Exception) -> str:
    """Return the first line of a library's error, without its location."""
    text = printable(str(error).strip().splitlines()[0]) if str(error).strip() else type(error).__name__
    return text.rpartition("] ")[2][:120]


def set_dimensions(inputs: Sequence[ValueInfoProto], given: Mapping[str, int], file: str) -> dict[str, int]:
    """Write sizes of open dimensions into the graph's inputs and return the sizes by name.

    Dimensions without a name are called `INPUT_AXIS`.
    """
    sizes: dict[str, int] = {}
    missing: dict[str, str] = {}
    for value in inputs:
        for axis, dimension in enumerate(value.type.tensor_type.shape.dim):
            if dimension.dim_value > 0:
                continue
            named = any(map(str.isalnum, dimension.dim_param))
            name = dimension.dim_param if named else f"{value.name}_{axis}"
            if name in given:
                dimension.dim_value = sizes[name] = given[name]
            else:
                stated = f", {dimension.dim_value} in the file" if dimension.HasField("dim_value") else ""
                missing.setdefault(name, f"`{printable(name)}` (input {printable(value.name)}, axis {axis}{stated})")
    problems = [_impossible(file, name, size) for name, size in given.items() if not 0 < size <= LARGEST_DIMENSION]
    problems += [_unknown(file, name, [*sizes, *missing]) for name in given if name not in sizes]
    if missing:
        problems.append(_open(file, missing))
    if problems:
        raise SpecError(problems)
    return sizes


def _impossible(file: str, name: str, size: int) -> Problem:
    what = f"dimension `{printable(name)}` cannot be {size}"
    return Problem(file, "", what, f"give it a size from 1 to {LARGEST_DIMENSION}")


def _unknown(file: str, name: str, known: Sequence[str]) -> Problem:
    what = f"no input has an open dimension `{printable(name)}`"
    return Problem(file, "", what, known_here(name, map(printable, known), "leave it out"))


def _open(file: str, missing: Mapping[str, str]) -> Problem:
    example = printable(next(iter(missing)))
    what = f"the graph leaves sizes of its inputs open: {', '.join(missing.values())}"
    how = f"`--dimension {example}=4` of podsim import, or `model.dimensions: {{{example}: 4}}` in a scenario"
    return Problem(file, "", what, f"give each of them: {how}")


FLOATS = {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"}
NARROW = {"INT8", "UINT8", "INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"}
"""Formats of weights that are converted before use."""
STORED = frozenset(onnx.TensorProto.DataType.values()[1:])
_ELEMENTS: dict[int, str] = {number: name for name, number in onnx.TensorProto.DataType.items()}


def inputs_of(graph: GraphProto) -> Sequence[onnx.ValueInfoProto]:
    """Return the inputs from the host, without stored tensors, which old files list as inputs too."""
    stored = {tensor.name for tensor in graph.initializer}
    return [each for each in graph.input if each.name not in stored]


def refuse_other_inputs(inputs: Sequence[onnx.ValueInfoProto], file: str) -> None:
    """Raise for inputs that an IPU cannot read."""
    for value in inputs:
        is_text = value.type.tensor_type.elem_type == onnx.TensorProto.STRING
        if is_text or not value.type.HasField("tensor_type"):
            what = f"input `{printable(value.name)}` is {'text' if is_text else 'not a tensor'}, and IPUs read numbers"
            do = "export the part of the model behind what turns it into tensors of numbers"
            raise SpecError([Problem(file, "", what, do)])


def value_of(tensor: onnx.TensorProto) -> np.ndarray[Any, Any] | None:
    """Return the value of a small tensor of numbers; None if the value is missing or not numeric."""
    try:
        value = numpy_helper.to_array(tensor) if element_count(tensor.dims) <= SMALL_ELEMENTS else None
    except (ValueError, TypeError, RuntimeError, OSError, ValidationError):
        return None
    return value if value is not None and value.dtype.kind in "fiub" else None


def as_inferred(value: np.ndarray[Any, Any], kind: TypeProto | None) -> np.ndarray[Any, Any]:
    """Return a value in its inferred format, since reference implementations may compute in a wider one."""
    known = kind is not None and kind.tensor_type.elem_type in onnx.TensorProto.DataType.values()[1:]
    return value.astype(helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)) if kind and known else value


def format_of(element_type: int) -> str:
    """Return the name of a number format."""
    return _ELEMENTS.get(element_type, "UNDEFINED")


def item_bytes_of(element_type: int) -> int:
    """Return the bytes of an element. [B]"""
    try:
        return int(helper.tensor_dtype_to_np_dtype(element_type).itemsize)
    except KeyError:
        return 1


def shape_of(kind: TypeProto) -> tuple[int, ...] | None:
    """Return the shape of a tensor, or None if a size is unknown."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    sizes = [-1 if size is None else size for size in sizes_of(kind)]
    return None if min(sizes, default=0) < 0 else tuple(sizes)


def sizes_of(kind: TypeProto) -> list[int | None]:
    """Return the sizes of a tensor, with None for open dimensions."""
    return [each.dim_value if each.HasField("dim_value") else None for each in kind.tensor_type.shape.dim]


_ANOTHER_FILE = "name an ONNX file"
_MOST_BYTES = 2**31 - 1
SMALL_ELEMENTS = 4096
"""Largest number of elements of a constant whose value is kept, since shapes may depend on the value."""
_DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


@dataclass(frozen=True)
class OnnxFile:
    """An ONNX file with its graph."""

    name: str
    sha256: str
    model: ModelProto  # content of the file without values of large constants
    notes: tuple[str, ...]  # notes for the user about the file


def problem(name: str, message: str, do: str) -> SpecError:
    """Return an error about a file as a whole."""
    return SpecError([Problem(name, "", message, do)])


def open_onnx(path: Path) -> OnnxFile:
    """Read an ONNX file."""
    name = printable(str(path))
    folder, smaller = "name the ONNX file in it", "save the model with its weights as external data"
    content = content_of(path, _MOST_BYTES, _ANOTHER_FILE, name=name, folder=folder, smaller=smaller)
    if not content:
        raise problem(name, "the file is empty", _ANOTHER_FILE)
    model = onnx.ModelProto()
    _parse(model, content, name)
    digest = hashlib.sha256(content).hexdigest()
    del content
    model = without_functions(model, name)
    missing = _external_files(model, path.parent)
    for tensor in _tensors(model.graph):
        _keep_small_values(tensor, path.parent, missing)
    return OnnxFile(name, digest, model, tuple(_notes(missing)))


def _parse(model: ModelProto, content: bytes, name: str) -> None:
    from google.protobuf.message import DecodeError

    try:
        model.ParseFromString(content)
    except DecodeError:
        what = "this is not an ONNX file, or it ends too early"
        raise problem(name, what, "fetch or export it again; other formats have to be converted to ONNX") from None
    if not model.graph.node:
        raise problem(name, "the file holds no graph of ONNX operators", _ANOTHER_FILE)
    # Names that are not UTF-8 are read as bytes.
    if not all(isinstance(each, str) for each in _texts_of_model(model)):
        raise problem(name, "names in the file are not text in UTF-8; it is damaged", "fetch or export it again")


def _texts_of_model(model: ModelProto) -> Iterator[object]:
    """Yield the names in a model."""
    yield from _texts(model.graph)
    yield from (each.domain for each in model.opset_import)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
        yield from _texts_of_nodes(function.node)


def _texts(graph: GraphProto) -> Iterator[object]:
    """Yield the names in a graph."""
    yield graph.name
    yield from (tensor.name for tensor in graph.initializer)
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (dimension.dim_param for dimension in value.type.tensor_type.shape.dim)
    yield from _texts_of_nodes(graph.node)


def _texts_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            for inner in (attribute.g, *attribute.graphs):
                yield from _texts(inner)


def _tensors(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield the stored tensors and the tensors of constants."""
    yield from graph.initializer
    for node in graph.node:
        if node.op_type == "Constant":
            yield from (attribute.t for attribute in node.attribute if attribute.name == "value")


def element_count(dimensions: Iterable[int]) -> int:
    """Return the number of elements of a tensor."""
    count = 1
    for length in dimensions:
        count *= length
    return count


def _keep_small_values(tensor: TensorProto, folder: Path, missing: frozenset[str]) -> None:
    """Keep or load the values of a small tensor; drop the values of a large tensor."""
    small = element_count(tensor.dims) <= SMALL_ELEMENTS
    if small and tensor.external_data and _location(tensor) not in missing:
        _load(tensor, folder)
    if not small or tensor.external_data:
        for field in (*_DATA, "external_data", "data_location"):
            tensor.ClearField(field)


def _load(tensor: TensorProto, folder: Path) -> None:
    """Load the values of a tensor if possible; without values, only shapes that depend on them stay unknown."""
    from onnx.checker import ValidationError
    from onnx.external_data_helper import load_external_data_for_tensor

    try:
        load_external_data_for_tensor(tensor, str(folder))
    except (OSError, ValueError, ValidationError):
        return
    tensor.ClearField("external_data")


def _location(tensor: TensorProto) -> str:
    return next((each.value for each in tensor.external_data if each.key == "location"), "")


def _external_files(model: ModelProto, folder: Path) -> frozenset[str]:
    """Return the names of missing files with weights."""
    named = {_location(tensor) for tensor in _tensors(model.graph) if tensor.external_data}
    return frozenset(name for name in named if not _is_file(folder, name))


def _is_file(folder: Path, name: str) -> bool:
    try:
        return (folder / name).is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _notes(missing: frozenset[str]) -> Iterator[str]:
    for name in sorted(missing):
        yield (
            f"the file with weights `{printable(name)}` is not there; their shapes, which are in the graph, are enough"
        )


MOST_NODES = 500_000
_MOST_EXPANDED_BYTES = 2**30
_DEEPEST = 100
_EXPORT = "export the model again, without local functions (of PyTorch: `export_modules_as_functions=False`)"

_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Size:
    """Size of a function call after inlining."""

    nodes: int
    byte_count: int  # size of the nodes in a file [B]


def without_functions(model: ModelProto, file: str) -> ModelProto:
    """Return the model with its local functions inlined."""
    if not model.functions:
        return model
    counted = _Counter(model.functions, file)
    size = counted.size(model.graph.node, ())
    if size.nodes > MOST_NODES or size.byte_count > _MOST_EXPANDED_BYTES:
        what = f"its local functions, written out where they are called, make {_size_text(size)}"
        raise _problem(file, f"{what}; at most {_size_text(_Size(MOST_NODES, _MOST_EXPANDED_BYTES))} are read")
    from onnx.inliner import inline_local_functions

    try:
        return inline_local_functions(model)
    # The library raises errors of many kinds for functions that it cannot inline.
    except Exception as error:
        reason = printable(str(error).split("\n")[0])[:200]
        raise _problem(file, f"its local functions cannot be written out: {reason}") from None


def _size_text(size: _Size) -> str:
    return f"{size.nodes:,} nodes of {size.byte_count / 1e6:,.0f} MB"


def _problem(file: str, what: str) -> SpecError:
    return problem(file, what, _EXPORT)


class _Counter:
    """Counter of the nodes of calls after inlining; each function is counted once."""

    def __init__(self, functions: Iterable[FunctionProto], file: str) -> None:
        self._functions = {(function.domain, function.name): function for function in functions}
        self._known: dict[_Key, _Size] = {}
        self._file = file

    def size(self, nodes: Iterable[NodeProto], within: tuple[_Key, ...]) -> _Size:
        """Return the size of nodes with their calls; `within` is the stack of calling functions."""
        count = byte_count = 0
        for node in _with_inner(nodes):
            called = self._call_size((node.domain, node.op_type), within)
            count += called.nodes if called else 1
            byte_count += called.byte_count if called else node.ByteSize()
        return _Size(count, byte_count)

    def _call_size(self, key: _Key, within: tuple[_Key, ...]) -> _Size | None:
        """Return the size of a call of a local function; None for other operators."""
        if key not in self._functions:
            return None
        if key in within:
            ring = " -> ".join(f"`{printable(name)}`" for _, name in (*within[within.index(key) :], key))
            raise _problem(self._file, f"a local function calls itself: {ring}")
        if len(within) == _DEEPEST:
            raise _problem(self._file, f"calls of local functions are nested more than {_DEEPEST} deep")
        if key not in self._known:
            self._known[key] = self.size(self._functions[key].node, (*within, key))
        return self._known[key]


def _with_inner(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        yield node
        yield from inner_nodes(node)
