"""Runs with noise: weight updates in the engine, percentiles of updates, epochs and the time to train.

The samples of a run follow from the seed and its number only, whatever the processes and the engine. Weight updates
beyond the simulated ones are sampled from them, independently except for the level of the run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsim.draws import Noisy, Seeds, percentiles
from podsim.engine import Engine, execute
from podsim.errors import MissingDataError
from podsim.garbage import no_search
from podsim.placement import Plan
from podsim.program.compile import compile_noisy, repeat_program, unsteady_updates
from podsim.program.host import training_call
from podsim.program.noise import NoisyCall
from podsim.program.size import Follow, unseen
from podsim.program.task import Program
from podsim.program.update import machine_count
from podsim.result.training_times import EpochRun, TrainingOutcome, TrainingRun
from podsim.scenario import TrainingScenario
from podsim.units import PS_PER_S
from podsim.workers import mapped

_EVENTS_PER_PROCESS: Final = 10_000_000
"""Number of events that is worth the start of a process."""
_LARGE: Final = 1_000_000
"""Number of events of a weight update whose program takes so much memory that only one runs at a time."""
_SEEDS: Final = 2**63
"""Number of seeds of the engine."""
IN_ENGINE, BEYOND = range(2)
"""Purposes of random numbers, so that none are used twice."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RunSeries:
    """Common input of all runs."""

    program: Program  # one weight update
    call: NoisyCall
    updates: int  # weight updates of each run
    unsteady: int  # weight updates simulated before them
    seed: int
    explicit: bool  # True if every machine and every pipeline cycle is simulated
    engine: Engine


@dataclass(frozen=True, slots=True, eq=False)
class Updates:
    """Weight updates of one run."""

    times_s: Floats
    level_s: float  # difference of all of them from those of other runs [s]
    event_count: int
    engine: str


@no_search()
def job_of(
    spec: TrainingScenario,
    plan: Plan,
    updates: int,
    seed: int = 0,
    *,
    explicit: bool = False,  # True to simulate every machine and every pipeline cycle
    engine: Engine = "auto",
) -> RunSeries:
    """Prepare runs."""
    noise, layout = spec.software.noise, plan.layout
    if noise is None:
        what = f"nothing is known of the noise of {spec.software.name}"
        do = "add for example `--set 'software.noise={call_spread: 5 ms}'`, or leave --noise out"
        raise MissingDataError(what, do=do, key="software")
    machines = machine_count(plan)
    call = NoisyCall(noise, training_call(plan).time_ps, layout.updates_per_session_call, machines, apart=explicit)
    program = compile_noisy(plan, call.call, explicit=explicit)
    return RunSeries(program, call, updates, unsteady_updates(plan), seed, explicit, engine)


def run_updates(job: RunSeries, number: int) -> Updates:
    """Simulate the weight updates of one run."""
    generator = generator_of(job.seed, number, IN_ENGINE)
    levels = job.call.levels
    level_ps = int(levels[generator.integers(len(levels))])
    seed = int(generator.integers(_SEEDS))
    with no_search():
        program = repeat_program(job.program, job.call.jitters(level_ps), job.updates + job.unsteady, seed)
        trace = execute(program, explicit=job.explicit, engine=job.engine)
    # A weight update ends with its last replica.
    ends = [0, *map(max, zip(*trace.turns.values(), strict=True))]
    times_s = [(end - begin) / PS_PER_S for begin, end in pairwise(ends)]
    return Updates(np.array(times_s[job.unsteady :]), level_ps / PS_PER_S, trace.event_count, trace.engine)


def generator_of(seed: int, number: int, purpose: int) -> np.random.Generator:
    """Return the random number generator of a run."""
    return np.random.default_rng((seed, number, purpose))


def all_runs(
    job: RunSeries, count: int, event_count: int, follow: Follow = unseen, processes: int = 0
) -> list[Updates]:
    """Simulate the weight updates of all runs, in order."""
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


EVENT_BUDGET: Final = 50_000_000
"""Events that the engine simulates in all runs together, but at least one weight update of each run."""
_UPDATES_WITHOUT_END: Final = 1000
"""Weight updates of a run without an end in its scenario."""
_MEAN_OF_RISE: Final = 1 / 2
"""Mean of a quantity that grows evenly from 0, relative to its end."""
_ADDED_ONE_BY_ONE: Final = 10_000
"""Number of samples beyond which their sum is taken as normally distributed."""


def noisy(
    spec: TrainingScenario,
    plan: Plan,
    outcome: TrainingOutcome,
    update_s: float,
    event_count: int,
    seeds: Seeds,
    *,
    explicit: bool = False,  # True to simulate every machine and every pipeline cycle
    engine: Engine = "auto",
    follow: Follow = unseen,
) -> Noisy:
    """Return the percentiles of a run with noise."""
    run, epoch = _updates_of_run(outcome, plan), _updates_of_epoch(spec, outcome)
    per_update = max(1, event_count // (1 + unsteady_updates(plan)))
    most = EVENT_BUDGET // (per_update * seeds.count)
    updates = max(1, min(most, max(run or _UPDATES_WITHOUT_END, epoch or 0)))
    job = job_of(spec, plan, updates, seeds.seed, explicit=explicit, engine=engine)
    runs = all_runs(job, seeds.count, per_update, follow)
    drift = float(job.call.drift) if run else 0.0
    times_s = np.concatenate([each.times_s + drift * update_s * np.linspace(0, 1, updates) for each in runs])
    # The common level of a run's updates is not part of the differences between updates.
    pool = np.concatenate([each.times_s - each.level_s for each in runs])
    drifting_s = drift * update_s * _MEAN_OF_RISE
    ends = _ends(outcome, update_s, run, lambda count: _sums(runs, count, pool, seeds.seed, drifting_s))
    return Noisy(
        seeds=seeds.count,
        seed=seeds.seed,
        engine=runs[0].engine,
        event_count=sum(each.event_count for each in runs),
        machines=machine_count(plan),
        run_updates=run,
        simulated_updates=updates,
        weight_update_s=percentiles(times_s.tolist()),
        mean_weight_update_s=float(np.mean(times_s)),
        longer_s=float(np.mean(times_s)) - update_s,
        jitter_s=float(np.std(pool)),
        waiting_s=job.call.wait_s,
        drift=drift,
        drifting_s=drifting_s,
        epoch_s=percentiles(_sums(runs, epoch, pool, seeds.seed, drifting_s)) if epoch else None,
        time_to_train_s=percentiles(ends) if ends else None,
    )


def _ends(
    outcome: TrainingOutcome, update_s: float, count: int | None, sums: Callable[[int], Iterable[float]]
) -> list[float]:
    """Return the end of each run, with noise in weight updates only; empty if the run has no end. [s]"""
    without_s = outcome.percentiles["p50"] if outcome.percentiles else outcome.time_to_train_s
    if without_s is None or count is None:
        return []
    return [without_s + each - count * update_s for each in sums(count)]


def _sums(runs: Sequence[Updates], count: int, pool: Floats, seed: int, drifting_s: float) -> Iterator[float]:
    """Yield the time of each run's weight updates: simulated ones, sampled ones for the rest, and drift. [s]"""
    mean_s, deviation_s = float(np.mean(pool)), float(np.std(pool))
    for number, run in enumerate(runs):
        known_s, rest = float(np.sum(run.times_s[:count])), max(0, count - len(run.times_s))
        generator = generator_of(seed, number, BEYOND)
        if rest > _ADDED_ONE_BY_ONE:
            drawn_s = float(generator.normal(rest * mean_s, math.sqrt(rest) * deviation_s))
        else:
            drawn_s = float(np.sum(pool[generator.integers(len(pool), size=rest)]))
        yield known_s + rest * run.level_s + drawn_s + count * drifting_s


def _updates_of_run(outcome: TrainingOutcome, plan: Plan) -> int | None:
    """Return the mean weight updates of a run, including evaluations in the training program."""
    if not outcome.runs:
        return None
    in_program = plan.software.evaluation == "training_program"
    return round(
        sum(run.update_count + in_program * _evaluating(run, outcome) for run in outcome.runs) / len(outcome.runs)
    )


def _evaluating(run: TrainingRun | EpochRun, outcome: TrainingOutcome) -> int:
    """Return the number of calls of the training program that evaluate."""
    if isinstance(run, EpochRun) or outcome.schedule is None:
        return 0
    return run.evaluation_count * math.ceil(outcome.schedule.evaluation_samples / outcome.samples_per_update)


def _updates_of_epoch(spec: TrainingScenario, outcome: TrainingOutcome) -> int | None:
    """Return the weight updates of an epoch, in whole session calls if runs end with them."""
    if outcome.runs and isinstance(outcome.runs[0], EpochRun):
        return outcome.runs[0].updates_after(1)
    samples = spec.data.samples_per_epoch
    return math.ceil(samples / outcome.samples_per_update) if samples else None
