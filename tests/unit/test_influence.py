"""What a result stands on, for all four kinds of run."""

from __future__ import annotations

import json
import pickle

import pytest

import podsim
from podsim.result.influence import StandsOn
from podsim.result.standing import inputs_table
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.assumptions import assumptions, with_number
from podsim.show.text import to_text
from tests.unit.report_examples import result_text

_TRAINED = "gpt2_small_pod4"
_SERVED = "serving_llama2_7b_pod64"
_STREAM = "software.stream_time"


def influences(result: object) -> dict[str, object]:
    return {str(assumption["key"]): assumption["influence"] for assumption in result.assumptions}  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def trained() -> podsim.RunResult:
    return podsim.simulate(_TRAINED)


def test_the_influence_is_that_of_writing_the_bound(trained: podsim.RunResult) -> None:
    """From 8.5 to 15 us, as a user would set it."""
    low, high = (podsim.simulate(_TRAINED, overrides=[f"{_STREAM}={bound} us"]) for bound in (8.5, 15))
    base = trained.throughput_samples_per_s
    assert influences(trained)[_STREAM] == {
        "metric": "throughput_samples_per_s",
        "low": pytest.approx(low.throughput_samples_per_s / base - 1),
        "high": pytest.approx(high.throughput_samples_per_s / base - 1),
    }


def test_products_keep_their_splits_for_nearly_the_same_answer() -> None:
    """BERT's splits stay best from 150 to 300 cycles."""
    key = "system.machine.ipu.superstep.overhead"
    result = podsim.simulate("bert_v1.1_pod64_open")
    slow = podsim.simulate("bert_v1.1_pod64_open", overrides=[f"{key}=300 cycles"])
    found = influences(result)[key]
    assert isinstance(found, dict)
    assert found["metric"] == "time_to_train_s"
    assert result.time_to_train_s is not None and slow.time_to_train_s is not None
    assert found["high"] == pytest.approx(slow.time_to_train_s / result.time_to_train_s - 1, rel=1e-3)


def test_the_most_influential_comes_first(trained: podsim.RunResult) -> None:
    sizes = [max(abs(found["low"] or 0), abs(found["high"] or 0)) for found in influences(trained).values()]  # type: ignore[index]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("run", "name", "unused"),
    [
        (
            podsim.simulate,
            _TRAINED,
            {"software.setup", "system.host.image_decode_time", "system.machine.gw_link.latency"},
        ),
        (podsim.generate, "llama2_7b_pod16_streamed", {"software.host_call", "system.machine.host_link.latency"}),
        (podsim.infer, "e5_large_pod4", {"software.host_call", "system.machine.ipu_link.hop_latency"}),
        (podsim.serve, _SERVED, {"software.host_call", "system.machine.streaming_memory.latency"}),
    ],
)
def test_what_moves_nothing_is_not_listed(run: object, name: str, unused: set[str]) -> None:
    spec = load_scenario(name).spec
    listed = set(influences(run(name)))  # type: ignore[operator]
    assert listed
    assert listed <= {assumption.key for assumption in assumptions(spec)}
    assert unused.isdisjoint(listed)


def test_new_splits_are_measured_on_request() -> None:
    """Fewer tiles need other splits; half as many halve the speed of what they compute, or nearly."""
    tiles = "{value: 1472, source: me, basis: assumed, range: [1300, 1472]}"
    overrides = [f"system.machine.ipu.tile.count={tiles}"]
    key = "system.machine.ipu.tile.count"
    plain = podsim.simulate(_TRAINED, overrides=overrides)
    measured = podsim.simulate(_TRAINED, overrides=overrides, influence=True)
    assert influences(plain)[key] is None
    assert "--influence" in result_text(plain)
    found = influences(measured)[key]
    assert isinstance(found, dict)
    assert found["low"] is None or found["low"] < 0
    assert found["high"] == 0


def test_a_bound_that_does_not_fit_is_impossible() -> None:
    code = "{value: 110 kB, source: me, basis: assumed, range: [100 kB, 600 kB]}"
    found = influences(podsim.simulate(_TRAINED, overrides=[f"software.code_memory_per_tile={code}"]))
    assert found["software.code_memory_per_tile"] == {"metric": "throughput_samples_per_s", "low": 0.0, "high": None}


def test_a_result_can_be_pickled_and_written(trained: podsim.RunResult) -> None:
    copy = pickle.loads(pickle.dumps(trained))
    assert copy.assumptions == trained.assumptions
    assert json.loads(trained.to_json())["assumptions"][0]["influence"]["metric"] == "throughput_samples_per_s"


def test_the_table_says_how_far_each_moves_the_result() -> None:
    def row(key: str, influence: object) -> dict[str, object]:
        return {"key": key, "value": "1", "basis": "assumed", "influence": influence}

    table = inputs_table(
        [
            row("a", {"metric": "tokens_per_s", "low": -0.031, "high": 0.04}),
            row("b", None),
            row("c", {"metric": "tokens_per_s", "low": 0.0, "high": 0.0}),
        ]
    )
    text = to_text(table)
    assert "-3.1 % to +4.0 %" in text
    assert "not measured" in text
    assert not any(line.startswith("c ") for line in text.splitlines())


def test_a_tenth_either_way_where_there_is_no_range() -> None:
    loaded = load_scenario(
        _TRAINED, overrides=["system.machine.ipu.clock=2 GHz", "system.machine.ipu.tile.worker_count=4"]
    )
    bounds = {assumption.key: assumption.bounds for assumption in assumptions(loaded.spec)}
    assert bounds["system.machine.ipu.clock"] == pytest.approx((1.8e9, 2.2e9))
    assert bounds["system.machine.ipu.tile.worker_count"] == (3, 5)


def test_a_number_that_its_part_refuses_is_an_error() -> None:
    loaded: LoadedScenario = load_scenario(_TRAINED)
    with pytest.raises(ValueError, match="odd"):
        with_number(loaded.spec, "system.machine.ipu_count", 3)


@pytest.mark.parametrize(
    "name",
    [
        "bert_v1.1_pod64_open",
        "resnet50_v1.1_pod16",
        "bert_base_c600@batch_128",
        "e5_large_pod4",
        "llama2_7b_pod16_streamed",
        "gptj_6b_pod4_streamed",
    ],
)
def test_a_run_repeated_as_it_is_has_the_figures_of_its_result(name: str) -> None:
    title, _, variant = name.partition("@")
    result = podsim.run(title, variant=variant or None)
    assert isinstance(result.assumptions, StandsOn)
    measure = result.assumptions.probe(result.assumptions.spec, resplit=True)
    assert measure is not None and measure.metrics
    for metric, value in measure.metrics.items():
        assert value == pytest.approx(getattr(result, metric)), metric
    assert measure.headline == pytest.approx(getattr(result, result.assumptions.probe.metric))
