"""Runs with noise: weight updates one after the other in the engine, each run with a seed of its own.

What a run draws follows from the seed and the number of the run alone, so that the outcome is the same on any number of
processes and on both engines. Where the updates of all runs are more than the engine is asked for, the rest of each run
is drawn from the updates that were simulated, which are independent of one another but for what all of a run bears.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsim.draws import Noisy, Seeds, percentiles
from podsim.engine import Engine, execute
from podsim.errors import MissingDataError
from podsim.plan import Plan
from podsim.program.compile import compile_noisy, in_turns, unsteady_updates
from podsim.program.noise import NoisyCall
from podsim.program.size import Follow, unseen
from podsim.program.task import Program
from podsim.program.update import call_s
from podsim.specs import TrainingScenario
from podsim.training.epochs import EpochRun
from podsim.training.outcome import TrainingOutcome
from podsim.training.run import TrainingRun
from podsim.units import PS_PER_S, seconds_to_ps

EVENT_BUDGET: Final = 50_000_000
"""Events of all runs together that the engine is asked for, but one weight update of each run at least."""
_UPDATES_WITHOUT_END: Final = 1000
"""Weight updates of a run that a scenario gives no end."""
_EVENTS_PER_PROCESS: Final = 10_000_000
"""So many are worth the start of a process."""
_LARGE: Final = 1_000_000
"""Events of a weight update whose program takes so much memory that one at a time is enough."""
_ADDED_ONE_BY_ONE: Final = 10_000
"""Draws beyond which their sum is normally distributed."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """What all runs have in common.

    Attributes:
        program: One weight update.
        call: Its session call.
        updates: How many are simulated in each run.
        unsteady: How many come before these.
        seed: What the seeds of the runs are made of.
        explicit: Whether every machine and every pipeline cycle is simulated.
        engine: Which engine runs it.
    """

    program: Program
    call: NoisyCall
    updates: int
    unsteady: int
    seed: int
    explicit: bool
    engine: Engine


@dataclass(frozen=True, slots=True, eq=False)
class Updates:
    """The weight updates of one run.

    Attributes:
        times_s: Each of them. [s]
        level_s: What all of them take more or less than those of other runs. [s]
        event_count: Events that they took.
        engine: Which engine ran them.
    """

    times_s: Floats
    level_s: float
    event_count: int
    engine: str


def job_of(
    spec: TrainingScenario,
    plan: Plan,
    updates: int,
    seed: int = 0,
    *,
    explicit: bool = False,
    engine: Engine = "auto",
) -> Job:
    """Prepare runs.

    Args:
        spec: The scenario.
        plan: Its stages, update and layout.
        updates: Weight updates that are simulated in each run.
        seed: What the seeds of the runs are made of.
        explicit: Whether every machine and every pipeline cycle is simulated.
        engine: Which engine runs them.

    Raises:
        MissingDataError: Nothing is known of the noise of the software stack.
    """
    noise, layout = spec.software.noise, plan.layout
    if noise is None:
        what = f"nothing is known of the noise of {spec.software.name}"
        raise MissingDataError(what, do="add `--set 'software.noise={call_spread: 5 ms}'`, or leave --noise out")
    machines = machines_of(plan)
    call = NoisyCall(noise, seconds_to_ps(call_s(plan)), layout.updates_per_session_call, machines, apart=explicit)
    program = compile_noisy(plan, call.works, explicit=explicit)
    return Job(program, call, updates, unsteady_updates(plan), seed, explicit, engine)


def machines_of(plan: Plan) -> int:
    """Machines with an IPU of the run."""
    return -(-plan.layout.replication_factor * plan.layout.ipus_per_replica // plan.system.machine.ipu_count)


def run_updates(job: Job, number: int) -> Updates:
    """The weight updates of one run.

    Args:
        job: What all runs have in common.
        number: Which run, from 0 on.
    """
    generator = _generator(job.seed, number, "engine")
    levels = job.call.levels
    level_ps = int(levels[generator.integers(len(levels))])
    seed = int(generator.integers(1 << 63))
    program = in_turns(job.program, job.call.jitters(level_ps), job.updates + job.unsteady, seed)
    trace = execute(program, explicit=job.explicit, engine=job.engine)
    # A weight update ends where its last replica does.
    ends = np.max(np.array(list(trace.turns.values()), dtype=np.int64), axis=0)
    times_s = np.diff(ends, prepend=0)[job.unsteady :] / PS_PER_S
    return Updates(times_s, level_ps / PS_PER_S, trace.event_count, trace.engine)


def _generator(seed: int, number: int, purpose: str) -> np.random.Generator:
    return np.random.default_rng((seed, number, len(purpose)))


def all_runs(job: Job, count: int, event_count: int, follow: Follow = unseen, processes: int = 0) -> list[Updates]:
    """The weight updates of all runs, in order.

    Args:
        job: What they have in common.
        count: How many.
        event_count: Events of a weight update, roughly.
        follow: Is told of the events of all of them, and follows.
        processes: On how many processes; by default as many as pay.
    """
    total = event_count * (job.updates + job.unsteady) * count
    if not processes:
        most = 1 if event_count > _LARGE else total // _EVENTS_PER_PROCESS
        processes = max(1, min(os.cpu_count() or 1, count, most))
    looks = iter(follow(total))
    ahead, runs = next(looks, 0), []
    for run in _on_processes(job, count, processes):
        runs.append(run)
        ahead -= run.event_count
        while ahead <= 0 and (part := next(looks, 0)):
            ahead += part
    return runs


def _on_processes(job: Job, count: int, processes: int) -> Iterator[Updates]:
    if processes == 1:
        yield from (run_updates(job, number) for number in range(count))
        return
    with ProcessPoolExecutor(processes, initializer=_prepare, initargs=(job,)) as pool:
        yield from pool.map(_run_prepared, range(count))


_prepared: list[Job] = []


def _prepare(job: Job) -> None:
    _prepared[:] = [job]


def _run_prepared(number: int) -> Updates:
    return run_updates(_prepared[0], number)


def noisy(
    spec: TrainingScenario,
    plan: Plan,
    outcome: TrainingOutcome,
    update_s: float,
    event_count: int,
    seeds: Seeds,
    *,
    explicit: bool = False,
    engine: Engine = "auto",
    follow: Follow = unseen,
) -> Noisy:
    """Percentiles of a run with noise.

    Args:
        spec: The scenario.
        plan: Its stages, update and layout.
        outcome: Its run without noise, whose length those with noise have.
        update_s: A weight update without noise. [s]
        event_count: Events that it took.
        seeds: How many runs.
        explicit: Whether every machine and every pipeline cycle is simulated.
        engine: Which engine runs them.
        follow: Is told of the events of all of them, and follows.

    Raises:
        MissingDataError: Nothing is known of the noise of the software stack.
    """
    run, epoch = _updates_of_run(outcome, plan), _updates_of_epoch(spec, outcome)
    wanted, per_update = max(run or _UPDATES_WITHOUT_END, epoch or 0), max(1, event_count // (1 + unsteady_updates(plan)))
    updates = max(1, min(wanted, EVENT_BUDGET // (per_update * seeds.count)))
    job = job_of(spec, plan, updates, seeds.seed, explicit=explicit, engine=engine)
    runs = all_runs(job, seeds.count, per_update, follow)
    # What is common to a run does not hide what its updates differ by.
    pool = np.concatenate([each.times_s - each.level_s for each in runs])
    times_s = np.concatenate([each.times_s for each in runs])
    base_s = _time_to_train_s(outcome)
    return Noisy(
        seeds=seeds.count,
        seed=seeds.seed,
        engine=runs[0].engine,
        event_count=sum(each.event_count for each in runs),
        machines=machines_of(plan),
        run_updates=run,
        simulated_updates=updates,
        weight_update_s=percentiles(times_s.tolist()),
        mean_weight_update_s=float(np.mean(times_s)),
        jitter_s=float(np.std(pool)),
        waiting_s=job.call.wait_s,
        epoch_s=percentiles(_sums(runs, epoch, pool, seeds.seed)) if epoch else None,
        time_to_train_s=None
        if base_s is None or run is None
        else percentiles(base_s + each - run * update_s for each in _sums(runs, run, pool, seeds.seed)),
    )


def _sums(runs: Sequence[Updates], count: int, pool: Floats, seed: int) -> Iterator[float]:
    """So many weight updates of each run: those that were simulated, and the rest drawn from those of all runs. [s]"""
    mean_s, deviation_s = float(np.mean(pool)), float(np.std(pool))
    for number, run in enumerate(runs):
        known_s, rest = math.fsum(run.times_s[:count]), max(0, count - len(run.times_s))
        generator = _generator(seed, number, "rest of it")
        if rest > _ADDED_ONE_BY_ONE:
            drawn_s = generator.normal(rest * mean_s, math.sqrt(rest) * deviation_s)
        else:
            drawn_s = math.fsum(pool[generator.integers(len(pool), size=rest)])
        yield known_s + rest * run.level_s + drawn_s


def _updates_of_run(outcome: TrainingOutcome, plan: Plan) -> int | None:
    """Weight updates of a run on average, with those that evaluations in the training program go through."""
    if not outcome.runs:
        return None
    in_program = plan.software.evaluation == "training_program"
    return round(sum(each.update_count + in_program * _evaluating(each, outcome) for each in outcome.runs) / len(outcome.runs))


def _evaluating(run: TrainingRun | EpochRun, outcome: TrainingOutcome) -> int:
    """Calls of the training program that evaluate."""
    if isinstance(run, EpochRun) or outcome.schedule is None:
        return 0
    return run.evaluation_count * math.ceil(outcome.schedule.evaluation_samples / outcome.samples_per_update)


def _updates_of_epoch(spec: TrainingScenario, outcome: TrainingOutcome) -> int | None:
    """Weight updates of an epoch, in whole session calls where runs end with them."""
    if outcome.runs and isinstance(outcome.runs[0], EpochRun):
        return outcome.runs[0].updates_after(1)
    samples = spec.data.samples_per_epoch
    return math.ceil(samples / outcome.samples_per_update) if samples else None


def _time_to_train_s(outcome: TrainingOutcome) -> float | None:
    """Of the run without noise; the median of drawn ones. [s]"""
    return outcome.percentiles["p50"] if outcome.percentiles else outcome.time_to_train_s
