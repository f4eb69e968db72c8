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
from podsim.tiles.slices import fullest, plan_slices
from tests.cases import every_case

BOW = load_ipu("bow")
TILES, SUPERSTEP = 1472, 275


def up(numerator: int, denominator: int) -> int:
    return math.ceil(numerator / denominator)


def test_a_lookup_by_hand() -> None:
    """32 rows of 512 from 256: 256 grains of two elements take a tile each, and no table is cut or handed out.

    Six lookups of one vector for the fullest worker, 6·(30 + 6·(19 + 2)); 32 indices of 4 B at 4 B a cycle.
    """
    plan = plan_slices(BOW, "multi-slice", SliceShape(256, 512, 32))
    assert (plan.lookup_parts, plan.row_parts, plan.feature_parts, plan.turns) == (1, 1, 256, 1)
    assert dict(plan.account.parts()) == {"vector": 936, "exchange": 32, "superstep": SUPERSTEP}


def test_a_lookup_that_hands_out_the_table_by_hand() -> None:
    """32,768 rows of 512 from 4,096 in 0.6 of the memory: 23 parts of the lookups, 64 of 8 features.

    A tile receives 4,096 rows of 32 B, and 1,425 indices; a worker looks up 238 rows of four vectors.
    """
    plan = plan_slices(BOW, "multi-slice", SliceShape(4096, 512, 32768))
    assert (plan.lookup_parts, plan.row_parts, plan.feature_parts) == (23, 1, 64)
    assert plan.account.vector == 6 * (30 + 238 * (19 + 4 * 2))
    assert plan.account.exchange == 4096 * 32 / 4 + 1425
    assert plan.account.superstep == 2 * SUPERSTEP
    assert plan.temporary_bytes_per_tile == 4096 * 32 + 1425 * 4


def test_less_memory_hands_out_less_of_the_table() -> None:
    """In 0.1 of the memory, 63,897 B, two grains of 4,096 rows do not fit, and one in five tiles does."""
    plan = plan_slices(BOW, "multi-slice", SliceShape(4096, 512, 32768), available_memory_proportion=0.1)
    assert (plan.lookup_parts, plan.feature_parts) == (5, 256)
    assert plan.account.vector == 6 * (30 + up(6554, 6) * (19 + 2))


def test_an_update_by_hand() -> None:
    """32 rows of 512 into 256: five parts of the rows, 256 of the features, lookups whole.

    A part of 52 rows goes there and back at 8 B a row; 32 updates with their indices arrive. Of 32 lookups a worker
    with 9 of 256 rows hits 1.125 on average, and the fullest of 30 more; all others cost 5 cycles. The zeros are 90
    elements of each tile: 11 + 6·(4 + 8).
    """
    plan = plan_slices(BOW, "multi-update-add", SliceShape(256, 512, 32))
    assert (plan.lookup_parts, plan.row_parts, plan.feature_parts, plan.turns) == (1, 5, 256, 1)
    hits = float(fullest(32, 9 / 256, 30)[0])
    assert 3 < hits < 5
    zeros = 11 + 6 * (4 + up(up(up(256 * 512, TILES), 6), 2))
    assert plan.account.vector == pytest.approx(6 * (37 + hits * 8 + (32 - hits) * 5) + zeros)
    assert plan.account.rearrange == 2 * 52 * 8 / 4
    assert plan.account.exchange == 32 * 12 / 4
    assert plan.account.superstep == 4 * SUPERSTEP


def test_half_precision_updates_by_hand() -> None:
    """A row of 8 halves on one tile: 4 words, 13 + 3·3 a lookup, and one cycle less of set-up."""
    chip = BOW.with_tiles(1)
    plan = plan_slices(chip, "multi-update-add", SliceShape(6, 8, 60), "fp16")
    hits = float(fullest(60, 1 / 6, 6)[0])
    zeros = 11 + 6 * (4 + 1 * up(8, 4))
    assert plan.account.vector == pytest.approx(6 * (36 + hits * 22 + (60 - hits) * 5) + zeros)


@every_case("draws, share, workers", lambda: ((32, 9 / 256, 30), (100, 1 / 6, 276), (5000, 1 / 24, 6), (40, 0.5, 1000)))
def test_the_fullest_worker_is_that_of_draws(draws: int, share: float, workers: int) -> None:
    drawn = np.random.default_rng(1).binomial(draws, share, (400, workers)).max(axis=1)
    assert float(fullest(draws, share, workers)[0]) == pytest.approx(drawn.mean(), rel=0.06)


def test_where_every_draw_hits_nothing_is_random() -> None:
    assert fullest(17, 1.0, 1000)[0] == 17


def estimate(kind: str, shape: SliceShape, parts: tuple[int, int, int]) -> tuple[float, int]:
    """Cycles by the library's estimates and temporaries of one split, single precision, one turn."""
    lookup_parts, row_parts, feature_parts = parts
    lookups, rows = up(shape.lookups, lookup_parts), up(shape.rows, row_parts)
    features = min(shape.features, 2 * up(up(shape.features, 2), feature_parts))
    part = rows * features
    if kind == "multi-slice":

        def vertex(count: int, hits: int) -> int:
            vectors = up(up(features, 2), 6) if count == 1 else up(features, 2)
            return 6 * (30 + hits * (19 + 2 * vectors) + (up(count, 6) - hits) * 8)

        cycles = vertex(lookups, up(up(lookups, 6), row_parts))
        held = 4 * lookups
        if lookup_parts > 1:
            cycles, held = cycles + part, held + 4 * part
        if row_parts > 1:
            own = up(lookups, row_parts)
            cycles += row_parts * own * features + vertex(own, up(own, 6))
            held += 2 * lookups * features * 4
        return cycles, held
    hits = up(lookups * up(rows, 6), shape.rows)
    hit, fixed = {2: (8, 37), 4: (16, 37)}.get(features, (11 + 3 * (features - 1), 38))
    cycles = 6 * (fixed + hits * hit + (lookups - hits) * 5) + lookups * features + 2 * up(part, lookup_parts)
    held = lookups * (4 + 4 * features) + (8 if lookup_parts > 1 else 4) * part
    if lookup_parts > 1:
        own = up(part, lookup_parts)
        cycles += 11 + 6 * (4 + up(up(part, 6), 2)) + 11 + 6 * (36 + 3 * up(up(own, 6), 2))
        outputs, depth = part, lookup_parts
        stages = 1 + (depth >= 16) + (depth >= 125)
        step = math.ceil(depth ** (1 / stages) - 1e-9)
        for stage in range(stages, 0, -1):
            factor = depth if stage == 1 else min(step, depth)
            cycles += outputs
            outputs, depth = up(outputs, factor), up(depth, factor)
            cycles += 33 + 6 * (20 + up(up(outputs, 4), 6) * (2 * factor + 8))
            if depth == 1:
                break
    return cycles, held


@pytest.mark.parametrize("kind", ["multi-slice", "multi-update-add"])
@pytest.mark.parametrize("extents", [(16, 16, 32), (64, 10, 200), (100, 24, 90), (7, 3, 1)])
def test_no_split_of_a_small_chip_is_better(kind: str, extents: tuple[int, int, int]) -> None:
    chip, shape = BOW.with_tiles(24), SliceShape(*extents)
    bound = 0.6 * chip.tile.memory_bytes
    best = math.inf
    for parts in product(range(1, 25), repeat=3):
        if math.prod(parts) <= 24 and parts[1] <= max(1, shape.rows // 2):
            cycles, held = estimate(kind, shape, parts)
            best = min(best, cycles if held <= bound else math.inf)
    plan = plan_slices(chip, kind, shape)  # type: ignore[arg-type]
    assert plan.turns == 1
    cycles, held = estimate(kind, shape, (plan.lookup_parts, plan.row_parts, plan.feature_parts))
    assert cycles == best
    assert held == plan.temporary_bytes_per_tile


def test_what_does_not_fit_at_once_is_served_in_turns() -> None:
    """10,000 rows of 64 for a single tile: 2.56 MB of updates; a share of 2 % of its 624 KiB holds 12,779 B."""
    shape = SliceShape(10, 64, 10_000)
    plan = plan_slices(BOW.with_tiles(8), "multi-update-add", shape, available_memory_proportion=0.02)
    assert plan.turns > 1
    assert plan.temporary_bytes_per_tile <= 0.02 * BOW.tile.memory_bytes


def test_the_command_prints_the_plan_and_the_loop() -> None:
    asked = ["cost", "multi-slice", "--rows", "256", "--features", "512", "--lookups", "32", "--ipu", "bow"]
    cost = json.loads(CliRunner().invoke(app, [*asked, "--format", "json"]).output)
    assert cost["cycles"] == 936 + 32 + SUPERSTEP + 3 * SUPERSTEP
    assert cost["loop_cycles"] == 3 * SUPERSTEP
    assert cost["time_s"] == pytest.approx(cost["cycles"] / 1.85e9)
    alone = json.loads(CliRunner().invoke(app, [*asked, "--loop-supersteps", "0", "--format", "json"]).output)
    assert alone["cycles"] == 936 + 32 + SUPERSTEP


def test_a_kernel_that_nobody_compared_has_a_wide_range() -> None:
    """That of an activity which nobody compared, a factor of 1.3 to 2 either way, in text and JSON alike."""
    cost = podsim.cost_multi_slice(1024, 128, 4096, ipu="bow")
    low_s, high_s = cost.ends_s
    assert low_s * high_s == pytest.approx(cost.time_s**2)
    assert 1.3 < high_s / cost.time_s < 2
    assert cost.to_dict()["ranges"] == {"share": 0.8, "time_s": {"low": low_s, "high": high_s}}
    assert re.search(r"time +4\.09 us  \(80 %: 2\.\d+ to [56]\.\d+ us\)", cost.to_text())
