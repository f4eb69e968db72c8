"""How sure a ranking is: the best options run again with all assumed and calibrated inputs drawn from their ranges.

What is drawn for an input depends on the seed, the number of the draw and the key alone, so that all options of a draw
have the same numbers in common, and what is uncertain about all of them alike does not blur which one is best. Times
are simulated anew; cost and energy follow them, at the power and the prices of the option.

An option that holds in at least four fifths of the draws, fits and keeps to all limits, is reliable. If none of the
first is, those behind are drawn as well, until one is.

Only those are drawn that can come first: a few of the best, among them those that miss a limit by a tenth at most and
would else be better. Those that are behind are drawn if in some draw none of these reaches the goal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, Final

from podsim.draws import Draws, Range, range_of
from podsim.errors import PodsimError
from podsim.many.capacity.figures import served_figures
from podsim.many.capacity.front import value
from podsim.many.capacity.goal import Goal
from podsim.many.capacity.option import Option, Part
from podsim.many.capacity.shortfall import shortfall
from podsim.many.capacity.simulate import served
from podsim.many.capacity.systems import place_named
from podsim.many.capacity.totals import totals
from podsim.metrics import HEADLINES, IPUS, METRICS, TIME, metric_of
from podsim.result.influence import StandsOn
from podsim.result.uncertainty import draw, drawing_of, seen
from podsim.runs import run
from podsim.scenario import load_scenario
from podsim.scenario.yaml_text import parsed
from podsim.workers import mapped

MOST_CONTENDERS: Final = 4
MOST_NEAR_MISSES: Final = 2
_WITHIN: Final = 1.5
_NEAR_MISS: Final = 0.1
RELIABLE: Final = 0.8
"""An option that holds in fewer of the draws does not come before one that does."""
SWAMPED: Final = "swamped"
"""Whether more requests come in a draw than can be served."""
_Drawn = list[list[Mapping[str, Any]] | None]
"""For each draw the figures of each job; None if the draw is impossible."""


@dataclass(frozen=True, slots=True)
class Contender:
    """An option that can come first.

    Attributes:
        option: The option.
        first: Of the draws in which one reaches the goal, the share in which this is the best of them.
        within: Share of the draws in which it keeps to all limits.
        possible: Share of the draws in which it can be run at all.
        ranges: Between what the objective and each limited figure lie in four fifths of the draws that are possible;
            those of a job behind its name and a colon.
    """

    option: Option
    first: float
    within: float
    possible: float
    ranges: Mapping[str, Range] = field(default_factory=dict)

    @property
    def is_reliable(self) -> bool:
        """Whether it keeps to all limits in nearly all draws."""
        return self.within >= RELIABLE

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        shares = {"first": self.first, "within": self.within, "possible": self.possible}
        ranges = {name: asdict(each) for name, each in self.ranges.items()}
        return {"option": self.option.label, **shares, "reliable": self.is_reliable, "ranges": ranges}


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
        contenders = [each.to_dict() for each in self.contenders]
        return {"draws": self.draws, "seed": self.seed, "reached": self.reached, "contenders": contenders}

    def of(self, option: Option) -> Contender | None:
        """What is known of an option; None if it was not drawn."""
        return next((each for each in self.contenders if each.option.label == option.label), None)


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
    contenders, draws = _contenders(goal, ranked, out), goal.draw_count
    if not draws or not contenders or (len(contenders) == 1 and not goal.asked):
        return None
    near = [each for each in contenders if not _is_far(goal, contenders[0], each)]
    behind = [each for each in ranked[MOST_CONTENDERS:] if each not in contenders][:MOST_CONTENDERS]
    options, moved, placed = list[Option](), list[list[Option | None]](), list[list[tuple[float, int]]]()
    for group in (near, contenders[len(near) :], behind):
        if group and not (placed and all(placed) and _has_reliable(options, placed)):
            options += group
            moved += [
                [_moved(option, jobs) for jobs in drawn]
                for option, drawn in zip(group, _all_drawn(goal, group, processes), strict=True)
            ]
            placed = [list(_placed(goal, [each[number] for each in moved])) for number in range(draws)]
    firsts = [min(each)[1] for each in placed if each]
    withins = [place for each in placed for _, place in each]
    counted = [
        Contender(
            option,
            firsts.count(place) / max(1, len(firsts)),
            withins.count(place) / draws,
            sum(each is not None for each in moved[place]) / draws,
            dict(_ranges(goal, option, [each for each in moved[place] if each is not None])),
        )
        for place, option in enumerate(options)
    ]
    return Sureness(draws, goal.seed, len(firsts), counted)


def _has_reliable(options: Sequence[Option], placed: Sequence[Sequence[tuple[float, int]]]) -> bool:
    """Whether one of the options within all limits holds in nearly all draws."""
    withins = [place for each in placed for _, place in each]
    return any(
        not option.reason and withins.count(place) >= RELIABLE * len(placed) for place, option in enumerate(options)
    )


def _ranges(goal: Goal, option: Option, moved: Sequence[Option]) -> Iterator[tuple[str, Range]]:
    """Of the figure that counts, and of each that is limited, as wide as to hold that of the option."""
    for name in dict.fromkeys((goal.figure, *(limit.metric for limit in goal.limits))):
        values = [found for each in moved if (found := value(each, name)) is not None]
        if values and (known := value(option, name)) is not None:
            yield name, range_of(values).holding(known)
    for place, job in enumerate(goal.work):
        for name in dict.fromkeys(limit.metric for limit in job.limits):
            numbers = [each.parts[place].figures.get(name) for each in (option, *moved)]
            likely, *drawn = [float(each) for each in numbers if isinstance(each, (int, float))] or [0.0]
            if drawn:
                yield f"{job.name}: {name}", range_of(drawn).holding(likely)


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
    make = partial(_drawings, goal, options)
    found = dict(chain.from_iterable(mapped(make, range(len(options)), processes=processes)))
    return [found[place] for place in range(len(options))]


def _key(goal: Goal, option: Option) -> float:
    figure = value(option, goal.figure)
    assert figure is not None
    return metric_of(goal.figure).rank(figure)


def _moved(option: Option, jobs: Sequence[Mapping[str, Any]] | None) -> Option | None:
    """An option with the figures of a draw; None if that is impossible."""
    if jobs is None:
        return None
    parts = [replace(part, figures=drawn_figures(part, seen)) for part, seen in zip(option.parts, jobs, strict=True)]
    figures = dict(parts[0].figures if len(parts) == 1 else _together(option, parts))
    return replace(option, parts=parts, figures=figures | {IPUS: option.ipu_count})


def _placed(goal: Goal, moved: Sequence[Option | None]) -> Iterator[tuple[float, int]]:
    """In one draw: the contenders that keep to all limits, each with a key that puts the better first."""
    for place, option in enumerate(moved):
        if option is None or any(part.figures.get(SWAMPED) for part in option.parts):
            continue
        if value(option, goal.figure) is not None and not shortfall(goal, option):
            yield _key(goal, option), place


def _together(option: Option, parts: Sequence[Part]) -> dict[str, Any]:
    return totals(parts, place_named(option.system).system, together=option.together)


def drawn_figures(part: Part, seen: Mapping[str, float]) -> dict[str, Any]:
    """The figures of a job in a draw: those that were simulated, and what follows from them.

    Args:
        part: The job.
        seen: What was simulated; all there is of requests that are served.
    """
    if SWAMPED in seen:
        return {**part.figures, **seen}
    known = part.figures
    longer = _ratio(seen, known, (TIME,))
    faster = _ratio(seen, known, HEADLINES)
    moved = {}
    for name, each in known.items():
        metric = METRICS.get(name)
        if metric is not None and isinstance(each, (int, float)):
            if metric.follows == TIME:
                moved[name] = each * longer
            elif metric.follows in HEADLINES:
                moved[name] = each * faster if metric.more_is_better else each / faster
    return {**known, **moved, **{name: each for name, each in seen.items() if name in known}}


def _ratio(seen: Mapping[str, float], known: Mapping[str, Any], names: Sequence[str]) -> float:
    return next((seen[name] / known[name] for name in names if name in seen and known.get(name)), 1.0)


def _drawings(goal: Goal, options: Sequence[Option], place: int) -> _Drawn:
    """The draws of a contender."""
    option = options[place]
    known = {part.written: part for part in option.parts}  # equal jobs are drawn once
    drawn = {text: _drawn(part, goal) for text, part in known.items()}
    of_jobs = [drawn[part.written] for part in option.parts]
    return [None if None in each else list(each) for each in zip(*of_jobs, strict=True)]


def _drawn(part: Part, goal: Goal) -> list[Mapping[str, Any] | None]:
    """Figures of a job in each draw."""
    count = goal.draw_count
    try:
        scenario = parsed(part.written, part.name).data
        if goal.is_served:
            result = served(goal, load_scenario(scenario), Draws(count, goal.seed))
            return [
                None if each is None else served_figures(each) | {SWAMPED: each.is_saturated} for each in result.drawn()
            ]
        stands_on = run(scenario).assumptions
    except PodsimError:
        return [None] * count
    assert isinstance(stands_on, StandsOn)
    task = drawing_of(stands_on)
    found = (draw(task, goal.seed, number) for number in range(count))
    return [None if each is None else seen(each) for each in found]
