"""Small ONNX models, written as exporters write them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

Size = int | str


class Model:
    """Collects nodes and stored tensors of a graph."""

    def __init__(self, inputs: dict[str, Sequence[Size | None]], outputs: Sequence[str], **types: int) -> None:
        self.nodes: list[Any] = []
        self.stored: list[Any] = []
        self._inputs = [
            helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), list(shape))
            for name, shape in inputs.items()
        ]
        self._outputs = [helper.make_empty_tensor_value_info(name) for name in outputs]

    def weight(self, name: str, *shape: int) -> str:
        """A stored tensor; its values never matter."""
        import numpy as np

        self.stored.append(numpy_helper.from_array(np.zeros(shape, np.float32), name))
        return name

    def far_weight(self, name: str, *shape: int, file: str = "weights.bin") -> str:
        """A stored tensor whose values are in another file."""
        tensor = TensorProto(name=name, dims=shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
        tensor.external_data.add(key="location", value=file)
        self.stored.append(tensor)
        return name

    def value(self, name: str, values: Any, kind: str = "int64") -> str:
        """A constant whose values matter."""
        import numpy as np

        self.stored.append(numpy_helper.from_array(np.asarray(values, kind), name))
        return name

    def node(self, operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=f"{operator}/{output}", **attributes))
        return output

    def proto(self, domains: Sequence[str] = (), opset: int = 17) -> Any:
        graph = helper.make_graph(self.nodes, "example", self._inputs, self._outputs, self.stored)
        imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(graph, opset_imports=imports, ir_version=8)

    def save(self, path: Path, domains: Sequence[str] = (), opset: int = 17) -> Path:
        path.write_bytes(self.proto(domains, opset).SerializeToString())
        return path


def products(rows: Size, *widths: int) -> Model:
    """A chain of matrix products."""
    model = Model({"x0": [rows, widths[0]]}, [f"x{len(widths) - 1}"])
    for number, (inner, columns) in enumerate(pairwise(widths)):
        weight = model.weight(f"w{number}", inner, columns)
        model.node("MatMul", [f"x{number}", weight], f"x{number + 1}")
    return model


def conv_net(batch: Size = "batch") -> Model:
    """Convolution, norm, activation, a residual, pooling and a classifier on images of 3 x 32 x 32."""
    model = Model({"image": [batch, 3, 32, 32]}, ["classes"])
    model.node("Conv", ["image", model.weight("w1", 16, 3, 3, 3), model.weight("b1", 16)], "a", pads=[1, 1, 1, 1])
    norm = [model.weight(f"norm/{part}", 16) for part in ("scale", "shift", "mean", "variance")]
    model.node("BatchNormalization", ["a", *norm], "b")
    model.node("Relu", ["b"], "c")
    model.node("Conv", ["c", model.weight("w2", 16, 16, 3, 3)], "d", pads=[1, 1, 1, 1])
    model.node("Add", ["d", "c"], "e")
    model.node("MaxPool", ["e"], "f", kernel_shape=[2, 2], strides=[2, 2])
    model.node("GlobalAveragePool", ["f"], "g")
    model.node("Flatten", ["g"], "h")
    model.node("Gemm", ["h", model.weight("w3", 10, 16), model.weight("b3", 10)], "classes", transB=1)
    return model


def _dense(model: Model, source: str, name: str, inner: int, columns: int) -> str:
    product = model.node("MatMul", [source, model.weight(f"{name}/w", inner, columns)], f"{name}/product")
    return model.node("Add", [model.weight(f"{name}/b", columns), product], name)


def _layer_norm(model: Model, source: str, name: str, width: int) -> str:
    mean = model.node("ReduceMean", [source], f"{name}/mean", axes=[-1])
    centred = model.node("Sub", [source, mean], f"{name}/centred")
    squares = model.node("Pow", [centred, model.value(f"{name}/two", 2.0, "float32")], f"{name}/squares")
    variance = model.node("ReduceMean", [squares], f"{name}/variance", axes=[-1])
    padded = model.node("Add", [variance, model.value(f"{name}/epsilon", 1e-5, "float32")], f"{name}/padded")
    normal = model.node("Div", [centred, model.node("Sqrt", [padded], f"{name}/root")], f"{name}/normal")
    scaled = model.node("Mul", [normal, model.weight(f"{name}/gamma", width)], f"{name}/scaled")
    return model.node("Add", [scaled, model.weight(f"{name}/beta", width)], name)


def _heads(model: Model, source: str, name: str, heads: int, size: int, order: Sequence[int]) -> str:
    """Split the width into heads as exporters do: with the shape of the tensor computed by operators."""
    shape = model.node("Shape", [source], f"{name}/shape")
    sizes = [
        model.node("Gather", [shape, model.value(f"{name}/{axis}", [axis])], f"{name}/size{axis}") for axis in (0, 1)
    ]
    rest = model.value(f"{name}/rest", [heads, size])
    target = model.node("Concat", [*sizes, rest], f"{name}/target", axis=0)
    split = model.node("Reshape", [source, target], f"{name}/split")
    return model.node("Transpose", [split], name, perm=list(order))


def transformer(layers: int = 2, width: int = 64, heads: int = 4, vocabulary: int = 100) -> Model:
    """An encoder with embedding, mask, decomposed norms, softmax and a decomposed gelu."""
    kinds = {"ids": TensorProto.INT64, "mask": TensorProto.INT64}
    model = Model({"ids": ["batch", "tokens"], "mask": ["batch", "tokens"]}, ["out"], **kinds)
    x = model.node("Gather", [model.weight("words", vocabulary, width), "ids"], "embedded")
    wide = model.node("Unsqueeze", ["mask", model.value("axes", [1, 2])], "wide_mask")
    number = model.node("Cast", [wide], "number_mask", to=TensorProto.FLOAT)
    gap = model.node("Sub", [model.value("one", 1.0, "float32"), number], "gap")
    bias = model.node("Mul", [gap, model.value("low", -1e4, "float32")], "bias")
    for layer in range(layers):
        x = _layer(model, x, f"layer{layer}", width, heads, bias)
    model.node("Identity", [x], "out")
    return model


def _layer(model: Model, x: str, name: str, width: int, heads: int, bias: str) -> str:
    size = width // heads
    orders = {"query": (0, 2, 1, 3), "key": (0, 2, 3, 1), "value": (0, 2, 1, 3)}
    q, k, v = (
        _heads(model, _dense(model, x, f"{name}/{part}", width, width), f"{name}/{part}/heads", heads, size, order)
        for part, order in orders.items()
    )
    scores = model.node("MatMul", [q, k], f"{name}/scores")
    scaled = model.node("Div", [scores, model.value(f"{name}/root", size**0.5, "float32")], f"{name}/scaled")
    masked = model.node("Add", [scaled, bias], f"{name}/masked")
    context = model.node("MatMul", [model.node("Softmax", [masked], f"{name}/p", axis=-1), v], f"{name}/context")
    back = model.node("Transpose", [context], f"{name}/back", perm=[0, 2, 1, 3])
    joined = model.node("Reshape", [back, model.value(f"{name}/joined_shape", [0, 0, width])], f"{name}/joined")
    residual = model.node("Add", [_dense(model, joined, f"{name}/projection", width, width), x], f"{name}/residual")
    x = _layer_norm(model, residual, f"{name}/norm1", width)
    up = _dense(model, x, f"{name}/up", width, 4 * width)
    return _feed_forward(model, x, up, name, width)


def _feed_forward(model: Model, x: str, up: str, name: str, width: int) -> str:
    part = model.node("Div", [up, model.value(f"{name}/root2", 2**0.5, "float32")], f"{name}/gelu/div")
    error = model.node("Erf", [part], f"{name}/gelu/erf")
    more = model.node("Add", [error, model.value(f"{name}/one", 1.0, "float32")], f"{name}/gelu/add")
    product = model.node("Mul", [up, more], f"{name}/gelu/mul")
    gelu = model.node("Mul", [product, model.value(f"{name}/half", 0.5, "float32")], f"{name}/gelu")
    down = _dense(model, gelu, f"{name}/down", 4 * width, width)
    return _layer_norm(model, model.node("Add", [down, x], f"{name}/residual2"), f"{name}/norm2", width)
