"""Divisions of phased execution: every layer in turn on all IPUs of a replica, out of streaming memory.

A first bound takes products at the peak of the chip and all else for nothing; a closer one has the costs with all of
tile memory for temporaries. Then come loads and stores, the largest share that fits, and the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from podsim.models import Block, Workload
from podsim.models.op import Conv, MatMul, Op
from podsim.models.transformer.shape import Shards
from podsim.placement.cuts import stages_of
from podsim.placement.job import training_job
from podsim.placement.layout import Layout, PlanInput
from podsim.placement.memory import IpuMemory
from podsim.placement.phases import phase_costs, phased_memory
from podsim.placement.plan import Plan, job_memory, make_plan, shared_cost_model
from podsim.placement.stage_cost import BlockCost, StageCost, stage_cost
from podsim.program.compile import replicas_of
from podsim.program.feed import Feed
from podsim.program.host import training_call
from podsim.program.passes import shard_rings
from podsim.program.phases import Phases
from podsim.program.task import Step
from podsim.program.update import Rings, update_phases
from podsim.scenario import TrainingScenario
from podsim.scenario.transformer_training import MemorySpec, ParallelismSpec
from podsim.scenario.wording import counted
from podsim.search.best_first import Found, Lead
from podsim.search.bounds import added_up_s, alone_ps, call_s, rings_of_first
from podsim.search.chain import bare_chain
from podsim.search.dimensions import (
    IO_TILES,
    PARTS,
    SHARE,
    STREAMED,
    TILES,
    Pins,
    attention_parts,
    batch_of,
    chosen,
    in_phases,
    io_tiles_near,
    micro_batches,
    with_key,
)
from podsim.tiles.account import Account
from podsim.tiles.model import CostModel
from podsim.units import ps_to_seconds

_PROPORTIONS = (
    *(0.05, 0.06, 0.07, 0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2),
    *(0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.8, 1.0),
)


_STEPS, _DIGITS = 4, 3
_Value = TypeVar("_Value")


def phased_s(plan: Plan) -> float:
    """Phases, weight update and call, as long as the first IPU takes for them while nobody is in its way. [s]

    I/O tiles that overlap and the tiles that compute wait for one another at the end of each phase, and go on together.
    """
    replicas = replicas_of(plan)
    phases = Phases(plan, replicas, 0, Feed(plan, replicas), trains=True, in_order=False, lane_count=1)
    ahead, groups = phases.groups()
    update = tuple(update_phases(plan, replicas, 0, Rings(plan, replicas), lane_count=1))
    busy = [_lane_ps(each.steps) for each in ahead]
    for group in groups:
        busy = [max(pair) for pair in zip(busy, (_lane_ps(phase.steps) for phase in group.phases), strict=True)]
    total_ps = sum(each.count * time_ps for each, time_ps in zip(ahead, busy, strict=True))
    total_ps += sum(each.count * _lane_ps(each.steps) for each in update)
    return ps_to_seconds(total_ps + training_call(plan).time_ps)


def computed_s(plan: Plan) -> float:
    """Return the time of a weight update with free loads and stores: passes, shard sums and host call. [s]"""
    cycles = sum(phase.segment.count * phase.cost.cycles for phase in plan.phases)
    segments, layout = [phase.segment for phase in plan.phases], plan.layout
    redone = segments[:-1] if layout.recompute else []
    rings = shard_rings(plan, range(layout.tensor_parallel))
    once_s = cycles / plan.system.machine.ipu.clock_hz
    once_s += added_up_s(rings, plan.workload, (*segments, *redone), segments)
    return layout.accumulation_factor * once_s + ps_to_seconds(training_call(plan).time_ps)


def _lane_ps(steps: Mapping[str, tuple[Step, ...]]) -> int:
    (mine,) = steps.values()
    return sum(map(alone_ps, mine))


class PhasedSearch:
    """Divisions of one scenario in phased execution. `reserve`: share of In-Processor-Memory that is left free."""

    def __init__(self, spec: TrainingScenario, pins: Pins, *, reserve: float) -> None:
        self._spec, self._pins, self._reserve = spec, pins, reserve
        self._models: dict[int, CostModel] = {}
        self._samples: dict[tuple[Shards, bool], float] = {}
        self._least: dict[tuple[Shards, bool, int], float] = {}  # of ways with their replicas [s]
        self._streaming: dict[tuple[Shards, Layout], float] = {}  # with all loads and stores [s]
        self._workloads: dict[Shards, Callable[..., Workload]] = {}
        self._known: dict[tuple[object, ...], tuple[object, Any]] = {}
        self.considered_count = 0  # divisions that were looked at
        self.misfits: list[TrainingScenario] = []  # the smallest micro-batch of each way that does not fit

    def leaving(self, reserve: float) -> PhasedSearch:
        """Return the same search with another share of memory left free; costs stay known."""
        other = copy(self)
        other._reserve, other.misfits, other.considered_count = reserve, [], 0
        return other

    def _remembered(self, what: object, spec: TrainingScenario, make: Callable[[], _Value]) -> _Value:
        """Return a value of a layout that does not depend on the memory left free; `make` computes it once."""
        # Keeping the scenario keeps its id unique.
        key = what, id(spec)
        if key not in self._known:
            self._known[key] = spec, make()
        value: _Value = self._known[key][1]
        return value

    def leads(self) -> Iterator[Lead[Found]]:
        """Yield a lead for every way to share and recompute layers and every number of replicas."""
        for way in self._remembered("ways", self._spec, lambda: list(in_phases(self._spec, self._pins))):
            sizes = self._remembered("sizes", way, partial(_listed, micro_batches, way, self._pins))
            self.considered_count += len(sizes) * len(self._streamed_ways(way)) * len(self._tile_counts(way))
            if sizes:
                yield Lead(self._least_s(way, sizes[-1]), partial(self._of_way, sizes), name=_phases_text(way))

    def near(self, found: Found) -> Iterator[Lead[Found]]:
        """Layouts next to one that was found: with shares up to the next larger one, or other numbers of I/O tiles."""
        spec, share = found.written(), found.plan.layout.available_memory_proportion[0]
        larger = [each for each in self._shares if each > share]
        if share in self._shares and larger:
            for part in range(1, _STEPS):
                between = with_key(spec, SHARE, round(share + (larger[0] - share) * part / _STEPS, _DIGITS))
                job = replace(self._job(between), fit="warn")
                plan = make_plan(job, self._model(job))
                self.considered_count += 1
                if self._leaves_enough(plan.memory):
                    yield Found(plan, phased_s(plan), partial(_written, between, plan.layout)).lead()
        if self._pins.pinned(IO_TILES) is None:
            for count in io_tiles_near(spec):
                self.considered_count += 1
                yield Lead(0.0, partial(self._costed, with_key(spec, IO_TILES, count)))

    def _least_s(self, way: TrainingScenario, largest: TrainingScenario) -> float:
        """Products at the peak of the chip, and the bytes that shards add up, for all samples of a replica. [s]"""
        key = way.parallelism.shards, way.parallelism.recomputes(way.software), way.parallelism.replication_factor
        if key not in self._least:
            self._least[key] = self._flop_s(way, largest)
        return self._least[key]

    def _flop_s(self, way: TrainingScenario, largest: TrainingScenario) -> float:
        job, many = self._job(way), self._job(largest)
        one, several, size = job.workload, many.workload, many.layout.micro_batch_size
        if several.training_flop != size * one.training_flop:
            return 0.0  # one sample does not stand for all
        kind = way.parallelism.shards, job.layout.recompute
        if kind not in self._samples:
            whole = self._bare_stage(job)
            rings = rings_of_first(job, job.workload, len(whole.stage.ipus))
            ahead = (*whole.stage.segments, *whole.recomputed)
            moved_s = added_up_s(rings, job.workload, ahead, whole.stage.segments, latencies=False)
            self._samples[kind] = whole.cycles / job.system.machine.ipu.clock_hz + moved_s
        return self._samples[kind] * batch_of(way) / job.layout.replication_factor + call_s(job)

    def _of_way(self, sizes: Sequence[TrainingScenario]) -> Iterator[Lead[Found]]:
        """Yield every micro-batch and number of I/O tiles that would fit if operations needed no temporaries."""
        for spec in sizes:
            if self._remembered("refused", spec, partial(_has_findings, spec)):
                continue
            fitting = [each for each in self._tiled(spec) if self._fits_bare(each)]
            if not fitting:
                # More samples at once need no less memory.
                self.misfits.append(spec)
                break
            for each in fitting:
                yield Lead(
                    self._remembered("bare time", each, partial(self._bare_s, each)), partial(self._costed, each)
                )

    def _streamed_ways(self, spec: TrainingScenario) -> list[TrainingScenario]:
        """Return the scenario with every way to load and store."""
        return self._remembered("streamed", spec, partial(_listed, chosen, spec, STREAMED, self._pins))

    def _leanest_way(self, spec: TrainingScenario) -> TrainingScenario:
        """Return the way to load and store with the least memory: no batch serialisation, the most sharding."""

        def lean(way: TrainingScenario) -> tuple[bool, bool, bool]:
            """Return what saves memory of a way."""
            parallelism, memory = way.parallelism, way.memory
            assert isinstance(parallelism, ParallelismSpec)
            assert isinstance(memory, MemorySpec)
            shared = memory.state.replicated_tensor_sharding, memory.sharded_activations
            return (not parallelism.batch_serialisation, *shared)

        return max(self._streamed_ways(spec), key=lean)

    def _tile_counts(self, spec: TrainingScenario) -> list[int]:
        return list(self._pins.values(TILES, spec))

    def _tiled(self, spec: TrainingScenario) -> list[TrainingScenario]:
        return self._remembered(
            "tiled", spec, lambda: [with_key(spec, IO_TILES, count) for count in self._tile_counts(spec)]
        )

    def _in_parts(self, spec: TrainingScenario) -> list[TrainingScenario]:
        """Return the layout with each number of attention parts to try, the smallest first."""
        given = self._pins.pinned(PARTS)
        counts = attention_parts(spec) if given is None else [given]
        return self._remembered("parts", spec, lambda: [with_key(spec, PARTS, count) for count in counts])

    def _fits_bare(self, spec: TrainingScenario) -> bool:
        """Return True if some way to load and store fits when operations need no temporaries."""
        parts = self._in_parts(self._leanest_way(spec))
        memories = (
            self._remembered("bare memory", each, partial(self._bare_memory, each)) for each in (parts[0], parts[-1])
        )
        return any(map(self._leaves_enough, memories))

    def _bare_memory(self, spec: TrainingScenario) -> tuple[IpuMemory, ...]:
        return self._bare_plan(self._job(spec)).memory

    def _bare_s(self, spec: TrainingScenario) -> float:
        return computed_s(self._bare_plan(self._job(spec)))

    def _leaves_enough(self, memory: tuple[IpuMemory, ...]) -> bool:
        """Return True if all tenants fit, and leave the reserve free."""
        return all(
            ipu.fits and ipu.used_bytes() + round(self._reserve * ipu.capacity_bytes) <= ipu.capacity_bytes
            for ipu in memory
        )

    def fits(self) -> bool:
        """Return True if any division fits with the smallest micro-batches."""
        for way in in_phases(self._spec, self._pins):
            spec = next(micro_batches(way, self._pins), None)
            if spec is None or any(spec.division_findings()):
                continue
            for each in filter(self._fits_bare, self._tiled(spec)):
                if self._has_room(self._in_parts(self._leanest_way(each))[-1]):
                    return True
        return False

    def lean_misfits(self) -> Iterator[tuple[TrainingScenario, tuple[IpuMemory, ...]]]:
        """Divisions that do not fit, with the fewest temporaries, and what their IPUs hold."""
        for spec in self.misfits:
            job = self._with_share(self._job(spec), self._shares[0]).laid_out(reserve=self._reserve)
            yield _written(spec, job.layout), job_memory(job, self._model(job))

    def _job(self, spec: TrainingScenario) -> PlanInput:
        sharing = spec.parallelism.shards
        job = training_job(spec, self._workloads.get(sharing))
        # Models stay as they are, so that what is known of their costs is found again.
        self._workloads[sharing] = job.workload_of
        return replace(job, changes=(), others=()).laid_out(reserve=0.0)

    @property
    def _shares(self) -> tuple[float, ...]:
        """Shares of memory for temporaries that may be tried, the smallest first."""
        given = self._pins.pinned(SHARE)
        return _PROPORTIONS if given is None else (given,)

    def _with_share(self, job: PlanInput, share: float) -> PlanInput:
        return job.laid_out(available_memory_proportion=(share,) * job.layout.ipus_per_replica)

    def _bare_plan(self, job: PlanInput) -> Plan:
        """Return the plan with products at the peak of the chip and other operations free of time and memory."""
        workload, model, whole = job.workload, self._model(job), self._bare_stage(job)
        phases = phase_costs(whole.stage, workload, model, job, whole.blocks)
        memory = phased_memory(phases, model, job)
        fixed = job.system, job.software, workload, job.layout, job.precision, job.optimizer
        return Plan(*fixed, (whole,), memory, phases=phases)

    def _bare_stage(self, job: PlanInput) -> StageCost:
        workload, layout, model = job.workload, job.layout, self._model(job)
        assert layout.cuts is not None
        (stage,) = stages_of(workload, layout.cuts)
        blocks = model.memoize(workload, ("bare blocks",), lambda: _bare_blocks(workload, model))
        return stage_cost(stage, blocks, stage.segments[:-1] if layout.recompute else ())

    def _model(self, job: PlanInput) -> CostModel:
        """Costs of operations, which I/O tiles alone tell apart."""
        tiles = job.layout.io_tiles
        if tiles not in self._models:
            self._models[tiles] = shared_cost_model(job)
        return self._models[tiles]

    def _costed(self, spec: TrainingScenario) -> Iterator[Lead[Found]]:
        """Yield leads bounded by the times of all operations, with the largest share and free loads and stores.

        An attention goes through its queries in more parts only where fewer leave it too little room.
        """
        needed: int | None = None
        for each in self._in_parts(spec):
            bound_s, memory = self._remembered("roomy", each, partial(self._roomy, each))
            needs = max(ipu.used_bytes() for ipu in memory)
            if needed is not None and needs >= needed:
                return
            yield Lead(bound_s, partial(self._streamed, each))
            if self._leaves_enough(memory):
                return
            needed = needs

    def _roomy(self, spec: TrainingScenario) -> tuple[float, tuple[IpuMemory, ...]]:
        """Return time and memory with the largest share, with free loads and stores. [s]"""
        plan = self._plan(spec, self._shares[-1])
        return computed_s(plan), plan.memory

    def _plan(self, spec: TrainingScenario, share: float) -> Plan:
        """Return the plan with a share for temporaries, whether or not it fits."""
        job = self._with_share(replace(self._job(spec), fit="warn"), share)
        return make_plan(job, self._model(job))

    def _streamed(self, spec: TrainingScenario) -> Iterator[Lead[Found]]:
        """Yield a lead for every way to load and store, bounded by a time that includes loads and stores."""
        for each in self._streamed_ways(spec):
            bound_s = self._remembered("time", each, partial(self._streamed_s, each))
            yield Lead(bound_s, partial(self._planned, each, len(self._shares) - 1))

    def _streamed_s(self, spec: TrainingScenario) -> float:
        """Return the time with the largest share, loads and stores included. [s]"""
        job = self._with_share(replace(self._job(spec), fit="warn"), self._shares[-1])
        key = spec.parallelism.shards, job.layout
        if key not in self._streaming:
            self._streaming[key] = phased_s(make_plan(job, self._model(job)))
        return self._streaming[key]

    def _planned(self, spec: TrainingScenario, place: int) -> Iterator[Lead[Found]]:
        """Yield the plan with a share for temporaries, or a lead to the next smaller share if it does not fit.

        Products that no plan leaves so little room get more, so that a smaller share may be faster than a larger one.
        Smaller shares that still have room for all temporaries of the plan give the same plan, and are left out.
        """
        plan = self._remembered(place, spec, partial(self._plan, spec, self._shares[place]))
        if self._leaves_enough(plan.memory):
            yield Found(
                plan,
                self._remembered(("time", place), spec, lambda: phased_s(plan)),
                partial(_written, spec, plan.layout),
            ).lead()
            return
        blocks = [block for phase in plan.phases for block in phase.cost.blocks.values()]
        largest_bytes = max(block.temporary_bytes_per_tile for block in blocks)
        tile_bytes = plan.system.machine.ipu.tile.memory_bytes
        smaller = [each for each in range(place) if self._shares[each] * tile_bytes < largest_bytes]
        if smaller:
            yield Lead(0.0, partial(self._planned, spec, smaller[-1]))
        else:
            self.misfits.append(spec)

    def _has_room(self, spec: TrainingScenario) -> bool:
        """Return True if a layout fits with some share for temporaries; a larger share may need less memory."""
        return any(self._leaves_enough(self._plan(spec, share).memory) for share in reversed(self._shares))


def _written(spec: TrainingScenario, layout: Layout) -> TrainingScenario:
    return with_key(spec, SHARE, layout.available_memory_proportion[0])  # type: ignore[no-any-return]


def _has_findings(spec: TrainingScenario) -> bool:
    return any(spec.division_findings())


def _listed(values: Callable[..., Iterable[_Value]], *arguments: object) -> list[_Value]:
    return list(values(*arguments))


def _bare_blocks(workload: Workload, model: CostModel) -> dict[str, BlockCost]:
    """Blocks whose products run at the peak, and whose operations need no temporaries."""
    needs = bare_chain(workload).needs[0]

    def account(ops: Iterable[Op]) -> Account:
        flop_s = (op.flop / model.ipu.peak_flop_per_s(op.dtype) for op in ops if isinstance(op, Conv | MatMul))
        return Account(matmul=sum(flop_s) * model.ipu.clock_hz)

    def bare(block: Block) -> BlockCost:
        ahead, back = account(block.forward), account(block.backward)
        return BlockCost(block.name, (), (), ahead, ahead, back, 0, needs[block.name])

    return {name: bare(block) for name, block in workload.blocks.items()}


def _phases_text(way: TrainingScenario) -> str:
    return f"phases over {counted(way.parallelism.ipus_per_replica, 'IPU')}"
