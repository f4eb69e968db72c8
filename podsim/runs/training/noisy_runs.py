"""Runs with noise in the engine: weight updates one after the other, each run with a seed of its own.

What a run draws follows from the seed and the number of the run alone, so that the outcome is the same on any number of
processes and on both engines.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsim.engine import Engine, execute
from podsim.errors import MissingDataError
from podsim.garbage import no_search
from podsim.placement import Plan
from podsim.program.compile import compile_noisy, in_turns, unsteady_updates
from podsim.program.host import training_call
from podsim.program.noise import NoisyCall
from podsim.program.size import Follow, unseen
from podsim.program.task import Program
from podsim.program.update import machines_of
from podsim.scenario import TrainingScenario
from podsim.units import PS_PER_S
from podsim.workers import mapped

_EVENTS_PER_PROCESS: Final = 10_000_000
"""So many are worth the start of a process."""
_LARGE: Final = 1_000_000
"""Events of a weight update whose program takes so much memory that one at a time is enough."""
_SEEDS: Final = 2**63
"""So many has the engine."""
IN_ENGINE, BEYOND = range(2)
"""What random numbers are for, so that none are used twice."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RunSeries:
    """What all runs have in common."""

    program: Program  # one weight update
    call: NoisyCall
    updates: int
    unsteady: int  # how many come before these
    seed: int
    explicit: bool  # whether every machine and every pipeline cycle is simulated
    engine: Engine


@dataclass(frozen=True, slots=True, eq=False)
class Updates:
    """The weight updates of one run."""

    times_s: Floats
    level_s: float  # what all of them take more or less than those of other runs [s]
    event_count: int
    engine: str


@no_search()
def job_of(
    spec: TrainingScenario,
    plan: Plan,
    updates: int,
    seed: int = 0,
    *,
    explicit: bool = False,  # whether every machine and every pipeline cycle is simulated
    engine: Engine = "auto",
) -> RunSeries:
    """Prepare runs."""
    noise, layout = spec.software.noise, plan.layout
    if noise is None:
        what = f"nothing is known of the noise of {spec.software.name}"
        do = "add for example `--set 'software.noise={call_spread: 5 ms}'`, or leave --noise out"
        raise MissingDataError(what, do=do, key="software")
    machines = machines_of(plan)
    call = NoisyCall(noise, training_call(plan).time_ps, layout.updates_per_session_call, machines, apart=explicit)
    program = compile_noisy(plan, call.call, explicit=explicit)
    return RunSeries(program, call, updates, unsteady_updates(plan), seed, explicit, engine)


def run_updates(job: RunSeries, number: int) -> Updates:
    """The weight updates of one run."""
    generator = generator_of(job.seed, number, IN_ENGINE)
    levels = job.call.levels
    level_ps = int(levels[generator.integers(len(levels))])
    seed = int(generator.integers(_SEEDS))
    with no_search():
        program = in_turns(job.program, job.call.jitters(level_ps), job.updates + job.unsteady, seed)
        trace = execute(program, explicit=job.explicit, engine=job.engine)
    # A weight update ends where its last replica does.
    ends = [0, *map(max, zip(*trace.turns.values(), strict=True))]
    times_s = [(end - begin) / PS_PER_S for begin, end in pairwise(ends)]
    return Updates(np.array(times_s[job.unsteady :]), level_ps / PS_PER_S, trace.event_count, trace.engine)


def generator_of(seed: int, number: int, purpose: int) -> np.random.Generator:
    """Random numbers of a run."""
    return np.random.default_rng((seed, number, purpose))


def all_runs(
    job: RunSeries, count: int, event_count: int, follow: Follow = unseen, processes: int = 0
) -> list[Updates]:
    """The weight updates of all runs, in order."""
    total = event_count * (job.updates + job.unsteady) * count
    if not processes:
        most = 1 if event_count > _LARGE else total // _EVENTS_PER_PROCESS
        processes = max(1, min(os.cpu_count() or 1, count, most))
    looks = iter(follow(total))
    ahead, runs = next(looks, 0), dict[int, Updates]()
    for number, run in chain.from_iterable(mapped(partial(run_updates, job), range(count), processes=processes)):
        runs[number] = run
        ahead -= run.event_count
        while ahead <= 0 and (part := next(looks, 0)):
            ahead += part
    return [runs[number] for number in range(count)]
