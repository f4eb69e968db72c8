"""Serving under load, for Python and the shell; imports nothing of the simulation on import."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from podsim.draws import Draws
from podsim.options import DURATION, POSITIVE, SCENARIO_NAME, VARIANT, Overrides, Shell
from podsim.runs import Source
from podsim.watch import Watch, watched

if TYPE_CHECKING:
    from podsim.result.serving import ServingResult

DRAWS: Final = Draws(20)
"""Number of samples that is enough for P10 and P90, and takes a few seconds."""


def serve(
    scenario: Annotated[Source, SCENARIO_NAME],
    *,
    variant: Annotated[str | None, VARIANT] = None,
    overrides: Overrides = (),
    rate: float | None = None,
    arrivals: str | Path | None = None,
    loads: Annotated[Sequence[float], Shell(("--load",))] = (),
    users: Annotated[int | None, POSITIVE] = None,
    think: Annotated[str | float | None, DURATION] = None,
    influence: bool = False,
    uncertainty: Draws | None = DRAWS,
    watch: Watch = watched,
    tell: Callable[[str], None] = lambda text: None,
) -> ServingResult:
    """Simulate requests that arrive, wait and are batched: percentiles, queue and saturation.

    Args:
        scenario: A scenario of text generation, or the name of a shipped one.
        variant: One of the variants named in the file.
        overrides: Replace keys, e.g. system=bow_pod64.
        rate: Requests per second, in place of the scenario's. [1/s]
        arrivals: A CSV file with arrival_s, prompt_tokens and output_tokens, in place of the scenario's.
        loads: Points of the load curve, each a share of saturation, in place of the scenario's.
        users: Users, in place of the scenario's: each waits for an answer, thinks, and sends the next request.
        think: Mean think time of users, 0 s if left out: 30s.
        influence: Measure the effect of every assumption, even if products have to be planned again; takes longer.
        uncertainty: Number of repetitions with uncertain inputs sampled from their ranges, for the ranges of the result
            when these are first used; None for no ranges.
        watch: Passes on the names of the steps of a search for `parallelism: auto`, of portions of the requests and of
            points of the load curve.
        tell: Receives an estimate of the duration of a long run before it starts.

    Note:
        In Python, `scenario` and `overrides` may also be as in `run`, and `think` a number of seconds.

    Returns:
        The result: percentiles of latencies, the saturation and the load curve, with their ranges.

    Raises:
        SpecError: The scenario or a file it names is wrong; lists every problem with its place.
        DoesNotFitError: The model, or a batch of it, does not fit the memories.
        MissingDataError: A number that is needed is not known.
        PodsimError: The scenario describes training, or a rate or load is impossible.
    """
    from podsim.runs.service import serve_loaded
    from podsim.scenario import load_scenario

    loaded = load_scenario(scenario, variant, overrides)
    return serve_loaded(loaded, rate, arrivals, loads, users, think, influence, uncertainty, watch, tell)
