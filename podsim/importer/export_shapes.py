"""Write the operators and shapes of a PyTorch model to a file that `podsim import` reads. The file has no weights.

Run it where PyTorch 2.2 or later is installed:

    from export_shapes import export_shapes

    export_shapes(model, (torch.zeros(8, 3, 224, 224),), "model.shapes.json")
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any


def export_shapes(model: Any, example: tuple[Any, ...], path: str, name: str = "") -> None:
    """Export a model for the shapes of an example, as operators of ATen.

    Args:
        model: A `torch.nn.Module` in evaluation mode. It needs no weights: a module on the device `meta` is enough.
        example: Inputs of the model.
        path: File to write; its name ends in `.shapes.json`.
        name: Name of the model; the name of its class if left out.
    """
    import torch

    program = torch.export.export(model.eval(), example).run_decompositions()
    signature = program.graph_signature
    inner = {*signature.inputs_to_parameters, *signature.inputs_to_buffers}
    inner |= set(getattr(signature, "inputs_to_lifted_tensor_constants", {}))
    tensors: dict[str, Any] = {}
    nodes, sources, results = [], [], []
    for node in program.graph.nodes:
        if node.op == "output":
            results = [node.name for node in _nodes(node.args[0])]
            continue
        value = node.meta.get("val")
        outputs = [node.name]
        if isinstance(value, (list, tuple)):
            outputs = [f"{node.name}.{number}" for number in range(len(value))]
        for output, tensor in zip(outputs, value if isinstance(value, (list, tuple)) else [value], strict=True):
            if tensor is not None and hasattr(tensor, "shape"):
                tensors[output] = [str(tensor.dtype).removeprefix("torch."), [int(size) for size in tensor.shape]]
        if node.op == "get_attr":  # a constant that was not lifted
            inner.add(node.name)
        if node.op in ("placeholder", "get_attr"):
            sources.append(node.name)
        elif node.op == "call_function":
            nodes.append(_described(node, outputs))
    model_data = {
        "format": "podsim shapes",
        "version": 1,
        "producer": f"torch {torch.__version__}",
        "name": name or type(model).__name__,
        "inputs": [place for place in sources if place not in inner and place in tensors],
        "parameters": [place for place in sources if place in inner and place in tensors],
        "outputs": [result for result in results if result in tensors],
        "tensors": tensors,
        "nodes": nodes,
    }
    Path(path).write_text(json.dumps(model_data), encoding="utf-8")


def _described(node: Any, outputs: list[str]) -> dict[str, Any]:
    """Return a node as plain data: operator, tensor inputs in order, and other arguments by name."""
    if "getitem" in str(node.target):
        source, number = node.args
        return {"op": "getitem", "inputs": [f"{source.name}.{number}"], "outputs": outputs, "arguments": {}}
    declared = node.target._schema.arguments
    values = dict(zip((argument.name for argument in declared), node.args, strict=False)) | dict(node.kwargs)
    inputs: list[str | None] = []
    arguments = {}
    for argument in declared:
        value = values.get(argument.name)
        if "Tensor" in str(argument.type):
            inputs += [node.name for node in _nodes(value)] or [None]
        elif isinstance(value, (bool, int, float, str)) or _is_plain(value):
            arguments[argument.name] = value
    return {"op": str(node.target), "inputs": inputs, "outputs": outputs, "arguments": arguments}


def _nodes(value: Any) -> Iterator[Any]:
    """Yield the nodes in an argument."""
    if hasattr(value, "meta") and hasattr(value, "name"):
        yield value
    elif isinstance(value, Iterable) and not isinstance(value, str):
        for part in value:
            yield from _nodes(part)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(part, (bool, int, float)) for part in value)
