"""Serving under load, as Python and the shell ask for it; imports nothing of the simulation by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from podsim.draws import Draws
from podsim.options import Overrides
from podsim.runs import Source
from podsim.watch import Watch, watched

if TYPE_CHECKING:
    from podsim.result.serving import ServingResult

DRAWS: Final = Draws(20)
"""As many give P10 and P90, and take a few seconds."""


def serve(
    scenario: Source,
    *,
    variant: str | None = None,
    overrides: Overrides = (),
    rate: float | None = None,
    arrivals: str | Path | None = None,
    loads: Sequence[float] = (),
    users: int | None = None,
    think: str | float | None = None,
    influence: bool = False,
    uncertainty: Draws | None = DRAWS,
    watch: Watch = watched,
    tell: Callable[[str], None] = lambda text: None,
) -> ServingResult:
    """Simulate requests that arrive, wait and are batched: percentiles, queue and saturation.

    Args:
        scenario: A scenario of text generation, or the name of a shipped one; in Python as `run` takes it.
        variant: One of the variants named in the file.
        overrides: Replace keys, e.g. system=bow_pod64; in Python a mapping of key paths to values, too.
        rate: Requests per second, in place of what the scenario has. [1/s]
        arrivals: A CSV file with arrival_s, prompt_tokens and output_tokens, in place of what the scenario has.
        loads: Points of the load curve, each a share of saturation, in place of what the scenario has.
        users: Users in place of what the scenario has: each waits for an answer, thinks, and sends the next request.
        think: How long they think on average, 0 s if left out: 30s; in Python seconds, too.
        influence: Measure all that the result stands on, even where products have to be planned anew; takes longer.
        uncertainty: How often the requests are served again with uncertain inputs drawn from their ranges, for the
            ranges of the result, when they are first looked at; None for no ranges.
        watch: Passes on the names of the steps in which `parallelism: auto` is chosen, of portions of the requests
            and of points of the load curve.
        tell: Takes an estimate of the time that a long run takes, before it starts.

    Returns:
        The result: percentiles of latencies, the saturation and the load curve, with their ranges.

    Raises:
        SpecError: The scenario or a file it names is wrong; lists every problem with its place.
        DoesNotFitError: The model, or a batch of it, does not fit the memories.
        MissingDataError: A number that is needed is not known.
        PodsimError: The scenario describes training, or a rate or load cannot be.
    """
    from podsim.runs.service import serve_loaded
    from podsim.scenario import load_scenario

    loaded = load_scenario(scenario, variant, overrides)
    return serve_loaded(loaded, rate, arrivals, loads, users, think, influence, uncertainty, watch, tell)
