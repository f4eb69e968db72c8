"""The search: every layout that a batch allows, cut as well as can be, the fastest simulated.

Bounds come first: no division takes less time than its computation spread evenly over the IPUs. Layouts
whose bound is above what has been found are not looked at. What is left is cut by dynamic programming,
planned, and ranked by the time of its pipeline and of its update; the first few go through the engine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, pairwise

from podsim.errors import DoesNotFitError, InfeasibleError
from podsim.placement.fit import HELPS, lacking, misfit_text, missing_method
from podsim.placement.job import training_job
from podsim.placement.layout import Layout
from podsim.placement.memory import IpuMemory
from podsim.placement.plan import Plan, job_memory, make_plan, shared_cost_model
from podsim.placement.schedule import PipelineSchedule, Round
from podsim.placement.search.chain import CostedChain, Slices, bare_chain, chain_of
from podsim.placement.search.prices import Prices, price
from podsim.placement.search.space import LayoutSpace
from podsim.placement.topology import Routes
from podsim.program.compile import replicas_of
from podsim.program.feed import Feed
from podsim.program.host import training_call
from podsim.program.passes import INTER_IPU
from podsim.program.task import Exchange, Step, Work
from podsim.program.transfers import link_transfer
from podsim.program.update import Rings, update_phases
from podsim.scenario import LoadedScenario, TrainingScenario
from podsim.scenario.pods import larger_pods
from podsim.scenario.wording import counted
from podsim.units import ps_to_seconds


def least_s(plan: Plan) -> float:
    """Pipeline and update, or what host servers and links take to bring the data, whichever is longer. [s]"""
    fed_ps = Feed(plan, replicas_of(plan)).interval_ps() * plan.layout.accumulation_factor
    return max(pipeline_s(plan) + hand_over_s(plan) + update_s(plan), ps_to_seconds(fed_ps))


def hand_over_s(plan: Plan) -> float:
    """Every micro-batch crosses the slowest boundary between stages, once forward and once backward. [s]"""
    # Both may be on their way in one cycle, unless all forward passes of it end first, or it has only one of the two.
    rounds = 2 if plan.layout.schedule in ("grouped", "sequential") else 1
    slowest_ps, routes = 0, Routes(plan.system)
    for index, (cost, following) in enumerate(pairwise(plan.stages)):
        source, target = cost.stage.ipus.start, following.stage.ipus.start
        if source != target:
            byte_count = plan.handed_over_bytes(index)
            sent = link_transfer(routes, "activations", INTER_IPU, source, target, byte_count)
            slowest_ps = max(slowest_ps, _step_ps(Exchange((sent,))))
    return ps_to_seconds(rounds * plan.layout.accumulation_factor * slowest_ps)


def pipeline_s(plan: Plan) -> float:
    """All pipeline cycles of a weight update, transfers between stages apart. [s]"""
    passes = [
        (cost.stage.ipus.start, cost.forward.cycles, cost.recompute.cycles + cost.backward.cycles)
        for cost in plan.stages
    ]
    cycles = pipeline_cycles(passes, plan.layout.accumulation_factor, plan.layout.pipeline())
    return cycles / plan.system.machine.ipu.clock_hz


def pipeline_cycles(
    passes: list[tuple[int, float, float]], accumulation_factor: int, schedule: PipelineSchedule
) -> float:
    """Computation of all pipeline cycles of a weight update. [cycles]

    Args:
        passes: IPU, forward and backward cycles of each stage.
        accumulation_factor: Micro-batches.
        schedule: When the stages run them.

    >>> passes = [(0, 1.0, 2.0), (1, 1.0, 2.0)]
    >>> pipeline_cycles(passes, 4, PipelineSchedule.of("lock_step", 2))  # 1, 3; 2 x 3; 3, 2
    15.0
    >>> pipeline_cycles(passes, 4, PipelineSchedule.of("interleaved", 2))  # 2 x 1; 6 x 2; 2 x 2
    18.0
    >>> pipeline_cycles(passes, 4, PipelineSchedule.of("sequential", 2))  # 4 x (1, 3, 2)
    24.0
    """
    return sum(
        span.count * sum(_slowest(passes, each) for each in schedule.rounds(span.cycle, accumulation_factor))
        for span in schedule.spans(accumulation_factor)
    )


def _slowest(passes: list[tuple[int, float, float]], active: Round) -> float:
    """The IPU with the most to do in a round. [cycles]"""
    busy: dict[int, float] = {}
    for which, stages in enumerate(active, 1):
        for stage in stages:
            ipu = passes[stage][0]
            busy[ipu] = busy.get(ipu, 0.0) + passes[stage][which]
    return max(busy.values(), default=0.0)


def update_s(plan: Plan) -> float:
    """Gradients, optimizer, weights and the call back to the host, each transfer on links of its own. [s]"""
    total_ps = training_call(plan).time_ps
    replicas = replicas_of(plan)
    for phase in update_phases(plan, replicas, 0, Rings(plan, replicas)):
        total_ps += phase.count * max(sum(map(_step_ps, steps)) for steps in phase.steps.values())
    return ps_to_seconds(total_ps)


def _step_ps(step: Step) -> int:
    match step:
        case Work():
            return sum(duration for _, duration in step.parts)
        case Exchange():
            return max(each.latency_ps + max((time for _, time in each.channels), default=0) for each in step.transfers)
    return 0


_PROPORTIONS = (0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
_TIGHT_PROPORTIONS = (0.05, 0.1)
_HOPELESS = 1.02


@dataclass(frozen=True, slots=True)
class Found:
    """A division that fits.

    Attributes:
        plan: Its plan.
        estimate_s: All of a weight update, without the engine; never more than with it. [s]
        update_s: What of it follows the pipeline cycles. [s]
    """

    plan: Plan
    estimate_s: float
    update_s: float


class Search:
    """Divisions of one scenario.

    Attributes:
        found: Divisions that fit, for each number of IPUs, replicas, samples and kind of recomputation.
        misfits: The smallest micro-batch that does not fit, by group.
        considered_count: Layouts that were looked at.
    """

    def __init__(
        self, loaded: LoadedScenario, spec: TrainingScenario, *, pinned: bool = True, tight: bool = False
    ) -> None:
        """Read what is pinned.

        Args:
            loaded: What was written.
            spec: The scenario, perhaps on another pod or with another batch.
            pinned: Whether choices that were written are kept.
            tight: Whether operations get hardly any memory for temporaries.
        """
        workload_of = training_job(spec).workload_of
        self.space = LayoutSpace(loaded, spec, workload_of(1), pinned=pinned)
        whole = training_job(self.space.whole(), workload_of)
        # What fits only with hardly any temporaries is not to be refused for the sake of a margin.
        margin = spec.memory.reserve if tight or spec.memory.reserve is not None else whole.software.memory_reserve
        self._job = replace(whole, changes=()).laid_out(reserve=margin or 0.0)
        self._model = shared_cost_model(self._job)
        self._proportions = tuple(set(self.space.proportions)) or (_TIGHT_PROPORTIONS if tight else _PROPORTIONS)
        self.found: dict[tuple[int, ...], Found] = {}
        self.misfits: dict[Layout, Layout] = {}
        self._known: set[int] = set()
        self.considered_count = 0
        self._chain, self._roomy_chain = lru_cache(self._make_chain), lru_cache(self._make_roomy_chain)
        self._slices = lru_cache(self._make_slices)

    def groups(self) -> list[Layout]:
        """Layouts with a micro-batch of one sample and without cuts, the most promising first."""
        return list(self.space.groups(self._job.layout))

    def explore(self, group: Layout) -> None:
        """Try the micro-batches of a group, the largest first, except those that cannot fit or cannot win."""
        settings = list(self.space.micro_batches(group))
        fitting = bisect_left(settings, True, key=lambda setting: not self._fits_bare(setting))
        self.considered_count += len(settings)
        if fitting < len(settings):
            self.misfits[group] = settings[fitting]
        # The update is nearly the same for any micro-batch, so that of the one before it counts too.
        update_s = 0.0
        for setting in reversed(settings[:fitting]):
            try:
                found = self._evaluate(setting) if self._may_win(setting, update_s) else None
            except InfeasibleError:
                self.misfits[group] = setting
                continue
            if found is not None:
                update_s = found.update_s
                self._keep(found)

    def _keep(self, found: Found) -> None:
        """Keep the fastest of the divisions that differ in the place of optimizer state only."""
        layout = found.plan.layout
        key = (layout.ipus_per_replica, layout.replication_factor, layout.micro_batch_size, layout.recompute)
        if key not in self.found or found.estimate_s < self.found[key].estimate_s:
            self.found[key] = found

    def fits(self) -> bool:
        """Whether any division fits, with the smallest micro-batches."""
        return any(self._fits_with(setting) for group in self.groups() for setting in self._smallest(group))

    def _smallest(self, group: Layout) -> list[Layout]:
        return list(islice(self.space.micro_batches(group), 1))

    def _fits_with(self, setting: Layout) -> bool:
        try:
            return self._fits_bare(setting) and bool(self._evaluate(setting))
        except InfeasibleError:
            return False

    @property
    def best_s(self) -> float:
        """The least time of a weight update that was found, estimated. [s]"""
        return min((found.estimate_s for found in self.found.values()), default=float("inf"))

    def bound_s(self, setting: Layout) -> float:
        """No division with this setting takes less time: its work spread evenly. [s]

        Work per sample never grows with the micro-batch, so a larger one that is known will do.
        """
        known = [size for size in self._known if size >= setting.micro_batch_size]
        if not known:
            return self._least_s(setting)
        size = min(known)
        redone = setting.recompute and self._job.software.recompute_last_segment
        total, longest = self._roomy_chain(size).least_cycles(recompute=redone)
        rounds = setting.accumulation_factor + setting.ipus_per_replica - 1
        cycles = rounds * max(total / setting.ipus_per_replica, longest) * setting.micro_batch_size / size
        return cycles / self._job.system.machine.ipu.clock_hz

    def _least_s(self, setting: Layout) -> float:
        """Time of a weight update at the peak of the chip, without costing any operation. [s] [s]"""
        workload, ipu = self._job.workload_of(setting.micro_batch_size), self._job.system.machine.ipu
        flop = workload.training_flop * setting.accumulation_factor / setting.ipus_per_replica
        return flop / ipu.peak_flop_per_s(workload.product_dtype)

    def _may_win(self, setting: Layout, update_s: float) -> bool:
        limit_s = _HOPELESS * self.best_s - update_s
        if self.bound_s(setting) > limit_s:
            return False
        self._roomy_chain(setting.micro_batch_size)
        self._known.add(setting.micro_batch_size)
        return self.bound_s(setting) <= limit_s

    def leanest(self, setting: Layout) -> tuple[float, Layout] | None:
        """The cuts that need least memory: how much the fullest IPU needs, code apart, and the layout. [B]"""
        pipeline = self._prices(setting).leanest()
        return None if pipeline is None else (pipeline.cycles, pipeline.layout)

    def near_misses(self, best_s: float) -> list[Layout]:
        """Layouts that do not fit and would take less time, those that promise most first."""
        bounds = [(self.bound_s(each), each) for each in self.misfits.values() if each.micro_batch_size in self._known]
        bounds.sort(key=lambda each: each[0])
        return [setting for bound_s, setting in bounds if bound_s < best_s]

    def memory(self, layout: Layout) -> tuple[IpuMemory, ...]:
        """What every IPU of a replica holds, whether or not it fits."""
        return job_memory(replace(self._job, layout=layout), self._model)

    def written(self, layout: Layout) -> TrainingScenario:
        """The scenario with a layout."""
        return self.space.family.divided(layout, self._job.workload_of(layout.micro_batch_size).order)

    def _evaluate(self, setting: Layout) -> Found:
        """The best cuts of a setting.

        Raises:
            InfeasibleError: It does not fit.
        """
        pipeline = self._prices(setting).fastest()
        if pipeline is None:
            raise DoesNotFitError("no way to cut the model fits", do="use a smaller micro-batch, or more IPUs")
        plan = make_plan(replace(self._job, layout=pipeline.layout), self._model)
        return Found(plan, least_s(plan), update_s(plan))

    def _fits_bare(self, setting: Layout) -> bool:
        """Whether it would fit if operations needed no temporaries, which is known without costing them."""
        return self._prices(setting, bare=True).fastest() is not None

    def _prices(self, setting: Layout, *, bare: bool = False) -> Prices:
        slices = self._slices(setting.micro_batch_size, setting.recompute, bare)
        pinned = () if bare else self.space.proportion_per_ipu
        return price(slices, replace(self._job, layout=setting), pinned)

    def _make_chain(self, micro_batch_size: int) -> CostedChain:
        return self._chain_of(micro_batch_size, self._proportions)

    def _make_roomy_chain(self, micro_batch_size: int) -> CostedChain:
        return self._chain_of(micro_batch_size, (max(self._proportions),))

    def _chain_of(self, micro_batch_size: int, proportions: tuple[float, ...]) -> CostedChain:
        """The same chain in every search with these costs, whatever pod they are of."""
        workload = self._job.workload_of(micro_batch_size)
        return self._model.once(workload, ("chain", proportions), lambda: chain_of(workload, self._model, proportions))

    def _bare_chain(self, micro_batch_size: int) -> CostedChain:
        workload = self._job.workload_of(micro_batch_size)
        return self._model.once(workload, ("bare chain",), lambda: bare_chain(workload))

    def _make_slices(self, micro_batch_size: int, recompute: bool, bare: bool) -> Slices:
        last = self._job.software.recompute_last_segment
        chain = self._bare_chain(micro_batch_size) if bare else self._chain(micro_batch_size)
        return self.space.family.slices(chain, recompute=recompute, recompute_last=last)


_OTHERWISE = (
    "make the model, its sequences or images smaller; with one sample at a time it does not fit, "
    "so that a smaller batch is no help"
)


def nearest_miss(loaded: LoadedScenario, spec: TrainingScenario, search: Search) -> DoesNotFitError:
    """The error for a scenario of which no division fits."""
    lean = [found for setting in search.misfits.values() if (found := search.leanest(setting))]
    what = f"no division of batch_size {search.space.batch_size} fits {spec.system.name}"
    if lean:
        layout = min(lean, key=lambda each: each[0])[1]
        words = f"{counted(layout.ipus_per_replica, 'IPU')} per replica, micro_batch_size {layout.micro_batch_size}"
        what += f"; the nearest has {words}: {misfit_text(search.memory(layout))}"
    cures = list(_cures(loaded, spec))
    refused = DoesNotFitError(what, do=HELPS + "; ".join(cures) if cures else _OTHERWISE)
    lacks = missing_method(training_job(search.space.whole()))
    return refused if lacks is None else lacking(refused, lacks)


def _larger_batches(spec: TrainingScenario) -> Iterator[int]:
    """Twice as large, four times, …, up to the batch that fills a pipeline over a whole link domain."""
    batch = 2 * (spec.batch_size or 1)
    while batch < 4 * spec.system.domain_ipu_count:
        yield batch
        batch *= 2


def _cures(loaded: LoadedScenario, spec: TrainingScenario) -> Iterator[str]:
    """Changes that make it fit: fewer pins, more micro-batches for a longer pipeline, a larger pod."""
    if Search(loaded, spec, pinned=False, tight=True).fits():
        yield "pin less under `parallelism` and `memory`"
    for batch in _larger_batches(spec):
        if Search(loaded, spec.model_copy(update={"batch_size": batch}), tight=True).fits():
            yield f"`batch_size: {batch}`, which has micro-batches enough for a longer pipeline"
            break
    for name, pod in larger_pods(spec.system):
        if Search(loaded, spec.model_copy(update={"system": pod}), tight=True).fits():
            yield f"`system: {name}`, the smallest shipped pod on which it does"
            return
