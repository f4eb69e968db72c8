"""Text generation: from a scenario to the result of its two kinds of step."""

from __future__ import annotations

from functools import partial

from podsim.activity.settings import Settings, divided, placed
from podsim.engine import Trace, execute
from podsim.influence import StandsOn
from podsim.plan import Plan
from podsim.plan.generation import generation_cost_model, plan_generation
from podsim.plan.generation_job import generation_job
from podsim.probes import GenerationProbe
from podsim.program.generation import compile_step
from podsim.program.passes_in_order import step_passes
from podsim.program.transfers import STREAMING
from podsim.report.breakdown import mean_account
from podsim.report.generation import GenerationResult
from podsim.report.memory import memory_report
from podsim.report.phases import phase_times
from podsim.report.shared import shared
from podsim.report.step import StepReport, longest_stage_ps
from podsim.report.usage import one_copy
from podsim.report.warnings import misfits
from podsim.specs import GenerationScenario, LoadedScenario


def generation(loaded: LoadedScenario, settings: Settings) -> GenerationResult:
    """The step that takes in a prompt, and the step that makes one more token."""
    loaded.of(GenerationScenario)
    with placed(loaded):
        loaded, choice = divided(loaded, settings.watch)
        spec = loaded.of(GenerationScenario)
        job_of = partial(generation_job, fit=settings.fit)
        asked = job_of(spec)
        model = generation_cost_model(asked)
        steps = plan_generation(asked, model)
        prefill, decode = (
            execute(compile_step(plan, explicit=settings.explicit), explicit=settings.explicit, record=settings.record)
            for plan in (steps.prefill, steps.decode)
        )
    return GenerationResult(
        **shared(
            loaded,
            one_copy(spec),
            StandsOn(spec, GenerationProbe(job_of, model), anew=settings.influence),
            warnings=tuple(misfits(steps.memory)),
            choice=choice,
        ),
        batch_size=spec.generation.batch_size,
        batches_in_flight=spec.parallelism.batches_in_flight,
        output_tokens=spec.generation.output_tokens,
        prefill=_report("prefill", steps.prefill, prefill),
        decode=_report("decode", steps.decode, decode),
        memory=memory_report(steps.memory),
        event_count=prefill.event_count + decode.event_count,
        trace=decode if decode.records else None,
        passes=step_passes(steps.decode) if decode.records else None,
    )


def _report(name: str, plan: Plan, trace: Trace) -> StepReport:
    loads = [account.get(STREAMING, 0) for account in trace.helpers.values()]
    return StepReport(
        name=name,
        time_ps=trace.makespan_ps,
        breakdown_ps=mean_account(trace.lanes),
        phases=phase_times(trace.phases),
        loads_ps=sum(loads) // len(trace.lanes),
        longest_stage_ps=longest_stage_ps(plan, trace),
    )
