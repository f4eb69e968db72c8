"""Work that depends on what graphs of a framework do: layouts of accumulators, unexplained work, narrow products."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.models.op import MatMul, Unexplained
from podsim.scenario import load_ipu, load_scenario
from podsim.tiles import CostModel
from podsim.tiles.amp import amp_vertex_cycles, out_grains, weight_load_cycles
from podsim.tiles.conv_shape import ConvShape

GC200 = load_ipu("gc200")
TILES = GC200.tile.count


def test_a_gradient_changes_its_layout_only_for_accumulators_like_weights() -> None:
    """1,472 x 512 halves are 1,024 B a tile: two copies of 288 + 2·1,024 cycles and 256 of exchange, two supersteps."""
    gradient = MatMul(name="g", shape=(1, TILES, 512), inner=64, is_weight_gradient=True)
    follows, stays = (
        CostModel(GC200, 2.0, accumulators_like_weights=flag).op(gradient, 0.6).account for flag in (False, True)
    )
    assert stays.rearrange - follows.rearrange == 2 * (288 + 2 * 1024) + 256
    assert stays.superstep - follows.superstep == 2 * GC200.superstep.overhead_cycles


@pytest.mark.parametrize(
    ("split", "traced", "cycles"), [(True, False, 10.0 * 1024), (False, True, 10.0 * 1024), (False, False, 0.0)]
)
def test_unexplained_work_is_that_of_split_weights_and_traced_graphs(split: bool, traced: bool, cycles: float) -> None:
    """1,024 B of the hidden state on a tile at 10 cycles each."""
    op = Unexplained(name="u", shape=(TILES, 512), split_weights=split)
    model = CostModel(GC200, 1.0, unexplained_cycles_per_byte=10.0, traces_graphs=traced)
    assert model.op(op, 0.6).account.cycles == cycles


def test_samples_of_unexplained_work_change_costs_with_the_splits_of_another_model() -> None:
    op = Unexplained(name="u", shape=(TILES, 512), split_weights=True)
    first, second = (CostModel(GC200, 1.0, unexplained_cycles_per_byte=rate) for rate in (10.0, 20.0))
    repriced = second.with_splits(first)
    assert repriced is not None
    assert repriced.op(op, 0.6).account.cycles == 20 * 1024


def test_layers_of_split_and_of_traced_graphs_have_it() -> None:
    """PopART's BERT on POD64 has one weight, on POD16 three; PyTorch traces, TensorFlow does not."""
    for name, split, traced in (
        ("bert_v1.1_pod64_open", False, False),
        ("bert_v1.1_pod16_open", True, False),
        ("bert_base_phase1_pod16", True, False),
        ("gpt2_small_pod16", False, True),
        ("bert_large_phase1_tensorflow1_pod16", False, False),
    ):
        spec = load_scenario(name).spec
        assert getattr(spec.model, "split_qkv", False) is split, name
        assert spec.software.traces_graphs is traced, name


def test_few_channels_are_computed_in_groups_of_eight() -> None:
    """4 and 24 channels pad fewer to 8 than to 16; 16 and 32 do not. Half of 16 units load 32 cycles of weights."""
    assert [out_grains(GC200, channels) for channels in (4, 16, 24, 32)] == [(16, 8), (16,), (16, 8), (16,)]
    assert weight_load_cycles(GC200, "fp16", "fp16") == (1, 64)
    assert weight_load_cycles(GC200, "fp16", "fp16", 8) == (1, 32)
    # With single partials the unit has 8 columns: a group of 16 takes two passes, one of 8 takes one.
    assert weight_load_cycles(GC200, "fp16", "fp32") == (2, 32)
    assert weight_load_cycles(GC200, "fp16", "fp32", 8) == (1, 32)
    whole, half = (int(amp_vertex_cycles(GC200, 6000, 1, 1, 1, "fp16", "fp32", grain)) for grain in (16, 8))
    assert half == pytest.approx(whole / 2, rel=0.01)


def test_outputs_over_one_input_element_become_channels() -> None:
    """The input gradient of a filter as wide as its image: each of 200 outputs meets one of 200 filter positions."""
    shape = ConvShape(
        groups=1,
        batch=2,
        in_channels=100,
        out_channels=1,
        field=(15, 200),
        kernel=(5, 200),
        stride=(1, 1),
        dilation=(1, 1),
        kernel_dilation=(1, 1),
        input_size=(11, 1),
    )
    assert shape.lone_axes == (1,)
    spread = shape.spread((1,))
    assert (spread.out_channels, spread.field, spread.kernel) == (200, (15, 1), (5, 1))
    assert spread.weight_count == shape.weight_count
    assert spread.result_count == shape.result_count
    assert spread.flop == shape.flop / 200
    assert replace(shape, input_size=(11, 2)).lone_axes == ()
