"""The few lines that join the stages for text generation: from a scenario to a result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from podsim.engine import Trace, execute
from podsim.errors import InfeasibleError, MissingDataError, PodsimError
from podsim.influence import StandsOn
from podsim.parallelism.choice import Choice
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
from podsim.specs import InferenceScenarioSpec, LoadedScenario, load_scenario
from podsim.watch import Watch, silent


def generate(
    scenario: str | Path | Mapping[str, object] | LoadedScenario,
    *,
    variant: str | None = None,
    overrides: Sequence[str] = (),
    explicit: bool = False,
    record: bool = False,
    influence: bool = False,
    watch: Watch = silent,
) -> GenerationResult:
    """Simulate text generation: the step that takes in a prompt, and the step that makes one more token.

    Args:
        scenario: Path, name of a shipped scenario, mapping, or a scenario already loaded.
        variant: One of the variants named in the file.
        overrides: `key.path=value` texts that replace keys of the scenario; laid over what a loaded one has.
        explicit: Simulate every layer; the result is the same, more slowly.
        record: Keep the timeline of a decode step, for `GenerationResult.trace`.
        influence: Measure all assumptions, those too for which products have to be planned anew, which takes longer.
        watch: Passes on the names of the steps in which `parallelism: auto` is chosen.

    Raises:
        SpecError: The scenario or a file it names is wrong; lists every problem with its place.
        DoesNotFitError: The model does not fit the memories.
        MissingDataError: A number that is needed is not known.
    """
    loaded = load_scenario(scenario, variant, overrides)
    if not isinstance(loaded.spec, InferenceScenarioSpec):
        raise PodsimError(f"{loaded.name} does not describe text generation", do="use podsim.simulate or podsim.infer")
    choice: Choice | None = None
    try:
        if loaded.auto is not None:
            from podsim.parallelism.auto import choose  # the search is large, and few runs need it

            loaded, choice = choose(loaded, watch)
        spec = loaded.spec
        assert isinstance(spec, InferenceScenarioSpec)
        asked = generation_job(spec)
        model = generation_cost_model(asked)
        steps = plan_generation(asked, model)
        prefill, decode = (
            execute(compile_step(plan, explicit=explicit), explicit=explicit, record=record)
            for plan in (steps.prefill, steps.decode)
        )
    except (InfeasibleError, MissingDataError) as error:
        raise error.at(loaded.where("parallelism")) from None
    return GenerationResult(
        **shared(
            loaded,
            one_copy(spec),
            StandsOn(spec, GenerationProbe(generation_job, model), anew=influence),
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
