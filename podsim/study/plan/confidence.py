"""How likely options are to keep to their limits, and between what their figures lie.

The range of a figure is that of `podsim run`: the middle 80 % of what it may be. Without draws the likelihood of a
limit follows from it: the logarithm of the figure is taken to be normal, with the ends of the range as P10 and P90.
The figures of an option rise and fall together, so that the least likely limit decides; whole per cent are all that
such a range can tell.

With draws, the best options are run again with all assumed and calibrated inputs drawn from their ranges. What is drawn
for an input depends on the seed, the number of the draw and the key alone, so that all options of a draw have the same
numbers in common, and what is uncertain about all of them alike does not blur which one is best. Times are simulated
anew; cost and energy follow them, at the power and the prices of the option. The likelihood is the share of draws in
which an option fits and keeps to all limits; from four fifths on it is reliable.

Only those are drawn that can come first: a few of the best, among them those that miss a limit by a tenth at most and
would else be better. Those that are behind are drawn if in some draw none of these reaches the goal, or if none of them
is reliable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from statistics import NormalDist
from typing import Any, Final, TypeVar

from podsim.draws import Draws, Range, range_of
from podsim.errors import PodsimError
from podsim.metrics import HEADLINES, METRICS, TIME, metric_of
from podsim.result.evidence import Z
from podsim.result.influence import StandsOn
from podsim.result.uncertainty import draw, drawing_of
from podsim.runs import run
from podsim.scenario import load_scenario
from podsim.scenario.yaml_text import parsed
from podsim.study.plan.figures import served_figures
from podsim.study.plan.goal import Goal
from podsim.study.plan.limits import excess
from podsim.study.plan.option import Option, Part
from podsim.study.plan.simulate import served, with_parts
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
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Spread:
    """Between what figures of an option lie, those of a job behind its name and a colon, as `podsim run` says.

    Without ranges nothing is known of it, as where requests are served; `new` is what of it was never compared.
    """

    ranges: Mapping[str, Range] = field(default_factory=dict)
    new: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contender:
    """An option that can come first, and shares of the draws.

    Attributes:
        option: The option.
        first: Of the draws in which one reaches the goal, the share in which this is the best of them.
        within: Share of the draws in which it keeps to all limits.
        possible: Share of the draws in which it can be run at all.
        ranges: As those of a `Spread`, of the draws that are possible.
    """

    option: Option
    first: float
    within: float
    possible: float
    ranges: Mapping[str, Range] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Confidence:
    """What came of draws: of `draws` with a `seed`, in how many one of the options reaches the goal."""

    draws: int
    seed: int
    reached: int
    contenders: Sequence[Contender]

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        told = asdict(self)
        for each, contender in zip(told["contenders"], self.contenders, strict=True):
            each |= {"option": contender.option.label, "reliable": contender.within >= RELIABLE}
        return told

    def of(self, option: Option) -> Contender | None:
        """What is known of an option; None if it was not drawn."""
        return next((each for each in self.contenders if each.option.label == option.label), None)


def gap(goal: Goal, option: Option) -> float:
    """By how much an option misses all limits together, as shares of their bounds; those of jobs included."""
    if option.figures is None:
        return math.inf
    of_jobs = (excess(job.limits, part.figures) for job, part in zip(goal.work, option.parts, strict=False))
    return excess(goal.limits, option.figures) + sum(of_jobs)


def spreads_of(goal: Goal, options: Sequence[Option], processes: int | None = None) -> dict[str, Spread]:
    """Between what the figures of options lie, by their labels, so many at a time."""
    found = _mapped(partial(_spread, goal), options, processes)
    return {option.label: each for option, each in zip(options, found, strict=True)}


def likelihood(goal: Goal, option: Option, ranges: Mapping[str, Range]) -> float | None:
    """How likely it is that an option keeps to all limits, by the ranges of its figures; None without any.

    The logarithm of a figure is normal, with the ends of its range as P10 and P90; the least likely limit decides.
    """
    if not ranges:
        return None
    known, shares = _counted(goal, option), [1.0]
    limits = [*((limit.metric, limit) for limit in goal.limits)]
    limits += [(f"{job.name}: {limit.metric}", limit) for job in goal.work for limit in job.limits]
    for name, limit in limits:
        ends = ranges.get(name)
        if ends is not None and 0 < ends.low < ends.high:
            low, high = math.log(ends.low), math.log(ends.high)
            normal = NormalDist((low + high) / 2, (high - low) / (2 * Z))
            below, above = (
                normal.cdf(math.log(bound)) if 0 < bound < math.inf else float(bound > 0)
                for bound in (limit.low, limit.high)
            )
            shares.append(above - below)
        else:
            shares.append(float(name in known and limit.holds(known[name])))
    return round(min(shares), 2)


def _spread(goal: Goal, options: Sequence[Option], place: int) -> Spread:
    """The ends of what times may be, and what follows from them."""
    option = options[place]
    ends, new = dict[str, tuple[dict[str, float], ...]](), list[str]()
    for text, part in {part.written: part for part in option.parts}.items():
        try:
            loaded = load_scenario(parsed(text, part.name).data)
            result: Any = served(loaded) if goal.is_served else run(loaded)
        except PodsimError:
            return Spread()
        new += result.envelope.outside
        fast, slow = dict[str, float](), dict[str, float]()
        for name, each in result.ranges.items():
            better = metric_of(name).more_is_better
            fast[name], slow[name] = (each.high, each.low) if better else (each.low, each.high)
        ends[text] = fast, slow
    if not ends or not all(map(any, ends.values())):
        return Spread({}, tuple(dict.fromkeys(new)))
    moved = [_moved(option, [ends[part.written][side] for part in option.parts]) for side in range(2)]
    return Spread(_ranges(goal, option, [each for each in moved if each]), tuple(dict.fromkeys(new)))


def confidence_of(
    goal: Goal, ranked: Sequence[Option], out: Sequence[Option], processes: int | None = None
) -> Confidence | None:
    """How often each of the best comes first, of options that are ranked and those that limits rule out.

    Returns:
        None if nothing is drawn, or nothing can change.
    """
    contenders, draws = _contenders(goal, ranked, out), goal.draw_count
    if not draws or not contenders or (len(contenders) == 1 and not goal.asked):
        return None
    near = [each for each in contenders if _is_near(goal, contenders[0], each)]
    behind = [each for each in ranked[MOST_CONTENDERS:] if each not in contenders][:MOST_CONTENDERS]
    options, moved, placed = list[Option](), list[list[Option | None]](), list[list[tuple[float, int]]]()
    for group in (near, contenders[len(near) :], behind):
        if group and not (placed and all(placed) and _has_reliable(options, placed)):
            options += group
            moved += [
                [_moved(option, jobs) for jobs in drawn]
                for option, drawn in zip(group, _mapped(partial(_drawings, goal), group, processes), strict=True)
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
            _ranges(goal, option, [each for each in moved[place] if each is not None]),
        )
        for place, option in enumerate(options)
    ]
    return Confidence(draws, goal.seed, len(firsts), counted)


def _has_reliable(options: Sequence[Option], placed: Sequence[Sequence[tuple[float, int]]]) -> bool:
    """Whether one of the options within all limits holds in nearly all draws."""
    withins = [place for each in placed for _, place in each]
    return any(
        not option.reason and withins.count(place) >= RELIABLE * len(placed) for place, option in enumerate(options)
    )


def _counted(goal: Goal, option: Option) -> dict[str, float]:
    """The figure that counts and each that is limited; those of a job behind its name and a colon."""
    found: dict[str, Any] = {name: option.value(name) for name in (goal.figure, *(each.metric for each in goal.limits))}
    for job, part in zip(goal.work, option.parts, strict=False):
        found |= {f"{job.name}: {limit.metric}": part.figures.get(limit.metric) for limit in job.limits}
    return {name: float(each) for name, each in found.items() if isinstance(each, (int, float))}


def _ranges(goal: Goal, option: Option, moved: Sequence[Option]) -> dict[str, Range]:
    """Between what these figures lie, as wide as to hold those of the option."""
    known, drawn = _counted(goal, option), [_counted(goal, each) for each in moved]
    values = {name: [each[name] for each in drawn if name in each] for name in known}
    return {name: range_of(values[name]).holding(value) for name, value in known.items() if values[name]}


def _contenders(goal: Goal, ranked: Sequence[Option], out: Sequence[Option]) -> list[Option]:
    """The best of those within all limits, and a few that miss them by little and are better than some of these."""
    best, key = list(ranked[:MOST_CONTENDERS]), partial(_key, goal)
    known = [each for each in out if each.parts and each.value(goal.figure) is not None]
    near = [each for each in known if gap(goal, each) <= _NEAR_MISS]
    better = sorted((each for each in near if not best or key(each) <= key(best[-1])), key=key)
    most = MOST_NEAR_MISSES if best else MOST_CONTENDERS
    # Sorting keeps what is within limits before what is as good and is not.
    return sorted([*best, *better[:most]], key=key)


def _is_near(goal: Goal, best: Option, other: Option) -> bool:
    a, b = best.value(goal.figure) or 0.0, other.value(goal.figure) or 0.0
    return max(a, b) <= _WITHIN * min(a, b)


def _mapped(
    make: Callable[[Sequence[Option], int], _Made], options: Sequence[Option], processes: int | None
) -> list[_Made]:
    """What is made of each option, on all cores."""
    found = dict(chain.from_iterable(mapped(partial(make, options), range(len(options)), processes=processes)))
    return [found[place] for place in range(len(options))]


def _key(goal: Goal, option: Option) -> float:
    figure = option.value(goal.figure)
    assert figure is not None
    return metric_of(goal.figure).rank(figure)


def _moved(option: Option, jobs: Sequence[Mapping[str, Any]] | None) -> Option | None:
    """An option with the figures of a draw; None if that is impossible."""
    if jobs is None:
        return None
    return with_parts(
        option,
        [replace(part, figures=drawn_figures(part, each)) for part, each in zip(option.parts, jobs, strict=True)],
    )


def _placed(goal: Goal, moved: Sequence[Option | None]) -> Iterator[tuple[float, int]]:
    """In one draw: the contenders that keep to all limits, each with a key that puts the better first."""
    for place, option in enumerate(moved):
        if option is None or any(part.figures.get(SWAMPED) for part in option.parts):
            continue
        if option.value(goal.figure) is not None and not gap(goal, option):
            yield _key(goal, option), place


def drawn_figures(part: Part, seen: Mapping[str, float]) -> dict[str, Any]:
    """The figures of a job in a draw: those that were simulated, and what follows from them unless it is served."""
    if SWAMPED in seen:
        return {**part.figures, **seen}
    known = part.figures
    longer, faster = _ratio(seen, known, (TIME,)), _ratio(seen, known, HEADLINES)
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
    """The draws of a contender; equal jobs are drawn once."""
    parts = options[place].parts
    drawn = {text: _drawn(part, goal) for text, part in {part.written: part for part in parts}.items()}
    return [None if None in each else list(each) for each in zip(*(drawn[part.written] for part in parts), strict=True)]


def _drawn(part: Part, goal: Goal) -> list[Mapping[str, Any] | None]:
    """Figures of a job in each draw."""
    count = goal.draw_count
    try:
        scenario = parsed(part.written, part.name).data
        if goal.is_served:
            result = served(load_scenario(scenario), Draws(count, goal.seed))
            return [
                None if each is None else served_figures(each) | {SWAMPED: each.is_saturated} for each in result.drawn()
            ]
        stands_on = run(scenario).assumptions
    except PodsimError:
        return [None] * count
    assert isinstance(stands_on, StandsOn)
    task = drawing_of(stands_on)
    return [draw(task, goal.seed, number) for number in range(count)]
