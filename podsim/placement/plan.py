"""Plan of a run: stages with their costs, the weight update, and memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from podsim import memo
from podsim.errors import NoPlanError
from podsim.models import Workload
from podsim.placement.cuts import Cuts, cuts_at, stages_of
from podsim.placement.fit import does_not_fit, missing_method, with_missing_method
from podsim.placement.layout import Layout, Optimizer, PlanInput, Precision
from podsim.placement.memory import IpuMemory, fit_verdict, memory_plan
from podsim.placement.phases import PhaseCost, phase_costs, phased_memory
from podsim.placement.rings import RingLayout, halves
from podsim.placement.stage_cost import StageCost, UpdateCost, block_cost, stage_costs, update_costs
from podsim.scenario.hardware import System
from podsim.scenario.software import Software
from podsim.tiles.collective import Neighbours
from podsim.tiles.model import CostModel


@dataclass(frozen=True, slots=True)
class Plan:
    """Layout of a job with the costs of its parts: the input of the compiler."""

    system: System
    software: Software
    workload: Workload  # model for one micro-batch
    layout: Layout
    precision: Precision
    optimizer: Optimizer | None  # None without training
    stages: tuple[StageCost, ...]
    memory: tuple[IpuMemory, ...] = ()  # tenants of every IPU of a replica
    updates: tuple[UpdateCost, ...] = ()  # weight update of every IPU of a replica; empty without training
    phases: tuple[PhaseCost, ...] = ()  # segments in phased execution; otherwise empty

    def handed_over_bytes(self, stage: int) -> int:
        """Return the bytes that a stage sends to the next for one micro-batch. [B]"""
        reads = any(each.stage.reads_carried for each in self.stages[stage + 1 :])
        carried = self.workload.carried_elements if reads else 0
        return self.handed_back_bytes(stage) + carried * self.workload.activation_bytes

    def handed_back_bytes(self, stage: int) -> int:
        """Return the bytes of the gradients of a stage's result. [B]"""
        block = self.workload.blocks[self.stages[stage].stage.last_block]
        return block.output_elements * self.workload.activation_bytes


def cost_model(job: PlanInput) -> CostModel:
    """Return the cost model of single operations on the compute tiles."""
    machine, software = job.system.machine, job.software
    ipu = machine.ipu.with_wide_weight_loads if job.layout.wide_weight_loads else machine.ipu
    return CostModel(
        ipu.with_tiles(ipu.tile.count - job.layout.io_tiles),
        software.layout_change_cycles_per_byte,
        job.precision.partials,
        _neighbours(job),
    )


def _neighbours(job: PlanInput) -> Neighbours | None:
    """Return the replicas that sum activations together, or None if the model has no such sums."""
    count, system, software = job.workload.summed_replicas, job.system, job.software
    if not count:
        return None
    ring = RingLayout.around(system, software.collective_rings, range(min(count, system.domain_ipu_count)))
    small = halves(system, ring.routes, ring.members)
    return Neighbours(small, ring.steps, software.halved_bytes, system.machine.ipu.clock_hz)


def shared_cost_model(job: PlanInput) -> CostModel:
    """Return a cost model whose cache is shared by all runs of this process on the same chip and stack."""
    model = cost_model(job)
    return memo.COSTS.get(model.without_neighbours.key, lambda: model.without_neighbours).with_neighbours(
        model.neighbours
    )


def make_plan(job: PlanInput, model: CostModel | None = None, *, advise: bool = True) -> Plan:
    """Cost every stage and check that a replica fits; with `advise` the error says what would help."""
    model = model or cost_model(job)
    plan = _draft(job, model)
    if job.fit == "refuse" and fit_verdict(plan.memory) == "does not fit":

        def memory_of(layout: Layout) -> tuple[IpuMemory, ...]:
            changed = replace(job, layout=layout)
            return _draft(changed, model if layout.io_tiles == job.layout.io_tiles else cost_model(changed)).memory

        refused = does_not_fit(plan.memory, job.layout, job.changes, memory_of, job.others, advise=advise)
        raise refused if (lacks := missing_method(job)) is None else with_missing_method(refused, lacks)
    if job.optimizer is None or plan.phases:
        return plan
    updates = model.without_neighbours.memoize(
        plan.workload,
        (
            tuple(cost.stage for cost in plan.stages),
            job.layout,
            job.precision,
            job.optimizer,
            job.software.sharding_threshold,
            job.software.collectives_merged,
        ),
        lambda: update_costs([cost.stage for cost in plan.stages], plan.workload, model.without_neighbours, job),
    )
    return replace(plan, updates=updates)


def job_memory(job: PlanInput, model: CostModel | None = None) -> tuple[IpuMemory, ...]:
    """Return the tenants of every IPU of a replica, without a check that they fit."""
    return _draft(job, model or cost_model(job)).memory


def _draft(job: PlanInput, model: CostModel) -> Plan:
    """Return the plan without the weight update and without a check that it fits."""
    plan = plan_stages(job, model)
    ipu, machine, optimizer = model.ipu, job.system.machine, job.optimizer
    capacities = ipu.tile.count, ipu.tile.memory_bytes, machine.streaming_memory.capacity_per_ipu_bytes
    if job.layout.phased:
        trained = (job.optimizer, job.software.sharding_threshold, job.software.recompute_last_segment)
        phases = model.memoize(
            plan.workload,
            ("phases", plan.stages[0].stage, job.layout, job.precision, trained),
            lambda: phase_costs(plan.stages[0].stage, plan.workload, model, job),
        )
        return replace(plan, phases=phases, memory=phased_memory(phases, model, job))
    memory = model.splits.memoize(
        plan.workload,
        (
            "memory",
            tuple(cost.stage for cost in plan.stages),
            *(capacities, job.layout, job.precision, optimizer),
            *(job.code_bytes_per_tile, job.least_code_bytes_per_tile, job.software.sharding_threshold),
        ),
        lambda: memory_plan(job, plan.stages, ipu),
    )
    return replace(plan, memory=memory)


def plan_stages(job: PlanInput, model: CostModel) -> Plan:
    """Return the plan with the costs of its stages, without memory and weight update."""
    workload, layout = job.workload, job.layout
    cuts = layout.cuts or cuts_of_even_time(job, model)
    recompute_last = job.software.recompute_last_segment and not layout.phased
    costs = model.memoize(
        workload,
        (cuts, layout.available_memory_proportion, layout.recompute, recompute_last),
        lambda: stage_costs(
            stages_of(workload, cuts),
            workload,
            model,
            layout.available_memory_proportion,
            recompute=layout.recompute,
            recompute_last=recompute_last,
        ),
    )
    return Plan(job.system, job.software, workload, layout, job.precision, job.optimizer, costs)


_HALVINGS = 40


@dataclass(frozen=True, slots=True)
class UncutPart:
    """Smallest part of a model that is not divided between stages."""

    cycles: float
    kept_bytes: int  # memory in use all the time [B]
    running_bytes: int  # memory in use while it runs; the parts of a stage run one after the other [B]


def cuts_of_even_time(job: PlanInput, model: CostModel) -> Cuts:
    """Return cuts that give the stages of the forward pass equal times, one stage for each IPU."""
    workload, count, proportion = job.workload, job.layout.ipus_per_replica, job.layout.available_memory_proportion[0]
    if count > len(workload.order):
        what = f"{count} pipeline stages for a model that can be cut into {len(workload.order)} parts"
        raise NoPlanError(what, do=f"use at most {len(workload.order)} pipeline stages")
    costs = {name: block_cost(name, workload, model, proportion) for name in workload.blocks}

    def piece(name: str) -> UncutPart:
        stored_bytes, cost = job.precision.stored_bytes(workload.blocks[name].parameters), costs[name]
        return UncutPart(cost.forward_account.cycles, stored_bytes, cost.needs.forward.byte_count)

    pieces = [piece(name) for name in workload.order]
    held_free = round(job.layout.reserve * model.ipu.memory_bytes)
    room_bytes = model.ipu.memory_bytes - held_free - job.code_bytes_per_tile * model.ipu.tile.count
    return cuts_at((0, *even_cuts(pieces, count, room_bytes)), len(pieces))


def even_cuts(pieces: Sequence[UncutPart], stage_count: int, room_bytes: int) -> tuple[int, ...]:
    """Return the positions of cuts that minimise the time of the longest stage.

    If no cuts let every stage fit its memory, the cuts minimise the largest memory of a stage.

    >>> even_cuts([UncutPart(cycles, 0, 0) for cycles in (3, 1, 1, 3)], 2, 0)
    (2,)
    """
    total = list(accumulate(piece.cycles for piece in pieces))[-1]
    everything = sum(piece.kept_bytes + piece.running_bytes for piece in pieces)
    cuts = _least(lambda limit: _cut(pieces, stage_count, limit, room_bytes), total)
    if cuts is None:
        cuts = _least(lambda limit: _cut(pieces, stage_count, total, limit), everything)
    assert cuts is not None
    return tuple(cuts)


def _least(cuts_within: Callable[[float], list[int] | None], most: float) -> list[int] | None:
    """Return the cuts for the smallest limit that has cuts, to within 2^-40 of `most`, or None."""
    found, low, high = cuts_within(most), 0.0, most
    for _ in range(_HALVINGS if found is not None else 0):
        middle = (low + high) / 2
        cuts = cuts_within(middle)
        if cuts is None:
            low = middle
        else:
            found, high = cuts, middle
    return found


def _cut(pieces: Sequence[UncutPart], stage_count: int, cycles: float, room_bytes: float) -> list[int] | None:
    """Fill stage after stage up to the limits; None if more stages would be needed."""
    cuts: list[int] = []
    time, kept, running = 0.0, 0, 0
    for place, piece in enumerate(pieces):
        time, kept, running = time + piece.cycles, kept + piece.kept_bytes, max(running, piece.running_bytes)
        # Every later stage needs at least one part.
        each_its_own = len(pieces) - place == stage_count - len(cuts) - 1
        if place and (each_its_own or time > cycles or kept + running > room_bytes):
            cuts.append(place)
            time, kept, running = piece.cycles, piece.kept_bytes, piece.running_bytes
        if len(cuts) == stage_count or time > cycles or kept + running > room_bytes:
            return None
    return cuts
