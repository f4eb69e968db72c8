"""Training: from a scenario to the result, with the time of one weight update and the time to train."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from podsim.engine import Trace, execute
from podsim.engine.compiled import is_available
from podsim.lazy import LazySequence
from podsim.metrics import IF_IT_CONVERGES, THROUGHPUT, TIME, UPDATE
from podsim.models import Workload
from podsim.placement import Plan, PlanInput, make_plan
from podsim.placement.cuts import kept_bytes
from podsim.placement.job import training_job
from podsim.placement.plan import cost_model, shared_cost_model
from podsim.placement.stage_cost import StageCost, product_rates
from podsim.program.compile import PLANNED, compile_program, replicas_of
from podsim.program.passes_in_order import training_passes
from podsim.program.prices import TRAINING_CALLS, Prices, task_prices
from podsim.program.size import explicit_event_count
from podsim.program.task import Program
from podsim.program.update import machine_count, waiting_s
from podsim.result.breakdown import mean_account, shared_account
from podsim.result.influence import Measure, StandsOn
from podsim.result.result import Drift, RunResult
from podsim.result.rows import IpuAccount, LearningRate, OperationRow, memory_report, phase_times
from podsim.result.shared import shared
from podsim.result.sources import Sources, sources
from podsim.result.training_times import TrainingOutcome
from podsim.result.usage import refused_elsewhere, replicas_in_use
from podsim.runs.limits import convergence_condition, underflow_notes
from podsim.runs.probes import BaseProbe
from podsim.runs.settings import Settings, divided, placed
from podsim.runs.training import train
from podsim.runs.warnings import spared_work, warnings_of
from podsim.scenario import LoadedScenario, TrainingScenario
from podsim.scenario.quantity import quantities
from podsim.tiles.model import CostModel
from podsim.units import ps_to_seconds

if TYPE_CHECKING:
    from podsim.draws import Noisy
    from podsim.scenario.faults import FaultSpec
    from podsim.search.choice import Choice


def training(loaded: LoadedScenario, settings: Settings) -> RunResult:
    """Simulate a weight update of a scenario, compute the time to train, and return the result."""
    loaded.require(TrainingScenario)
    with placed(loaded):
        loaded, choice = divided(loaded, settings.watch)
        spec = loaded.require(TrainingScenario)
        job = training_job(spec, fit=settings.fit)
        model = shared_cost_model(job)
        plan = make_plan(job, model)
        if spec.faults:
            from podsim.runs.degraded import degraded

            slow = degraded(spec, plan, settings)
            program, trace, outcome = None, slow.trace, slow.outcome
        else:
            progress, slow = _progress(plan, settings), None
            program = compile_program(plan, explicit=settings.explicit, in_order=settings.record)
            trace = execute(
                program, explicit=settings.explicit, record=settings.record, watch=progress, engine=settings.engine
            )
            outcome = train(spec, plan, ps_to_seconds(trace.makespan_ps))
        noise = _noisy(spec, plan, outcome, trace, settings)
    folded = None if settings.explicit or program is None else (program, trace)

    def prices() -> Prices:
        return task_prices(folded[0] if folded else compile_program(plan), plan, TRAINING_CALLS)

    time_sources = sources(spec, prices, mean_account(trace.lanes))
    probe = TrainingProbe(job, model, outcome, folded, slow.faults if slow else ())
    stands_on = StandsOn(spec, probe, resplit=settings.influence)
    tasks = partial(compile_program, plan, explicit=True, faults=slow.faults if slow else (), in_order=True)
    result = replace(
        _result(loaded, plan, trace, outcome, stands_on, choice, time_sources),
        noise=noise,
        program=tasks if trace.records else None,
    )
    return replace(result, faults=slow.report, warnings=(*result.warnings, *slow.warnings)) if slow else result


def _noisy(
    spec: TrainingScenario, plan: Plan, outcome: TrainingOutcome, trace: Trace, settings: Settings
) -> Noisy | None:
    """Repeat the run with noise, if the settings ask for it."""
    if settings.noise is None:
        return None
    from podsim.runs.training.noise import noisy  # needs numpy, which most runs do without

    return noisy(
        *(spec, plan, outcome, ps_to_seconds(trace.makespan_ps), trace.event_count, settings.noise),
        explicit=settings.explicit,
        engine=settings.engine,
        follow=settings.follow,
    )


def _progress(plan: Plan, settings: Settings) -> Iterable[int]:
    """Return the numbers of events between updates of a progress bar; none unless the simulation is explicit."""
    if not settings.explicit:
        return ()
    return settings.follow(explicit_event_count(compile_program(plan), replicas_of(plan)))


def _result(
    loaded: LoadedScenario,
    plan: Plan,
    trace: Trace,
    outcome: TrainingOutcome,
    stands_on: StandsOn,
    choice: Choice | None,
    time_sources: Sources,
) -> RunResult:
    update_s, spec = ps_to_seconds(trace.makespan_ps), loaded.require(TrainingScenario)
    has_time = outcome.time_to_train_s is not None or outcome.percentiles is not None
    condition = convergence_condition(spec, outcome.samples_per_update) if has_time else None
    rule = spec.optimizer.learning_rate
    return RunResult(
        **shared(
            loaded,
            replicas_in_use(spec),
            stands_on,
            warnings=(
                *refused_elsewhere(spec),
                *warnings_of(plan, trace),
                *spec.model.warnings(spec.data, spec.parallelism.micro_batch_size),
                *outcome.notes,
                *((f"time to train {IF_IT_CONVERGES}: {condition}",) if condition else ()),
                *(spared_work(plan, update_s) if choice else ()),
            ),
            choice=choice,
        ),
        throughput_samples_per_s=outcome.samples_per_update / update_s,
        weight_update_ps=trace.makespan_ps,
        breakdown_ps=mean_account(trace.lanes),
        shared_ps=shared_account(trace),
        mfu=model_flop_utilization(plan, update_s),
        drift=Drift.from_noise(plan.software.noise, machine_count(plan)) if outcome.runs else None,
        time_to_train_s=outcome.time_to_train_s,
        time_to_train_percentiles=outcome.percentiles,
        run_breakdown=outcome.breakdown,
        phases=phase_times(trace.phases),
        ipus=_ipus(plan, trace),
        memory=memory_report(plan.memory),
        operations=LazySequence(lambda: _operations(plan)),
        products=product_rates(plan.stages, plan.system.machine.ipu.clock_hz),
        sources=time_sources,
        outcome=outcome,
        event_count=trace.event_count,
        engine=trace.engine,
        trace=trace if trace.records else None,
        passes=training_passes(plan) if trace.records else None,
        stash=_stash(plan) if trace.records else {},
        tokens_per_sample=spec.model.tokens_per_sample(spec.data),
        time_to_train_condition=condition,
        notes=tuple(underflow_notes(spec)),
        learning_rate=LearningRate.from_rule(rule, plan.layout.batch_size, outcome.update_count) if rule else None,
    )


def _stash(plan: Plan) -> dict[str, int]:
    """Return the size of the stash of each forward pass of a pipeline; empty for phased execution. [B]"""
    stages = () if plan.phases else plan.stages
    return {
        f"forward {cost.stage.index}": kept_bytes(cost.stage, plan.workload, recompute=plan.layout.recompute)
        for cost in stages
    }


def model_flop_utilization(plan: Plan, update_s: float) -> float:
    """Return the model's work in one weight update over the peak of its IPUs, 0 to 1."""
    layout, ipu = plan.layout, plan.system.machine.ipu
    micro_batches = layout.accumulation_factor * layout.replication_factor
    ipus = layout.ipus_per_replica * layout.replication_factor
    peak = ipus * ipu.peak_flop_per_s(plan.workload.product_dtype)
    return plan.workload.training_flop * micro_batches / (peak * update_s)


def _ipus(plan: Plan, trace: Trace) -> tuple[IpuAccount, ...]:
    """Return the accounts of the IPUs of the first replica."""
    labels: dict[int, list[str]] = {}
    for cost in plan.stages:
        for ipu in cost.stage.ipus:
            labels.setdefault(ipu, []).append(cost.stage.label)
    return tuple(
        IpuAccount(ipu, lane, "; ".join(labels[ipu]), trace.lanes[lane])
        for ipu, lane in enumerate(replicas_of(plan).lanes(0))
    )


def _operations(plan: Plan) -> Iterator[OperationRow]:
    """Yield every operation of every stage with its time in one weight update of one replica."""
    for cost in plan.stages:
        for name, count in cost.stage.blocks:
            yield from _block_operations(plan, cost, name, count)


def _block_operations(plan: Plan, cost: StageCost, name: str, count: int) -> Iterator[OperationRow]:
    """Yield the operations of a block by name; the stage has `count` such blocks."""
    clock, factor = plan.system.machine.ipu.clock_hz, plan.layout.accumulation_factor
    block = cost.blocks[name]
    recomputed = Counter[str]()
    for segment in cost.recomputed:
        for block_name, operation in cost.redone(segment):
            if block_name == name:
                recomputed[operation.op.name] += segment.count
    passes = (
        ("forward", block.forward, [count] * len(block.forward)),
        ("recompute", block.forward, [recomputed[operation.op.name] for operation in block.forward]),
        ("backward", block.backward, [count] * len(block.backward)),
    )
    for kind, operations, repeats in passes:
        for operation, repeat in zip(operations, repeats, strict=True):
            if not repeat:
                continue
            runs = repeat * factor
            seconds = {part: cycles * runs / clock for part, cycles in operation.account.parts()}
            yield OperationRow(f"stage {cost.stage.index}", name, kind, operation.op.name, runs, seconds)


class TrainingProbe(BaseProbe):
    """Probe of training; its metric is the time to train if the run has an end, otherwise samples per second."""

    _KEPT = ("metric", "_fit", "_faults")

    def __init__(
        self,
        job: PlanInput,
        model: CostModel,
        outcome: TrainingOutcome,
        known: tuple[Program, Trace] | None = None,  # folded program and trace, if the run was not explicit
        faults: Sequence[FaultSpec] = (),
    ) -> None:
        super().__init__(model)
        self._traces.first = known
        self._faults = tuple(faults)
        # The graph depends on no sampled input except numbers of the model itself.
        self._workload_of: Callable[[int], Workload] | None = job.workload_of
        self._fit = job.fit
        self._base: Plan | None = None
        ends = outcome.time_to_train_s is not None or outcome.percentiles is not None
        self.metric = TIME if ends else THROUGHPUT

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the graph, which is built again."""
        return super().__getstate__() | {"_workload_of": None, "_base": None}

    def __call__(self, spec: TrainingScenario, *, resplit: bool) -> Measure | None:
        """Simulate a weight update; return None if matrix products need other splits and `resplit` is False."""
        parts = self._parts
        parts.begin(spec)
        plan = parts.reuse("plan", lambda: self._plan(spec, resplit=resplit))
        if plan is None:
            return None
        # The plan may be a reused one, for a system and software that differ in what plans do not depend on.
        plan = replace(plan, system=spec.system, software=spec.software)
        made = plan.workload, plan.layout, plan.precision, plan.optimizer, plan.stages, plan.updates, plan.phases
        parts.register(PLANNED, made)
        trace = self._trace_of(plan)
        update_s = parts.register("update_s", ps_to_seconds(trace.makespan_ps))
        outcome = parts.reuse("outcome", lambda: train(spec, plan, update_s), PLANNED, "update_s")
        time_s = outcome.time_to_train_s or (outcome.percentiles or {}).get("p50")
        rate = outcome.samples_per_update / update_s
        metrics = {UPDATE: update_s, THROUGHPUT: rate}
        if outcome.time_to_train_s is not None:
            metrics[TIME] = outcome.time_to_train_s
        others = trace.makespan_ps, mean_account(trace.lanes), plan.memory, outcome
        noise = spec.software.noise
        drift = Drift.from_noise(noise, machine_count(plan))
        longer = waiting_s(noise, plan) / update_s + (drift.on_average[1] if drift else 0.0)
        return Measure(time_s or rate, others, metrics, outcome.times_s, longer)

    def _trace_of(self, plan: Plan) -> Trace:
        """Return the trace of a plan's program, whose structure is recorded when the second program is run."""
        parts, traces = self._parts, self._traces
        if parts.is_first or self._faults or not is_available():
            self._base = None if self._faults else plan
            return traces.trace_of(compile_program(plan, faults=self._faults, parts=parts))
        if self._base is not None and (first := parts.first_spec) is not None:
            base, self._base = replace(self._base, system=first.system, software=first.software), None
            traces.record(base, compile_program)
        return traces.trace_of_plan(plan, partial(compile_program, parts=parts))

    def _plan(self, spec: TrainingScenario, *, resplit: bool) -> Plan | None:
        """Return the plan of a scenario; None if matrix products need other splits and `resplit` is False."""
        workload_of = None if any(quantities(spec.model)) else self._workload_of
        job = training_job(spec, workload_of, self._fit)
        self._workload_of = job.workload_of
        model = self._costs(cost_model(job), resplit=resplit)
        return None if model is None else make_plan(job, model, advise=False)
