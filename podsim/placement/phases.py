"""Costs and memory of phased execution: all IPUs of a replica run one segment after the other.

Tensors of other segments are in streaming memory; see docs/background/streaming-memory.md. The last segment has one
phase for both its forward and backward pass. Source: [popxl_bert], [popxl_rts_tutorial].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from podsim.models import Workload
from podsim.models.block import Parameter
from podsim.placement.cuts import Segment, Stage, inner_elements
from podsim.placement.layout import STREAMING, PlanInput
from podsim.placement.memory import IpuMemory, Tenant, code, reserve, segment_peak_bytes
from podsim.placement.stage_cost import BlockCost, StageCost, UpdateCost, stage_cost, stage_costs, update_cost
from podsim.scenario.ipu import Ipu
from podsim.tiles.model import CostModel


@dataclass(frozen=True, slots=True)
class PhaseCost:
    """Costs of a segment in phased execution, with sizes per IPU and per repetition."""

    segment: Segment  # blocks, and number of repetitions
    title: str
    cost: StageCost  # passes of one micro-batch
    input_bytes: int  # input that the segment reads per micro-batch, in the format of the stash [B]
    new_input_bytes: int  # input that the previous repetition has not read [B]
    output_bytes: int  # changed part of the output, in the format of the stash; 0 for the last segment [B]
    given_back_bytes: int  # gradients of the output, loaded by the backward pass; 0 for the last segment [B]
    handed_back_bytes: int  # gradients of the input, stored by the backward pass; 0 for the first segment [B]
    kept_bytes: int  # other tensors that the backward pass reads; 0 if recomputed or if it follows immediately [B]
    exchanged: UpdateCost  # all tensors of the segment, which replicas gather and reduce
    updated: UpdateCost  # tensors that the segment owns and updates
    tied: UpdateCost  # tensors for which the phase of another segment has already stored gradients


def phase_costs(
    stage: Stage,
    workload: Workload,
    model: CostModel,
    job: PlanInput,
    blocks: Mapping[str, BlockCost] | None = None,
) -> tuple[PhaseCost, ...]:
    """Cost the segments of the single stage, in the order of the forward pass; `blocks` replaces the model's costs."""
    layout = job.layout
    singles = [replace(stage, segments=(replace(each, count=1),)) for each in stage.segments]
    if blocks is None:
        costs = stage_costs(
            singles,
            workload,
            model,
            layout.available_memory_proportion,
            recompute=layout.recompute,
            recompute_last=False,
            redoes_all=True,
        )
    else:
        redone = singles[:-1] if layout.recompute else []
        costs = tuple(
            stage_cost(single, blocks, single.segments if single in redone else (), redoes_all=True)
            for single in singles
        )
    return tuple(
        _phase(segment, cost, costs, workload, model, job) for segment, cost in zip(stage.segments, costs, strict=True)
    )


def _phase(
    segment: Segment,
    cost: StageCost,
    costs: Sequence[StageCost],
    workload: Workload,
    model: CostModel,
    job: PlanInput,
) -> PhaseCost:
    blocks = [workload.blocks[name] for name in segment.blocks]
    tensors = [parameter for block in blocks for parameter in block.parameters]
    others = [tensor for other in costs if other is not cost for tensor in _tensors(other, workload)]
    lent = {each.tied_to for each in others if each.dtype is None} - {None}
    owned = [tensor for tensor in tensors if tensor.tied_to is None]
    tied = [parameter for block in blocks for parameter in block.parameters if f"{block.name}/{parameter.name}" in lent]
    is_first, is_last = cost is costs[0], cost is costs[-1]
    ipu, first, last = cost.stage.ipus.start, blocks[0], blocks[-1]
    kept = 0 if is_last or job.layout.recompute else inner_elements(segment, workload)
    read = workload.input_elements(first.name) - first.unread_elements
    repeated = max(0, first.passed_elements - first.unread_elements)
    output, given_back = (
        (0, 0)
        if is_last
        else (
            last.output_elements - last.passed_elements,
            last.output_elements - last.unread_elements,
        )
    )
    input_bytes = workload.host_input_bytes if is_first else read * workload.stash_bytes
    return PhaseCost(
        segment=segment,
        title={names: title for title, names in workload.layers.items()}.get(segment.blocks, first.name),
        cost=cost,
        input_bytes=input_bytes,
        new_input_bytes=input_bytes - repeated * workload.stash_bytes,
        output_bytes=output * workload.stash_bytes,
        given_back_bytes=given_back * workload.activation_bytes,
        handed_back_bytes=read * workload.activation_bytes,
        kept_bytes=kept * workload.stash_bytes,
        exchanged=_update(ipu, tensors, workload, model, job),
        updated=_update(ipu, owned, workload, model, job),
        tied=_update(ipu, tied, workload, model, job),
    )


def _update(ipu: int, tensors: Sequence[Parameter], workload: Workload, model: CostModel, job: PlanInput) -> UpdateCost:
    """Return the cached cost of updating some tensors; the key has only what the cost depends on."""
    layout, software = job.layout, job.software
    shards = layout.shard_count if layout.replicated_tensor_sharding else 0
    laid_out = layout.reduction_merge_bytes, shards, layout.tensor_parallel, job.precision, job.optimizer
    key = ("update", ipu, tuple(tensors), *laid_out, software.update_rules)
    return model.without_neighbours.memoize(
        workload, key, lambda: update_cost(ipu, tensors, model.without_neighbours, job)
    )


def _tensors(cost: StageCost, workload: Workload) -> Iterator[Parameter]:
    return (parameter for name, _ in cost.stage.blocks for parameter in workload.blocks[name].parameters)


def phased_memory(phases: Sequence[PhaseCost], model: CostModel, job: PlanInput) -> tuple[IpuMemory, ...]:
    """Return the tenants of each IPU of a replica; the fullest phase sets the tenants of the chip."""
    ipu, streaming = model.ipu, job.system.machine.streaming_memory.capacity_per_ipu_bytes
    moments = [moment for phase in phases for moment in (_passing(phase, job, ipu), _updating(phase))]
    fullest = max(moments, key=lambda tenants: sum(tenant.byte_count for tenant in tenants))
    tenants = (*fullest, *_streamed(phases, job), code(job, ipu), *reserve(job, ipu))
    return tuple(IpuMemory(local, tenants, ipu.memory_bytes, streaming) for local in phases[0].cost.stage.ipus)


def _passing(phase: PhaseCost, job: PlanInput, ipu: Ipu) -> tuple[Tenant, ...]:
    """Return the tenants of the chip in the backward phase of a segment, or in the phase with both passes.

    With overlapping loads, I/O tiles hold the tensors of the next micro-batch and those still to be stored. The part
    that exceeds their memory is on the compute tiles.
    """
    workload, layout = job.workload, job.layout
    blocks = [workload.blocks[name] for name in phase.segment.blocks]
    tensors = [parameter for block in blocks for parameter in block.parameters]
    redone = bool(phase.cost.recomputed)
    kept = 0 if redone else inner_elements(phase.segment, workload) * workload.stash_bytes
    ahead = 0
    if layout.overlaps:
        stored = -(-phase.handed_back_bytes // layout.activation_shards)
        loaded = phase.input_bytes + phase.kept_bytes + phase.given_back_bytes
        ahead = max(0, loaded + stored - layout.io_tiles * ipu.tile.memory_bytes)
    needs = {name: block.needs for name, block in phase.cost.blocks.items()}
    return (
        Tenant("weights", job.precision.stored_bytes(tensors)),
        Tenant("accumulators", sum(tensor.element_count for tensor in tensors) * job.precision.accumulator_bytes),
        Tenant("stash", phase.input_bytes + kept + ahead),
        Tenant("temporaries", segment_peak_bytes(phase.segment, workload, needs, recompute=redone)),
    )


def _updating(phase: PhaseCost) -> tuple[Tenant, ...]:
    """Return the tenants of the chip in the optimizer phase of a segment."""
    return (
        Tenant("weights", phase.updated.weight_bytes),
        Tenant("accumulators", phase.updated.gradient_bytes),
        Tenant("optimizer_state", phase.updated.state_bytes),
    )


def _streamed(phases: Sequence[PhaseCost], job: PlanInput) -> Iterator[Tenant]:
    """Yield the tenants of streaming memory: shards of all tensors, and activations of the micro-batches of a phase.

    Gradients of activations have one slot per micro-batch, which every phase reads and overwrites. Samples and tensors
    kept inside a segment are complete on each IPU. The rest is divided over `Layout.activation_shards` IPUs.
    """
    layout = job.layout

    def sum_bytes(name: str) -> int:
        """Return the total size over all segments. [B]"""
        return sum(phase.segment.count * getattr(phase.updated, name) for phase in phases)

    yield Tenant("weights", sum_bytes("weight_bytes"), STREAMING)
    yield Tenant("accumulators", sum_bytes("gradient_bytes"), STREAMING)
    yield Tenant("optimizer_state", sum_bytes("state_bytes"), STREAMING)
    kept = phases[0].input_bytes + sum(phase.segment.count * phase.kept_bytes for phase in phases)
    shared = [phase.input_bytes + (phase.segment.count - 1) * phase.new_input_bytes for phase in phases[1:]]
    if layout.batch_serialised:
        shared.append(max(phase.handed_back_bytes for phase in phases))
    parts = sum(-(-byte_count // layout.activation_shards) for byte_count in shared)
    yield Tenant("stash", layout.micro_batches_per_phase * (kept + parts), STREAMING)
