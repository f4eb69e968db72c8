"""Memory of each IPU: tenants, capacity, and fit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from podsim.models import Block, Workload
from podsim.models.block import Parameter
from podsim.placement.alive import Needs
from podsim.placement.cuts import Segment, kept_bytes, kept_input
from podsim.placement.layout import ON_CHIP, STREAMING, PlanInput
from podsim.placement.stage_cost import StageCost, state_bytes, updated_parameters
from podsim.scenario.ipu import Ipu

RESERVE = "reserve"
"""Name of the tenant for memory that is left free on purpose."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """Part of an IPU's memory with one purpose."""

    # `weights`, `accumulators`, `optimizer_state`, `stash`, `kv_cache`, `activations`, `temporaries`, `code` or
    # `reserve`
    name: str
    byte_count: int  # size on one IPU [B]
    storage: str = "in_processor_memory"  # `in_processor_memory` or `streaming_memory`
    uncertain_bytes: int = 0  # part of the size that may not be needed, by the range of its source [B]


@dataclass(frozen=True, slots=True)
class IpuMemory:
    """Tenants of one IPU of a replica."""

    ipu: int  # position in the replica
    tenants: tuple[Tenant, ...]
    capacity_bytes: int
    streaming_capacity_bytes: int

    def used_bytes(self, storage: str = "in_processor_memory") -> int:
        """Return the total size of the tenants of one storage. [B]"""
        return sum(tenant.byte_count for tenant in self.tenants if tenant.storage == storage)

    @property
    def fits(self) -> bool:
        """True if both storages have room for their tenants."""
        return (
            self.used_bytes() <= self.capacity_bytes
            and self.used_bytes("streaming_memory") <= self.streaming_capacity_bytes
        )

    @property
    def uncertain_bytes(self) -> int:
        """Total size that the tenants may not need. [B]"""
        return sum(tenant.uncertain_bytes for tenant in self.tenants)

    @property
    def may_fit(self) -> bool:
        """True if both storages have room for the least that their tenants may need."""
        return (
            self.used_bytes() - self.uncertain_bytes <= self.capacity_bytes
            and self.used_bytes("streaming_memory") <= self.streaming_capacity_bytes
        )


FitVerdict = Literal["fits", "cannot tell", "does not fit"]
"""Answer to whether a replica fits its memories."""


def fit_verdict(memory: Collection[IpuMemory]) -> FitVerdict:
    """Return if a replica fits; the answer is not known where it depends on an uncertain size."""
    if all(ipu.fits for ipu in memory):
        return "fits"
    return "cannot tell" if all(ipu.may_fit for ipu in memory) else "does not fit"


def memory_plan(job: PlanInput, costs: Sequence[StageCost], ipu: Ipu) -> tuple[IpuMemory, ...]:
    """Return the tenants of every IPU of a replica."""
    workload, streaming = job.workload, job.system.machine.streaming_memory.capacity_per_ipu_bytes

    def tenants(local: int) -> Iterator[Tenant]:
        held = [cost for cost in costs if local in cost.stage.ipus]
        yield from weights(held, workload, job)
        if job.optimizer is not None:
            yield accumulators(held, workload, job)
            yield optimizer_state(held, workload, job)
            yield stash(held, workload, job)
            yield temporaries_of_training(held, workload, job)
        else:
            # The block with the largest sum of activations and temporaries sets both.
            forward = (block.needs.forward for cost in held for block in cost.blocks.values())
            most = max(forward, key=lambda alive: alive.byte_count)
            yield Tenant("activations", most.tensors)
            yield Tenant("temporaries", most.temporaries)
        yield code(job, ipu)
        yield from reserve(job, ipu)

    return tuple(
        IpuMemory(local, tuple(tenants(local)), ipu.memory_bytes, streaming)
        for local in range(job.layout.ipus_per_replica)
    )


def weights(held: Sequence[StageCost], workload: Workload, job: PlanInput) -> Iterator[Tenant]:
    """Yield the weights of the stages on an IPU; if they are streamed, also the buffer for them on the chip."""
    owners = _owners(held)

    def stored(segment: Segment, there: Collection[str]) -> int:
        """Return the bytes of the weights of a segment, except those tied to blocks on the same IPU. [B]"""
        return job.precision.stored_bytes(
            parameter for name in segment.blocks for parameter in _stored(workload.blocks[name], there)
        )

    segments = [segment for cost in held for segment in cost.stage.segments]
    every = sum(segment.count * stored(segment, owners) for segment in segments)
    if job.layout.weight_storage == ON_CHIP:
        yield Tenant("weights", every)
        return
    # Overlapping loads need a second slot; the largest segment sets the size of a slot.
    slots = 2 if job.layout.io_tiles else 1
    yield Tenant("weights", slots * max(stored(segment, ()) for segment in segments))
    yield Tenant("weights", every, STREAMING)


def accumulators(held: Sequence[StageCost], workload: Workload, job: PlanInput) -> Tenant:
    """Return the accumulators: one gradient for every weight."""
    return Tenant("accumulators", _parameter_count(held, workload) * job.precision.accumulator_bytes)


def _parameter_count(held: Sequence[StageCost], workload: Workload) -> int:
    """Return the number of parameters stored on an IPU."""
    owners = _owners(held)
    return sum(
        repeats * parameter.element_count
        for cost in held
        for name, repeats in cost.stage.blocks
        for parameter in _stored(workload.blocks[name], owners)
    )


def _owners(held: Sequence[StageCost]) -> set[str]:
    return {name for cost in held for name, _ in cost.stage.blocks}


def _stored(block: Block, owners: Collection[str]) -> Iterator[Parameter]:
    """Yield the stored parameters of a block, except those tied to an owner on the same IPU in the same format."""
    for parameter in block.parameters:
        if parameter.tied_to is None or parameter.dtype or parameter.tied_to.split("/")[0] not in owners:
            yield parameter


def optimizer_state(held: Sequence[StageCost], workload: Workload, job: PlanInput) -> Tenant:
    """Return the optimizer state of the weights of an IPU, or of a shard of these weights."""
    sizes = [each.element_count for cost in held for each in updated_parameters(cost.stage, workload)]
    return Tenant("optimizer_state", state_bytes(sizes, job), job.layout.optimizer_storage)


def stash(held: Sequence[StageCost], workload: Workload, job: PlanInput) -> Tenant:
    """Return the activations kept from the forward to the backward pass, for all micro-batches in flight."""
    kept = {cost.stage.index: kept_bytes(cost.stage, workload, recompute=job.layout.recompute) for cost in held}
    return Tenant("stash", job.layout.pipeline().most_kept(kept, job.layout.accumulation_factor))


def temporaries_of_training(held: Sequence[StageCost], workload: Workload, job: PlanInput) -> Tenant:
    """Return the largest peak of any segment; segments run one after the other."""
    peaks = (
        segment_peak_bytes(
            segment,
            workload,
            {name: block.needs for name, block in cost.blocks.items()},
            recompute=job.layout.recompute,
        )
        for cost in held
        for segment in cost.stage.segments
    )
    return Tenant("temporaries", max(peaks, default=0))


def segment_peak_bytes(segment: Segment, workload: Workload, needs: Mapping[str, Needs], *, recompute: bool) -> int:
    """Return the peak memory while a segment runs: recomputed activations, live tensors, temporaries. [B]"""
    size, peak = workload.activation_bytes, 0
    # While the segment runs, its input is converted back to the format of activations.
    recomputed = workload.input_elements(segment.blocks[0]) * size if workload.stash_bytes < size else 0
    # The backward pass runs from the last block to the first and frees the tensors of finished blocks.
    for place, name in enumerate(segment.blocks):
        one = needs[name]
        if recompute:
            recomputed += kept_input(name, workload) * size if place else 0
            peak = max(peak, recomputed + max(one.redone_bytes, one.behind_redone_bytes))
            recomputed += workload.blocks[name].saved_elements * size
        else:
            peak = max(peak, one.first_bytes, one.backward_bytes)
    return peak


def kv_cache(cost: StageCost, decode: Workload, job: PlanInput, sequence_length: int) -> Iterator[Tenant]:
    """Yield the keys and values of all layers; if they are in streaming memory, also a buffer for one layer."""
    if job.layout.kv_cache == "none":
        return
    token = decode.activation_bytes * sequence_length
    layers = [
        (segment.count, sum(decode.blocks[name].cache_written_elements for name in segment.blocks) * token)
        for segment in cost.stage.segments
    ]
    every = sum(count * one for count, one in layers) * job.layout.batches_in_flight
    if job.layout.kv_cache == STREAMING:
        yield Tenant("kv_cache", max(one for _, one in layers))
    yield Tenant("kv_cache", every, job.layout.kv_cache)


def temporaries_of_step(costs: Sequence[StageCost]) -> Tenant:
    """Return the peak of activations and temporaries while a block of a step runs."""
    needs = (block.needs.forward.byte_count for cost in costs for block in cost.blocks.values())
    return Tenant("temporaries", max(needs))


def reserve(job: PlanInput, ipu: Ipu) -> Iterator[Tenant]:
    """Yield the reserved memory, if there is any."""
    if job.layout.reserve:
        yield Tenant(RESERVE, round(job.layout.reserve * ipu.memory_bytes))


def code(job: PlanInput, ipu: Ipu) -> Tenant:
    """Return the program on all tiles."""
    uncertain = job.code_bytes_per_tile - job.least_code_bytes_per_tile
    return Tenant("code", job.code_bytes_per_tile * ipu.tile.count, uncertain_bytes=round(uncertain * ipu.tile.count))
