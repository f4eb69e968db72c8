"""Shapes of PyTorch models: a small file made by hand, files that are wrong, and the script that writes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import podsim
from podsim.cli.app import app
from podsim.errors import PodsimError, SpecError
from podsim.importer import Request, import_model
from podsim.importer.export_shapes import export_shapes
from podsim.models.graph import read_graph, torch_shapes
from podsim.models.graph.operators import mapper_of
from podsim.models.graph.torch_rules import contradiction
from podsim.models.graph.torch_shapes import _OPERATORS, read_shapes
from podsim.models.op import Conv, MatMul

Made = dict[str, Any]


def node(op: str, inputs: list[str | None], *outputs: str, **arguments: Any) -> Made:
    return {"op": f"aten.{op}", "inputs": inputs, "outputs": list(outputs), "arguments": arguments}


def model() -> Made:
    """A convolution of 3 to 8 channels over 4 x 4, relu, mean, a linear layer of 8 to 10, softmax; two samples."""
    return {
        "format": "podsim shapes",
        "version": 1,
        "producer": "torch 2.5",
        "name": "Small",
        "inputs": ["x"],
        "parameters": ["p_weight", "p_bias", "p_linear", "p_offset"],
        "outputs": ["soft"],
        "tensors": {
            "x": ["float32", [2, 3, 4, 4]],
            "p_weight": ["float32", [8, 3, 3, 3]],
            "p_bias": ["float32", [8]],
            "p_linear": ["float32", [10, 8]],
            "p_offset": ["float32", [10]],
            "conv": ["float32", [2, 8, 4, 4]],
            "relu": ["float32", [2, 8, 4, 4]],
            "mean": ["float32", [2, 8, 1, 1]],
            "view": ["float32", [2, 8]],
            "t": ["float32", [8, 10]],
            "addmm": ["float32", [2, 10]],
            "half": ["float32", [2, 10]],
            "soft": ["float32", [2, 10]],
        },
        "nodes": [
            node(
                "convolution.default",
                ["x", "p_weight", "p_bias"],
                "conv",
                stride=[1, 1],
                padding=[1, 1],
                transposed=False,
                groups=1,
            ),
            node("relu.default", ["conv"], "relu"),
            node("mean.dim", ["relu"], "mean", dim=[-1, -2], keepdim=True),
            node("view.default", ["mean"], "view", size=[2, 8]),
            node("permute.default", ["p_linear"], "t", dims=[1, 0]),
            node("addmm.default", ["p_offset", "view", "t"], "addmm"),
            node("mul.Tensor", ["addmm"], "half", other=0.5),
            node("_softmax.default", ["half"], "soft", dim=-1, half_to_float=False),
        ],
    }


def write(folder: Path, change: Callable[[Made], object] = lambda made: None) -> Path:
    made = model()
    change(made)
    path = folder / "small.shapes.json"
    path.write_text(json.dumps(made))
    return path


def test_operators_of_aten_cost_what_those_of_onnx_do(tmp_path: Path) -> None:
    """Shapes of the two products, by hand; a transposed weight is a weight, and views are free."""
    graph = read_graph(write(tmp_path))
    ops = [op for name in graph.workload.order for op in graph.workload.blocks[name].forward]
    (conv,) = (op for op in ops if isinstance(op, Conv))
    assert (conv.shape, conv.in_channels, conv.kernel, conv.stride) == ((2, 8, 4, 4), 3, (3, 3), (1, 1))
    (product,) = (op for op in ops if isinstance(op, MatMul))
    assert (product.shape, product.inner, product.right_arranged) == ((1, 2, 10), 8, True)
    assert graph.workload.forward_flop == 2 * (2 * 8 * 16 * 27) + 2 * (2 * 8 * 10)
    assert graph.workload.parameter_count == 8 * 27 + 8 + 80 + 10
    assert [op.name.rpartition("/")[2] for op in ops if op.name.startswith("half")] == ["scale"]
    assert (graph.unmapped, graph.inputs) == ((), (("x", (2, 3, 4, 4)),))
    assert graph.node_count == 7  # all but the transposition of the weight
    assert graph.workload.host_input_bytes == 2 * 2 * 3 * 16


def test_an_imported_model_runs(tmp_path: Path) -> None:
    path = write(tmp_path)
    text = import_model(path, Request(system="ipu_pod4", folder=tmp_path))
    (tmp_path / "small.yaml").write_text(text)
    assert "file: small.shapes.json" in text
    assert "samples_per_batch: 2" in text
    result = podsim.run(tmp_path / "small.yaml")
    assert any(name.endswith("small.shapes.json") for name, _ in result.inputs)


def test_every_operator_in_the_table_is_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """None stands for an operator of ONNX that podsim does not know; shapes are those of no operator."""
    monkeypatch.setattr(torch_shapes, "contradiction", lambda *_: "")
    arguments = {
        "dim": 1,
        "stride": [1],
        "groups": 1,
        "normalized_shape": [4],
        "group": 1,
        "exponent": 3.0,
        "kernel_size": 2,
    }
    for name in (*_OPERATORS, "addmm", "baddbmm"):

        def only(made: Made, name: str = name) -> None:
            made["nodes"] = [node(f"{name}.default", ["x", "p_weight", "p_bias"], "soft", **arguments)]

        _, graph = read_shapes(write(tmp_path, only))
        (one,) = graph.nodes
        assert mapper_of(one) is not None or one.operator in ("GRU", "LSTM"), name


def drop(key: str) -> Callable[[Made], object]:
    return lambda made: made.pop(key)


def replace_node(op: str) -> Callable[[Made], object]:
    return lambda made: made["nodes"][1].update(op=op)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda made: made.update(version=2), "this is no file of podsim shapes, version 1\n  do: write it with"),
        (drop("nodes"), "something is missing, or of another type: 'nodes'"),
        (
            lambda made: made["tensors"].update(x=["float32", [2, "s0"]]),
            r"\[tensors\.x\]: a dimension is no whole",
        ),
        (lambda made: made["tensors"].pop("view"), r"\[nodes\.5\]: tensor `view` has no shape"),
        (replace_node("aten._scaled_dot_product_flash_attention.default"), r"\[nodes\.1\]: the work of operator"),
        (lambda made: made.update(outputs=[]), "no operator of the graph leads from an input to an output"),
    ],
)
def test_what_is_wrong_is_said(change: Callable[[Made], object], told: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=told):
        read_graph(write(tmp_path, change))


def tensor(name: str, *shape: int, kind: str = "float32") -> Callable[[Made], object]:
    return lambda made: made["tensors"].update({name: [kind, list(shape)]})


def inputs(number: int, *names: str) -> Callable[[Made], object]:
    return lambda made: made["nodes"][number].update(inputs=list(names))


def outputs(number: int, *names: str) -> Callable[[Made], object]:
    return lambda made: made["nodes"][number].update(outputs=list(names))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (tensor("p_linear", 10, 9), r"nodes\.4\..*`permute`: axes of \[10, 9\] in another order are not \[8, 10\]"),
        (tensor("t", 9, 10), r"nodes\.4\..*`permute`: axes"),
        (tensor("p_offset", 9), r"nodes\.5\..*`addmm`: a bias of \[9\] does not go with \[2, 10\]"),
        (tensor("view", 2, 4), r"nodes\.3\..*`view`: \[2, 8, 1, 1\] and \[2, 4\] have unequal numbers of elements"),
        (tensor("p_weight", 8, 4, 3, 3), r"nodes\.0\..*weights \[8, 4, 3, 3\] take 4 channels, and it reads 3"),
        (tensor("relu", 2, 8, 4, 5), r"nodes\.1\..*from \[2, 8, 4, 4\] it makes \[2, 8, 4, 4\], and the file says"),
        (inputs(1, "mean"), r"nodes\.1\].*`relu` reads `mean`, which is made by a later node, or none"),
        (inputs(1, "relu"), r"nodes\.1\].*`relu` reads `relu`, which is made by itself"),
        (outputs(1, "relu", "t"), r"nodes\.1\].*`relu` has 2 outputs, and makes 1"),
        (outputs(1, "conv"), r"nodes\.1\].*`relu` makes `conv`, which is there already"),
        (outputs(1, "x"), r"nodes\.1\].*`relu` makes `x`, which is there already"),
        (tensor("half", 2, 10, kind="complex999"), r"tensors\.half\]: `complex999` is no number format of PyTorch"),
        (lambda made: made.update(outputs=["lost"]), r"output `lost` is made by no node"),
        (lambda made: made["nodes"].reverse(), r"nodes\.0\].*reads `half`, which is made by a later node, or none"),
    ],
)
def test_what_cannot_be_is_refused(change: Callable[[Made], object], told: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=told) as caught:
        read_graph(write(tmp_path, change))
    assert "\n  do: " in str(caught.value)


@pytest.mark.parametrize(
    ("name", "read", "made", "arguments"),
    [
        ("add", [(4, 8), (9,)], (4, 8), {}),
        ("mm", [(4, 8), (9, 16)], (4, 16), {}),
        ("bmm", [(3, 4, 8), (2, 8, 5)], (3, 4, 5), {}),
        ("matmul", [(4, 8), (8, 16)], (4, 15), {}),
        ("linear", [(4, 8), (16, 9)], (4, 16), {}),
        ("convolution", [(2, 8, 4, 4), (6, 4, 3, 3)], (2, 5, 4, 4), {"groups": 2}),
        ("convolution", [(2, 8, 4, 4), (8, 6, 3, 3)], (2, 8, 8, 8), {"groups": 1, "transposed": True}),
        ("cat", [(2, 3), (2, 4)], (2, 8), {}),
        ("embedding", [(100, 8), (2, 5)], (2, 5, 9), {}),
        ("mean", [(2, 8)], (2, 8, 2), {}),
        ("_softmax", [(2, 8)], (2, 9), {}),
        ("expand", [(2, 8)], (3, 8), {}),
        ("slice", [(2, 8)], (2, 9), {}),
        ("avg_pool2d", [(2, 8, 4, 4)], (2, 9, 2, 2), {}),
    ],
)
def test_operators_whose_shapes_contradict_each_other(
    name: str, read: list[tuple[int, ...]], made: tuple[int, ...], arguments: dict[str, Any]
) -> None:
    assert contradiction(name, read, made, arguments)


@pytest.mark.parametrize(
    ("name", "read", "made", "arguments"),
    [
        ("add", [(4, 1, 8), (3, 1)], (4, 3, 8), {}),
        ("where", [(8,), (), (2, 8)], (2, 8), {}),
        ("bmm", [(3, 4, 8), (3, 8, 5)], (3, 4, 5), {}),
        ("matmul", [(4, 8), (8,)], (4,), {}),
        ("matmul", [(1, 3, 4, 8), (2, 1, 8, 5)], (2, 3, 4, 5), {}),
        ("linear", [(2, 4, 8), (16, 8), (16,)], (2, 4, 16), {}),
        ("convolution", [(2, 8, 4, 4), (6, 4, 3, 3)], (2, 6, 2, 2), {"groups": 2}),
        ("convolution", [(2, 8, 4, 4), (8, 3, 3, 3)], (2, 6, 8, 8), {"groups": 2, "transposed": True}),
        ("cat", [(2, 3), (2, 4)], (2, 7), {}),
        ("embedding", [(100, 8), (2, 5)], (2, 5, 8), {}),
        ("mean", [(2, 8)], (), {}),
        ("expand", [(2, 1)], (3, 2, 8), {}),
        ("avg_pool2d", [(8, 4, 4)], (8, 2, 2), {}),
        ("nobody_knows", [(2,)], (3,), {}),
    ],
)
def test_operators_whose_shapes_go_together(
    name: str, read: list[tuple[int, ...]], made: tuple[int, ...], arguments: dict[str, Any]
) -> None:
    assert not contradiction(name, read, made, arguments)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.shapes.json"
    with pytest.raises(SpecError, match="the file cannot be read: No such file"):
        read_graph(path)
    path.write_text("{")
    with pytest.raises(SpecError, match="this is not valid JSON"):
        read_graph(path)
    with pytest.raises(SpecError, match="the file leaves no dimension open"):
        read_graph(write(tmp_path), {"batch": 4})
    with pytest.raises(PodsimError, match="--batch-size means nothing for a graph"):
        import_model(write(tmp_path), Request(batch_size=4))


def test_an_operator_that_is_not_known_is_told_and_costs_nothing(tmp_path: Path) -> None:
    graph = read_graph(write(tmp_path, replace_node("aten.cumsum.default")))
    assert [each.operator for each in graph.unmapped] == ["cumsum"]


def test_the_script_is_printed(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["import", "--torch-script"])
    assert printed.exit_code == 0
    compile(printed.output, "export_shapes.py", "exec")
    assert "import podsim" not in printed.output


class Value:
    """A tensor without values."""

    def __init__(self, *shape: int, dtype: str = "torch.float32") -> None:
        self.shape, self.dtype = shape, dtype


def test_the_script_writes_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a stand-in for PyTorch: a linear layer, whose program has nodes as those of `torch.fx`."""

    def fx(
        name: str, op: str, value: object, target: object = None, *args: object, **kwargs: object
    ) -> SimpleNamespace:
        return SimpleNamespace(name=name, op=op, meta={"val": value}, target=target, args=args, kwargs=kwargs)

    class Target:
        def __init__(self, name: str, **types: str) -> None:
            self.name = name
            arguments = [SimpleNamespace(name=key, type=kind) for key, kind in types.items()]
            self._schema = SimpleNamespace(arguments=arguments)

        def __str__(self) -> str:
            return self.name

    weight, x = fx("p_w", "placeholder", Value(5, 4)), fx("x", "placeholder", Value(3, 4))
    flipped = fx(
        *("t", "call_function", Value(4, 5)),
        *(Target("aten.permute.default", a="Tensor", dims="int[]"), weight, [1, 0]),
    )
    product = fx("mm", "call_function", Value(3, 5), Target("aten.mm.default", a="Tensor", b="Tensor"), x, flipped)
    parts = fx(
        "parts",
        "call_function",
        (Value(3, 2), Value(3, 3)),
        Target("aten.split.Tensor", a="Tensor", n="int"),
        product,
        n=2,
    )
    second = fx("second", "call_function", Value(3, 3), "<built-in function getitem>", parts, 1)
    output = SimpleNamespace(name="output", op="output", args=((second,),), meta={})
    program = SimpleNamespace(
        graph=SimpleNamespace(nodes=[weight, x, flipped, product, parts, second, output]),
        graph_signature=SimpleNamespace(inputs_to_parameters={"p_w": "w"}, inputs_to_buffers={}),
    )
    program.run_decompositions = lambda: program
    torch = ModuleType("torch")
    torch.__dict__.update(__version__="2.5", export=SimpleNamespace(export=lambda *_: program))
    monkeypatch.setitem(sys.modules, "torch", torch)
    path = tmp_path / "linear.shapes.json"
    module = SimpleNamespace(eval=lambda: None)
    export_shapes(module, (), str(path), "Linear")
    made = json.loads(path.read_text())
    assert made["nodes"][0] == node("permute.default", ["p_w"], "t", dims=[1, 0])
    assert made["nodes"][2] == node("split.Tensor", ["mm"], "parts.0", "parts.1", n=2)
    assert made["nodes"][3]["inputs"] == ["parts.1"]
    graph = read_graph(path)
    assert graph.workload.forward_flop == 2 * 3 * 4 * 5
    assert graph.workload.parameter_count == 20
    assert graph.inputs == (("x", (3, 4)),)
