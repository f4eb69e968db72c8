"""Training on a pod with slow parts: one simulation for each period with the same faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podsim.engine import Engine, Trace, execute
from podsim.errors import DeadlockError, ModelError, PodsimError
from podsim.placement import Plan
from podsim.program.compile import compile_program
from podsim.program.faults import channels_of, slow_parts
from podsim.program.task import Program
from podsim.result.faults import FaultReport, StretchReport, waiting
from podsim.result.training_times import TrainingOutcome
from podsim.runs.settings import Settings
from podsim.runs.training import train
from podsim.scenario import TrainingScenario
from podsim.scenario.faults import FaultSpec
from podsim.units import ps_to_seconds


@dataclass(frozen=True, slots=True)
class Stretch:
    """Period of time spent on weight updates, since the start of the run, in which the faults do not change."""

    start_s: float  # begin of the period [s]
    end_s: float | None  # end of the period; None for the last one [s]
    faults: tuple[FaultSpec, ...]


def stretches_of(faults: Sequence[FaultSpec]) -> Iterator[Stretch]:
    """Yield the periods of a run with these faults, in order; a run without faults has one."""
    ends = {float(fault.end) for fault in faults if fault.end is not None}
    marks = sorted({0.0} | {float(fault.begin) for fault in faults} | ends)
    for start, end in zip(marks, [*marks[1:], None], strict=True):
        holding = (each for each in faults if each.begin <= start and (each.end is None or each.end > start))
        yield Stretch(start, end, tuple(holding))


def updates_in(stretches: Sequence[tuple[Stretch, float]], update_count: float) -> list[float]:
    """Return the number of weight updates in each period; an update across a boundary counts in parts.

    >>> fault = FaultSpec.model_validate({"ipu": 0, "clock": 0.5, "from": "10 s", "until": "30 s"})
    >>> updates_in([(each, 2.0 if each.faults else 1.0) for each in stretches_of([fault])], 25)
    [10.0, 10.0, 5.0]

    Args:
        stretches: Periods, each with the time of a weight update [s].
        update_count: Weight updates of the run.
    """
    counts, left = [], update_count
    for stretch, update_s in stretches:
        room = left if stretch.end_s is None else (stretch.end_s - stretch.start_s) / update_s
        counts.append(min(left, room))
        left -= counts[-1]
    return counts


@dataclass(frozen=True, slots=True)
class Degraded:
    """Result of a run on a pod with slow parts."""

    faults: tuple[FaultSpec, ...]  # faults of the period that the trace shows
    trace: Trace  # weight update of the period with the most updates
    outcome: TrainingOutcome  # the run with all its periods
    report: FaultReport
    warnings: tuple[str, ...]  # faults without effect


def degraded(spec: TrainingScenario, plan: Plan, settings: Settings) -> Degraded:
    """Run a scenario with faults."""
    if settings.noise is not None:
        raise PodsimError("runs with faults have no noise yet", do="leave `faults` or the noise out")
    engine, record = settings.engine, settings.record
    healthy = execute(compile_program(plan, explicit=True), engine=engine)
    stretches = list(stretches_of(spec.faults))
    # With faults, replicas differ, and all have to be simulated.
    programs = [compile_program(plan, explicit=True, faults=stretch.faults) for stretch in stretches]
    traces = [_update(program, engine, record=record) for program in programs]
    times_s = [ps_to_seconds(trace.makespan_ps) for trace in traces]
    timed = list(zip(stretches, times_s, strict=True))
    update_count = train(spec, plan, times_s[0]).update_count
    counts = updates_in(timed, update_count) if update_count else None
    shown = max(range(len(stretches)), key=lambda number: counts[number]) if counts else 0
    mean_s = times_s[0]
    if counts and update_count:
        mean_s = sum(count * time_s for count, time_s in zip(counts, times_s, strict=True)) / update_count
    report = FaultReport(
        ps_to_seconds(healthy.makespan_ps),
        tuple(_stretches(timed, counts)),
        shown,
        waiting(healthy, traces[shown]),
    )
    warnings = tuple(_unfelt(spec.faults, plan, programs))
    return Degraded(stretches[shown].faults, traces[shown], train(spec, plan, mean_s), report, warnings)


def _update(program: Program, engine: Engine, *, record: bool) -> Trace:
    """Simulate a weight update of every IPU."""
    try:
        return execute(program, record=record, engine=engine)
    except DeadlockError as error:
        raise ModelError(error.message, do=error.do or "", key="faults") from None


def _unfelt(faults: Sequence[FaultSpec], plan: Plan, programs: Sequence[Program]) -> Iterator[str]:
    """Yield a warning for each fault of a part that no work and no transfer of a weight update needs."""
    used = {name for program in programs for name in (*program.lanes, *channels_of(program))}
    for fault in faults:
        if used.isdisjoint(slow_parts(fault, plan.system, used)):
            yield f"nothing in a weight update needs {fault.name}, so that its fault changes nothing"


def _stretches(timed: Sequence[tuple[Stretch, float]], counts: Sequence[float] | None) -> list[StretchReport]:
    return [
        StretchReport(
            stretch.start_s,
            stretch.end_s,
            tuple(fault.text for fault in stretch.faults),
            time_s,
            None if counts is None else counts[number],
        )
        for number, (stretch, time_s) in enumerate(timed)
    ]
