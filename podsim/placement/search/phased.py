"""Divisions of phased execution: every layer in turn on all IPUs of a replica, out of streaming memory.

A first bound takes products at the peak of the chip and all else for nothing; a closer one has the costs with all of
tile memory for temporaries. Then comes the largest share that fits, and the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from podsim.models import Block, Workload
from podsim.models.op import Conv, MatMul, Op
from podsim.models.transformer.shape import Shards
from podsim.placement.cuts import stages_of
from podsim.placement.job import training_job
from podsim.placement.layout import Layout, PlanInput
from podsim.placement.memory import IpuMemory
from podsim.placement.phases import phase_costs, phased_memory
from podsim.placement.plan import Plan, job_memory, make_plan, shared_cost_model
from podsim.placement.search.best_first import Found, Lead
from podsim.placement.search.bounds import added_up_s, alone_ps, call_s, rings_of_first
from podsim.placement.search.chain import bare_chain
from podsim.placement.search.dimensions import SHARE, Pins, batch_of, in_phases, micro_batches, with_key
from podsim.placement.stage_cost import BlockCost, StageCost, stage_cost
from podsim.program.compile import replicas_of
from podsim.program.feed import Feed
from podsim.program.host import training_call
from podsim.program.passes import shard_rings
from podsim.program.phases import Phases
from podsim.program.task import Step
from podsim.program.update import Rings, update_phases
from podsim.scenario import TrainingScenario
from podsim.scenario.wording import counted
from podsim.tiles.account import Account
from podsim.tiles.model import CostModel
from podsim.units import ps_to_seconds

_PROPORTIONS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 1.0)
_TIGHT_PROPORTIONS = (0.05,)


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
    """All passes of a weight update with what shards add up, and its call, as if nothing were loaded or stored. [s]"""
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
    """Divisions of one scenario in phased execution."""

    def __init__(self, spec: TrainingScenario, pins: Pins, *, tight: bool = False) -> None:
        """`tight`: operations may have hardly any memory for temporaries, and nothing is left free."""
        self._spec, self._pins, self._tight = spec, pins, tight
        self._models: dict[int, CostModel] = {}
        self._samples: dict[tuple[Shards, bool, int], float] = {}
        self._workloads: dict[Shards, Callable[..., Workload]] = {}
        self.considered_count = 0  # divisions that were looked at
        self.misfits: list[TrainingScenario] = []  # the smallest micro-batch of each way that does not fit

    def leads(self) -> Iterator[Lead[Found]]:
        """Every way, whatever its micro-batches."""
        for way in in_phases(self._spec, self._pins):
            sizes = list(micro_batches(way, self._pins))
            self.considered_count += len(sizes)
            if sizes:
                yield Lead(self._least_s(way, sizes[-1]), partial(self._of_way, sizes), name=_words(way))

    def _least_s(self, way: TrainingScenario, largest: TrainingScenario) -> float:
        """Products at the peak of the chip, and the bytes that shards add up, for all samples of a replica. [s]"""
        job, many = self._job(way), self._job(largest)
        one, several, size = job.workload, many.workload, many.layout.micro_batch_size
        if several.training_flop != size * one.training_flop:
            return 0.0  # one sample does not stand for all
        kind = way.parallelism.shards, job.layout.recompute, job.layout.io_tiles
        if kind not in self._samples:
            whole = self._bare_stage(job)
            rings = rings_of_first(job, job.workload, len(whole.stage.ipus))
            ahead = (*whole.stage.segments, *whole.recomputed)
            moved_s = added_up_s(rings, job.workload, ahead, whole.stage.segments, latencies=False)
            self._samples[kind] = whole.cycles / job.system.machine.ipu.clock_hz + moved_s
        return self._samples[kind] * batch_of(way) / job.layout.replication_factor + call_s(job)

    def _of_way(self, sizes: Sequence[TrainingScenario]) -> Iterator[Lead[Found]]:
        """Every micro-batch that would fit if operations needed no temporaries."""
        for spec in sizes:
            if any(spec.division_findings()):
                continue
            if not _fits(self._bare_plan(self._job(spec)).memory):
                # More samples at once need no less memory.
                self.misfits.append(spec)
                break
            yield Lead(0.0, partial(self._costed, spec))

    def fits(self) -> bool:
        """Whether any division fits, with the smallest micro-batches."""
        for way in in_phases(self._spec, self._pins):
            spec = next(micro_batches(way, self._pins), None)
            if spec is None or any(spec.division_findings()):
                continue
            if _fits(self._bare_plan(self._job(spec)).memory) and self._roomiest(spec) is not None:
                return True
        return False

    def lean_misfits(self) -> Iterator[tuple[TrainingScenario, tuple[IpuMemory, ...]]]:
        """Divisions that do not fit, with the fewest temporaries, and what their IPUs hold."""
        for spec in self.misfits:
            job = self._with_share(self._job(spec), self._shares[0])
            yield _written(spec, job.layout), job_memory(job, self._model(job))

    def _job(self, spec: TrainingScenario) -> PlanInput:
        given, sharing = spec.memory.reserve, spec.parallelism.shards
        job = training_job(spec, self._workloads.get(sharing))
        # Models stay as they are, so that what is known of their costs is found again.
        self._workloads[sharing] = job.workload_of
        margin = given if self._tight or given is not None else job.software.memory_reserve
        return replace(job, changes=(), others=()).laid_out(reserve=margin or 0.0)

    @property
    def _shares(self) -> tuple[float, ...]:
        """Shares of memory for temporaries that may be tried, the smallest first."""
        given = self._pins.of(SHARE)
        if given is not None:
            return (given,)
        return (*_TIGHT_PROPORTIONS, *_PROPORTIONS) if self._tight else _PROPORTIONS

    def _with_share(self, job: PlanInput, share: float) -> PlanInput:
        return job.laid_out(available_memory_proportion=(share,) * job.layout.ipus_per_replica)

    def _bare_plan(self, job: PlanInput) -> Plan:
        """The plan as if products ran at the peak of the chip and all other operations in no time and memory."""
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
        """With the times of all operations, given all the memory they want, as if nothing were loaded or stored."""
        job = self._with_share(replace(self._job(spec), fit="warn"), self._shares[-1])
        plan = make_plan(job, self._model(job))
        yield Lead(computed_s(plan), partial(self._streamed, spec, plan))

    def _streamed(self, spec: TrainingScenario, plan: Plan) -> Iterator[Lead[Found]]:
        """With all that is loaded and stored."""
        yield Lead(phased_s(plan), partial(self._planned, spec))

    def _planned(self, spec: TrainingScenario) -> Iterator[Lead[Found]]:
        """With the largest share for temporaries that fits."""
        plan = self._roomiest(spec)
        if plan is None:
            self.misfits.append(spec)
            return
        yield Found(plan, phased_s(plan), partial(_written, spec, plan.layout)).lead()

    def _roomiest(self, spec: TrainingScenario) -> Plan | None:
        """The plan with the largest share for temporaries that fits: an operation that has more is no slower."""
        for share in reversed(self._shares):
            job = self._with_share(replace(self._job(spec), fit="warn"), share)
            plan = make_plan(job, self._model(job))
            if _fits(plan.memory):
                return plan
        return None


def _written(spec: TrainingScenario, layout: Layout) -> TrainingScenario:
    return with_key(spec, SHARE, layout.available_memory_proportion[0])  # type: ignore[no-any-return]


def _fits(memory: tuple[IpuMemory, ...]) -> bool:
    return all(ipu.fits for ipu in memory)


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


def _words(way: TrainingScenario) -> str:
    return f"phases over {counted(way.parallelism.ipus_per_replica, 'IPU')}"
