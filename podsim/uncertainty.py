"""How sure a result is: its run repeated with every assumed and calibrated input drawn from its range.

Each draw moves all inputs at once, each on its own between the ends of its range, most often near its value. Where
runs need different numbers of samples to converge, a draw takes one of them. A draw depends on the seed and its
number alone, so that the outcome is the same on any number of processes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from podsim.draws import Draws, Uncertainty
from podsim.errors import PodsimError
from podsim.influence import Probe, StandsOn
from podsim.specs.assumptions import Assumption, assumptions, with_number
from podsim.specs.scenario import Scenario
from podsim.watch import Watch, in_portions

TIME_TO_TRAIN: Final = "time_to_train_s"
_PERCENTILES, _PER_CENT = (10, 50, 90), 100
# What a process needs to start is worth so many draws.
_DRAWS_PER_PROCESS: Final = 25
_Metrics = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Task:
    """What a process needs to draw."""

    spec: Scenario
    probe: Probe[Any]
    inputs: Sequence[Assumption]
    seed: int


def uncertainty(stands_on: StandsOn, draws: Draws, watch: Watch) -> Uncertainty:
    """Repeat a run with its inputs drawn from their ranges, on all cores.

    Inputs whose influence is not measured keep their values.

    Args:
        stands_on: The inputs, and how the run is repeated.
        draws: How often, and the seed.
        watch: Passes on names of portions of the draws.

    Raises:
        PodsimError: No draw has a run that is possible.
    """
    measured = {row["key"]: row["influence"] is not None for row in stands_on}
    inputs = [each for each in assumptions(stands_on.spec) if measured.get(each.key)]
    held = tuple(str(key) for key, known in measured.items() if not known)
    task, numbers = _Task(stands_on.spec, stands_on.probe, inputs, draws.seed), range(draws.count)
    processes = min(os.cpu_count() or 1, draws.count // _DRAWS_PER_PROCESS)
    if processes > 1:
        with ProcessPoolExecutor(processes, initializer=_prepare, initargs=(task,)) as pool:
            shares = [numbers[first::processes] for first in range(processes)]
            found = [each for share in pool.map(_run_share, shares) for each in share]
    else:
        found = [_run(task, number) for number in in_portions(numbers, "draws", watch)]
    runs = [each for each in found if each is not None]
    if not runs:
        what = f"none of {draws.count:,} draws of the uncertain inputs has a run that is possible"
        raise PodsimError(what, do="narrow the ranges of the inputs, or use fewer samples at once")
    metrics = {name: _percentiles([run[name] for run in runs]) for name in runs[0]}
    drawn = tuple(each.key for each in inputs)
    return Uncertainty(draws.count, draws.seed, len(found) - len(runs), drawn, held, metrics)


_task: list[_Task] = []


def _prepare(task: _Task) -> None:
    _task[:] = [task]


def _run_share(numbers: Sequence[int]) -> list[_Metrics | None]:
    return [_run(_task[0], number) for number in numbers]


def _run(task: _Task, number: int) -> _Metrics | None:
    """The metrics of a draw; None if its run is impossible."""
    import numpy as np  # large, and most runs draw nothing

    generator = np.random.default_rng((task.seed, number))
    spec = task.spec
    try:
        for each in task.inputs:
            low, high = each.bounds
            likely = min(max(each.number, low), high)
            value = generator.triangular(low, likely, high) if low < high else likely
            spec = with_number(spec, each.key, float(value))
        measure = task.probe(spec, anew=False)
    except (PodsimError, ValidationError):
        return None
    if measure is None or measure.headline is None:
        return None
    metrics = dict(measure.metrics)
    if measure.times_to_train_s:
        metrics[TIME_TO_TRAIN] = float(generator.choice(measure.times_to_train_s))
    return metrics


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    ranked = sorted(values)
    return {f"p{share}": ranked[math.ceil(share / _PER_CENT * len(ranked)) - 1] for share in _PERCENTILES}
