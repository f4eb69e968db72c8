"""Capacity planning: which system and division reach a goal best, what rules the others out, and how likely that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from podsim.errors import PodsimError
from podsim.options import Overrides
from podsim.scenario import LoadedScenario, load_hardware, load_scenario
from podsim.scenario.load import override_texts
from podsim.study.plan.candidates import Option, Part, check_candidates, options_of
from podsim.study.plan.confidence import RELIABLE, Confidence, confidence_of, gap, spreads_of
from podsim.study.plan.goal import (
    Goal,
    Job,
    check_currencies,
    check_figures,
    goal_of,
    limit,
    missed,
    place_named,
    read_goal,
    second_of,
)
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
        tell: As of `plan`, like `processes`.
        processes: How many candidates are looked at at a time.
        journal: A file that keeps what was found, from which the next call goes on.
        say: Takes a line about how many candidates there are.

    Returns:
        Options, ranked, with the verdict first in its report.

    Raises:
        PodsimError: The goal or a scenario is wrong, there are more candidates than are to be looked at, limits
            contradict each other, or results cannot have such a figure as the goal counts or limits.
    """
    check_candidates(goal)
    loaded = [_read(goal, job) for job in goal.work]
    check_figures(goal, [scenario.spec for scenario in loaded])
    inputs = _inputs(goal, loaded)
    options = options_of(goal, journal, inputs, tell, say, processes)
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
    """Options that hold in nearly all draws, the best first; then those that hold in fewer, the surest first.

    Those that were not drawn come last: others are better, and one of them is reliable or as many were drawn as may be.
    """

    def tier(option: Option) -> tuple[int, float]:
        drawn = confidence.of(option)
        return (2, 0.0) if drawn is None else (0, 0.0) if drawn.within >= RELIABLE else (1, -drawn.within)

    return sorted(ranked, key=tier)  # sorting keeps the best first among equals


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
    errors = []
    for place in (None, *goal.candidates):
        try:
            system = () if place is None else place_named(place).overrides()
            return load_scenario(job.scenario, job.variant, (*system, *goal.overrides, *job.overrides))
        except PodsimError as error:
            errors.append(error)
    raise errors[0]


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
