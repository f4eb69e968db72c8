"""Times of the steps of one copy of a model, as text generation simulates them, between the points of a grid."""

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
"""Where the search for the largest batch ends."""
# Layers of a stage from which on each further one takes as long as the one before, if loads run under computation:
# two are there before its turn.
_SETTLED_LAYERS: Final = 3

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_Grid = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Grids:
    """Where a kind of step is simulated."""

    batches: _Grid
    tokens: _Grid


class PlannedSteps:
    """Steps of a planned model, a `StepTimes`.

    Steps are simulated where batch and tokens are points of a grid, and bilinear in both between: four points
    per doubling of the batch and eight of the prompt for prefills, which follow the divisions of matrix products;
    powers of two for decode steps, which are smooth. Without a cache every step is the whole sequence, padded to
    its full length, and tokens do not matter.

    A batch takes its time through all stages, or that in which the slowest stage takes its turn for every batch
    in flight, whichever is longer.

    Assumes: other batches in flight are at steps of the same length, as `podsim.generate` does.
    """

    def __init__(
        self,
        asked: Generation,
        in_flight: int = 1,
        like: PlannedSteps | None = None,
        model: CostModel | None = None,
    ) -> None:
        """Nothing is simulated until needed; `like`: steps of this plan with others in flight, whose runs serve."""
        self._asked, self._in_flight = asked, in_flight
        self.model: CostModel = like.model if like else model or generation_cost_model(asked)
        self._chunks: Chunks = like._chunks if like else Chunks()
        batch, length = asked.layout.micro_batch_size, asked.sequence_length
        self.grids = {
            "prefill": _Grids(_grid(batch, 4), _grid(length, 8)),
            "decode": _Grids(_grid(batch, 1), _grid(length, 1)),
        }
        self._simulated: _lru_cache_wrapper[_Runs] = like._simulated if like else cache(self._runs)

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        """A batch of prompts, padded to the longest, until their first output tokens. [s]"""
        return float(self._between("prefill", batch, np.array([prompt_tokens]))[0])

    def decode_s(self, batch: int, context_tokens: int) -> float:
        """One more token for every sequence; the longest has `context_tokens`, 2 or more, with that one. [s]"""
        return float(self.decode_steps_s(batch, range(context_tokens, context_tokens + 1))[0])

    def decode_steps_s(self, batch: int, contexts: range) -> Floats:
        """One more token at each of some contexts. [s]"""
        # A static batch goes on behind its longest sequence, which has ended by then.
        longest = self.grids["decode"].tokens[-1]
        return self._between("decode", batch, np.minimum(np.asarray(contexts) - 1, longest))

    @property
    def simulated_count(self) -> int:
        """Steps that were simulated so far."""
        return self._simulated.cache_info().currsize

    @cached_property
    def max_batch(self) -> int:
        """Sequences whose keys, values and temporaries fit; at most `MOST_SEQUENCES`, but those that are planned."""
        planned = self._asked.layout.micro_batch_size
        more = range(planned + 1, MOST_SEQUENCES + 1)
        return planned + bisect_left(more, True, key=lambda batch: not self._fits(batch))

    def _fits(self, batch: int) -> bool:
        try:
            steps = draft_steps(self._asked.laid_out(micro_batch_size=batch), self.model)
            return all(ipu.fits for ipu in steps.memory)
        except InfeasibleError:
            return False

    def _between(self, name: StepName, batch: int, tokens: Ints) -> Floats:
        """Means of the points around. [s]"""
        if self._asked.layout.kv_cache == "none":
            name, tokens = "prefill", np.ones_like(tokens)

        def step_ps(sequences: int, length: int) -> int:
            """A simulated step. [ps]"""
            return self._simulated(name, sequences, length).step_ps(self._in_flight)

        return np.rint(_bilinear(self.grids[name], batch, tokens, step_ps)) / PS_PER_S

    def _runs(self, name: StepName, batch: int, tokens: int) -> _Runs:
        """A prefill of this many tokens, or the decode step after it."""
        asked = self._asked.laid_out(micro_batch_size=batch)
        if asked.layout.kv_cache != "none":
            asked = replace(asked, prompt_tokens=tokens, output_tokens=1)
        return _simulated(asked, lambda changed: plan_step(changed, name, self.model), self._chunks)


class MovedSteps:
    """Steps of a plan with other inputs, a `StepTimes`: each takes as much more as at the corners of the grid.

    What other inputs add to a step is close to bilinear in batch and tokens: a call adds the same to each, and what
    grows with the work grows with both. So it is simulated at four corners of each kind of step, and bilinear between.
    """

    def __init__(self, steps: PlannedSteps, moved: PlannedSteps, shortest_prompt: int, factor: float = 1.0) -> None:
        self._steps, self._moved, self._factor = steps, moved, factor
        self._corners = {
            name: (_Grids((grids.batches[0], grids.batches[-1]), _ends(grids.tokens, shortest_prompt)))
            for name, grids in steps.grids.items()
        }
        self._more_s = cache(self._at_corner)

    @property
    def max_batch(self) -> int:
        """As many sequences as before: draws in which a batch does not fit are impossible."""
        return self._steps.max_batch

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        """A batch of prompts, padded to the longest, until their first output tokens. [s]"""
        steps_s = self._steps.prefill_s(batch, prompt_tokens)
        return self._factor * (steps_s + float(self._between("prefill", batch, np.array([prompt_tokens]))[0]))

    def decode_s(self, batch: int, context_tokens: int) -> float:
        """One more token for every sequence of a batch. [s]"""
        return float(self.decode_steps_s(batch, range(context_tokens, context_tokens + 1))[0])

    def decode_steps_s(self, batch: int, contexts: range) -> Floats:
        """One more token at each of some contexts. [s]"""
        steps_s = self._steps.decode_steps_s(batch, contexts)
        return self._factor * (steps_s + self._between("decode", batch, np.asarray(contexts)))

    def _between(self, name: StepName, batch: int, tokens: Ints) -> Floats:
        corners = self._corners[name]
        inside = np.clip(tokens, corners.tokens[0], corners.tokens[-1])
        return _bilinear(corners, min(batch, corners.batches[-1]), inside, partial(self._more_s, name))

    def _at_corner(self, name: StepName, batch: int, tokens: int) -> float:
        """What the other inputs add. [s]"""
        if name == "prefill":
            return self._moved.prefill_s(batch, tokens) - self._steps.prefill_s(batch, tokens)
        return self._moved.decode_s(batch, tokens + 1) - self._steps.decode_s(batch, tokens + 1)


def _ends(grid: _Grid, shortest: int) -> _Grid:
    """The last point that is not above a number, and the last of all.

    >>> _ends((1, 2, 4, 8), 3), _ends((1,), 3)
    ((2, 8), (1,))
    """
    first = grid[max(0, bisect_left(grid, shortest + 1) - 1)]
    return (first, grid[-1]) if first < grid[-1] else (first,)


def _grid(last: int, points: int) -> _Grid:
    """Numbers from 1 to the last, with so many points per doubling, a power of two.

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
    """Means of the points of a grid around a batch and each of some numbers of tokens, each with its share.

    Only points with a share are asked for, where the numbers follow one another.

    >>> _bilinear(_Grids((1, 2), (1, 4, 8)), 2, np.array([4, 5, 6]), lambda batch, tokens: batch * tokens)
    array([ 8., 10., 12.])
    """
    mean = np.zeros(len(tokens))
    below, above, share = _around(grids.tokens, tokens)
    first = int(below.min())
    points = grids.tokens[first : int(above.max()) + 1]  # tokens without a gap have each of them beside them
    (low,), (high,), (part,) = _around(grids.batches, np.array([batch]))
    for size, weight in ((grids.batches[low], 1 - part), (grids.batches[high], part)):
        if weight:
            values = np.array([value(size, point) for point in points], np.float64)
            mean += weight * (1 - share) * values[below - first]
            mean += weight * share * values[above - first]
    return mean


def _around(grid: _Grid, values: Ints) -> tuple[Ints, Ints, Floats]:
    """Places of the points on either side, with the share of the upper one; a point of the grid is on both sides.

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
    """One batch through all stages."""

    latency_ps: int  # from the first stage to the last [ps]
    longest_stage_ps: int  # the longest of its stages while the others work as well [ps]

    def step_ps(self, in_flight: int) -> int:
        """One step, or the turns of all batches in flight at the slowest stage. [ps]"""
        return self.latency_ps if in_flight == 1 else max(self.latency_ps, in_flight * self.longest_stage_ps)


@dataclass(frozen=True, slots=True)
class _Runs:
    """A step as simulated: as it is, or with few layers and with one more of them per stage."""

    base: _BatchRun  # the step, or one of few layers
    longer: _BatchRun | None = None  # one with another layer in each stage
    more: tuple[int, int] = (0, 1)  # such layers, as a fraction with the number of stages below

    def step_ps(self, in_flight: int) -> int:
        """With this many batches in flight. [ps]"""
        base = self.base.step_ps(in_flight)
        if self.longer is None:
            return base
        layers, stages = self.more
        return base + (self.longer.step_ps(in_flight) - base) * layers // stages


def _simulated(asked: Generation, planned: Callable[[Generation], Plan], chunks: Chunks) -> _Runs:
    """One step through all stages.

    Loads that run under computation keep layers from being folded; the time is then that of a few layers,
    and as much more for each further one as the last of them took.
    """
    plan = planned(asked)
    stages = len(plan.stages)
    if not loads_overlap(plan) or asked.shape.layer_count <= stages * _SETTLED_LAYERS:
        return _Runs(_run(plan, chunks))
    few, longer = (_run(planned(with_layers(asked, count)), chunks) for count in (_SETTLED_LAYERS, _SETTLED_LAYERS + 1))
    return _Runs(few, longer, (asked.shape.layer_count - stages * _SETTLED_LAYERS, stages))


def _run(plan: Plan, chunks: Chunks) -> _BatchRun:
    program = compile_step(plan)
    # The compiled engine runs a program in less time than it takes to cut it.
    trace = (None if is_available() else chunks.trace(program)) or execute(program, explicit=False)
    return _BatchRun(trace.makespan_ps, longest_stage_ps(plan, trace))


def service_steps(asked: Generation) -> tuple[PlannedSteps, ...]:
    """Steps while 1, 2, … batches are in flight, as many as are asked for."""
    alone = PlannedSteps(asked)
    more = (PlannedSteps(asked, count, alone) for count in range(2, asked.layout.batches_in_flight + 1))
    return (alone, *more)
