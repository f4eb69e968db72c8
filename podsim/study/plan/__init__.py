"""Capacity planning: which system and division reach a goal best, what rules the others out, and how likely that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError
from podsim.metrics import metric_of
from podsim.options import Overrides
from podsim.scenario import LoadedScenario, load_hardware, load_scenario
from podsim.scenario.activity import Activity
from podsim.scenario.load import override_texts
from podsim.scenario.scenario import Scenario
from podsim.study.plan.candidates import Option, Part, check_candidates, options_of
from podsim.study.plan.confidence import RELIABLE, Confidence, confidence_of, gap, spreads_of
from podsim.study.plan.figures import SERVED, TOTALS, check_limits, currencies_of, limit, missed, names_of, second_of
from podsim.study.plan.goal import Goal, Job, goal_of, place_named, read_goal
from podsim.study.plan.report import MOST_SHOWN, PlanResult, rank_key
from podsim.watch import Tell, telling, untold

__all__ = ["Answer", "Goal", "Job", "Option", "Part", "PlanResult", "find_systems", "plan", "read_goal"]
Answer = PlanResult
"""The name of a `PlanResult` until 0.12."""


def plan(
    goal: str | Path | Goal,
    *,
    limits: Mapping[str, str] | None = None,
    overrides: Overrides = (),
    tell: Tell | None = None,
    processes: int | None = None,
    **wanted: Any,
) -> PlanResult:
    """Rank systems and divisions by what counts, within limits, and say what rules the others out.

    Args:
        goal: A goal file, a scenario by path or name, the name of a shipped study, or a goal.
        limits: Bounds by figure, such as `{"mfu": "> 10 %"}`, beside those of the goal.
        overrides: `key.path=value` texts, or values by key path, that hold for all candidates, beside those of the
            goal.
        tell: Is told of progress; a line in a notebook shows it if left out.
        processes: How many candidates are looked at at a time; as many as there are cores by default.
        wanted: Other attributes of a `Goal`, such as `objective`, `systems`, `divisions` or `request_rate`.

    Returns:
        Options, ranked, with the verdict first in its report.

    Raises:
        PodsimError: As of `find_systems`.
    """
    asked = goal if isinstance(goal, Goal) else goal_of(goal)
    bounds = tuple(limit(figure, bound) for figure, bound in (limits or {}).items())
    replaced = (*asked.overrides, *override_texts(overrides))
    asked = replace(asked, limits=(*asked.limits, *bounds), overrides=replaced, **wanted)
    with telling(tell, "candidates") as told:
        return find_systems(asked, told, processes)


def find_systems(
    goal: Goal,
    tell: Tell = untold,
    processes: int | None = None,
    *,
    journal: Path | None = None,
    say: Callable[[str], None] = lambda _text: None,
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
    check_candidates(goal)
    loaded = [_read(goal, job) for job in goal.work]
    _check_wanted(goal, [scenario.spec for scenario in loaded])
    inputs = _inputs(goal, loaded)
    options = options_of(goal, journal, inputs, tell, say, processes)
    _check_currencies(goal, options)
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
        asked = next(
            (name for name in (goal.figure, *(bound.metric for _, bound in goal.bounds)) if name in SERVED), ""
        )
        for job, spec in zip(goal.work, specs, strict=True):
            if spec.activity is not Activity.GENERATION:
                what = f"`{asked}` is a figure" if asked else "a rate is one"
                what = f"{what} of requests that are served, and {job.name or job.scenario} is {spec.activity.words}"
                raise PodsimError(what, do="serve a scenario whose model is of kind `decoder`, or count other figures")
    of_jobs = [names_of(spec, served=goal.is_served) for spec in specs]
    whole, second = TOTALS if len(specs) > 1 else of_jobs[0], [goal.second_figure] if goal.second_figure else []
    wanted = [(name, whole) for name in (goal.figure, *second, *(bound.metric for bound in goal.limits))]
    wanted += [(bound.metric, names) for job, names in zip(goal.work, of_jobs, strict=True) for bound in job.limits]
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


def _check_currencies(goal: Goal, options: Iterable[Option]) -> None:
    """Refuse a budget in another currency than prices, since no rate of exchange is known."""
    paid = {part.bill["currency"] for option in options for part in option.parts if part.bill}
    if len(paid) > 1:
        raise PodsimError(f"prices are in {' and '.join(sorted(paid))}", do="give all prices in one currency")
    for asked in currencies_of(bound for _, bound in goal.bounds):
        if paid and asked not in paid:
            what = f"a limit is in {asked}, and prices are in {''.join(paid)}"
            raise PodsimError(what, do="give it in the currency of the prices: no rate of exchange is known")


def _inputs(goal: Goal, loaded: Sequence[LoadedScenario]) -> tuple[tuple[str, str], ...]:
    """Every file that a goal reads."""

    def read() -> Iterator[tuple[str, str]]:
        for scenario in loaded:
            yield from scenario.inputs
        for name in goal.candidates:
            yield from load_hardware(place_named(name).pod, "pod")[1].inputs
        for axis in goal.space.axes if goal.space else ():
            for value in (str(value) for values in axis.values for value in values):
                if value.endswith((".yaml", ".yml")) and Path(value).is_file():
                    yield value, sha256(Path(value).read_bytes()).hexdigest()

    return tuple(dict.fromkeys(read()))


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
    return replace(option, reason="; ".join(words for _, words in missed(goal.bounds, option.known)))


def _without_repeats(ranked: Sequence[Option]) -> list[Option]:
    """A chosen division that is the given one is listed once."""
    seen: dict[tuple[object, ...], Option] = {}
    for option in ranked:
        figures = tuple(sorted((key, str(value)) for key, value in (option.figures or {}).items()))
        seen.setdefault((option.system, tuple(option.values.items()), figures), option)
    return list(seen.values())
