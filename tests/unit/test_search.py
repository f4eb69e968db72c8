"""The search for a division: what it expects of a setting, and that it passes nothing over that might win."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from podsim.placement.cuts import Cuts, Segment
from podsim.placement.job import training_job
from podsim.placement.layout import ON_CHIP, STREAMING, Layout
from podsim.scenario import TrainingScenario, load_scenario
from podsim.search import auto, decoder
from podsim.search.best_first import Found, Lead
from podsim.search.bounds import call_s
from podsim.search.chain import Slices, bare_chain
from podsim.search.dimensions import SHARED, Pins, in_phases, shared, with_key
from podsim.search.phased import PhasedSearch
from podsim.search.prices import price
from podsim.search.search import Search
from podsim.watch import silent
from tests.examples import Mapping, small_bert, small_cnn, small_pod, system_of

CALL_S = 104e-3
"""Of PopART [popart_sdk_2.3]."""


def search_of(scenario: Mapping) -> Search:
    loaded = load_scenario(scenario)
    assert isinstance(loaded.spec, TrainingScenario)
    return Search(loaded, loaded.spec)


def bert_scenario(layers: int = 4, **parallelism: object) -> Mapping:
    """The small BERT on two machines, undivided."""
    scenario = small_bert(small_pod(2), [layers], accumulation=32)
    del scenario["memory"]
    return scenario | {"parallelism": {"auto": True, **parallelism}, "batch_size": 32}


def bert_search(**parallelism: object) -> Search:
    return search_of(bert_scenario(**parallelism))  # type: ignore[arg-type]


def phased_decoder(batch: int, replicas: int) -> Mapping:
    """A GPT of two layers on four IPUs of one machine."""
    size = {"layer_count": 2, "hidden_size": 128, "feed_forward_size": 512, "head_count": 4, "kv_head_count": 4}
    return {
        "system": small_pod(1),
        "software": "popxl_sdk_3.3",
        "model": {"kind": "decoder", "vocabulary_size": 1000, **size},
        "data": {"sequence_length": 64},
        "optimizer": {"kind": "adamw"},
        "parallelism": {
            "auto": True,
            "execution": "phased",
            "tensor_parallel": 2,
            "replication_factor": replicas,
            "recomputation": "none",
            "batch_serialisation": True,
        },
        "batch_size": batch,
    }


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
    transfer = 4 * 8 * 8 * 8 * 2 / (6 * 16e9 * 0.85) * 1.33e9
    (first, _), (last, _) = prices.parts
    assert first[0, 0, 1] == pytest.approx(machine.ipu.multi_ipu_sync_cycles + transfer)
    # Nothing is handed over at the end of the chain, whose half of a sync is there all the same.
    assert last[0, 1, -1] == pytest.approx(machine.ipu.multi_ipu_sync_cycles + transfer)
    assert last[0, 0, -1] == pytest.approx(machine.ipu.multi_ipu_sync_cycles)


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


# Layers, pins, and IPUs of a replica: a stage holds a block at least; embedding and head are two blocks on one IPU.
IPUS: dict[str, tuple[int, dict[str, object], set[int]]] = {
    "powers of two": (4, {}, {1, 2, 4, 8}),
    "nine stages and eight blocks": (3, {}, {1, 2, 4}),
    "as many stages as blocks": (3, {"ipus_per_replica": 7}, {7}),
    "all of a domain": (4, {"ipus_per_replica": 8, "tensor_parallel": 2}, {8}),
    "two numbers": (4, {"ipus_per_replica": 2, "pipeline_stages": 4}, set()),
    "one number in two words": (4, {"ipus_per_replica": 4, "pipeline_stages": 2, "tensor_parallel": 2}, {4}),
    "no whole number of stages": (4, {"ipus_per_replica": 3, "tensor_parallel": 2}, set()),
}


@pytest.mark.parametrize(("layers", "pins", "counts"), IPUS.values(), ids=IPUS)
def test_ipus_of_a_replica(layers: int, pins: dict[str, object], counts: set[int]) -> None:
    loaded = load_scenario(bert_scenario(layers, **pins))
    way = next(shared(loaded.require(TrainingScenario), Pins(loaded)))
    smaller = way.model_copy(update={"system": system_of(small_pod(1))})
    found = [set(Search(loaded, each).space._ipu_counts()) for each in (way, smaller)]
    assert found == [counts, {count for count in counts if count <= 4}], "on a pod of eight, and of four"


SHARES: dict[str, tuple[int, dict[str, int], list[int]]] = {
    "as many as heads": (4, {}, [1, 2, 4]),
    "all of a domain": (8, {}, [1, 2, 4, 8]),
    "no more than a domain": (64, {}, [1, 2, 4, 8]),
    "two halves of the width of many heads": (64, {"hidden_parallel": 2}, [2, 4, 8]),
    "two halves of the width": (4, {"hidden_parallel": 2}, [2, 4, 8]),
    "two halves of the width of two heads": (2, {"hidden_parallel": 2}, [2, 4]),
    "three groups of experts": (8, {"expert_parallel": 3}, [3, 6]),
}


@pytest.mark.parametrize(("heads", "ways", "counts"), SHARES.values(), ids=SHARES)
def test_ipus_that_share_a_layer(heads: int, ways: dict[str, int], counts: list[int]) -> None:
    """Of a domain of eight: each has a head at least of its part of the width, and they are whole grids and groups."""
    spec = bert_search().space.spec
    spec = spec.model_copy(update={"model": spec.model.model_copy(update={"head_count": heads})})
    for name, count in ways.items():
        spec = with_key(spec, ("parallelism", name), count)
    (dimension,) = (each for each in SHARED if each.key[-1] == "tensor_parallel")
    assert list(dimension.values(spec)) == counts


def test_a_bound_of_phases_is_in_proportion_to_the_samples_of_a_replica() -> None:
    """But for the call: twice the batch takes twice as long, and half on two replicas; fewer IPUs have more to do."""
    found = {}
    for batch, replicas in ((8, 1), (16, 1), (16, 2)):
        loaded = load_scenario(phased_decoder(batch, replicas))
        spec, pins = loaded.require(TrainingScenario), Pins(loaded)
        way, *_ = in_phases(spec, pins)
        search = PhasedSearch(spec, pins, reserve=0.0)
        found[batch, replicas] = search._least_s(way, way) - call_s(search._job(way))
    assert found[8, 1] > 0
    assert found[16, 1] == pytest.approx(2 * found[8, 1])
    assert found[16, 2] == pytest.approx(found[8, 1])


LOOKS: dict[str, tuple[dict[float, str], list[str], list[float]]] = {
    "a pipeline leaves the reserve": ({0.1: "pipelined"}, ["pipelined"], [0.1]),
    "phases leave the reserve, and a pipeline does not": ({0.1: "phased", 0.0: "pipelined"}, ["phased"], [0.1]),
    "nothing leaves the reserve": ({0.0: "pipelined"}, ["pipelined"], [0.1, 0.0]),
}


@pytest.mark.parametrize(("fits", "found", "looks"), LOOKS.values(), ids=LOOKS)
def test_the_reserve_is_given_up_only_where_nothing_leaves_it(
    fits: dict[float, str], found: list[str], looks: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A software stack with a reserve of a tenth."""
    looked = list[float]()

    class Stood:
        """One division, or none, of pipelines and phases."""

        considered_count = 1

        def __init__(self, *_: object, reserve: float) -> None:
            looked.append(reserve)
            self._fits = fits.get(reserve, "")
            self.pipelines, self.phased = [SimpleNamespace()], [SimpleNamespace()]

        def leads(self) -> list[Lead[Any]]:
            return [Lead(2.0, None, cast(Any, SimpleNamespace(kind=self._fits)))] if self._fits else []

        def near(self, _: object) -> list[Lead[Any]]:
            return []

    spec = SimpleNamespace(memory=SimpleNamespace(reserve=None), software=SimpleNamespace(memory_reserve=0.1))
    monkeypatch.setattr(auto, "Divisions", Stood)
    monkeypatch.setattr(auto, "_refined", lambda _, timed, *, prune: timed)
    loaded = cast(Any, SimpleNamespace(replaced=None))
    _, timed, reserve = auto._searched(loaded, cast(Any, spec), silent, prune=True)
    assert looked == looks
    assert [each.kind for _, each in timed] == found
    assert reserve == looks[-1]


PAIRS = Cuts((0, 1), (range(2), range(2, 4)))
"""Two stages of two IPUs each, which share every layer."""


@pytest.mark.parametrize(
    ("changed", "left_out"),
    [
        ({}, True),
        ({"cuts": PAIRS}, False),
        ({"weight_storage": ON_CHIP}, False),
        ({"batches_in_flight": 2}, False),
        ({"io_tiles": 32}, False),
        ({"io_tiles": 32, "weight_storage": ON_CHIP, "short": ON_CHIP}, True),
        ({"weight_storage": ON_CHIP, "short": ON_CHIP}, True),
        ({"cuts": PAIRS, "weight_storage": ON_CHIP}, False),
        ({"cuts": PAIRS, "batches_in_flight": 2}, False),
    ],
)
def test_a_longer_pipeline_is_left_out_where_its_stages_only_wait(changed: dict[str, Any], left_out: bool) -> None:
    """Of one batch, alike but for its length; I/O tiles load weights ahead of a turn where they are streamed."""
    stored = {"weight_storage": changed.pop("short", STREAMING)}
    short = Layout(ipus_per_replica=2, available_memory_proportion=(0.2,), **stored)
    long = replace(short, ipus_per_replica=4, **({"weight_storage": STREAMING} | changed))
    assert decoder._no_slower(short, long) is left_out
