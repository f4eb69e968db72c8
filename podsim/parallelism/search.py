"""The search: every setting that a batch allows, cut as well as can be, the fastest simulated.

Bounds come first: no division takes less time than its computation spread evenly over the IPUs. Settings
whose bound is above what has been found are not looked at. What is left is cut by dynamic programming,
planned, and ranked by the time of its pipeline and of its update; the first few go through the engine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from podsim.errors import InfeasibleError
from podsim.parallelism.chain import Chain, bare_chain, chain_of, is_tied
from podsim.parallelism.estimate import pipeline_s, update_s
from podsim.parallelism.families import ConvnetFamily, Family, TrainingSpec, TransformerFamily
from podsim.parallelism.prices import Pipeline, Prices, price
from podsim.parallelism.setting import ON_CHIP, STREAMING, Setting, accumulation, divisors, powers_of_two
from podsim.parallelism.slices import Slices
from podsim.plan import Plan, make_plan
from podsim.plan.job import training_job
from podsim.plan.memory import IpuMemory
from podsim.plan.plan import TrainingJob, cost_model, job_memory
from podsim.specs import ImageScenarioSpec, LoadedScenario
from podsim.specs.auto import AutoImageSpec, AutoInferenceSpec, AutoTrainingSpec
from podsim.specs.checks import division_findings

_PROPORTIONS = (0.15, 0.2, 0.25, 0.3, 0.4, 0.6, 1.0)
_TIGHT_PROPORTIONS = (0.05, 0.1)
_MOST_SAMPLES = 1024
_HARDLY_FEWER = 0.9
_HOPELESS = 1.02


@dataclass(frozen=True, slots=True)
class Found:
    """A division that fits.

    Attributes:
        setting: The division apart from its cuts.
        spec: The scenario with it.
        plan: Its plan.
        pipeline_s: Its pipeline cycles, without the engine. [s]
        update_s: What follows them until the next weight update, without the engine. [s]
    """

    setting: Setting
    spec: TrainingSpec
    plan: Plan
    pipeline_s: float
    update_s: float

    @property
    def estimate_s(self) -> float:
        """All of a weight update. [s]"""
        return self.pipeline_s + self.update_s


class Search:
    """Divisions of one scenario.

    Attributes:
        found: Divisions that fit, for each number of IPUs, replicas, samples and kind of recomputation.
        misfits: The smallest micro-batch that does not fit, by group.
        considered_count: Settings that were looked at.
    """

    def __init__(self, loaded: LoadedScenario, spec: TrainingSpec, *, pinned: bool = True, tight: bool = False) -> None:
        """Read what is pinned.

        Args:
            loaded: What was written.
            spec: The scenario, perhaps on another pod or with another batch.
            pinned: Whether choices that were written are kept.
            tight: Whether operations get hardly any memory for temporaries.
        """
        auto = loaded.auto
        assert auto is not None and not isinstance(auto, AutoInferenceSpec)
        self.spec, self.batch_size = spec, spec.batch_size or 1
        self.auto: AutoTrainingSpec = auto if pinned else type(auto)(auto=True)
        self._gives = loaded.gives if pinned else lambda *_: False
        self._job = training_job(spec)
        self._model = cost_model(self._job)
        self.family: Family = (
            ConvnetFamily(spec, auto)
            if isinstance(spec, ImageScenarioSpec) and isinstance(auto, AutoImageSpec)
            else TransformerFamily(spec)  # type: ignore[arg-type]
        )
        self.found: dict[tuple[int, ...], Found] = {}
        self.misfits: dict[Setting, Setting] = {}
        self._known: set[int] = set()
        self.considered_count = 0
        self._chain, self._roomy_chain = lru_cache(self._make_chain), lru_cache(self._make_roomy_chain)
        self._slices = lru_cache(self._make_slices)
        self._proportions = _TIGHT_PROPORTIONS if tight else _PROPORTIONS
        if self._gives("memory", "available_memory_proportion"):
            given = spec.memory.available_memory_proportion
            self._proportions = (given,) if isinstance(given, float) else tuple(set(given))

    def groups(self) -> Iterator[Setting]:
        """Settings with a micro-batch of one sample, the most promising first; larger ones are tried while they fit."""
        every = (
            (place, Setting(ipus, replicas, 1, self.batch_size, recompute, storage, sharded))
            for ipus in self._ipu_counts()
            for place, replicas in enumerate(self._replica_counts(ipus))
            for recompute in self._recomputation()
            for storage in self._storages()
            for sharded in self._shardings(replicas)
        )
        for _, group in sorted(every, key=lambda each: (each[0], each[1].storage, not each[1].sharded)):
            yield group

    def explore(self, group: Setting) -> None:
        """Try micro-batches of a group, the largest first, but for those that cannot fit or cannot win."""
        settings = list(self._micro_batches(group))
        fitting = bisect_left(settings, True, key=lambda setting: not self._fits_bare(setting))
        self.considered_count += len(settings)
        if fitting < len(settings):
            self.misfits[group] = settings[fitting]
        # The update is nearly the same for any micro-batch, so that of the one before it counts too.
        update_s = 0.0
        for setting in reversed(settings[:fitting]):
            if self._may_win(setting, update_s):
                found = self._evaluate(setting)
                if found is None:
                    self.misfits[group] = setting
                    continue
                update_s = found.update_s
                self._keep(found)

    def _keep(self, found: Found) -> None:
        """Of divisions that differ in the place of optimizer state alone, the fastest."""
        setting = found.setting
        key = (setting.ipus_per_replica, setting.replication_factor, setting.micro_batch_size, setting.recompute)
        if key not in self.found or found.estimate_s < self.found[key].estimate_s:
            self.found[key] = found

    def fits(self) -> bool:
        """Whether anything does, with micro-batches as small as may be."""
        settings = (next(self._micro_batches(group), None) for group in self.groups())
        return any(setting and self._fits_bare(setting) and self._evaluate(setting) for setting in settings)

    @property
    def best_s(self) -> float:
        """The least time of a weight update that was found, estimated. [s]"""
        return min((found.estimate_s for found in self.found.values()), default=float("inf"))

    def bound_s(self, setting: Setting) -> float:
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

    def _least_s(self, setting: Setting) -> float:
        """At the peak of the chip; nothing is costed for that. [s]"""
        workload, ipu = self._job.workload_of(setting.micro_batch_size), self._job.system.machine.ipu
        flop = workload.training_flop * setting.accumulation_factor / setting.ipus_per_replica
        return flop / ipu.peak_flop_per_s(workload.activation_dtype)

    def _may_win(self, setting: Setting, update_s: float) -> bool:
        limit_s = _HOPELESS * self.best_s - update_s
        if self.bound_s(setting) > limit_s:
            return False
        self._known.add(setting.micro_batch_size)
        return self.bound_s(setting) <= limit_s

    def leanest(self, setting: Setting) -> tuple[float, TrainingSpec] | None:
        """The division that needs least memory: how much the fullest IPU needs, code apart, and the scenario. [B]"""
        pipeline = self._prices(setting).leanest()
        return None if pipeline is None else (pipeline.cycles, self._divided(pipeline))

    def near_misses(self, best_s: float) -> list[Setting]:
        """Settings that do not fit and would take less time, those that promise most first."""
        bounds = [(self.bound_s(each), each) for each in self.misfits.values() if each.micro_batch_size in self._known]
        bounds.sort(key=lambda each: each[0])
        return [setting for bound_s, setting in bounds if bound_s < best_s]

    def plan(self, spec: TrainingSpec) -> Plan:
        """The plan of a division.

        Raises:
            DoesNotFitError: It does not fit; says what is too large, without advice.
        """
        return make_plan(self._job_of(spec), self._model)

    def memory(self, spec: TrainingSpec) -> tuple[IpuMemory, ...]:
        """What every IPU of a replica holds, whether or not it fits."""
        return job_memory(self._job_of(spec), self._model)

    def _evaluate(self, setting: Setting) -> Found | None:
        """The best cuts of a setting, or None if it does not fit."""
        try:
            pipeline = self._prices(setting).fastest()
            if pipeline is None:
                return None
            spec = self._divided(pipeline)
            plan = self.plan(spec)
        except InfeasibleError:
            return None
        return Found(setting, spec, plan, pipeline_s(plan), update_s(plan))

    def _divided(self, pipeline: Pipeline) -> TrainingSpec:
        return self.family.divided(pipeline, self._chain(pipeline.setting.micro_batch_size).order)

    def _job_of(self, spec: TrainingSpec) -> TrainingJob:
        return replace(training_job(spec), workload_of=self._job.workload_of, changes=())

    def _fits_bare(self, setting: Setting) -> bool:
        """Whether it would fit if operations needed no temporaries; nothing is costed for that."""
        return self._prices(setting, bare=True).fastest() is not None

    def _prices(self, setting: Setting, *, bare: bool = False) -> Prices:
        system = self._job.system
        options = setting.options(self._job.options, system.domain_ipu_count)
        slices = self._slices(setting.micro_batch_size, setting.recompute, bare)
        pinned = () if bare else self._pinned_proportions()
        return price(setting, slices, options, system, self._job.software, pinned)

    def _make_chain(self, micro_batch_size: int) -> Chain:
        return chain_of(self._job.workload_of(micro_batch_size), self._model, self._proportions)

    def _make_roomy_chain(self, micro_batch_size: int) -> Chain:
        return chain_of(self._job.workload_of(micro_batch_size), self._model, (max(self._proportions),))

    def _make_slices(self, micro_batch_size: int, recompute: bool, bare: bool) -> Slices:
        last = self._job.software.recompute_last_segment
        chain = bare_chain(self._job.workload_of(micro_batch_size)) if bare else self._chain(micro_batch_size)
        return self.family.slices(chain, recompute=recompute, recompute_last=last)

    def _pinned_proportions(self) -> tuple[float, ...]:
        given = self.spec.memory.available_memory_proportion
        return given if isinstance(given, tuple) and self._gives("memory", "available_memory_proportion") else ()

    def _stage_count(self, ipus: int) -> int:
        """A last block that shares weights with the first makes one more stage on the first IPU."""
        return ipus + (1 if ipus > 1 and is_tied(self._job.workload_of(1)) else 0)

    def _ipu_counts(self) -> Iterator[int]:
        blocks, listed = len(self._job.workload_of(1).order), self._pinned_proportions()
        for ipus in powers_of_two(self.spec.system.domain_ipu_count):
            wanted = self.auto.ipus_per_replica in (None, ipus) and len(listed) in (0, ipus)
            if wanted and self._stage_count(ipus) <= blocks:
                yield ipus

    def _replica_counts(self, ipus: int) -> list[int]:
        """The most replicas that divide batch and pod and leave enough micro-batches, hardly fewer, or none beside one.

        With fewer there is less to compute with, but for models so small that reducing gradients costs more.
        """
        most, stages = self.spec.system.ipu_count // ipus, self._stage_count(ipus)
        counts = [
            count
            for count in divisors(self.batch_size, most)
            if accumulation(self.batch_size, count, stage_count=stages) and self._is_legal(ipus, count)
        ]
        return [count for count in reversed(counts) if count >= _HARDLY_FEWER * counts[-1] or count == 1]

    def _is_legal(self, ipus: int, replicas: int) -> bool:
        """Whether so many replicas can be placed, fed, and go together for batch norm."""
        if self.auto.replication_factor not in (None, replicas):
            return False
        order, size = self._job.workload_of(1).order, self._stage_count(ipus)
        setting = Setting(ipus, replicas, 1, 2 * size, recompute=False, storage=ON_CHIP, sharded=False)
        cuts = (*range(size), len(order))
        places = (*range(ipus), 0)[:size]
        spec = self.family.divided(Pipeline(setting, cuts, places, (1.0,) * ipus, (), 0.0), order)
        return not any(division_findings(spec.model_copy(update={"batch_size": None})))

    def _recomputation(self) -> tuple[bool, ...]:
        given = getattr(self.auto, "recomputation", None)
        return (False, True) if given is None else (given != "none",)

    def _storages(self) -> tuple[str, ...]:
        if isinstance(self.spec, ImageScenarioSpec):
            return (ON_CHIP,)
        if self._gives("memory", "optimizer_state", "storage"):
            return (self.spec.memory.optimizer_state.storage,)
        return (ON_CHIP, STREAMING)

    def _shardings(self, replicas: int) -> tuple[bool, ...]:
        if isinstance(self.spec, ImageScenarioSpec):
            return (False,)
        if self._gives("memory", "optimizer_state", "replicated_tensor_sharding"):
            return (self.spec.memory.optimizer_state.replicated_tensor_sharding,)
        return (True, False) if replicas > 1 else (False,)

    def _micro_batches(self, group: Setting) -> Iterator[Setting]:
        stages = self._stage_count(group.ipus_per_replica)
        for size in divisors(self.batch_size // group.replication_factor, _MOST_SAMPLES):
            factor = accumulation(self.batch_size, group.replication_factor, size, stage_count=stages)
            if factor is not None and self.auto.micro_batch_size in (None, size):
                yield replace(group, micro_batch_size=size, accumulation_factor=factor)
