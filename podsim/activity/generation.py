"""Text generation: from a scenario to the result of its two kinds of step."""

from __future__ import annotations

from podsim.activity.settings import Settings, divided, placed
from podsim.engine import Trace, execute
from podsim.influence import StandsOn
from podsim.plan.inference import InferencePlan, StepCost, inference_cost_model, plan_inference
from podsim.plan.inference_job import inference_job
from podsim.probes import GenerationProbe
from podsim.program.inference import compile_step
from podsim.program.passes_in_order import step_passes
from podsim.program.transfers import STREAMING
from podsim.report.breakdown import mean_account
from podsim.report.generation import GenerationResult
from podsim.report.memory import memory_report
from podsim.report.phases import phase_times
from podsim.report.shared import shared
from podsim.report.step import StepReport, longest_stage_ps
from podsim.report.usage import one_copy
from podsim.specs import GenerationScenario, LoadedScenario


def generation(loaded: LoadedScenario, settings: Settings) -> GenerationResult:
    """The step that takes in a prompt, and the step that makes one more token."""
    loaded.of(GenerationScenario)
    with placed(loaded):
        loaded, choice = divided(loaded, settings.watch)
        spec = loaded.of(GenerationScenario)
        job = inference_job(spec)
        model = inference_cost_model(job)
        plan = plan_inference(job, model)
        prefill, decode = (
            execute(
                compile_step(plan, cost, explicit=settings.explicit), explicit=settings.explicit, record=settings.record
            )
            for cost in (plan.prefill, plan.decode)
        )
    return GenerationResult(
        **shared(
            loaded,
            one_copy(spec),
            StandsOn(spec, GenerationProbe(inference_job, model), anew=settings.influence),
            choice=choice,
        ),
        batch_size=spec.generation.batch_size,
        batches_in_flight=spec.parallelism.batches_in_flight,
        output_tokens=spec.generation.output_tokens,
        prefill=_report(plan, plan.prefill, prefill),
        decode=_report(plan, plan.decode, decode),
        memory=memory_report(plan.memory),
        event_count=prefill.event_count + decode.event_count,
        trace=decode if decode.records else None,
        passes=step_passes(plan) if decode.records else None,
    )


def _report(plan: InferencePlan, cost: StepCost, trace: Trace) -> StepReport:
    loads = [account.get(STREAMING, 0) for account in trace.helpers.values()]
    return StepReport(
        name=cost.name,
        time_ps=trace.makespan_ps,
        breakdown_ps=mean_account(trace.lanes),
        phases=phase_times(trace.phases),
        loads_ps=sum(loads) // len(trace.lanes),
        longest_stage_ps=longest_stage_ps(plan, cost, trace),
    )
