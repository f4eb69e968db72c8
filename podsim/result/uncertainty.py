"""How sure a result is: its run repeated with every assumed and calibrated input drawn from its range.

Each draw moves all inputs at once, each on its own between the ends of its range, most often near its value. What the
model itself gets wrong is one more factor, common to all times of a draw; its logarithm is normal, with the scatter of
the software stack. Where runs need different numbers of samples to converge, a draw takes one of them. What is drawn
for an input depends on the seed, the number of the draw and the key alone, so that the outcome is the same on any
number of processes, and inputs that two runs share are the same in both.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from podsim.draws import Draws, Uncertainty, percentiles
from podsim.errors import PodsimError
from podsim.metrics import TIME, metric_of
from podsim.result.influence import Probe, StandsOn
from podsim.result.ranges import LATE
from podsim.scenario.assumptions import Assumption, assumptions, with_number
from podsim.scenario.scenario import Scenario
from podsim.watch import Watch, in_portions
from podsim.workers import mapped

if TYPE_CHECKING:
    from numpy.random import Generator

# What a process needs to start is worth so many draws.
_DRAWS_PER_PROCESS: Final = 25
_MODEL_FORM: Final = "model form"
_Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class DrawTask:
    """What is drawn, and how the run is repeated.

    Attributes:
        spec: The scenario.
        probe: Repeats its run.
        inputs: What is drawn.
        scatter: Standard deviation of the logarithm of what times are off by.
    """

    spec: Scenario
    probe: Probe[Any]
    inputs: Sequence[Assumption]
    scatter: float


@dataclass(frozen=True, slots=True)
class DrawnRun:
    """A run with inputs that were drawn.

    Attributes:
        metrics: Its figures, as the model gives them.
        parts: Times of the parts of a run.
        factor: What the times are off by.
        time_to_train_s: Of one of the runs that are given or drawn; None without an end of the run. [s]
    """

    metrics: _Metrics
    parts: _Metrics
    factor: float
    time_to_train_s: float | None = None


def drawing_of(stands_on: StandsOn) -> DrawTask:
    """What can be drawn for a result.

    Args:
        stands_on: The inputs, and how the run is repeated.
    """
    moving = {str(row["key"]) for row in stands_on}
    inputs = [each for each in assumptions(stands_on.spec) if each.key in moving]
    return DrawTask(
        stands_on.spec, stands_on.probe, inputs, math.hypot(stands_on.evidence.sigma, stands_on.machine_sigma)
    )


def uncertainty(stands_on: StandsOn, draws: Draws, watch: Watch) -> Uncertainty:
    """Repeat a run with its inputs drawn from their ranges, on all cores.

    All inputs are drawn that move anything, those too for which products have to be split anew in each draw.

    Args:
        stands_on: The inputs, and how the run is repeated.
        draws: How often, and the seed.
        watch: Passes on names of portions of the draws.

    Raises:
        PodsimError: No draw has a run that is possible.
    """
    task = drawing_of(stands_on)
    found = _on_all_cores(task, draws, watch)
    runs = [seen(each) for each in found if each is not None]
    if not runs:
        what = f"none of {draws.count:,} draws of the uncertain inputs has a run that is possible"
        raise PodsimError(what, do="narrow the ranges of the inputs, or use fewer samples at once")
    metrics = {name: percentiles([run[name] for run in runs]) for name in runs[0]}
    drawn, impossible = tuple(each.key for each in task.inputs), len(found) - len(runs)
    return Uncertainty(draws.count, draws.seed, impossible, drawn, (), metrics, task.scatter)


def _on_all_cores(task: DrawTask, draws: Draws, watch: Watch) -> list[DrawnRun | None]:
    numbers = range(draws.count)
    processes = min(os.cpu_count() or 1, draws.count // _DRAWS_PER_PROCESS)
    if processes <= 1:
        return [draw(task, draws.seed, number) for number in in_portions(numbers, "draws", watch)]
    found = dict(chain.from_iterable(mapped(partial(draw, task, draws.seed), numbers, processes=processes)))
    return [found[number] for number in numbers]


def draw(task: DrawTask, seed: int, number: int) -> DrawnRun | None:
    """The run of a draw; None if it is impossible.

    Args:
        task: What is drawn.
        seed: Seed of all draws.
        number: Which of them.
    """
    try:
        measure = task.probe(inputs_drawn(task, seed, number), anew=True)
    except (PodsimError, ValidationError):
        return None
    if measure is None or measure.headline is None:
        return None
    factor = factor_drawn(task.scatter, seed, number)
    if measure.longer:
        factor *= (1 + measure.longer) ** float(_generator(seed, number, LATE).random())
    times_s = measure.times_to_train_s
    chosen = float(_generator(seed, number, TIME).choice(times_s)) if times_s else None
    return DrawnRun(dict(measure.metrics), dict(measure.parts), factor, chosen)


def inputs_drawn(task: DrawTask, seed: int, number: int) -> Any:
    """The scenario of a draw, each uncertain input somewhere in its range, most often near its value.

    Raises:
        ValidationError: The scenario refuses a number.
    """
    spec = task.spec
    for each in task.inputs:
        low, high = each.bounds
        likely = min(max(each.number, low), high)
        value = _generator(seed, number, each.key).triangular(low, likely, high) if low < high else likely
        spec = with_number(spec, each.key, float(value))
    return spec


def factor_drawn(sigma: float, seed: int, number: int) -> float:
    """What all times of a draw are off by, where the logarithm of that has a standard deviation."""
    return math.exp(sigma * _generator(seed, number, _MODEL_FORM).standard_normal())


def _generator(seed: int, number: int, key: str) -> Generator:
    """Random numbers for one input of one draw, whichever others are drawn beside it."""
    import numpy as np  # large, and most runs draw nothing

    return np.random.default_rng((seed, number, zlib.crc32(key.encode())))


def seen(drawn: DrawnRun) -> _Metrics:
    """The figures of a draw with what the model itself gets wrong.

    Args:
        drawn: The draw.
    """
    ends = {} if drawn.time_to_train_s is None else {TIME: drawn.time_to_train_s}
    return {name: metric_of(name).slowed(value, drawn.factor) for name, value in (drawn.metrics | ends).items()}
