"""Keys that change nothing in what is asked are told, and only those."""

from __future__ import annotations

import json

import pytest

from podsim import run
from podsim.result.base import plain
from podsim.scenario import load_scenario
from podsim.scenario.without_effect import _rules, without_effect

OTHER_VALUES = {
    "evaluation": ("training_program", "forward_passes"),
    "buffering_depth": ("1", "4"),
    "session_calls_per_epoch": ("1", "4"),
    "schedule": ("lock_step", "grouped"),
    "collective_rings": ("1", "4"),
    "broadcast_collective_size": ("1 B", "32 kB"),
    "dropout": ("0.1", "0.0"),
    "attention_dropout": ("0.1", "0.0"),
    "layout_change_cycles_per_byte": ("1", "2"),
    "process_input_bandwidth": ("1 GB/s", "2 GB/s"),
    "reduction_merge_size": ("1 MB", "50 MB"),
    "collation_bandwidth": ("1 GB/s", "2 GB/s"),
    "optimizer_values_per_tensor": ("1", "2"),
    "replicas": ("1", "2"),
    "samples_per_epoch": ("1000", "2000"),
    "sharding_threshold": ("100", "100000"),
    "code_memory_per_tile": ("50 kB", "100 kB"),
    "inference_code_memory_per_tile": ("50 kB", "60 kB"),
}
TIMES, FLAGS = ("1 ms", "2 ms"), ("true", "false")
SMALL = ("model.layer_count=4",)


def values(key: str) -> tuple[str, str]:
    """Two that a key may have."""
    name = key.rpartition(".")[2]
    flags = name.startswith(
        (
            "clipped_",
            "collectives_merged",
            "one_",
            "overlapped_",
            "sharded_",
            "recompute_",
            "recomputes_",
            "update_",
            "replicated_",
            "mlm",
            "next",
            "pooler",
        )
    )
    return OTHER_VALUES.get(name) or (FLAGS if flags else TIMES)


@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("bert_base_squad_pod16", ()),
        ("bert_base_clue_pod4", ()),
        ("bert_base_squad_pod16", ("parallelism.schedule=lock_step",)),
        ("resnet50_pytorch_pod4", ("run.epochs=1",)),
        ("efficientnet_v2_s_8_stages_bow_pod16", ("data.loader=ahead", "parallelism.recomputation=segment")),
        ("bert_base_phased_pod16", (*SMALL, "parallelism.batch_serialisation=false")),
        ("bert_base_phased_pod16", (*SMALL, "memory.io_tiles=0")),
        ("e5_large_pod4", ("model.layer_count=2",)),
        ("resnet50_pod4", ()),
        ("llama2_7b_pods", SMALL),
        ("gptj_6b_pod4_streamed", (*SMALL, "generation.output_tokens=16")),
    ],
)
def test_what_is_told_changes_nothing(name: str, overrides: tuple[str, ...]) -> None:
    """Each key with two values: the same numbers, and a note if it says anything."""
    spec = load_scenario(name, overrides=overrides).spec
    keys = [".".join(map(str, path)) for path, _ in _rules(spec)]
    known = [key for key in dict.fromkeys(keys) if key != "memory.io_tiles" and _is_known(name, overrides, key)]
    assert len(known) > 3
    for key in known:
        found = [run(name, overrides=[*overrides, f"{key}={value}"]) for value in values(key)]
        assert plain(found[0].specific_numbers()) == plain(found[1].specific_numbers()), key
        assert key in {each.key for each in found[0].without_effect}


def _is_known(name: str, overrides: tuple[str, ...], key: str) -> bool:
    """Whether scenarios of this family have the key at all."""
    section = load_scenario(name, overrides=overrides).spec
    for part in key.split(".")[:-1]:
        section = getattr(section, part, None)
    last = key.rpartition(".")[2]
    fields = getattr(type(section), "model_fields", {})
    return last in fields or key.startswith("software.") or any(field.alias == last for field in fields.values())


def told(name: str, *overrides: str) -> list[str]:
    return [each.key for each in without_effect(load_scenario(name, overrides=overrides))]


def test_what_is_not_written_is_not_told() -> None:
    """The stack of a shipped file has keys for all activities; BERT's defaults have a head for pre-training."""
    assert told("bert_base_squad_pod16") == told("resnet50_pod4") == told("llama2_7b_pods") == []
    assert told("bert_base_squad_pod16", "model.pooler=false", "data.dropout=0.1") == []


def test_what_matters_is_not_told() -> None:
    assert told("bert_large_phase1_pod16", "model.next_sentence=true", "model.pooler=true") == []
    assert told("bert_large_phase1_pod16", "software.host_call=100 ms", "data.dropout=0.1") == []
    assert told("llama2_7b_pod16_streamed", "memory.io_tiles=32", "software.sampling_per_logit=1 us") == []


def test_what_a_host_does_with_logits_that_it_is_not_handed() -> None:
    override = "software.sampling_per_logit=1 us"
    assert told("gptj_6b_pod4_streamed", override) == ["software.sampling_per_logit"]


def test_tiles_that_load_nothing() -> None:
    assert told("llama2_7b_pods", "memory.weights=resident", "memory.io_tiles=32") == ["memory.io_tiles"]
    assert told("llama2_7b_pods", "memory.weights=resident", "memory.io_tiles=0") == []


def test_a_result_says_it() -> None:
    result = run("e5_large_pod4", overrides=["model.layer_count=2", "software.host_call=1 ms"])
    assert json.loads(result.to_json())["without_effect"] == [
        {"key": "software.host_call", "reason": "it belongs to other activities than forward passes"}
    ]


DECODER = {
    "kind": "decoder", "layer_count": 2, "hidden_size": 64, "feed_forward_size": 128, "head_count": 8,
    "kv_head_count": 8, "vocabulary_size": 100,
}  # fmt: skip


def small(division: dict[str, object], **model: object) -> dict[str, object]:
    """A small decoder on 16 IPUs of one link domain, divided so."""
    layout = {"pipeline_stages": 1, "micro_batch_size": 1, "accumulation_factor": 4, "replication_factor": 1}
    return {
        "system": "ipu_pod16",
        "software": "popxl_sdk_3.3",
        "model": DECODER | model,
        "data": {"sequence_length": 16},
        "parallelism": layout | division,
    }


def told_of(division: dict[str, object], **model: object) -> list[str]:
    return [each.key for each in without_effect(load_scenario(small(division, **model)))]


def test_an_order_that_is_told_changes_nothing() -> None:
    division = {"tensor_parallel": 2, "replication_factor": 2, "accumulation_factor": 3}
    usual, other = (run(small(division | more)) for more in ({}, {"nearest": ["stages", "shards", "replicas"]}))
    assert plain(usual.specific_numbers()) == plain(other.specific_numbers())


@pytest.mark.parametrize(
    ("shards", "stages", "replicas", "nearest", "is_told"),
    [
        (2, 1, 2, ["stages", "shards", "replicas"], True),
        (2, 1, 2, ["stages", "replicas", "shards"], False),
        (2, 2, 1, ["replicas", "shards", "stages"], True),
        (2, 2, 1, ["stages", "replicas", "shards"], False),
        (2, 2, 1, ["shards", "stages", "replicas"], False),  # what is left out anyway is no news
    ],
)
def test_an_order_of_what_there_is_one_of(
    shards: int, stages: int, replicas: int, nearest: list[str], *, is_told: bool
) -> None:
    division = {"tensor_parallel": shards, "pipeline_stages": stages, "replication_factor": replicas}
    assert told_of(division | {"nearest": nearest}) == ["parallelism.nearest"] * is_told


def test_a_head_on_the_only_ipu() -> None:
    assert told_of({"head_on": "last_ipu"}) == ["parallelism.head_on"]
    assert told_of({"head_on": "last_ipu", "pipeline_stages": 2}) == []


def test_imbalance_of_experts_that_have_a_room_of_their_own() -> None:
    experts = {"count": 4, "per_token": 2, "imbalance": 1.5}
    assert told_of({}, experts=experts) == []
    assert told_of({}, experts=experts | {"capacity_factor": 1.25}) == ["model.experts.imbalance"]
