"""The planner: splits that cover the product, fit the bound and meet silicon."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from podsim.scenario import load_ipu
from podsim.scenario.assumptions import with_value
from podsim.scenario.ipu import Ipu
from podsim.tiles import MatMulShape
from podsim.tiles.matmul import plan_matmul
from podsim.tiles.split import choose, frontier, reduce_vertex_cycles, slice_cycles
from podsim.tiles.vector import elementwise_cycles
from podsim.validation.compare import compare_gemms
from podsim.validation.comparison import summarize

GC200 = load_ipu("gc200")
BOW = load_ipu("bow")
EXTENTS = st.integers(min_value=1, max_value=3000)


def test_a_shipped_chip_by_its_short_name() -> None:
    assert [load_ipu(name).name for name in ("gc200", "BOW", "c600", "gc2")] == ["GC200", "Bow", "C600", "GC2"]


def test_both_formats_meet_72_measured_products() -> None:
    for summary in summarize(compare_gemms(BOW)):
        assert summary.rms <= 0.075, summary


def test_a_tile_sized_product_stays_on_one_tile_or_pays_for_exchange() -> None:
    """(96, 16) x (16, 16): one block of 16 rows each on six tiles costs the exchange of the weights."""
    plan = plan_matmul(GC200, MatMulShape(96, 16, 16))
    assert plan.row_parts == math.ceil(96 / math.ceil(96 / plan.row_parts))
    assert plan.column_parts == plan.inner_parts == 1
    assert plan.account.superstep == 2 * GC200.superstep.overhead_cycles


@settings(max_examples=40, deadline=None)
@given(rows=EXTENTS, inner=EXTENTS, columns=EXTENTS, groups=st.integers(1, 40))
def test_split_is_possible(rows: int, inner: int, columns: int, groups: int) -> None:
    plan = plan_matmul(GC200, MatMulShape(rows, inner, columns, groups))
    assert 1 <= plan.tiles_used <= GC200.tile.count
    assert plan.temporary_bytes_per_tile > 0
    assert 0 < plan.utilization(GC200) < 1
    assert min(value for _, value in plan.account.parts()) > 0


@settings(max_examples=15, deadline=None)
@given(rows=EXTENTS, inner=EXTENTS, columns=EXTENTS)
def test_more_memory_is_never_slower(rows: int, inner: int, columns: int) -> None:
    shape = MatMulShape(rows, inner, columns)
    tight, wide = (plan_matmul(GC200, shape, available_memory_proportion=p) for p in (0.05, 0.6))
    assert wide.account.cycles <= tight.account.cycles


def test_memory_bound_is_kept() -> None:
    plan = plan_matmul(GC200, MatMulShape(1024, 1024, 4096), available_memory_proportion=0.1)
    assert plan.temporary_bytes_per_tile <= 0.1 * GC200.tile.memory_bytes


def test_a_reduction_holds_the_partials_that_leave_and_those_that_come() -> None:
    """(1, 65536) x (65536, 16): neither rows nor columns can be parted, so that nothing is broadcast and the
    contracted axis goes over the tiles. While the sums run, a tile holds its 16 halves twice: 64 bytes."""
    plan = plan_matmul(GC200, MatMulShape(1, 65536, 16))
    assert (plan.row_parts, plan.column_parts) == (1, 1)
    assert plan.inner_parts > 1
    assert plan.temporary_bytes_per_tile == 2 * 16 * 2


def test_single_precision_is_slower_than_half() -> None:
    shape = MatMulShape(4096, 4096, 4096)
    half, single = (plan_matmul(GC200, shape, dtype, dtype) for dtype in ("fp16", "fp32"))
    assert 2 < single.account.cycles / half.account.cycles < 5


def test_a_faster_exchange_is_never_slower() -> None:
    shape = MatMulShape(1024, 1024, 1024)
    fast = with_value(GC200, "exchange.bytes_per_cycle", 8)
    assert plan_matmul(fast, shape).account.cycles < plan_matmul(GC200, shape).account.cycles


def test_reduction_by_hand() -> None:
    """96 halves of depth 4: 12 vectors, 2 per worker: 33 + 6·(20 + 2·(2·4 + 9)) = 357."""
    assert reduce_vertex_cycles(GC200, 96, 4, "fp16") == 357


@pytest.mark.parametrize(
    ("column_slices", "inner_slices", "cycles"),
    [
        (1, 1, 0),
        (2, 1, (210 + 100) + (210 + 60)),  # results are put side by side
        (1, 2, (210 + 100) + (11 + 6 * (26 + 3 * 10))),  # results are added, 240 halves on each tile
    ],
)
def test_slices_are_cut_and_joined_by_hand(column_slices: int, inner_slices: int, cycles: int) -> None:
    """A copy starts in 30 + 6·30 = 210 cycles and moves 2 elements per cycle on each of 1,472 tiles."""
    weights, results = 2 * 100 * 2 * 1472, 240 * 1472
    found = slice_cycles(GC200, weights, results, np.array([column_slices]), np.array([inner_slices]), "fp16")
    assert found.tolist() == [cycles]


@pytest.mark.parametrize(
    ("function", "dtype", "elements", "cycles"),
    [
        ("add", "fp16", 240, 11 + 6 * (26 + 3 * 10)),
        ("add", "fp32", 240, 11 + 6 * (26 + 3 * 20)),
        ("gelu", "fp16", 241, 11 + 6 * (20 + 5 * 11)),
        ("exp", "fp16", 1, 11 + 6 * (33 + 4)),
    ],
)
def test_elementwise_by_hand(function: str, dtype: str, elements: int, cycles: int) -> None:
    """launch + 6·(fixed + cycles·ceil(ceil(n/6)/vector))."""
    assert elementwise_cycles(GC200, function, elements, dtype) == cycles


def test_bow_runs_the_same_plan_faster_by_its_clock() -> None:
    shape = MatMulShape(1024, 1024, 1024)
    gc200, bow = (plan_matmul(ipu, shape).account.cycles for ipu in (GC200, BOW))
    assert gc200 == bow
    ratio: float = BOW.clock_hz / GC200.clock_hz
    assert ratio == pytest.approx(1.85 / 1.33)


def test_ipu_is_plain_data() -> None:
    assert isinstance(GC200, Ipu)


@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 40)), min_size=1, max_size=30),
    st.floats(min_value=0.01, max_value=1.0),
)
def test_the_frontier_holds_what_is_chosen_of_all(splits: list[tuple[int, int]], share: float) -> None:
    """For any share of a tile of 10 bytes, with ties, and where nothing fits twice the tile."""
    cycles, temporary = (np.array(column) for column in zip(*splits, strict=True))
    best = frontier(cycles, temporary)
    assert best[choose(cycles[best], temporary[best], 10, share)] == choose(cycles, temporary, 10, share)
