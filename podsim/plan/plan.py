"""The plan: stages with their costs, the weight update, and the memory they need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from podsim.cost.collective import Neighbours
from podsim.cost.model import CostModel
from podsim.plan.fit import Change, does_not_fit
from podsim.plan.memory import IpuMemory, memory_plan
from podsim.plan.options import TrainingOptions
from podsim.plan.placement import Stage
from podsim.plan.stage_cost import StageCost, stage_costs
from podsim.plan.update import UpdateCost, update_costs
from podsim.system import Software, System
from podsim.workload import Workload


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """What is to be planned.

    Attributes:
        system: The machines.
        software: The software stack.
        workload_of: The model for a micro-batch size.
        stages: Pipeline stages of one replica.
        options: How training is laid out.
        changes: What the scenario leaves open where the job does not fit.
    """

    system: System
    software: Software
    workload_of: Callable[[int], Workload]
    stages: tuple[Stage, ...]
    options: TrainingOptions
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided before time starts.

    Attributes:
        system: The machines.
        software: The software stack.
        workload: The model for one micro-batch.
        options: How training is laid out.
        stages: Pipeline stages with their costs.
        updates: The weight update of every IPU of a replica.
        memory: The tenants of every IPU of a replica.
    """

    system: System
    software: Software
    workload: Workload
    options: TrainingOptions
    stages: tuple[StageCost, ...]
    updates: tuple[UpdateCost, ...]
    memory: tuple[IpuMemory, ...]


def cost_model(job: TrainingJob) -> CostModel:
    """Costs of single operations on the tiles that compute."""
    ipu = job.system.machine.ipu
    return CostModel(
        replace(ipu, tile_count=ipu.tile_count - job.options.io_tiles),
        job.software.layout_change_cycles_per_byte,
        job.options.partials,
        Neighbours(job.software.collective_step_latency_s, job.system.machine.rung.bandwidth_bytes_per_s),
    )


def make_plan(job: TrainingJob, model: CostModel | None = None, *, advise: bool = True) -> Plan:
    """Cost every stage and check that a replica fits.

    Args:
        job: What is to be planned.
        model: Costs of single operations; a model that other plans have used knows many already.
        advise: Whether to find out what would help a job that does not fit.

    Raises:
        DoesNotFitError: An IPU's memory or its streaming memory is too small; names the largest
            tenants and the changes that would make it fit.
    """
    system, options, model = job.system, job.options, model or cost_model(job)
    workload, costs, memory = _costs_and_memory(job, model, options)
    if not all(ipu.fits for ipu in memory):
        raise does_not_fit(
            memory, options, job.changes, lambda changed: _costs_and_memory(job, model, changed)[2], advise=advise
        )
    threshold = job.software.sharding_threshold
    updates = model.once(
        workload,
        (job.stages, options, threshold),
        lambda: update_costs(job.stages, workload, model, options, threshold),
    )
    return Plan(system, job.software, workload, options, costs, updates, memory)


def job_memory(job: TrainingJob, model: CostModel | None = None) -> tuple[IpuMemory, ...]:
    """The tenants of every IPU of a replica, whether or not they fit."""
    return _costs_and_memory(job, model or cost_model(job), job.options)[2]


def _costs_and_memory(
    job: TrainingJob, model: CostModel, options: TrainingOptions
) -> tuple[Workload, tuple[StageCost, ...], tuple[IpuMemory, ...]]:
    workload = job.workload_of(options.micro_batch_size)
    recompute_last = job.software.recompute_last_segment
    costs = model.once(
        workload,
        (job.stages, options.available_memory_proportion, options.recompute, recompute_last),
        lambda: stage_costs(
            job.stages,
            workload,
            model,
            options.available_memory_proportion,
            recompute=options.recompute,
            recompute_last=recompute_last,
        ),
    )
    memory = memory_plan(
        costs,
        workload,
        model.ipu,
        options,
        job.software,
        job.system.machine.streaming.capacity_per_ipu_bytes,
    )
    return workload, costs, memory
