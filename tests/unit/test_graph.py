"""ONNX graphs as workloads: work and parameters by hand, cuts, folded shapes, what is left out, a published network."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from podsim.errors import SpecError
from podsim.models.graph import Graph, read_graph
from podsim.models.op import Conv, Elementwise, Gather, MatMul, Op, Pool, Rearrange, Reduce
from tests.unit.onnx_examples import Model, conv_net, products, transformer


def read(model: Model, tmp_path: Path, dimensions: dict[str, int] | None = None, **how: Any) -> Graph:
    return read_graph(model.save(tmp_path / "model.onnx", **how), dimensions)


def ops_of(graph: Graph) -> list[Op]:
    return [op for name in graph.workload.order for op in graph.workload.blocks[name].forward]


def one(model: Model, tmp_path: Path) -> list[Op]:
    """The operations of a graph of one operator."""
    graph = read(model, tmp_path)
    assert graph.unmapped == ()
    return ops_of(graph)


# Work, parameters, cuts


def test_a_chain_of_products(tmp_path: Path) -> None:
    graph = read(products("rows", 64, 128, 32), tmp_path, {"rows": 16})
    workload = graph.workload
    assert workload.forward_flop == 2 * 16 * (64 * 128 + 128 * 32)
    assert workload.parameter_count == 64 * 128 + 128 * 32
    assert [block.output_elements for block in workload.blocks.values()] == [16 * 128, 16 * 32]
    assert workload.host_input_bytes == 16 * 64 * 2
    assert workload.samples_per_micro_batch == 16
    assert graph.dimensions == (("rows", 16),)
    assert all(isinstance(op, MatMul) and op.right_arranged and op.group_count == 1 for op in ops_of(graph))


def test_a_convolutional_network(tmp_path: Path) -> None:
    """27 and 144 products for each of 16 channels of 32 x 32 positions; a classifier of 16 x 10."""
    graph = read(conv_net(), tmp_path, {"batch": 2})
    workload = graph.workload
    assert workload.forward_flop == 2 * 2 * (32 * 32 * 16 * (27 + 144) + 16 * 10)
    assert workload.parameter_count == 27 * 16 + 16 + 4 * 16 + 144 * 16 + 16 * 10 + 10
    assert Counter(type(op) for op in ops_of(graph)) == {Conv: 2, Elementwise: 6, Pool: 1, Reduce: 1, MatMul: 1}
    assert graph.unmapped == ()


def test_a_residual_is_not_cut(tmp_path: Path) -> None:
    """The second convolution starts a block, since its input is the residual too; the sum stays with it."""
    workload = read(conv_net(), tmp_path, {"batch": 2}).workload
    first, second, third = workload.blocks.values()
    assert [op.name.split("/")[0] for op in second.forward] == ["Conv", "Add", "MaxPool", "GlobalAveragePool"]
    assert (first.output_elements, second.output_elements, third.output_elements) == (2 * 16 * 1024, 2 * 16, 2 * 10)


def test_most_elements_alive(tmp_path: Path) -> None:
    """In the second block: a convolution and the sum of it with the block's input, which does not count."""
    workload = read(conv_net(), tmp_path, {"batch": 2}).workload
    assert list(workload.blocks.values())[1].live_elements == 2 * 2 * 16 * 1024


LAYERS, WIDTH, BATCH, TOKENS = 3, 64, 2, 16


@pytest.fixture
def encoder(tmp_path: Path) -> Graph:
    return read(transformer(LAYERS, WIDTH), tmp_path, {"batch": BATCH, "tokens": TOKENS})


def test_work_and_parameters_of_an_encoder(encoder: Graph) -> None:
    """12·width² in dense layers; 13·width in biases and norms; scores and contexts of all pairs of tokens."""
    rows = BATCH * TOKENS
    dense = 12 * WIDTH**2
    assert encoder.workload.parameter_count == LAYERS * (dense + 13 * WIDTH) + 100 * WIDTH
    assert encoder.workload.forward_flop == LAYERS * (2 * rows * dense + 2 * 2 * rows * TOKENS * WIDTH)
    assert encoder.unmapped == ()
    assert encoder.workload.host_input_bytes == 2 * rows * 4


def test_shapes_that_operators_compute_are_folded(encoder: Graph) -> None:
    """Nothing is left of the operators that compute the shape of heads; scores are a product for each head."""
    scores = [op for op in ops_of(encoder) if op.name == "MatMul/layer0/scores/product"]
    assert [op.shape for op in scores] == [(BATCH * 4, TOKENS, TOKENS)]
    assert not any(op.name.startswith(("Shape", "Concat", "Gather/layer")) for op in ops_of(encoder))


def test_layers_are_cut_where_only_the_mask_goes_along(encoder: Graph) -> None:
    """Between layers, and inside them between the norm and the feed-forward block; the mask crosses as well."""
    *inner, last, result = (block.output_elements for block in encoder.workload.blocks.values())
    hidden, mask = BATCH * TOKENS * WIDTH, BATCH * TOKENS
    assert inner == [hidden + mask] * (2 * LAYERS - 1)
    assert (last, result) == (hidden, hidden)
    starts = [block.forward[0].name for block in encoder.workload.blocks.values()]
    halves = [f"MatMul/layer{layer}/{part}/product/product" for layer in range(LAYERS) for part in ("query", "up")]
    assert starts == ["Gather/embedded/rows", *halves]


def test_a_transposition_is_counted_once(encoder: Graph) -> None:
    """Products of activations arrange their operands; only the context, in front of weights, changes its layout."""
    moves = [op.name for op in ops_of(encoder) if isinstance(op, Rearrange)]
    assert moves == [f"Transpose/layer{layer}/back/move" for layer in range(LAYERS)]


def test_a_table_used_twice_is_stored_once(tmp_path: Path) -> None:
    model = Model({"ids": ["tokens"]}, ["logits"], ids=7)
    table = model.weight("table", 100, 64)
    hidden = model.node("Gather", [table, "ids"], "embedded")
    hidden = model.node("MatMul", [hidden, model.weight("dense", 64, 64)], "hidden")
    model.node("MatMul", [hidden, model.node("Transpose", [table], "turned", perm=[1, 0])], "logits")
    graph = read(model, tmp_path, {"tokens": 8})
    assert graph.workload.parameter_count == 100 * 64 + 64 * 64
    tied = [
        parameter for block in graph.workload.blocks.values() for parameter in block.parameters if parameter.tied_to
    ]
    assert [each.tied_to for each in tied] == ["block0/table"]
    assert isinstance(ops_of(graph)[0], Gather)
    assert not any(isinstance(op, Rearrange) for op in ops_of(graph))


def test_quantised_weights_take_memory(tmp_path: Path) -> None:
    """They are brought to fractional numbers when the model is built, with a factor for each column."""
    model = Model({"x": [8, 64]}, ["y"])
    narrow = model.value("narrow", [[0] * 32] * 64, "int8")
    weight = model.node("DequantizeLinear", [narrow, model.weight("factors", 32)], "weight", axis=1)
    model.node("MatMul", ["x", weight], "y")
    graph = read(model, tmp_path)
    assert graph.workload.parameter_count == 64 * 32 + 32
    assert [type(op) for op in ops_of(graph)] == [MatMul]


# Single operators

SHAPE = (2, 8, 4, 4)


def single(operator: str, *weights: tuple[int, ...], **attributes: Any) -> Model:
    model = Model({"x": list(SHAPE)}, ["y"])
    names = [model.weight(f"w{number}", *shape) for number, shape in enumerate(weights)]
    model.node(operator, ["x", *names], "y", **attributes)
    return model


@pytest.mark.parametrize("operator", ["Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Erf", "Neg", "HardSwish"])
def test_elementwise(operator: str, tmp_path: Path) -> None:
    assert {op.shape for op in one(single(operator), tmp_path)} == {SHAPE}


@pytest.mark.parametrize(
    ("operator", "weight", "function"),
    [
        ("Add", (1, 8, 1, 1), "bias_add"),
        ("Mul", (8, 1, 1), "bias_add"),
        ("Mul", (), "scale"),
        ("Div", (1,), "scale"),
        ("Add", (), "add"),
        ("Sub", (1, 8, 1, 1), "sub"),
        ("Mul", SHAPE, "mul"),
    ],
)
def test_operands(operator: str, weight: tuple[int, ...], function: str, tmp_path: Path) -> None:
    (op,) = one(single(operator, weight), tmp_path)
    assert isinstance(op, Elementwise)
    assert op.function == function


def test_powers(tmp_path: Path) -> None:
    for exponent, functions in ((2.0, ["square"]), (0.5, ["sqrt"]), (3.0, ["log", "scale", "exp"])):
        model = Model({"x": list(SHAPE)}, ["y"])
        model.node("Pow", ["x", model.value("exponent", exponent, "float32")], "y")
        assert [op.function for op in one(model, tmp_path) if isinstance(op, Elementwise)] == functions


@pytest.mark.parametrize(
    ("operator", "weights", "reductions", "passes"),
    [
        ("BatchNormalization", ((8,),) * 4, 0, 2),
        ("InstanceNormalization", ((8,),) * 2, 2, 5),
        ("LayerNormalization", ((4,),), 2, 6),
        ("Softmax", (), 2, 4),
    ],
)
def test_norms(operator: str, weights: tuple[Any, ...], reductions: int, passes: int, tmp_path: Path) -> None:
    graph = read(single(operator, *weights), tmp_path)
    counts = Counter(type(op) for op in ops_of(graph))
    assert (counts[Reduce], counts[Elementwise]) == (reductions, passes)


def test_softmax_over_another_axis(tmp_path: Path) -> None:
    """2·8·4·4 elements in rows of 8 channels; before operator set 13, in rows of all that follows the axis."""
    for opset, rows in ((17, 32), (11, 2)):
        graph = read(single("Softmax", axis=1), tmp_path, opset=opset)
        assert {op.shape for op in ops_of(graph) if isinstance(op, Reduce)} == {(rows,)}


def test_convolutions(tmp_path: Path) -> None:
    """Grouped and strided: 4 channels of a group, 3 x 3, for 12 channels of 2 x 2 positions of 2 images."""
    (op,) = one(single("Conv", (12, 4, 3, 3), group=2, strides=[2, 2], pads=[1, 1, 1, 1]), tmp_path)
    assert isinstance(op, Conv)
    assert op.flop == 2 * 2 * 12 * 4 * 4 * 9
    assert (op.stride, op.output_size) == ((2, 2), (2, 2))


def test_transposed_convolution(tmp_path: Path) -> None:
    """Each of 2·8·16 input elements meets 6 channels of 2 x 2 positions."""
    (op,) = one(single("ConvTranspose", (8, 6, 2, 2), strides=[2, 2]), tmp_path)
    assert isinstance(op, Conv)
    assert op.flop == 2 * 2 * 8 * 16 * 6 * 4
    assert op.shape == (2, 6, 8, 8)


def test_a_convolution_along_one_axis(tmp_path: Path) -> None:
    model = Model({"x": [2, 8, 100]}, ["y"])
    model.node("Conv", ["x", model.weight("w", 16, 8, 5)], "y")
    (op,) = one(model, tmp_path)
    assert isinstance(op, Conv)
    assert op.flop == 2 * 2 * 96 * 16 * 8 * 5


def test_gemm_with_both_operands_turned(tmp_path: Path) -> None:
    model = Model({"x": [64, 16]}, ["y"])
    model.node("Gemm", ["x", model.weight("w", 32, 64), model.weight("b", 32)], "y", transA=1, transB=1)
    product, bias = one(model, tmp_path)
    assert isinstance(product, MatMul)
    assert (product.rows, product.inner, product.columns) == (16, 64, 32)
    assert bias.shape == (16, 32)


def test_pooling_and_reductions(tmp_path: Path) -> None:
    (pool,) = one(single("AveragePool", kernel_shape=[2, 2], strides=[2, 2]), tmp_path)
    assert isinstance(pool, Pool)
    assert (pool.window, pool.shape) == (4, (2, 8, 2, 2))
    square, total, root = one(single("ReduceL2", axes=[3]), tmp_path)
    assert isinstance(total, Reduce)
    assert (square.shape, total.input_count, total.shape, root.shape) == (SHAPE, 256, (2, 8, 4, 1), (2, 8, 4, 1))


def test_views_are_free(tmp_path: Path) -> None:
    model = Model({"x": list(SHAPE)}, ["y"])
    model.node("Reshape", ["x", model.value("shape", [2, -1])], "a")
    model.node("Identity", ["a"], "b")
    model.node("Slice", ["b", model.value("start", [0]), model.value("end", [4]), model.value("axis", [1])], "y")
    assert one(model, tmp_path) == []


# What is left out


def test_unknown_operators_are_listed_with_their_share(tmp_path: Path) -> None:
    model = Model({"x": [4, 64]}, ["y", "i", "s"])
    hidden = model.node("MatMul", ["x", model.weight("w", 64, 64)], "h")
    from onnx import helper

    model.nodes.append(helper.make_node("TopK", [hidden, model.value("k", [8])], ["y", "i"], name="top"))
    model.node("Sin", [hidden], "s")
    graph = read(model, tmp_path)
    # 256 elements of the product, 256 of the sine, 2 x 32 of the choice
    assert [str(each) for each in graph.unmapped] == [
        "Sin (once, about 44 % of elements)",
        "TopK (once, about 11 % of elements)",
    ]
    assert graph.warnings[0].startswith(
        "2 of 3 operators are not simulated and cost nothing, so that times are lower bounds: Sin (once"
    )


@pytest.mark.parametrize("operator", ["LpNormalization", "Sin"])
def test_a_graph_of_unknown_operators_alone_is_refused(operator: str, tmp_path: Path) -> None:
    """A view beside it takes no time either."""
    model = Model({"x": [4, 64]}, ["y"])
    model.node(operator, [model.node("Identity", ["x"], "same")], "y")
    with pytest.raises(SpecError, match=f"nothing can be predicted; not known: `{operator}`"):
        read(model, tmp_path)


def test_products_that_are_not_simulated_tell_their_work(tmp_path: Path) -> None:
    """A recurrent layer of 8 inputs and 16 units, four gates, 5 steps of 2 samples; then a product of 16 x 4."""
    model = Model({"x": [5, 2, 8]}, ["y"])
    weights = [model.weight("w", 1, 64, 8), model.weight("r", 1, 64, 16)]
    model.node("LSTM", ["x", *weights], "h", hidden_size=16)
    model.node("MatMul", ["h", model.weight("dense", 16, 4)], "y")
    (left_out,) = read(model, tmp_path).unmapped
    recurrent, dense = 10 * 2 * 64 * 24, 2 * 10 * 16 * 4
    assert (left_out.operator, left_out.unit) == ("LSTM", "FLOP")
    assert left_out.share == pytest.approx(recurrent / (recurrent + dense))


def test_what_depends_on_data_is_listed_with_all_behind_it(tmp_path: Path) -> None:
    model = Model({"x": [4, 64]}, ["y"])
    hidden = model.node("MatMul", ["x", model.weight("w", 64, 64)], "h")
    places = model.node("NonZero", [hidden], "places")
    model.node("Relu", [model.node("Cast", [places], "number", to=1)], "y")
    reasons = {each.operator: each.reason for each in read(model, tmp_path).unmapped}
    assert set(reasons) == {"NonZero", "Cast", "Relu"}
    assert "depends on data" in reasons["NonZero"]
    assert "what it reads is not known" in reasons["Relu"]


# Published


def test_a_published_network() -> None:
    """YOLOv8n has 3,151,904 parameters and 8.7 GFLOP for 640 x 640 pixels and 80 classes [yolov8].

    NudeNet ships it for 18 classes. Its three branches for classes then have 64 channels in place of 80:
    on 80 x 80, 40 x 40 and 20 x 20 positions with 64, 128 and 256 channels, two convolutions of 3 x 3 and one of 1 x 1.
    """

    def branches(channels: int, classes: int) -> tuple[int, int]:
        parameters, flop = 0, 0
        for source, length in ((64, 80), (128, 40), (256, 20)):
            weights = 9 * source * channels + 9 * channels * channels + channels * classes
            parameters += weights + 2 * channels + classes
            flop += 2 * weights * length**2
        return parameters, flop

    package = find_spec("nudenet")
    if package is None or package.origin is None:
        pytest.skip("the package nudenet ships the network")
    size = {"batch": 1, "height": 640, "width": 640}
    graph = read_graph(Path(package.origin).parent / "320n.onnx", size)
    more, less = branches(80, 80), branches(64, 18)
    assert graph.workload.parameter_count == 3_151_904 - more[0] + less[0]
    assert graph.workload.forward_flop / 1e9 == pytest.approx(8.7 - (more[1] - less[1]) / 1e9, abs=0.05)
    assert graph.unmapped == ()
