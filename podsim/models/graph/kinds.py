"""Types of tensors as ONNX files state them: formats, sizes, and the values of small ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.checker import ValidationError

from podsim.errors import Problem, SpecError
from podsim.models.graph.onnx_file import SMALL_ELEMENTS, element_count, printable

if TYPE_CHECKING:
    from onnx import GraphProto, TypeProto

FLOATS = {"FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"}
NARROW = {"INT8", "UINT8", "INT4", "UINT4", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"}
"""Formats of weights that are brought to another one before they are used."""
STORED = frozenset(onnx.TensorProto.DataType.values()[1:])
_ELEMENTS: dict[int, str] = {number: name for name, number in onnx.TensorProto.DataType.items()}


def inputs_of(graph: GraphProto) -> Sequence[onnx.ValueInfoProto]:
    """What the host sends; old files name stored tensors as inputs too."""
    stored = {tensor.name for tensor in graph.initializer}
    return [each for each in graph.input if each.name not in stored]


def refuse_other_inputs(inputs: Sequence[onnx.ValueInfoProto], file: str) -> None:
    """Raise for what an IPU cannot read.

    Raises:
        SpecError: An input is text, or not a tensor.
    """
    for value in inputs:
        is_text = value.type.tensor_type.elem_type == onnx.TensorProto.STRING
        if is_text or not value.type.HasField("tensor_type"):
            what = f"input `{printable(value.name)}` is {'text' if is_text else 'not a tensor'}, and IPUs read numbers"
            do = "export the part of the model behind what turns it into tensors of numbers"
            raise SpecError([Problem(file, "", what, do)])


def value_of(tensor: onnx.TensorProto) -> np.ndarray[Any, Any] | None:
    """The value of a small tensor; None if it was left out, or is not of numbers."""
    try:
        value = numpy_helper.to_array(tensor) if element_count(tensor.dims) <= SMALL_ELEMENTS else None
    except (ValueError, TypeError, RuntimeError, OSError, ValidationError):
        return None
    return value if value is not None and value.dtype.kind in "fiub" else None


def as_inferred(value: np.ndarray[Any, Any], kind: TypeProto | None) -> np.ndarray[Any, Any]:
    """A value in the format that follows for it; reference implementations may compute in a wider one."""
    known = kind is not None and kind.tensor_type.elem_type in onnx.TensorProto.DataType.values()[1:]
    return value.astype(helper.tensor_dtype_to_np_dtype(kind.tensor_type.elem_type)) if kind and known else value


def format_of(element_type: int) -> str:
    """Name of a number format."""
    return _ELEMENTS.get(element_type, "UNDEFINED")


def item_bytes_of(element_type: int) -> int:
    """Bytes of an element. [B]"""
    try:
        return int(helper.tensor_dtype_to_np_dtype(element_type).itemsize)
    except KeyError:
        return 1


def shape_of(kind: TypeProto) -> tuple[int, ...] | None:
    """Sizes of a tensor, if all of them are known."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.HasField("shape"):
        return None
    sizes = [-1 if size is None else size for size in sizes_of(kind)]
    return None if min(sizes, default=0) < 0 else tuple(sizes)


def sizes_of(kind: TypeProto) -> list[int | None]:
    """Sizes of a tensor, None where they are open."""
    return [each.dim_value if each.HasField("dim_value") else None for each in kind.tensor_type.shape.dim]
