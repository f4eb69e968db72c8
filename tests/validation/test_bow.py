"""Bow over GC200: the clock explains the ratio, and cannot explain the published one."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import podsim
from notebooks.bow_over_gc200 import (
    CLOCK,
    HOST,
    LINK,
    PIPELINE,
    PUBLISHED_MEAN,
    SHARES,
    STREAMING,
    UPDATES,
    BowRow,
    bow_over_gc200,
    mean_ratio,
    time_shares,
    training_workloads,
)
from podsim.scenario import GenerationScenario, load_scenario, shipped_names
from tests.unit.report_examples import make_result
from tests.validation.notebook_texts import states

RATIO = 1.85 / 1.33


@pytest.fixture(scope="module")
def rows() -> Sequence[BowRow]:
    return bow_over_gc200()


def row(**shares: float) -> BowRow:
    names = {"clock": CLOCK, "pipeline": PIPELINE, "links": LINK, "hosts": HOST, "streaming": STREAMING}
    names["updates"] = UPDATES
    whole = dict.fromkeys(SHARES, 0.0) | {names[key]: share for key, share in shares.items()}
    return BowRow("by hand", "bert", "IPU-POD16", 100.0, 120.0, 1.5, whole)


def test_what_shares_give_by_hand() -> None:
    """Half of the time one and a half times as fast: 1 / (1/3 + 1/2)."""
    assert row(clock=0.5, links=0.3, hosts=0.2).ratio_of_shares == pytest.approx(1.2)
    assert row(clock=1).ratio_of_shares == pytest.approx(1.5)
    assert row(links=1).ratio_of_shares == pytest.approx(1)


def test_a_pipeline_waits_for_tiles_and_an_update_for_links_and_memory() -> None:
    """0.4 and 0.1 are a half, too."""
    assert row(clock=0.4, pipeline=0.1, streaming=0.4, updates=0.1).ratio_of_shares == pytest.approx(1.2)


def test_what_holds_a_workload_back() -> None:
    assert row(clock=0.5, links=0.3, hosts=0.2).held_back_by == "links, 30%"
    assert row(clock=0.3, pipeline=0.4, links=0.1, updates=0.2).held_back_by == "update waits, 20%"


def test_shares_of_a_result_by_hand() -> None:
    """IPU 0 sets the pace: 70 us of matrix products and 30 us of an all-reduce, while IPU 1 waits for 15 us."""
    shares = time_shares(make_result())
    assert shares == pytest.approx(dict.fromkeys(SHARES, 0.0) | {CLOCK: 0.7, LINK: 0.3})


def test_workloads_are_what_is_shipped_and_trains() -> None:
    names = set(training_workloads())
    assert names < set(shipped_names()["scenarios"])
    assert not names & {"template", "image_template", "bert_pod64_hardware", "resnet50_pod64_hosts"}
    for name in names:
        spec = load_scenario(name).spec
        assert not isinstance(spec, GenerationScenario)
        assert spec.system.machine.ipu.name == "GC200"
    assert {"bert_v1.1_pod64_open", "resnet50_v1.1_pod256", "efficientnet_b4_pod16"} <= names


def test_equal_programs_are_one_workload() -> None:
    """Both divisions of v1.0 are the same program."""
    found = bow_over_gc200(["bert_v1.0_pod16_closed", "bert_v1.0_pod16_open", "bert_v1.0_pod64_closed"])
    assert [each.name for each in found] == ["bert_v1.0_pod16_closed", "bert_v1.0_pod64_closed"]


def test_a_row_is_what_a_user_gets_with_a_bow_pod(rows: Sequence[BowRow]) -> None:
    (found,) = (each for each in rows if each.name == "bert_large_phase1_pod16")
    plain = podsim.simulate("bert_large_phase1_pod16")
    bow = podsim.simulate("bert_large_phase1_pod16", overrides=["system=bow_pod16"])
    assert (found.gc200_per_s, found.bow_per_s) == (plain.throughput_samples_per_s, bow.throughput_samples_per_s)


def test_no_workload_gains_more_than_the_clock(rows: Sequence[BowRow]) -> None:
    assert len(rows) >= 20
    assert all(each.clock_ratio == pytest.approx(RATIO) for each in rows)
    assert all(1 < each.ratio < RATIO for each in rows)
    states("bow_over_gc200", "Bow brings 1 to 39 % to the workloads here, and never more than its clock")
    ratios = [each.ratio for each in rows]
    assert (round(100 * (min(ratios) - 1)), round(100 * (max(ratios) - 1))) == (1, 39)


def test_shares_explain_every_ratio(rows: Sequence[BowRow]) -> None:
    """Within 0.01, unless hosts do not keep up with Bow."""
    for each in rows:
        if each.bow_waits_for_data:
            assert each.ratio < each.ratio_of_shares + 0.01
        else:
            assert each.ratio == pytest.approx(each.ratio_of_shares, abs=0.01), each.name


def test_where_little_is_gained_hosts_hold_back(rows: Sequence[BowRow]) -> None:
    states("bow_over_gc200", "Least is gained where hosts hold back")
    little = [each for each in rows if each.ratio < 1.2]
    assert little
    (small_updates,) = (each for each in little if not each.held_back_by.startswith(HOST))
    assert all(each.shares[HOST] > 0.2 or each.bow_waits_for_data for each in little if each is not small_updates)
    states("bow_over_gc200", "Updates of GPT-2 on WikiText-2 are so short that more than half of each is waiting")
    assert small_updates.name == "gpt2_small_wikitext2_pod16"
    assert small_updates.shares[UPDATES] + small_updates.shares[STREAMING] > 0.5
    assert {each.name.partition("_")[0] for each in rows if each.bow_waits_for_data} == {
        *("efficientnet", "gpt2", "vit")
    }


@pytest.mark.parametrize("name", ["resnet50_v1.0_pod16", "resnet50_v1.1_pod16"])
def test_slow_hosts_do_not_keep_up_with_bow(name: str) -> None:
    """128 cores, 4 ms for an image: 32,000 images a second, enough for GC200."""
    slow = "system.host.image_decode_time=4 ms"
    plain = podsim.simulate(name)
    assert podsim.simulate(name, overrides=[slow]).weight_update_ps == plain.weight_update_ps
    found = podsim.simulate(name, overrides=["system.machine=bow_2000", slow])
    assert found.throughput_samples_per_s == pytest.approx(128 / 4e-3, rel=1e-3)


def test_the_published_mean_cannot_come_from_the_clock(rows: Sequence[BowRow]) -> None:
    states("bow_over_gc200", "The published mean of 42 % is more than the clocks differ")
    assert mean_ratio(rows) < RATIO < PUBLISHED_MEAN
