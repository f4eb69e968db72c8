"""Row lookups and row updates: worked by hand, and by a search over splits that is written a second time."""

import json
import math
import re
from itertools import product

import numpy as np
import pytest
from typer.testing import CliRunner

import podsim
from podsim.cli.app import app
from podsim.scenario import load_ipu
from podsim.tiles import SliceShape
from podsim.tiles.slices import _Splits, _sums, expected_most_hits, plan_slices
from tests.cases import every_case

BOW = load_ipu("bow")
TILES, SUPERSTEP = 1472, 275


def up(numerator: int, denominator: int) -> int:
    return math.ceil(numerator / denominator)


def test_a_lookup_by_hand() -> None:
    """32 rows of 512 from 256: 256 grains of two elements, each of which five tiles look up seven rows of.

    They receive 256 rows of 8 B and seven indices. A worker looks up two rows of a vector: 6·(35 + 2·(23 + 2)).
    """
    plan = plan_slices(BOW, "multi-slice", SliceShape(256, 512, 32))
    assert (plan.lookup_parts, plan.row_parts, plan.feature_parts, plan.turns) == (5, 1, 256, 1)
    assert dict(plan.account.parts()) == {"vector": 510, "exchange": 256 * 8 / 4 + 7, "superstep": SUPERSTEP}
    assert plan.result_bytes_per_tile == 7 * 8


def test_a_lookup_that_hands_out_the_table_by_hand() -> None:
    """32,768 rows of 512 from 4,096 in 0.6 of the memory: 23 parts of the lookups, 64 of 8 features.

    A tile receives 4,096 rows of 32 B, and 1,425 indices; a worker looks up 238 rows of four vectors.
    """
    plan = plan_slices(BOW, "multi-slice", SliceShape(4096, 512, 32768))
    assert (plan.lookup_parts, plan.row_parts, plan.feature_parts) == (23, 1, 64)
    assert plan.account.vector == 6 * (35 + 238 * (23 + 4 * 2))
    assert plan.account.exchange == 4096 * 32 / 4 + 1425
    assert plan.account.superstep == SUPERSTEP
    assert plan.temporary_bytes_per_tile == 4096 * 32 + 1425 * 4


@every_case("rows, lookups, parts, divided", lambda: ((1024, 32, (6, 30, 8), 1), (256, 32, (11, 16, 8), 0)))
def test_places_of_found_rows_by_hand(rows: int, lookups: int, parts: tuple[int, int, int], divided: int) -> None:
    """32 indices of a tile, six for a worker, are divided by 35 rows of a part, or by 16, which is a shift.

    A pass counts, 11 + 6·(26 + 3·3), and one multiplies and adds, 11 + 6·(36 + 3·3). What both read comes in pieces of
    four bytes, at 3.1 cycles a byte. A tile looks up one row for each worker, in both stages: 6·(35 + 23 + 2).
    """
    plan = plan_slices(BOW, "multi-slice", SliceShape(rows, 16, lookups))
    assert (plan.lookup_parts, plan.row_parts, plan.feature_parts) == parts
    assert plan.account.vector == pytest.approx(2 * 360 + 221 + 281 + divided * 6 * 6 * 64, rel=1e-3)
    assert plan.account.rearrange == pytest.approx(2 * 32 * 4 * 3.1)
    assert plan.account.superstep == 3 * SUPERSTEP


def test_less_memory_hands_out_less_of_the_table() -> None:
    """In 0.1 of the memory, 63,897 B, two grains of 4,096 rows do not fit, and one in five tiles does."""
    plan = plan_slices(BOW, "multi-slice", SliceShape(4096, 512, 32768), available_memory_proportion=0.1)
    assert (plan.lookup_parts, plan.feature_parts) == (5, 256)
    assert plan.account.vector == 6 * (35 + up(6554, 6) * (23 + 2))


def test_an_update_by_hand() -> None:
    """32 rows of 512 into 256: five parts of the rows, 256 of the features, lookups whole.

    32 updates with their indices arrive. Of 32 lookups a worker with 9 of 256 rows hits 1.125 on average, and the
    fullest of 30 more; all others cost 5 cycles. The zeros are the 104 elements of a part: 11 + 6·(4 + 9). A part of
    416 B is 56 more than an even share.
    """
    plan = plan_slices(BOW, "multi-update-add", SliceShape(256, 512, 32))
    assert (plan.lookup_parts, plan.row_parts, plan.feature_parts, plan.turns) == (1, 5, 256, 1)
    hits = float(expected_most_hits(32, 9 / 256, 30)[0])
    assert 3 < hits < 5
    assert plan.account.vector == pytest.approx(6 * (37 + hits * 8 + (32 - hits) * 5) + 11 + 6 * (4 + 9))
    assert plan.account.exchange == 32 * 12 / 4
    assert plan.account.superstep == SUPERSTEP
    assert plan.temporary_bytes_per_tile == 56 + 32 * 12
    assert plan.result_bytes_per_tile == 52 * 8


def test_copies_of_a_table_are_summed_by_hand() -> None:
    """16,384 rows of 2 into 8 on two tiles: each adds half of them to a copy, receives one, and adds half the sum.

    A copy is 16 elements. Half of it goes to the other tile, copied word by word at two thirds of a cycle a byte, and
    sent; a tile sums two partials of four vectors, one for a worker: 33 + 6·(16 + 10 + 2).
    """
    plan = plan_slices(BOW.with_tiles(2), "multi-update-add", SliceShape(8, 2, 16384))
    assert (plan.lookup_parts, plan.row_parts, plan.feature_parts) == (2, 1, 1)
    assert plan.account.rearrange == pytest.approx(8 * 4 * 2 / 3)
    assert plan.account.reduction == 33 + 6 * (16 + 10 + 2)
    assert plan.account.exchange == 8192 + 8 * 4 / 4
    assert plan.account.superstep == 2 * SUPERSTEP


def test_half_precision_updates_by_hand() -> None:
    """A row of 8 halves on one tile: 4 words, 13 + 3·3 a lookup, and one cycle less of set-up."""
    chip = BOW.with_tiles(1)
    plan = plan_slices(chip, "multi-update-add", SliceShape(6, 8, 60), "fp16")
    hits = float(expected_most_hits(60, 1 / 6, 6)[0])
    zeros = 11 + 6 * (4 + 1 * up(8, 4))
    assert plan.account.vector == pytest.approx(6 * (36 + hits * 22 + (60 - hits) * 5) + zeros)


@every_case("draws, share, workers", lambda: ((32, 9 / 256, 30), (100, 1 / 6, 276), (5000, 1 / 24, 6), (40, 0.5, 1000)))
def test_the_fullest_worker_is_that_of_draws(draws: int, share: float, workers: int) -> None:
    drawn = np.random.default_rng(1).binomial(draws, share, (400, workers)).max(axis=1)
    assert float(expected_most_hits(draws, share, workers)[0]) == pytest.approx(drawn.mean(), rel=0.06)


def test_where_every_draw_hits_nothing_is_random() -> None:
    assert expected_most_hits(17, 1.0, 1000)[0] == 17


def estimate(kind: str, shape: SliceShape, parts: tuple[int, int, int], tiles: int) -> tuple[float, int]:
    """Cycles by the library's estimates and temporaries of one split, single precision, one turn."""
    lookup_parts, row_parts, feature_parts = parts
    lookups, rows = up(shape.lookups, lookup_parts), up(shape.rows, row_parts)
    features = min(shape.features, 2 * up(up(shape.features, 2), feature_parts))
    part, own = rows * features, up(lookups, row_parts)
    uneven = max(0, 4 * part - 8 * up(shape.rows * up(shape.features, 2), tiles))
    shared, cut = lookup_parts > 1, row_parts > 1
    if kind == "multi-slice":

        def vertex(count: int) -> int:
            mine, vectors = up(count, 6), up(features, 2)
            hits = math.ceil(mine * rows / shape.rows)
            return 6 * (30 + hits * (19 + 2 * (up(vectors, 6) if shape.lookups == 1 else vectors)) + (mine - hits) * 8)

        copied, found = max(shared * 4 * part, uneven), cut * 4 * lookups * features
        cycles = up(copied, 4) + vertex(lookups) + cut * (vertex(own) + row_parts * own * features)
        too_fast = lookup_parts * feature_parts * vertex(lookups) * 8 < shape.lookups * shape.features * 4
        held = max(copied + found + 4 * lookups, found + cut * row_parts * own * features * 4 + 4 * own)
        return (math.inf if too_fast else cycles), held
    hits = up(lookups * up(rows, 6), shape.rows)
    hit, fixed = {2: (8, 37), 4: (16, 37)}.get(features, (11 + 3 * (features - 1), 38))
    cycles = 6 * (fixed + hits * hit + (lookups - hits) * 5) + cut * lookups * features + 2 * up(uneven, 4)
    if shared:
        own = up(part, lookup_parts)
        cycles += 11 + 6 * (4 + up(up(part, 6), 2)) + 11 + 6 * (36 + 3 * up(up(own, 6), 2))
        cycles += lookup_parts * own + 33 + 6 * (16 + up(up(own, 2), 6) * (10 + lookup_parts))
    received = cut * 4 * lookups * features
    return cycles, uneven + max(received + shared * 4 * part + 4 * lookups, shared * 8 * part)


@pytest.mark.parametrize("kind", ["multi-slice", "multi-update-add"])
@pytest.mark.parametrize("extents", [(16, 16, 32), (64, 10, 200), (100, 24, 90), (7, 3, 1)])
def test_no_split_of_a_small_chip_is_better(kind: str, extents: tuple[int, int, int]) -> None:
    chip, shape = BOW.with_tiles(24), SliceShape(*extents)
    bound = 0.6 * chip.tile.memory_bytes
    best = math.inf
    for parts in product(range(1, 25), range(1, 25), range(1, 25)):
        if math.prod(parts) <= 24 and parts[1] <= max(1, shape.rows // 2):
            cycles, held = estimate(kind, shape, parts, 24)
            best = min(best, cycles if held <= bound else math.inf)
    plan = plan_slices(chip, kind, shape)  # type: ignore[arg-type]
    assert plan.turns == 1
    cycles, held = estimate(kind, shape, (plan.lookup_parts, plan.row_parts, plan.feature_parts), 24)
    assert cycles == best
    assert held == plan.temporary_bytes_per_tile


def test_what_does_not_fit_at_once_is_served_in_turns() -> None:
    """10,000 rows for eight tiles are 1,250 indices of each: 5,000 B; a share of 0.5 % of 624 KiB holds 3,194 B."""
    shape = SliceShape(10, 64, 10_000)
    plan = plan_slices(BOW.with_tiles(8), "multi-update-add", shape, available_memory_proportion=0.005)
    assert plan.turns > 1
    assert plan.temporary_bytes_per_tile <= 0.005 * BOW.tile.memory_bytes


def test_the_command_prints_the_plan_and_the_loop() -> None:
    """Three supersteps of a loop whose indices lie on one tile, and seven rows of 8 B, at 0.4 cycles a byte."""
    asked = ["cost", "multi-slice", "--rows", "256", "--features", "512", "--lookups", "32", "--ipu", "bow"]
    cost = json.loads(CliRunner().invoke(app, [*asked, "--format", "json"]).output)
    assert cost["loop_cycles"] == pytest.approx(3 * SUPERSTEP + 56 * 0.4)
    assert cost["cycles"] == 510 + 519 + SUPERSTEP + cost["loop_cycles"]
    assert cost["time_s"] == pytest.approx(cost["cycles"] / 1.85e9)
    alone = json.loads(CliRunner().invoke(app, [*asked, "--loop-supersteps", "0", "--format", "json"]).output)
    assert alone["cycles"] == 510 + 519 + SUPERSTEP


def test_more_than_one_tile_of_indices_is_handed_around() -> None:
    """33 indices, or a table that is cut, take the fourth superstep of the loop."""
    rows = {lookups: podsim.cost_multi_slice(16, 16, lookups, ipu="bow") for lookups in (32, 33)}
    assert [round(row.loop_cycles // SUPERSTEP) for row in rows.values()] == [3, 4]
    assert podsim.cost_multi_slice(1024, 16, 32, ipu="bow").loop_cycles > 4 * SUPERSTEP


@every_case(
    "parts, deep",
    lambda: (((64, 2, 8), False), ((71, 2, 8), False), ((92, 1, 16), True), ((65, 1, 8), True), ((64, 1, 8), False)),
)
def test_sums_take_a_second_stage_where_many_tiles_have_a_part(parts: tuple[int, int, int], deep: bool) -> None:
    """Beyond 64 partials; not of fewer than 2·√1472 = 76.7 where more than 1,104 tiles have one."""
    axes = [np.array([count]) for count in (*parts, 1, 1, 1, 1)]
    stages = _sums(BOW, _Splits(*axes), np.array([100]))[1]
    assert stages[0] == 1 + deep


def test_a_loop_copies_a_sum_three_times() -> None:
    """Out of the turn, into the next, and onto its zeros, with a superstep for each copy but the first."""
    added = podsim.cost_multi_update_add(256, 512, 32, ipu="bow")
    assert added.loop_cycles == (4 + 2) * SUPERSTEP + 3 * 52 * 8 / 2


def test_a_kernel_that_nobody_compared_has_a_wide_range() -> None:
    """That of an activity which nobody compared, a factor of 1.3 to 2 either way, in text and JSON alike."""
    cost = podsim.cost_multi_slice(1024, 128, 4096, "fp16", ipu="bow")
    low_s, high_s = cost.ends_s
    assert low_s * high_s == pytest.approx(cost.time_s**2)
    assert 1.3 < high_s / cost.time_s < 2
    assert cost.to_dict()["ranges"] == {"share": 0.8, "time_s": {"low": low_s, "high": high_s}}
    assert re.search(r"time +[\d.]+ us \(80 %: [\d.]+ to [\d.]+ us\)", cost.text())
