"""Reader of the file that `export_shapes.py` writes for a PyTorch model; ATen operators become ONNX operators.

Source: [aten_ir] for the operators and their arguments.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from podsim.errors import Problem, SpecError
from podsim.models.graph.node import Node, NodeList, Tensor
from podsim.models.graph.torch_rules import MANY_OUTPUTS, OUTPUT_COUNTS, contradiction
from podsim.user_file import content_of

SUFFIX: Final = ".shapes.json"
_FORMAT: Final = "podsim shapes"
_LARGEST: Final = 2**28
"""Largest size of a file. [B]"""
_VERSION: Final = 21
"""Version of the ONNX operator set that replaces ATen operators."""
_MOST_DIMENSION: Final = 10**9
_ITEM_BYTES: Final = {
    "complex128": 16,
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    **dict.fromkeys(("float32", "int32", "uint32", "complex32"), 4),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("bool", "uint8", "int8", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
}
"""Bytes of an element, by number format of PyTorch. [B]"""
_OPERATORS: Final = (
    {
        "mm": "MatMul",
        "bmm": "MatMul",
        "matmul": "MatMul",
        "linear": "Gemm",
        "convolution": "Conv",
        "native_layer_norm": "LayerNormalization",
        "native_group_norm": "GroupNormalization",
        "_native_batch_norm_legit_no_training": "BatchNormalization",
        "_softmax": "Softmax",
        "_log_softmax": "LogSoftmax",
        "embedding": "Gather",
        "index_select": "Gather",
        "index": "Gather",
        "add": "Add",
        "mul": "Mul",
        "div": "Div",
        "pow": "Pow",
        "_to_copy": "Cast",
        "rsqrt": "Sqrt",
        "silu": "Swish",
        "clamp": "Clip",
        "hardtanh": "Clip",
        "maximum": "Max",
        "minimum": "Min",
        "eq": "Equal",
        "ne": "Equal",
        "gt": "Greater",
        "ge": "GreaterOrEqual",
        "lt": "Less",
        "le": "LessOrEqual",
        "logical_and": "And",
        "bitwise_and": "And",
        "logical_or": "Or",
        "bitwise_or": "Or",
        "logical_xor": "Xor",
        "logical_not": "Not",
        "bitwise_not": "Not",
        "mean": "ReduceMean",
        "sum": "ReduceSum",
        "var": "ReduceSumSquare",
        "prod": "ReduceProd",
        "amax": "ReduceMax",
        "amin": "ReduceMin",
        "any": "ReduceMax",
        "argmax": "ArgMax",
        "argmin": "ArgMin",
        "avg_pool1d": "AveragePool",
        "avg_pool2d": "AveragePool",
        "avg_pool3d": "AveragePool",
        "max_pool2d_with_indices": "MaxPool",
        "max_pool3d_with_indices": "MaxPool",
        "_adaptive_avg_pool2d": "GlobalAveragePool",
        "_adaptive_avg_pool3d": "GlobalAveragePool",
        "permute": "Transpose",
        "transpose": "Transpose",
        "t": "Transpose",
        "cat": "Concat",
        "constant_pad_nd": "Pad",
        "reflection_pad2d": "Pad",
        "replication_pad2d": "Pad",
        "repeat": "Tile",
        "flip": "Reverse",
        "upsample_nearest2d": "Resize",
        "upsample_bilinear2d": "Resize",
    }
    | {
        name: name.replace("_", " ").title().replace(" ", "")
        for name in (
            *(
                "abs",
                "ceil",
                "elu",
                "erf",
                "exp",
                "floor",
                "gelu",
                "hardsigmoid",
                "hardswish",
                "leaky_relu",
                "log",
                "neg",
            ),
            *("reciprocal", "relu", "round", "sigmoid", "sign", "softplus", "sqrt", "sub", "tanh", "where"),
        )
    }
    | {"hardsigmoid": "HardSigmoid", "hardswish": "HardSwish"}
)
_VIEWS: Final = (
    *(
        "view",
        "_unsafe_view",
        "reshape",
        "expand",
        "squeeze",
        "unsqueeze",
        "slice",
        "select",
        "split",
        "split_with_sizes",
    ),
    *("getitem", "alias", "detach", "clone", "dropout", "native_dropout", "unbind", "lift_fresh_copy", "as_strided"),
)
_MADE: Final = ("arange", "empty", "full", "full_like", "ones", "scalar_tensor", "zeros", "zeros_like", "ones_like")
_PRODUCTS: Final = ("mm", "matmul", "conv", "linear", "attention", "lstm", "gru", "rnn", "einsum")
"""Parts of names of operators that are refused if they are not mapped, since their work is not negligible."""


def read_shapes(path: Path) -> tuple[str, NodeList]:
    """Return the SHA-256 of a file and its graph with all nodes, constant ones included."""
    file, do = str(path), "write it with the script that `podsim import --torch-script` prints"
    content = content_of(path, _LARGEST, do, name=file)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise _wrong(file, "this is not valid JSON", "run `export_shapes` again") from None
    if not isinstance(data, dict) or data.get("format") != _FORMAT or data.get("version") != 1:
        what = f"this is no file of {_FORMAT}, version 1"
        raise _wrong(file, what, do)
    try:
        return hashlib.sha256(content).hexdigest(), _Reader(file, data).graph()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"something is missing, or of another type: {str(error)[:80]}"
        raise _wrong(file, what, "run `export_shapes` again") from None


def _wrong(file: str, what: str, do: str, key: str = "") -> SpecError:
    return SpecError([Problem(file, key, what, do)])


class _Reader:
    def __init__(self, file: str, data: Mapping[str, Any]) -> None:
        self._file, self._data = file, data
        stored = {str(name) for name in data["parameters"]}
        self._tensors = {
            name: self._tensor(name, kind, shape, stored=name in stored)
            for name, (kind, shape) in data["tensors"].items()
        }

    def _tensor(self, name: str, kind: str, shape: Sequence[int], *, stored: bool) -> Tensor:
        if not all(type(size) is int and 0 <= size <= _MOST_DIMENSION for size in shape):
            what = f"a dimension is no whole number from 0 to {_MOST_DIMENSION}: {str(shape)[:60]}"
            raise _wrong(self._file, what, "export the model for one fixed shape", f"tensors.{name}")
        if kind not in _ITEM_BYTES:
            what = f"`{str(kind)[:60]}` is no number format of PyTorch that is known"
            do = f"export the model again; known here: {', '.join(_ITEM_BYTES)}"
            raise _wrong(self._file, what, do, f"tensors.{name}")
        is_float = "float" in kind
        parameters = frozenset([name]) if stored and (is_float or kind in ("int8", "uint8")) else frozenset[str]()
        return Tensor(name, tuple(shape), is_float, _ITEM_BYTES[kind], stored, parameters)

    def graph(self) -> NodeList:
        """Return the graph in the order of the file, which is an order of execution."""
        self._made = {str(name) for key in ("inputs", "parameters") for name in self._data[key]}
        nodes = tuple(self._nodes())
        for name in self._data["outputs"]:
            if name not in self._made:
                what = f"output `{str(name)[:60]}` is made by no node"
                raise _wrong(self._file, what, "export the model again", "outputs")
        inputs, outputs = (tuple(self._tensors[name] for name in self._data[key]) for key in ("inputs", "outputs"))
        weights = {name: tensor.shape or () for name, tensor in self._tensors.items() if name in tensor.parameters}
        return NodeList(str(self._data["name"]), inputs, outputs, nodes, weights)

    def _nodes(self) -> Iterator[Node]:
        for number, given in enumerate(self._data["nodes"]):
            name = str(given["op"]).removeprefix("aten.").partition(".")[0]
            inputs = tuple(None if each is None else self._known(number, each) for each in given["inputs"])
            read = [each for each in inputs if each is not None]
            self._check_order(number, name, read, given["outputs"])
            constant = all(each.constant for each in read)
            made = frozenset(part for each in read for part in each.parameters) if constant else frozenset[str]()
            for output in given["outputs"]:
                if (old := self._tensors.get(output)) is not None:
                    self._tensors[output] = replace(old, constant=constant, parameters=made)
            outputs = tuple(self._known(number, each) for each in given["outputs"] if each in self._tensors)
            if outputs:
                for place, output in enumerate(outputs[: None if name in MANY_OUTPUTS else 1]):
                    shapes = [each.shape or () for each in read]
                    if reason := contradiction(name, shapes, output.shape or (), given["arguments"]):
                        where = f"nodes.{number}.outputs.{place}"
                        raise _wrong(
                            self._file, f"operator `{name}`: {reason}", "correct it, or export it again", where
                        )
                yield self._node(number, name, inputs, outputs, given["arguments"])

    def _check_order(self, number: int, name: str, read: Sequence[Tensor], made: Sequence[str]) -> None:
        """Raise for a node that reads what no earlier node makes, or makes what is there, or too many tensors."""
        where, do = f"nodes.{number}", "export the model again; nodes stand in the order in which they run"
        for tensor in read:
            if tensor.name not in self._made:
                own = "itself" if tensor.name in made else "a later node, or none"
                what = f"operator `{name}` reads `{tensor.name[:60]}`, which is made by {own}"
                raise _wrong(self._file, what, do, where)
        for output in made:
            if output in self._made or made.count(output) > 1:
                what = f"operator `{name}` makes `{str(output)[:60]}`, which is there already"
                raise _wrong(self._file, what, do, where)
        known = name in _OPERATORS or name in _VIEWS or name in _MADE or name in ("addmm", "baddbmm")
        least, most = OUTPUT_COUNTS.get(name, (1, 1))
        if known and name not in MANY_OUTPUTS and not least <= len(made) <= most:
            counts = f"{least} to {most}" if most > least else f"{least}"
            raise _wrong(self._file, f"operator `{name}` has {len(made)} outputs, and makes {counts}", do, where)
        self._made.update(made)

    def _known(self, number: int, name: str) -> Tensor:
        if name not in self._tensors:
            what = f"tensor `{str(name)[:60]}` has no shape"
            raise _wrong(self._file, what, "export the model without values that depend on data", f"nodes.{number}")
        return self._tensors[name]

    def _node(
        self,
        number: int,
        name: str,
        inputs: tuple[Tensor | None, ...],
        outputs: tuple[Tensor, ...],
        given: Mapping[str, Any],
    ) -> Node:
        attributes: dict[str, Any] = {}
        constants: dict[int, float] = {}
        operator = "Identity" if name in _VIEWS else "Constant" if name in _MADE else _OPERATORS.get(name, name)
        match name:
            case "addmm":
                operator, inputs = "Gemm", (inputs[1], inputs[2], inputs[0])
            case "baddbmm":
                operator, inputs = "MatMul", (inputs[1], inputs[2])
            case "convolution":
                operator = "ConvTranspose" if given.get("transposed") else "Conv"
                attributes = {"strides": tuple(given["stride"]), "group": given["groups"]}
            case "native_layer_norm":
                attributes = {"axis": -len(given["normalized_shape"])}
            case "native_group_norm":
                attributes = {"num_groups": given["group"]}
            case "_softmax" | "_log_softmax":
                attributes = {"axis": given["dim"]}
            case "index_select":
                attributes = {"axis": given["dim"]}
            case "upsample_bilinear2d":
                attributes = {"mode": "linear"}
            case "pow" if "exponent" in given:
                constants = {1: float(given["exponent"])}
            case "add" | "sub" | "mul" | "div" if len(inputs) == 1:
                inputs = (*inputs, Tensor("a number", (), constant=True))
            case _ if "pool" in name and "kernel_size" in given:
                size = given["kernel_size"]
                attributes = {"kernel_shape": tuple(size) if isinstance(size, list) else (size,)}
        if operator == name and any(part in name for part in _PRODUCTS):
            do = "export it with `run_decompositions`, as the script does, without fused operators"
            raise _wrong(self._file, f"the work of operator `{name}` is not known", do, f"nodes.{number}")
        return Node(outputs[0].name, operator, _VERSION, inputs, outputs, attributes=attributes, constants=constants)
