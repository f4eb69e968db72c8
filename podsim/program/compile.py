"""Compilation of a plan into a program: lanes, pipeline cycles and weight update, or the passes of an evaluation."""

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
"""Names of inputs of compiled parts: the costs of stages and updates, and the feed of each replica's first IPU."""
_Passes = Mapping[int, tuple[tuple[Phase, ...], tuple[Group, ...]]]
"""Phases of each replica, with the groups of I/O tiles that work for it."""


@no_search()
def compile_program(
    plan: Plan,
    *,
    explicit: bool = False,  # simulate every replica; otherwise one represents all equal replicas
    faults: Sequence[FaultSpec] = (),  # parts of the pod that are slower all the time; if any, `explicit` is implied
    parts: Parts | None = None,  # cache of the parts that a run shares with another run
    in_order: bool = False,
) -> Program:
    """Compile one weight update; `in_order`: keep phases in the order in which they run, as a timeline shows them."""
    explicit = explicit or bool(faults)
    feed = Feed(plan, replicas_of(plan, explicit=explicit), faults)
    program = _training(plan, explicit, feed, parts=parts or Parts(), in_order=in_order)
    return with_faults(program, plan.system, faults) if faults else program


@no_search()
def compile_noisy(plan: Plan, call: Call, *, explicit: bool = False) -> Program:
    """Compile one weight update with noise, to be repeated; unless `explicit`, one replica represents equal ones."""
    feed = Feed(plan, replicas_of(plan, explicit=explicit), is_repeated=True)
    return _training(plan, explicit, feed, Parts(), call)


def unsteady_updates(plan: Plan) -> int:
    """Return the number of weight updates before the prefetch buffers of the replicas reach a steady state."""
    return Feed(plan, replicas_of(plan)).steady_from - 1


def repeat_program(program: Program, jitters: Mapping[str, Jitter], updates: int, seed: int) -> Program:
    """Return the program with each group repeated `updates` times, and with jitter."""
    groups = tuple(replace(group, turns=updates) for group in program.groups)
    return replace(program, groups=groups, jitters=jitters, seed=seed)


def _training(
    plan: Plan, explicit: bool, feed: Feed, parts: Parts, call: Call | None = None, *, in_order: bool = False
) -> Program:
    """Compile the passes and the weight update of every replica."""
    uneven = not explicit and not replicas_of(plan).alike
    in_order = in_order or explicit or uneven

    def passes() -> _Passes:
        replicas = replicas_of(plan, explicit=explicit)
        return _passes(plan, replicas, feed, trains=True, in_order=in_order)

    def updates() -> dict[int, tuple[Phase, ...]]:
        replicas = replicas_of(plan, explicit=explicit)
        rings = Rings(plan, replicas)
        return {
            each: tuple(update_phases(plan, replicas, each, rings, in_order=in_order)) for each in replicas.simulated
        }

    replicas = replicas_of(plan, explicit=explicit)
    parts.register(FED, (feed.is_live, {each: feed.input_steps(each) for each in replicas.simulated}))
    cycles, update = parts.reuse("cycles", passes, PLANNED, FED), parts.reuse("updates", updates, PLANNED)
    program = _program(plan, replicas, feed, cycles, update, call or training_call(plan))
    return _unfolded(program) if uneven else program


def _unfolded(program: Program) -> Program:
    """Return a program in which every repetition is a separate phase, since unequal replicas do not run in step."""
    return replace(
        program,
        groups=tuple(
            replace(group, phases=tuple(replace(phase, count=1) for phase in group.phases for _ in range(phase.count)))
            for group in program.groups
        ),
    )


def _passes(plan: Plan, replicas: Replicas, feed: Feed, *, trains: bool, in_order: bool = False) -> _Passes:
    """Return the passes of all micro-batches of each replica, with groups of I/O tiles: pipeline cycles, or phases."""
    if plan.phases:
        return {
            each: Phases(plan, replicas, each, feed, trains=trains, in_order=in_order).groups()
            for each in replicas.simulated
        }
    timetable = Timetable(plan, trains=trains)
    return {
        each: (tuple(Pipeline(plan, replicas, each, timetable, feed, in_order=in_order).phases()), ())
        for each in replicas.simulated
    }


@no_search()
def compile_evaluation(plan: Plan) -> Program:
    """Compile the forward passes of as many micro-batches as a weight update has, and their call from the host."""
    call_s = plan.software.evaluation_call_s
    if call_s is None:
        what = f"{plan.software.name} does not say what a session call for an evaluation costs"
        raise MissingDataError(what, do="set `software.evaluation_call`, for example to `50 ms`", key="run.evaluation")
    replicas = replicas_of(plan)
    feed = Feed(plan, replicas)
    passes, updates = _passes(plan, replicas, feed, trains=False), dict.fromkeys(replicas.simulated, ())
    return _program(plan, replicas, feed, passes, updates, evaluation_call(plan, call_s))


def _program(
    plan: Plan,
    replicas: Replicas,
    feed: Feed,
    passes: _Passes,
    updates: Mapping[int, tuple[Phase, ...]],
    call: Call,
) -> Program:
    """Return the program of replicas, their I/O tiles, their feed, and the host processes that call them."""
    phases = {each: (*passes[each][0], *updates[each], call.phase(plan, replicas, each)) for each in replicas.simulated}
    groups = (_group(plan, replicas, each, phases[each], feed) for each in replicas.simulated)
    helpers = (
        replace(group, phases=_split_repetitions(replicas, group.phases, feed))
        for each in replicas.simulated
        for group in passes[each][1]
    )
    processes = call.processes(plan, replicas, feed.update_count)
    return Program((*groups, *helpers, *feed.groups(), *processes), feed.semaphores())


def replicas_of(plan: Plan, *, explicit: bool = False) -> Replicas:
    """Return the replicas that the program of a plan simulates."""
    return Replicas(plan.system, plan.layout, explicit, decodes=plan.workload.host_decode_count > 0)


def passes_one_by_one(plan: Plan) -> int:
    """Return the number of pipeline cycles of all lanes that are not folded, since replicas wait for host servers."""
    replicas = replicas_of(plan)
    feed, layout = Feed(plan, replicas), plan.layout
    lanes = len(replicas.simulated) * layout.ipus_per_replica
    return feed.update_count * layout.accumulation_factor * lanes if feed.is_live else 0


def _group(plan: Plan, replicas: Replicas, replica: int, phases: tuple[Phase, ...], feed: Feed) -> Group:
    phases = _split_repetitions(replicas, phases, feed)
    lanes = tuple(replicas.lanes(replica))
    return Group(f"replica{replica}", lanes, phases * feed.update_count, len(phases) * (feed.update_count - 1))


def _split_repetitions(replicas: Replicas, phases: tuple[Phase, ...], feed: Feed) -> tuple[Phase, ...]:
    """Separate the first repetition of each phase, in which replicas that start later wait for the others."""
    if replicas.alike:
        return phases
    return tuple(part for phase in phases for part in _split_phase(phase, one_by_one=feed.is_live))


def _split_phase(phase: Phase, *, one_by_one: bool) -> tuple[Phase, ...]:
    """Split a phase into single repetitions, or into the first and the rest."""
    if one_by_one:
        return (replace(phase, count=1),) * phase.count
    return tuple(replace(phase, count=count) for count in (1, phase.count - 1) if count)
