"""The search loses nothing: with bounds and without it chooses alike, and no bound is above a simulated time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim.placement.schedule import PipelineSchedule
from podsim.scenario import LoadedScenario, TrainingScenario, load_scenario
from podsim.scenario.schedules import ScheduleName, micro_batches_of
from podsim.search.auto import Divisions, choose
from podsim.search.best_first import ROUNDING, Found, Lead, best_first
from podsim.search.search import least_cycles, pipeline_cycles
from podsim.watch import silent
from tests.examples import small_bert, small_pod

SLOW_MEMORY = {"streaming_memory": {"bandwidth_per_machine": "1 GB/s"}}
SLOW_LINKS = {"ipu_link": {"bandwidth_per_direction": "0.1 GB/s"}}


def bert(pod: object, layers: int, batch: int, software: object = "popart_sdk_2.3", **pins: object) -> dict[str, Any]:
    """Hidden states of 64 elements; nothing of the division is given but pins."""
    scenario = dict(small_bert(pod, [layers], software=software))  # type: ignore[arg-type]
    del scenario["memory"]
    return scenario | {"parallelism": {"auto": True, **pins}, "batch_size": batch}


def decoder(pod: object, batch: int, *, size: dict[str, Any] | None = None, **pins: object) -> dict[str, Any]:
    """A GPT of two layers, or another."""
    model = {"kind": "decoder", "layer_count": 2, "hidden_size": 128, "feed_forward_size": 512, "head_count": 4}
    return {
        "system": pod,
        "software": "popxl_sdk_3.3",
        "model": {**model, "kv_head_count": 4, "vocabulary_size": 1000, **(size or {})},
        "data": {"sequence_length": 64},
        "optimizer": {"kind": "adamw"},
        "parallelism": {"auto": True, **pins},
        "batch_size": batch,
    }


LLAMA: dict[str, Any] = {"kv_head_count": 2, "norm": "rms", "gated": True}


def t5(pod: object, batch: int, **pins: object) -> dict[str, Any]:
    """An encoder-decoder of two layers each."""
    model = {"kind": "t5", "layer_count": 2, "hidden_size": 64, "feed_forward_size": 128, "head_count": 2}
    return {
        "system": pod,
        "software": "popxl_sdk_3.3",
        "model": {**model, "head_size": 32, "vocabulary_size": 1000},
        "data": {"source_length": 32, "target_length": 16},
        "optimizer": {"kind": "adamw"},
        "parallelism": {"auto": True, **pins},
        "batch_size": batch,
    }


MOE: dict[str, Any] = {**LLAMA, "experts": {"count": 4, "per_token": 2}}
GROUPED = {"base": "popart_sdk_2.3", "schedule": "grouped"}
PAIR, FOUR, EIGHT = small_pod(1, ipu_count=2), small_pod(1), small_pod(2)
CASES: dict[str, dict[str, Any]] = {
    "bert on two": bert(PAIR, 2, 3),
    "bert on four": bert(FOUR, 3, 12, recomputation="layer", micro_batch_size=1),
    "bert over slow memory": bert(small_pod(1, ipu_count=2, **SLOW_MEMORY), 2, 2),
    "bert over slow links": bert(small_pod(1, ipu_count=2, **SLOW_LINKS), 2, 4, recomputation="none"),
    "bert grouped": bert(PAIR, 2, 8, software=GROUPED, execution="pipelined"),
    "bert pipelined": bert(EIGHT, 4, 24, execution="pipelined", tensor_parallel=1),
    "gpt on two": decoder(PAIR, 4, recomputation="layer"),
    "gpt in phases": decoder(FOUR, 2, execution="phased", recomputation="none", tensor_parallel=2),
    "gpt in shards": decoder(FOUR, 16, tensor_parallel=2, execution="pipelined"),
    "gpt over slow memory": decoder(small_pod(1, ipu_count=2, **SLOW_MEMORY), 2),
    "llama on two": decoder(PAIR, 3, size=LLAMA),
    "llama in phases": decoder(EIGHT, 8, size=LLAMA, execution="phased", micro_batch_size=2, tensor_parallel=4),
    "llama with a heavy head": decoder(PAIR, 4, size=LLAMA | {"vocabulary_size": 20000}, execution="pipelined"),
    "llama in three": decoder(FOUR, 96, size={**LLAMA, "layer_count": 3}, pipeline_stages=3, tensor_parallel=1),
    "llama interleaved": decoder(FOUR, 8, size=LLAMA, schedule="interleaved", tensor_parallel=1),
    "bert grouped by name": bert(PAIR, 2, 12, schedule="grouped", tensor_parallel=1),
    "bert with stages nearest": bert(FOUR, 2, 8, nearest=["stages", "replicas", "shards"], tensor_parallel=2),
    "gpt on a grid": decoder(FOUR, 8, tensor_parallel=4, hidden_parallel=2),
    "gpt in two attentions": decoder(PAIR, 4, attention_serialisation=2, recomputation="layer"),
    "experts on two": decoder(PAIR, 2, size=MOE, recomputation="layer"),
    "experts over four": decoder(FOUR, 2, size=MOE, expert_parallel=2, sequence_parallel=False),
    "t5 on two": t5(PAIR, 2),
    "t5 in phases": t5(FOUR, 4, execution="phased", tensor_parallel=2),
}


def loaded_of(case: str) -> LoadedScenario:
    return load_scenario(CASES[case])


@pytest.mark.parametrize("case", CASES)
def test_what_is_left_out_could_not_have_won(case: str) -> None:
    _, quick = choose(loaded_of(case), silent)
    _, whole = choose(loaded_of(case), silent, prune=False)
    assert whole.simulated_count > quick.simulated_count
    assert quick.chosen.throughput_samples_per_s == whole.chosen.throughput_samples_per_s


def followed(lead: Lead[Found], bounds: tuple[float, ...] = ()) -> Iterator[tuple[tuple[float, ...], float]]:
    """The bounds on the way to every simulated division, and its time."""
    if lead.closer is None:
        yield bounds, lead.bound_s
        return
    for each in lead.closer():
        yield from followed(each, (*bounds, lead.bound_s))


@pytest.mark.parametrize("case", CASES)
def test_no_bound_is_above_the_time_of_what_it_stands_for(case: str) -> None:
    loaded = loaded_of(case)
    leads = Divisions(loaded, loaded.require(TrainingScenario)).leads()
    seen = 0
    for lead in leads[:: 1 + len(leads) // 25]:
        for bounds, time_s in followed(lead):
            assert max(bounds) <= time_s * (1 + ROUNDING)
            seen += 1
    assert seen >= 5


@given(
    passes=st.lists(st.tuples(st.floats(0, 4), st.floats(0, 8)), min_size=1, max_size=5),
    folded=st.booleans(),
    schedule=st.sampled_from(["lock_step", "grouped", "interleaved", "sequential"]),
    beyond=st.integers(0, 12),
)
def test_no_pipeline_is_faster_than_its_blocks(
    passes: list[tuple[float, float]], folded: bool, schedule: ScheduleName, beyond: int
) -> None:
    """Each stage is a block; the last one shares an IPU with the first where it is folded."""
    stages = len(passes)
    places = stages - 1 if folded and stages > 2 else stages
    factor = micro_batches_of(schedule, stages, strict=False).least + beyond
    cycles = pipeline_cycles(
        [(number % places, *pass_) for number, pass_ in enumerate(passes)],
        factor,
        PipelineSchedule.from_name(schedule, stages),
    )
    blocks = [ahead + back for ahead, back in passes]
    assert least_cycles(sum(blocks), max(blocks), places, factor) <= cycles * (1 + ROUNDING) + 1e-9


def test_the_last_bounds_of_phases_are_close() -> None:
    """Loads and stores of one IPU are all that there is; only what IPUs of a machine share can take longer."""
    loaded = loaded_of("gpt in phases")
    leads = Divisions(loaded, loaded.require(TrainingScenario)).leads()
    ratios = [bounds[-1] / time_s for lead in leads[::4] for bounds, time_s in followed(lead)]
    assert len(ratios) >= 10
    assert min(ratios) > 0.5


def test_a_lead_that_promises_less_than_the_best_has_is_not_followed() -> None:
    """Three leads of 1, 2 and 5 s at least; the second takes 3 s, so that the third cannot win, and the first could."""
    opened = list[str]()

    def lead(name: str, bound_s: float, time_s: float) -> Lead[str]:
        def closer() -> list[Lead[str]]:
            opened.append(name)
            return [Lead(time_s, None, name)]

        return Lead(bound_s, closer, name=name)

    leads = [lead("slow", 5.0, 6.0), lead("middle", 2.0, 3.0), lead("quick", 1.0, 4.0)]
    assert best_first(leads, str, 1, silent) == [(3.0, "middle")], "a fourth second is never reached"
    assert opened == ["quick", "middle"]
    everything = [(3.0, "middle"), (4.0, "quick"), (6.0, "slow")]
    assert best_first(leads, str, 1, silent, prune=False) == everything
    assert best_first(leads, str, 3, silent) == everything, "runners-up are looked for"
