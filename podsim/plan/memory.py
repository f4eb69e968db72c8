"""What sits in each IPU's memory, and whether it fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from podsim.plan.options import TrainingOptions
from podsim.plan.stage import Segment, Stage, stash_depth
from podsim.plan.stage_cost import StageCost
from podsim.plan.update import state_bytes, updated_sizes
from podsim.system import Ipu, Software
from podsim.workload import Workload


@dataclass(frozen=True, slots=True)
class Tenant:
    """Something that occupies memory. [B]

    Attributes:
        name: `weights`, `accumulators`, `optimizer_state`, `stash`, `temporaries` or `code`.
        byte_count: Its size on one IPU. [B]
        storage: `in_processor_memory` or `streaming_memory`.
    """

    name: str
    byte_count: int
    storage: str = "in_processor_memory"


@dataclass(frozen=True, slots=True)
class IpuMemory:
    """The tenants of one IPU of a replica.

    Attributes:
        ipu: Position in the replica.
        tenants: What it holds.
        capacity_bytes: In-Processor-Memory. [B]
        streaming_capacity_bytes: Streaming memory that belongs to it. [B]
    """

    ipu: int
    tenants: tuple[Tenant, ...]
    capacity_bytes: int
    streaming_capacity_bytes: int

    def used_bytes(self, storage: str = "in_processor_memory") -> int:
        """Sum of the tenants of one storage. [B]"""
        return sum(tenant.byte_count for tenant in self.tenants if tenant.storage == storage)

    @property
    def fits(self) -> bool:
        """Whether both storages hold their tenants."""
        return (
            self.used_bytes() <= self.capacity_bytes
            and self.used_bytes("streaming_memory") <= self.streaming_capacity_bytes
        )


def parameters_per_ipu(stages: Sequence[Stage], workload: Workload, ipu_count: int) -> tuple[int, ...]:
    """Trained elements stored on each IPU of a replica.

    A tied tensor is stored once where it shares an IPU with its owner, and copied elsewhere.
    """
    counts = [0] * ipu_count
    held = [{name for stage in stages if ipu in stage.ipus for name, _ in stage.blocks} for ipu in range(ipu_count)]
    for stage in stages:
        for name, repeats in stage.blocks:
            for parameter, ipu in product(workload.blocks[name].parameters, stage.ipus):
                shared = parameter.tied_to is not None and parameter.tied_to.split("/")[0] in held[ipu]
                counts[ipu] += 0 if shared else repeats * parameter.element_count
    return tuple(counts)


def memory_plan(
    costs: Sequence[StageCost],
    workload: Workload,
    ipu: Ipu,
    options: TrainingOptions,
    software: Software,
    streaming_capacity_bytes: int,
) -> tuple[IpuMemory, ...]:
    """The tenants of every IPU of a replica.

    Args:
        costs: The stages with the temporaries of their operations.
        workload: The model.
        ipu: The chip.
        options: How training is laid out.
        software: The software stack, for its code and its sharding.
        streaming_capacity_bytes: Streaming memory per IPU. [B]
    """
    stages = [cost.stage for cost in costs]
    parameters = parameters_per_ipu(stages, workload, options.ipus_per_replica)
    updated = updated_sizes(stages, workload, options.ipus_per_replica)
    return tuple(
        IpuMemory(
            ipu=index,
            tenants=(
                Tenant("weights", count * options.weight_bytes),
                Tenant("accumulators", count * options.accumulator_bytes),
                Tenant(
                    "optimizer_state",
                    state_bytes(updated[index], options, software.sharding_threshold),
                    options.optimizer_storage,
                ),
                Tenant(
                    "stash",
                    _stash_bytes([s for s in stages if index in s.ipus], len(stages), workload, options),
                ),
                Tenant(
                    "temporaries",
                    _temporary_bytes([c for c in costs if index in c.stage.ipus], workload, ipu, options),
                ),
                Tenant("code", software.code_bytes_per_tile * ipu.tile_count),
            ),
            capacity_bytes=ipu.memory_bytes,
            streaming_capacity_bytes=streaming_capacity_bytes,
        )
        for index, count in enumerate(parameters)
    )


def _stash_bytes(stages: Sequence[Stage], stage_count: int, workload: Workload, options: TrainingOptions) -> int:
    """Activations kept from the forward to the backward pass, for all micro-batches in flight."""
    size = workload.activation_bytes
    return sum(
        stash_depth(stage.index, stage_count) * _kept_elements(stage, workload, options) * size for stage in stages
    )


def _kept_elements(stage: Stage, workload: Workload, options: TrainingOptions) -> int:
    return sum(kept_elements(segment, workload, recompute=options.recompute) for segment in stage.segments)


def kept_elements(segment: Segment, workload: Workload, *, recompute: bool) -> int:
    """Elements kept per micro-batch: the input, and without recomputation all that the backward pass reads."""
    saved = 0 if recompute else sum(workload.blocks[name].saved_elements for name in segment.blocks)
    return segment.count * (workload.input_elements(segment.blocks[0]) + saved)


def _temporary_bytes(costs: Sequence[StageCost], workload: Workload, ipu: Ipu, options: TrainingOptions) -> int:
    peaks = (
        segment_peak_bytes(
            segment,
            workload,
            {name: block.temporary_bytes_per_tile * ipu.tile_count for name, block in cost.blocks.items()},
            recompute=options.recompute,
        )
        for cost in costs
        for segment in cost.stage.segments
    )
    return max(peaks, default=0)


def segment_peak_bytes(
    segment: Segment, workload: Workload, temporary_bytes: Mapping[str, int], *, recompute: bool
) -> int:
    """Peak of what lives only while a segment runs: recomputed activations, live tensors, operation temporaries.

    Args:
        segment: Blocks that run one after the other.
        workload: The model.
        temporary_bytes: Largest temporaries of any operation, by block. [B]
        recompute: Whether the forward pass is redone before the backward pass.
    """
    size, recomputed, peak = workload.activation_bytes, 0, 0
    # The backward pass runs from the last block to the first and frees what lies behind it.
    for block in (workload.blocks[name] for name in segment.blocks):
        recomputed += block.saved_elements * size if recompute else 0
        peak = max(peak, recomputed + block.live_elements * size + temporary_bytes[block.name])
    return peak
