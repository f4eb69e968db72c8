"""Planning of text generation: prefill and decode share one layout, and each is planned as a forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from podsim import memo
from podsim.models import Workload
from podsim.models.op import DType
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.shape import Batch
from podsim.models.transformer.weights import with_narrow_weights
from podsim.options import Fit
from podsim.placement.cuts import Cuts, cuts_of_layers, even_layers
from podsim.placement.fit import does_not_fit
from podsim.placement.layout import (
    INT4_GROUP_SIZE,
    ON_CHIP,
    STREAMING,
    WEIGHT_BITS,
    Change,
    Layout,
    PlanInput,
    Precision,
    cache_off_chip,
    fewer_io_tiles,
    fewer_samples,
    smaller_temporaries,
    weights_streamed,
)
from podsim.placement.memory import (
    IpuMemory,
    Tenant,
    code,
    fit_verdict,
    kv_cache,
    reserve,
    temporaries_of_step,
    weights,
)
from podsim.placement.plan import Plan, cost_model, plan_stages
from podsim.scenario import GenerationScenario
from podsim.scenario.hardware import System
from podsim.scenario.software import Software
from podsim.tiles.model import CostModel

StepName = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Generation:
    """Planner's request for text generation: a decoder with its batch, prompt, output and layout."""

    system: System
    software: Software
    shape: DecoderShape
    layout: Layout  # the micro-batch size is the number of sequences that run together
    precision: Precision
    dtype: DType  # format of activations, keys and values
    prompt_tokens: int
    output_tokens: int
    fit: Fit = "refuse"

    @property
    def sequence_length(self) -> int:
        """Number of tokens of prompt and output together."""
        return self.prompt_tokens + self.output_tokens

    def laid_out(self, **fields: Any) -> Generation:
        """Return the request with some fields of its layout replaced."""
        return replace(self, layout=replace(self.layout, **fields))

    def job(self, name: StepName) -> PlanInput:
        """Return the planner's input for the forward pass of a step."""
        return PlanInput(self.system, self.software, partial(self._workload, name), self.layout, self.precision)

    def _workload(self, name: StepName, batch_size: int) -> Workload:
        """Return the model of a step: the prompt, one token in mid-output, or without a cache the padded sequence."""
        tokens = context = self.prompt_tokens
        if self.layout.kv_cache == "none":
            tokens = context = self.sequence_length
        elif name == "decode":
            tokens, context = 1, self.prompt_tokens + max(1, self.output_tokens // 2)
        batch = Batch(
            size=batch_size,
            sequence_length=tokens,
            dropout=False,
            attention_dropout=False,
            dtype=self.dtype,
            context_length=context,
            cached=self.layout.kv_cache != "none",
        )
        shards, dtype, offset = self.layout.tensor_parallel, self.dtype, self.precision.group_size > 0

        def build() -> Workload:
            workload = causal_decoder(self.shape, batch, shards=shards)
            return with_narrow_weights(workload, dtype, offset=offset) if self.precision.is_narrow else workload

        return memo.WORKLOADS.get((self.shape, batch, shards, self.precision.is_narrow, dtype, offset), build)


@dataclass(frozen=True, slots=True)
class Steps:
    """Plans of prefill and decode."""

    prefill: Plan  # plan of the step that reads the prompt
    decode: Plan  # plan of the step that generates one token, in the middle of the output
    # tenants of the first IPU of each stage, with the larger temporaries of both steps; other IPUs of a stage are equal
    memory: tuple[IpuMemory, ...]


def with_layers(asked: Generation, count: int) -> Generation:
    """Return the request with `count` layers in each stage."""
    layout = asked.layout
    stages = layout.stage_count
    shape = replace(asked.shape, layer_count=count * stages)
    return replace(asked, shape=shape).laid_out(cuts=_even_cuts(shape, stages, layout.tensor_parallel))


def with_stages_of_shards(asked: Generation, stages: int, shards: int) -> Generation:
    """Return the request with a number of stages, each shared by a number of IPUs."""
    return asked.laid_out(
        ipus_per_replica=stages * shards,
        cuts=_even_cuts(asked.shape, stages, shards),
        available_memory_proportion=asked.layout.available_memory_proportion[:1] * (stages * shards),
    )


def _even_cuts(shape: DecoderShape, stages: int, shards: int) -> Cuts:
    """Return cuts with the same layers in prefill and decode."""
    return cuts_of_layers(causal_decoder(shape, Batch(1, 1)), even_layers(shape.layer_count, stages), shards)


def generation_layout(shape: DecoderShape, stages: int, shards: int, proportion: float, **fields: Any) -> Layout:
    """Return a layout with layers spread evenly over stages, each shared by adjacent IPUs."""
    cuts, ipus = _even_cuts(shape, stages, shards), stages * shards
    return Layout(ipus_per_replica=ipus, cuts=cuts, available_memory_proportion=(proportion,) * ipus, **fields)


def plan_generation(asked: Generation, model: CostModel | None = None, *, advise: bool = True) -> Steps:
    """Cost both kinds of step and check that the model fits; with `advise` the error says what would help."""
    costs = model or generation_cost_model(asked)
    steps = draft_steps(asked, costs)
    if asked.fit == "refuse" and fit_verdict(steps.memory) == "does not fit":

        def memory_of(changed: Generation) -> tuple[IpuMemory, ...]:
            is_same = changed.layout.io_tiles == asked.layout.io_tiles
            return draft_steps(changed, costs if is_same else generation_cost_model(changed)).memory

        raise does_not_fit(steps.memory, asked, _changes(asked), memory_of, advise=advise)
    return steps


def generation_cost_model(asked: Generation) -> CostModel:
    """Return the cost model of single operations on the compute tiles."""
    return cost_model(asked.job("decode"))


def draft_steps(asked: Generation, model: CostModel) -> Steps:
    """Plan both steps and their memory, without a check that they fit."""
    prefill, decode = plan_step(asked, "prefill", model), plan_step(asked, "decode", model)
    return Steps(prefill, decode, tuple(_memory(asked, (prefill, decode), model)))


def plan_step(asked: Generation, name: StepName, model: CostModel) -> Plan:
    """Plan one of the two steps, without its memory."""
    return plan_stages(asked.job(name), model)


def _memory(asked: Generation, steps: Sequence[Plan], model: CostModel) -> Iterator[IpuMemory]:
    job, decode, ipu = asked.job("decode"), steps[-1], model.ipu
    streaming = job.system.machine.streaming_memory.capacity_per_ipu_bytes
    running = max((temporaries_of_step(step.stages) for step in steps), key=lambda tenant: tenant.byte_count)
    for cost in decode.stages:
        tenants: tuple[Tenant, ...] = (
            *weights([cost], decode.workload, job),
            *kv_cache(cost, decode.workload, job, asked.sequence_length),
            running,
            code(job, ipu),
            *reserve(job, ipu),
        )
        yield IpuMemory(cost.stage.ipus.start, tenants, ipu.memory_bytes, streaming)


def _changes(asked: Generation) -> Iterator[tuple[str, Callable[[Generation], Generation]]]:
    layout = asked.layout
    yield from _on_layout(fewer_io_tiles(layout))
    yield from _on_layout(weights_streamed(layout))
    yield from _on_layout(cache_off_chip(layout))
    if asked.precision.weight_bits != WEIGHT_BITS["int4"]:
        yield "precision.weights: int4", _with_narrow_weights
    yield from _on_layout(smaller_temporaries(layout))
    yield from _on_layout(fewer_samples(layout, "generation.batch_size"))


def _with_narrow_weights(asked: Generation) -> Generation:
    narrow = replace(asked.precision, weight_bits=WEIGHT_BITS["int4"], group_size=INT4_GROUP_SIZE)
    return replace(asked, precision=narrow)


def _on_layout(changes: Iterable[Change]) -> Iterator[tuple[str, Callable[[Generation], Generation]]]:
    for words, change in changes:
        yield words, partial(_changed, change)


def _changed(change: Callable[[Layout], Layout], asked: Generation) -> Generation:
    return replace(asked, layout=change(asked.layout))


def generation_job(spec: GenerationScenario, fit: Fit = "refuse") -> Generation:
    """Return the planner's request for a scenario of text generation."""
    generation, parallelism, memory, shape = spec.generation, spec.parallelism, spec.memory, spec.model.shape
    formats = spec.precision
    group_size = (formats.weight_group_size or INT4_GROUP_SIZE) if formats.weights == "int4" else 0
    return Generation(
        system=spec.system,
        software=spec.software,
        shape=shape,
        layout=generation_layout(
            shape,
            parallelism.pipeline_stages,
            parallelism.tensor_parallel,
            float(memory.available_memory_proportion),
            micro_batch_size=generation.batch_size,
            kv_cache=generation.kv_cache,
            logits_per_sequence=shape.vocabulary_size if generation.next_token == "host" else 0,
            batches_in_flight=parallelism.batches_in_flight,
            weight_storage=STREAMING if memory.weights == "streamed" else ON_CHIP,
            io_tiles=memory.io_tiles,
            reserve=memory.reserve or 0.0,
        ),
        precision=Precision.from_formats(formats.weights, formats.matmul_partials, group_size=group_size),
        dtype=formats.activations,
        prompt_tokens=generation.prompt_tokens,
        output_tokens=generation.output_tokens,
        fit=fit,
    )
