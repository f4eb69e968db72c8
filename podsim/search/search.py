"""Pipelines: every layout that a batch allows, cut as well as can be by dynamic programming.

Bounds, closer and closer: work at the peak of the chip spread evenly, with the bytes that shards add up; computation as
the cost model has it, spread evenly; the cut pipeline with its update, as if no transfer waited for another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import lru_cache, partial
from itertools import islice, pairwise

import numpy as np

from podsim.errors import InfeasibleError
from podsim.placement.cuts import Segment
from podsim.placement.job import training_job
from podsim.placement.layout import Layout
from podsim.placement.memory import IpuMemory
from podsim.placement.plan import Plan, job_memory, make_plan, shared_cost_model
from podsim.placement.schedule import PipelineSchedule, Round
from podsim.placement.topology import Routes
from podsim.program.compile import replicas_of
from podsim.program.feed import Feed
from podsim.program.host import training_call
from podsim.program.passes import INTER_IPU, shard_rings, stage_work, sums_of
from podsim.program.rings import ShardRings
from podsim.program.task import Exchange
from podsim.program.transfers import link_transfer
from podsim.program.update import Rings, update_phases
from podsim.scenario import LoadedScenario, TrainingScenario
from podsim.scenario.wording import counted
from podsim.search.best_first import Found, Lead
from podsim.search.bounds import added_up_s, alone_ps, call_s, rings_of_first, shard_sums_s
from podsim.search.chain import CostedChain, Costs, Slices, bare_chain, chain_of, held_bytes, is_tied
from podsim.search.prices import Prices, capacity_bytes, price
from podsim.search.space import LayoutSpace
from podsim.units import ps_to_seconds


def least_s(plan: Plan) -> float:
    """Pipeline and update, or what host servers and links take to bring the data, whichever is longer. [s]"""
    fed_ps = Feed(plan, replicas_of(plan)).interval_ps() * plan.layout.accumulation_factor
    return max(pipeline_s(plan) + hand_over_s(plan) + update_s(plan), ps_to_seconds(fed_ps))


def hand_over_s(plan: Plan) -> float:
    """Return the time to pass all micro-batches over the slowest stage boundary, forward and backward. [s]"""
    # Both may be on their way in one cycle, unless all forward passes of it end first, or it has only one of the two.
    rounds = 2 if plan.layout.schedule in ("grouped", "sequential") else 1
    slowest_ps, routes, replicas = 0, Routes(plan.system), replicas_of(plan)
    for index, (cost, following) in enumerate(pairwise(plan.stages)):
        source, target = (replicas.ipu(0, each.stage.ipus.start) for each in (cost, following))
        if source != target:
            byte_count = plan.handed_over_bytes(index)
            sent = link_transfer(routes, "activations", INTER_IPU, source, target, byte_count)
            slowest_ps = max(slowest_ps, alone_ps(Exchange((sent,))))
    return ps_to_seconds(rounds * plan.layout.accumulation_factor * slowest_ps)


def pipeline_s(plan: Plan) -> float:
    """Return the time of all pipeline cycles with shard sums, without transfers between stages. [s]"""
    clock_hz, rings = plan.system.machine.ipu.clock_hz, shard_rings(plan, range(plan.layout.tensor_parallel))
    summed = {
        each.stage.index: [shard_sums_s(rings, each.sums[one]) for one in (each.forward, *each.backward)]
        for each in (stage_work(plan) if plan.layout.tensor_parallel > 1 else ())
    }
    passes = []
    for cost in plan.stages:
        ahead_s, *back_s = summed.get(cost.stage.index, [0.0])
        forward = cost.forward.cycles + ahead_s * clock_hz
        backward = cost.recompute.cycles + cost.backward.cycles + sum(back_s) * clock_hz
        passes.append((cost.stage.ipus.start, forward, backward))
    return pipeline_cycles(passes, plan.layout.accumulation_factor, plan.layout.pipeline()) / clock_hz


def pipeline_cycles(
    passes: list[tuple[int, float, float]], accumulation_factor: int, schedule: PipelineSchedule
) -> float:
    """Return the compute time of all pipeline cycles, from (IPU, forward, backward) cycles by stage. [cycles]

    >>> passes = [(0, 1.0, 2.0), (1, 1.0, 2.0)]
    >>> pipeline_cycles(passes, 4, PipelineSchedule.from_name("lock_step", 2))  # 1, 3; 2 x 3; 3, 2
    15.0
    >>> pipeline_cycles(passes, 4, PipelineSchedule.from_name("interleaved", 2))  # 2 x 1; 6 x 2; 2 x 2
    18.0
    >>> pipeline_cycles(passes, 4, PipelineSchedule.from_name("sequential", 2))  # 4 x (1, 3, 2)
    24.0
    """
    return sum(
        span.count * sum(_slowest(passes, each) for each in schedule.rounds(span.cycle, accumulation_factor))
        for span in schedule.spans(accumulation_factor)
    )


def least_cycles(total: float, longest: float, places: int, accumulation_factor: int) -> float:
    """Return a lower bound of the time of a pipeline, for any cuts and any schedule. [cycles]

    Spread evenly, every place has its part in each cycle from fill to drain. A block that is longer than that keeps its
    place busy for all micro-batches; fill and drain may be as short as the other places are.

    >>> least_cycles(6.0, 2.0, 2, 4), least_cycles(6.0, 5.0, 2, 4)
    (15.0, 20.0)
    """
    return max((accumulation_factor + places - 1) * total / places, accumulation_factor * longest)


def _slowest(passes: list[tuple[int, float, float]], active: Round) -> float:
    """Return the time of the busiest IPU in a round. [cycles]"""
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
        total_ps += phase.count * max(sum(map(alone_ps, steps)) for steps in phase.steps.values())
    return ps_to_seconds(total_ps)


_PROPORTIONS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)


class Search:
    """Pipelines of one scenario, with one way in which IPUs share layers.

    `reserve`: share of In-Processor-Memory that is left free.
    """

    def __init__(
        self, loaded: LoadedScenario, spec: TrainingScenario, *, pinned: bool = True, reserve: float = 0.0
    ) -> None:
        workload_of = training_job(spec).workload_of
        self.space = LayoutSpace(loaded, spec, workload_of(1), pinned=pinned)
        whole = training_job(self.space.whole(), workload_of)
        self._job = replace(whole, changes=()).laid_out(reserve=reserve)
        self._model = shared_cost_model(self._job)
        self._proportions = tuple(set(self.space.proportions)) or _PROPORTIONS
        self.misfits: dict[Layout, Layout] = {}  # the smallest micro-batch that does not fit, by group
        self._known: set[int] = set()
        self._estimates: dict[Layout, float] = {}  # of cut layouts, whatever memory they leave free [s]
        self._calls: dict[tuple[int, int, int, int], float] = {}  # by IPUs, replicas and micro-batches [s]
        self._summed: dict[int, float] = {}
        # weights and what belongs to them, of all blocks and of the largest, by where optimizer state is [B]
        self._held: dict[tuple[str, int], tuple[float, float]] = {}
        self.considered_count = 0
        self._rings: Callable[[int], ShardRings] = lru_cache(
            lambda size: rings_of_first(self._job, self._job.workload_of(size), self.space.shards)
        )
        self._chain = lru_cache(partial(self._chain_of, self._proportions))
        self._roomy_chain = lru_cache(partial(self._chain_of, (max(self._proportions),)))
        self._slices = lru_cache(self._make_slices)

    def leaving(self, reserve: float) -> Search:
        """Return the same search with another share of memory left free; costs stay known."""
        other = copy(self)
        other._job = self._job.laid_out(reserve=reserve)
        other.misfits, other.considered_count = {}, 0
        return other

    def groups(self) -> list[Layout]:
        """Layouts with a micro-batch of one sample and without cuts, the most promising first."""
        return list(self.space.groups(self._job.layout))

    def leads(self) -> Iterator[Lead[Found]]:
        """Yield a lead for every group, with the micro-batches left open."""
        for group in self.groups():
            weights_fit = self._weights_fit(group)
            settings = list(self.space.micro_batches(group, None if weights_fit else 1))
            self.considered_count += len(settings) if weights_fit else self.space.micro_batch_count(group)
            if settings and not weights_fit:
                self.misfits[settings[0]] = settings[0]
            elif settings:
                bound_s = min(self._least_s(each) for each in (settings[0], settings[-1]))
                yield Lead(bound_s, partial(self._of_group, settings), name=self._group_text(group))

    def _of_group(self, settings: list[Layout]) -> Iterator[Lead[Found]]:
        """Micro-batches that would fit if operations needed no temporaries."""
        fitting = bisect_left(settings, True, key=lambda setting: not self._fits_bare(setting))
        if fitting < len(settings):
            self.misfits[settings[0]] = settings[fitting]
        for setting in reversed(settings[:fitting]):
            yield Lead(self.bound_s(setting), partial(self._costed, setting))

    def _costed(self, setting: Layout) -> Iterator[Lead[Found]]:
        """Yield a lead bounded by the times of all operations."""
        self._roomy_chain(setting.micro_batch_size)
        self._known.add(setting.micro_batch_size)
        yield Lead(self.bound_s(setting), partial(self._planned, setting))

    def _planned(self, setting: Layout) -> Iterator[Lead[Found]]:
        """Cut as well as can be.

        Where the first IPU updates its weights after the others, one that holds less may make up for a longer stage.
        """
        known_s, limit_bytes = float("inf"), float("inf")
        while (cut := self._prices(setting).fastest(limit_bytes)) is not None:
            # Cuts that leave more free were timed by the search that asks for that.
            layout = replace(cut.layout, reserve=0.0)
            try:
                found = self._evaluate(cut.layout) if layout not in self._estimates else None
            except InfeasibleError:
                break
            estimate_s = self._estimates.setdefault(layout, found.estimate_s if found else float("inf"))
            if estimate_s >= known_s:
                return
            known_s, limit_bytes = estimate_s, cut.end_bytes
            if found:
                yield found.lead()
            if not (self._job.software.update_first_ipu_apart and is_tied(self._job.workload_of(1))):
                return
        if known_s == float("inf"):
            self.misfits[setting] = setting

    def fits(self) -> bool:
        """Return True if any division fits with the smallest micro-batches."""
        for group in self.groups():
            for setting in islice(self.space.micro_batches(group), 1):
                if self._fits_bare(setting) and self._prices(setting).fastest() is not None:
                    return True
        return False

    def bound_s(self, setting: Layout) -> float:
        """No division with this setting takes less time: its work spread evenly, once its operations are costed. [s]"""
        size = setting.micro_batch_size
        if size not in self._known:
            return self._least_s(setting)
        redone = setting.recompute and self._job.software.recompute_last_segment
        total, longest = self._roomy_chain(size).least_cycles(recompute=redone)
        places = setting.ipus_per_replica // self.space.shards
        cycles = least_cycles(total, longest, places, setting.accumulation_factor)
        return cycles / self._job.system.machine.ipu.clock_hz + self._call_s(setting)

    def _least_s(self, setting: Layout) -> float:
        """Time of a weight update at the peak of the chip, without costing any operation. [s]"""
        workload, ipu = self._job.workload_of(setting.micro_batch_size), self._job.system.machine.ipu
        flop = workload.training_flop * setting.accumulation_factor / setting.ipus_per_replica
        peak = ipu.peak_flop_per_s(workload.product_dtype)
        return flop / peak + self._summed_s(setting) + self._call_s(setting)

    def _call_s(self, setting: Layout) -> float:
        key = (
            setting.ipus_per_replica,
            setting.replication_factor,
            setting.micro_batch_size,
            setting.accumulation_factor,
        )
        if key not in self._calls:
            self._calls[key] = call_s(replace(self._job, layout=setting))
        return self._calls[key]

    def _summed_s(self, setting: Layout) -> float:
        """Return the time to sum tensors over shards without latencies, spread evenly over the stages. [s]"""
        if self.space.shards == 1:
            return 0.0
        rings, workload = self._rings(setting.micro_batch_size), self._job.workload_of(setting.micro_batch_size)
        blocks = [Segment((name,)) for name in workload.order]
        if setting.micro_batch_size not in self._summed:
            one_s = added_up_s(rings, workload, blocks, blocks, latencies=False)
            self._summed[setting.micro_batch_size] = one_s
        one_s = self._summed[setting.micro_batch_size]
        return one_s * setting.accumulation_factor * self.space.shards / setting.ipus_per_replica

    def leanest(self, setting: Layout) -> tuple[float, Layout] | None:
        """Return memory of the fullest IPU, without code, and layout, for the cuts with the least memory. [B]"""
        pipeline = self._prices(setting).leanest()
        return None if pipeline is None else (pipeline.cycles, pipeline.layout)

    def near_misses(self, best_s: float) -> list[Layout]:
        """Return layouts that do not fit but may be faster than `best_s`, the most promising first."""
        bounds = [
            (self.bound_s(misfit), misfit) for misfit in self.misfits.values() if misfit.micro_batch_size in self._known
        ]
        bounds.sort(key=lambda each: each[0])
        return [setting for bound_s, setting in bounds if bound_s < best_s]

    def lean_misfits(self) -> Iterator[tuple[TrainingScenario, tuple[IpuMemory, ...]]]:
        """Divisions that do not fit, cut so that they need least memory, and what their IPUs hold.

        Where IPUs share layers, those over the most IPUs will do.
        """
        most = max((misfit.ipus_per_replica for misfit in self.misfits.values()), default=0)
        for setting in self.misfits.values():
            if self.space.shards == 1 or setting.ipus_per_replica == most:
                lean = self.leanest(setting)
                if lean is not None:
                    yield self.written(lean[1]), self.memory(lean[1])

    def memory(self, layout: Layout) -> tuple[IpuMemory, ...]:
        """Return the memory of every IPU of a replica, even if the layout does not fit."""
        return job_memory(replace(self._job, layout=layout), self._model)

    def written(self, layout: Layout) -> TrainingScenario:
        """Return the scenario with a layout."""
        return self.space.family.divided(layout, self._job.workload_of(layout.micro_batch_size).order)

    def _group_text(self, group: Layout) -> str:
        words = f"{counted(group.ipus_per_replica, 'IPU')} per replica"
        return f"{words}, {self.space.shards} to a layer" if self.space.shards > 1 else words

    def _evaluate(self, layout: Layout) -> Found:
        """Return the plan of a layout that has been cut."""
        plan = make_plan(replace(self._job, layout=layout), self._model, advise=False)
        return Found(plan, least_s(plan), partial(self.written, plan.layout))

    def _weights_fit(self, setting: Layout) -> bool:
        """Return True if weights and training state fit a replica in total, and every block fits one place."""
        key = setting.optimizer_storage, setting.replicated_tensor_sharding and setting.shard_count
        if key not in self._held:
            workload = self._job.workload_of(1)
            held = held_bytes(workload, replace(self._job, layout=setting))
            self._held[key] = float(held[0, -1]), float(np.diagonal(held, 1).max())
        (total, largest), places = self._held[key], setting.ipus_per_replica // self.space.shards
        capacity = capacity_bytes(replace(self._job, layout=setting))
        return total <= places * capacity and largest <= capacity

    def _fits_bare(self, setting: Layout) -> bool:
        """Return True if a layout would fit without temporaries; this needs no costs of operations."""
        return self._prices(setting, bare=True).fastest() is not None

    def _prices(self, setting: Layout, *, bare: bool = False) -> Prices:
        slices = self._slices(setting.micro_batch_size, setting.recompute, bare)
        pinned = () if bare else self.space.proportion_per_ipu
        return price(slices, replace(self._job, layout=setting), pinned, self.space.shards)

    def _chain_of(self, proportions: tuple[float, ...], micro_batch_size: int) -> CostedChain:
        """Return the cost of the chain with shard sums; searches of all pods share the costs without shard sums."""
        workload = self._job.workload_of(micro_batch_size)
        chain = self._model.memoize(
            workload, ("chain", proportions), lambda: chain_of(workload, self._model, proportions)
        )
        if self.space.shards == 1:
            return chain
        forward, redone, backward = (
            self._sum_cycles(chain, micro_batch_size, backward=backward, redone=redone)
            for backward, redone in ((False, False), (False, True), (True, False))
        )
        return replace(
            chain,
            forward=chain.forward + forward,
            redone=chain.redone + redone,
            backward=chain.backward + backward,
        )

    def _sum_cycles(self, chain: CostedChain, micro_batch_size: int, *, backward: bool, redone: bool) -> Costs:
        """Return the time that the shards of each block take to sum tensors. [cycles]"""
        workload, clock_hz = chain.workload, self._job.system.machine.ipu.clock_hz
        rings = self._rings(micro_batch_size)
        known = {
            name: shard_sums_s(rings, sums_of(workload, [Segment((name,))], backward=backward, redone=redone))
            for name in workload.blocks
        }
        return np.array([known[name] * clock_hz for name in chain.order])

    def _make_slices(self, micro_batch_size: int, recompute: bool, bare: bool) -> Slices:
        last = self._job.software.recompute_last_segment
        chain = bare_chain(self._job.workload_of(micro_batch_size)) if bare else self._chain(micro_batch_size)
        return self.space.family.slices(chain, recompute=recompute, recompute_last=last)
