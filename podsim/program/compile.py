"""From a plan to a program: lanes, pipeline cycles and the weight update, or those of an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from podsim.errors import MissingDataError
from podsim.garbage import no_search
from podsim.placement.plan import Plan
from podsim.program.faults import with_faults
from podsim.program.feed import Feed
from podsim.program.host import Call, evaluation_call, training_call
from podsim.program.passes import Pipeline, Timetable
from podsim.program.phases import Phases
from podsim.program.replicas import Replicas
from podsim.program.task import Group, Jitter, Phase, Program
from podsim.program.update import Rings, update_phases
from podsim.scenario.assumptions import Parts
from podsim.scenario.faults import FaultSpec

PLANNED, FED = "planned", "fed"
"""Parts that others are made of: what stages and updates cost, and what reaches the first IPU of each replica."""
_Passes = Mapping[int, tuple[tuple[Phase, ...], tuple[Group, ...]]]
"""Of each replica, and the groups of tiles that help it."""


@no_search()
def compile_program(
    plan: Plan,
    *,
    explicit: bool = False,  # keep every replica; otherwise one stands for all that nothing distinguishes
    faults: Sequence[FaultSpec] = (),  # parts of the pod that are slower all the time; with any, every replica is kept
    parts: Parts | None = None,  # knows what of it is as in another run
    in_order: bool = False,
) -> Program:
    """One weight update as tasks; `in_order`: phases as they run, as a timeline shows them, not folded."""
    explicit = explicit or bool(faults)
    feed = Feed(plan, replicas_of(plan, explicit=explicit), faults)
    program = _training(plan, explicit, feed, parts=parts or Parts(), in_order=in_order)
    return with_faults(program, plan.system, faults) if faults else program


@no_search()
def compile_noisy(plan: Plan, call: Call, *, explicit: bool = False) -> Program:
    """One weight update with noise, gone through again and again; unless `explicit`, replicas alike are one."""
    feed = Feed(plan, replicas_of(plan, explicit=explicit), is_repeated=True)
    return _training(plan, explicit, feed, Parts(), call)


def unsteady_updates(plan: Plan) -> int:
    """Weight updates at the start of a run until what is buffered in front of replicas is in a steady state."""
    return Feed(plan, replicas_of(plan)).steady_from - 1


def in_turns(program: Program, jitters: Mapping[str, Jitter], updates: int, seed: int) -> Program:
    """A program that is gone through again and again."""
    groups = tuple(replace(group, turns=updates) for group in program.groups)
    return replace(program, groups=groups, jitters=jitters, seed=seed)


def _training(
    plan: Plan, explicit: bool, feed: Feed, parts: Parts, call: Call | None = None, *, in_order: bool = False
) -> Program:
    """Passes and weight update of every replica, each with replicas of its own, whose routes it looks up."""
    uneven = not explicit and not replicas_of(plan).alike
    in_order = in_order or explicit or uneven

    def passes() -> _Passes:
        replicas = replicas_of(plan, explicit=explicit)
        return _passes(plan, replicas, feed, trains=True, in_order=in_order)

    def updates() -> dict[int, tuple[Phase, ...]]:
        replicas = replicas_of(plan, explicit=explicit)
        rings = Rings(plan, replicas)
        return {each: tuple(update_phases(plan, replicas, each, rings, in_order=in_order)) for each in replicas.kept}

    replicas = replicas_of(plan, explicit=explicit)
    parts.register(FED, (feed.is_live, {each: feed.input_steps(each) for each in replicas.kept}))
    cycles, update = parts.reuse("cycles", passes, PLANNED, FED), parts.reuse("updates", updates, PLANNED)
    program = _program(plan, replicas, feed, cycles, update, call or training_call(plan))
    return _written_out(program) if uneven else program


def _written_out(program: Program) -> Program:
    """Every repetition as a phase of its own: replicas that share links in other ways do not start them together."""
    return replace(
        program,
        groups=tuple(
            replace(group, phases=tuple(replace(phase, count=1) for phase in group.phases for _ in range(phase.count)))
            for group in program.groups
        ),
    )


def _passes(plan: Plan, replicas: Replicas, feed: Feed, *, trains: bool, in_order: bool = False) -> _Passes:
    """The passes of all micro-batches of each replica, and groups of tiles that help: pipeline cycles, or phases."""
    if plan.phases:
        return {
            each: Phases(plan, replicas, each, feed, trains=trains, in_order=in_order).groups()
            for each in replicas.kept
        }
    timetable = Timetable(plan, trains=trains)
    return {
        each: (tuple(Pipeline(plan, replicas, each, timetable, feed, in_order=in_order).phases()), ())
        for each in replicas.kept
    }


@no_search()
def compile_evaluation(plan: Plan) -> Program:
    """The forward passes of as many micro-batches as a weight update has, and their call from the host."""
    call_s = plan.software.evaluation_call_s
    if call_s is None:
        what = f"{plan.software.name} does not say what a session call for an evaluation costs"
        raise MissingDataError(what, do="set `software.evaluation_call`, for example to `50 ms`", key="run.evaluation")
    replicas = replicas_of(plan)
    feed = Feed(plan, replicas)
    passes, updates = _passes(plan, replicas, feed, trains=False), dict.fromkeys(replicas.kept, ())
    return _program(plan, replicas, feed, passes, updates, evaluation_call(plan, call_s))


def _program(
    plan: Plan,
    replicas: Replicas,
    feed: Feed,
    passes: _Passes,
    updates: Mapping[int, tuple[Phase, ...]],
    call: Call,
) -> Program:
    """Replicas with what helps and feeds them, and the processes that call them."""
    phases = {each: (*passes[each][0], *updates[each], call.phase(plan, replicas, each)) for each in replicas.kept}
    groups = (_group(plan, replicas, each, phases[each], feed) for each in replicas.kept)
    helpers = (
        replace(group, phases=_apart(replicas, group.phases, feed))
        for each in replicas.kept
        for group in passes[each][1]
    )
    processes = call.processes(plan, replicas, feed.update_count)
    return Program((*groups, *helpers, *feed.groups(), *processes), feed.semaphores())


def replicas_of(plan: Plan, *, explicit: bool = False) -> Replicas:
    """The replicas that a program of this plan holds."""
    return Replicas(plan.system, plan.layout, explicit, decodes=plan.workload.host_decode_count > 0)


def passes_one_by_one(plan: Plan) -> int:
    """Pipeline cycles of all lanes that are not folded: those of replicas that wait for host servers."""
    replicas = replicas_of(plan)
    feed, layout = Feed(plan, replicas), plan.layout
    lanes = len(replicas.kept) * layout.ipus_per_replica
    return feed.update_count * layout.accumulation_factor * lanes if feed.is_live else 0


def _group(plan: Plan, replicas: Replicas, replica: int, phases: tuple[Phase, ...], feed: Feed) -> Group:
    phases = _apart(replicas, phases, feed)
    lanes = tuple(replicas.lanes(replica))
    return Group(f"replica{replica}", lanes, phases * feed.update_count, len(phases) * (feed.update_count - 1))


def _apart(replicas: Replicas, phases: tuple[Phase, ...], feed: Feed) -> tuple[Phase, ...]:
    """Phases whose repetitions are alike; replicas that come later meet the others in the first, unlike the rest."""
    if replicas.alike:
        return phases
    return tuple(part for phase in phases for part in _repetitions(phase, one_by_one=feed.is_live))


def _repetitions(phase: Phase, *, one_by_one: bool) -> tuple[Phase, ...]:
    """All repetitions of a phase apart, or the first and the rest of them."""
    if one_by_one:
        return (replace(phase, count=1),) * phase.count
    return tuple(replace(phase, count=count) for count in (1, phase.count - 1) if count)
