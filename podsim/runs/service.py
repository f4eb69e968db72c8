"""Serving: from a scenario of text generation to percentiles, saturation and load curve, with their ranges.

For the ranges, the same requests are served again with sampled inputs. Each sample has its own times of steps, which
are multiplied by a factor for the model's error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter as clock
from typing import Any, Final, Literal

from pydantic import ValidationError

from podsim.draws import Draws
from podsim.engine import execute
from podsim.errors import InfeasibleError, PodsimError
from podsim.garbage import no_search
from podsim.lazy import LazySequence
from podsim.placement.generation import Generation, Steps, generation_cost_model, generation_job, plan_generation
from podsim.placement.memory import IpuMemory
from podsim.program.generation import compile_step
from podsim.result.evidence import Envelope
from podsim.result.influence import StandsOn
from podsim.result.serving import DrawnService, ServiceDraws, ServingResult, serving_warnings
from podsim.result.shared import shared
from podsim.result.uncertainty import DrawTask, sample_factor, sample_inputs, sampling_task
from podsim.result.usage import copies_in_use
from podsim.runs.generation import GenerationProbe, step_report
from podsim.runs.serving import (
    ContinuousBatching,
    Load,
    Requests,
    Service,
    StaticBatching,
    Users,
    load_curve,
    read_arrivals,
    saturation,
)
from podsim.runs.serving import serve as serve_requests
from podsim.runs.serving.arrivals import check_rate
from podsim.runs.serving.saturation import capacity_per_s
from podsim.runs.serving.server import Batching, RegisteredBatching
from podsim.runs.settings import divided, placed
from podsim.runs.step_times import MovedSteps, PlannedSteps, service_steps
from podsim.runs.warnings import misfits
from podsim.scenario import GenerationScenario, LoadedScenario, load_scenario
from podsim.scenario.generation import GenerationSpec
from podsim.scenario.resolve import Change
from podsim.scenario.serving import RequestLengthSpec, ServingSpec
from podsim.tiles.model import CostModel
from podsim.user_file import MOST_BYTES, read_at_most
from podsim.watch import Watch, in_portions, silent

_MARGIN: Final = 0.05
_FULL_ROUNDS: Final = 4
_DEFAULT_LOAD: Final = 0.8
_LARGEST_LOAD: Final = 10
_LONG_S: Final = 5.0
MOST_DRAWN: Final = 2_000
"""Largest number of requests that each sample serves."""
_MOST_TO_SATURATE: Final = 400
"""Largest number of requests that each sample serves to find its saturation."""
_STEPS_OF_A_DRAW: Final = 10
"""Steps that one sample plans or simulates: both of a full batch, and four corners of each."""
_UNDER_LOAD: Final = "serving under load"
MOST_SOUNDINGS: Final = 20_000
"""Largest number of requests to find the saturation or a point of the load curve."""
_PATTERNS: Final[dict[str, Literal["poisson", "fixed"]]] = {"poisson": "poisson", "fixed_rate": "fixed"}


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests of a run, with the lengths of their prompts and outputs."""

    load: Load  # requests that can arrive at any rate; for a file, with its lengths in random order
    # requests with the arrivals of a file, or of users, who wait for answers; None for arrivals at a rate
    replay: Requests | Users | None = None
    inputs: tuple[tuple[str, str], ...] = ()  # path and SHA-256 of the file


def drawn(serving: ServingSpec, generation: GenerationSpec) -> Demand:
    """Return requests with random gaps and lengths, at a rate or of users."""
    specs = serving.lengths or (
        RequestLengthSpec(prompt_tokens=generation.prompt_tokens, output_tokens=generation.output_tokens),
    )
    lengths = tuple((spec.prompt_tokens, spec.output_tokens) for spec in specs for _ in range(spec.weight))
    load = Load(lengths, serving.request_count, serving.seed, _PATTERNS[serving.arrivals])
    if serving.users is None or serving.think is None:
        return Demand(load)
    return Demand(load, load.of_users(serving.users, float(serving.think)))


def replayed(path: Path, serving: ServingSpec, generation: GenerationSpec) -> Demand:
    """Return the requests of a CSV file."""
    requests = read_arrivals(path, generation.sequence_length)
    pairs = tuple(zip(requests.prompt_tokens, requests.output_tokens, strict=True))
    digest = hashlib.sha256(read_at_most(path, MOST_BYTES)).hexdigest()
    return Demand(Load(pairs, len(pairs), serving.seed, _PATTERNS[serving.arrivals]), requests, ((str(path), digest),))


@no_search()
def serve_loaded(
    loaded: LoadedScenario,
    rate: float | None,
    arrivals: str | Path | None,
    loads: Sequence[float],
    users: int | None,
    think: str | float | None,
    influence: bool,
    uncertainty: Draws | None,
    watch: Watch,
    tell: Callable[[str], None],
) -> ServingResult:
    """Serve a loaded scenario; arguments as for `podsim.runs.serve.serve`."""
    if users is not None or think is not None:
        serving = getattr(loaded.spec, "serving", None)
        overrides = _user_overrides(users, think, serving, has_arrivals=bool(rate or arrivals))
        loaded = load_scenario(loaded, None, overrides)
    spec = loaded.require(GenerationScenario, do="serve a scenario whose model is of kind `decoder`")
    _check_arguments(rate, arrivals, loads)
    with placed(loaded):
        loaded, _ = divided(_with_served_batch(loaded, spec), watch)
    spec = loaded.require(GenerationScenario)
    demand = _demand(loaded, spec, replay=rate is None, arrivals=arrivals)
    with placed(loaded, "serving" if spec.serving else "parallelism"):
        job_of = partial(_job, demand=demand)
        job = job_of(spec)
        model = generation_cost_model(job)
        steps = _plan_steps(spec, job, model)
        plan = steps.decode
        decode = LazySequence(lambda: [step_report("decode", spec, plan, execute(compile_step(plan)))])
    changes = tuple(_argument_changes(spec.served, rate, arrivals, loads))
    points = tuple(loads) or spec.served.loads
    stands_on = StandsOn(spec, GenerationProbe(job_of, model), resplit=influence)
    result, service, requests = _result(
        loaded,
        spec,
        job,
        demand,
        rate or spec.served.rate,
        points,
        changes,
        stands_on,
        uncertainty,
        watch,
        tell,
        steps.memory,
    )
    draws: Sequence[ServiceDraws] = ()
    if uncertainty is not None:
        served = Served(job_of, job, service, requests, _saturating(demand.load, service))
        draws = LazySequence(lambda: [service_draws(served, stands_on, uncertainty, watch)])
    # The envelope also names serving under load, which no validated run has.
    outside = LazySequence(lambda: (*result.envelope.outside, _UNDER_LOAD))
    return replace(result, decode=decode, draws=draws, envelope=Envelope(outside))


def _user_overrides(
    users: int | None, think: str | float | None, serving: ServingSpec | None, *, has_arrivals: bool
) -> dict[str, Any]:
    """Return overrides that replace the rate or the file of requests of a scenario by users.

    Raises:
        PodsimError: Arguments also name a rate or a file (`has_arrivals`).
    """
    if has_arrivals:
        what = "users and a rate or a file of arrivals are given"
        raise PodsimError(what, do="leave one of them out: users send the next request when they have the answer")
    keys: dict[str, Any] = {} if users is None else {"users": users}
    keys |= {key: None for key in ("rate", "file") if users is not None and getattr(serving, key, None) is not None}
    if think is not None:
        keys["think"] = think if isinstance(think, str) else f"{think} s"
    elif serving is None or serving.think is None:
        keys["think"] = "0 s"
    return {f"serving.{key}": value for key, value in keys.items()}


def _argument_changes(
    serving: ServingSpec, rate: float | None, arrivals: str | Path | None, loads: Sequence[float]
) -> Iterator[Change]:
    """Yield the arguments that differ from the scenario, as changes of its keys."""
    if rate is not None and (serving.file or rate != serving.rate):
        yield Change("serving.rate", serving.rate, rate)
    if arrivals is not None:
        yield Change("serving.file", serving.file, str(arrivals))
    if loads and tuple(loads) != serving.loads:
        yield Change("serving.loads", serving.loads, tuple(loads))


def _with_served_batch(loaded: LoadedScenario, spec: GenerationScenario) -> LoadedScenario:
    """Return a scenario with an automatic layout with the served batch size, for which the search then chooses it."""
    if loaded.auto is None:
        return loaded
    size = spec.served.batch_size or spec.generation.batch_size
    generation = spec.generation.model_copy(update={"batch_size": size})
    return replace(loaded, spec=spec.model_copy(update={"generation": generation}))


def _check_arguments(rate: float | None, arrivals: str | Path | None, loads: Sequence[float]) -> None:
    if rate is not None and arrivals is not None:
        raise PodsimError("both a rate and a file of arrivals are given", do="give one of them")
    if rate is not None:
        check_rate(rate)
    for load in loads:
        if not 0 < load <= _LARGEST_LOAD:
            raise PodsimError(
                f"a load of {load:g} cannot be served",
                do=f"give a share of the saturation above 0 and up to {_LARGEST_LOAD}, for example 0.8",
            )


def _demand(loaded: LoadedScenario, spec: GenerationScenario, *, replay: bool, arrivals: str | Path | None) -> Demand:
    """Return the requests of a file or a scenario; `replay=False` leaves out their own arrivals, for another rate."""
    serving = spec.served
    if arrivals is not None:
        return replayed(Path(arrivals), serving, spec.generation)
    if serving.file is None:
        demand = drawn(serving, spec.generation)
    else:
        demand = replayed(loaded.folder / serving.file, serving, spec.generation)
    return demand if replay else replace(demand, replay=None)


def _job(spec: GenerationScenario, demand: Demand) -> Generation:
    """Return the input of a plan with a full batch of the longest prompts, and with room for all requested tokens."""
    prompt, size = max(demand.load.lengths)[0], spec.served.batch_size or spec.generation.batch_size
    job = generation_job(spec).laid_out(micro_batch_size=size)
    return replace(job, prompt_tokens=prompt, output_tokens=spec.generation.sequence_length - prompt)


def _plan_steps(spec: GenerationScenario, job: Generation, model: CostModel) -> Steps:
    """Plan a prefill and a decode step of a full batch; raise `InfeasibleError` if it does not fit."""
    try:
        return plan_generation(job, model)
    except InfeasibleError as error:
        if spec.served.batch_size and error.do:
            error.do = error.do.replace("generation.batch_size", "serving.batch_size")
        raise


def _result(
    loaded: LoadedScenario,
    spec: GenerationScenario,
    job: Generation,
    demand: Demand,
    rate: float | None,
    loads: Sequence[float],
    changes: tuple[Change, ...],
    stands_on: StandsOn,
    uncertainty: Draws | None,
    watch: Watch,
    tell: Callable[[str], None],
    memory: Sequence[IpuMemory],
) -> tuple[ServingResult, Service, Requests | Users]:
    """Serve the requests; return the result, and the service and requests to serve again with sampled inputs."""
    serving, size, in_flight = spec.served, job.layout.micro_batch_size, job.layout.batches_in_flight
    copies = serving.replicas or spec.copy_count
    first, *crowded = service_steps(job)
    batching: Batching
    match serving.batching:
        case "continuous":
            batching = ContinuousBatching(size)
        case "static":
            batching = StaticBatching(size, serving.longest_wait or 0.0)
        case name:
            batching = RegisteredBatching(size, name)
    service = Service(first, batching, copies, tuple(crowded))
    load = _saturating(demand.load, service)
    begun_s = [clock()]

    def confirming(names: Sequence[str]) -> Sequence[str]:
        begun_s.append(clock())
        return names

    limit = saturation(service, load, margin=_MARGIN, watch=confirming)
    # All steps are simulated before the two confirming runs. So these give the time to serve a request, and the rest of
    # the time before them was the simulation of steps.
    pace_s = (clock() - begun_s[1]) / (2 * load.request_count)
    step_s = max(0.0, begun_s[1] - begun_s[0] - 2 * load.request_count * pace_s) / first.simulated_count
    requests = demand.replay or demand.load.at_rate(rate or _DEFAULT_LOAD * limit.rate_per_s)
    to_serve, draws = len(requests) + len(loads) * load.request_count, 0
    if uncertainty is not None:
        draws = uncertainty.count
        few = _fewer(load, service).request_count
        to_serve += (1 + draws) * (min(MOST_DRAWN, len(requests)) + 2 * few)
    time_s = to_serve * pace_s + draws * _STEPS_OF_A_DRAW * step_s
    if time_s > _LONG_S:
        more = f", the points of the load curve and {draws} draws" if draws else " and the points of the load curve"
        tell(f"serving {len(requests):,} requests{more} takes about {time_s:.0f} s")
    outcome = serve_requests(service, requests, watch)
    points = load_curve(service, load, [share * limit.rate_per_s for share in loads], watch)
    users = demand.replay if isinstance(demand.replay, Users) else None
    offered = outcome.offered_per_s if demand.replay else rate or _DEFAULT_LOAD * limit.rate_per_s
    warnings = (
        *misfits(memory),
        *serving_warnings(offered, outcome, limit, None if users is None else serving.users),
    )
    result = ServingResult(
        **shared(
            loaded, copies_in_use(spec, copies), stands_on, warnings=warnings, files=demand.inputs, changes=changes
        ),
        batching=serving.batching,
        batch_size=size,
        max_batch=service.steps.max_batch,
        copy_count=copies,
        batches_in_flight=in_flight,
        request_count=len(requests),
        rate_per_s=offered,
        users=None if users is None else serving.users,
        think_s=None if users is None else serving.think,
        outcome=outcome,
        saturation=limit,
        points=points,
    )
    return result, service, requests


def _saturating(load: Load, service: Service) -> Load:
    """Return a load with as many requests as find the saturation: they fill all places several times."""
    fewest = _FULL_ROUNDS * service.place_count
    return replace(load, request_count=max(min(load.request_count, MOST_SOUNDINGS), fewest))


@dataclass(frozen=True, slots=True)
class Served:
    """Service and requests of a run, to repeat it with sampled inputs."""

    job_of: Callable[[GenerationScenario], Generation]
    job: Generation
    service: Service
    requests: Requests | Users
    load: Load  # requests that find the saturation


@no_search()
def service_draws(served: Served, stands_on: StandsOn, draws: Draws, watch: Watch = silent) -> ServiceDraws:
    """Serve the first requests once with the inputs of the run, and once for each sample of the uncertain inputs."""
    task = sampling_task(stands_on)
    numbers = in_portions(range(draws.count), "draws", watch)
    few = replace(served, requests=served.requests.head(MOST_DRAWN), load=_fewer(served.load, served.service))
    return ServiceDraws(
        draws.count,
        draws.seed,
        tuple(sampled.key for sampled in task.inputs),
        len(few.requests),
        _outcome(few, few.service),
        tuple(_serve_sample(few, task, task.scatter, draws.seed, number) for number in numbers),
        tuple(stands_on.envelope().outside),
    )


def _serve_sample(served: Served, task: DrawTask, sigma: float, seed: int, number: int) -> DrawnService | None:
    """Serve the requests with the inputs of one sample; return None if that is impossible.

    `sigma` is the standard deviation of the model's log error.
    """
    steps = served.service.steps
    assert isinstance(steps, PlannedSteps)
    try:
        job = served.job_of(sample_inputs(task, seed, number))
        fresh = generation_cost_model(job)
        plan_generation(job, model := fresh.with_splits(steps.model) or fresh, advise=False)
        factor, shortest = sample_factor(sigma, seed, number), min(served.requests.prompt_tokens)
        sampled = PlannedSteps(job, model=model)
        crowded = tuple(
            MovedSteps(crowded_steps, PlannedSteps(job, count, sampled), shortest, factor)
            for count, crowded_steps in enumerate(served.service.crowded, 2)
            if isinstance(crowded_steps, PlannedSteps)
        )
        service = replace(served.service, steps=MovedSteps(steps, sampled, shortest, factor), crowded=crowded)
        return _outcome(served, service)
    except (PodsimError, ValidationError):
        return None


def _outcome(served: Served, service: Service) -> DrawnService:
    return DrawnService(serve_requests(service, served.requests), capacity_per_s(service, served.load))


def _fewer(load: Load, service: Service) -> Load:
    """Return a load with fewer requests, still enough to show the saturation of a sample."""
    return replace(load, request_count=min(load.request_count, max(_MOST_TO_SATURATE, 4 * service.place_count)))
