"""Times of prefill and decode steps of one replica: simulated at the points of a grid, interpolated between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import _lru_cache_wrapper, cache, cached_property, partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from podsim.engine import Chunks, execute
from podsim.engine.compiled import is_available
from podsim.errors import InfeasibleError
from podsim.placement import Plan
from podsim.placement.generation import (
    Generation,
    StepName,
    draft_steps,
    generation_cost_model,
    plan_step,
    with_layers,
)
from podsim.program.generation import compile_step, loads_overlap
from podsim.search.decoder import longest_stage_ps
from podsim.tiles.model import CostModel
from podsim.units import PS_PER_S

MOST_SEQUENCES: Final = 1024
"""Upper end of the search for the largest batch."""
_SETTLED_LAYERS: Final = 3
"""Layers of a stage after which each further layer adds the same time, as two layers are loaded ahead."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_Grid = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Grids:
    """Grid of simulated steps, for one kind of step."""

    batches: _Grid  # numbers of sequences
    tokens: _Grid  # prompt tokens of a prefill, or context tokens before a decode step


class PlannedSteps:
    """Times of the steps of a planned model; implements `StepTimes`.

    Steps are simulated at the points of a grid of batch and tokens, and interpolated bilinearly between. Prefills have
    four points per doubling of the batch and eight per doubling of the prompt, because both change how matrix products
    are divided. Decode steps change smoothly, and have one point per doubling. Without a KV cache, every step computes
    the whole sequence, padded to its full length, and takes the same time for any number of tokens.

    A step takes the time of a batch through all stages, or the time in which the slowest stage processes every batch in
    flight, whichever is longer.

    Assumes: other batches in flight are at steps of the same length, as in `podsim.generate`.
    """

    def __init__(
        self,
        job: Generation,
        in_flight: int = 1,
        like: PlannedSteps | None = None,
        model: CostModel | None = None,
    ) -> None:
        """Start without simulated steps.

        Args:
            job: Input of the plan, with the largest batch.
            in_flight: Number of batches in flight.
            like: Steps of the same job with another number in flight, whose simulations are shared.
            model: Costs of operations; by default new ones.
        """
        self._job, self._in_flight = job, in_flight
        self.model: CostModel = like.model if like else model or generation_cost_model(job)
        self._chunks: Chunks = like._chunks if like else Chunks()
        batch, length = job.layout.micro_batch_size, job.sequence_length
        self.grids = {
            "prefill": _Grids(_grid(batch, 4), _grid(length, 8)),
            "decode": _Grids(_grid(batch, 1), _grid(length, 1)),
        }
        self._simulated: _lru_cache_wrapper[_Runs] = like._simulated if like else cache(self._runs)

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        """Return the time of a batch of prompts, padded to the longest, until their first output tokens. [s]"""
        return float(self._between("prefill", batch, np.array([prompt_tokens]))[0])

    def decode_s(self, batch: int, context_tokens: int) -> float:
        """Return the time of a decode step; the longest sequence has `context_tokens` so far, 2 or more. [s]"""
        return float(self.decode_steps_s(batch, range(context_tokens, context_tokens + 1))[0])

    def decode_steps_s(self, batch: int, contexts: range) -> Floats:
        """Return the times of decode steps, for each number of tokens of the longest sequence so far. [s]"""
        # A static batch continues after its longest sequence has ended.
        longest = self.grids["decode"].tokens[-1]
        return self._between("decode", batch, np.minimum(np.asarray(contexts) - 1, longest))

    @property
    def simulated_count(self) -> int:
        """Number of steps simulated so far."""
        return self._simulated.cache_info().currsize

    @cached_property
    def max_batch(self) -> int:
        """Largest number of sequences that fit, from the planned batch up to `MOST_SEQUENCES`."""
        planned = self._job.layout.micro_batch_size
        more = range(planned + 1, MOST_SEQUENCES + 1)
        return planned + bisect_left(more, True, key=lambda batch: not self._fits(batch))

    def _fits(self, batch: int) -> bool:
        try:
            steps = draft_steps(self._job.laid_out(micro_batch_size=batch), self.model)
            return all(ipu.fits for ipu in steps.memory)
        except InfeasibleError:
            return False

    def _between(self, name: StepName, batch: int, tokens: Ints) -> Floats:
        """Return the times of steps with these numbers of tokens, interpolated between grid points. [s]"""
        if self._job.layout.kv_cache == "none":
            name, tokens = "prefill", np.ones_like(tokens)

        def step_ps(sequences: int, length: int) -> int:
            """Return the time of a simulated step. [ps]"""
            return self._simulated(name, sequences, length).step_ps(self._in_flight)

        return np.rint(_bilinear(self.grids[name], batch, tokens, step_ps)) / PS_PER_S

    def _runs(self, name: StepName, batch: int, tokens: int) -> _Runs:
        """Simulate a prefill of a number of tokens, or the decode step after it."""
        job = self._job.laid_out(micro_batch_size=batch)
        if job.layout.kv_cache != "none":
            job = replace(job, prompt_tokens=tokens, output_tokens=1)
        return _simulated(job, lambda changed: plan_step(changed, name, self.model), self._chunks)


class MovedSteps:
    """Times of the steps of a plan with other inputs, such as sampled ones; implements `StepTimes`.

    The difference between the times of a step is close to bilinear in batch and tokens. So it is simulated at the four
    corners of the grid of each kind of step, and interpolated.
    """

    def __init__(self, steps: PlannedSteps, moved: PlannedSteps, shortest_prompt: int, factor: float = 1.0) -> None:
        """Take known times of steps; differences to the other inputs are simulated when they are needed.

        Args:
            steps: Times without the change.
            moved: Times with the other inputs.
            shortest_prompt: Shortest prompt of the requests, the first corner in tokens.
            factor: Factor of all times.
        """
        self._steps, self._moved, self._factor = steps, moved, factor
        self._corners = {
            name: (_Grids((grids.batches[0], grids.batches[-1]), _ends(grids.tokens, shortest_prompt)))
            for name, grids in steps.grids.items()
        }
        self._more_s = cache(self._at_corner)

    @property
    def max_batch(self) -> int:
        """Largest number of sequences, as without the other inputs."""
        return self._steps.max_batch

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        """Return the time of a batch of prompts, padded to the longest, until their first output tokens. [s]"""
        steps_s = self._steps.prefill_s(batch, prompt_tokens)
        return self._factor * (steps_s + float(self._between("prefill", batch, np.array([prompt_tokens]))[0]))

    def decode_s(self, batch: int, context_tokens: int) -> float:
        """Return the time of one more token for every sequence of a batch. [s]"""
        return float(self.decode_steps_s(batch, range(context_tokens, context_tokens + 1))[0])

    def decode_steps_s(self, batch: int, contexts: range) -> Floats:
        """Return the times of decode steps, for each number of tokens of the longest sequence so far. [s]"""
        steps_s = self._steps.decode_steps_s(batch, contexts)
        return self._factor * (steps_s + self._between("decode", batch, np.asarray(contexts)))

    def _between(self, name: StepName, batch: int, tokens: Ints) -> Floats:
        corners = self._corners[name]
        inside = np.clip(tokens, corners.tokens[0], corners.tokens[-1])
        return _bilinear(corners, min(batch, corners.batches[-1]), inside, partial(self._more_s, name))

    def _at_corner(self, name: StepName, batch: int, tokens: int) -> float:
        """Return the difference between the times of a step. [s]"""
        if name == "prefill":
            return self._moved.prefill_s(batch, tokens) - self._steps.prefill_s(batch, tokens)
        return self._moved.decode_s(batch, tokens + 1) - self._steps.decode_s(batch, tokens + 1)


def _ends(grid: _Grid, shortest: int) -> _Grid:
    """Return the last grid point at or below `shortest`, and the last grid point; one point if both are the same.

    >>> _ends((1, 2, 4, 8), 3), _ends((1,), 3)
    ((2, 8), (1,))
    """
    first = grid[max(0, bisect_left(grid, shortest + 1) - 1)]
    return (first, grid[-1]) if first < grid[-1] else (first,)


def _grid(last: int, points: int) -> _Grid:
    """Return numbers from 1 to `last`, with `points` (a power of two) per doubling.

    >>> _grid(30, 4)
    (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 30)
    """

    def numbers() -> Iterator[int]:
        number = 1
        while number < last:
            yield number
            number += max(1, (1 << number.bit_length() - 1) // points)

    return (*numbers(), last)


def _bilinear(grids: _Grids, batch: int, tokens: Ints, value: Callable[[int, int], float]) -> Floats:
    """Return the interpolated values at a batch and each number of tokens.

    `value` returns the value at a grid point; for consecutive numbers of tokens it is called only for points in use.

    >>> _bilinear(_Grids((1, 2), (1, 4, 8)), 2, np.array([4, 5, 6]), lambda batch, tokens: batch * tokens)
    array([ 8., 10., 12.])
    """
    mean = np.zeros(len(tokens))
    below, above, share = _around(grids.tokens, tokens)
    first = int(below.min())
    points = grids.tokens[first : int(above.max()) + 1]  # consecutive tokens use every point in this range
    (low,), (high,), (part,) = _around(grids.batches, np.array([batch]))
    for size, weight in ((grids.batches[low], 1 - part), (grids.batches[high], part)):
        if weight:
            values = np.array([value(size, point) for point in points], np.float64)
            mean += weight * (1 - share) * values[below - first]
            mean += weight * share * values[above - first]
    return mean


def _around(grid: _Grid, values: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the indices of the grid points below and above each value, and the weight of the upper one.

    A value at a grid point has this point on both sides.

    >>> _around((1, 2, 4, 8), np.array([5, 4]))
    (array([2, 2]), array([3, 2]), array([0.25, 0.  ]))
    """
    points = np.asarray(grid)
    above = np.searchsorted(points, values)
    below = above - (points[above] != values)
    low = points[below]
    return below, above, (values - low) / np.maximum(points[above] - low, 1)


@dataclass(frozen=True, slots=True)
class _BatchRun:
    """Simulated times of one batch through all stages."""

    latency_ps: int  # from the first stage to the last [ps]
    longest_stage_ps: int  # time of the slowest stage while all stages work [ps]

    def step_ps(self, in_flight: int) -> int:
        """Return the time of a step with a number of batches in flight. [ps]"""
        return self.latency_ps if in_flight == 1 else max(self.latency_ps, in_flight * self.longest_stage_ps)


@dataclass(frozen=True, slots=True)
class _Runs:
    """Simulated step of the whole model, or of a model with few layers to extrapolate from."""

    base: _BatchRun  # the step, or the step with few layers
    longer: _BatchRun | None = None  # the step with one more layer in each stage than `base`; None for whole models
    more: tuple[int, int] = (0, 1)  # (number of layers beyond `base`, number of stages)

    def step_ps(self, in_flight: int) -> int:
        """Return the time of a step of the whole model with a number of batches in flight. [ps]"""
        base = self.base.step_ps(in_flight)
        if self.longer is None:
            return base
        layers, stages = self.more
        return base + (self.longer.step_ps(in_flight) - base) * layers // stages


def _simulated(job: Generation, plan_of: Callable[[Generation], Plan], chunks: Chunks) -> _Runs:
    """Simulate a step of a job through all stages.

    If loads overlap computation, equal layers cannot be simulated once for all. The time is then extrapolated from a
    few layers: each further layer takes the time of the last simulated one.
    """
    plan = plan_of(job)
    stages = len(plan.stages)
    if not loads_overlap(plan) or job.shape.layer_count <= stages * _SETTLED_LAYERS:
        return _Runs(_run(plan, chunks))
    few, longer = (_run(plan_of(with_layers(job, count)), chunks) for count in (_SETTLED_LAYERS, _SETTLED_LAYERS + 1))
    return _Runs(few, longer, (job.shape.layer_count - stages * _SETTLED_LAYERS, stages))


def _run(plan: Plan, chunks: Chunks) -> _BatchRun:
    """Simulate a step of a plan."""
    program = compile_step(plan)
    # The compiled engine runs a program faster than it can be divided into chunks.
    trace = (None if is_available() else chunks.trace(program)) or execute(program, explicit=False)
    return _BatchRun(trace.makespan_ps, longest_stage_ps(plan, trace))


def service_steps(job: Generation) -> tuple[PlannedSteps, ...]:
    """Return the times of steps with 1, 2, … batches in flight, up to the number of the layout."""
    first = PlannedSteps(job)
    more = (PlannedSteps(job, count, first) for count in range(2, job.layout.batches_in_flight + 1))
    return (first, *more)
