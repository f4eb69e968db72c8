"""Checks between the parts of a scenario, each with the key to blame."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.specs.assumptions import AnyScenario
from podsim.specs.families import Seq2SeqScenarioSpec, VisionScenarioSpec
from podsim.specs.forward import ForwardScenarioSpec
from podsim.specs.image import EfficientNetSpec, ImageScenarioSpec, ResNetSpec
from podsim.specs.inference import InferenceScenarioSpec
from podsim.specs.model_checks import Finding, TrainingScenario, divided_batch, model_findings
from podsim.specs.scenario import TransformerScenarioSpec
from podsim.specs.serving import ServingSpec


def cross_check(spec: AnyScenario) -> Iterator[Finding]:
    """(key, what is wrong, what to do) for everything that does not add up."""
    yield from division_findings(spec)
    yield from model_findings(spec)


def division_findings(spec: AnyScenario) -> Iterator[Finding]:
    """What is wrong with the division over IPUs."""
    if isinstance(spec, InferenceScenarioSpec):
        yield from _shards(spec)
        if spec.serving is not None:
            yield from _copies(spec, spec.serving)
        return
    yield from _ipus(spec)
    if isinstance(spec, ForwardScenarioSpec):
        return
    yield from _proportions(spec)
    yield from _batch(spec)
    if isinstance(spec, TransformerScenarioSpec):
        yield from _layers(spec)
        yield from _micro_batches(spec)
        yield from _calls(spec)
    else:
        yield from _norm(spec)
    if isinstance(spec, ImageScenarioSpec) or (isinstance(spec, VisionScenarioSpec) and spec.data.decoded_by_host):
        yield from _hosts(spec)


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


def _copies(spec: InferenceScenarioSpec, serving: ServingSpec) -> Iterator[Finding]:
    if serving.replicas is not None and 0 < spec.copy_count < serving.replicas:
        need = spec.parallelism.ipu_count
        yield (
            ("serving", "replicas"),
            f"{serving.replicas} copies of {need} IPUs; {spec.system.name} has room for {spec.copy_count}",
            f"use at most {spec.copy_count}, or another pod",
        )


def _ipus(spec: TrainingScenario | ForwardScenarioSpec) -> Iterator[Finding]:
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


def _proportions(spec: TrainingScenario) -> Iterator[Finding]:
    given, count = spec.memory.available_memory_proportion, spec.parallelism.ipus_per_replica
    if isinstance(given, tuple) and len(given) != count:
        yield (
            ("memory", "available_memory_proportion"),
            f"{len(given)} numbers for {count} IPUs of a replica",
            f"give one number, or {count}",
        )


def _batch(spec: TrainingScenario) -> Iterator[Finding]:
    batch = divided_batch(spec)
    if spec.batch_size not in (None, batch):
        yield (
            ("batch_size",),
            f"{spec.batch_size} is not micro_batch_size x accumulation_factor x replication_factor = {batch}",
            f"leave it out, write {batch}, or write `parallelism: auto`",
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


def _hosts(spec: VisionScenarioSpec | ImageScenarioSpec) -> Iterator[Finding]:
    hosts, replicas = spec.system.host_count, spec.parallelism.replication_factor
    if replicas % hosts and hosts % replicas:
        yield (
            ("system", "host_count"),
            f"{replicas} replicas cannot be divided among {hosts} host servers",
            f"use a number of servers that divides {replicas}",
        )


def _calls(spec: TransformerScenarioSpec) -> Iterator[Finding]:
    run, shared = spec.run, spec.parallelism.updates_per_session_call
    updates = run.weight_updates if run else None
    if run and run.epochs and spec.samples_per_epoch:
        updates = -int(-run.epochs * spec.samples_per_epoch // divided_batch(spec))
    if updates is not None and shared > max(1, updates):
        yield (
            ("parallelism", "updates_per_session_call"),
            f"{shared} weight updates in a call; the run has {updates}",
            f"use at most {max(1, updates)}",
        )


def _micro_batches(spec: TransformerScenarioSpec) -> Iterator[Finding]:
    need, given = 2 * spec.stage_count - 1, spec.parallelism.accumulation_factor
    if given < need:
        yield (
            ("parallelism", "accumulation_factor"),
            f"{given} micro-batches are too few for {spec.stage_count} pipeline stages",
            f"use 2·{spec.stage_count} - 1 = {need} or more",
        )


def _layers(spec: TransformerScenarioSpec) -> Iterator[Finding]:
    parallelism, want = spec.parallelism, spec.layer_count
    if parallelism.layers_per_ipu is not None:
        placed = sum(parallelism.layers_per_ipu)
        if placed != want:
            yield (
                ("parallelism", "layers_per_ipu"),
                f"layers add up to {placed}, the model has {want}",
                f"place {want} layers",
            )
        ends = {0} if spec.head_on_first_ipu else {0, len(parallelism.layers_per_ipu) - 1}
        empty = [ipu for ipu, count in enumerate(parallelism.layers_per_ipu) if not count and ipu not in ends]
        if empty and placed == want and len(parallelism.layers_per_ipu) <= spec.system.domain_ipu_count:
            where = ", ".join(map(str, empty))
            yield (
                ("parallelism", "layers_per_ipu"),
                f"nothing is on IPU {where}",
                "place layers there, or use fewer IPUs",
            )
        return
    behind = [bool(stage.decoder_layers) for stage in parallelism.stages or ()]
    if any(stage.layers and any(behind[:place]) for place, stage in enumerate(parallelism.stages or ())):
        what = "a stage has encoder layers behind decoder layers"
        yield ("parallelism", "stages"), what, "place the encoder first"
    decoder = spec.decoder_layer_count if isinstance(spec, Seq2SeqScenarioSpec) else 0
    wanted = {"attention": want - decoder, "feed_forward": want - decoder, "decoder": decoder}
    for name, count in wanted.items():
        stages = parallelism.stages or ()
        placed = sum(stage.decoder_layers if name == "decoder" else getattr(stage, f"{name}_count") for stage in stages)
        if placed != count:
            what = "decoder layers" if name == "decoder" else f"{name} blocks"
            yield (
                ("parallelism", "stages"),
                f"{what} add up to {placed}, the model has {count}",
                f"place {count} of them",
            )
