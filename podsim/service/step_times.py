"""Times of the steps of one copy of a model, as text generation simulates them, between the points of a grid."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Final

from podsim.engine import execute
from podsim.errors import InfeasibleError
from podsim.plan.inference import InferenceJob, InferencePlan, StepCost, stage_memory, step_cost, step_costs
from podsim.program.inference import compile_step
from podsim.report.step import longest_stage_ps
from podsim.units import ps_to_seconds

MOST_SEQUENCES: Final = 1024
"""Where the search for the largest batch ends."""
# Layers of a stage from which on each further one takes as long as the one before, if loads run under computation.
_SETTLED_LAYERS: Final = 2

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

    Assumes: other batches in flight are at steps of the same length, as `podsim.generate` does.
    """

    def __init__(self, plan: InferencePlan) -> None:
        """Nothing is simulated until it is needed, and then once.

        Args:
            plan: The model; its options give the largest batch, the longest prompt and the tokens of a sequence.
        """
        self._plan = plan
        self._job = InferenceJob(plan.system, plan.software, plan.shape, plan.options)
        batch, length = plan.options.batch_size, plan.options.sequence_length
        self._grids = {
            "prefill": _Grids(_grid(batch, 4), _grid(length, 8)),
            "decode": _Grids(_grid(batch, 1), _grid(length, 1)),
        }
        self._step_ps = cache(self._simulated_ps)
        self._decode_s = cache(self._between)

    def prefill_s(self, batch: int, prompt_tokens: int) -> float:
        """A batch of prompts, padded to the longest, until their first output tokens. [s]"""
        return self._between("prefill", batch, prompt_tokens)

    def decode_s(self, batch: int, context_tokens: int) -> float:
        """One more token for every sequence of a batch. [s]

        Args:
            batch: Sequences.
            context_tokens: Tokens of the longest, with the one that goes through the network; 2 or more.
        """
        return self._decode_s("decode", batch, context_tokens - 1)

    @cached_property
    def max_batch(self) -> int:
        """Sequences whose keys, values and temporaries fit; at most `MOST_SEQUENCES`, but those that are planned."""
        planned = self._plan.options.batch_size
        more = range(planned + 1, MOST_SEQUENCES + 1)
        return planned + bisect_left(more, True, key=lambda batch: not self._fits(batch))

    def _fits(self, batch: int) -> bool:
        job = replace(self._job, options=replace(self._job.options, batch_size=batch))
        try:
            return all(ipu.fits for ipu in stage_memory(job, step_costs(job)))
        except InfeasibleError:
            return False

    def _between(self, name: str, batch: int, tokens: int) -> float:
        """Mean of the points around, each with its share. [s]"""
        if self._plan.options.kv_cache == "none":
            name, tokens = "prefill", 1
        grids = self._grids[name]
        mean_ps = sum(
            share * part * self._step_ps(name, sequences, length)
            for sequences, share in _around(grids.batches, batch)
            for length, part in _around(grids.tokens, tokens)
        )
        return ps_to_seconds(round(mean_ps))

    def _simulated_ps(self, name: str, batch: int, tokens: int) -> int:
        """A prefill of this many tokens, or the decode step after it. [ps]"""
        options = replace(self._plan.options, batch_size=batch)
        if options.kv_cache != "none":
            options = replace(options, prompt_tokens=tokens, output_tokens=1)
        return _step_ps(self._plan, step_cost(replace(self._job, options=options), name))


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


def _around(grid: _Grid, value: int) -> tuple[tuple[int, float], ...]:
    """The points on either side with their shares, or the point itself.

    >>> _around((1, 2, 4, 8), 5), _around((1, 2, 4, 8), 4)
    (((4, 0.75), (8, 0.25)), ((4, 1.0),))
    """
    place = bisect_left(grid, value)
    high = grid[place]
    if high == value:
        return ((value, 1.0),)
    low = grid[place - 1]
    share = (value - low) / (high - low)
    return (low, 1 - share), (high, share)


def _step_ps(plan: InferencePlan, cost: StepCost) -> int:
    """One step through all stages. [ps]

    Loads that run under computation keep layers from being folded; the time is then that of a few layers,
    and as much more for each further one as the last of them took.
    """
    few, more = (replace(plan, layers=(count,) * len(plan.layers)) for count in (_SETTLED_LAYERS, _SETTLED_LAYERS + 1))
    overlaps = plan.options.weights_streamed and plan.options.io_tiles
    if not overlaps or max(plan.layers) <= _SETTLED_LAYERS:
        return _run_ps(plan, cost)
    base = _run_ps(few, cost)
    return base + (_run_ps(more, cost) - base) * (sum(plan.layers) - sum(few.layers)) // len(plan.layers)


def _run_ps(plan: InferencePlan, cost: StepCost) -> int:
    """One step, or the turns of all batches in flight at the slowest stage. [ps]"""
    trace = execute(compile_step(plan, cost), explicit=False)
    return max(trace.makespan_ps, plan.options.batches_in_flight * longest_stage_ps(trace))
