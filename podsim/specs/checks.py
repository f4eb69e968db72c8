"""Checks between the parts of a scenario, each with the key to blame."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.specs.assumptions import AnyScenario
from podsim.specs.image import EfficientNetSpec, ImageScenarioSpec, ResNetSpec
from podsim.specs.inference import InferenceScenarioSpec
from podsim.specs.scenario import ScenarioSpec
from podsim.specs.yaml_source import KeyPath

Finding = tuple[KeyPath, str, str]


def cross_check(spec: AnyScenario) -> Iterator[Finding]:
    """(key, what is wrong, what to do) for everything that does not add up."""
    yield from division_findings(spec)
    yield from model_findings(spec)


def division_findings(spec: AnyScenario) -> Iterator[Finding]:
    """What is wrong with the division over IPUs."""
    if isinstance(spec, InferenceScenarioSpec):
        yield from _shards(spec)
        return
    yield from _ipus(spec)
    yield from _proportions(spec)
    yield from _batch(spec)
    yield from _layers(spec) if isinstance(spec, ScenarioSpec) else _replicas(spec)


def model_findings(spec: AnyScenario) -> Iterator[Finding]:
    """What is wrong however it is divided."""
    if isinstance(spec, InferenceScenarioSpec):
        yield from _inference(spec)
    elif isinstance(spec, ScenarioSpec):
        yield from _text(spec)
    else:
        yield from _io_tiles(spec)
        yield from _epochs(spec)


def _shards(spec: InferenceScenarioSpec) -> Iterator[Finding]:
    need, domain = spec.parallelism.ipu_count, spec.system.domain_ipu_count
    if need > domain:
        yield (
            ("parallelism",),
            f"{spec.parallelism.tensor_parallel} x {spec.parallelism.pipeline_stages} = {need} IPUs are wanted; "
            f"a link domain of {spec.system.name} has {domain}",
            f"use at most {domain} IPUs for one copy of the model",
        )
    for key in ("head_count", "feed_forward_size"):
        count = getattr(spec.model, key)
        if count % spec.parallelism.tensor_parallel:
            yield (
                ("parallelism", "tensor_parallel"),
                f"{spec.parallelism.tensor_parallel} shards do not divide {key} {count}",
                "use fewer shards",
            )
    if spec.parallelism.pipeline_stages > spec.model.layer_count:
        what = f"{spec.parallelism.pipeline_stages} stages for {spec.model.layer_count} layers"
        yield ("parallelism", "pipeline_stages"), what, "use fewer stages"


def _inference(spec: InferenceScenarioSpec) -> Iterator[Finding]:
    if not spec.model.rotary and spec.generation.sequence_length > spec.model.position_count:
        what = f"{spec.generation.sequence_length} tokens, the model has {spec.model.position_count} positions"
        yield ("generation", "output_tokens"), what, "shorten prompt or output"
    tiles = int(spec.system.machine.ipu.tile.count)
    if spec.memory.io_tiles >= tiles:
        yield ("memory", "io_tiles"), f"{spec.memory.io_tiles} of {tiles} tiles", "leave tiles to compute; use 32 or 64"
    if isinstance(spec.memory.available_memory_proportion, tuple):
        yield ("memory", "available_memory_proportion"), "is a list; all IPUs are alike here", "give one number"


def _replicas(spec: ImageScenarioSpec) -> Iterator[Finding]:
    hosts, replicas = spec.system.host_count, spec.parallelism.replication_factor
    if replicas % hosts and hosts % replicas:
        yield (
            ("system", "host_count"),
            f"{replicas} replicas cannot be divided among {hosts} host servers",
            f"use a number of servers that divides {replicas}",
        )
    yield from _norm(spec)


def _io_tiles(spec: ImageScenarioSpec) -> Iterator[Finding]:
    tiles = int(spec.system.machine.ipu.tile.count)
    if spec.memory.io_tiles >= tiles:
        yield (
            ("memory", "io_tiles"),
            f"{spec.memory.io_tiles} I/O tiles leave none of {tiles} tiles to compute",
            "use 32 or 64",
        )


def _norm(spec: ImageScenarioSpec) -> Iterator[Finding]:
    replicas = spec.parallelism.replication_factor
    together = spec.model.norm.replicas if isinstance(spec.model, ResNetSpec | EfficientNetSpec) else 1
    if replicas % together:
        yield (
            ("model", "norm", "replicas"),
            f"{replicas} replicas cannot be divided into groups of {together} for batch norm",
            f"use a number that divides {replicas}",
        )


def _epochs(spec: ImageScenarioSpec) -> Iterator[Finding]:
    batch = spec.batch_size or _divided_batch(spec)
    if spec.run and spec.data.samples_per_epoch * spec.run.epochs < batch:
        yield (
            ("run", "epochs"),
            f"{spec.run.epochs:g} epochs of {spec.data.samples_per_epoch} samples are less than a batch of {batch}",
            "use more epochs, or a smaller batch",
        )


def _divided_batch(spec: ScenarioSpec | ImageScenarioSpec) -> int:
    """Samples per weight update of a division."""
    layout = spec.parallelism
    return layout.micro_batch_size * layout.accumulation_factor * layout.replication_factor


def _batch(spec: ScenarioSpec | ImageScenarioSpec) -> Iterator[Finding]:
    batch = _divided_batch(spec)
    if spec.batch_size not in (None, batch):
        yield (
            ("batch_size",),
            f"{spec.batch_size} is not micro_batch_size x accumulation_factor x replication_factor = {batch}",
            f"leave it out, write {batch}, or write `parallelism: auto`",
        )


def _text(spec: ScenarioSpec) -> Iterator[Finding]:
    if spec.model.position_count is not None and spec.model.position_count < spec.data.sequence_length:
        yield (
            ("model", "position_count"),
            f"{spec.model.position_count} positions for sequences of {spec.data.sequence_length} tokens",
            "raise it, or leave it out",
        )


def _layers(spec: ScenarioSpec) -> Iterator[Finding]:
    parallelism, want = spec.parallelism, spec.model.layer_count
    if parallelism.layers_per_ipu is not None:
        placed = sum(parallelism.layers_per_ipu)
        if placed != want:
            yield (
                ("parallelism", "layers_per_ipu"),
                f"layers add up to {placed}, the model has {want}",
                f"place {want} layers",
            )
        return
    for name in ("attention", "feed_forward"):
        placed = sum(getattr(stage, f"{name}_count") for stage in parallelism.stages or ())
        if placed != want:
            yield (
                ("parallelism", "stages"),
                f"{name} blocks add up to {placed}, the model has {want}",
                f"place {want} of them",
            )


def _ipus(spec: ScenarioSpec | ImageScenarioSpec) -> Iterator[Finding]:
    per_replica, replicas = spec.parallelism.ipus_per_replica, spec.parallelism.replication_factor
    available = spec.system.ipu_count
    domain = spec.system.domain_ipu_count
    if domain % per_replica:
        yield (
            ("parallelism",),
            f"a link domain of {domain} IPUs cannot be divided into replicas of {per_replica} IPUs",
            "use fewer IPUs per replica, or another pod",
        )
    elif replicas * per_replica > available:
        yield (
            ("parallelism", "replication_factor"),
            f"{replicas} replicas of {per_replica} IPUs need {replicas * per_replica} IPUs; "
            f"{spec.system.name} has {available}",
            f"use at most {available // per_replica}",
        )
    elif replicas * per_replica > domain and (replicas * per_replica) % domain:
        yield (
            ("parallelism", "replication_factor"),
            f"{replicas} replicas of {per_replica} IPUs cannot be divided among link domains of {domain} IPUs",
            f"use a multiple of {domain // per_replica}",
        )


def _proportions(spec: ScenarioSpec | ImageScenarioSpec) -> Iterator[Finding]:
    given, count = spec.memory.available_memory_proportion, spec.parallelism.ipus_per_replica
    if isinstance(given, tuple) and len(given) != count:
        yield (
            ("memory", "available_memory_proportion"),
            f"{len(given)} numbers for {count} IPUs of a replica",
            f"give one number, or {count}",
        )
