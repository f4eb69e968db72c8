"""The few lines that join the stages: from a scenario to a result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from podsim.engine import Trace, execute
from podsim.errors import InfeasibleError, MissingDataError, ModelError, PodsimError
from podsim.influence import StandsOn
from podsim.parallelism.choice import Choice
from podsim.plan import Plan, make_plan
from podsim.plan.job import training_job
from podsim.plan.plan import cost_model
from podsim.plan.stage_cost import StageCost
from podsim.probes import TrainingProbe
from podsim.program.compile import compile_program, replicas_of
from podsim.program.passes_in_order import training_passes
from podsim.program.size import Follow, explicit_event_count, unseen
from podsim.report.breakdown import mean_account
from podsim.report.memory import memory_report
from podsim.report.phases import phase_times
from podsim.report.result import RunResult
from podsim.report.rows import IpuAccount, OperationRow
from podsim.report.shared import shared
from podsim.report.usage import replicas_in_use
from podsim.report.warnings import warnings_of
from podsim.specs import ForwardScenarioSpec, InferenceScenarioSpec, LoadedScenario, load_scenario
from podsim.training import TrainingOutcome, train
from podsim.units import ps_to_seconds
from podsim.watch import Watch, silent


def simulate(
    scenario: str | Path | Mapping[str, object] | LoadedScenario,
    *,
    variant: str | None = None,
    overrides: Sequence[str] = (),
    explicit: bool = False,
    record: bool = False,
    influence: bool = False,
    watch: Watch = silent,
    follow: Follow = unseen,
) -> RunResult:
    """Simulate one weight update of a scenario and the run it belongs to.

    Args:
        scenario: Path, name of a shipped scenario, mapping, or a scenario already loaded.
        variant: One of the variants named in the file.
        overrides: `key.path=value` texts that replace keys of the scenario; laid over what a loaded one has.
        explicit: Simulate every IPU of every replica; the result is the same, more slowly.
        record: Keep the timeline, for `RunResult.trace`.
        influence: Measure all assumptions, those too for which products have to be planned anew, which takes longer.
        watch: Passes on the names of the steps in which `parallelism: auto` is chosen.
        follow: Is told the rough number of events of an explicit simulation before it starts, and follows it.

    Raises:
        SpecError: The scenario or a file it names is wrong; lists every problem with its place.
        ModelError: The dimensions of the model do not go together.
        DoesNotFitError: A replica does not fit its IPUs' memory.
        MissingDataError: A number that is needed is not known.
    """
    loaded = load_scenario(scenario, variant, overrides)
    if isinstance(loaded.spec, InferenceScenarioSpec):
        raise PodsimError(f"{loaded.name} describes text generation", do="use podsim.generate")
    if isinstance(loaded.spec, ForwardScenarioSpec):
        raise PodsimError(f"{loaded.name} describes forward passes", do="use podsim.infer")
    choice: Choice | None = None
    try:
        if loaded.auto is not None:
            from podsim.parallelism.auto import choose  # the search is large, and few runs need it

            loaded, choice = choose(loaded, watch)
        spec = loaded.spec
        assert not isinstance(spec, InferenceScenarioSpec | ForwardScenarioSpec)
        job = training_job(spec)
        model = cost_model(job)
        plan = make_plan(job, model)
        seen = follow(explicit_event_count(compile_program(plan), replicas_of(plan))) if explicit else ()
        program = compile_program(plan, explicit=explicit)
        trace = execute(program, explicit=explicit, record=record, watch=seen)
        outcome = train(spec, plan, ps_to_seconds(trace.makespan_ps))
    except (ModelError, MissingDataError) as error:
        raise error.at(loaded.where(*error.key.split("."))) from None
    except InfeasibleError as error:
        raise error.at(loaded.where("parallelism")) from None
    known = None if explicit else (program, trace)
    stands_on = StandsOn(spec, TrainingProbe(job, model, outcome, known), anew=influence)
    return _result(loaded, plan, trace, outcome, stands_on, choice)


def _result(
    loaded: LoadedScenario,
    plan: Plan,
    trace: Trace,
    outcome: TrainingOutcome,
    stands_on: StandsOn,
    choice: Choice | None,
) -> RunResult:
    update_s = ps_to_seconds(trace.makespan_ps)
    return RunResult(
        **shared(
            loaded,
            replicas_in_use(loaded.spec),
            stands_on,
            warnings=tuple(warnings_of(plan, trace)),
            choice=choice,
        ),
        throughput_samples_per_s=outcome.samples_per_update / update_s,
        weight_update_ps=trace.makespan_ps,
        breakdown_ps=mean_account(trace.lanes),
        mfu=model_flop_utilization(plan, update_s),
        time_to_train_s=outcome.time_to_train_s,
        time_to_train_percentiles=outcome.percentiles,
        run_breakdown=outcome.breakdown,
        phases=phase_times(trace.phases),
        ipus=_ipus(plan, trace),
        memory=memory_report(plan.memory),
        operations=_operations(plan),
        event_count=trace.event_count,
        trace=trace if trace.records else None,
        passes=training_passes(plan) if trace.records else None,
    )


def model_flop_utilization(plan: Plan, update_s: float) -> float:
    """Model work of one weight update over the peak of the IPUs that run it."""
    layout, ipu = plan.layout, plan.system.machine.ipu
    micro_batches = layout.accumulation_factor * layout.replication_factor
    ipus = layout.ipus_per_replica * layout.replication_factor
    peak = ipus * ipu.peak_flop_per_s(plan.workload.activation_dtype)
    return plan.workload.training_flop * micro_batches / (peak * update_s)


def _ipus(plan: Plan, trace: Trace) -> tuple[IpuAccount, ...]:
    """The IPUs of the first replica."""
    labels: dict[int, list[str]] = {}
    for cost in plan.stages:
        for ipu in cost.stage.ipus:
            labels.setdefault(ipu, []).append(cost.stage.label)
    return tuple(
        IpuAccount(ipu, f"ipu{ipu}", "; ".join(labels[ipu]), trace.lanes[f"ipu{ipu}"])
        for ipu in range(plan.layout.ipus_per_replica)
    )


def _operations(plan: Plan) -> tuple[OperationRow, ...]:
    """Every operation of every stage with its time in one weight update of one replica."""
    return tuple(
        row for cost in plan.stages for name, count in cost.stage.blocks for row in _block(plan, cost, name, count)
    )


def _block(plan: Plan, cost: StageCost, name: str, count: int) -> Iterator[OperationRow]:
    clock, factor = plan.system.machine.ipu.clock_hz, plan.layout.accumulation_factor
    block = cost.blocks[name]
    redone = sum(segment.count * segment.blocks.count(name) for segment in cost.recomputed)
    passes = (
        ("forward", block.forward, count),
        ("recompute", block.forward, redone),
        ("backward", block.backward, count),
    )
    for kind, costs, repeats in passes:
        runs = repeats * factor
        for each in costs if runs else ():
            seconds = {part: cycles * runs / clock for part, cycles in each.account.parts()}
            yield OperationRow(f"stage {cost.stage.index}", name, kind, each.op.name, runs, seconds)
