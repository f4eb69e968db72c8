"""Forward passes: from a scenario to the result of one batch, and of session calls of many batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from podsim.engine import Trace, execute
from podsim.lazy import LazySequence
from podsim.metrics import THROUGHPUT
from podsim.models import Workload
from podsim.options import Fit
from podsim.placement import Plan, make_plan
from podsim.placement.forward_job import forward_job
from podsim.placement.plan import cost_model, shared_cost_model
from podsim.placement.stage_cost import product_rates
from podsim.program.forward import compile_calls, compile_one_batch
from podsim.program.passes_in_order import forward_passes
from podsim.program.prices import FORWARD_CALLS, task_prices
from podsim.program.replicas import Replicas
from podsim.program.size import explicit_event_count
from podsim.program.task import Program
from podsim.result.breakdown import mean_account
from podsim.result.inference import ForwardResult
from podsim.result.influence import Measure, StandsOn
from podsim.result.rows import IpuAccount, OperationRow, memory_report, phase_times
from podsim.result.shared import shared
from podsim.result.sources import sources
from podsim.result.step import StepReport
from podsim.result.usage import replicas_in_use
from podsim.runs.probes import BaseProbe
from podsim.runs.settings import Settings, placed
from podsim.runs.warnings import misfits, waits
from podsim.scenario import ForwardScenario, LoadedScenario
from podsim.scenario.families.base import Reading
from podsim.tiles.model import CostModel
from podsim.units import ps_to_seconds


def passes(loaded: LoadedScenario, settings: Settings) -> ForwardResult:
    """Simulate one batch in an idle replica and a session call of many batches; return the result of forward passes."""
    spec = loaded.require(ForwardScenario)
    model = spec.model.read(spec, loaded.folder, settings.watch)
    with placed(loaded):
        job = forward_job(spec, model.workload, settings.fit)
        costs = shared_cost_model(job)
        plan = make_plan(job, costs)
        batch = execute(compile_one_batch(plan))
        progress = _progress(plan, settings)
        program = compile_calls(plan, explicit=settings.explicit)
        call = execute(
            program, explicit=settings.explicit, record=settings.record, watch=progress, engine=settings.engine
        )
    stands_on = StandsOn(spec, ForwardProbe(model.workload, costs, settings.fit), resplit=settings.influence)
    return _result(loaded, spec, model, plan, batch, call, stands_on)


def _progress(plan: Plan, settings: Settings) -> Iterable[int]:
    """Return the numbers of events between updates of a progress bar; none unless the simulation is explicit."""
    if not settings.explicit:
        return ()
    replicas = Replicas(plan.system, plan.layout, explicit=False)
    return settings.follow(explicit_event_count(compile_calls(plan), replicas))


def _result(
    loaded: LoadedScenario,
    spec: ForwardScenario,
    model: Reading,
    plan: Plan,
    batch: Trace,
    call: Trace,
    stands_on: StandsOn,
) -> ForwardResult:
    layout, ipu = plan.layout, plan.system.machine.ipu
    peak = layout.replication_factor * layout.ipus_per_replica * ipu.peak_flop_per_s(plan.workload.product_dtype)
    return ForwardResult(
        **shared(
            loaded,
            replicas_in_use(spec),
            stands_on,
            warnings=(
                *model.warnings,
                *misfits(plan.memory),
                *waits(plan, Replicas(plan.system, plan.layout, explicit=False), call),
            ),
            files=model.files,
        ),
        samples_per_batch=plan.workload.samples_per_micro_batch,
        batches_per_call=layout.accumulation_factor,
        replication_factor=layout.replication_factor,
        parameter_count=plan.workload.parameter_count,
        flop_per_batch=plan.workload.forward_flop,
        peak_flop_per_s=peak,
        batch=_step("batch", spec, plan, compile_one_batch, batch),
        call=_step("call", spec, plan, compile_calls, call),
        ipus=tuple(_account(ipu, cost.stage.label, call) for cost in plan.stages for ipu in cost.stage.ipus),
        memory=memory_report(plan.memory),
        operations=LazySequence(lambda: _operations(plan)),
        event_count=batch.event_count + call.event_count,
        engine=call.engine,
        trace=call if call.records else None,
        passes=forward_passes(plan) if call.records else None,
        program=partial(compile_calls, plan, explicit=True) if call.records else None,
    )


def _step(
    name: str, spec: ForwardScenario, plan: Plan, program_of: Callable[[Plan], Program], trace: Trace
) -> StepReport:
    breakdown_ps = mean_account(trace.lanes)
    time_sources = sources(spec, lambda: task_prices(program_of(plan), plan, FORWARD_CALLS), breakdown_ps)
    products = product_rates(plan.stages, plan.system.machine.ipu.clock_hz)
    phases = phase_times(trace.phases)
    return StepReport(name, trace.makespan_ps, breakdown_ps, phases, sources=time_sources, products=products)


def _account(ipu: int, label: str, trace: Trace) -> IpuAccount:
    return IpuAccount(ipu, f"ipu{ipu}", label, trace.lanes[f"ipu{ipu}"])


def _operations(plan: Plan) -> Iterator[OperationRow]:
    """Yield every operation of every stage with its time for one batch."""
    clock = plan.system.machine.ipu.clock_hz
    for cost in plan.stages:
        for name, count in cost.stage.blocks:
            for operation in cost.blocks[name].forward:
                seconds = {part: cycles * count / clock for part, cycles in operation.account.parts()}
                yield OperationRow(f"stage {cost.stage.index}", name, "forward", operation.op.name, count, seconds)


class ForwardProbe(BaseProbe):
    """Probe of forward passes: samples per second of session calls."""

    metric = THROUGHPUT
    _KEPT = ("_workload", "_fit")

    def __init__(self, workload: Workload, model: CostModel, fit: Fit = "refuse") -> None:
        super().__init__(model)
        self._workload, self._fit = workload, fit

    def __call__(self, spec: ForwardScenario, *, resplit: bool) -> Measure | None:
        """Simulate one batch and a session call.

        Return None if matrix products need other splits and `resplit` is False.
        """
        job = forward_job(spec, self._workload, self._fit)
        model = self._costs(cost_model(job), resplit=resplit)
        if model is None:
            return None
        plan = make_plan(job, model, advise=False)
        batch, call = compile_one_batch(plan), compile_calls(plan)
        trace = self._traces.trace_of(call)
        others = (batch, call, plan.memory)
        batches = plan.layout.accumulation_factor * plan.layout.replication_factor
        rate = batches * plan.workload.samples_per_micro_batch / ps_to_seconds(trace.makespan_ps)
        latency_s = ps_to_seconds(self._second.trace_of(batch).makespan_ps)
        return Measure(rate, others, {self.metric: rate, "latency_s": latency_s})
