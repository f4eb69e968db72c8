"""What is wrong with an ONNX file, or cannot be told from it: the text of every message."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from podsim.cli import app
from podsim.errors import DoesNotFitError, PodsimError
from podsim.graph import read_graph
from podsim.importer import Request, import_model
from podsim.specs import load_scenario
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
    what = "behind Reshape `Reshape/turned`: its result would have another number of elements"
    assert what in message_of(rows=3)


# Operators


def test_an_operator_set_that_is_not_known() -> None:
    model = Model({"x": [8, 64]}, ["y"])
    model.node("FusedNorm", ["x"], "h", domain="com.example")
    model.node("MatMul", ["h", model.weight("w", 64, 64)], "y")
    saved(model, domains=["com.example"])
    assert message_of() == (
        "model.onnx: shapes are not known behind com.example.FusedNorm `FusedNorm/h`: the operator set com.example is "
        "not known; the cost of 1 products cannot be told, the first of them MatMul `MatMul/y`\n"
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
    assert (written.exit_code, written.output) == (0, "")
    text = Path("deeper/mine.yaml").read_text()
    assert 'file: "../model.onnx"' in text
    assert "# 1 operators on inputs, 8,192 parameters, 0.000262 GFLOP in products." in text
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
    assert f"warning: 1 of 2 operators are not simulated and cost nothing: {told}" in written.stderr
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
    assert str(failure.value).startswith("model.onnx: the model fits no shipped pod, cut into up to 1 parts; on ")


@pytest.mark.parametrize("text", ["rows", "rows=", "=4", "rows=four", "rows=1.5", "rows=--4", "rows=" + "9" * 40])
def test_a_dimension_is_name_and_size(text: str) -> None:
    assert error_of("import", "model.onnx", "--dimension", text) == (
        f"--dimension {text}: this is not NAME=SIZE\n  do: write for example `--dimension batch=4`"
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
