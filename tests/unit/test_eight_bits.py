"""FP8 operands of products in forward passes: rates, bytes, casts and weights by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import podsim
from podsim.cli.app import app
from podsim.errors import MissingDataError, SpecError
from podsim.models import Workload
from podsim.models.block import Block, Parameter
from podsim.models.eight_bits import with_products_in_fp8
from podsim.models.layers import GraphBuilder, linear
from podsim.models.op import Conv, MatMul
from podsim.placement.alive import LiveOp, needs
from podsim.result.perfetto import build_timeline
from podsim.scenario import ForwardScenario, load_ipu, load_scenario
from podsim.tiles import MatMulShape
from podsim.tiles.amp import amp_vertex_cycles
from podsim.tiles.conv import plan_conv
from podsim.tiles.conv_shape import ConvShape, conv_shape
from podsim.tiles.matmul import plan_matmul
from podsim.tiles.model import CostModel
from podsim.tiles.vector import elementwise_cycles
from podsim.watch import silent

C600, GC200 = load_ipu("ipu_c600"), load_ipu("gc200")
BERT = "bert_base_c600"
FP8 = "precision.products=fp8"
HIDDEN, INNER, LAYERS = 768, 3072, 12
MATRICES = LAYERS * (4 * HIDDEN**2 + 2 * HIDDEN * INNER)
"""Weights of the layers of BERT-Base, or ViT-Base."""


def passes(scenario: Any, *overrides: str) -> Workload:
    return read(scenario, FP8, *overrides)


def read(scenario: Any, *overrides: str) -> Workload:
    loaded = load_scenario(scenario, overrides=overrides)
    spec = loaded.require(ForwardScenario)
    return spec.model.read(spec, loaded.folder, silent).workload


def casts(block: Block) -> list[str]:
    return [op.name for op in block.forward if op.dtype == "fp8"]


def test_the_peak_of_the_card() -> None:
    """1,472 tiles of 16·32/4 multiply-adds at 1.486 GHz: 560 TFLOP/s, as published, twice that of half precision."""
    assert C600.peak_flop_per_s("fp8") == pytest.approx(560e12, rel=1e-3)
    assert C600.peak_flop_per_s("fp8") == 2 * C600.peak_flop_per_s("fp16")


def test_a_vertex_by_hand() -> None:
    """6,000 rows of 64 channels, two groups of 32, times 64 columns, four groups of 16.

    A worker takes 1,000 rows: 37 | 38 - 7 + 4·997 = 4,018 | 4,019 in the first | later pass, six of them and 14 - 6·0
    cycles of tail 24,122 | 24,128. A load takes 16 units·32 B / 8 B = 64 cycles.
    50 + 6·(7 + 3) + 13 + (15 + 4·(19 + 6 + 64 + 24,128)) + 11 + 4·(18 + 7 + 64 + 24,122) = 193,861,
    in which 6,000·64·64 multiply-adds at 128 per cycle take 192,000.
    """
    assert int(amp_vertex_cycles(C600, 6000, 2, 4, dtype="fp8")) == 193_861


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 4000), inner=st.integers(1, 1000), columns=st.integers(1, 2000), groups=st.integers(1, 4))
def test_twice_the_channels_in_as_many_bytes_cost_as_much(rows: int, inner: int, columns: int, groups: int) -> None:
    """32 numbers of a byte are a group of channels and fill the bytes of 16 of two: split, cycles of every kind and
    temporaries are the same, so that operands of equal shape take half the bytes and half the cycles of the unit.

    With all of a tile's memory allowed and so few elements nothing is cut into slices, which are copied by element.
    """
    eight = plan_matmul(C600, MatMulShape(rows, 2 * inner, columns, groups), "fp8", "fp16", 1.0)
    half = plan_matmul(C600, MatMulShape(rows, inner, columns, groups), "fp16", "fp16", 1.0)
    assert (eight.account, eight.temporary_bytes_per_tile) == (half.account, half.temporary_bytes_per_tile)
    assert eight.tiles_used == half.tiles_used


def conv(channels: int, kernel: int = 3) -> ConvShape:
    sizes = {"input_size": (28, 28), "output_size": (28, 28), "kernel": (kernel, kernel), "stride": (1, 1)}
    return conv_shape(
        Conv(name="conv", shape=(8, 128, 28, 28), batch=8, in_channels=channels, out_channels=128, **sizes)
    )


@pytest.mark.parametrize("kernel", [1, 3])
def test_so_it_is_in_convolutions(kernel: int) -> None:
    eight = plan_conv(C600, conv(256, kernel), "fp8", copy_cycles_per_byte=1.5)
    half = plan_conv(C600, conv(128, kernel), "fp16", copy_cycles_per_byte=1.5)
    assert (eight.account, eight.temporary_bytes_per_tile) == (half.account, half.temporary_bytes_per_tile)


def test_few_channels_go_to_the_matrix_unit_too() -> None:
    """In half precision dot products compute three output channels; they take no FP8."""
    shape = conv_shape(
        Conv(
            name="conv",
            shape=(1, 3, 8, 8),
            batch=1,
            in_channels=3,
            out_channels=3,
            input_size=(8, 8),
            output_size=(8, 8),
            kernel=(1, 1),
            stride=(1, 1),
        )
    )
    assert plan_conv(C600, shape, "fp16").method.vertex != "amp"
    assert plan_conv(C600, shape, "fp8").method.vertex == "amp"


def test_operands_that_are_laid_out_anew_are_of_one_byte() -> None:
    """Two copies at 2 cycles per byte and exchange at 4 B per cycle, of 1,472,000 elements or 1,000 B per tile."""
    model = CostModel(C600, 2.0)
    laid_out, not_yet = (
        MatMul(name="p", shape=(1, 1472, 16), inner=1000, operands="fp8", left_arranged=arranged, right_arranged=True)
        for arranged in (True, False)
    )
    cycles = [model.op(op, 0.6).account.rearrange for op in (laid_out, not_yet)]
    assert cycles[1] - cycles[0] == 2 * (288 + 2 * 1000) + 1000 / 4


def test_a_convolution_copies_a_cast_into_larger_groups_of_channels() -> None:
    """1,472,000 numbers of a byte are 1,000 B a tile: one copy of 288 + 2·1,000 cycles in a superstep."""
    sizes = {"input_size": (100, 115), "output_size": (100, 115), "kernel": (1, 1), "stride": (1, 1)}
    op = Conv(name="c", shape=(1, 16, 100, 115), batch=1, in_channels=128, out_channels=16, operands="fp8", **sizes)
    model = CostModel(C600, 2.0)
    there, not_yet = (model.op(replace(op, regrouped=flag), 0.6).account for flag in (False, True))
    assert not_yet.rearrange - there.rearrange == 288 + 2 * 1000
    assert not_yet.superstep - there.superstep == C600.superstep.overhead_cycles
    read = [each for block in passes("resnet50_c600").blocks.values() for each in block.forward]
    assert {each.regrouped for each in read if isinstance(each, Conv)} == {True}


def test_constant_scales_take_no_passes() -> None:
    """A forward pass adds to each block its casts and nothing else."""
    half, eight = (read(BERT, *changes).blocks for changes in ((), (FP8,)))
    for name, block in eight.items():
        assert len(block.forward) - len(half[name].forward) == len(casts(block))


def test_a_cast_by_hand() -> None:
    """As one from half to single precision: 240 elements by six workers, four at a time: 11 + 6·(37 + 10)."""
    assert elementwise_cycles(C600, "cast", 240, "fp8") == 11 + 6 * (37 + 10)


def test_casts_of_a_transformer() -> None:
    """One in front of each product with weights; scores and context read half precision."""
    blocks = passes(BERT).blocks
    assert {name: casts(block) for name, block in blocks.items()} == {
        "embedding": [],
        "attention": ["attention/input/fp8", "attention/context/fp8"],
        "feed_forward": ["feed_forward/input/fp8", "feed_forward/gelu/fp8"],
        "head": ["head/input/fp8"],
    }
    operands = {op.name: op.operand_dtype for op in blocks["attention"].forward if isinstance(op, MatMul)}
    assert operands == {
        "attention/qkv": "fp8",
        "attention/scores": "fp16",
        "attention/context": "fp16",
        "attention/projection": "fp8",
    }


def test_three_products_of_one_input_share_its_cast() -> None:
    block = passes(BERT, "model.qkv_products=3").blocks["attention"]
    assert casts(block) == ["attention/input/fp8", "attention/context/fp8"]
    readers = [op.name for op in block.forward if "attention/input/fp8" in op.inputs]
    assert readers == ["attention/query", "attention/key", "attention/value"]


def test_results_and_all_else_stay_half() -> None:
    ops = [op for block in passes(BERT).blocks.values() for op in block.forward]
    assert {op.dtype for op in ops if not op.name.endswith("/fp8")} == {"fp16", "fp32"}
    assert {op.dtype for op in ops if isinstance(op, MatMul)} == {"fp16"}


def test_casts_of_a_residual_block() -> None:
    """Its two ways begin with a cast of one input: three casts for four convolutions."""
    workload = passes("resnet50_c600")
    found = {
        (len(casts(block)), sum(isinstance(op, Conv) and op.operands == "fp8" for op in block.forward))
        for block in workload.blocks.values()
        if any(isinstance(op, Conv) for op in block.forward)
    }
    assert found == {(1, 1), (3, 3), (3, 4)}


def test_grouped_convolutions_stay_half() -> None:
    """A depthwise one has vertices of its own, for half precision alone."""
    network = {
        "system": "c600",
        "software": "popart_sdk_3.1",
        "model": {"kind": "efficientnet", "size": "b0"},
        "data": {"decoded_by_host": False},
        "forward": {"batch_size": 1},
    }
    convs = [op for block in passes(network).blocks.values() for op in block.forward if isinstance(op, Conv)]
    assert {op.operand_dtype for op in convs if op.group_count > 1} == {"fp16"}
    assert {op.operand_dtype for op in convs if op.group_count == 1} == {"fp8"}


def weight_bytes(scenario: Any, *overrides: str) -> int:
    rows = podsim.infer(scenario, overrides=overrides).memory.rows
    return sum(row.size_bytes for row in rows if row.tenant == "weights")


def test_weights_of_layers_take_half_the_room() -> None:
    """Matrices one byte each less; two scores for every token as well. Tables, biases and norms keep their format."""
    assert weight_bytes(BERT) - weight_bytes(BERT, FP8) == MATRICES + 2 * HIDDEN


def test_weights_that_were_the_table_of_words_are_a_copy_of_it_in_fp8() -> None:
    """The table is looked up in half precision; 1,000 words of 768 at one byte come on top."""
    decoder = {
        "system": "c600",
        "software": "popart_sdk_3.1",
        "model": {"kind": "decoder", "size": "gpt2_small", "layer_count": 2, "vocabulary_size": 1000},
        "data": {"sequence_length": 128},
        "forward": {"batch_size": 1},
    }
    assert weight_bytes(decoder) - weight_bytes(decoder, FP8) == MATRICES * 2 // LAYERS - 1000 * HIDDEN


def test_a_cast_takes_room_beside_what_it_reads() -> None:
    """From one number to 100 and back: 200 B of the first result and 100 B of its cast, which cannot lie on it."""
    g = GraphBuilder("block")
    linear(g, "down", 1, 100, 1, linear(g, "up", 1, 1, 100, "@input", bias=False), bias=False)
    weights = (Parameter("up/weight", (1, 100)), Parameter("down/weight", (100, 1)))
    block = Block("block", g.ops(), (), weights, 1, 0)
    workload = with_products_in_fp8(Workload("model", {"block": block}, ("block",), 1, host_input_bytes=2))
    without_temporaries = [LiveOp(op) for op in workload.blocks["block"].forward]
    assert needs(workload, "block", without_temporaries, []).forward.byte_count == 300


def test_it_is_counted_against_the_peak_of_its_format() -> None:
    half, eight = (podsim.infer(BERT, overrides=changes) for changes in ((), (FP8,)))
    assert eight.peak_flop_per_s == 2 * half.peak_flop_per_s
    assert eight.flop_per_batch == half.flop_per_batch


def test_half_asked_for_is_what_is_left_out() -> None:
    assert podsim.infer(BERT, overrides=["precision.products=fp16"]).latency_s == podsim.infer(BERT).latency_s


@pytest.mark.parametrize(
    ("scenario", "overrides", "message", "do"),
    [
        ("vit_base_pod4", [FP8], "the matrix unit of GC200 takes no FP8", "--set system=c600"),
        (BERT, [FP8, "precision.matmul_partials=fp32"], "products in fp8 with matmul_partials in fp32", "fp16"),
        (
            BERT,
            [FP8, "precision.activations=fp32", "precision.weights=fp32"],
            "products in fp8 with activations in fp32",
            "fp16",
        ),
        (BERT, ["precision.products=fp32"], "products in fp32 with activations in fp16", "leave `products` out"),
    ],
)
def test_what_there_is_not(scenario: str, overrides: list[str], message: str, do: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_scenario(scenario, overrides=overrides)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert do in problem.do


def test_a_graph_of_a_file_has_them_too(tmp_path: Path) -> None:
    """128 rows through 64 x 256 and 256 x 32 weights, a byte less each: a cast in front of both products.

    What is cast takes half the room of what it is cast from beside it.
    """
    from tests.unit.onnx_examples import products

    path = products(128, 64, 256, 32).save(tmp_path / "net.onnx")
    graph = {
        "system": "c600",
        "software": "popart_sdk_3.1",
        "model": {"kind": "graph", "file": str(path)},
    }
    assert weight_bytes(graph) - weight_bytes(graph, FP8) == 64 * 256 + 256 * 32
    half, eight = (read(graph, *changes) for changes in ((), (FP8,)))
    for name, block in eight.blocks.items():
        assert [op.operand_dtype for op in block.forward if isinstance(op, MatMul)] == ["fp8"]
        (cast,) = (op for op in block.forward if op.dtype == "fp8")
        assert block.live_elements == (half.blocks[name].live_elements or 0) + cast.element_count // 2
    assert [op.element_count for block in eight.blocks.values() for op in block.forward if op.dtype == "fp8"] == [
        128 * 64,
        128 * 256,
    ]


def test_the_cost_model_refuses_it_as_well() -> None:
    with pytest.raises(MissingDataError, match="takes no FP8"):
        plan_matmul(GC200, MatMulShape(64, 64, 64), "fp8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dtype", "fp8"], "--dtype: the matrix unit of GC200 takes no FP8\n  do: use fp16, or a chip that does"),
        (["--ipu", "ipu_c600", "--dtype", "fp8", "--partials", "fp32"], "fp8 operands have no fp32 partials"),
    ],
)
def test_wrong_products_of_the_command_line(podsim: Callable[..., Any], arguments: list[str], message: str) -> None:
    code, text = podsim("cost", "matmul", "64x64x64", *arguments)
    assert code != 0
    assert message in text


def test_a_product_of_the_command_line() -> None:
    told = CliRunner().invoke(app, ["cost", "matmul", "4096x4096x4096", "--ipu", "ipu_c600", "--dtype", "fp8"])
    assert told.exit_code == 0 and "fp8, partials fp16, on one C600" in told.output


def test_operations_of_a_timeline_name_their_operands() -> None:
    changes = [FP8, "model.layer_count=1", "forward.batches_per_call=1"]
    result = podsim.infer(BERT, overrides=changes, record=True)
    events = build_timeline(result.trace, passes=result.passes).events
    operands = {event["name"]: event["args"].get("operands") for event in events if "dtype" in event.get("args", {})}
    assert (operands["attention/qkv"], operands["attention/scores"]) == ("fp8", None)
