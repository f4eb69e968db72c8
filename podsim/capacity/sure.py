"""How sure a ranking is: the best options run again with all assumed and calibrated inputs drawn from their ranges.

What is drawn for an input depends on the seed, the number of the draw and the key alone, so that all options of a draw
have the same numbers in common, and what is uncertain about all of them alike does not blur which one is best. Times
are simulated anew; cost and energy follow them, at the power and the prices of the option.

Only those are drawn that can come first: a few of the best, among them those that miss a limit by a tenth at most and
would else be better. Those that are behind are drawn if in some draw none of these reaches the goal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from podsim.activity import run
from podsim.capacity.figures import COST, ENERGY, TIME, better_first
from podsim.capacity.front import value
from podsim.capacity.goal import Goal
from podsim.capacity.option import Option, Part
from podsim.capacity.shortfall import shortfall
from podsim.capacity.simulate import is_served
from podsim.capacity.systems import place_named
from podsim.capacity.totals import totals
from podsim.errors import PodsimError
from podsim.influence import StandsOn
from podsim.specs.yaml_text import parsed
from podsim.sweeps.workers import spread
from podsim.uncertainty import draw, drawing_of, seen

MOST_CONTENDERS: Final = 4
MOST_NEAR_MISSES: Final = 2
_WITHIN: Final = 1.5
_NEAR_MISS: Final = 0.1
_RATES: Final = ("throughput_samples_per_s", "tokens_per_s")
_Drawn = list[list[Mapping[str, float]] | None]
"""For each draw the figures of each job; None if the draw is impossible."""


@dataclass(frozen=True, slots=True)
class Contender:
    """An option that can come first.

    Attributes:
        option: The option.
        first: Of the draws in which one reaches the goal, the share in which this is the best of them.
        within: Share of the draws in which it keeps to all limits.
        possible: Share of the draws in which it can be run at all.
    """

    option: Option
    first: float
    within: float
    possible: float


@dataclass(frozen=True, slots=True)
class Sureness:
    """How sure a ranking is.

    Attributes:
        draws: How often inputs were drawn.
        seed: Seed of the draws.
        reached: In how many of them one of the options reaches the goal.
        contenders: The options that can come first, the best first.
    """

    draws: int
    seed: int
    reached: int
    contenders: Sequence[Contender]

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        contenders = [
            {"option": each.option.label, "first": each.first, "within": each.within, "possible": each.possible}
            for each in self.contenders
        ]
        return {"draws": self.draws, "seed": self.seed, "reached": self.reached, "contenders": contenders}


def sureness(
    goal: Goal, ranked: Sequence[Option], out: Sequence[Option], processes: int | None = None
) -> Sureness | None:
    """How often each of the best comes first; None if nothing is drawn, or nothing can change.

    Args:
        goal: What is wanted.
        ranked: Options within all limits, the best first.
        out: Options that limits rule out.
        processes: How many are drawn at a time.
    """
    contenders = _contenders(goal, ranked, out)
    if not goal.draws or is_served(goal) or not contenders or (len(contenders) == 1 and not goal.asked):
        return None
    near = [each for each in contenders if not _is_far(goal, contenders[0], each)]
    behind = [each for each in ranked[MOST_CONTENDERS:] if each not in contenders][:MOST_CONTENDERS]
    options, drawn, placed = list[Option](), list[_Drawn](), list[list[tuple[float, int]]]()
    for group in (near, contenders[len(near) :], behind):
        if group and not (placed and all(placed)):
            options += group
            drawn += _all_drawn(goal, group, processes)
            placed = [list(_placed(goal, options, number, drawn)) for number in range(goal.draws)]
    firsts = [min(each)[1] for each in placed if each]
    withins = [place for each in placed for _, place in each]
    counted = [
        Contender(
            option,
            firsts.count(place) / max(1, len(firsts)),
            withins.count(place) / goal.draws,
            sum(each is not None for each in drawn[place]) / goal.draws,
        )
        for place, option in enumerate(options)
        if place < len(contenders) or place in firsts
    ]
    return Sureness(goal.draws, goal.seed, len(firsts), counted)


def _contenders(goal: Goal, ranked: Sequence[Option], out: Sequence[Option]) -> list[Option]:
    """The best of those within all limits, and a few that miss them by little and are better than some of these."""
    best = list(ranked[:MOST_CONTENDERS])
    known = [each for each in out if each.parts and value(each, goal.figure) is not None]
    near = [each for each in known if shortfall(goal, each) <= _NEAR_MISS]
    better = [each for each in near if not best or _key(goal, each) <= _key(goal, best[-1])]
    better.sort(key=partial(_key, goal))
    most = MOST_NEAR_MISSES if best else MOST_CONTENDERS
    # Sorting keeps what is within limits before what is as good and is not.
    return sorted([*best, *better[:most]], key=partial(_key, goal))


def _is_far(goal: Goal, best: Option, other: Option) -> bool:
    a, b = value(best, goal.figure), value(other, goal.figure)
    return a is not None and b is not None and max(a, b) > _WITHIN * min(a, b)


def _all_drawn(goal: Goal, options: Sequence[Option], processes: int | None) -> list[_Drawn]:
    make, numbered = partial(_numbered, goal), list(enumerate(options))
    found = map(make, numbered) if processes == 1 or len(options) == 1 else spread(make, numbered, processes)
    return [drawn for _, drawn in sorted(found, key=lambda each: each[0])]


def _key(goal: Goal, option: Option) -> float:
    figure = value(option, goal.figure)
    assert figure is not None
    return better_first(goal.figure, figure)


def _placed(
    goal: Goal, contenders: Sequence[Option], number: int, drawn: Sequence[_Drawn]
) -> Iterator[tuple[float, int]]:
    """In one draw: the contenders that keep to all limits, each with a key that puts the better first."""
    for place, option in enumerate(contenders):
        jobs = drawn[place][number]
        if jobs is None:
            continue
        parts = [
            replace(part, figures=drawn_figures(part, seen)) for part, seen in zip(option.parts, jobs, strict=True)
        ]
        figures = parts[0].figures if len(parts) == 1 else _together(option, parts)
        moved = replace(option, parts=parts, figures=figures)
        if value(moved, goal.figure) is not None and not shortfall(goal, moved):
            yield _key(goal, moved), place


def _together(option: Option, parts: Sequence[Part]) -> dict[str, Any]:
    return totals(parts, place_named(option.system).system, together=option.together)


def drawn_figures(part: Part, seen: Mapping[str, float]) -> dict[str, Any]:
    """The figures of a job in a draw: those that were simulated, and what follows from them.

    Args:
        part: The job.
        seen: What was simulated.
    """
    known = part.figures
    longer = _ratio(seen, known, (TIME,))
    faster = _ratio(seen, known, _RATES)
    factors = {COST: longer, ENERGY: longer, "mfu": faster, "mfu_of_pod": faster}
    moved = {name: known[name] * factor for name, factor in factors.items() if known.get(name) is not None}
    for name, each in known.items():
        if name in moved or not isinstance(each, (int, float)):
            continue
        if name.startswith(("cost_per_million_", "energy_per_")):
            moved[name] = each / faster
        elif name.endswith(("_per_s_per_w", "_per_currency")):
            moved[name] = each * faster
    return {**known, **moved, **{name: each for name, each in seen.items() if name in known}}


def _ratio(seen: Mapping[str, float], known: Mapping[str, Any], names: Sequence[str]) -> float:
    return next((seen[name] / known[name] for name in names if name in seen and known.get(name)), 1.0)


def _numbered(goal: Goal, contender: tuple[int, Option]) -> tuple[int, _Drawn]:
    """The draws of a contender, with its place."""
    place, option = contender
    known = {part.written: part for part in option.parts}  # equal jobs are drawn once
    drawn = {text: _drawn(part, goal) for text, part in known.items()}
    of_jobs = [drawn[part.written] for part in option.parts]
    return place, [None if None in each else list(each) for each in zip(*of_jobs, strict=True)]


def _drawn(part: Part, goal: Goal) -> list[Mapping[str, float] | None]:
    """Figures of a job in each draw."""
    try:
        stands_on = run(parsed(part.written, part.name).data).assumptions
    except PodsimError:
        return [None] * goal.draws
    assert isinstance(stands_on, StandsOn)
    task = drawing_of(stands_on)
    found = (draw(task, goal.seed, number) for number in range(goal.draws))
    return [None if each is None else seen(each) for each in found]
