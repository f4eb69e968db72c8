"""Scenarios of text generation: a decoder, its prompts, and its division over IPUs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from podsim.errors import BadValueError
from podsim.scenario.activity import Activity
from podsim.scenario.auto import AutoSpec
from podsim.scenario.base import Spec
from podsim.scenario.families.base import GeneratorSpec
from podsim.scenario.pins import PARALLELISM, ipu_pins
from podsim.scenario.quantity import Count, CountOrZero, NumberFormat
from podsim.scenario.scenario import Finding, Scenario
from podsim.scenario.sections import AvailableMemory, Reserve, one_share, shard_findings
from podsim.scenario.serving import MOST_TOKENS, ServingSpec
from podsim.scenario.wording import counted


class GenerationSpec(Spec):
    """Prompts and outputs."""

    batch_size: Count = 1
    """Sequences that the model processes together."""
    prompt_tokens: Count
    """Tokens of a prompt."""
    output_tokens: Count
    """Tokens generated for a prompt."""
    kv_cache: Literal["none", "in_processor_memory", "streaming_memory"] = "in_processor_memory"
    """Memory with the keys and values of earlier tokens; `none` computes the whole sequence again for each token."""

    next_token: Literal["host", "device"] = "host"
    """Device that chooses the next token: the host, which receives all logits, or the IPUs, which send one number per
    sequence."""

    @property
    def sequence_length(self) -> int:
        """Tokens of prompt and output together."""
        return self.prompt_tokens + self.output_tokens


class AutoInferenceSpec(AutoSpec):
    """Layout that the search chooses, except for the given keys."""

    tensor_parallel: Count | None = None
    """IPUs that share every layer."""
    pipeline_stages: Count | None = None
    """Groups of such IPUs, each of which holds some of the layers."""
    batches_in_flight: Count = 1
    """Batches that are in the pipeline at the same time; not chosen."""

    def findings(self, spec: GenerationScenario) -> Iterator[Finding]:
        """Yield problems of shards or stages that exceed a link domain or the model."""
        problems = [
            *ipu_pins(spec.system, "tensor_parallel", self.tensor_parallel),
            *ipu_pins(spec.system, "pipeline_stages", self.pipeline_stages),
        ]
        yield from problems or self._model_findings(spec)

    def _model_findings(self, spec: GenerationScenario) -> Iterator[Finding]:
        shards, batches = self.tensor_parallel or 1, self.batches_in_flight
        pinned = InferenceParallelismSpec(tensor_parallel=shards, pipeline_stages=self.pipeline_stages or 1)
        yield from pinned.findings(spec)
        most = self.pipeline_stages or spec.system.domain_ipu_count // shards
        if batches > most:
            what = f"{batches} batches in flight are more than the {most} pipeline stages there can be"
            yield (PARALLELISM, "batches_in_flight"), what, f"write {most} or less"


class InferenceParallelismSpec(Spec):
    """Division of the model over IPUs."""

    auto: ClassVar[type[AutoSpec]] = AutoInferenceSpec
    undivided: ClassVar[dict[str, Any]] = {}
    tensor_parallel: Count = 1
    """IPUs that share every layer."""
    pipeline_stages: Count = 1
    """Groups of such IPUs, each of which holds some of the layers."""
    batches_in_flight: Count = 1
    """Batches that are in the pipeline at the same time, at most one for each stage."""

    @property
    def ipu_count(self) -> int:
        """IPUs of one copy of the model."""
        return self.tensor_parallel * self.pipeline_stages

    @model_validator(mode="after")
    def _ipus_can_be_placed(self) -> InferenceParallelismSpec:
        if self.batches_in_flight > self.pipeline_stages:
            what = f"{self.batches_in_flight} batches for {counted(self.pipeline_stages, 'pipeline stage')}"
            raise BadValueError(what, "use at most one batch per stage")
        return self

    def findings(self, spec: GenerationScenario) -> Iterator[Finding]:
        """Yield problems of layouts that do not fit the pod, or that leave IPUs without a part of the model.

        Shards may be unequal: the largest shard determines the time, and has to fit.
        """
        need, domain = self.ipu_count, spec.system.domain_ipu_count
        if need > domain:
            yield (
                (PARALLELISM,),
                f"{self.tensor_parallel} x {self.pipeline_stages} = {need} IPUs are wanted; "
                f"a link domain of {spec.system.name} has {domain}",
                f"use at most {domain} IPUs for one copy of the model",
            )
        yield from shard_findings(spec.model, self.tensor_parallel)
        if self.pipeline_stages > spec.model.shape.layer_count:
            what = f"{self.pipeline_stages} stages for {spec.model.shape.layer_count} layers"
            yield (PARALLELISM, "pipeline_stages"), what, "use fewer stages"


class InferenceMemorySpec(Spec):
    """Use of memory."""

    available_memory_proportion: AvailableMemory = 0.4
    """Share of tile memory for the temporaries of a matrix product."""
    reserve: Reserve | None = None
    """Share of In-Processor-Memory left free; 0 if left out, or the software stack's for a chosen layout."""
    weights: Literal["resident", "streamed"] = "resident"
    """`resident`: in In-Processor-Memory. `streamed`: loaded layer by layer from streaming memory in every step."""
    io_tiles: CountOrZero = 0
    """Tiles that load the next layer while the others compute; with 0, computation waits for loads."""


class InferencePrecisionSpec(Spec):
    """Number formats."""

    weights: Literal["fp16", "fp8", "int4"] = "fp16"
    """Format of stored weights; narrow formats are unpacked for the matrix unit."""
    weight_group_size: Count | None = None
    """Weights of `int4` that share a scale and an offset in fp16; 64 if left out."""
    activations: NumberFormat = "fp16"
    """Format of activations, keys and values."""
    matmul_partials: NumberFormat = "fp16"
    """Format of partial results of matrix products."""

    @model_validator(mode="after")
    def _groups_are_of_int4(self) -> InferencePrecisionSpec:
        if self.weight_group_size and self.weights != "int4":
            what = f"weight_group_size {self.weight_group_size} with weights in {self.weights}, which have no groups"
            raise BadValueError(what, "leave it out, or write weights: int4")
        return self


class GenerationScenario(Scenario):
    """Scenario of text generation: speed, latency, number of IPUs, and load."""

    activity: ClassVar[Activity] = Activity.GENERATION
    model: GeneratorSpec
    """The model."""
    generation: GenerationSpec
    """Prompts and outputs."""
    parallelism: InferenceParallelismSpec = InferenceParallelismSpec()
    """Division of the model over IPUs; `auto` for a search."""
    memory: InferenceMemorySpec = InferenceMemorySpec()
    """Use of memory."""
    precision: InferencePrecisionSpec = InferencePrecisionSpec()
    """Number formats."""
    serving: ServingSpec | None = None
    """Requests over time, for `podsim serve`."""

    @property
    def served(self) -> ServingSpec:
        """Section `serving`, or its defaults."""
        return self.serving or ServingSpec()

    @property
    def copy_count(self) -> int:
        """Number of copies of the model that fit the pod, each within one link domain."""
        return self.system.room_for(self.parallelism.ipu_count)

    def division_findings(self) -> Iterator[Finding]:
        """Yield problems of shards, stages and copies."""
        yield from self.parallelism.findings(self)
        replicas = self.serving and self.serving.replicas
        if replicas and 0 < self.copy_count < replicas:
            yield (
                ("serving", "replicas"),
                f"{replicas} copies of {self.parallelism.ipu_count} IPUs; "
                f"{self.system.name} has room for {self.copy_count}",
                f"use at most {self.copy_count}, or another pod",
            )

    def model_findings(self) -> Iterator[Finding]:
        """Yield problems of positions, memory and requests."""
        key = ("generation", "output_tokens")
        yield from self.model.position_findings(self.generation.sequence_length, key, "shorten prompt or output")
        tiles = int(self.system.machine.ipu.tile.count)
        if self.memory.io_tiles >= tiles:
            what = f"{self.memory.io_tiles} of {tiles} tiles"
            yield ("memory", "io_tiles"), what, "leave tiles to compute; use 32 or 64"
        yield from one_share(self.memory.available_memory_proportion)
        yield from self._request_findings()

    def _request_findings(self) -> Iterator[Finding]:
        room, lengths = self.generation.sequence_length, self.serving.lengths if self.serving else None
        for name in ("prompt_tokens", "output_tokens") if self.serving and not lengths else ():
            if (count := getattr(self.generation, name)) > MOST_TOKENS:
                what = f"requests of {count:,} tokens are longer than can be served"
                yield ("generation", name), what, f"use at most {MOST_TOKENS:,}, or give serving.lengths"
        for number, request in enumerate(lengths or ()):
            if request.prompt_tokens + request.output_tokens > room:
                size = f"{request.prompt_tokens} + {request.output_tokens} tokens"
                yield (
                    ("serving", "lengths", number),
                    f"{size}; generation makes room for {room} per sequence",
                    "raise generation.prompt_tokens or output_tokens, or shorten the request",
                )
