"""Keys without effect: valid keys that change nothing in the result, which a result lists as a warning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from podsim.scenario.activity import Activity
from podsim.scenario.document import KeyPath
from podsim.scenario.load import LoadedScenario
from podsim.scenario.transformer_training import NEAREST, ParallelismSpec

_CONVNETS: Final = ("one_update_per_call", "session_calls_per_epoch")
_TRAINING: Final = (
    *_CONVNETS,
    "buffering_depth",
    "checkpoint",
    "clipped_updates_in_turn",
    "code_memory_per_tile",
    "collation_bandwidth",
    "broadcast_collective_size",
    "collectives_merged",
    "epoch_start_time",
    "evaluation",
    "evaluation_call",
    "host_call",
    "optimizer_values_per_tensor",
    "recompute_last_segment",
    "recomputes_pipelines",
    "reduction_merge_size",
    "replica_call_time",
    "sample_load_time",
    "schedule",
    "setup",
    "sharding_threshold",
    "update_first_ipu_apart",
    "validation_setup",
)
_INFERENCE: Final = ("inference_code_memory_per_tile",)
_GENERATION: Final = ("sampling_per_logit", "token_call")
_OTHERS: Final[Mapping[Activity, tuple[str, ...]]] = {
    Activity.TRAINING: (*_INFERENCE, *_GENERATION, "forward_call", "forward_exchange"),
    Activity.FORWARD: (*_TRAINING, *_GENERATION, "collective_rings"),
    Activity.GENERATION: (*(*_TRAINING, "forward_call", "forward_exchange", "process_input_bandwidth", "stream_time"),),
}
"""Keys of a software stack that apply to other activities only."""
_HEADS: Final = "the head of `task: {}` has none"
_Rules = Iterator[tuple[KeyPath, str]]


@dataclass(frozen=True, slots=True)
class WithoutEffect:
    """Key that was written and has no effect."""

    key: str
    reason: str


def without_effect(loaded: LoadedScenario) -> tuple[WithoutEffect, ...]:
    """Return the keys of a scenario, its variant or overrides that have no effect on its result."""
    rules = ((path, reason) for path, reason in _rules(loaded.spec) if _is_written(loaded, path))
    return tuple(WithoutEffect(".".join(map(str, path)), reason) for path, reason in rules)


def _is_written(loaded: LoadedScenario, path: KeyPath) -> bool:
    """Return True if the scenario or an override has a key, and not only a file that the scenario names."""
    document = loaded.document
    if document.value_at(path) in (None, False, 0):
        return False  # same as leaving it out
    place = document.places.get(path, "")
    scenario_file = loaded.inputs[0][0] if loaded.written.path else ""
    return not any(place.startswith(f"{file}:") for file, _ in loaded.inputs if file != scenario_file)


def _rules(spec: Any) -> _Rules:
    """Yield key path and reason of every key that has no effect in a scenario, written or not."""
    for key in _OTHERS[spec.activity]:
        yield ("software", key), f"it belongs to other activities than {spec.activity.label}"
    yield from _bert_rules(spec.model) if spec.model.kind == "bert" else ()
    yield from _expert_rules(getattr(spec.model, "experts", None))
    if spec.activity is Activity.FORWARD:
        yield from _forward_rules()
    elif spec.activity is Activity.GENERATION:
        yield from _generation_rules(spec)
    elif isinstance(spec.parallelism, ParallelismSpec):
        yield from _transformer_rules(spec, spec.parallelism)
    else:
        yield from _chain_rules(spec)
    if spec.activity is Activity.TRAINING:
        yield from _schedule_rules(spec)
    if spec.activity is Activity.TRAINING and spec.parallelism.replication_factor == 1:
        yield ("memory", "optimizer_state", "replicated_tensor_sharding"), "there is one replica"


def _schedule_rules(spec: Any) -> _Rules:
    """Yield schedules that a scenario overrides, or that have a single stage."""
    if spec.parallelism.stage_count(spec.model) == 1:
        yield ("software", "schedule"), "there is one pipeline stage"
        if not getattr(spec.parallelism, "is_phased", False):  # phased execution refuses the key
            yield ("parallelism", "schedule"), "there is one pipeline stage"
    elif spec.parallelism.schedule is not None:
        yield ("software", "schedule"), "`parallelism.schedule` says when stages run which micro-batch"


def _bert_rules(model: Any) -> _Rules:
    """Yield parts of the pre-training heads that other tasks do not have."""
    if model.task != "pretraining":
        for key in ("mlm_transform", "next_sentence"):
            yield ("model", key), _HEADS.format(model.task)
    if model.task == "span":
        yield ("model", "pooler"), _HEADS.format(model.task)
    elif model.task == "pretraining" and not model.next_sentence:
        yield ("model", "pooler"), "it belongs to the next-sentence head"


def _expert_rules(experts: Any) -> _Rules:
    """Yield keys for the load of the fullest expert if a capacity factor sets the number of rows."""
    if experts is not None and experts.capacity_factor is not None:
        for key in ("routing", "imbalance"):
            reason = "products have as many rows as `capacity_factor` gives room for; warnings tell dropped tokens"
            yield ("model", "experts", key), reason


def _forward_rules() -> _Rules:
    yield ("data", "dropout"), "forward passes drop nothing"
    yield ("data", "attention_dropout"), "forward passes drop nothing"
    yield ("data", "samples_per_epoch"), "forward passes have no epochs"
    yield ("model", "norm", "replicas"), "forward passes fold batch norms into the weights"


def _transformer_rules(spec: Any, parallelism: ParallelismSpec) -> _Rules:
    """Yield keys of convolutional networks, and keys of phased execution without effect."""
    for key in _CONVNETS:
        yield ("software", key), "`parallelism.updates_per_session_call` says what a call of a transformer runs"
    yield ("software", "recomputes_pipelines"), "`parallelism.recomputation` says what is recomputed"
    yield from _placement_rules(spec, parallelism)
    if not parallelism.is_phased:
        return
    if parallelism.shards.column_count == 1:
        yield ("memory", "sharded_activations"), "no two IPUs have the same activations"
    if not parallelism.batch_serialisation or parallelism.accumulation_factor == 1:
        yield ("memory", "overlapped_io"), "a phase has one micro-batch, and nothing to load or store meanwhile"
    elif not spec.memory.io_tiles:
        yield ("memory", "overlapped_io"), "`memory.io_tiles` sets no tiles aside"


def _chain_rules(spec: Any) -> _Rules:
    """Yield keys of loaders and pipelines that a convolutional or graph network does not use."""
    if spec.parallelism.recomputation is not None:
        yield ("software", "recomputes_pipelines"), "`parallelism.recomputation` says what is recomputed"
    elif spec.parallelism.ipus_per_replica == 1:
        yield ("software", "recomputes_pipelines"), "there is one pipeline stage"
    if getattr(spec.data, "loader", None) == "ahead":
        yield ("software", "sample_load_time"), "`data.loader: ahead` loads samples while IPUs run"


def _placement_rules(spec: Any, parallelism: ParallelismSpec) -> _Rules:
    """Yield the place of the head if there is one IPU, and an order of neighbours that changes nothing."""
    if parallelism.group_count == 1 and not parallelism.is_phased:  # phased execution refuses the key
        yield ("parallelism", "head_on"), "the first IPU, or group of IPUs, is the last"
    ipus = parallelism.ipus_per_replica
    counts = {
        "shards": parallelism.tensor_parallel,
        "stages": parallelism.group_count,
        "replicas": min(parallelism.replication_factor, spec.system.domain_ipu_count // ipus),
    }
    names, default_names = ([name for name in order if counts[name] > 1] for order in (parallelism.nearest, NEAREST))
    if parallelism.nearest != NEAREST and names == default_names:
        yield ("parallelism", "nearest"), "every IPU is where it would be without it"


def _generation_rules(spec: Any) -> _Rules:
    if spec.memory.weights == "resident":
        yield ("memory", "io_tiles"), "no weights are streamed; these tiles are only missing from the others"
    if spec.generation.next_token == "device":
        yield ("software", "sampling_per_logit"), "IPUs choose the next token"
