"""Checks between the parts of a scenario, each with the key to blame."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.specs.assumptions import AnyScenario
from podsim.specs.families import DecoderTrainingSpec, Seq2SeqScenarioSpec, VisionScenarioSpec
from podsim.specs.forward import ForwardScenarioSpec
from podsim.specs.image import EfficientNetSpec, ImageScenarioSpec, ResNetSpec
from podsim.specs.inference import InferenceScenarioSpec
from podsim.specs.scenario import ReferenceConvergence, ScenarioSpec, TransformerScenarioSpec
from podsim.specs.serving import ServingSpec
from podsim.specs.yaml_source import KeyPath

Finding = tuple[KeyPath, str, str]


def cross_check(spec: AnyScenario) -> Iterator[Finding]:
    """(key, what is wrong, what to do) for everything that does not add up."""
    if isinstance(spec, InferenceScenarioSpec):
        yield from _inference(spec)
        return
    yield from _ipus(spec)
    if isinstance(spec, ForwardScenarioSpec):
        yield from _one_proportion(spec)
        return
    yield from _proportions(spec)
    yield from _transformer(spec) if isinstance(spec, TransformerScenarioSpec) else _image(spec)


def _inference(spec: InferenceScenarioSpec) -> Iterator[Finding]:
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
    if not spec.model.rotary and spec.generation.sequence_length > spec.model.position_count:
        what = f"{spec.generation.sequence_length} tokens, the model has {spec.model.position_count} positions"
        yield ("generation", "output_tokens"), what, "shorten prompt or output"
    tiles = int(spec.system.machine.ipu.tile.count)
    if spec.memory.io_tiles >= tiles:
        yield ("memory", "io_tiles"), f"{spec.memory.io_tiles} of {tiles} tiles", "leave tiles to compute; use 32 or 64"
    yield from _one_proportion(spec)
    if spec.serving is not None:
        yield from _serving(spec, spec.serving)


def _one_proportion(spec: InferenceScenarioSpec | ForwardScenarioSpec) -> Iterator[Finding]:
    if isinstance(spec.memory.available_memory_proportion, tuple):
        yield ("memory", "available_memory_proportion"), "is a list; all IPUs are alike here", "give one number"


def _serving(spec: InferenceScenarioSpec, serving: ServingSpec) -> Iterator[Finding]:
    held = spec.generation.sequence_length
    for number, each in enumerate(serving.lengths or ()):
        if each.prompt_tokens + each.output_tokens > held:
            yield (
                ("serving", "lengths", number),
                f"{each.prompt_tokens} + {each.output_tokens} tokens; generation makes room for {held} per sequence",
                "raise generation.prompt_tokens or output_tokens, or shorten the request",
            )
    if serving.replicas is not None and 0 < spec.copy_count < serving.replicas:
        need = spec.parallelism.ipu_count
        yield (
            ("serving", "replicas"),
            f"{serving.replicas} copies of {need} IPUs; {spec.system.name} has room for {spec.copy_count}",
            f"use at most {spec.copy_count}, or another pod",
        )


def _hosts(spec: VisionScenarioSpec | ImageScenarioSpec) -> Iterator[Finding]:
    hosts, replicas = spec.system.host_count, spec.parallelism.replication_factor
    if replicas % hosts and hosts % replicas:
        yield (
            ("system", "host_count"),
            f"{replicas} replicas cannot be divided among {hosts} host servers",
            f"use a number of servers that divides {replicas}",
        )


def _image(spec: ImageScenarioSpec) -> Iterator[Finding]:
    yield from _hosts(spec)
    tiles = int(spec.system.machine.ipu.tile.count)
    if spec.memory.io_tiles >= tiles:
        yield (
            ("memory", "io_tiles"),
            f"{spec.memory.io_tiles} I/O tiles leave none of {tiles} tiles to compute",
            "use 32 or 64",
        )
    yield from _norm(spec)
    yield from _epochs(spec)


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
    layout = spec.parallelism
    batch = layout.micro_batch_size * layout.accumulation_factor * layout.replication_factor
    if spec.run and spec.data.samples_per_epoch * spec.run.epochs < batch:
        yield (
            ("run", "epochs"),
            f"{spec.run.epochs:g} epochs of {spec.data.samples_per_epoch} samples are less than a batch of {batch}",
            "use more epochs, or a smaller batch",
        )


def _transformer(spec: TransformerScenarioSpec) -> Iterator[Finding]:
    yield from _layers(spec)
    need, given = 2 * spec.stage_count - 1, spec.parallelism.accumulation_factor
    if given < need:
        yield (
            ("parallelism", "accumulation_factor"),
            f"{given} micro-batches are too few for {spec.stage_count} pipeline stages",
            f"use 2·{spec.stage_count} - 1 = {need} or more",
        )
    yield from _epochs_of_transformer(spec)
    if isinstance(spec, ScenarioSpec):
        yield from _bert(spec)
    elif isinstance(spec, DecoderTrainingSpec):
        yield from _decoder(spec)
    elif isinstance(spec, VisionScenarioSpec) and spec.data.decoded_by_host:
        yield from _hosts(spec)


def _bert(spec: ScenarioSpec) -> Iterator[Finding]:
    if spec.model.position_count is not None and spec.model.position_count < spec.data.sequence_length:
        yield (
            ("model", "position_count"),
            f"{spec.model.position_count} positions for sequences of {spec.data.sequence_length} tokens",
            "raise it, or leave it out",
        )
    if spec.model.task == "pretraining" and spec.data.masked_token_count is None:
        what = "pre-training predicts masked positions; their number is missing"
        yield ("data", "masked_token_count"), what, "add it, for example 76 of 512 tokens; or set `model.task`"
    if spec.model.task != "pretraining" and spec.data.packing is not None:
        what = f"packs are modelled for pre-training, not for `task: {spec.model.task}`"
        yield ("data", "packing"), what, "leave it out"


def _decoder(spec: DecoderTrainingSpec) -> Iterator[Finding]:
    if not spec.model.rotary and spec.data.sequence_length > spec.model.position_count:
        what = f"{spec.data.sequence_length} tokens, the model has {spec.model.position_count} positions"
        yield ("data", "sequence_length"), what, "shorten it, or raise model.position_count"


def _epochs_of_transformer(spec: TransformerScenarioSpec) -> Iterator[Finding]:
    run = spec.run
    if run is None:
        return
    if run.epochs is not None and spec.samples_per_epoch is None:
        yield ("run", "epochs"), "the size of the training set is not known", "add data.samples_per_epoch"
    if isinstance(run.samples_to_converge, ReferenceConvergence) and not isinstance(spec, ScenarioSpec):
        what = "MLPerf has reference runs of BERT only"
        yield ("run", "samples_to_converge"), what, "give a number of samples, weight_updates or epochs"


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
        return
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


def _ipus(spec: TransformerScenarioSpec | ImageScenarioSpec | ForwardScenarioSpec) -> Iterator[Finding]:
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


def _proportions(spec: TransformerScenarioSpec | ImageScenarioSpec) -> Iterator[Finding]:
    given, count = spec.memory.available_memory_proportion, spec.parallelism.ipus_per_replica
    if isinstance(given, tuple) and len(given) != count:
        yield (
            ("memory", "available_memory_proportion"),
            f"{len(given)} numbers for {count} IPUs of a replica",
            f"give one number, or {count}",
        )
