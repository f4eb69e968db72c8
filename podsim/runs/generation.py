"""Text generation: from a scenario to the results of prefill and decode steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from podsim.engine import Trace, execute
from podsim.metrics import TOKENS
from podsim.placement import Plan
from podsim.placement.generation import Generation, generation_cost_model, generation_job, plan_generation
from podsim.placement.stage_cost import product_rates
from podsim.program.generation import compile_step
from podsim.program.passes_in_order import step_passes
from podsim.program.prices import generation_calls, task_prices
from podsim.program.transfers import STREAMING
from podsim.result.breakdown import mean_account
from podsim.result.inference import GenerationResult
from podsim.result.influence import Measure, StandsOn
from podsim.result.rows import memory_report, phase_times
from podsim.result.shared import shared
from podsim.result.sources import sources
from podsim.result.step import StepReport
from podsim.result.usage import one_copy
from podsim.runs.probes import BaseProbe
from podsim.runs.settings import Settings, divided, placed
from podsim.runs.warnings import misfits
from podsim.scenario import GenerationScenario, LoadedScenario
from podsim.search.decoder import longest_stage_ps
from podsim.tiles.model import CostModel
from podsim.units import ps_to_seconds


def generation(loaded: LoadedScenario, settings: Settings) -> GenerationResult:
    """Simulate a prefill and a decode step of a scenario, and return the result of text generation."""
    loaded.require(GenerationScenario)
    with placed(loaded):
        loaded, choice = divided(loaded, settings.watch)
        spec = loaded.require(GenerationScenario)
        job_of = partial(generation_job, fit=settings.fit)
        job = job_of(spec)
        model = generation_cost_model(job)
        steps = plan_generation(job, model)
        prefill, decode = (
            execute(
                compile_step(plan, explicit=settings.explicit),
                explicit=settings.explicit,
                record=settings.record,
                engine=settings.engine,
            )
            for plan in (steps.prefill, steps.decode)
        )
    return GenerationResult(
        **shared(
            loaded,
            one_copy(spec),
            StandsOn(spec, GenerationProbe(job_of, model), resplit=settings.influence),
            warnings=tuple(misfits(steps.memory)),
            choice=choice,
        ),
        batch_size=spec.generation.batch_size,
        batches_in_flight=spec.parallelism.batches_in_flight,
        output_tokens=spec.generation.output_tokens,
        prefill=step_report("prefill", spec, steps.prefill, prefill),
        decode=step_report("decode", spec, steps.decode, decode),
        memory=memory_report(steps.memory),
        event_count=prefill.event_count + decode.event_count,
        engine=decode.engine,
        trace=decode if decode.records else None,
        passes=step_passes(steps.decode) if decode.records else None,
        program=partial(compile_step, steps.decode, explicit=True) if decode.records else None,
    )


def step_report(name: str, spec: GenerationScenario, plan: Plan, trace: Trace) -> StepReport:
    """Return the report of a simulated step: its time with its breakdown, phases, loads and sources."""
    breakdown_ps = mean_account(trace.lanes)
    loads = [account.get(STREAMING, 0) for account in trace.helpers.values()]
    loads += (
        time_ps
        for lane in trace.helpers
        for (kind, _), time_ps in trace.shared.get(lane, {}).items()
        if kind == STREAMING
    )
    return StepReport(
        name=name,
        time_ps=trace.makespan_ps,
        breakdown_ps=breakdown_ps,
        phases=phase_times(trace.phases),
        loads_ps=sum(loads) // len(trace.lanes),
        longest_stage_ps=longest_stage_ps(plan, trace),
        sources=sources(spec, lambda: task_prices(compile_step(plan), plan, generation_calls(plan)), breakdown_ps),
        products=product_rates(plan.stages, plan.system.machine.ipu.clock_hz),
    )


class GenerationProbe(BaseProbe):
    """Probe of text generation and of serving; its metric is the rate of tokens of full batches."""

    metric = TOKENS
    _KEPT = ("_job_of",)

    def __init__(self, job_of: Callable[[GenerationScenario], Generation], model: CostModel) -> None:
        super().__init__(model)
        self._job_of = job_of

    def __call__(self, spec: GenerationScenario, *, resplit: bool) -> Measure | None:
        """Simulate a prefill and a decode step.

        Return None if matrix products need other splits and `resplit` is False.
        """
        job = self._job_of(spec)
        model = self._costs(generation_cost_model(job), resplit=resplit)
        if model is None:
            return None
        steps = plan_generation(job, model, advise=False)
        prefill, decode = compile_step(steps.prefill), compile_step(steps.decode)
        others = (prefill, decode, steps.memory)
        trace = self._traces.trace_of(decode)
        in_flight = job.layout.batches_in_flight
        interval_ps = max(trace.makespan_ps, in_flight * longest_stage_ps(steps.decode, trace))
        interval_s = ps_to_seconds(interval_ps)
        rate = in_flight * job.layout.micro_batch_size / interval_s
        first_s = ps_to_seconds(self._second.trace_of(prefill).makespan_ps)
        metrics = {
            self.metric: rate,
            "time_per_output_token_s": interval_s,
            "time_to_first_token_s": first_s,
            "latency_s": first_s + (job.output_tokens - 1) * interval_s,
        }
        return Measure(rate, others, metrics)
