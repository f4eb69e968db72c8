"""A small BERT and small convolutional networks on small pods, for tests that need a whole scenario."""

from __future__ import annotations

from podsim.placement import Plan, make_plan
from podsim.placement.job import training_job
from podsim.scenario import load_scenario
from podsim.scenario.hardware import System

Mapping = dict[str, object]


def small_pod(machines: int = 1, *, topology: str = "ladder", domain_machines: int = 16, **machine: object) -> Mapping:
    """A pod of IPU-M2000s with four IPUs each; `machine` changes the machines."""
    changes: Mapping = {"machine": machine} if machine else {}
    return {
        "base": "ipu_pod16",
        "machine_count": machines,
        "topology": topology,
        "link_domain_machine_count": domain_machines,
    } | changes


def small_bert(
    pod: Mapping | str,
    layers_per_ipu: list[int],
    *,
    replicas: int = 1,
    accumulation: int = 20,
    recomputation: str = "layer",
    storage: str = "in_processor_memory",
    sharding: bool = True,
    software: str = "popart_sdk_2.3",
    shards: int = 1,
) -> Mapping:
    """A scenario: hidden states of 4 sequences of 32 tokens with 64 elements each."""
    return {
        "system": pod,
        "software": software,
        "model": {
            "kind": "bert",
            "layer_count": sum(layers_per_ipu),
            "hidden_size": 64,
            "feed_forward_size": 256,
            "head_count": 2,
            "vocabulary_size": 1000,
        },
        "data": {"sequence_length": 32, "masked_token_count": 5},
        "parallelism": {
            "micro_batch_size": 4,
            "accumulation_factor": accumulation,
            "replication_factor": replicas,
            "tensor_parallel": shards,
            "layers_per_ipu": layers_per_ipu,
            "recomputation": recomputation,
        },
        "memory": {"optimizer_state": {"storage": storage, "replicated_tensor_sharding": sharding}},
    }


def small_cnn(
    pod: Mapping | str,
    *,
    replicas: int = 1,
    accumulation: int = 8,
    splits: tuple[str, ...] = (),
    decoded: bool = True,
    prefetch: int = 3,
    io_tiles: int = 0,
    recomputation: str = "none",
    software: str | Mapping = "tensorflow1_sdk_2.3",
) -> Mapping:
    """A scenario: micro-batches of 4 images of 16x16, three convolutions and a head."""
    return {
        "system": pod,
        "software": software,
        "model": {
            "kind": "conductivity_cnn",
            "image_size": 16,
            "input_channels": 3,
            "channels": [8, 16, 16],
            "dense_widths": [],
        },
        "data": {"samples_per_epoch": 1000, "decoded_by_host": decoded, "prefetch_depth": prefetch},
        "parallelism": {
            "micro_batch_size": 4,
            "accumulation_factor": accumulation,
            "replication_factor": replicas,
            "pipeline_splits": list(splits),
            "recomputation": recomputation,
        },
        "memory": {"io_tiles": io_tiles},
    }


def plan_of(scenario: Mapping | str, *overrides: str) -> Plan:
    """The plan of a scenario."""
    return make_plan(training_job(load_scenario(scenario, overrides=overrides).spec))


def system_of(pod: Mapping | str) -> System:
    """A pod, shipped or by `small_pod`."""
    return load_scenario(small_bert(pod, [1])).spec.system
