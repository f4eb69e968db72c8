"""The answer to a goal: systems and divisions, ranked; what rules the others out; how likely the goal is met."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from podsim.errors import BadValueError, PodsimError
from podsim.metrics import metric_of
from podsim.options import Division, Lease, Limits, Overrides
from podsim.runs.serving.arrivals import check_rate
from podsim.scenario import LoadedScenario, load_hardware, load_scenario
from podsim.scenario.activity import Activity
from podsim.scenario.load import override_texts
from podsim.scenario.scenario import Scenario
from podsim.study.plan.confidence import (
    RELIABLE,
    Confidence,
    confidence_of,
    gap,
    spreads_of,
)
from podsim.study.plan.figures import SERVED, TOTALS, names_of, second_of
from podsim.study.plan.goal import Goal, Job, goal_of
from podsim.study.plan.limits import Limit, at_most, check_limits, currencies_of, limit, misses
from podsim.study.plan.option import Option
from podsim.study.plan.report import MOST_SHOWN, PlanResult, rank_key
from podsim.study.plan.simulate import CandidateSystems, options_of
from podsim.study.plan.spec import CHOSEN, GIVEN
from podsim.study.plan.systems import place_named
from podsim.watch import Tell, telling, untold

Say = Callable[[str], None]
_FILES: Final = (".yaml", ".yml")
_LONG: Final = 48
"""So many candidates make a plan long."""
_DIVISIONS: Final = {"given": (GIVEN,), "chosen": (CHOSEN,)}


def plan(
    goal: str | Path | Goal,
    *,
    systems: Sequence[str] = (),
    objective: str | None = None,
    second: str | None = None,
    limits: Limits = (),
    deadline: str | None = None,
    budget: str | None = None,
    rack_power: str | None = None,
    latency: str | None = None,
    rate: float | None = None,
    division: Division | None = None,
    lease: Lease | None = None,
    overrides: Overrides = (),
    trials: int | None = None,
    draws: int | None = None,
    seed: int | None = None,
    processes: int | None = None,
    journal: Path | None = None,
    tell: Tell | None = None,
    say: Say = lambda _text: None,
    aside: Path | None = None,
    **wanted: Any,
) -> PlanResult:
    """Rank systems and divisions by what counts, within limits, and say what rules the others out.

    Args:
        goal: A goal file, the name of a shipped study, or the scenario that is to run; in Python a `Goal`, too.
        systems: A pod, or '32 of ipu_pod64'; all shipped ones if left out.
        objective: What counts: time, cost, energy, ipus, or a key of results.
        second: What it is weighed against in the chart.
        limits: Bounds beside those of the goal, e.g. 'mfu=> 10 %'; in Python a mapping of figures to bounds, too.
        deadline: Most time to train: 12h.
        budget: Most cost of a run: '500 USD'.
        rack_power: Most power of a rack: '20 kW'.
        latency: Most P99 latency of requests: 2s.
        rate: Requests per second to serve; those of the scenario if left out. [1/s]
        division: Look at one division alone.
        lease: Whether cost counts machines in use, the partition or its pod.
        overrides: Replace a key on all systems; in Python a mapping of key paths to values, too.
        trials: Most candidates, 200 if left out; more are refused.
        draws: Draws of uncertain inputs, to see how reliable it is; 50 if left out, 20 of requests.
        seed: Of the draws.
        processes: Candidates looked at at a time; as many as there are cores if left out.
        journal: Keep what was found in this file, and go on from it.
        tell: Is told of progress; a line in a notebook shows it if left out.
        say: Takes a line about how many candidates there are, and how long that takes.
        aside: A journal for a long plan alone, which is removed at its end.
        wanted: Other attributes of a `Goal`, such as `divisions`.

    Returns:
        Options, ranked, with the verdict first in its report.

    Raises:
        PodsimError: As of `find_systems`.
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
        limits=(*asked.limits, *_limits(limits), *_limits_at(mosts)),
        overrides=(*asked.overrides, *override_texts(overrides), *leased),
        **{key: value for key, value in wanted.items() if value is not None},
    )
    is_long = journal is None and len(CandidateSystems(asked)) >= _LONG
    kept = aside if is_long else journal
    with telling(tell, "candidates") as told:
        answer = find_systems(asked, told, processes, journal=kept, say=say)
    if is_long and kept is not None:
        kept.unlink(missing_ok=True)
    return answer


def _limits(given: Limits) -> Iterator[Limit]:
    for text in [f"{metric}={bound}" for metric, bound in given.items()] if isinstance(given, Mapping) else given:
        metric, sign, bound = text.partition("=")
        if not sign or not metric.strip():
            raise PodsimError("this is not FIGURE=BOUND", where=f"--limit {text}", do="write --limit 'mfu=> 10 %'")
        with _placed(f"--limit {text}"):
            yield limit(metric, bound)


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
    tell: Tell = untold,
    processes: int | None = None,
    *,
    journal: Path | None = None,
    say: Say = lambda _text: None,
) -> PlanResult:
    """Simulate what a goal asks on its candidates, rank them, and say what rules the others out.

    Args:
        goal: What is wanted.
        tell: Is told of progress.
        processes: How many candidates are looked at at a time; as many as there are cores by default.
        journal: A file that keeps what was found, from which the next call goes on.
        say: Takes a line about how many candidates there are, and how long that takes.

    Returns:
        Options, ranked, with the verdict first in its report.

    Raises:
        PodsimError: The goal or a scenario is wrong, there are more candidates than are to be looked at, limits
            contradict each other, or results cannot have such a figure as the goal counts or limits.
    """
    for limits in (goal.limits, *(job.limits for job in goal.work)):
        check_limits(limits)
    candidates = CandidateSystems(goal)
    candidates.check()
    loaded = [_read(goal, job) for job in goal.work]
    _check_wanted(goal, [each.spec for each in loaded])
    inputs = _inputs(goal, loaded)
    found = options_of(candidates, journal, inputs, tell, say, processes)
    _check_currencies(goal, found)
    limited = [_limited(goal, option) for option in found]
    out = [each for each in limited if each.reason]
    out.sort(key=lambda each: (each.figures is None, gap(goal, each), each.name))
    within = [each for each in limited if not each.reason]
    second = goal.second_figure or next(
        (name for each in (*within, *out) if each.figures and (name := second_of(goal.figure, each.figures))), None
    )
    ranked = _without_repeats(sorted(within, key=lambda each: rank_key(goal, each, second)))
    confidence = confidence_of(goal, ranked, out, processes)
    ranked = ranked if confidence is None else reliable_first(ranked, confidence)
    shown = [*ranked[: 1 if goal.is_served else MOST_SHOWN], *(each for each in out[:1] if each.parts)]
    spreads = spreads_of(goal, shown, processes)
    return PlanResult(goal, ranked, out, second, len(candidates), confidence, inputs, spreads)


def reliable_first(ranked: Sequence[Option], confidence: Confidence) -> list[Option]:
    """Options that hold in nearly all draws, the best first; then those that hold in fewer, the surest first.

    Those that were not drawn come last: others are better, and one of them is reliable or as many were drawn as may be.
    """

    def tier(option: Option) -> tuple[int, float]:
        drawn = confidence.of(option)
        return (2, 0.0) if drawn is None else (0, 0.0) if drawn.within >= RELIABLE else (1, -drawn.within)

    return sorted(ranked, key=tier)  # sorting keeps the best first among equals


def _check_wanted(goal: Goal, specs: Sequence[Scenario]) -> None:
    """Refuse a figure that no result can have, before anything is simulated."""
    if goal.is_served:
        for job, spec in zip(goal.work, specs, strict=True):
            if spec.activity is not Activity.GENERATION:
                figures = (name for name in (goal.figure, *(limit.metric for limit in goal.asked)) if name in SERVED)
                asked = next((f"`{name}` is a figure" for name in figures), "a rate is one")
                what = f"{asked} of requests that are served, and {job.name or job.scenario} is {spec.activity.words}"
                raise PodsimError(what, do="serve a scenario whose model is of kind `decoder`, or count other figures")
    of_jobs = [names_of(spec, served=goal.is_served) for spec in specs]
    whole, second = TOTALS if len(specs) > 1 else of_jobs[0], [goal.second_figure] if goal.second_figure else []
    wanted = [(name, whole) for name in (goal.figure, *second, *(limit.metric for limit in goal.limits))]
    wanted += [(limit.metric, names) for job, names in zip(goal.work, of_jobs, strict=True) for limit in job.limits]
    varied = (key for axis in (goal.space.axes if goal.space else ()) for key in axis.keys)
    is_priced = any(spec.cost is not None for spec in specs) or any(key.startswith("cost") for key in varied)
    whose = f"serving {goal.scenario}" if goal.is_served else goal.scenario or "these jobs together"
    for metric, names in wanted:
        starts = tuple(name for name in names if name.endswith("."))
        if metric not in names and not (starts and metric.startswith(starts)):
            known = ", ".join(f"{name}…" if name in starts else name for name in names)
            raise PodsimError(f"results of {whose} have no figure `{metric}`", do=f"use one of: {known}")
        if metric_of(metric).is_cost and not is_priced:
            do = "give one, for example --set 'cost.price_per_ipu_hour=1.5 USD'"
            raise PodsimError(f"results of {whose} have no `{metric}`: there is no price", do=do)


def _check_currencies(goal: Goal, found: Iterable[Option]) -> None:
    """Refuse a budget in another currency than prices, since no rate of exchange is known."""
    paid = {part.bill["currency"] for each in found for part in each.parts if part.bill}
    if len(paid) > 1:
        raise PodsimError(f"prices are in {' and '.join(sorted(paid))}", do="give all prices in one currency")
    for asked in currencies_of(goal.asked):
        if paid and asked not in paid:
            what = f"a limit is in {asked}, and prices are in {''.join(paid)}"
            raise PodsimError(what, do="give it in the currency of the prices: no rate of exchange is known")


def _inputs(goal: Goal, loaded: Sequence[LoadedScenario]) -> tuple[tuple[str, str], ...]:
    """Every file that a goal reads."""
    pods = (load_hardware(place_named(name).pod, "pod")[1].inputs for name in goal.candidates)
    varied = goal.space.axes if goal.space is not None else ()
    named = (str(each) for axis in varied for values in axis.values for each in values if str(each).endswith(_FILES))
    own = ((name, sha256(Path(name).read_bytes()).hexdigest()) for name in named if Path(name).is_file())
    read = (each for scenario in loaded for each in scenario.inputs)
    return tuple(dict.fromkeys((*read, *(each for inputs in pods for each in inputs), *own)))


def _read(goal: Goal, job: Job) -> LoadedScenario:
    """A job on its own pod, or on the first that it goes with; refuses one that is wrong whatever it runs on."""
    wrong: PodsimError | None = None
    for place in (None, *goal.candidates):
        try:
            system = () if place is None else place_named(place).overrides()
            return load_scenario(job.scenario, job.variant, (*system, *goal.overrides, *job.overrides))
        except PodsimError as error:
            wrong = wrong or error
    assert wrong is not None
    raise wrong


def _limited(goal: Goal, option: Option) -> Option:
    """An option with the limits that it misses."""
    if option.figures is None or option.reason:
        return option
    if option.value(goal.figure) is None:
        warning = option.figures.get("warnings") or "none is simulated"
        return replace(option, reason=f"there is no {goal.figure}: {warning}")
    missed = list(misses(goal.limits, option.figures))
    for job, part in zip(goal.work, option.parts, strict=False):
        missed += misses(job.limits, part.figures, job.name)
    return replace(option, reason="; ".join(missed)) if missed else option


def _without_repeats(ranked: Sequence[Option]) -> list[Option]:
    """A chosen division that is the given one is listed once."""
    seen: dict[tuple[object, ...], Option] = {}
    for option in ranked:
        figures = tuple(sorted((key, str(each)) for key, each in (option.figures or {}).items()))
        seen.setdefault((option.system, tuple(option.values.items()), figures), option)
    return list(seen.values())
