"""Conversion of a validated scenario of training into a job for the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from podsim import memo
from podsim.errors import ModelError
from podsim.models import Workload
from podsim.models.eight_bits import with_training_in_fp8
from podsim.models.op import DTYPE_BYTES
from podsim.models.transformer.names import DECODER, EMBEDDING, ENCODER, HEAD
from podsim.options import Fit
from podsim.placement.cuts import Cuts, cuts_before, cuts_of_counts, cuts_of_layers, even_layers
from podsim.placement.layout import (
    NEAREST,
    STREAMING,
    Change,
    Layout,
    Optimizer,
    PlanInput,
    Precision,
    far_fewer_samples,
    fewer_io_tiles,
    fewer_samples,
    in_phases,
    less_state_on_chip,
    more_shards,
    recomputation_on,
    smaller_temporaries,
)
from podsim.scenario import TrainingScenario
from podsim.scenario.hardware import System
from podsim.scenario.software import Software
from podsim.scenario.training import TrainingOptimizerSpec
from podsim.scenario.transformer_training import MemorySpec, ParallelismSpec, StageSpec
from podsim.scenario.wording import known_here

_BUFFERED = 3
"""Default number of prefetched micro-batches of a replica, if neither scenario nor software stack has one."""


def training_job(
    spec: TrainingScenario, workload_of: Callable[..., Workload] | None = None, fit: Fit = "refuse"
) -> PlanInput:
    """Return the planner's input for a scenario of training."""
    system, software, precision = spec.system, spec.software, spec.precision
    workload_of = workload_of or lru_cache(maxsize=None)(partial(_workload, spec))
    layout = _layout(spec, workload_of(spec.parallelism.micro_batch_size), system, software)
    return PlanInput(
        system=system,
        software=software,
        workload_of=workload_of,
        layout=layout,
        precision=Precision.from_formats(
            precision.common_weights, precision.matmul_partials, precision.gradient_accumulation
        ),
        optimizer=_optimizer(spec.optimizer, precision.common_weights),
        changes=tuple(_changes(spec, layout)),
        others=tuple(_larger_changes(spec, layout)),
        fit=fit,
    )


def _workload(spec: TrainingScenario, micro_batch_size: int, shards: int | None = None) -> Workload:
    """Return the model, or its largest shard, in the formats of scenario and software stack."""
    stash, narrow = spec.precision.stash, spec.precision.weights if spec.precision.narrows_products else None
    sharing = spec.parallelism.shards if shards is None else replace(spec.parallelism.shards, count=shards)
    sharing = replace(sharing, expert_groups=min(sharing.expert_groups, sharing.count))

    def build() -> Workload:
        shard = spec.model.workload(spec.data, spec.formats, micro_batch_size, sharing)
        whole = spec.model.workload(spec.data, spec.formats, micro_batch_size) if sharing.count > 1 else None
        shard = with_training_in_fp8(shard, stored=narrow == "fp8") if narrow else shard
        return replace(shard, stash_dtype=stash, whole=whole)

    # Specifications contain lists and mappings, so they are not hashable.
    return memo.WORKLOADS.get(
        (repr((spec.model, spec.data, spec.formats)), micro_batch_size, stash, narrow, sharing), build
    )


def _layout(spec: TrainingScenario, workload: Workload, system: System, software: Software) -> Layout:
    parallelism, state, cuts = spec.parallelism, spec.memory.state, _cuts(spec, workload)
    ipus, updates_per_call = cuts.ipus_per_replica, parallelism.updates_per_call(spec)
    layout = Layout(
        ipus_per_replica=ipus,
        replication_factor=parallelism.replication_factor,
        replicas_per_domain=system.domain_ipu_count // ipus,
        cuts=cuts,
        schedule=parallelism.schedule or software.schedule,
        chunks_per_ipu=parallelism.chunk_count,
        width_parts=parallelism.shards.width_parts,
        nearest=tuple(getattr(parallelism, "nearest", NEAREST)),
        micro_batch_size=parallelism.micro_batch_size,
        accumulation_factor=parallelism.accumulation_factor,
        recompute=parallelism.recomputes(software),
        optimizer_storage=state.storage,
        replicated_tensor_sharding=state.replicated_tensor_sharding,
        reduction_merge_bytes=parallelism.merged_bytes(software.reduction_merge_bytes or 0),
        updates_per_session_call=updates_per_call,
        replicas_per_process=parallelism.served_replicas(spec),
        stacked_by_caller=not spec.model.reads_images,
        loads_itself=spec.data.loads_itself,
        samples_ahead=spec.data.samples_ahead(parallelism),
        late_samples=spec.data.late_samples(parallelism, updates_per_call),
        loading_overlap=spec.data.loading_overlap(parallelism, updates_per_call),
        epoch_starts=spec.data.epoch_starts(parallelism),
        io_tiles=spec.memory.io_tiles,
        prefetch_depth=spec.data.ready_micro_batches or software.buffering_depth or _BUFFERED,
        available_memory_proportion=spec.memory.shares(ipus),
        reserve=spec.memory.reserve or 0.0,
    )
    if not (isinstance(parallelism, ParallelismSpec) and parallelism.is_phased):
        return layout
    assert isinstance(spec.memory, MemorySpec)
    return replace(
        layout,
        phased=True,
        batch_serialised=parallelism.batch_serialisation,
        activation_shards=parallelism.activation_shards if spec.memory.sharded_activations else 1,
        weight_storage=STREAMING,
        optimizer_storage=STREAMING,
        overlapped_io=spec.memory.overlapped_io,
    )


def _cuts(spec: TrainingScenario, workload: Workload) -> Cuts:
    match spec.parallelism:
        case ParallelismSpec(stages=list(stages), tensor_parallel=shards):
            return cuts_of_counts(workload, [_held(stage) for stage in stages], [stage.ipu for stage in stages], shards)
        case ParallelismSpec(execution="phased", tensor_parallel=shards):
            return Cuts((0,), (range(shards),))
        case ParallelismSpec(tensor_parallel=shards) as given:
            count, head_apart = given.group_count * given.chunk_count, given.head_on_first_ipu(spec.model)
            layers = given.layers_per_ipu or even_layers(spec.model.placed_layers, count)
            return cuts_of_layers(workload, layers, shards, chunks=given.chunk_count, head_apart=head_apart)
    from podsim.scenario.convnet_training import ImageParallelismSpec  # not needed for transformers

    order, images = workload.order, spec.parallelism
    assert isinstance(images, ImageParallelismSpec)
    splits, checkpoints = images.pipeline_splits, images.checkpoints
    return cuts_before(order, _known(splits, order, "pipeline_splits"), _known(checkpoints, order, "checkpoints"))


def _held(stage: StageSpec) -> Counter[str]:
    """Return the number of blocks of each kind in a stage of the scenario."""
    attention, feed_forward = ENCODER
    counts = {
        EMBEDDING: int(stage.embedding),
        attention: stage.attention_count,
        feed_forward: stage.feed_forward_count,
        DECODER[0]: stage.decoder_layers,
        HEAD: int(stage.head),
    }
    return +Counter(counts)


def _known(names: Sequence[str], order: Sequence[str], key: str) -> Sequence[str]:
    """Return `names`, or raise an error if one is not a block after the first."""
    for name in names:
        if name not in order[1:]:
            what = f"`{name}` is not a block of the network behind its first"
            raise ModelError(what, key=f"parallelism.{key}", do=known_here(name, order[1:], "use one of its blocks"))
    return names


def _optimizer(spec: TrainingOptimizerSpec, weights: str) -> Optimizer:
    kept = [DTYPE_BYTES[state_format] for state_format in spec.state_formats]
    casts = weights != spec.arithmetic
    return Optimizer(spec.kind, spec.arithmetic, sum(kept), len(kept), spec.clips_gradients, casts)


def _changes(spec: TrainingScenario, layout: Layout) -> Iterator[Change]:
    """Yield the changes that may be suggested if the job does not fit."""
    yield from fewer_io_tiles(layout)
    yield from recomputation_on(layout, spec.parallelism.recomputed_unit)
    if spec.memory.state_can_move:
        yield from less_state_on_chip(layout)
    yield from smaller_temporaries(layout)
    yield from fewer_samples(layout, "parallelism.micro_batch_size")
    if layout.phased:
        heads = getattr(spec.model, "head_count", 1)
        yield from more_shards(layout, spec.system, heads)
        if layout.batch_serialised:
            yield "parallelism.batch_serialisation: false", partial(replace, batch_serialised=False)


def _larger_changes(spec: TrainingScenario, layout: Layout) -> Iterator[Change]:
    """Yield larger changes, to be tried if no other change helps: far fewer samples, or phased execution."""
    yield from far_fewer_samples(layout, "parallelism.micro_batch_size")
    if isinstance(spec.parallelism, ParallelismSpec) and not layout.phased:
        words = "parallelism.execution: phased, in place of stages on IPUs of their own"
        yield words, partial(in_phases, system=spec.system, activation_shards=spec.parallelism.activation_shards)
