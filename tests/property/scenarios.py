"""Random valid scenarios of every activity, each small enough to be simulated in some ten milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hypothesis import strategies as st

Scenario = dict[str, Any]

IPUS_PER_MACHINE = 4
NUMBERS: dict[tuple[str, ...], tuple[str, tuple[float, ...]]] = {
    ("machine", "ipu", "clock"): ("GHz", (0.2, 1.33, 1.85)),
    ("machine", "ipu_link", "bandwidth_per_direction"): ("GB/s", (0.01, 0.3, 16)),
    ("machine", "gw_link", "bandwidth_per_direction"): ("GB/s", (0.01, 12.5)),
    ("machine", "host_link", "bandwidth_per_direction"): ("GB/s", (0.003, 0.1, 12.5)),
    ("machine", "streaming_memory", "bandwidth_per_machine"): ("GB/s", (1, 40)),
    ("machine", "streaming_memory", "read_bandwidth_per_ipu"): ("GB/s", (0.1, 11)),
    ("machine", "streaming_memory", "write_bandwidth_per_ipu"): ("GB/s", (0.1, 9)),
}
"""Numbers of a pod that move the bottleneck: unit, and values from what everything waits for to what nobody notices."""


def put(scenario: Mapping[str, Any], path: Iterable[str], value: Any) -> Scenario:
    """The same with one key changed.

    >>> put({"a": {"b": 1}, "c": 2}, ("a", "b"), 3)
    {'a': {'b': 3}, 'c': 2}
    """
    first, *rest = path
    inner = scenario.get(first)
    return {**scenario, first: put(inner if isinstance(inner, dict) else {}, rest, value) if rest else value}


def at(scenario: Mapping[str, Any], path: Iterable[str]) -> Any:
    """The value of a key; None where there is no such key."""
    value: Any = scenario
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def divisors(number: int, candidates: Iterable[int]) -> list[int]:
    """Those of the candidates that divide it."""
    return [candidate for candidate in candidates if number % candidate == 0]


@st.composite
def pods(draw: st.DrawFn, most_machines: int = 4) -> Scenario:
    """1 to 4 machines in 1 to 4 link domains of any topology, with links, memories and a clock slow or fast."""
    machines = draw(st.integers(1, most_machines))
    pod: Scenario = {
        "base": "ipu_pod16",
        "machine_count": machines,
        "link_domain_machine_count": draw(st.sampled_from(divisors(machines, range(1, machines + 1)))),
        "topology": draw(st.sampled_from(["ladder", "torus", "machine_ring"])),
    }
    for path, (unit, values) in NUMBERS.items():
        pod = put(pod, path, f"{draw(st.sampled_from(values))} {unit}")
    return pod


def domain_ipus(pod: Scenario) -> int:
    """IPUs of a link domain."""
    count: int = pod["link_domain_machine_count"] * IPUS_PER_MACHINE
    return count


def replica_counts(pod: Scenario, ipus: int) -> list[int]:
    """How many replicas of so many IPUs the pod can have: within a link domain, or in whole ones."""
    per_domain = domain_ipus(pod) // ipus
    domains = pod["machine_count"] // pod["link_domain_machine_count"]
    return [*range(1, per_domain + 1), *(per_domain * count for count in range(2, domains + 1))]


def with_hosts(draw: st.DrawFn, pod: Scenario, replicas: int) -> Scenario:
    """Servers, fast or slow, among which the replicas can be divided."""
    hosts = draw(st.sampled_from([n for n in range(1, 9) if replicas % n == 0 or n % replicas == 0]))
    decode = draw(st.sampled_from(["1 us", "5 ms", "200 ms"]))
    return pod | {"host_count": hosts, "host": {"image_decode_time": decode}}


def software(draw: st.DrawFn, base: str) -> Scenario:
    """A stack with calls that matter or not, either schedule, and rings in one or both directions."""
    return {
        "base": base,
        "schedule": draw(st.sampled_from(["lock_step", "grouped"])),
        "host_call": draw(st.sampled_from(["1 us", "5 ms"])),
        "update_first_ipu_apart": draw(st.booleans()),
        "recompute_last_segment": draw(st.booleans()),
        "sharding_threshold": draw(st.sampled_from([1, 8192])),
        "collective_rings": draw(st.sampled_from([1, 2, 4])),
        "collectives_merged": draw(st.booleans()),
    }


def _division(draw: st.DrawFn, pod: Scenario, head_apart: bool, least_layers: int = 1) -> Scenario:
    """Micro-batches, replicas and layers of a transformer on 1 to 8 IPUs per replica, by any schedule."""
    ipus = draw(st.sampled_from([each for each in (1, 2, 3, 4, 6, 8) if each <= domain_ipus(pod)]))
    empty_first = ipus > 1 and draw(st.booleans())
    layers = [0 if empty_first else least_layers, *(draw(st.integers(1, 2)) for _ in range(ipus - 1))]
    stages = ipus + (head_apart and ipus > 1)
    return {
        "micro_batch_size": draw(st.integers(1, 4)),
        "accumulation_factor": 2 * stages - 1 + draw(st.integers(0, 9)),
        "schedule": draw(st.sampled_from([None, None, "interleaved", "sequential"])),
        "replication_factor": draw(st.sampled_from(replica_counts(pod, ipus))),
        "layers_per_ipu": layers,
        "recomputation": draw(st.sampled_from(["none", "layer"])),
        "updates_per_session_call": draw(st.sampled_from([1, 1, 7])),
    }


def _training(draw: st.DrawFn, pod: Scenario, model: Scenario, data: Scenario, division: Scenario) -> Scenario:
    """A transformer in training, with what all families have in common."""
    dtype = draw(st.sampled_from(["fp16", "fp16", "fp32"]))
    return {
        "system": pod,
        "software": software(draw, draw(st.sampled_from(["popart_sdk_2.3", "pytorch_sdk_3.1"]))),
        "model": model,
        "data": data,
        "parallelism": division,
        "memory": {
            "available_memory_proportion": draw(st.sampled_from([0.1, 0.2, 0.6])),
            "optimizer_state": {
                "storage": draw(st.sampled_from(["in_processor_memory", "streaming_memory"])),
                "replicated_tensor_sharding": draw(st.booleans()),
            },
        },
        "optimizer": {
            "kind": draw(st.sampled_from(["lamb", "adamw", "sgd"])),
            "gradient_clipping": draw(st.booleans()),
        },
        "precision": {
            "weights": dtype,
            "activations": dtype,
            "matmul_partials": draw(st.sampled_from(["fp16", "fp32"])) if dtype == "fp16" else "fp32",
        },
    }


def _width(draw: st.DrawFn) -> Scenario:
    """Heads, and a width that they divide."""
    heads = draw(st.sampled_from([1, 2, 4]))
    return {
        "hidden_size": heads * draw(st.sampled_from([16, 24, 32])),
        "feed_forward_size": draw(st.sampled_from([64, 100, 256])),
        "head_count": heads,
    }


@st.composite
def bert(draw: st.DrawFn) -> Scenario:
    """A BERT in pre-training or fine-tuning."""
    pod, task = draw(pods()), draw(st.sampled_from(["pretraining", "span", "classes"]))
    division = _division(draw, pod, head_apart=task == "pretraining")
    model = {"kind": "bert", "layer_count": sum(division["layers_per_ipu"]), "task": task, **_width(draw)}
    data: Scenario = {"sequence_length": draw(st.sampled_from([16, 33, 64]))}
    if task == "pretraining":
        data["masked_token_count"] = draw(st.integers(1, 8))
        if draw(st.booleans()):
            data["packing"] = {"sequences_per_pack": 1.5, "max_sequences_per_pack": 3}
    return _training(draw, pod, model | {"vocabulary_size": draw(st.sampled_from([100, 2000]))}, data, division)


_LOADS: tuple[Scenario, ...] = ({}, {"routing": "random"}, {"imbalance": 1.7}, {"capacity_factor": 1.25})
"""How many tokens experts get, or have room for."""


def _decoder_model(draw: st.DrawFn, layer_count: int) -> Scenario:
    width = _width(draw)
    rotary = draw(st.booleans())
    return {
        "kind": "decoder",
        "layer_count": layer_count,
        "kv_head_count": draw(st.sampled_from(divisors(width["head_count"], (1, 2, 4)))),
        "vocabulary_size": draw(st.sampled_from([100, 2000])),
        "gated": draw(st.booleans()),
        "activation": draw(st.sampled_from([None, "gelu", "relu", "swish"])),
        "experts": draw(st.sampled_from([None, None, *({"count": 4, "per_token": 2} | load for load in _LOADS)])),
        "head_size": draw(st.sampled_from([None, 8])),
        "norm": draw(st.sampled_from(["rms", "rms_plus_one", "layer"])),
        "scaled_embedding": draw(st.booleans()),
        "rotary": rotary,
        "position_count": 0 if rotary else 512,
        "rotary_size": draw(st.sampled_from([None, 2, 4])) if rotary else None,
        "parallel_blocks": draw(st.sampled_from(["none", "one_norm", "two_norms"])),
        "bias": draw(st.sampled_from([True, False, ["qkv"], ["feed_forward", "head"]])),
        "tied_embedding": draw(st.booleans()),
        **width,
    }


@st.composite
def decoders(draw: st.DrawFn) -> Scenario:
    """A decoder in training."""
    pod = draw(pods())
    division = _division(draw, pod, head_apart=True)
    model = _decoder_model(draw, sum(division["layers_per_ipu"]))
    data = {"sequence_length": draw(st.sampled_from([16, 33, 64]))}
    return _training(draw, pod, model, data, division)


def _vit(draw: st.DrawFn, layer_count: int) -> Scenario:
    patch = draw(st.sampled_from([4, 8]))
    size = {"image_size": patch * draw(st.integers(2, 5)), "patch_size": patch, "class_count": 10}
    return {"kind": "vit", "layer_count": layer_count, **size, **_width(draw)}


@st.composite
def vision(draw: st.DrawFn) -> Scenario:
    """A vision transformer in training, fed by servers."""
    pod = draw(pods())
    division = _division(draw, pod, head_apart=False)
    pod = with_hosts(draw, pod, division["replication_factor"])
    data = {"decoded_by_host": draw(st.booleans()), "pixel_format": draw(st.sampled_from(["uint8", "fp16", "fp32"]))}
    return _training(draw, pod, _vit(draw, sum(division["layers_per_ipu"])), data, division)


@st.composite
def seq2seq(draw: st.DrawFn) -> Scenario:
    """An encoder-decoder in training."""
    pod = draw(pods())
    division = _division(draw, pod, head_apart=True, least_layers=2)
    total = sum(division["layers_per_ipu"])
    if total < 2:
        division["layers_per_ipu"][-1] += 1
        total += 1
    encoder = draw(st.integers(1, total - 1))
    model = {
        "kind": "t5",
        "layer_count": encoder,
        "decoder_layer_count": total - encoder,
        "head_size": draw(st.sampled_from([8, 16])),
        "vocabulary_size": draw(st.sampled_from([100, 2000])),
        "gated": draw(st.booleans()),
        "tied_embedding": draw(st.booleans()),
        **_width(draw),
    }
    data = {"source_length": draw(st.sampled_from([16, 33])), "target_length": draw(st.sampled_from([8, 20]))}
    return _training(draw, pod, model, data, division)


SPLITS: dict[int, tuple[str, ...]] = {1: (), 2: ("conv2",), 4: ("conv2", "conv3", "head")}
"""Blocks that start on the next IPU, by IPUs of a replica."""


@st.composite
def convnets(draw: st.DrawFn) -> Scenario:
    """A small convolutional network, fed by servers, with or without a run of epochs."""
    pod = draw(pods())
    ipus = draw(st.sampled_from([1, 2, 4]))
    replicas = draw(st.sampled_from(replica_counts(pod, ipus)))
    scenario: Scenario = {
        "system": with_hosts(draw, pod, replicas),
        "software": software(draw, "tensorflow1_sdk_2.3"),
        "model": {
            "kind": "conductivity_cnn",
            "image_size": draw(st.sampled_from([8, 16])),
            "input_channels": draw(st.integers(1, 3)),
            "channels": [8, 16, draw(st.sampled_from([16, 20]))],
            "dense_widths": draw(st.sampled_from([[], [32]])),
        },
        "data": {
            "samples_per_epoch": draw(st.sampled_from([100, 1000, 12345])),
            "decoded_by_host": draw(st.booleans()),
            "prefetch_depth": draw(st.integers(1, 4)),
            "pixel_format": draw(st.sampled_from(["uint8", "fp16", "fp32"])),
        },
        "parallelism": {
            "micro_batch_size": draw(st.integers(1, 4)),
            "accumulation_factor": 2 * ipus - 1 + draw(st.integers(0, 4)),
            "replication_factor": replicas,
            "pipeline_splits": list(SPLITS[ipus]),
            "recomputation": draw(st.sampled_from(["none", "segment"])),
        },
        "memory": {"io_tiles": draw(st.sampled_from([0, 32]))},
        "optimizer": {"kind": draw(st.sampled_from(["sgd", "lars", "rmsprop", "adam", "adamw"]))},
    }
    if draw(st.booleans()):
        scenario["run"] = {"epochs": draw(st.integers(1, 9)), "session_calls_per_epoch": draw(st.integers(1, 5))}
    return scenario


def _generation_division(draw: st.DrawFn, pod: Scenario, heads: int) -> Scenario:
    domain = domain_ipus(pod)
    shards = draw(st.sampled_from([n for n in (1, 2, 4) if n <= heads]))
    stages = draw(st.sampled_from([n for n in (1, 2, 4) if n * shards <= domain]))
    return {
        "tensor_parallel": shards,
        "pipeline_stages": stages,
        "batches_in_flight": draw(st.integers(1, stages)),
    }


@st.composite
def generation(draw: st.DrawFn) -> Scenario:
    """A decoder that generates, weights on the chips or loaded, under computation or not."""
    pod, layer_count = draw(pods(2)), draw(st.integers(4, 6))
    model = _decoder_model(draw, layer_count) | {"feed_forward_size": draw(st.sampled_from([64, 256]))}
    weights = draw(st.sampled_from(["resident", "streamed", "streamed"]))
    io_tiles = draw(st.sampled_from([0, 32, 64])) if weights == "streamed" else 0
    return {
        "system": pod,
        "software": {
            "base": "popxl_sdk_3.3",
            "token_call": draw(st.sampled_from(["1 us", "1 ms"])),
            "collective_rings": draw(st.sampled_from([1, 2, 4])),
        },
        "model": model,
        "generation": {
            "batch_size": draw(st.integers(1, 5)),
            "prompt_tokens": draw(st.integers(1, 64)),
            "output_tokens": draw(st.integers(1, 64)),
            "kv_cache": draw(st.sampled_from(["none", "in_processor_memory", "streaming_memory"])),
        },
        "parallelism": _generation_division(draw, pod, model["head_count"]),
        "memory": {"weights": weights, "io_tiles": io_tiles},
        "precision": {"weights": draw(st.sampled_from(["fp16", "fp8", "int4"]))},
    }


@st.composite
def serving(draw: st.DrawFn) -> Scenario:
    """A decoder that serves requests."""
    scenario: Scenario = draw(generation())
    longest = scenario["generation"]["prompt_tokens"] + scenario["generation"]["output_tokens"]
    prompt = draw(st.integers(1, longest - 1))
    static = draw(st.booleans())
    served = {
        "request_count": draw(st.integers(1, 40)),
        "seed": draw(st.integers(0, 9)),
        "arrivals": draw(st.sampled_from(["poisson", "fixed_rate"])),
        "lengths": [
            {"prompt_tokens": prompt, "output_tokens": draw(st.integers(1, longest - prompt))},
            {"prompt_tokens": scenario["generation"]["prompt_tokens"], "output_tokens": 1, "weight": 2},
        ],
        "batching": "static" if static else "continuous",
        "loads": [0.5, 0.9],
    }
    if static and draw(st.booleans()):
        served["longest_wait"] = "1 ms"
    return scenario | {"serving": served}


def _passes(draw: st.DrawFn, blocks: int) -> Scenario:
    """Pod, stack and division of forward passes."""
    pod = draw(pods())
    stages = draw(st.sampled_from([n for n in divisors(domain_ipus(pod), (1, 2, 4)) if n <= blocks]))
    replicas = draw(st.sampled_from(replica_counts(pod, stages)))
    call = draw(st.sampled_from(["1 us", "1 ms"]))
    return {
        "system": pod,
        "software": {"base": "popart_sdk_3.1", "forward_call": call},
        "parallelism": {"pipeline_stages": stages, "replication_factor": replicas},
    }


def _batches(draw: st.DrawFn) -> Scenario:
    return {"batches_per_call": draw(st.integers(1, 24)), "prefetch_depth": draw(st.integers(1, 4))}


@st.composite
def bert_passes(draw: st.DrawFn) -> Scenario:
    """Forward passes of a BERT."""
    layers = draw(st.integers(2, 5))
    model = {"kind": "bert", "layer_count": layers, "task": draw(st.sampled_from(["span", "classes"])), **_width(draw)}
    return _passes(draw, layers) | {
        "model": model | {"vocabulary_size": 1000},
        "data": {"sequence_length": draw(st.sampled_from([16, 64]))},
        "forward": _batches(draw) | {"batch_size": draw(st.integers(1, 8))},
    }


@st.composite
def vision_passes(draw: st.DrawFn) -> Scenario:
    """Forward passes of a vision transformer."""
    layers = draw(st.integers(2, 5))
    scenario = _passes(draw, layers)
    scenario["system"] = with_hosts(draw, scenario["system"], scenario["parallelism"]["replication_factor"])
    return scenario | {
        "model": _vit(draw, layers),
        "data": {"decoded_by_host": draw(st.booleans())},
        "forward": _batches(draw) | {"batch_size": draw(st.integers(1, 8))},
    }


@st.composite
def graph_passes(draw: st.DrawFn, file: str) -> Scenario:
    """Forward passes of a graph of four products whose batch is open."""
    model = {"kind": "graph", "file": file, "dimensions": {"batch": draw(st.integers(1, 300))}}
    return _passes(draw, 4) | {"model": model, "data": _batches(draw)}


TRAINING: dict[str, st.SearchStrategy[Scenario]] = {
    "bert": bert(),
    "decoder": decoders(),
    "vit": vision(),
    "t5": seq2seq(),
    "convnet": convnets(),
}
PASSES: dict[str, st.SearchStrategy[Scenario]] = {"bert passes": bert_passes(), "vit passes": vision_passes()}
EVERY: dict[str, st.SearchStrategy[Scenario]] = {
    **TRAINING,
    **PASSES,
    "generation": generation(),
    "serving": serving(),
}
"""Every activity but passes of a graph, which need a file."""
