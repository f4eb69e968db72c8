"""How sure serving is: the same requests served again with all uncertain inputs drawn from their ranges.

The times of steps are those of each draw, times a factor for what the model itself gets wrong; the queue is simulated
anew on them, since it answers in no proportion: close to the saturation a tenth more time per token is ten times the
waiting. Two thousand requests tell that, and a few hundred where the queue starts to grow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from pydantic import ValidationError

from podsim.draws import Draws
from podsim.errors import PodsimError
from podsim.garbage import no_search
from podsim.placement.generation import Generation, generation_cost_model, plan_generation
from podsim.result.influence import StandsOn
from podsim.result.scatter import scatter_of
from podsim.result.serving import DrawnService, ServiceDraws
from podsim.result.uncertainty import Task, drawing_of, factor_drawn, inputs_drawn
from podsim.runs.serving import Load, Requests, Service
from podsim.runs.serving import serve as serve_requests
from podsim.runs.serving.saturation import capacity_per_s
from podsim.runs.step_times import MovedSteps, PlannedSteps
from podsim.scenario import GenerationScenario
from podsim.watch import Watch, in_portions, silent

SERVING_DRAWS: Final = 20
"""As many give P10 and P90, and take a few seconds."""
MOST_DRAWN: Final = 2_000
_MOST_SOUNDED: Final = 400


@dataclass(frozen=True, slots=True)
class Served:
    """What is served again.

    Attributes:
        job_of: What is planned for a scenario.
        asked: What was planned.
        service: What served the requests.
        requests: All of them.
        load: Requests that find the saturation.
    """

    job_of: Callable[[GenerationScenario], Generation]
    asked: Generation
    service: Service
    requests: Requests
    load: Load


@no_search()
def service_draws(served: Served, stands_on: StandsOn, draws: Draws, watch: Watch = silent) -> ServiceDraws:
    """Serve the first requests with the inputs as they are, and once for each draw.

    Args:
        served: What is served again.
        stands_on: The inputs, and how far each moves the time of a token.
        draws: How often, and the seed.
        watch: Passes on names of portions of the draws.
    """
    task, scatter = drawing_of(stands_on), scatter_of(stands_on.spec)
    numbers = in_portions(range(draws.count), "draws", watch)
    few = replace(served, requests=_first(served.requests, MOST_DRAWN), load=_fewer(served.load, served.service))
    return ServiceDraws(
        draws.count,
        draws.seed,
        tuple(each.key for each in task.inputs),
        len(few.requests),
        _outcome(few, few.service),
        tuple(_drawn(few, task, scatter.sigma, draws.seed, number) for number in numbers),
        scatter.reasons,
    )


def _drawn(served: Served, task: Task, sigma: float, seed: int, number: int) -> DrawnService | None:
    """The requests with the inputs of a draw; None if it is impossible."""
    steps = served.service.steps
    assert isinstance(steps, PlannedSteps)
    try:
        asked = served.job_of(inputs_drawn(task, seed, number))
        fresh = generation_cost_model(asked)
        plan_generation(asked, model := fresh.holding(steps.model) or fresh, advise=False)
        factor, shortest = factor_drawn(sigma, seed, number), min(served.requests.prompt_tokens)
        moved = PlannedSteps(asked, model=model)
        crowd = tuple(
            MovedSteps(each, PlannedSteps(asked, count, moved), shortest, factor)
            for count, each in enumerate(served.service.crowded, 2)
            if isinstance(each, PlannedSteps)
        )
        service = replace(served.service, steps=MovedSteps(steps, moved, shortest, factor), crowded=crowd)
        return _outcome(served, service)
    except (PodsimError, ValidationError):
        return None


def _outcome(served: Served, service: Service) -> DrawnService:
    return DrawnService(serve_requests(service, served.requests), capacity_per_s(service, served.load))


def _first(requests: Requests, count: int) -> Requests:
    if len(requests) <= count:
        return requests
    return Requests(requests.arrival_ps[:count], requests.prompt_tokens[:count], requests.output_tokens[:count])


def _fewer(load: Load, service: Service) -> Load:
    """As few as show where the queue starts to grow."""
    return replace(load, request_count=min(load.request_count, max(_MOST_SOUNDED, 4 * service.place_count)))
