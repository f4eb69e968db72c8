"""How likely options are to keep to their limits, and between what their figures lie: by ranges, or in draws.

All options of a draw have the same numbers in common, so that what is uncertain about all alike does not blur which one
is best. Times are simulated again; cost and energy follow them, at the power and the prices of the option.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from operator import methodcaller
from statistics import NormalDist
from typing import Any, Final, TypeVar

import numpy as np

from podsim.draws import Draws, Range, Z, range_of
from podsim.errors import PodsimError
from podsim.metrics import HEADLINES, METRICS, TIME, metric_of
from podsim.result.influence import StandsOn
from podsim.result.uncertainty import draw, sampling_task
from podsim.runs import run
from podsim.scenario import load_scenario
from podsim.scenario.yaml_text import parsed
from podsim.study.plan.candidates import Option, Part, served
from podsim.study.plan.goal import Goal, figures, missed
from podsim.workers import mapped

_MOST, _MOST_NEAR_MISSES, _WITHIN, _NEAR_MISS = 4, 2, 1.5, 0.1
RELIABLE: Final = 0.8  # share of samples that a reliable option needs
SWAMPED: Final = "swamped"  # True if requests arrive faster than they can be served in a sample
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Spread:
    """Ranges of an option's metrics, as in `podsim run`; a job's metric is prefixed with its name and a colon."""

    ranges: Mapping[str, Range] = field(default_factory=dict)  # empty if unknown, as for requests
    new: tuple[str, ...] = ()  # features without validation


@dataclass(frozen=True, slots=True)
class Contender:
    """An option that can come first, and shares of the draws."""

    option: Option
    first: float  # share of samples in which it is best, of those in which an option reaches the goal
    within: float  # share of samples in which it keeps to all limits
    possible: float  # share of samples in which it is possible
    ranges: Mapping[str, Range] = field(default_factory=dict)  # as in `Spread`, from the possible samples


@dataclass(frozen=True, slots=True)
class Confidence:
    """Results of sampling uncertain inputs."""

    draws: int
    seed: int
    reached: int  # number of samples in which an option reaches the goal
    contenders: Sequence[Contender]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        plain = asdict(self)
        for told, contender in zip(plain["contenders"], self.contenders, strict=True):
            told |= {"option": contender.option.label, "reliable": contender.within >= RELIABLE}
        return plain

    def contender_for(self, option: Option) -> Contender | None:
        """Return the sampling results of an option; None if it was not sampled."""
        return next((contender for contender in self.contenders if contender.option.label == option.label), None)


def gap(goal: Goal, option: Option) -> float:
    """Return the sum of the relative violations of all limits, including limits of jobs."""
    return math.inf if option.figures is None else sum(size for size, _ in missed(goal.bounds, option.known))


def likelihood(goal: Goal, option: Option, ranges: Mapping[str, Range]) -> float | None:
    """Return the probability that an option keeps to all limits, from the ranges of its metrics; None without ranges.

    The logarithm of a metric is taken as normal, with the ends of its range as P10 and P90. The metrics of an option
    are taken as fully correlated, so that the least likely limit decides. The result is rounded to per cent.
    """
    if not ranges:
        return None
    known, shares = _numbers(goal, option), [1.0]
    for name, bound in goal.bounds:
        ends = ranges.get(name)
        if ends is not None and 0 < ends.low < ends.high:
            low, high = math.log(ends.low), math.log(ends.high)
            normal = NormalDist((low + high) / 2, (high - low) / (2 * Z))
            below, above = (
                normal.cdf(math.log(end)) if 0 < end < math.inf else float(end > 0) for end in (bound.low, bound.high)
            )
            shares.append(above - below)
        else:
            shares.append(float(name in known and bound.holds(known[name])))
    return round(min(shares), 2)


def _numbers(goal: Goal, option: Option) -> dict[str, float]:
    """Return the objective and each limited metric; a job's metric is prefixed with its name and a colon."""
    known, names = option.known, (goal.figure, *(name for name, _ in goal.bounds))
    return {name: float(known[name]) for name in names if isinstance(known.get(name), (int, float))}


def _ranges(goal: Goal, option: Option, moved: Sequence[Option]) -> dict[str, Range]:
    """Return the ranges of objective and limited metrics, widened to include the values of the option."""
    known, drawn = _numbers(goal, option), [_numbers(goal, other) for other in moved]
    values = {name: [numbers[name] for numbers in drawn if name in numbers] for name in known}
    return {name: range_of(values[name]).holding(value) for name, value in known.items() if values[name]}


def _mapped(
    make: Callable[[Sequence[Option], int], _Made], options: Sequence[Option], processes: int | None
) -> list[_Made]:
    """Apply a function to each option on all cores; return the results in order."""
    made = dict(chain.from_iterable(mapped(partial(make, options), range(len(options)), processes=processes)))
    return [made[place] for place in range(len(options))]


def spreads_of(goal: Goal, options: Sequence[Option], processes: int | None = None) -> dict[str, Spread]:
    """Return the ranges of the metrics of options, by label."""
    spreads = _mapped(partial(_spread, goal), options, processes)
    return {option.label: spread for option, spread in zip(options, spreads, strict=True)}


def _spread(goal: Goal, options: Sequence[Option], place: int) -> Spread:
    """Return the ranges of times, and of the metrics that depend on them."""
    option, new = options[place], dict[str, None]()
    ends = dict[str, tuple[dict[str, float], dict[str, float]]]()
    for part in option.parts:
        if part.written in ends:
            continue
        try:
            loaded = load_scenario(parsed(part.written, part.name).data)
            result: Any = served(loaded) if goal.is_served else run(loaded)
        except PodsimError:
            return Spread()
        new |= dict.fromkeys(result.envelope.outside)
        fast, slow = ends[part.written] = {}, {}
        for name, known in result.ranges.items():
            better = metric_of(name).more_is_better
            fast[name], slow[name] = (known.high, known.low) if better else (known.low, known.high)
    if not ends or not all(fast for fast, _ in ends.values()):
        return Spread({}, tuple(new))
    moved = [_with_metrics(option, [ends[part.written][side] for part in option.parts]) for side in range(2)]
    return Spread(_ranges(goal, option, moved), tuple(new))


def confidence_of(
    goal: Goal, ranked: Sequence[Option], out: Sequence[Option], processes: int | None = None
) -> Confidence | None:
    """Return how often each contender comes first in samples of uncertain inputs.

    Further options are sampled if in some sample no contender reaches the goal, or if none is reliable. Return None if
    nothing is sampled, or nothing can change.
    """
    contenders, draws = _contenders(goal, ranked, out), goal.draw_count
    if not draws or not contenders or (len(contenders) == 1 and not goal.bounds):
        return None
    values = [abs(option.rank(goal.figure)) for option in contenders]
    near = sum(max(values[0], value) <= _WITHIN * min(values[0], value) for value in values)
    behind = [option for option in ranked[_MOST:] if option not in contenders][:_MOST]
    options, moved = list[Option](), list[list[Option | None]]()
    kept = np.empty((0, draws), dtype=bool)  # True if an option keeps to all limits in a sample
    keys = np.empty((0, draws))  # smaller for better options
    for group in (contenders[:near], contenders[near:], behind):
        shares = [share for option, share in zip(options, kept.mean(1), strict=True) if not option.reason]
        if group and not (max(shares, default=0.0) >= RELIABLE and kept.any(0).all()):
            options += group
            moved += _mapped(partial(_sampled_options, goal), group, processes)
            keys = np.array([[_key_within(goal, option) for option in row] for row in moved])
            kept = np.isfinite(keys)
    firsts = keys.argmin(0)[kept.any(0)]
    counted = []
    for place, option in enumerate(options):
        possible = [each for each in moved[place] if each is not None]
        first, within = np.count_nonzero(firsts == place) / max(1, len(firsts)), float(kept[place].mean())
        counted.append(Contender(option, first, within, len(possible) / draws, _ranges(goal, option, possible)))
    return Confidence(draws, goal.seed, len(firsts), counted)


def _contenders(goal: Goal, ranked: Sequence[Option], out: Sequence[Option]) -> list[Option]:
    """Return the best options within all limits, and better options that miss a limit by little."""
    best, key = list(ranked[:_MOST]), methodcaller("rank", goal.figure)
    known = (option for option in out if option.parts and option.value(goal.figure) is not None)
    near = (option for option in known if gap(goal, option) <= _NEAR_MISS)
    better = sorted((option for option in near if not best or key(option) <= key(best[-1])), key=key)
    # Stable sorting keeps options within limits before equally good ones beyond.
    return sorted([*best, *better[: _MOST_NEAR_MISSES if best else _MOST]], key=key)


def _key_within(goal: Goal, option: Option | None) -> float:
    """Return a sort key, smaller for better; infinite if impossible, beyond a limit or overloaded."""
    if option is None or any(part.figures.get(SWAMPED) for part in option.parts):
        return math.inf
    return math.inf if option.value(goal.figure) is None or gap(goal, option) else option.rank(goal.figure)


def _with_metrics(option: Option, jobs: Sequence[Mapping[str, Any]]) -> Option:
    """Return an option with the metrics of its jobs in one sample."""
    pairs = zip(option.parts, jobs, strict=True)
    return option.with_parts([replace(part, figures=sampled_figures(part, numbers)) for part, numbers in pairs])


def sampled_figures(part: Part, drawn: Mapping[str, float]) -> dict[str, Any]:
    """Return the metrics of a job in one sample: the simulated ones, and without serving the derived ones."""
    if SWAMPED in drawn:
        return {**part.figures, **drawn}

    def ratio(names: Sequence[str]) -> float:
        return next((drawn[name] / known[name] for name in names if name in drawn and known.get(name)), 1.0)

    known = part.figures
    longer, faster = ratio((TIME,)), ratio(HEADLINES)
    moved = {}
    for name, value in known.items():
        metric = METRICS.get(name)
        if metric is not None and isinstance(value, (int, float)):
            if metric.follows == TIME:
                moved[name] = value * longer
            elif metric.follows in HEADLINES:
                moved[name] = value * faster if metric.more_is_better else value / faster
    return {**known, **moved, **{name: value for name, value in drawn.items() if name in known}}


def _sampled_options(goal: Goal, options: Sequence[Option], place: int) -> list[Option | None]:
    """Return an option with the metrics of each sample, None if impossible; equal jobs are sampled once."""
    option = options[place]
    drawn = {part.written: part for part in option.parts}
    of_jobs = {text: _sampled_metrics(part, goal) for text, part in drawn.items()}
    of_draws = zip(*(of_jobs[part.written] for part in option.parts), strict=True)
    return [None if None in jobs else _with_metrics(option, jobs) for jobs in of_draws]


def _sampled_metrics(part: Part, goal: Goal) -> list[Mapping[str, Any] | None]:
    """Return the metrics of a job in each sample."""
    count = goal.draw_count
    try:
        scenario = parsed(part.written, part.name).data
        if goal.is_served:
            results = served(load_scenario(scenario), Draws(count, goal.seed)).drawn()
            return [None if result is None else figures(result) | {SWAMPED: result.is_saturated} for result in results]
        stands_on = run(scenario).assumptions
    except PodsimError:
        return [None] * count
    assert isinstance(stands_on, StandsOn)
    task = sampling_task(stands_on)
    return [draw(task, goal.seed, number) for number in range(count)]
