"""Probability that options keep to their limits, and ranges of their metrics, from prediction intervals or samples.

In a sample, all options have the same values of uncertain inputs, so that common errors do not affect which is best.
Times are simulated again. Cost and energy are proportional to them, at the power and the prices of the option.
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

_MOST, _MOST_NEAR_MISSES = 4, 2  # most contenders within all limits, and beyond a limit
_WITHIN: Final = 1.5  # ratio to the best objective up to which contenders are sampled first
_NEAR_MISS: Final = 0.1  # relative violation of limits up to which an option is a contender
RELIABLE: Final = 0.8  # share of samples in which a reliable option keeps to all limits
SWAMPED: Final = "swamped"  # key of a sample: True if requests arrive faster than they can be served
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Spread:
    """Prediction intervals of an option's metrics, and its features that no validated run has."""

    ranges: Mapping[str, Range] = field(default_factory=dict)  # by metric, as in `Goal.bounds`; empty if unknown
    new: tuple[str, ...] = ()  # features without validation


@dataclass(frozen=True, slots=True)
class Contender:
    """A sampled option, with shares of the samples."""

    option: Option
    first: float  # share of samples in which it is best, of those in which an option reaches the goal
    within: float  # share of samples in which it keeps to all limits
    possible: float  # share of samples in which it is possible
    ranges: Mapping[str, Range] = field(default_factory=dict)  # as in `Spread`, from the possible samples


@dataclass(frozen=True, slots=True)
class Confidence:
    """Results of sampling uncertain inputs."""

    draws: int  # number of samples
    seed: int
    reached: int  # number of samples in which an option reaches the goal
    contenders: Sequence[Contender]

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        plain = asdict(self)
        for row, contender in zip(plain["contenders"], self.contenders, strict=True):
            row |= {"option": contender.option.label, "reliable": contender.within >= RELIABLE}
        return plain

    def contender_for(self, option: Option) -> Contender | None:
        """Return the sampling results of an option; None if it was not sampled."""
        return next((contender for contender in self.contenders if contender.option.label == option.label), None)


def gap(goal: Goal, option: Option) -> float:
    """Return the sum of an option's relative violations of all limits; infinite without metrics."""
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
    """Return the values of the objective and of the limited metrics, by metric as in `Goal.bounds`."""
    known, names = option.known, (goal.figure, *(name for name, _ in goal.bounds))
    return {name: float(known[name]) for name in names if isinstance(known.get(name), (int, float))}


def _ranges(goal: Goal, option: Option, samples: Sequence[Option]) -> dict[str, Range]:
    """Return the ranges of objective and limited metrics over samples of an option; they include its own values."""
    numbers, sampled = _numbers(goal, option), [_numbers(goal, sample) for sample in samples]
    values = {name: [sample[name] for sample in sampled if name in sample] for name in numbers}
    return {name: range_of(values[name]).holding(value) for name, value in numbers.items() if values[name]}


def _mapped(
    make: Callable[[Sequence[Option], int], _Result], options: Sequence[Option], processes: int | None
) -> list[_Result]:
    """Call `make(options, place)` for each option on all cores; return the results in order."""
    results = dict(chain.from_iterable(mapped(partial(make, options), range(len(options)), processes=processes)))
    return [results[place] for place in range(len(options))]


def spreads_of(goal: Goal, options: Sequence[Option], processes: int | None = None) -> dict[str, Spread]:
    """Return the prediction intervals of the metrics of options, by label."""
    spreads = _mapped(partial(_spread, goal), options, processes)
    return {option.label: spread for option, spread in zip(options, spreads, strict=True)}


def _spread(goal: Goal, options: Sequence[Option], place: int) -> Spread:
    """Return the prediction intervals of an option: of times, and of the metrics that are proportional to them."""
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
        for name, interval in result.ranges.items():
            is_rate = metric_of(name).more_is_better
            fast[name], slow[name] = (interval.high, interval.low) if is_rate else (interval.low, interval.high)
    if not ends or not all(fast for fast, _ in ends.values()):
        return Spread({}, tuple(new))
    fast_and_slow = [_with_metrics(option, [ends[part.written][side] for part in option.parts]) for side in range(2)]
    return Spread(_ranges(goal, option, fast_and_slow), tuple(new))


def confidence_of(
    goal: Goal, ranked: Sequence[Option], out: Sequence[Option], processes: int | None = None
) -> Confidence | None:
    """Return how often each contender comes first in samples of uncertain inputs.

    Further options are sampled if no contender reaches the goal in some sample, or if none is reliable.

    Args:
        goal: Goal of the plan.
        ranked: Options within all limits, the best first.
        out: Options that are ruled out.
        processes: Number of processes; by default the number of cores.

    Returns:
        The results; None without samples, or with a single contender and no limits.
    """
    contenders, draws = _contenders(goal, ranked, out), goal.draw_count
    if not draws or not contenders or (len(contenders) == 1 and not goal.bounds):
        return None
    values = [abs(option.rank(goal.figure)) for option in contenders]
    near = sum(max(values[0], value) <= _WITHIN * min(values[0], value) for value in values)
    behind = [option for option in ranked[_MOST:] if option not in contenders][:_MOST]
    options, samples = list[Option](), list[list[Option | None]]()
    is_within = np.empty((0, draws), dtype=bool)  # by option and sample: True if it keeps to all limits
    keys = np.empty((0, draws))  # by option and sample: smaller for better options
    for group in (contenders[:near], contenders[near:], behind):
        shares = [share for option, share in zip(options, is_within.mean(1), strict=True) if not option.reason]
        if group and not (max(shares, default=0.0) >= RELIABLE and is_within.any(0).all()):
            options += group
            samples += _mapped(partial(_sampled_options, goal), group, processes)
            keys = np.array([[_key_within(goal, sample) for sample in row] for row in samples])
            is_within = np.isfinite(keys)
    firsts = keys.argmin(0)[is_within.any(0)]
    sampled = []
    for place, option in enumerate(options):
        possible = [sample for sample in samples[place] if sample is not None]
        first, within = np.count_nonzero(firsts == place) / max(1, len(firsts)), float(is_within[place].mean())
        sampled.append(Contender(option, first, within, len(possible) / draws, _ranges(goal, option, possible)))
    return Confidence(draws, goal.seed, len(firsts), sampled)


def _contenders(goal: Goal, ranked: Sequence[Option], out: Sequence[Option]) -> list[Option]:
    """Return the best options within all limits, and better options that miss a limit by little, the best first."""
    best, key = list(ranked[:_MOST]), methodcaller("rank", goal.figure)
    with_objective = (option for option in out if option.parts and option.value(goal.figure) is not None)
    near = (option for option in with_objective if gap(goal, option) <= _NEAR_MISS)
    better = sorted((option for option in near if not best or key(option) <= key(best[-1])), key=key)
    # Stable sorting keeps options within limits before equally good ones beyond.
    return sorted([*best, *better[: _MOST_NEAR_MISSES if best else _MOST]], key=key)


def _key_within(goal: Goal, option: Option | None) -> float:
    """Return a sort key, smaller for better; infinite if impossible, beyond a limit or overloaded."""
    if option is None or any(part.figures.get(SWAMPED) for part in option.parts):
        return math.inf
    return math.inf if option.value(goal.figure) is None or gap(goal, option) else option.rank(goal.figure)


def _with_metrics(option: Option, samples: Sequence[Mapping[str, Any]]) -> Option:
    """Return an option with the metrics of one sample; `samples` has the simulated metrics of each job."""
    pairs = zip(option.parts, samples, strict=True)
    return option.with_parts([replace(part, figures=sampled_figures(part, sample)) for part, sample in pairs])


def sampled_figures(part: Part, sample: Mapping[str, float]) -> dict[str, Any]:
    """Return all metrics of a job in one sample.

    Metrics that `sample` lacks are scaled with the time or the rate that they are proportional to; serving has none.
    """
    if SWAMPED in sample:
        return {**part.figures, **sample}

    def ratio(names: Sequence[str]) -> float:
        return next((sample[name] / unsampled[name] for name in names if name in sample and unsampled.get(name)), 1.0)

    unsampled = part.figures
    time_ratio, rate_ratio = ratio((TIME,)), ratio(HEADLINES)
    scaled = {}
    for name, value in unsampled.items():
        metric = METRICS.get(name)
        if metric is not None and isinstance(value, (int, float)):
            if metric.follows == TIME:
                scaled[name] = value * time_ratio
            elif metric.follows in HEADLINES:
                scaled[name] = value * rate_ratio if metric.more_is_better else value / rate_ratio
    return {**unsampled, **scaled, **{name: value for name, value in sample.items() if name in unsampled}}


def _sampled_options(goal: Goal, options: Sequence[Option], place: int) -> list[Option | None]:
    """Return an option once for each sample, with its metrics; None if impossible. Equal jobs are sampled once."""
    option = options[place]
    part_by_scenario = {part.written: part for part in option.parts}
    samples_by_scenario = {text: _sampled_metrics(part, goal) for text, part in part_by_scenario.items()}
    jobs_by_sample = zip(*(samples_by_scenario[part.written] for part in option.parts), strict=True)
    return [None if None in jobs else _with_metrics(option, jobs) for jobs in jobs_by_sample]


def _sampled_metrics(part: Part, goal: Goal) -> list[Mapping[str, Any] | None]:
    """Simulate a job once for each sample of the inputs; return its metrics by key, or None if it is impossible."""
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
