"""What does not add up in a scenario however its model is divided, each with the key to blame."""

from __future__ import annotations

from collections.abc import Iterator

from podsim.specs.assumptions import AnyScenario
from podsim.specs.document import KeyPath
from podsim.specs.families import DecoderTrainingSpec
from podsim.specs.forward import BertPassSpec, ForwardScenarioSpec
from podsim.specs.image import ImageScenarioSpec
from podsim.specs.inference import InferenceScenarioSpec
from podsim.specs.run import ReferenceConvergence
from podsim.specs.scenario import ScenarioSpec, TransformerScenarioSpec
from podsim.specs.serving import ServingSpec
from podsim.specs.wording import setting

Finding = tuple[KeyPath, str, str]
TrainingScenario = TransformerScenarioSpec | ImageScenarioSpec


def model_findings(spec: AnyScenario) -> Iterator[Finding]:
    """(key, what is wrong, what to do) of model, data and run."""
    if isinstance(spec, InferenceScenarioSpec):
        yield from _inference(spec)
    elif isinstance(spec, ForwardScenarioSpec):
        yield from _one_proportion(spec)
        if isinstance(spec, BertPassSpec):
            yield from _bert(spec)
    elif isinstance(spec, TransformerScenarioSpec):
        yield from _transformer(spec)
    else:
        yield from _io_tiles(spec)
        yield from _epochs(spec)


def _inference(spec: InferenceScenarioSpec) -> Iterator[Finding]:
    if not spec.model.rotary and spec.generation.sequence_length > spec.model.position_count:
        what = f"{spec.generation.sequence_length} tokens, the model has {spec.model.position_count} positions"
        yield ("generation", "output_tokens"), what, "shorten prompt or output"
    tiles = spec.system.machine.ipu.tile.count
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


def _transformer(spec: TransformerScenarioSpec) -> Iterator[Finding]:
    yield from _end(spec)
    if isinstance(spec, ScenarioSpec):
        yield from _bert(spec)
    elif isinstance(spec, DecoderTrainingSpec):
        yield from _decoder(spec)


def _end(spec: TransformerScenarioSpec) -> Iterator[Finding]:
    run = spec.run
    if run is None:
        return
    if run.epochs is not None and spec.samples_per_epoch is None:
        yield ("run", "epochs"), "the size of the training set is not known", "add data.samples_per_epoch"
    if isinstance(run.samples_to_converge, ReferenceConvergence) and not isinstance(spec, ScenarioSpec):
        what = "MLPerf has reference runs of BERT only"
        yield ("run", "samples_to_converge"), what, "give a number of samples, weight_updates or epochs"


def _bert(spec: ScenarioSpec | BertPassSpec) -> Iterator[Finding]:
    if spec.model.position_count is not None and spec.model.position_count < spec.data.sequence_length:
        yield (
            ("model", "position_count"),
            f"{spec.model.position_count} positions for sequences of {spec.data.sequence_length} tokens",
            "raise it, or leave it out",
        )
    if spec.model.task == "pretraining" and spec.data.masked_token_count is None:
        what = "pre-training predicts masked positions; their number is missing"
        yield ("data", "masked_token_count"), what, "add it, for example 76 of 512 tokens; or set `model.task`"
    if spec.model.task != "pretraining" and spec.data.masked_token_count is not None:
        what = f"`task: {spec.model.task}` predicts no masked positions"
        yield (
            ("data", "masked_token_count"),
            what,
            f"leave it out, or `{setting(('data', 'masked_token_count'), None)}`",
        )
    if spec.model.task != "pretraining" and spec.data.packing is not None:
        what = f"packs are modelled for pre-training, not for `task: {spec.model.task}`"
        yield ("data", "packing"), what, f"leave it out, or `{setting(('data', 'packing'), None)}`"


def _decoder(spec: DecoderTrainingSpec) -> Iterator[Finding]:
    if not spec.model.rotary and spec.data.sequence_length > spec.model.position_count:
        what = f"{spec.data.sequence_length} tokens, the model has {spec.model.position_count} positions"
        yield ("data", "sequence_length"), what, "shorten it, or raise model.position_count"


def _io_tiles(spec: ImageScenarioSpec) -> Iterator[Finding]:
    tiles = spec.system.machine.ipu.tile.count
    if spec.memory.io_tiles >= tiles:
        yield (
            ("memory", "io_tiles"),
            f"{spec.memory.io_tiles} I/O tiles leave none of {tiles} tiles to compute",
            "use 32 or 64",
        )


def divided_batch(spec: TrainingScenario) -> int:
    """Samples per weight update of a division."""
    layout = spec.parallelism
    return layout.micro_batch_size * layout.accumulation_factor * layout.replication_factor


def _epochs(spec: ImageScenarioSpec) -> Iterator[Finding]:
    batch = spec.batch_size or divided_batch(spec)
    if spec.run and spec.data.samples_per_epoch * spec.run.epochs < batch:
        yield (
            ("run", "epochs"),
            f"{spec.run.epochs:g} epochs of {spec.data.samples_per_epoch} samples are less than a batch of {batch}",
            "use more epochs, or a smaller batch",
        )
