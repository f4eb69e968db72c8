"""Capacity planning: the best systems and layouts for a goal, their probability, and why others are ruled out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final

from podsim.errors import BadValueError, PodsimError
from podsim.metrics import THROUGHPUT, TIME
from podsim.options import (
    DURATION,
    FIGURE,
    NOT_NEGATIVE,
    POSITIVE,
    PYTHON_ALONE,
    Division,
    Lease,
    Limits,
    Overrides,
    Shell,
)
from podsim.runs.serving.arrivals import check_rate
from podsim.scenario import Activity, LoadedScenario, load_hardware, load_scenario
from podsim.scenario.load import override_texts
from podsim.study.plan.candidates import Option, Part, check_candidates, options_of
from podsim.study.plan.confidence import RELIABLE, Confidence, confidence_of, gap, spreads_of
from podsim.study.plan.goal import (
    TOTALS,
    Goal,
    Job,
    Limit,
    UnknownFigureError,
    at_most,
    check_currencies,
    check_figures,
    default_objective,
    figure_cure,
    goal_of,
    limit,
    missed,
    names_of,
    place_named,
    read_goal,
    second_of,
)
from podsim.study.plan.report import MOST_SHOWN, PlanResult, rank_key
from podsim.user_file import MOST_BYTES, read_at_most
from podsim.watch import Tell, no_progress, telling

__all__ = ["Answer", "Goal", "Job", "Option", "Part", "PlanResult", "find_systems", "plan", "read_goal"]
Answer = PlanResult
"""Alias of `PlanResult`."""
_LONG: Final = 48
"""Number of candidates from which on a plan takes long."""
_DIVISIONS: Final = {"given": ("as given",), "chosen": ("chosen",)}


def plan(
    goal: Annotated[str | Path | Goal, Shell((), "GOAL")],
    *,
    systems: Annotated[Sequence[str], Shell(("--system",), completes="systems")] = (),
    objective: Annotated[str | None, FIGURE] = None,
    second: Annotated[str | None, FIGURE] = None,
    limits: Limits = (),
    deadline: Annotated[str | None, DURATION] = None,
    budget: Annotated[str | None, Shell(metavar="PRICE")] = None,
    rack_power: Annotated[str | None, Shell(metavar="POWER")] = None,
    latency: Annotated[str | None, DURATION] = None,
    rate: float | None = None,
    division: Division | None = None,
    lease: Lease | None = None,
    overrides: Overrides = (),
    trials: Annotated[int | None, POSITIVE] = None,
    draws: Annotated[int | None, NOT_NEGATIVE] = None,
    seed: int | None = None,
    processes: Annotated[int | None, POSITIVE] = None,
    journal: Path | None = None,
    tell: Tell | None = None,
    say: Callable[[str], None] = lambda _text: None,
    aside: Annotated[Path | None, PYTHON_ALONE] = None,
    **wanted: Any,
) -> PlanResult:
    """Rank systems and layouts by an objective within limits, and say why others are ruled out.

    Args:
        goal: A goal file, the name of a shipped study, or a scenario to run.
        systems: A pod, or '32 of ipu_pod64'; all shipped pods by default.
        objective: Metric to optimise: time, cost, energy, ipus, or a key of results. The default is the time to train,
            or the throughput of a run without an end, or the P99 latency of requests.
        second: Second metric of the chart.
        limits: Bounds in addition to the goal's, e.g. 'mfu=> 10 %'.
        deadline: Most time to train: 12h.
        budget: Most cost of a run: '500 USD'.
        rack_power: Most power of a rack: '20 kW'.
        latency: Most P99 latency of requests: 2s.
        rate: Requests per second to serve; by default those of the scenario. [1/s]
        division: Consider only the given or only the chosen division.
        lease: Machines that cost covers: those in use, the partition or its pod.
        overrides: Replace a key on all systems.
        trials: Most candidates, 200 by default; more are refused.
        draws: Monte Carlo samples of uncertain inputs; 50 by default, 20 for requests.
        seed: Seed of the samples.
        processes: Number of processes; by default the number of cores.
        journal: File that stores finished candidates, from which an interrupted plan resumes.
        tell: Progress callback, called as `tell(done, total)`; by default a progress line in a notebook.
        say: Callback for a line about the number of candidates and the time they take.
        aside: Journal that is used only for a long plan, and removed at its end.
        wanted: Other attributes of a `Goal`, such as `divisions`.

    Note:
        In Python, `goal` may also be a `Goal`, `limits` a mapping of metrics to bounds, and `overrides` a mapping of
        keys to values.

    Returns:
        Options, ranked, with the verdict first in its report.

    Raises:
        PodsimError: As in `find_systems`.
    """
    if rate is not None:
        check_rate(rate)
    asked = goal if isinstance(goal, Goal) else goal_of(goal)
    mosts = {"--deadline": deadline, "--budget": budget, "--rack-power": rack_power, "--latency": latency}
    leased = [f"cost.lease={lease}"] if lease else []
    wanted |= {
        "objective": objective,
        "second": second,
        "systems": tuple(systems) or wanted.get("systems"),
        "divisions": _DIVISIONS[division] if division else wanted.get("divisions"),
        "request_rate": wanted.get("request_rate") if rate is None else rate,
        "trials": trials,
        "draws": draws,
        "seed": seed,
    }
    asked = replace(
        asked,
        limits=(*asked.limits, *_limits(limits, asked), *_limits_at(mosts)),
        overrides=(*asked.overrides, *override_texts(overrides), *leased),
        **{key: value for key, value in wanted.items() if value is not None},
    )
    is_long = journal is None and asked.candidate_count >= _LONG
    kept = aside if is_long else journal
    with telling(tell, "candidates") as told:
        answer = find_systems(asked, told, processes, journal=kept, say=say)
    if is_long and kept is not None:
        kept.unlink(missing_ok=True)
    return answer


def _limits(given: Limits, goal: Goal) -> Iterator[Limit]:
    for text in [f"{metric}={bound}" for metric, bound in given.items()] if isinstance(given, Mapping) else given:
        metric, sign, bound = text.partition("=")
        if not sign or not metric.strip():
            raise PodsimError("this is not FIGURE=BOUND", where=f"--limit {text}", do="write --limit 'mfu=> 10 %'")
        with _placed(f"--limit {text}"):
            try:
                yield limit(metric, bound)
            except UnknownFigureError as error:
                raise BadValueError(str(error), figure_cure(metric, _known_figures(goal))) from None


def _known_figures(goal: Goal) -> tuple[str, ...]:
    """Return the metric names of the results of a goal, with serving metrics if the model generates text."""
    if len(goal.work) > 1:
        return TOTALS
    spec = _read(goal, goal.work[0]).spec
    served = names_of(spec, served=True) if spec.activity is Activity.GENERATION else ()
    return tuple(dict.fromkeys((*served, *names_of(spec, served=False))))


def _limits_at(mosts: Mapping[str, str | None]) -> Iterator[Limit]:
    for option, most in mosts.items():
        if most is not None:
            with _placed(f"{option} {most}"):
                yield at_most("p99_latency" if option == "--latency" else option[2:].replace("-", "_"), most)


@contextmanager
def _placed(option: str) -> Iterator[None]:
    """Give what is wrong with an option its place."""
    try:
        yield
    except BadValueError as error:
        raise PodsimError(str(error), where=option, do=error.do) from None


def find_systems(
    goal: Goal,
    tell: Tell = no_progress,
    processes: int | None = None,
    *,
    journal: Path | None = None,
    say: Callable[[str], None] = lambda _text: None,
) -> PlanResult:
    """Simulate a goal on its candidates, rank them, and say why others are ruled out.

    Args:
        goal: Jobs, candidates, objective and limits.
        tell: Progress callback, as in `plan`.
        processes: Number of processes, as in `plan`.
        journal: File that stores finished candidates, from which the next call resumes.
        say: Callback for a line about the number of candidates.

    Returns:
        Options, ranked, with the verdict first in its report.

    Raises:
        PodsimError: The goal or a scenario is wrong, there are too many candidates, limits contradict each other, or
            results do not have a metric of the goal.
    """
    check_candidates(goal)
    loaded = [_read(goal, job) for job in goal.work]
    specs, is_open = [scenario.spec for scenario in loaded], goal.objective is None
    goal = replace(goal, objective=default_objective(goal, specs)) if is_open else goal
    check_figures(goal, specs)
    inputs = _inputs(goal, loaded)
    options = options_of(goal, journal, inputs, tell, say, processes)
    if is_open and goal.figure == TIME and len(specs) == 1 and not any(option.value(TIME) for option in options):
        goal = replace(goal, objective=THROUGHPUT)  # the run has no end
    check_currencies(goal, {part.bill["currency"] for option in options for part in option.parts if part.bill})
    limited = [_limited(goal, option) for option in options]
    out = [option for option in limited if option.reason]
    out.sort(key=lambda option: (option.figures is None, gap(goal, option), option.name))
    within = [option for option in limited if not option.reason]
    seconds = (second_of(goal.figure, option.figures) for option in (*within, *out) if option.figures)
    second = goal.second_figure or next(filter(None, seconds), None)
    ranked = _without_repeats(sorted(within, key=lambda option: rank_key(goal, option, second)))
    confidence = confidence_of(goal, ranked, out, processes)
    ranked = ranked if confidence is None else reliable_first(ranked, confidence)
    shown = [*ranked[: 1 if goal.is_served else MOST_SHOWN], *(option for option in out[:1] if option.parts)]
    spreads = spreads_of(goal, shown, processes)
    return PlanResult(goal, ranked, out, second, goal.candidate_count, confidence, inputs, spreads)


def reliable_first(ranked: Sequence[Option], confidence: Confidence) -> list[Option]:
    """Return reliable options first, best first, then the others, most likely first.

    Options without samples come last: others are better, and one of these is reliable or no more may be sampled.
    """

    def tier(option: Option) -> tuple[int, float]:
        drawn = confidence.contender_for(option)
        return (2, 0.0) if drawn is None else (0, 0.0) if drawn.within >= RELIABLE else (1, -drawn.within)

    return sorted(ranked, key=tier)  # stable: the best first among equals


def _inputs(goal: Goal, loaded: Sequence[LoadedScenario]) -> tuple[tuple[str, str], ...]:
    """Return every file that a goal reads."""

    def read() -> Iterator[tuple[str, str]]:
        for scenario in loaded:
            yield from scenario.inputs
        for name in goal.candidates:
            yield from load_hardware(place_named(name).pod, "pod")[1].inputs
        for axis in goal.space.axes if goal.space else ():
            for value in (str(value) for values in axis.values for value in values):
                if value.endswith((".yaml", ".yml")) and Path(value).is_file():
                    yield value, sha256(read_at_most(Path(value), MOST_BYTES)).hexdigest()

    return tuple(dict.fromkeys(read()))


def _read(goal: Goal, job: Job) -> LoadedScenario:
    """Load a job on its own pod, or on the first candidate that it fits; raise if it is wrong on all of them."""
    errors = []
    for place in (None, *goal.candidates):
        try:
            system = () if place is None else place_named(place).overrides()
            return load_scenario(job.scenario, job.variant, (*system, *goal.overrides, *job.overrides))
        except PodsimError as error:
            errors.append(error)
    raise errors[0]


def _limited(goal: Goal, option: Option) -> Option:
    """Return an option with the limits that it misses as its reason."""
    if option.figures is None or option.reason:
        return option
    if option.value(goal.figure) is None:
        warning = option.figures.get("warnings") or "none is simulated"
        return replace(option, reason=f"there is no {goal.figure}: {warning}")
    return replace(option, reason="; ".join(words for _, words in missed(goal.bounds, option.known)))


def _without_repeats(ranked: Sequence[Option]) -> list[Option]:
    """Return the options without duplicates: a chosen layout may equal the given one."""
    seen: dict[tuple[object, ...], Option] = {}
    for option in ranked:
        figures = tuple(sorted((key, str(value)) for key, value in (option.figures or {}).items()))
        seen.setdefault((option.system, tuple(option.values.items()), figures), option)
    return list(seen.values())
