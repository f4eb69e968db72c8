"""Monte Carlo sampling of a result: the run is repeated with every assumed and calibrated input sampled from its range.

A sample has an independent value of each input, whose median is the input's value (see `podsim.result.influence`). The
model error is a log-normal factor common to all times of a sample. If runs need different numbers of samples to
converge, one number is chosen at random. The random numbers of an input depend only on the seed, the number of the
sample and the key. So the result does not depend on the number of processes, and two runs share the values of shared
inputs.
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
from podsim.result.influence import LATE, Probe, StandsOn
from podsim.scenario.assumptions import Assumption, with_number
from podsim.scenario.scenario import Scenario
from podsim.watch import Watch, in_portions
from podsim.workers import mapped

if TYPE_CHECKING:
    from numpy.random import Generator

_DRAWS_PER_PROCESS: Final = 25  # start-up time of a process, in samples
_MODEL_FORM: Final = "model form"


@dataclass(frozen=True, slots=True)
class DrawTask:
    """Inputs to sample, and the function that repeats the run."""

    spec: Scenario
    probe: Probe[Any]
    inputs: Sequence[Assumption]
    scatter: float  # standard deviation of the model's log error


def sampling_task(stands_on: StandsOn) -> DrawTask:
    """Return the sampling task of a result, with all inputs that change it, even if splits change too."""
    moving = {str(row["key"]) for row in stands_on}
    inputs = [unsure for key, unsure in stands_on.inputs.items() if key in moving]
    return DrawTask(stands_on.spec, stands_on.probe, inputs, stands_on.sigma)


def uncertainty(stands_on: StandsOn, draws: Draws, watch: Watch) -> Uncertainty:
    """Repeat a run with its inputs sampled from their ranges, on all cores.

    Raises:
        PodsimError: The run is impossible in every sample.
    """
    task, numbers = sampling_task(stands_on), range(draws.count)
    one = partial(draw, task, draws.seed)
    processes = min(os.cpu_count() or 1, draws.count // _DRAWS_PER_PROCESS)
    if processes <= 1:
        drawn = dict(zip(numbers, map(one, in_portions(numbers, "draws", watch)), strict=True))
    else:
        drawn = dict(chain.from_iterable(mapped(one, numbers, processes=processes)))
    runs = [figures for number in numbers if (figures := drawn[number]) is not None]
    if not runs:
        what = f"none of {draws.count:,} draws of the uncertain inputs has a run that is possible"
        raise PodsimError(what, do="narrow the ranges of the inputs, or use fewer samples at once")
    metrics = {name: percentiles([run[name] for run in runs]) for name in runs[0]}
    keys = tuple(unsure.key for unsure in task.inputs)
    return Uncertainty(draws.count, draws.seed, draws.count - len(runs), keys, (), metrics, task.scatter)


def draw(task: DrawTask, seed: int, number: int) -> dict[str, float] | None:
    """Return the metrics of a sample, with a sampled model error; None if its run is impossible."""
    try:
        measure = task.probe(sample_inputs(task, seed, number), resplit=True)
    except (PodsimError, ValidationError):
        return None
    if measure is None or measure.headline is None:
        return None
    factor, figures = sample_factor(task.scatter, seed, number), dict(measure.metrics)
    if measure.longer:
        factor *= (1 + measure.longer) ** float(_generator(seed, number, LATE).random())
    if measure.times_to_train_s:
        figures[TIME] = float(_generator(seed, number, TIME).choice(measure.times_to_train_s))
    return {name: metric_of(name).slowed(value, factor) for name, value in figures.items()}


def sample_inputs(task: DrawTask, seed: int, number: int) -> Any:
    """Return the scenario of a sample: each uncertain input has a distribution whose median is its value.

    Raises:
        ValidationError: A sampled number is invalid in the scenario.
    """
    spec = task.spec
    for unsure in task.inputs:
        low, high = unsure.bounds
        likely = min(max(unsure.number, low), high)
        share = float(_generator(seed, number, unsure.key).random())
        spec = with_number(spec, unsure.key, input_quantile(low, likely, high, share), is_certain=True)
    return spec


def input_quantile(low: float, median: float, high: float, share: float) -> float:
    """Return a quantile of an input; the density falls linearly on either side of the median.

    >>> [round(input_quantile(0.0, 2.0, 10.0, share), 3) for share in (0.0, 0.125, 0.5, 0.875)]
    [0.0, 1.0, 2.0, 6.0]
    """
    end = low if share < 0.5 else high
    return median + (end - median) * (1 - math.sqrt(1 - abs(2 * share - 1)))


def sample_factor(sigma: float, seed: int, number: int) -> float:
    """Sample the common factor of a simulation's times from a log-normal distribution."""
    return math.exp(sigma * _generator(seed, number, _MODEL_FORM).standard_normal())


def _generator(seed: int, number: int, key: str) -> Generator:
    """Return the random generator of one input in one sample; it does not depend on other inputs."""
    import numpy as np  # slow to import, and most runs need no sampling

    return np.random.default_rng((seed, number, zlib.crc32(key.encode())))
