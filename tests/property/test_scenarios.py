"""What must hold for any valid scenario: sound results, monotone in hardware, indifferent to spelling."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from podsim.placement.generation import generation_job, plan_generation
from podsim.result.result import RunResult
from podsim.scenario import GenerationScenario, load_scenario
from podsim.tiles.account import total
from podsim.units import PS_PER_S
from tests.property.conftest import examples
from tests.property.runs import complaints, run, steps, times
from tests.property.scenarios import (
    EVERY,
    NUMBERS,
    PASSES,
    TRAINING,
    Scenario,
    at,
    generation,
    graph_passes,
    put,
)
from tests.property.scenarios import replica_counts as possible_replicas
from tests.unit.onnx_examples import products

MACHINE = ("system", "machine")
FASTER = [("system", *path) for path in NUMBERS]
SHORTER = [
    (*MACHINE, "ipu_link", "first_hop_latency"),
    (*MACHINE, "gw_link", "latency"),
    (*MACHINE, "streaming_memory", "latency"),
    (*MACHINE, "ipu", "superstep", "overhead"),
    (*MACHINE, "ipu", "multi_ipu_sync"),
    ("software", "host_call"),
]
SHORT = {"overhead": "1", "multi_ipu_sync": "1"}
ROUNDING = 1e-9
"""Shares of a channel end on whole picoseconds."""


@pytest.fixture(scope="module")
def graph_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("graphs") / "products.onnx"
    return str(products("batch", 32, 64, 48, 64, 16).save(path))


def slower(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, float]:
    """What the change makes slower, by which factor."""
    old, new = times(run(before)), times(run(after))
    return {name: new[name] / old[name] for name in old if new[name] > old[name] * (1 + ROUNDING)}


def scaled(scenario: Scenario, path: tuple[str, ...], factor: float) -> Scenario:
    number, unit = at(scenario, path).split()
    return put(scenario, path, f"{float(number) * factor} {unit}")


every = st.sampled_from(sorted(EVERY)).flatmap(EVERY.__getitem__)
training = st.sampled_from(sorted(TRAINING)).flatmap(TRAINING.__getitem__)
passes = st.sampled_from(sorted(PASSES)).flatmap(PASSES.__getitem__)


def steady(scenario: Scenario) -> bool:
    """No static batches: a faster server may start on fewer requests than it had waited for."""
    return bool(scenario.get("serving", {}).get("batching") != "static")


@examples(30)
@given(every)
def test_results_are_sound(scenario: Scenario) -> None:
    assert not list(complaints(run(scenario)))


@examples(5)
@given(st.data())
def test_graphs_are_sound_and_not_slower_on_faster_hardware(graph_file: str, data: st.DataObject) -> None:
    scenario = data.draw(graph_passes(graph_file))
    assert not list(complaints(run(scenario)))
    assert not slower(scenario, scaled(scenario, data.draw(st.sampled_from(FASTER)), 2))


MEMORY_OF_A_MACHINE = (*MACHINE, "streaming_memory", "bandwidth_per_machine")


def unshared(scenario: Scenario) -> Scenario:
    """Give each IPU that streams weights a memory of its own, so that the law of faster parts holds.

    Stages load at different times. What makes a load start sooner that nobody waits for takes bandwidth from one that
    is waited for: a scheduling anomaly, shown below and in `test_shorter_work_can_make_all_of_it_later`.
    """
    streams = scenario.get("memory", {}).get("weights") == "streamed"
    return put(scenario, MEMORY_OF_A_MACHINE, "1000000 TB/s") if streams else scenario


@examples(40)
@given(every.filter(steady), st.sampled_from(FASTER), st.sampled_from([1.1, 1.3, 2, 8]))
def test_more_of_anything_is_never_slower(scenario: Scenario, path: tuple[str, ...], factor: float) -> None:
    """A faster clock, link or memory makes nothing later, if nothing that is not waited for shares a channel."""
    scenario = unshared(scenario)
    assert not slower(scenario, scaled(scenario, path, factor))


@examples(15)
@given(every.filter(steady), st.sampled_from(SHORTER))
def test_shorter_waits_are_never_slower(scenario: Scenario, path: tuple[str, ...]) -> None:
    scenario = unshared(scenario)
    assert not slower(scenario, put(scenario, path, SHORT.get(path[-1], "1 ns")))


@examples(15)
@given(every.filter(steady), st.sampled_from(["ipu_link", "gateway_link", "gw_link", "host_link"]))
def test_more_efficient_links_are_never_slower(scenario: Scenario, link: str) -> None:
    scenario = unshared(scenario)
    assert not slower(scenario, put(scenario, (*MACHINE, link, "efficiency"), 1))


STREAMED: Scenario = {
    "system": {
        "base": "ipu_pod16",
        "machine_count": 2,
        "link_domain_machine_count": 2,
        "topology": "ladder",
        "machine": {
            "ipu": {"clock": "1.85 GHz"},
            "ipu_link": {"bandwidth_per_direction": "16 GB/s"},
            "streaming_memory": {
                "bandwidth_per_machine": "1 GB/s",
                "read_bandwidth_per_ipu": "11 GB/s",
                "write_bandwidth_per_ipu": "0.1 GB/s",
            },
        },
    },
    "software": {"base": "popxl_sdk_3.3", "token_call": "1 us"},
    "model": {
        "kind": "decoder",
        "layer_count": 5,
        "kv_head_count": 1,
        "vocabulary_size": 2000,
        "gated": False,
        "activation": "gelu",
        "experts": {"count": 4, "per_token": 2, "capacity_factor": 1.25},
        "norm": "rms_plus_one",
        "rotary": True,
        "position_count": 0,
        "rotary_size": 4,
        "parallel_blocks": "one_norm",
        "bias": ["feed_forward", "head"],
        "tied_embedding": False,
        "hidden_size": 32,
        "feed_forward_size": 64,
        "head_count": 1,
    },
    "generation": {"batch_size": 5, "prompt_tokens": 13, "output_tokens": 40, "kv_cache": "none"},
    "parallelism": {"tensor_parallel": 1, "pipeline_stages": 4, "batches_in_flight": 3},
    "memory": {"weights": "streamed", "io_tiles": 64},
    "precision": {"weights": "fp8"},
}
"""A decoder on four stages that load their weights from one streaming memory, which is slow."""


def test_a_faster_clock_delays_a_first_token_only_where_stages_share_a_memory() -> None:
    """The anomaly above: stages of three batches load at other times, and wait for each other's loads."""
    clock = (*MACHINE, "ipu", "clock")
    assert slower(STREAMED, scaled(STREAMED, clock, 1.3)) == {"first token": pytest.approx(1.083, abs=0.001)}
    assert not slower(unshared(STREAMED), scaled(unshared(STREAMED), clock, 1.3))


@examples(15)
@given(st.sampled_from(["vit", "convnet", "vit passes"]).flatmap(EVERY.__getitem__), st.integers(2, 4))
def test_more_hosts_are_never_slower(scenario: Scenario, factor: int) -> None:
    replicas, hosts = scenario["parallelism"]["replication_factor"], factor * scenario["system"]["host_count"]
    if replicas % hosts == 0 or hosts % replicas == 0:
        assert not slower(scenario, put(scenario, ("system", "host_count"), hosts))


FREE = {
    (*MACHINE, "ipu_link", "bandwidth_per_direction"): "1000000 TB/s",
    (*MACHINE, "gw_link", "bandwidth_per_direction"): "1000000 TB/s",
    (*MACHINE, "gateway_link", "bandwidth_per_direction"): "1000000 TB/s",
    (*MACHINE, "gw_link", "buffer_write_bandwidth_per_ipu"): "1000000 TB/s",
    (*MACHINE, "gw_link", "buffer_read_bandwidth_per_ipu"): "1000000 TB/s",
    (*MACHINE, "ipu_link", "first_hop_latency"): "0 s",
    (*MACHINE, "ipu_link", "hop_latency"): "0 s",
    (*MACHINE, "gw_link", "latency"): "0 s",
    (*MACHINE, "gateway_link", "latency"): "0 s",
    (*MACHINE, "ipu", "multi_ipu_sync"): "0 cycles",
}
"""A network that costs nothing: on a real one, a small update over slow links is faster alone."""


@examples(15)
@given(st.one_of(training, passes), st.data())
def test_more_replicas_are_never_fewer_samples(scenario: Scenario, data: st.DataObject) -> None:
    """At the same work for each of them; servers and memories of machines that all share may set the pace."""
    for path, value in FREE.items():
        scenario = put(scenario, path, value)
    counts = [count for count in replica_counts(scenario) if allowed(scenario, count)]
    more = data.draw(st.sampled_from(counts))
    assert not slower(scenario, put(scenario, ("parallelism", "replication_factor"), more))


def replica_counts(scenario: Scenario) -> list[int]:
    """The number of replicas, and larger ones that the pod has room for."""
    division, pod = scenario["parallelism"], scenario["system"]
    ipus = division.get("pipeline_stages") or len(
        division.get("layers_per_ipu") or division.get("pipeline_splits", ())
    ) + ("pipeline_splits" in division)
    least = division["replication_factor"]
    return [least, *(count for count in possible_replicas(pod, ipus) if count > least)]


def allowed(scenario: Scenario, replicas: int) -> bool:
    """Whether servers can be shared among them."""
    hosts = scenario["system"].get("host_count", 1)
    return replicas % hosts == 0 or hosts % replicas == 0


@examples(15)
@given(every.filter(lambda scenario: "serving" not in scenario))
def test_folded_is_explicit(scenario: Scenario) -> None:
    """To the picosecond, for every kind of time."""
    folded, explicit = run(scenario), run(scenario, explicit=True)
    assert times(folded) == times(explicit)
    assert [step.breakdown_ps for step in steps(folded)] == [step.breakdown_ps for step in steps(explicit)]
    if isinstance(folded, RunResult) and isinstance(explicit, RunResult):
        assert folded.ipus == explicit.ipus


SMALLER = {"GHz": (1000, "MHz"), "GB/s": (1000, "MB/s"), "ms": (1000, "us"), "us": (1000, "ns")}


def respelled(data: Any) -> Any:
    """Quantities in smaller units, keys in the opposite order."""
    if isinstance(data, dict):
        return {key: respelled(value) for key, value in reversed(data.items())}
    number, _, unit = data.partition(" ") if isinstance(data, str) else ("", "", "")
    if unit not in SMALLER:
        return data
    factor, small = SMALLER[unit]
    return f"{Decimal(number) * factor} {small}"


@examples(15)
@given(every)
def test_spelling_changes_nothing(scenario: Scenario) -> None:
    assert at(respelled(scenario), (*MACHINE, "ipu", "clock")).endswith("MHz")
    assert times(run(scenario)) == times(run(respelled(scenario)))


@examples(15)
@given(every, st.sampled_from(FASTER))
def test_variant_override_and_key_are_the_same(scenario: Scenario, path: tuple[str, ...]) -> None:
    value = "1 GHz" if path[-1] == "clock" else "1 GB/s"
    written = times(run(put(scenario, path, value)))
    assert written == times(run(scenario, overrides=[f"{'.'.join(path)}={value}"]))
    assert written == times(run(scenario | {"variants": {"other": put({}, path, value)}}, variant="other"))


@examples(12)
@given(generation())
def test_narrower_streamed_weights_are_never_slower(scenario: Scenario) -> None:
    """But for the time that unpacking takes: weights of 16 bits do without, those of 4 bits have an offset, too."""
    streamed = put(scenario, ("memory", "weights"), "streamed")
    full, half, quarter = (put(streamed, ("precision", "weights"), each) for each in ("fp16", "fp8", "int4"))
    for wider, narrower in ((full, half), (half, quarter)):
        wide, narrow, unpacking = times(run(wider)), times(run(narrower)), unpacking_s(narrower)
        assert narrow["first token"] <= wide["first token"] + unpacking
        assert narrow["next token"] <= wide["next token"] + unpacking


def unpacking_s(scenario: Scenario) -> float:
    """The most that unpacking all layers adds to a step of all batches in flight. [s]"""
    spec = load_scenario(scenario).spec
    assert isinstance(spec, GenerationScenario)
    asked = generation_job(spec)
    plan = plan_generation(asked).decode
    attention = plan.stages[0].blocks["attention"].forward
    cycles = total(each.account for each in attention if each.op.name.startswith("weights/"))
    one_s = cycles.cycles / plan.system.machine.ipu.clock_hz + 2 / PS_PER_S  # two passes end on whole picoseconds
    assert cycles.cycles > 0
    return plan.layout.batches_in_flight * spec.model.layer_count * one_s


@examples(6)
@given(st.one_of(training, generation()))
def test_a_division_that_is_chosen_is_never_slower_than_a_given_one(scenario: Scenario) -> None:
    """At the same batch."""
    division = scenario["parallelism"]
    factors = ("micro_batch_size", "accumulation_factor", "replication_factor")
    chosen: Scenario = scenario | {"parallelism": {"auto": True}}
    if "generation" in scenario:
        chosen["parallelism"]["batches_in_flight"] = division["batches_in_flight"]
        chosen["memory"] = scenario["memory"] | {"reserve": 0.0}
    else:
        chosen["batch_size"] = prod(division[factor] for factor in factors)
        if "updates_per_session_call" in division:
            chosen["parallelism"]["updates_per_session_call"] = division["updates_per_session_call"]
        chosen["memory"] = {key: value for key, value in scenario["memory"].items() if key == "io_tiles"} | {
            "reserve": 0.0
        }
    found = slower(scenario, chosen)
    if found.keys() == {"first token"}:
        # The time per output token is what is chosen for, and the first one decides between equal ones.
        assert times(run(chosen))["next token"] < times(run(scenario))["next token"]
        return
    assert not found
