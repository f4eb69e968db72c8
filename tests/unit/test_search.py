"""The search for a division: what it expects of a setting, and that it passes nothing over that might win."""

from __future__ import annotations

from dataclasses import replace

import pytest

from podsim.placement.cuts import Segment
from podsim.placement.job import training_job
from podsim.placement.search.best_first import Lead
from podsim.placement.search.chain import Slices, bare_chain
from podsim.placement.search.found import Found
from podsim.placement.search.prices import price
from podsim.placement.search.search import Search
from podsim.scenario import TrainingScenario, load_scenario
from tests.examples import Mapping, small_bert, small_cnn, small_pod

CALL_S = 87.8e-3
"""Of PopART [popart_sdk_2.3]."""


def search_of(scenario: Mapping) -> Search:
    loaded = load_scenario(scenario)
    assert isinstance(loaded.spec, TrainingScenario)
    return Search(loaded, loaded.spec)


def bert_search(**parallelism: object) -> Search:
    """The small BERT with four layers on two machines, undivided."""
    scenario = small_bert(small_pod(2), [4], accumulation=32)
    del scenario["memory"]
    return search_of(scenario | {"parallelism": {"auto": True, **parallelism}, "batch_size": 32})


def found_in(search: Search) -> list[Found]:
    """All that fits, with everything costed."""
    found = list[Found]()

    def follow(lead: Lead[Found]) -> None:
        if lead.made is not None:
            found.append(lead.made)
        elif lead.closer is not None:
            for each in lead.closer():
                follow(each)

    for lead in search.leads():
        follow(lead)
    return found


def test_a_bound_counts_the_cycles_in_which_the_pipeline_fills() -> None:
    """Micro-batches and IPUs less one: 8 + 4 - 1 cycles are half of 19 + 4 - 1; on one IPU 8 are half of 16. The call
    of the update comes on top, and before it sequences of 32 tokens, of 16 B each, are stacked at 1.28 GB/s."""
    search = bert_search()
    setting = found_in(search)[0].plan.layout

    def bound_s(ipus: int, micro_batches: int) -> float:
        asked = replace(setting, ipus_per_replica=ipus, accumulation_factor=micro_batches)
        samples = micro_batches * setting.micro_batch_size * setting.replication_factor
        stacked_s = samples * 32 * 16 / 1.28e9
        return search.bound_s(asked) - CALL_S - stacked_s

    assert bound_s(4, 19) / bound_s(4, 8) == pytest.approx(2)
    assert bound_s(1, 16) / bound_s(1, 8) == pytest.approx(2)


def test_no_plan_is_faster_than_its_bound() -> None:
    search = bert_search()
    found = found_in(search)
    assert len(found) > 5
    for each in found:
        assert search.bound_s(each.plan.layout) <= each.estimate_s * (1 + 1e-9)  # for rounding


def test_a_cut_costs_a_sync_and_the_transfer_over_it() -> None:
    """Without computation nothing else is left. Behind the first convolution and its pooling lie 4 x 8 x 8 x 8
    halves; a rung carries 6 x 16 GB/s at 85 %, at 1.33 GHz; a stage pays for half a sync at either end."""
    job = training_job(load_scenario(small_cnn("ipu_pod4")).spec)
    workload, machine = job.workload_of(4), job.system.machine
    order = workload.order
    slices = Slices(
        bare_chain(workload), lambda start, stop: (Segment(order[start:stop]),), recompute=False, recompute_last=False
    )
    prices = price(slices, job.laid_out(ipus_per_replica=2, micro_batch_size=4, cuts=None))
    cycles, _ = prices.parts[0]
    transfer = 4 * 8 * 8 * 8 * 2 / (6 * 16e9 * 0.85) * 1.33e9
    assert cycles[0, 0, 1] == pytest.approx(machine.ipu.multi_ipu_sync_cycles + transfer)


def test_an_ipu_of_first_and_last_stage_that_may_hold_less_does() -> None:
    """The small BERT's head shares weights with its embedding, so that both are on IPU 0, with layers or without."""
    search = bert_search(ipus_per_replica=4, micro_batch_size=1, replication_factor=1, recomputation="layer")
    (setting,) = next(list(search.space.micro_batches(group)) for group in search.groups())
    prices = search._prices(setting)
    first = prices.fastest()
    assert first is not None
    lighter = prices.fastest(first.end_bytes)
    held = [first.end_bytes] if lighter is None else [first.end_bytes, lighter.end_bytes]
    assert held == sorted(set(held), reverse=True)
    assert prices.fastest(limit_bytes=0.0) is None
