"""Forward passes: blocks cut into pipeline stages of even work, and what each IPU holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from podsim.cost.model import CostModel
from podsim.errors import NoPlanError
from podsim.plan.cuts import Piece, even_cuts
from podsim.plan.fit import Change, does_not_fit
from podsim.plan.memory import IpuMemory, Tenant, parameters_per_ipu
from podsim.plan.placement import Segment, Stage
from podsim.plan.stage_cost import BlockCost, StageCost, block_cost, stage_cost
from podsim.system import Software, System
from podsim.workload import Workload

_TIGHT_PROPORTION = 0.1


@dataclass(frozen=True, slots=True)
class ForwardOptions:
    """How forward passes are laid out.

    Attributes:
        pipeline_stages: IPUs of one replica, each with a part of the model.
        replication_factor: Copies of the model.
        replicas_per_domain: Copies that share a link domain.
        batches_per_call: Batches of each replica that one session call runs.
        prefetch_depth: Batches that wait ready in front of each replica.
        weight_bytes: Bytes per weight. [B]
        partials: Format of the partial results of matrix products.
        available_memory_proportion: Share of tile memory for temporaries of an operation.
    """

    pipeline_stages: int
    replication_factor: int
    replicas_per_domain: int
    batches_per_call: int
    prefetch_depth: int
    weight_bytes: int
    partials: str
    available_memory_proportion: float

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one copy."""
        return self.pipeline_stages

    @property
    def accumulation_factor(self) -> int:
        """What the feed brings for one session call."""
        return self.batches_per_call

    @property
    def io_tiles(self) -> int:
        """None: all tiles compute."""
        return 0


@dataclass(frozen=True, slots=True)
class ForwardJob:
    """What is to be planned.

    Attributes:
        system: The machines.
        software: The software stack.
        workload: The model for one batch.
        options: How forward passes are laid out.
    """

    system: System
    software: Software
    workload: Workload
    options: ForwardOptions


@dataclass(frozen=True, slots=True)
class ForwardPlan:
    """Everything that is decided before time starts.

    Attributes:
        system: The machines.
        software: The software stack.
        workload: The model for one batch.
        options: How forward passes are laid out.
        stages: Pipeline stages with their costs.
        memory: The tenants of every IPU of a replica.
    """

    system: System
    software: Software
    workload: Workload
    options: ForwardOptions
    stages: tuple[StageCost, ...]
    memory: tuple[IpuMemory, ...]

    @property
    def result_bytes(self) -> int:
        """What one batch sends back to the host. [B]"""
        return self.handed_over_bytes(len(self.stages) - 1)

    def handed_over_bytes(self, stage: int) -> int:
        """What a stage hands on for one batch. [B]"""
        block = self.workload.blocks[self.stages[stage].stage.last_block]
        return block.output_elements * self.workload.activation_bytes


def forward_cost_model(job: ForwardJob) -> CostModel:
    """Costs of single operations."""
    return CostModel(job.system.machine.ipu, job.software.layout_change_cycles_per_byte, job.options.partials)


def plan_forward(job: ForwardJob, model: CostModel | None = None, *, advise: bool = True) -> ForwardPlan:
    """Cost every block, cut them into stages and check that these fit.

    Args:
        job: What is to be planned.
        model: Costs of single operations; a model that other plans have used knows many already.
        advise: Whether to find out what would help a job that does not fit.

    Raises:
        NoPlanError: There are fewer blocks than stages.
        DoesNotFitError: A memory is too small; names the largest tenants and the changes that help.
    """
    costs: dict[float, Mapping[str, BlockCost]] = {}
    stages, memory = _stages_and_memory(job, job.options, costs, model)
    if not all(ipu.fits for ipu in memory):
        changes = _changes(job)
        raise does_not_fit(
            memory, job.options, changes, lambda changed: _stages_and_memory(job, changed, costs)[1], advise=advise
        )
    return ForwardPlan(job.system, job.software, job.workload, job.options, stages, memory)


def forward_memory(job: ForwardJob, known: dict[float, Mapping[str, BlockCost]]) -> tuple[IpuMemory, ...]:
    """The tenants of every IPU of a replica, whether or not they fit.

    Args:
        job: What is to be planned.
        known: Costs of the workload's blocks by memory proportion, shared by jobs that differ in stages alone.
    """
    return _stages_and_memory(job, job.options, known)[1]


def _changes(job: ForwardJob) -> Iterator[Change]:
    options = job.options
    if options.available_memory_proportion > _TIGHT_PROPORTION:
        change = {"available_memory_proportion": _TIGHT_PROPORTION}
        yield f"memory.available_memory_proportion: {_TIGHT_PROPORTION}", change
    count, most = 2 * options.pipeline_stages, min(job.system.domain_ipu_count, len(job.workload.order))
    while count <= most:
        replicas = max(1, min(options.replication_factor, job.system.ipu_count // count))
        text = f"parallelism.pipeline_stages: {count}"
        if replicas < options.replication_factor:
            text += f" with replication_factor: {replicas}"
        yield text, {"pipeline_stages": count, "replication_factor": replicas}
        count *= 2


def _stages_and_memory(
    job: ForwardJob,
    options: ForwardOptions,
    known: dict[float, Mapping[str, BlockCost]],
    model: CostModel | None = None,
) -> tuple[tuple[StageCost, ...], tuple[IpuMemory, ...]]:
    order, count, proportion = job.workload.order, options.pipeline_stages, options.available_memory_proportion
    if count > len(order):
        what = f"{count} pipeline stages for a model that can be cut into {len(order)} parts"
        raise NoPlanError(what, do=f"use at most {1 << len(order).bit_length() - 1} pipeline stages")
    model = model or forward_cost_model(job)
    if proportion not in known:
        known[proportion] = {name: block_cost(name, job.workload, model, proportion) for name in job.workload.blocks}
    sizes = _Sizes(job, options, known[proportion])
    cuts = even_cuts([sizes.piece(place) for place in range(len(order))], count, sizes.room_bytes)
    parts = [order[start:end] for start, end in zip((0, *cuts), (*cuts, len(order)), strict=True)]
    stages = tuple(_stage(index, names) for index, names in enumerate(parts))
    return tuple(_stage_cost(stage, known[proportion]) for stage in stages), sizes.memory(stages)


def _stage_cost(stage: Stage, blocks: Mapping[str, BlockCost]) -> StageCost:
    return stage_cost(stage, {name: blocks[name] for name, _ in stage.blocks})


def _stage(index: int, names: Sequence[str]) -> Stage:
    first, last = names[0], names[-1]
    label = first if len(names) == 1 else f"{first} to {last}"
    return Stage(index, index, tuple(Segment((name,)) for name in names), label)


class _Sizes:
    """What blocks and stages take of the memory of an IPU."""

    def __init__(self, job: ForwardJob, options: ForwardOptions, costs: Mapping[str, BlockCost]) -> None:
        self._job, self._options, self._costs = job, options, costs
        self._ipu = job.system.machine.ipu
        self._code_bytes = job.software.inference_code_bytes_per_tile * self._ipu.tile_count
        self.room_bytes = self._ipu.memory_bytes - self._code_bytes

    def piece(self, place: int) -> Piece:
        """A block of the chain: its time, what stays in memory, and what it takes while it runs."""
        block = self._job.workload.blocks[self._job.workload.order[place]]
        weights = sum(parameter.element_count for parameter in block.parameters) * self._options.weight_bytes
        cycles = self._costs[block.name].forward_account.cycles
        return Piece(cycles, weights, sum(self._running_bytes(place)))

    def memory(self, stages: Sequence[Stage]) -> tuple[IpuMemory, ...]:
        """The tenants of every IPU of a replica."""
        counts = parameters_per_ipu(stages, self._job.workload, len(stages))
        streaming = self._job.system.machine.streaming.capacity_per_ipu_bytes
        result, place = [], 0
        for stage, count in zip(stages, counts, strict=True):
            places = range(place, place := place + len(stage.segments))
            activations, temporaries = max(map(self._running_bytes, places), key=sum)
            tenants = (
                Tenant("weights", count * self._options.weight_bytes),
                Tenant("activations", activations),
                Tenant("temporaries", temporaries),
                Tenant("code", self._code_bytes),
            )
            result.append(IpuMemory(stage.ipu, tenants, self._ipu.memory_bytes, streaming))
        return tuple(result)

    def _running_bytes(self, place: int) -> tuple[int, int]:
        """A block's input with all that is alive while it runs, and temporaries of its operations. [B]"""
        workload = self._job.workload
        block = workload.blocks[workload.order[place]]
        before = workload.blocks[workload.order[place - 1]].output_elements if place else 0
        size = workload.activation_bytes
        inputs = before * size if place else workload.host_input_bytes
        temporaries = self._costs[block.name].temporary_bytes_per_tile * self._ipu.tile_count
        return inputs + block.live_elements * size, temporaries


def with_stages(job: ForwardJob, pipeline_stages: int, replication_factor: int) -> ForwardJob:
    """The same job divided in another way."""
    options = replace(job.options, pipeline_stages=pipeline_stages, replication_factor=replication_factor)
    return replace(job, options=options)
