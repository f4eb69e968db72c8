"""An ONNX file: opened, checked, and freed of the weights, whose shapes are all that is needed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from podsim.errors import PodsimError, Problem, SpecError
from podsim.units import format_bytes

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

_ANOTHER_FILE = "name an ONNX file"
_MOST_BYTES = 2**31 - 1
SMALL_ELEMENTS = 4096
"""Values of constants up to this size are kept, since shapes may depend on them."""
_DATA = ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data")


@dataclass(frozen=True)
class OnnxFile:
    """A file that holds a graph.

    Attributes:
        name: How messages name it.
        sha256: Of its bytes.
        model: What it holds, values of large constants removed.
        notes: What a reader must know about it.
    """

    name: str
    sha256: str
    model: ModelProto
    notes: tuple[str, ...]


def printable(text: str) -> str:
    r"""Text that fits on one line of a message.

    >>> printable("a\nb")
    'a?b'
    """
    return "".join(each if each.isprintable() else "?" for each in text)


def problem(name: str, message: str, do: str) -> SpecError:
    """An error about a file as a whole."""
    return SpecError([Problem(name, "", message, do)])


def open_onnx(path: Path) -> OnnxFile:
    """Read a file.

    Raises:
        PodsimError: The package that reads such files is not installed.
        SpecError: The file cannot be read, is too large, or holds no graph.
    """
    try:
        import onnx
    except ImportError:
        what = "reading ONNX files needs the package `onnx`, which is not installed"
        raise PodsimError(what, where=printable(str(path)), do="pip install 'podsim[onnx]'") from None
    name = printable(str(path))
    content = _content(path, name)
    model = onnx.ModelProto()
    _parse(model, content, name)
    digest = hashlib.sha256(content).hexdigest()
    del content
    from podsim.models.graph.functions import without_functions

    model = without_functions(model, name)
    missing = _external_files(model, path.parent)
    for tensor in _tensors(model.graph):
        _keep_small_values(tensor, path.parent, missing)
    return OnnxFile(name, digest, model, tuple(_notes(missing)))


def _content(path: Path, name: str) -> bytes:
    try:
        if path.is_dir():
            raise problem(name, "this is a folder, not a file", "name the ONNX file in it")
        if path.exists() and not path.is_file():
            raise problem(name, "this is not a file but a device or a pipe", _ANOTHER_FILE)
        size = path.stat().st_size
        if size > _MOST_BYTES:
            what = f"the file has {format_bytes(size)}; ONNX files have at most 2 GiB"
            raise problem(name, what, "save the model with its weights as external data")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "the path is not valid"
        raise problem(name, f"the file cannot be read: {reason}", "check the path and its permissions") from None
    if not content:
        raise problem(name, "the file is empty", _ANOTHER_FILE)
    return content


def _parse(model: ModelProto, content: bytes, name: str) -> None:
    from google.protobuf.message import DecodeError

    try:
        model.ParseFromString(content)
    except DecodeError:
        what = "this is not an ONNX file, or it ends too early"
        raise problem(name, what, "fetch or export it again; other formats have to be converted to ONNX") from None
    if not model.graph.node:
        raise problem(name, "the file holds no graph of ONNX operators", _ANOTHER_FILE)
    # What is not UTF-8 comes as bytes.
    if not all(isinstance(each, str) for each in _texts_of_model(model)):
        raise problem(name, "names in the file are not text in UTF-8; it is damaged", "fetch or export it again")


def _texts_of_model(model: ModelProto) -> Iterator[object]:
    """All names in a model."""
    yield from _texts(model.graph)
    yield from (each.domain for each in model.opset_import)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
        yield from _texts_of_nodes(function.node)


def _texts(graph: GraphProto) -> Iterator[object]:
    """All names in a graph."""
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
    """Stored tensors, and those of constants."""
    yield from graph.initializer
    for node in graph.node:
        if node.op_type == "Constant":
            yield from (attribute.t for attribute in node.attribute if attribute.name == "value")


def element_count(dimensions: Iterable[int]) -> int:
    """Elements of a tensor."""
    count = 1
    for length in dimensions:
        count *= length
    return count


def _keep_small_values(tensor: TensorProto, folder: Path, missing: frozenset[str]) -> None:
    """Values of a small tensor stay, or are fetched if they are stored in another file."""
    small = element_count(tensor.dims) <= SMALL_ELEMENTS
    if small and tensor.external_data and _location(tensor) not in missing:
        _load(tensor, folder)
    if not small or tensor.external_data:
        for field in (*_DATA, "external_data", "data_location"):
            tensor.ClearField(field)


def _load(tensor: TensorProto, folder: Path) -> None:
    """Best effort: without its values only shapes that depend on them stay unknown."""
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
    """Files with weights that are not there."""
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
