"""Costs of single operations on a GC200, worked by hand."""

import pytest

from podsim.errors import MissingDataError
from podsim.models import Elementwise, Gather, MatMul, Rearrange, Reduce, ScatterAdd
from podsim.models.op import Copy
from podsim.scenario import load_ipu
from podsim.tiles import Account, CostModel, total
from podsim.tiles.vector import tile_share

IPU = load_ipu("gc200")
MODEL = CostModel(IPU, layout_change_cycles_per_byte=1.0)
TILES = 1472


def test_accounts_add_kind_by_kind() -> None:
    both = total([Account(matmul=1.0, exchange=2.0), Account(matmul=3.0, superstep=4.0)])
    assert both == Account(matmul=4.0, exchange=2.0, superstep=4.0)
    assert both.cycles == 10.0
    assert both.times(2).cycles == 20.0
    assert dict(both.parts()) == {"matmul": 4.0, "exchange": 2.0, "superstep": 4.0}


def test_layout_change_of_a_kilobyte_per_tile() -> None:
    """Twice 288 for the call and 1024 for the copy, 1024/4 on the exchange, two supersteps."""
    account = MODEL.layout_change(1024 * TILES)
    assert account.rearrange == 2 * (288 + 1024) + 256
    assert account.superstep == 2 * IPU.superstep.overhead_cycles


@pytest.mark.parametrize(
    ("row_bytes", "held", "rate"),
    [(729, 1458, 10.3), (394, 1182, 5.15), (1458, 1458, 5.15), (100, 1100, 3.1), (768, 1536, 1.0), (1024, 1024, 1.0)],
)
def test_a_layout_changes_in_the_pieces_that_divide_its_rows(row_bytes: int, held: int, rate: float) -> None:
    """Rows of 729 bytes byte by byte, which takes as many cycles for each as halves do; of 197 and 729 halves in pieces
    of two bytes, of 50 in pieces of four, of 384 and 512 in large ones.

    The fullest tile has as many whole rows as hold a kilobyte.
    """
    account = MODEL.layout_change(1024 * TILES, row_bytes)
    assert account.rearrange == pytest.approx(2 * (288 + rate * held) + held / 4)


def test_a_left_operand_in_rows_is_copied_in_their_pieces_and_no_other_operand_is() -> None:
    """A row of 394 bytes on a tile; otherwise 22 pieces of 8, of 252,160 bytes."""
    shape, inner = (1, 640, 64), 197
    op, rows = (MatMul(name="m", shape=shape, inner=inner, left_row_length=count) for count in (None, inner))
    byte_count = 2 * 640 * 197
    difference = MODEL.op(rows, 0.2).account.cycles - MODEL.op(op, 0.2).account.cycles
    assert difference == pytest.approx(2 * (5.15 * 394 - 176) + (394 - 176) / 4)
    assert op.layout_changes == ((byte_count, 8), (2 * 197 * 64, 8))
    assert rows.layout_changes == ((byte_count, 2 * 197), (2 * 197 * 64, 8))


@pytest.mark.parametrize(
    ("elements", "dtype", "share"),
    [
        (0, "fp16", 0),
        (5, "fp32", 5),
        (32, "fp32", 32),
        (65, "fp32", 34),
        (16128, "fp32", 32),
        (48576, "fp32", 34),
        (130, "fp16", 68),
    ],
)
def test_a_small_tensor_lies_on_as_few_tiles_as_hold_128_bytes(elements: int, dtype: str, share: int) -> None:
    """33 vectors of two on 33 // 16 = 2 tiles are 17; 1,472 tiles of 33 elements hold 17 vectors; 33 of four are 17."""
    assert tile_share(IPU, elements, dtype) == share


def test_elementwise_pass() -> None:
    """600 halves per tile: 100 per worker, 25 vectors of 3 cycles after 26: 11 + 6·101."""
    account = MODEL.op(Elementwise(name="a", shape=(600 * TILES,), function="add"), 0.2).account
    assert account.vector == 11 + 6 * (26 + 75)
    assert account.superstep == IPU.superstep.overhead_cycles


def test_rows_lie_whole_on_a_tile() -> None:
    """12,288 rows of 1,024 over 1,472 tiles: 9 on the fullest, 1,536 for a worker, 384 vectors of 3 cycles."""
    op = Elementwise(name="a", shape=(12288, 1024), function="add", row_length=1024)
    assert MODEL.op(op, 0.2).account.vector == 11 + 6 * (26 + 3 * 384)
    reads = Reduce(name="r", shape=(12288,), dtype="fp32", input_count=12288 * 1024, row_length=1024)
    assert MODEL.op(reads, 0.2).account.reduction == 9 * 1024 / 4 + 660


def test_single_precision_is_read_two_at_a_time() -> None:
    op = Reduce(name="r", shape=(TILES,), dtype="fp32", input_count=4000 * TILES, operand_dtype="fp32")
    assert MODEL.op(op, 0.2).account.reduction == 2000 + 660


def test_a_dropout_sets_its_seed() -> None:
    """600 halves as above at 2 cycles a vector, 11 + 6·(24 + 50); a seed of 14 + 6·27 between three more supersteps."""
    account = MODEL.op(Elementwise(name="d", shape=(600 * TILES,), function="dropout"), 0.2).account
    assert account.vector == 11 + 6 * (24 + 50) + 14 + 6 * 27
    assert account.superstep == 4 * IPU.superstep.overhead_cycles


def test_a_spread_tensor_is_copied_once_and_arrives_often() -> None:
    """A square of 1,024 rows, a row on a tile, for 12 heads: 12,582,912 halves arrive, a twelfth of them as copies."""
    op = Rearrange(name="m", shape=(12, 1024, 1024), row_length=1024, reader_count=12)
    account = MODEL.op(op, 0.2).account
    assert account.rearrange == 2 * (288 + 2048) + 2048 / 4
    assert account.exchange == pytest.approx(11 * 1024 * 1024 * 2 / TILES / 4)


def test_rows_that_are_summed_over_are_regrouped() -> None:
    """1,048,576 halves: 713 on a tile, a call of 288, 5 cycles for each 4 of them, 1,426 bytes at 4 a cycle.

    Rows of 197 halves are no whole number of grains.
    """
    one = {"name": "m", "shape": (1, 1024, 64)}
    rows, turned = (
        MatMul(**one, inner=1024, left_row_length=1024, contracts_rows=each)  # type: ignore[arg-type]
        for each in (False, True)
    )
    more = MODEL.op(turned, 0.2).account + MODEL.op(rows, 0.2).account.times(-1)
    assert more.rearrange == 288 + 892 + 357
    assert more.superstep == 2 * IPU.superstep.overhead_cycles
    odd = MatMul(**one, inner=197, left_row_length=197, contracts_rows=True)  # type: ignore[arg-type]
    assert odd.regrouped_elements == 0


def test_unknown_function_is_refused() -> None:
    with pytest.raises(MissingDataError, match="no vertex for elementwise function frobnicate"):
        MODEL.op(Elementwise(name="a", shape=(8,), function="frobnicate"), 0.2)


def test_a_reduction_of_singles_reads_half_as_many_per_cycle() -> None:
    op = Reduce(name="r", shape=(TILES,), dtype="fp32", input_count=4000 * TILES, operand_dtype="fp32")
    assert MODEL.op(op, 0.2).account.reduction == 2000 + 660


def test_reduction_reads_a_vector_per_cycle() -> None:
    """4000 halves per tile at four per cycle, 660 fixed; one single per tile and output to exchange."""
    op = Reduce(name="r", shape=(TILES,), dtype="fp32", input_count=4000 * TILES)
    account = MODEL.op(op, 0.2).account
    assert account.reduction == 1000 + 660
    assert account.exchange == 1.0


def test_rearrange_is_a_layout_change() -> None:
    op = Rearrange(name="r", shape=(512 * TILES,))
    assert MODEL.op(op, 0.2).account == MODEL.layout_change(1024 * TILES)


def test_a_copy_on_its_tiles_is_one_call_without_an_exchange() -> None:
    """288 for the call and 5/4 of a cycle for each 8 of 1,024 bytes, whatever a change of layout takes."""
    op = Copy(name="c", shape=(512 * TILES,))
    assert MODEL.op(op, 0.2).account == Account(rearrange=288 + 160, superstep=IPU.superstep.overhead_cycles)


def test_single_row_look_up_in_a_tiny_table() -> None:
    """One index, one row of two halves: any split hits once: 6·(35 + 23 + 2)."""
    account = MODEL.op(Gather(name="g", shape=(1, 2), table_rows=1), 0.2).account
    assert account.vector == 6 * (35 + 23 + 2)


def test_single_row_update_in_a_tiny_table() -> None:
    """One index, one 32-bit word: 6·(33 + 12)."""
    account = MODEL.op(ScatterAdd(name="s", shape=(1, 2), table_rows=1), 0.2).account
    assert account.vector == 6 * (33 + 12)


def test_operands_from_elsewhere_pay_for_their_layout() -> None:
    shape, inner = (1, 1024, 512), 256
    planned = MatMul(name="m", shape=shape, inner=inner, left_arranged=True, right_arranged=True)
    moved = MatMul(name="m", shape=shape, inner=inner, left_arranged=False, right_arranged=True)
    difference = MODEL.op(moved, 0.2).account.cycles - MODEL.op(planned, 0.2).account.cycles
    assert difference == pytest.approx(MODEL.layout_change(2 * 1024 * 256).cycles)


def test_equal_products_are_planned_once() -> None:
    op = MatMul(name="m", shape=(1, 640, 640), inner=640)
    assert MODEL.plan(op, 0.2) is MODEL.plan(op, 0.2)
    assert MODEL.plan(op, 0.2) is not MODEL.plan(op, 0.3)


def test_shares_of_memory_that_are_remembered_are_bounded_and_plans_the_same() -> None:
    """A study may ask for 100,000 of them; what is forgotten is made again as it was."""
    op = MatMul(name="m", shape=(1, 640, 640), inner=640)
    model = CostModel(IPU, layout_change_cycles_per_byte=1.0)
    shares = [(each + 1) / 100 for each in range(100)]
    for share in (*shares, *reversed(shares), *shares[::7]):
        assert model.plan(op, share) == CostModel(IPU, layout_change_cycles_per_byte=1.0).plan(op, share)
    (kept,) = model._plans._known.values()
    assert len(kept) <= 32


def test_a_small_table_is_copied_to_serve_many_lookups_at_once() -> None:
    """2 rows of 768 for 2,048 tokens; 64 copies, each over 16 tiles of 48 columns, leave 32 lookups to a tile."""
    few = MODEL.op(Gather(name="g", shape=(2048, 768), table_rows=2), 0.2).account.cycles
    vertex, workers = IPU.vertices.gather, IPU.tile.worker_count
    looked_up = workers * (vertex.worker_fixed + 32 * (vertex.per_index + vertex.cycles_per_pair * 24))
    received, sent = 2 * 48 * 2 / 4, 2048 * 768 * 2 / TILES / 4
    assert few <= looked_up + received + sent + 2 * IPU.superstep.overhead_cycles
    # Without copies a tile would meet every one of the 2,048 indices, if only to pass it over.
    assert few < workers * 2048 * vertex.skip
