"""The convolution planner: shapes, vertices by hand, splits that are possible, sense on known networks."""

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.errors import NoPlanError
from podsim.models.op import Conv, Direction, Pool
from podsim.scenario import load_ipu
from podsim.scenario.assumptions import with_value
from podsim.scenario.ipu import Ipu
from podsim.tiles import Account, ConvPlan, CostModel, MatMulShape
from podsim.tiles.conv import plan_conv
from podsim.tiles.conv_cost import enumerate_splits, input_positions, kernel_share, row_splits, split_costs
from podsim.tiles.conv_method import copy_cycles, methods
from podsim.tiles.conv_shape import conv_shape
from podsim.tiles.conv_vertices import (
    TileShare,
    hmac_cycles,
    nx1_cycles,
    nx1_worker_cycles,
    outer_product_cycles,
    row_segments,
    slic_cycles,
    slic_worker_cycles,
    vmac_cycles,
)
from podsim.tiles.matmul import plan_matmul
from podsim.tiles.vector import pool_cycles

GC200 = load_ipu("gc200")
TILES = 1472
DIRECTIONS: tuple[Direction, ...] = ("forward", "input_grad", "weight_grad")


def conv(
    channels: tuple[int, int],
    size: int,
    kernel: int = 3,
    stride: int = 1,
    groups: int = 1,
    batch: int = 20,
    direction: Direction = "forward",
) -> Conv:
    out = -(-size // stride)
    return Conv(
        name="conv",
        shape=(1,),
        batch=batch,
        in_channels=channels[0],
        out_channels=channels[1],
        group_count=groups,
        input_size=(size, size),
        output_size=(out, out),
        kernel=(kernel, kernel),
        stride=(stride, stride),
        direction=direction,
    )


def plan(op: Conv, ipu: Ipu = GC200, proportion: float = 0.15, dtype: str = "fp16") -> ConvPlan:
    return plan_conv(ipu, conv_shape(op), dtype, dtype, proportion)


# Shapes


def test_all_passes_of_a_convolution_do_the_same_work() -> None:
    """2 · 20 images · 64 · 28·28 outputs · 32 channels · 9 taps; stride 2 from 56x56."""
    flop = 2 * 20 * 64 * 28 * 28 * 32 * 9
    for direction in DIRECTIONS:
        op = conv((32, 64), 56, stride=2, direction=direction)
        assert conv_shape(op).flop == op.flop == flop


def test_gradient_of_the_input_swaps_channels_and_undoes_the_stride() -> None:
    shape = conv_shape(conv((32, 64), 56, stride=2, groups=4, direction="input_grad"))
    assert (shape.groups, shape.in_channels, shape.out_channels) == (4, 16, 8)
    assert (shape.field, shape.input_size) == ((56, 56), (28, 28))
    assert (shape.stride, shape.dilation) == ((1, 1), (2, 2))


def test_gradient_of_the_weights_contracts_over_batch_and_field() -> None:
    """Rows: 32 channels x 9 taps; contracted: 20 images x 28x28; columns: 64."""
    shape = conv_shape(conv((32, 64), 56, stride=2, direction="weight_grad"))
    flat = shape.folded((0, 1)).flattened()
    assert (flat.batch, flat.in_channels, flat.out_channels) == (32 * 9, 20 * 28 * 28, 64)
    assert (flat.swapped().batch, flat.swapped().out_channels) == (64, 32 * 9)


def test_folding_repeats_the_input() -> None:
    """3x3 over 8x8 with padding: each of the 9 taps sees 8x8 inputs."""
    shape = conv_shape(conv((16, 16), 8, batch=1))
    assert shape.input_count == 16 * 8 * 8
    assert shape.folded((0, 1)).input_count == 9 * 16 * 8 * 8
    assert shape.folded((1,)).input_count == 3 * 16 * 8 * 8
    assert shape.folded((0, 1)).flop == shape.flop


def test_pointwise_gradient_after_a_stride_leaves_out_the_zeros() -> None:
    shape = conv_shape(conv((16, 32), 9, kernel=1, stride=2, direction="input_grad")).without_empty_positions()
    assert (shape.field, shape.dilation) == ((5, 5), (1, 1))


JOINED = {
    # A power of two of groups, as many as fit the 16 channels that the unit takes at once, 8 in single precision.
    "one to one": ((1, 1), 64, "fp16", 16),
    "one to one in single precision": ((1, 1), 64, "fp32", 8),
    "two to two": ((2, 2), 64, "fp16", 8),
    "one to four": ((1, 4), 64, "fp16", 4),
    "two to three": ((2, 3), 64, "fp16", 4),  # 16 // 3 = 5, of which 4
    "fewer groups than fit": ((1, 1), 6, "fp16", 4),
    "all groups": ((1, 1), 16, "fp16", 16),
    "one to twelve": ((1, 12), 64, "fp16", None),
    "wider than a block": ((1, 32), 64, "fp16", None),
    # The library joins groups of one input channel, in half precision of two as well.
    "three to three": ((3, 3), 64, "fp16", None),
    "two to two in single precision": ((2, 2), 64, "fp32", None),
    "in eight bits": ((1, 1), 64, "fp8", None),
}


@pytest.mark.parametrize(("channels", "groups", "dtype", "joined"), JOINED.values(), ids=JOINED)
def test_groups_are_joined_up_to_a_block(
    channels: tuple[int, int], groups: int, dtype: str, joined: int | None
) -> None:
    inner, outer = channels
    shape = conv_shape(conv((inner * groups, outer * groups), 14, groups=groups, batch=2))
    chip = load_ipu("c600") if dtype == "fp8" else GC200
    found = [method for method in methods(chip, shape, dtype) if method.transform.startswith("combine")]
    assert {each.transform for each in found} == (set() if joined is None else {f"combine {joined} groups"})
    for each in found:
        sizes = each.shape.groups, each.shape.in_channels, each.shape.out_channels
        assert sizes == (-(-groups // (joined or 1)), inner * (joined or 1), outer * (joined or 1))


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
@pytest.mark.parametrize(("channels", "groups"), [(64, 64), (128, 32)])
def test_a_wider_exchange_is_never_slower(channels: int, groups: int, dtype: str) -> None:
    """A word has four bytes however many arrive in a cycle; channels of a dot product fill words."""
    shape = conv_shape(conv((channels, channels), 14, groups=groups, batch=2))
    for ipu in (load_ipu("gc2"), GC200):
        chips = [with_value(ipu, "exchange.bytes_per_cycle", width) for width in (1, 2, 4, 8, 40)]
        cycles = [plan_conv(chip, shape, dtype, dtype).account.cycles for chip in chips]
        assert cycles == sorted(cycles, reverse=True)


# Positions on a tile


def test_halo() -> None:
    """4 outputs of a 3x3 kernel read 4 - 1 + 3 = 6 positions; at stride 2, 3·2 + 3 = 9; all 8 at most."""
    field = np.array([[4], [4]])
    assert input_positions(conv_shape(conv((16, 16), 64, batch=1)), np.array([1]), field)[0] == 36
    assert input_positions(conv_shape(conv((16, 16), 64, stride=2, batch=1)), np.array([1]), field)[0] == 81
    assert input_positions(conv_shape(conv((16, 16), 5, batch=1)), np.array([1]), field)[0] == 25


def test_halo_of_a_strided_gradient() -> None:
    """4 outputs and 3 taps span 6 positions, every second of which holds an input: 3 x 3."""
    shape = conv_shape(conv((16, 16), 64, stride=2, batch=1, direction="input_grad"))
    assert input_positions(shape, np.array([1]), np.array([[4], [4]]))[0] == 9


def test_taps_of_a_strided_gradient() -> None:
    """A single output meets every second tap, 2 of 3 at most; from two on all are met."""
    shape = conv_shape(conv((16, 16), 64, stride=2, batch=1, direction="input_grad"))
    met = kernel_share(shape, np.array([[1, 2], [1, 8]]), 3)
    assert [list(axis) for axis in met] == [[2, 3], [2, 3]]


def test_split_of_the_field() -> None:
    """20 images of 56x56 on one tile each way: the best split over 20·8 tiles cuts 7 rows of whole width."""
    method = next(m for m in methods(GC200, conv_shape(conv((64, 64), 56)), "fp16") if not m.transform)
    rows = row_splits(GC200, method, "fp16", "fp16")
    best = rows.best_within(np.array([160]))[0, 0]
    assert list(rows.parts[:, best]) == [20, 8, 1]
    assert rows.tiles.max() <= TILES
    assert list(rows.field[:, best]) == [7, 56]
    assert rows.owned[best] == 7 * 56


# Vertices by hand


def test_a_tile_owns_no_input_that_it_does_not_read() -> None:
    """A kernel of one in steps of two reads 28 of 56 positions of an axis, of 20 images."""
    shape = conv_shape(conv((64, 64), 56, kernel=1, stride=2))
    (method, *_) = methods(GC200, shape, "fp16")
    rows = row_splits(GC200, replace(method, shape=shape), "fp16", "fp16")
    assert (rows.tiles[0], rows.owned[0]) == (1, 20 * 28 * 28)


@pytest.mark.parametrize(("columns", "width", "phases"), [(1, 2, 1), (2, 3, 2)])
def test_a_single_column_of_a_gradient_meets_one_phase_of_the_kernel(columns: int, width: int, phases: int) -> None:
    """Between inputs of a step of two lie zeros: two columns meet the two phases of 3 taps, and one column one of 2."""
    op = conv((64, 64), 56, stride=2, groups=16, direction="input_grad")
    shape = conv_shape(replace(op, input_size=(56, columns), output_size=(28, 1)))
    method = next(each for each in methods(GC200, shape, "fp16") if each.vertex == "slic")
    splits = enumerate_splits(GC200, method, "fp16", "fp16", [(1, 1)])
    cycles, _ = split_costs(GC200, method, splits, "fp16", "fp16", None)
    of_rows, whole = splits.index, (splits.kernel == 1) & (splits.rows.field[1, splits.index] == columns)
    kernel_rows = np.minimum(3, 2 * splits.rows.field[0, of_rows])
    share = TileShare(splits.group_share, splits.in_share, splits.out_share, 0, kernel_rows, width)
    expected = slic_cycles(GC200, share, splits.rows.slowest[of_rows], 4, phases)
    assert whole.any()
    assert list(cycles[0, whole]) == list(expected[whole])


def test_workers_share_rows_evenly() -> None:
    """Eight rows of 9: 72 positions, 12 each: a whole row and a third of another."""
    segments = row_segments(6, np.array([8]), np.array([9]))
    done = segments.first + segments.whole * 9 + segments.last
    assert done.ravel().tolist() == [12] * 6
    assert segments.whole.ravel().tolist() == [1, 0, 1, 1, 0, 1]


@given(rows=st.integers(1, 60), width=st.integers(1, 60))
def test_workers_do_all_positions(rows: int, width: int) -> None:
    segments = row_segments(6, np.array([rows]), np.array([width]))
    assert (segments.first + segments.whole * width + segments.last).sum() == rows * width


def test_nx1_worker() -> None:
    """Six rows of 56, one per worker: 17 + 1 for half partials, 3 - 9 + 34 + 4·53 for the row."""
    slowest, fastest = nx1_worker_cycles(GC200, row_segments(6, np.array([6]), np.array([56])), "fp16", "fp16")
    assert slowest[0] == fastest[0] == 18 + 3 - 9 + 34 + 4 * 53


def test_nx1_vertex() -> None:
    """One block of 3x3 over 6 rows of 56: the formula of the estimator, term by term."""
    worker = 258
    load = 64 + 15 + 3
    inner = 3 * (14 + 3 * (12 + load)) + 9 * (6 * worker + 9)
    zero = 6 * (56 * 16 // 4 + 5)
    expected = 109 + 6 * 9 + 6 * 10 + zero + (17 + 0 + 1) + 1 + 16 + 14 + 14 + inner
    share = TileShare(1, 1, 1, 6 * 56, 3, 3)
    assert nx1_cycles(GC200, share, (worker, worker), 1, "fp16", "fp16") == expected


def test_nx1_float_partials_take_two_passes_of_half_the_weights() -> None:
    share = TileShare(1, 1, 1, 6, 1, 1)
    half, single = (int(nx1_cycles(GC200, share, (100, 100), 1, "fp16", p)) for p in ("fp16", "fp32"))
    one_pass = lambda load: load + 15 + 3 + 6 * 100 + 9  # noqa: E731
    assert single - half == 2 * one_pass(32) - one_pass(64) + 6 * (8 - 4)


def test_slic_vertex() -> None:
    """Rows of 9, one per worker: 10 + 15 + 4; a 3x3 kernel is three parts of a row."""
    slowest = slic_worker_cycles(GC200, row_segments(6, np.array([6]), np.array([9])), 1, "fp16")
    assert slowest[0] == 29
    assert slic_cycles(GC200, TileShare(2, 1, 1, 54, 3, 3), 29, 4) == 28 + 2 * 3 * (18 + 34 + 6 * 29)
    # Every second position of a row of 5 taps: rows of 3 and 2 taps, a part each.
    assert slic_cycles(GC200, TileShare(1, 1, 1, 54, 5, 5), 29, 1, phases=2) == 28 + 5 * 2 * (18 + 105 + 6 * 29)


def test_vmac_vertex() -> None:
    """8 groups, 12 outputs, 3x3: 36 row segments, 6 per worker, of 22 + 3·3."""
    one = 4 + 12 * 8 // 4 + 32 + 24 + 6 * (13 + 6 * (22 + 9)) + 10 + 12 * 12
    assert vmac_cycles(GC200, TileShare(1, 1, 1, 12, 3, 3), 8) == 100 + one


def test_hmac_and_outer_product_vertices() -> None:
    """12 outputs, two per worker: 20 + 6/4 for each tap, whole cycles. 30 positions of 16 channels: 5 per worker."""
    assert hmac_cycles(GC200, TileShare(1, 3, 1, 12, 3, 3), 2, "fp16") == 11 + 6 * 2 * 9 * (20 + 2)
    assert outer_product_cycles(GC200, TileShare(1, 1, 16, 30, 1, 1)) == 11 + 6 * (25 + 10 + 5 * (6 + 1))


def test_pool_vertex() -> None:
    """240 halves: 10 vectors per worker in two rows of 5; 9 taps of 3 cycles, 5 backward."""
    assert pool_cycles(GC200, 240, 5, 9, "fp16", backward=False) == 11 + 6 * (2 * 30 + 10 * 9 * 3)
    assert pool_cycles(GC200, 240, 5, 9, "fp16", backward=True) == 11 + 6 * (2 * 30 + 10 * 9 * 5)


def test_copy_of_a_transform() -> None:
    """1000 halves per tile: 288 + 1.25 cycles each, 2000 bytes at 4 per cycle."""
    assert copy_cycles(GC200, 1000 * TILES, "fp16", None) == 288 + 1250 + 500
    assert copy_cycles(GC200, 0, "fp16", None) == 0


# Plans


@pytest.mark.parametrize(
    ("batch", "inner", "columns", "size"), [(20, 64, 256, 56), (1, 512, 2048, 7), (3, 100, 40, 13)]
)
@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_kernel_of_one_is_a_matrix_product(batch: int, inner: int, columns: int, size: int, dtype: str) -> None:
    """Both round the share of an operand that a tile owns, one down and one up: a cycle of the exchange."""
    convolution = plan(conv((inner, columns), size, kernel=1, batch=batch), dtype=dtype)
    product = plan_matmul(GC200, MatMulShape(batch * size * size, inner, columns), dtype, dtype, 0.15)
    assert asdict(convolution.account) == pytest.approx(asdict(product.account), abs=1)
    assert convolution.temporary_bytes_per_tile == product.temporary_bytes_per_tile
    assert convolution.tiles_used == product.tiles_used


def test_partials_in_single_precision_are_cast_once_they_are_summed() -> None:
    """20·64·28·28 results are 682 on a tile, 114 of a worker, 29 vectors of 4: 11 + 6·(37 + 29) cycles."""
    shape = conv_shape(conv((64, 64), 28))
    assert plan_conv(GC200, shape, "fp16", "fp16").account.rearrange == 0
    assert plan_conv(GC200, shape, "fp16", "fp32").account.rearrange == 11 + 6 * (37 + 29) == 407


def test_swapped_operands_leave_the_result_where_it_is_wanted() -> None:
    """100 positions with 8 channels in and 16 out: 800 inputs, 128 weights and 1,600 results that are out of order."""
    shape = conv_shape(conv((8, 16), 10, kernel=1, batch=1))
    shape = replace(shape, input_arranged=False, weights_arranged=False, result_arranged=False)
    moved = {method.transform: method.moved_count for method in methods(GC200, shape, "fp16") if method.vertex == "amp"}
    assert moved == {"": 800 + 128 + 1600, "swap operands": 800 + 128}


@settings(max_examples=40, deadline=None)
@given(
    channels=st.tuples(st.integers(1, 24), st.integers(1, 24)),
    groups=st.sampled_from([1, 2, 32]),
    size=st.integers(1, 40),
    kernel=st.sampled_from([1, 2, 3, 5, 7]),
    stride=st.sampled_from([1, 2]),
    batch=st.integers(1, 6),
    direction=st.sampled_from(DIRECTIONS),
    dtype=st.sampled_from(["fp16", "fp32"]),
)
def test_split_is_possible(
    channels: tuple[int, int],
    groups: int,
    size: int,
    kernel: int,
    stride: int,
    batch: int,
    direction: Direction,
    dtype: str,
) -> None:
    wide = (channels[0] * groups, channels[1] * groups)
    chosen = plan(conv(wide, size, kernel, stride, groups, batch, direction), dtype=dtype)
    assert 1 <= chosen.tiles_used <= TILES
    assert chosen.temporary_bytes_per_tile > 0
    assert 0 <= chosen.utilization(GC200) < 1
    assert min(value for _, value in chosen.account.parts()) > 0


@settings(max_examples=12, deadline=None)
@given(
    channels=st.tuples(st.integers(1, 256), st.integers(1, 256)),
    size=st.integers(7, 56),
    direction=st.sampled_from(DIRECTIONS),
)
def test_more_memory_is_never_slower(channels: tuple[int, int], size: int, direction: Direction) -> None:
    op = conv(channels, size, batch=4, direction=direction)
    tight, wide = (plan(op, proportion=proportion) for proportion in (0.05, 0.6))
    assert (
        wide.account.cycles <= tight.account.cycles or tight.temporary_bytes_per_tile > 0.05 * GC200.tile.memory_bytes
    )


def test_memory_bound_is_kept() -> None:
    for direction in DIRECTIONS:
        chosen = plan(conv((512, 512), 14, direction=direction), proportion=0.1)
        assert chosen.temporary_bytes_per_tile <= 0.1 * GC200.tile.memory_bytes


def test_a_faster_exchange_is_never_slower() -> None:
    fast = with_value(GC200, "exchange.bytes_per_cycle", 8)
    for direction in DIRECTIONS:
        op = conv((256, 256), 14, direction=direction)
        assert plan(op, fast).account.cycles < plan(op).account.cycles


def test_one_and_three_spatial_axes() -> None:
    for axes in (1, 3):
        size, ones = (16,) * axes, (1,) * axes
        for direction in DIRECTIONS:
            op = Conv(
                name="conv", shape=(1,), batch=2, in_channels=32, out_channels=32, direction=direction,
                input_size=size, output_size=size, kernel=(3,) * axes, stride=ones,
            )  # fmt: skip
            assert len(plan(op).shape.field) == axes


def test_a_convolution_beyond_any_memory_is_refused() -> None:
    with pytest.raises(NoPlanError, match="a convolution of 20x16x4096x2000000x2000000 and 3x3 is too large"):
        plan(conv((16, 4096), 2_000_000))


# Sense on known networks


def test_efficiency_on_a_residual_network() -> None:
    """Spatial kernels reuse their input, small maps cost row work lists, three channels fill no block."""
    share = {size: plan(conv((width, width), size)).utilization(GC200) for size, width in ((56, 64), (7, 512))}
    assert share[7] < share[56]
    pointwise = plan(conv((64, 64), 56, kernel=1)).utilization(GC200)
    assert pointwise < share[56]
    assert all(0.3 < each < 0.65 for each in (*share.values(), pointwise))


def test_stem_gives_input_channels_to_kernel_rows() -> None:
    """3 channels of 16 would leave 81 % idle; with 4 rows of the kernel at once 7/8 · 3/4 are used."""
    stem = plan(conv((3, 64), 224, kernel=7, stride=2))
    assert stem.method.filter_height == 4
    assert 3 / 16 < stem.utilization(GC200) < 7 / 8 * 3 / 4


def test_vertices_of_grouped_convolutions() -> None:
    depthwise = plan(conv((240, 240), 28, kernel=5, groups=240, batch=8))
    assert depthwise.method.vertex == "slic"
    assert plan(conv((128, 128), 56, groups=32, batch=8)).method.vertex == "slic"
    assert plan(conv((240, 240), 28, groups=15, batch=8)).method.vertex == "amp"
    assert plan(conv((240, 240), 28, kernel=5, groups=240, batch=8, direction="weight_grad")).method.vertex == "vmac"


def test_groups_of_sixteen_beat_depthwise_per_flop() -> None:
    """The reason of EfficientNet with grouped convolutions [masters2021]."""
    depthwise, grouped = (plan(conv((240, 240), 28, groups=g, batch=8)) for g in (240, 15))
    assert grouped.utilization(GC200) > 2 * depthwise.utilization(GC200)


# In the cost model


def test_cost_model_plans_a_convolution_once() -> None:
    model = CostModel(GC200, layout_change_cycles_per_byte=1.0)
    op = conv((64, 64), 28)
    first, second = model.op(op, 0.2), model.op(op, 0.2)
    assert first.plan is second.plan is model.conv_plan(op, 0.2)
    assert first.account == first.plan.account
    assert first.temporary_bytes_per_tile == first.plan.temporary_bytes_per_tile


def test_pooling() -> None:
    """240 halves per tile leave it at 4 bytes per cycle."""
    op = Pool(name="pool", shape=(240 * TILES // 5, 5), window=9)
    account = CostModel(GC200, layout_change_cycles_per_byte=1.0).op(op, 0.2).account
    vector = pool_cycles(GC200, 240, 5, 9, "fp16", backward=False)
    assert account == Account(vector=vector, exchange=120, superstep=2 * GC200.superstep.overhead_cycles)
