"""Inference: what prefill and decode steps cost on each IPU, and whether the model fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from podsim.cost.account import Account, total
from podsim.cost.model import CostModel, OpCost
from podsim.plan.cuts import even_layers
from podsim.plan.fit import does_not_fit
from podsim.plan.memory import IpuMemory, Tenant
from podsim.system import Ipu, Software, System
from podsim.workload import Batch, DecoderShape, Workload, causal_decoder
from podsim.workload.op import DTYPE_BYTES, DType
from podsim.workload.transformer.weights import Weights, unpack_ops

Storage = Literal["none", "in_processor_memory", "streaming_memory"]
ON_CHIP, STREAMING = "in_processor_memory", "streaming_memory"
_BITS_PER_BYTE = 8
WEIGHT_BITS = {"fp16": 16, "fp8": 8, "int4": 4}
# A layer's input, the norm of it, and what two dense layers make of it.
_LIVE_TENSORS = 4
_TIGHT_PROPORTION = 0.1


@dataclass(frozen=True, slots=True)
class InferenceOptions:
    """How generation is laid out.

    Attributes:
        batch_size: Sequences that go through the network together.
        prompt_tokens: Tokens of a prompt.
        output_tokens: Tokens generated for it.
        kv_cache: Where keys and values are; `none` to compute the whole sequence for each token.
        tensor_parallel: IPUs that share every layer.
        pipeline_stages: Groups of such IPUs.
        batches_in_flight: Batches that go through the stages one behind the other.
        weights_streamed: Whether weights are loaded layer by layer for every step.
        io_tiles: Tiles that load while the others compute.
        weight_format: `fp16`, `fp8` or `int4`.
        dtype: Format of activations, keys and values.
        partials: Format of the partial results of matrix products.
        available_memory_proportion: Share of tile memory for temporaries of a product.
    """

    batch_size: int
    prompt_tokens: int
    output_tokens: int
    kv_cache: Storage
    tensor_parallel: int
    pipeline_stages: int
    batches_in_flight: int
    weights_streamed: bool
    io_tiles: int
    weight_format: str
    dtype: DType
    partials: str
    available_memory_proportion: float

    @property
    def ipu_count(self) -> int:
        """IPUs of one copy of the model."""
        return self.tensor_parallel * self.pipeline_stages

    @property
    def sequence_length(self) -> int:
        """Prompt and output together."""
        return self.prompt_tokens + self.output_tokens

    def weight_bytes(self, element_count: int) -> int:
        """Bytes of one shard of so many weights. [B]"""
        return -(-element_count * WEIGHT_BITS[self.weight_format] // _BITS_PER_BYTE // self.tensor_parallel)


@dataclass(frozen=True, slots=True)
class InferenceJob:
    """What is to be planned.

    Attributes:
        system: The machines.
        software: The software stack.
        shape: The model.
        options: How generation is laid out.
    """

    system: System
    software: Software
    shape: DecoderShape
    options: InferenceOptions


@dataclass(frozen=True, slots=True)
class StepCost:
    """One step on one shard.

    Attributes:
        name: `prefill` or `decode`.
        workload: What the shard computes.
        reads: Weights that it reads.
        blocks: Operations of `embedding`, `attention`, `feed_forward` and `head`.
        kv_load_bytes: Keys and values read from streaming memory per layer and IPU. [B]
        kv_store_bytes: The same, written. [B]
    """

    name: str
    workload: Workload
    reads: Weights
    blocks: dict[str, tuple[OpCost, ...]]
    kv_load_bytes: int
    kv_store_bytes: int

    def account(self, block: str) -> Account:
        """All operations of a block. [cycles]"""
        return total(cost.account for cost in self.blocks[block])

    def adds_up(self, block: str) -> bool:
        """Whether shards have to add up what a block computes."""
        return bool(self.workload.blocks[block].partial_sums)

    @property
    def hidden_bytes(self) -> int:
        """Activations that shards add up and stages hand on. [B]"""
        return self.workload.blocks["feed_forward"].output_elements * self.workload.activation_bytes


@dataclass(frozen=True, slots=True)
class InferencePlan:
    """Everything that is decided before time starts.

    Attributes:
        system: The machines.
        software: The software stack.
        shape: The model.
        options: How generation is laid out.
        prefill: The step that takes in a prompt.
        decode: The step that makes one token, in the middle of the output.
        layers: Layers of each stage.
        memory: Tenants of the first IPU of each stage; those that share it are alike.
    """

    system: System
    software: Software
    shape: DecoderShape
    options: InferenceOptions
    prefill: StepCost
    decode: StepCost
    layers: tuple[int, ...]
    memory: tuple[IpuMemory, ...]


def plan_inference(job: InferenceJob, model: CostModel | None = None, *, advise: bool = True) -> InferencePlan:
    """Cost both kinds of step and check that the model fits.

    Args:
        job: What is to be planned.
        model: Costs of single operations; a model that other plans have used knows many already.
        advise: Whether to find out what would help a job that does not fit.

    Raises:
        DoesNotFitError: A memory is too small; names the largest tenants and the changes that help.
    """
    prefill, decode, memory = _costs_and_memory(job, job.options, model)
    if not all(ipu.fits for ipu in memory):
        raise does_not_fit(
            memory,
            job.options,
            _changes(job.options),
            lambda changed: _costs_and_memory(job, changed)[2],
            advise=advise,
        )
    layers = even_layers(job.shape.layer_count, job.options.pipeline_stages)
    return InferencePlan(job.system, job.software, job.shape, job.options, prefill, decode, layers, memory)


_Change = tuple[str, Callable[[InferenceOptions], InferenceOptions]]


def _changed(words: str, **fields: Any) -> _Change:
    return words, lambda options: replace(options, **fields)


def _changes(options: InferenceOptions) -> Iterator[_Change]:
    if not options.weights_streamed:
        yield _changed("memory.weights: streamed", weights_streamed=True)
    if options.kv_cache == ON_CHIP:
        yield _changed("generation.kv_cache: streaming_memory", kv_cache=STREAMING)
    if options.weight_format != "int4":
        yield _changed("precision.weights: int4", weight_format="int4")
    if options.available_memory_proportion > _TIGHT_PROPORTION:
        words = f"memory.available_memory_proportion: {_TIGHT_PROPORTION}"
        yield _changed(words, available_memory_proportion=_TIGHT_PROPORTION)
    if options.batch_size > 1:
        half = options.batch_size // 2
        yield _changed(f"generation.batch_size: {half}", batch_size=half)


def _costs_and_memory(
    job: InferenceJob, options: InferenceOptions, model: CostModel | None = None
) -> tuple[StepCost, StepCost, tuple[IpuMemory, ...]]:
    changed = replace(job, options=options)
    costs = step_costs(changed, model)
    return *costs, stage_memory(changed, costs)


def step_costs(job: InferenceJob, model: CostModel | None = None) -> tuple[StepCost, StepCost]:
    """Prefill and decode on one shard; the same for any number of stages, and for streamed weights."""
    model = model or inference_cost_model(job)
    prefill, decode = (_step_cost(name, step, job.shape, job.options, model) for name, step in _steps(job.options))
    return prefill, decode


def step_cost(job: InferenceJob, name: str) -> StepCost:
    """One of the two, `prefill` or `decode`."""
    return _step_cost(name, dict(_steps(job.options))[name], job.shape, job.options, inference_cost_model(job))


def inference_cost_model(job: InferenceJob) -> CostModel:
    """Costs of single operations on the tiles that compute."""
    return CostModel(_compute(job), job.software.layout_change_cycles_per_byte, job.options.partials)


def stage_memory(job: InferenceJob, costs: Sequence[StepCost]) -> tuple[IpuMemory, ...]:
    """The tenants of the first IPU of each stage, whether or not they fit."""
    compute, stored = _compute(job), Weights.stored(job.shape)
    stages = range(job.options.pipeline_stages)
    return tuple(_memory(stage, job, stored, costs, compute) for stage in stages)


def _compute(job: InferenceJob) -> Ipu:
    """The tiles that compute."""
    ipu = job.system.machine.ipu
    return replace(ipu, tile_count=ipu.tile_count - job.options.io_tiles)


def _steps(options: InferenceOptions) -> Iterator[tuple[str, Batch]]:
    """The prompt, then one token; without a cache both are the whole sequence, padded to its full length."""
    if options.kv_cache == "none":
        whole = _step(options, options.sequence_length, options.sequence_length)
        yield from (("prefill", whole), ("decode", whole))
        return
    yield "prefill", _step(options, options.prompt_tokens, options.prompt_tokens)
    yield "decode", _step(options, 1, options.prompt_tokens + max(1, options.output_tokens // 2))


def _step(options: InferenceOptions, tokens: int, context: int) -> Batch:
    return Batch(
        size=options.batch_size,
        sequence_length=tokens,
        dropout=False,
        attention_dropout=False,
        dtype=options.dtype,
        context_length=context,
        cached=options.kv_cache != "none",
    )


def _step_cost(name: str, batch: Batch, shape: DecoderShape, options: InferenceOptions, model: CostModel) -> StepCost:
    proportion, shards = options.available_memory_proportion, options.tensor_parallel
    workload, reads = causal_decoder(shape, batch, shards=shards), Weights.read(causal_decoder(shape, batch))
    blocks = {each.name: model.sequence(each.forward, proportion) for each in workload.blocks.values()}
    if options.weight_format != "fp16":
        unpack = unpack_ops(-(-reads.layer // shards), batch.dtype)
        blocks["attention"] = model.sequence(unpack, proportion) + blocks["attention"]
    kept, earlier = 0, 0
    if options.kv_cache == STREAMING:
        kept = 2 * shape.layer(batch, shards).kv_size * DTYPE_BYTES[batch.dtype] * batch.size
        earlier = (batch.context_length or 0) - batch.sequence_length
    return StepCost(name, workload, reads, blocks, kept * earlier, kept * batch.sequence_length)


def _memory(stage: int, job: InferenceJob, stored: Weights, steps: Sequence[StepCost], compute: Ipu) -> IpuMemory:
    """The tenants of one IPU of a stage."""
    options, last = job.options, job.options.pipeline_stages - 1
    layers = even_layers(job.shape.layer_count, options.pipeline_stages)[stage]
    layer = options.weight_bytes(stored.layer)
    ends = [options.weight_bytes(stored.embedding)] if stage == 0 or job.shape.tied_embedding else []
    ends += [options.weight_bytes(stored.head)] if stage == last else []
    weights = layers * layer + sum(ends)
    # Loads that overlap need a second slot; the largest thing that is loaded sets its size.
    slots = (2 if options.io_tiles else 1) * max([layer, *ends])
    tenants = [Tenant("weights", slots if options.weights_streamed else weights)]
    if options.weights_streamed:
        tenants.append(Tenant("weights", weights, STREAMING))
    if options.kv_cache != "none":
        tenants += _kv_tenants(job.shape, options, layers)
    temporaries = max(_temporary_bytes(cost, compute) for cost in steps)
    code = job.software.inference_code_bytes_per_tile * compute.tile_count
    tenants += [Tenant("temporaries", temporaries), Tenant("code", code)]
    streaming = job.system.machine.streaming.capacity_per_ipu_bytes
    return IpuMemory(stage * options.tensor_parallel, tuple(tenants), compute.memory_bytes, streaming)


def _kv_tenants(shape: DecoderShape, options: InferenceOptions, layers: int) -> list[Tenant]:
    """Keys and values of all layers; in streaming memory, with those of one layer on the chip."""
    width = shape.layer(_step(options, 1, options.sequence_length), options.tensor_parallel).kv_size
    one = 2 * width * options.sequence_length * options.batch_size * DTYPE_BYTES[options.dtype]
    every = one * layers * options.batches_in_flight
    if options.kv_cache == ON_CHIP:
        return [Tenant("kv_cache", every)]
    return [Tenant("kv_cache", one), Tenant("kv_cache", every, STREAMING)]


def _temporary_bytes(cost: StepCost, ipu: Ipu) -> int:
    """Peak of activations and temporaries of operations while a layer runs. [B]"""
    widest = max(each.op.byte_count for costs in cost.blocks.values() for each in costs)
    largest = max(each.temporary_bytes_per_tile for costs in cost.blocks.values() for each in costs)
    return _LIVE_TENSORS * cost.hidden_bytes + 2 * widest + largest * ipu.tile_count
