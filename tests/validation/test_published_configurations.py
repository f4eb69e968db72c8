"""Scenarios of published runs against their publications: the same where these say it, silent where they do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from podsim.result.evidence import ipu_count
from podsim.result.reference_data import rows, scenario_name
from podsim.scenario import LoadedScenario, load_scenario
from podsim.scenario.activity import Activity

SAID_BY = {
    "accumulation": ("parallelism.accumulation_factor",),
    "device_iterations": ("parallelism.updates_per_session_call",),
    "division": ("parallelism.layers_per_ipu", "parallelism.stages", "parallelism.pipeline_splits"),
    "io_tiles": ("memory.io_tiles",),
    "micro_batch": ("parallelism.micro_batch_size", "generation.batch_size"),
    "moments": ("optimizer.first_moment", "optimizer.second_moment", "optimizer.state"),
    "optimizer": ("optimizer.kind",),
    "partials": ("precision.matmul_partials",),
    "processes": ("parallelism.replicas_per_process",),
    "proportions": ("memory.available_memory_proportion",),
    "recomputed": ("parallelism.recomputation", "parallelism.checkpoints"),
    "replicas": ("parallelism.replication_factor",),
    "sharded": ("memory.optimizer_state.replicated_tensor_sharding",),
    "state": ("memory.optimizer_state.storage",),
}
"""Keys of a scenario that say what a column says; where the column is empty, they are left out."""

OTHERWISE = {
    (
        "efficientnet_b4_pytorch_pod16",
        "device_iterations",
    ): "a session call of a convolutional network in PyTorch is one update",
    (
        "efficientnet_b4_pytorch_pod16",
        "division",
    ): "the split lies inside of the first unit of the fourth block, which is no cut here",
    ("efficientnet_b4_pytorch_pod16", "sharded"): "states of convolutional networks are not sharded",
    ("vit_base_pod64@bow_adam", "optimizer"): "Adam with and without weight decay have the same tensors and operations",
    **dict.fromkeys(
        ((row["scenario"], "proportions") for row in rows("published_configurations") if row["proportions"] == "1"),
        "with all memory to themselves, the fastest products of the head leave no room for their results",
    ),
    ("llama2_7b_pod16_streamed", "io_tiles"): "chosen to meet the published rate, and listed among the switches",
    **dict.fromkeys(
        ((row["scenario"], "proportions") for row in rows("published_configurations") if "schnet" in row["scenario"]),
        "that of each run is not published; 0.6 is what Poplar takes where nothing is said",
    ),
}
"""What scenarios say other than their publication, or beyond it, with the reason; weak-spots.md lists them."""


def read(title: str) -> LoadedScenario:
    name, _, variant = title.partition("@")
    return load_scenario(name, variant or None)


def shown(value: Any) -> str:
    return " ".join(f"{each:g}" for each in (value if isinstance(value, list | tuple) else [value]))


def batch_size(spec: Any) -> int:
    if spec.activity is Activity.GENERATION:
        return int(spec.generation.batch_size)
    return int(spec.parallelism.batch_size if spec.activity is Activity.TRAINING else spec.batch_size)


def columns_of(spec: Any) -> dict[str, str]:
    """What the columns are in a scenario, as text; empty where they do not apply to it."""
    ipus = ipu_count(spec)
    found = {"ipus": str(ipus), "global_batch": str(batch_size(spec))}
    if spec.activity is Activity.FORWARD:
        per_call = spec.forward.batches_per_call * spec.parallelism.replication_factor
        return found | {
            "micro_batch": str(spec.forward.batch_size),
            "call_batch": str(spec.forward.batch_size * per_call),
        }
    found |= {
        "proportions": shown(spec.memory.available_memory_proportion),
        "partials": spec.precision.matmul_partials,
        "io_tiles": shown(getattr(spec.memory, "io_tiles", 0) or 0),
    }
    if spec.activity is Activity.GENERATION:
        return found | {
            "ipus_per_replica": str(ipus),
            "replicas": "1",
            "micro_batch": str(spec.generation.batch_size),
            "sequence_length": str(spec.generation.prompt_tokens + spec.generation.output_tokens),
        }
    return found | training_columns_of(spec, ipus)


def training_columns_of(spec: Any, ipus: int) -> dict[str, str]:
    division, optimizer = spec.parallelism, spec.optimizer
    replicas, calls = division.replication_factor, getattr(division, "updates_per_session_call", None) or 1
    state = getattr(spec.memory, "optimizer_state", None)
    phased = getattr(division, "execution", None) == "phased"
    moments = ("first_moment", "state") if optimizer.kind == "sgd" else ("first_moment", "second_moment", "state")
    layers = getattr(division, "layers_per_ipu", None) or getattr(division, "pipeline_splits", None) or ()
    return {
        "ipus_per_replica": str(ipus // replicas),
        "replicas": str(replicas),
        "micro_batch": str(division.micro_batch_size),
        "accumulation": str(division.accumulation_factor),
        "device_iterations": str(calls),
        "call_batch": str(division.batch_size * calls),
        "sequence_length": str(getattr(spec.data, "sequence_length", "")),
        "image_size": str(getattr(spec.model, "image_size", None) or ""),
        "division": " ".join(map(str, layers)),
        "recomputed": "no" if division.recomputation == "none" else "yes",
        "optimizer": optimizer.kind,
        "moments": " ".join(each for name in moments if (each := getattr(optimizer, name, None))),
        "state": "streaming_memory" if phased else state.storage if state else "in_processor_memory",
        "sharded": "yes" if state and state.replicated_tensor_sharding else "no",
        "processes": str(-(-replicas // (division.replicas_per_process or replicas))),
    }


def differences(row: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Columns in which a scenario says something else or more, with what it says."""
    loaded = read(row["scenario"])
    has = columns_of(loaded.spec)
    for column, said in row.items():
        if said and has.get(column) and has[column] != said:
            yield column, f"{column} is {has[column]}, published {said}"
        if not said:
            for key in SAID_BY.get(column, ()):
                if loaded.document.value_at(tuple(key.split("."))) is not None:
                    yield column, f"{key} is not published"


@pytest.mark.parametrize("row", rows("published_configurations"), ids=lambda row: str(row["scenario"]))
def test_a_scenario_says_what_its_publication_says_and_nothing_more(row: dict[str, str]) -> None:
    found = dict(differences(row))
    known = {column for title, column in OTHERWISE if title == row["scenario"]}
    assert {column: text for column, text in found.items() if column not in known} == {}
    assert known <= set(found), "what is no difference any more is not listed"


def test_differences_are_found() -> None:
    """Of a row that says another micro-batch, and nothing of the proportion that its scenario has."""
    row = dict(next(row for row in rows("published_configurations") if row["scenario"] == "gpt2_small_pod16@bow"))
    assert list(differences(row)) == []
    changed = row | {"micro_batch": "2", "proportions": ""}
    assert list(differences(changed)) == [
        ("micro_batch", "micro_batch is 1, published 2"),
        ("proportions", "memory.available_memory_proportion is not published"),
    ]


def test_submissions_are_divided_as_their_logs_say() -> None:
    named = {
        "ipus_per_replica": "ipus_per_replica",
        "replicas": "replicas",
        "micro_batch": "micro_batch_per_replica",
        "accumulation": "grad_accum",
        "global_batch": "packs_per_step",
    }
    submissions = rows("mlperf_submissions")
    assert len(submissions) == 28
    for row in submissions:
        has = columns_of(read(scenario_name(row)).spec)
        for column, logged in named.items():
            assert not row[logged] or has[column] == row[logged], f"{scenario_name(row)}: {column}"
        assert row["optimizer"].casefold().startswith(has["optimizer"]), scenario_name(row)


BATCHES = {
    "GCP-041": "the page repeats the batch of 64 IPUs; the configuration computes 56,032",
    "LLM-001": "one prompt in a graph for two",
    "LLM-002": "one prompt in a graph for two",
}
"""Rows whose published batch is not that of the run, with the reason."""


def test_published_batches_and_ipus_are_those_of_the_scenarios() -> None:
    """A batch that is published is that of an update, or of all that a session call of several does."""
    compared = 0
    for row in rows("published_throughput"):
        for title in row["scenario"].split():
            has = columns_of(read(title).spec)
            assert row["ipus"] in ("", has["ipus"]), f"{row['id']}: ipus"
            assert row["micro_batch"] in ("", has["micro_batch"]), f"{row['id']}: micro_batch"
            batches = {"", has["global_batch"], has.get("call_batch", "")}
            assert (row["global_batch"] in batches) == (row["id"] not in BATCHES), f"{row['id']}: global_batch"
            compared += 1
    assert compared > 60
