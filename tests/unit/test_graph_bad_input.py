"""What is wrong with an ONNX file, or cannot be told from it: the text of every message."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from podsim.cli.app import app
from podsim.errors import DoesNotFitError, PodsimError
from podsim.importer import Request, import_model
from podsim.models.graph import read_graph
from podsim.scenario import ForwardScenario, load_scenario
from podsim.watch import silent
from tests.unit.onnx_examples import Model, onnx, products


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def message_of(file: str = "model.onnx", **dimensions: int) -> str:
    with pytest.raises(PodsimError) as failure:
        read_graph(file, dimensions)
    return str(failure.value)


def saved(model: Model, **how: Any) -> Path:
    return model.save(Path("model.onnx"), **how)


def refusal(node: str, reason: str) -> str:
    return (
        f"model.onnx: {node} cannot work: {reason}\n"
        "  do: correct the model and export it again, or choose other sizes for the dimensions that it leaves open"
    )


# Files


def test_the_package_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    saved(products(8, 16, 16))
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert message_of() == (
        "model.onnx: reading ONNX files needs the package `onnx`, which is not installed\n"
        "  do: pip install 'podsim[onnx]'"
    )


def test_no_file() -> None:
    assert message_of("nowhere.onnx").startswith("nowhere.onnx: the file cannot be read: No such file or directory")


def test_a_folder() -> None:
    Path("model.onnx").mkdir()
    assert message_of() == "model.onnx: this is a folder, not a file\n  do: name the ONNX file in it"


def test_an_empty_file() -> None:
    Path("model.onnx").touch()
    assert message_of() == "model.onnx: the file is empty\n  do: name an ONNX file"


@pytest.mark.parametrize("part", [0.3, 0.9, 0.999])
def test_a_truncated_file(part: float) -> None:
    content = saved(products(8, 64, 64, 64)).read_bytes()
    Path("model.onnx").write_bytes(content[: int(part * len(content))])
    assert "this is not an ONNX file, or it ends too early" in message_of()


@pytest.mark.parametrize("content", [b"hello, world", b"\x80\x02}q\x00.", b"{}", bytes(range(256)) * 8])
def test_something_else(content: bytes) -> None:
    Path("model.onnx").write_bytes(content)
    assert re.search("this is not an ONNX file|holds no graph", message_of())


def test_names_that_are_not_text() -> None:
    content = saved(products(8, 64, 64)).read_bytes()
    Path("model.onnx").write_bytes(content.replace(b"x1", b"\xff1"))
    assert message_of().startswith("model.onnx: names in the file are not text in UTF-8; it is damaged")


def test_a_model_without_nodes() -> None:
    saved(Model({"x": [1]}, ["x"]))
    assert message_of().startswith("model.onnx: the file holds no graph of ONNX operators")


def test_a_graph_that_leads_nowhere() -> None:
    model = Model({"x": [4]}, ["y"])
    model.node("Relu", [model.weight("w", 4)], "y")
    saved(model)
    assert message_of().startswith("model.onnx: no operator of the graph leads from an input to an output")


def test_nodes_out_of_order() -> None:
    model = Model({"x": [4]}, ["y"])
    model.node("Relu", ["later"], "y")
    model.node("Relu", ["x"], "later")
    saved(model)
    assert message_of().startswith("model.onnx: node `Relu/y` reads `later`, which nothing before it makes")


def test_a_stored_tensor_of_negative_size() -> None:
    model = products(8, 16, 16)
    model.stored[0].dims[0] = -16
    saved(model)
    assert message_of().startswith("model.onnx: the stored tensor `w0` has a negative size: [-16, 16]")


def test_weights_in_a_file_that_is_missing() -> None:
    model = Model({"x": [8, 64]}, ["y"])
    model.node("MatMul", ["x", model.far_weight("w", 64, 32)], "y")
    graph = read_graph(saved(model))
    assert graph.workload.forward_flop == 2 * 8 * 64 * 32
    assert graph.warnings == (
        "the file with weights `weights.bin` is not there; their shapes, which are in the graph, are enough",
    )


def test_small_values_in_another_file_are_fetched() -> None:
    """The shape to bring a tensor to may be stored apart as well."""
    import numpy as np

    model = Model({"x": [8, 64]}, ["y"])
    shape = model.far_weight("shape", 2, file="shape.bin")
    model.stored[0].data_type = onnx.TensorProto.INT64
    model.node("MatMul", [model.node("Reshape", ["x", shape], "turned"), model.weight("w", 128, 16)], "y")
    Path("shape.bin").write_bytes(np.array([4, 128], np.int64).tobytes())
    assert read_graph(saved(model)).workload.forward_flop == 2 * 4 * 128 * 16


# Dimensions


def test_open_dimensions_are_named() -> None:
    model = Model({"x": ["batch", None, "batch", 0], "z": [3]}, ["y"])
    model.node("Relu", ["x"], "y")
    saved(model)
    assert message_of() == (
        "model.onnx: the graph leaves sizes of its inputs open: `batch` (input x, axis 0), `x_1` (input x, axis 1), "
        "`x_3` (input x, axis 3, 0 in the file)\n"
        "  do: give each of them: `--dimension batch=4` of podsim import, "
        "or `model.dimensions: {batch: 4}` in a scenario"
    )
    assert read_graph("model.onnx", {"batch": 2, "x_1": 3, "x_3": 5}).inputs[0] == ("x", (2, 3, 2, 5))


@pytest.mark.parametrize("size", [0, -4, 10**10])
def test_an_impossible_size(size: int) -> None:
    saved(products("rows", 16, 16))
    assert message_of(rows=size) == (
        f"model.onnx: dimension `rows` cannot be {size}\n  do: give it a size from 1 to 1000000000"
    )


def test_a_dimension_that_is_not_there() -> None:
    saved(products("rows", 16, 16))
    assert message_of(rows=2, row=2) == (
        "model.onnx: no input has an open dimension `row`\n  do: did you mean `rows`? known here: rows"
    )


def test_sizes_that_do_not_go_together() -> None:
    """Three rows of 3 cannot be brought to a row of 64."""
    model = Model({"x": ["rows", 3]}, ["y"])
    turned = model.node("Reshape", ["x", model.value("shape", [1, 64])], "turned")
    model.node("MatMul", [turned, model.weight("w", 64, 8)], "y")
    saved(model)
    assert message_of(rows=3) == refusal("Reshape `Reshape/turned`", "it cannot bring the shape [3, 3] to [1, 64]")


# Nodes that contradict themselves or what they read


def conv(weights: tuple[int, ...], operator: str = "Conv", **attributes: Any) -> None:
    """One convolution of an image of 4 channels."""
    model = Model({"x": [1, 4, 32, 32]}, ["y"])
    model.node(operator, ["x", model.weight("w", *weights)], "y", **attributes)
    saved(model)


@pytest.mark.parametrize(
    ("weights", "attributes", "reason"),
    [
        ((8, 4, 3, 3), {"group": 7}, "4 input channels cannot be divided into 7 groups"),
        ((7, 2, 3, 3), {"group": 2}, "7 output channels cannot be divided into 2 groups"),
        ((8, 4, 3, 3), {"group": 0}, "its attribute `group` is 0, and has to be at least 1"),
        ((8, 4, 3, 3), {"group": -2}, "its attribute `group` is -2, and has to be at least 1"),
        (
            (8, 4, 3, 3),
            {"group": 2},
            "its weights of shape [8, 4, 3, 3] take 8 input channels, and it reads 4",
        ),
        ((8, 3, 3, 3), {}, "its weights of shape [8, 3, 3, 3] take 3 input channels, and it reads 4"),
        ((8, 4, 3), {}, "its weights have 3 axes, and what it reads has 4"),
        (
            (8, 4, 3, 3),
            {"strides": [0, 0]},
            "Attribute strides must only contain positive values; it reads [1, 4, 32, 32] and [8, 4, 3, 3]",
        ),
        (
            (8, 4, 3, 3),
            {"strides": [-1, -1]},
            "Attribute strides must only contain positive values; it reads [1, 4, 32, 32] and [8, 4, 3, 3]",
        ),
        (
            (8, 4, 3, 3),
            {"pads": [-9, -9, -9, -9]},
            "Attribute pads must not contain negative values; it reads [1, 4, 32, 32] and [8, 4, 3, 3]",
        ),
        (
            (8, 4, 3, 3),
            {"kernel_shape": [5, 5]},
            "its attribute `kernel_shape` is [5, 5], and its weights have the shape [8, 4, 3, 3]",
        ),
        (
            (8, 4, 3, 3),
            {"dilations": [16, 1]},
            "from a tensor of shape [1, 4, 32, 32] its result would have the shape [1, 8, 0, 30]",
        ),
    ],
)
def test_an_impossible_convolution(weights: tuple[int, ...], attributes: dict[str, Any], reason: str) -> None:
    conv(weights, **attributes)
    assert message_of() == refusal("Conv `Conv/y`", reason)


@pytest.mark.parametrize(
    ("weights", "group", "reason"),
    [
        ((3, 2, 3, 3), 1, "its weights of shape [3, 2, 3, 3] take 3 input channels, and it reads 4"),
        ((4, 2, 3, 3), 3, "4 input channels cannot be divided into 3 groups"),
    ],
)
def test_an_impossible_transposed_convolution(weights: tuple[int, ...], group: int, reason: str) -> None:
    conv(weights, "ConvTranspose", group=group)
    assert message_of() == refusal("ConvTranspose `ConvTranspose/y`", reason)


@pytest.mark.parametrize(
    ("operator", "read", "attributes", "reason"),
    [
        (
            "MatMul",
            [(4, 9), (8, 8)],
            {},
            "Incompatible dimensions for matrix multiplication; it reads [4, 9] and [8, 8]",
        ),
        ("Gemm", [(4, 9), (8, 8)], {}, "Dimension mismatch in unification between 8 and 9; it reads [4, 9] and [8, 8]"),
        ("Add", [(4, 9), (8,)], {}, "Incompatible dimensions; it reads [4, 9] and [8]"),
        (
            "Transpose",
            [(8, 8)],
            {"perm": [0, 0]},
            "Attribute perm for Transpose has repeated value: 0; it reads [8, 8]",
        ),
        ("Softmax", [(8, 8)], {"axis": 7}, "'axis' must be in [-2 , 1]. Its actual value is: 7; it reads [8, 8]"),
        (
            "LayerNormalization",
            [(8, 8), (8,)],
            {"axis": 5},
            "its attribute `axis` is 5, and it reads a tensor of shape [8, 8]",
        ),
        (
            "LayerNormalization",
            [(8, 8), (8,)],
            {"axis": 2},
            "its attribute `axis` is 2, and it reads a tensor of shape [8, 8]",
        ),
        (
            "InstanceNormalization",
            [(8,), (8,), (8,)],
            {},
            "it works on a batch of channels, and reads a tensor of shape [8]",
        ),
        ("MaxPool", [(1, 1, 4, 4)], {}, "its attribute `kernel_shape` is missing"),
        (
            "MaxPool",
            [(1, 1, 4, 4)],
            {"kernel_shape": [5, 4]},
            "from a tensor of shape [1, 1, 4, 4] its result would have the shape [1, 1, 0, 1]",
        ),
        ("MaxPool", [(1, 1, 4, 4)], {"kernel_shape": 3}, "its attribute `kernel_shape` has to be of type INTS"),
        ("Softmax", [(8, 8)], {"axis": 2**40}, "its attribute `axis` is 1099511627776, and no tensor has as many axes"),
        ("Split", [(8, 8)], {"num_outputs": 3}, "its attribute `num_outputs` is 3, and it has 1 output"),
        (
            "GatherND",
            [(8, 8), (2, 1)],
            {"batch_dims": -9},
            "its attribute `batch_dims` is -9, which is no number of axes",
        ),
        ("Add", [(8, 8)], {}, "it reads 1 tensor, and needs 2"),
    ],
)
def test_an_impossible_node(
    operator: str, read: list[tuple[int, ...]], attributes: dict[str, Any], reason: str
) -> None:
    """The shape that the file states for the result does not help."""
    from onnx import TensorProto, helper

    model = Model({"x": read[0]}, ["y"])
    weights = [model.weight(f"w{number}", *shape) for number, shape in enumerate(read[1:])]
    model.node(operator, ["x", *weights], "y", **attributes)
    proto = model.proto(opset=18)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8]))
    Path("model.onnx").write_bytes(proto.SerializeToString())
    assert message_of() == refusal(f"{operator} `{operator}/y`", reason)


def test_impossible_groups_of_a_norm() -> None:
    model = Model({"x": [2, 6, 8]}, ["y"])
    model.node("GroupNormalization", ["x", model.weight("a", 6), model.weight("b", 6)], "y", num_groups=4)
    saved(model, opset=21)
    node = "GroupNormalization `GroupNormalization/y`"
    assert message_of() == refusal(node, "6 channels cannot be divided into 4 groups")


def test_an_input_that_is_left_out() -> None:
    model = Model({"x": [8, 8]}, ["y"])
    model.node("Gather", ["", "x"], "y")
    saved(model)
    assert message_of() == refusal("Gather `Gather/y`", "its input 1 is left out")


def test_optional_inputs_in_front_may_be_left_out() -> None:
    """A loop for as long as its condition holds has no count."""
    from onnx import TensorProto, helper

    kinds = [("turn", TensorProto.INT64), ("more", TensorProto.BOOL), ("so_far", TensorProto.FLOAT)]
    inputs = [helper.make_tensor_value_info(name, kind, [8] if name == "so_far" else []) for name, kind in kinds]
    nodes = [helper.make_node("Identity", ["more"], ["go"]), helper.make_node("Relu", ["so_far"], ["next"])]
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in (("go", 9), ("next", 1))]
    model = Model({"x": [8], "flag": []}, ["y"], flag=TensorProto.BOOL)
    model.node("Loop", ["", "flag", "x"], "y", body=helper.make_graph(nodes, "body", inputs, outputs))
    saved(model)
    assert "nothing can be predicted; not known: `Loop`" in message_of()


def test_a_constant_without_a_value() -> None:
    model = Model({"x": [8, 8]}, ["y"])
    model.node("Add", ["x", model.node("Constant", [], "one")], "y")
    saved(model)
    assert message_of() == refusal("Constant `Constant/one`", "it has no value")


def test_operators_of_unknown_sets_that_are_called_as_known_ones() -> None:
    model = Model({"x": [8, 8]}, ["y"])
    model.node("Shape", [], "size", domain="com.example")
    model.node("Constant", ["size"], "one", domain="com.example")
    model.node("Add", ["x", "one"], "y")
    saved(model, domains=["com.example"])
    assert "`Add`" in message_of() and "nothing can be predicted" in message_of()


def test_an_axis_that_is_not_there() -> None:
    model = Model({"x": [8, 8]}, ["y"])
    model.node("Gather", ["x", model.value("row", [0])], "y", axis=9)
    saved(model)
    assert message_of() == refusal("Gather `Gather/y`", "axis must be in [-r, r-1]; it reads [8, 8] and [1]")


def test_a_range_without_steps() -> None:
    model = Model({"x": [1]}, ["y"])
    row = model.node("Range", [model.value(name, number) for name, number in (("a", 0), ("b", 10), ("c", 0))], "row")
    model.node("Add", ["x", model.node("Cast", [row], "numbers", to=1)], "y")
    saved(model)
    assert message_of() == refusal("Range `Range/row`", "its step is 0")


def test_a_node_without_a_name_is_told_by_its_place() -> None:
    model = Model({"x": [4, 9]}, ["y"])
    model.node("MatMul", [model.node("Relu", ["x"], "h"), model.weight("w", 8, 8)], "y")
    model.nodes[1].name = ""
    saved(model)
    assert message_of() == refusal(
        "MatMul `MatMul_1`", "Incompatible dimensions for matrix multiplication; it reads [4, 9] and [8, 8]"
    )


def test_a_division_of_whole_numbers_by_zero() -> None:
    model = Model({"x": [8]}, ["y"])
    model.node("Reshape", ["x", model.node("Div", [model.value("a", [8]), model.value("b", [0])], "shape")], "y")
    saved(model)
    assert message_of() == refusal("Div `Div/shape`", "it divides whole numbers by 0")


@pytest.mark.filterwarnings("error")
def test_fractions_that_divide_by_zero_stay_unfolded() -> None:
    """The constant has no value that a shape could depend on, and nothing is printed."""
    model = Model({"x": [8]}, ["y"])
    values = [model.value("a", [8.0], "float32"), model.value("b", [0.0], "float32")]
    model.node("Mul", ["x", model.node("Div", values, "endless")], "y")
    graph = read_graph(saved(model))
    assert (graph.node_count, graph.unmapped) == (1, ())


def test_an_unknown_operator_with_a_stated_shape_goes_on() -> None:
    from onnx import TensorProto, helper

    model = Model({"x": [8, 64]}, ["y"])
    model.node("FusedNorm", ["x"], "h", domain="com.example")
    model.node("MatMul", ["h", model.weight("w", 64, 16)], "y")
    proto = model.proto(["com.example"])
    proto.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, [8, 64]))
    Path("model.onnx").write_bytes(proto.SerializeToString())
    assert read_graph("model.onnx").workload.forward_flop == 2 * 8 * 64 * 16


def test_inputs_that_are_not_numbers() -> None:
    from onnx import TensorProto, helper

    model = Model({"x": [3]}, ["y"], x=TensorProto.STRING)
    model.node("Identity", ["x"], "y")
    saved(model)
    do = "\n  do: export the part of the model behind what turns it into tensors of numbers"
    assert message_of() == f"model.onnx: input `x` is text, and IPUs read numbers{do}"
    proto = model.proto()
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [3]))
    proto.graph.input[0].type.CopyFrom(kind)
    Path("model.onnx").write_bytes(proto.SerializeToString())
    assert message_of() == f"model.onnx: input `x` is not a tensor, and IPUs read numbers{do}"


# Operators


def test_an_operator_set_that_is_not_known() -> None:
    model = Model({"x": [8, 64]}, ["y"])
    model.node("FusedNorm", ["x"], "h", domain="com.example")
    model.node("MatMul", ["h", model.weight("w", 64, 64)], "y")
    saved(model, domains=["com.example"])
    assert message_of() == (
        "model.onnx: shapes are not known behind com.example.FusedNorm `FusedNorm/h`: the operator set com.example is "
        "not known; the cost of 1 product cannot be told, the first of them MatMul `MatMul/y`\n"
        "  do: export the model with standard operators and fixed shapes, without fused or data-dependent ones in front"
    )


def test_an_operator_that_is_not_known_behind_the_products_is_listed() -> None:
    model = Model({"x": [8, 64]}, ["y"])
    model.node("MatMul", ["x", model.weight("w", 64, 64)], "h")
    model.node("Decode", ["h"], "y", domain="com.example")
    graph = read_graph(saved(model, domains=["com.example"]))
    assert [str(each) for each in graph.unmapped] == [
        "com.example.Decode (once, size not known; the operator set com.example is not known)"
    ]


def test_control_flow_with_products() -> None:
    from onnx import TensorProto, helper

    model = Model({"x": [8, 8], "flag": []}, ["y"], flag=TensorProto.BOOL)
    weight = model.weight("w", 8, 8)
    out = helper.make_tensor_value_info("z", TensorProto.FLOAT, [8, 8])
    branch = helper.make_graph([helper.make_node("MatMul", ["x", weight], ["z"])], "branch", [], [out])
    model.node("If", ["flag"], "y", then_branch=branch, else_branch=branch)
    saved(model)
    assert message_of() == (
        "model.onnx: If `If/y` has products in its inner graph; how often they run is not known\n"
        "  do: export the model without control flow, for one fixed case"
    )


# Scenarios

SCENARIO = "system: ipu_pod16\nsoftware: popart_sdk_2.3\nmodel: {{kind: graph, file: {}}}\n"


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


def error_of(*arguments: str) -> str:
    result = run(*arguments)
    assert isinstance(result.exception, PodsimError), result.output
    return str(result.exception)


def test_an_imported_scenario_runs() -> None:
    saved(products("rows", 64, 128))
    Path("deeper").mkdir()
    written = run("import", "model.onnx", "--dimension", "rows=16", "--output", "deeper/mine.yaml")
    assert (written.exit_code, written.stdout) == (0, "")
    text = Path("deeper/mine.yaml").read_text()
    assert 'file: "../model.onnx"' in text
    assert "# 1 operator on inputs, 8,192 parameters, 0.000262 GFLOP in products." in text
    spec: Any = load_scenario("deeper/mine.yaml").spec
    assert (spec.parallelism.pipeline_stages, spec.parallelism.replication_factor) == (1, 16)
    assert spec.data.samples_per_batch == 16
    assert run("run", "deeper/mine.yaml").exit_code == 0


def test_what_is_not_simulated_is_told_thrice() -> None:
    """In the comments, on standard error, and by every run."""
    model = Model({"x": [8, 64]}, ["y"])
    model.node("Sin", [model.node("MatMul", ["x", model.weight("w", 64, 64)], "h")], "y")
    saved(model)
    written = run("import", "model.onnx", "--output", "mine.yaml")
    told = "Sin (once, about 50 % of elements)"
    assert (
        f"warning: 1 of 2 operators is not simulated and costs nothing, so that times are lower bounds: {told}"
        in written.stderr
    )
    assert f"#   {told}" in Path("mine.yaml").read_text()
    assert told in " ".join(run("run", "mine.yaml").output.split())


def test_the_smallest_pod_on_which_it_fits() -> None:
    """Sixteen products of 8192 x 16384 halves are 4.3 GB: more than four IPUs hold, and less than eight."""
    widths = [8192, 16384] * 8 + [8192]
    model = Model({"x0": [8, 8192]}, ["x16"])
    for number in range(16):
        weight = model.far_weight(f"w{number}", *widths[number : number + 2])
        model.node("MatMul", [f"x{number}", weight], f"x{number + 1}")
    saved(model)
    with pytest.raises(DoesNotFitError) as failure:
        import_model("model.onnx", Request("ipu_pod4"))
    assert str(failure.value) == (
        "model.onnx: the model does not fit IPU-POD4, cut into up to 16 parts\n"
        "  do: use `--system ipu_pod16`, the smallest shipped pod on which it fits"
    )
    text = import_model("model.onnx")
    assert "pipeline_stages: 8 " in text
    assert "# 4 stages: too little memory" in text


def test_a_block_that_fits_nowhere() -> None:
    model = Model({"x": [8, 32768]}, ["y"])
    model.node("MatMul", ["x", model.far_weight("w", 32768, 32768)], "y")
    saved(model)
    with pytest.raises(DoesNotFitError, match="the model fits no shipped pod") as failure:
        import_model("model.onnx")
    assert str(failure.value).startswith("model.onnx: the model fits no shipped pod, cut into up to 1 part; on ")
    assert str(failure.value).endswith("do: import a smaller model, or export it with smaller dimensions")


def test_sizes_that_fit_nowhere() -> None:
    saved(products("rows", 64, 64))
    with pytest.raises(DoesNotFitError, match="the model fits no shipped pod") as failure:
        import_model("model.onnx", Request(dimensions={"rows": 10**9}))
    assert str(failure.value).endswith(
        "do: give smaller sizes to the dimensions that the file leaves open (`rows`), or import a smaller model"
    )


@pytest.mark.parametrize("text", ["rows", "rows=", "=4", "="])
def test_a_dimension_is_name_and_size(text: str) -> None:
    assert error_of("import", "model.onnx", "--dimension", text) == (
        f"--dimension {text}: this is not NAME=SIZE\n  do: write for example `--dimension batch=4`"
    )


@pytest.mark.parametrize("size", ["four", "1.5", "--4", "1e30", "-"])
def test_a_size_is_a_whole_number(size: str) -> None:
    assert error_of("import", "model.onnx", "--dimension", f"rows={size}") == (
        f"--dimension rows={size}: the size `{size}` is not a whole number in digits\n"
        "  do: write for example `--dimension batch=4`"
    )


@pytest.mark.parametrize("size", [10**18, 10**40])
def test_a_size_that_is_too_large(size: int) -> None:
    assert error_of("import", "model.onnx", "--dimension", f"rows={size}") == (
        f"--dimension rows={size}: the size is too large\n  do: give it a size from 1 to 1000000000"
    )


def test_a_dimension_given_twice() -> None:
    arguments = ("--dimension", "a=1", "--dimension", "a=2")
    assert "dimension `a` is given twice" in error_of("import", "model.onnx", *arguments)


def test_options_of_other_models() -> None:
    Path("config.json").write_text("{}")
    assert "--dimension means nothing for a config.json" in error_of("import", "config.json", "--dimension", "a=1")
    saved(products(8, 16, 16))
    assert "--batch-size means nothing for a graph" in error_of("import", "model.onnx", "--batch-size", "4")


def test_a_scenario_names_the_file_that_is_missing() -> None:
    Path("mine.yaml").write_text(SCENARIO.format("nowhere.onnx"))
    assert error_of("run", "mine.yaml").startswith("nowhere.onnx: the file cannot be read")


def test_a_scenario_says_which_dimension_it_lacks() -> None:
    saved(products("rows", 16, 16))
    Path("mine.yaml").write_text(SCENARIO.format("model.onnx"))
    assert "leaves sizes of its inputs open: `rows` (input x0, axis 0)" in error_of("run", "mine.yaml")


# Local functions

FUNCTIONS = "local functions, written out where they are called, make"


def function(name: str, *calls: str) -> Any:
    """A function that hands its input through others, in their order."""
    tensors = ["a", *(f"t{number}" for number in range(1, len(calls))), "b"]
    nodes = [
        onnx.helper.make_node(call, [read], [made], domain="" if call == "Relu" else "local")
        for call, read, made in zip(calls, tensors, tensors[1:], strict=False)
    ]
    sets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("local", 1)]
    return onnx.helper.make_function("local", name, ["a"], ["b"], nodes, sets)


def calling(*functions: Any) -> None:
    """A model that multiplies and then calls the first of its functions."""
    model = products(8, 16, 16)
    last = model.nodes[-1].output[0]
    model.nodes[-1].output[0] = "product"
    model.nodes.append(onnx.helper.make_node(functions[0].name, ["product"], [last], domain="local"))
    proto = model.proto(domains=["local"])
    proto.functions.extend(functions)
    onnx.save(proto, "model.onnx")


def test_local_functions_are_written_out() -> None:
    """Two levels of two calls each: four Relu beside the product."""
    calling(function("f", "g", "g"), function("g", "Relu", "Relu"))
    assert read_graph("model.onnx").node_count == 1 + 4


@pytest.mark.parametrize(
    ("functions", "ring"),
    [
        ([("f", "f")], "`f` -> `f`"),
        ([("f", "g"), ("g", "h"), ("h", "g")], "`g` -> `h` -> `g`"),
    ],
)
def test_a_local_function_that_calls_itself(functions: list[tuple[str, ...]], ring: str) -> None:
    calling(*(function(*each) for each in functions))
    assert message_of().startswith(f"model.onnx: a local function calls itself: {ring}\n  do: export the model again")


def test_local_functions_that_double_at_every_level_are_counted_first() -> None:
    """25 levels of two calls: 2^25 Relu, and the product."""
    levels = [function(f"f{level}", *[f"f{level + 1}"] * 2) for level in range(25)]
    calling(*levels, function("f25", "Relu"))
    assert message_of().startswith(f"model.onnx: its {FUNCTIONS} {2**25 + 1:,} nodes of ")


def test_calls_that_are_nested_too_deeply() -> None:
    calling(*(function(f"f{level}", f"f{level + 1}") for level in range(150)), function("f150", "Relu"))
    assert message_of().startswith("model.onnx: calls of local functions are nested more than 100 deep")


# Stored tensors


@pytest.mark.parametrize("element", [0, 59, 2**31 - 1])
def test_elements_of_a_type_that_onnx_has_not(element: int) -> None:
    model = products(8, 16, 16)
    model.stored[0].data_type = element
    saved(model)
    what = f"model.onnx: the stored tensor `w0` has elements of type {element}, which ONNX has not"
    assert message_of().startswith(what)


@pytest.mark.parametrize("file", ["a" * 5000, "a\0b", "", ".", "/dev/null", "../../../w"])
def test_odd_paths_of_weights_are_files_that_are_missing(file: str) -> None:
    model = Model({"x": [8, 64]}, ["y"])
    model.node("MatMul", ["x", model.far_weight("w", 64, 32, file=file)], "y")
    graph = read_graph(saved(model))
    assert graph.workload.forward_flop == 2 * 8 * 64 * 32
    assert "is not there" in graph.warnings[0]


# Large graphs


def test_time_grows_with_the_nodes_and_not_with_their_square() -> None:
    """Cutting looks a fixed number of times at each tensor: four times the nodes, four times the calls."""
    counts = []
    for layers in (50, 200):
        saved(products(4, *[4] * (layers + 1)))
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event.endswith("call") and frame.f_code.co_filename.endswith("blocks.py")

        sys.setprofile(count)
        try:
            read_graph("model.onnx")
        finally:
            sys.setprofile(None)
        counts.append(calls)
    assert counts[1] == pytest.approx(4 * counts[0], rel=0.05)


def test_nodes_of_one_name_are_told_apart() -> None:
    model = Model({"x": [4, 4]}, ["x4"])
    for number in range(4):
        model.node("MatMul", [f"x{number}" if number else "x", model.weight(f"w{number}", 4, 4)], f"x{number + 1}")
    for node, name in zip(model.nodes, ("same", "same.2", "same", "same"), strict=True):
        node.name = name
    graph = read_graph(saved(model))
    names = [op.name for block in graph.workload.blocks.values() for op in block.forward]
    assert [name.partition("/")[0] for name in names] == ["same", "same.2", "same.3", "same.4"]


def test_portions_of_the_nodes_can_be_watched() -> None:
    seen: list[str] = []

    def watch(names: Any) -> Any:
        for name in names:
            seen.append(name)
            yield name

    read_graph(saved(products(4, *[4] * 1501)), watch=watch)
    assert seen == ["node 1 of 1,500", "node 1,001 of 1,500"]


# Nodes that a damaged file has


def test_a_node_that_makes_nothing_is_passed_over() -> None:
    model = products(8, 16, 16)
    model.nodes.append(onnx.helper.make_node("Reshape", ["x", "x"], []))
    assert read_graph(saved(model)).node_count == 1


def test_an_attribute_of_a_function_outside_of_one() -> None:
    model = products(8, 16, 16)
    attribute = model.nodes[0].attribute.add(name="axis", type=onnx.AttributeProto.INT)
    attribute.ref_attr_name = "k"
    saved(model)
    assert "attribute `axis` of node `MatMul/" in message_of()
    assert "refers to that of a function, and it is in none\n  do: export" in message_of()


@pytest.mark.parametrize("version", [0, -1, 2**62])
def test_a_version_of_operators_that_cannot_be(version: int) -> None:
    saved(products(8, 16, 16), opset=version)
    assert message_of().startswith(f"model.onnx: version {version} of an operator set cannot be")


def test_names_in_a_local_function_that_are_not_text() -> None:
    calling(function("f", "Relu"))
    Path("model.onnx").write_bytes(Path("model.onnx").read_bytes().replace(b"Relu", b"\xff\xfe\xfd\xfc"))
    assert message_of().startswith("model.onnx: names in the file are not text in UTF-8")


def test_a_constant_whose_values_are_said_to_be_nowhere() -> None:
    """The result of a branch without a name is none, and a constant without a place is of unknown value."""
    model = products(8, 16, 16)
    values = onnx.TensorProto(data_type=onnx.TensorProto.FLOAT, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    relu = onnx.helper.make_node("Relu", [model.nodes[0].input[0]], [""])
    branch = onnx.helper.make_graph([relu], "branch", [], [onnx.ValueInfoProto()])
    model.stored.append(onnx.TensorProto(name="which", data_type=onnx.TensorProto.BOOL, dims=[]))
    model.nodes += [
        onnx.helper.make_node("Identity", [model.far_weight("far", 2, file="")], ["copy"]),
        onnx.helper.make_node("Constant", [], ["value"], value=values),
        onnx.helper.make_node("If", ["which"], ["unused"], then_branch=branch, else_branch=branch),
    ]
    assert read_graph(saved(model)).node_count == 1


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"activity": "train"}, "--activity train means nothing for a graph\n  do: use `--activity forward`"),
        ({"precision": "int4"}, "--precision int4 is not modelled in forward passes\n  do: use one of: fp16, fp32"),
    ],
)
def test_what_a_graph_cannot_do(asked: dict[str, str], message: str) -> None:
    saved(products("rows", 64, 64))
    with pytest.raises(PodsimError) as failure:
        import_model("model.onnx", Request(dimensions={"rows": 8}, **asked))  # type: ignore[arg-type]
    assert str(failure.value) == f"model.onnx: {message}"


def test_a_graph_in_single_precision() -> None:
    saved(products("rows", 64, 64))
    text = import_model("model.onnx", Request(dimensions={"rows": 8}, activity="forward", precision="fp32"))
    Path("single.yaml").write_text(text)
    assert "  weights: fp32" in text
    spec = load_scenario("single.yaml").require(ForwardScenario)
    workload = spec.model.read(spec, Path(), silent).workload
    assert workload.activation_dtype == "fp32"
