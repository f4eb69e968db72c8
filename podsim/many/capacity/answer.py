"""The answer to a goal: systems and divisions, ranked; what rules the others out; how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from podsim.errors import PodsimError
from podsim.format import format_percent
from podsim.many.capacity.candidates import CandidateSystems
from podsim.many.capacity.figures import SERVED, TOTALS, names_of, second_of
from podsim.many.capacity.front import Doubling, doublings, pareto_front, value
from podsim.many.capacity.goal import Goal, Job, goal_of
from podsim.many.capacity.limits import check_limits, currencies_of, limit, misses
from podsim.many.capacity.option import Option
from podsim.many.capacity.shortfall import shortfall
from podsim.many.capacity.simulate import Options
from podsim.many.capacity.sure import RELIABLE, Contender, Sureness, sureness
from podsim.many.capacity.systems import place_named
from podsim.metrics import IPUS, metric_of
from podsim.options import Overrides
from podsim.report.chart import Sheet
from podsim.scenario import LoadedScenario, load_hardware, load_scenario
from podsim.scenario.activity import Activity
from podsim.scenario.expectations import Expectation
from podsim.scenario.load import override_texts
from podsim.scenario.scenario import Scenario
from podsim.show.answers import Answered
from podsim.show.html_page import to_html
from podsim.watch import Tell, telling, untold

Say = Callable[[str], None]
_NOTES: Final = "warnings"
_FILES: Final = (".yaml", ".yml")


@dataclass(frozen=True, repr=False)
class Answer(Answered):
    """What was found.

    Attributes:
        goal: What was wanted.
        ranked: Options within all limits, those first that hold in nearly all draws, and of these the best.
        ruled_out: The others, each with its reason; those that come closest first.
        second: Figure that the objective is weighed against.
        candidate_count: How many there were to look at.
        sureness: How often each of the best comes first with inputs drawn from their ranges.
        inputs: (path, SHA-256) of every file read.
    """

    goal: Goal
    ranked: Sequence[Option]
    ruled_out: Sequence[Option]
    second: str | None = None
    candidate_count: int = 0
    sureness: Sureness | None = None
    inputs: tuple[tuple[str, str], ...] = ()

    @property
    def best(self) -> Option | None:
        """The best; None where nothing reaches the goal."""
        return self.ranked[0] if self.ranked else None

    @property
    def currency(self) -> str:
        """Of all costs."""
        return next((each.currency for each in (*self.ranked, *self.ruled_out) if each.currency), "")

    @cached_property
    def front(self) -> Sequence[Option]:
        """Options within all limits that no other beats in the objective and in the second figure."""
        return pareto_front(self.ranked, self.goal.figure, self.second) if self.second else ()

    @cached_property
    def doublings(self) -> Sequence[Doubling]:
        """What twice the IPUs give, of pairs of which the smaller one has a result."""
        known = [each for each in (*self.ranked, *self.ruled_out) if each.figures is not None]
        return tuple(doublings(known, self.goal.figure))

    def _told(self) -> Iterator[str]:
        from podsim.many.capacity.show import cell, headline

        yield headline(self)
        if self.best is None:
            yield f"nothing reaches the goal; options ruled out: {len(self.ruled_out):,}"
        else:
            figure = cell(self.goal.figure, value(self.best, self.goal.figure), self.currency)
            yield f"best: {self.best.label}, {figure}, {self.best.arithmetic} IPUs"
            yield f"options: {len(self.ranked):,} reach the goal, {len(self.ruled_out):,} ruled out"
        if self.doubt:
            yield self.doubt

    def _repr_html_(self) -> str:
        """The tables of the terminal, for notebooks."""
        from podsim.many.capacity.show import answer_tables

        return "".join(map(to_html, answer_tables(self)))

    def _sheet(self) -> Sheet:
        from podsim.many.capacity.plot import plan_sheet

        return plan_sheet(self)

    def _records(self) -> list[dict[str, Any]]:
        """A row for each option, the ranked ones first."""
        places = [*range(1, len(self.ranked) + 1), *[None] * len(self.ruled_out)]
        return [
            {"rank": place, "system": each.system, "division": each.division}
            | {"ipus": each.ipu_count, "reason": each.reason or None, **each.values}
            | {name: figure for name, figure in (each.figures or {}).items() if name != IPUS}
            for place, each in zip(places, (*self.ranked, *self.ruled_out), strict=True)
        ]

    def _currency(self) -> str:
        return self.currency

    def to_dict(self) -> dict[str, Any]:
        """Plain types only."""
        return {
            "scenario": self.goal.scenario or None,
            "jobs": [job.name for job in self.goal.jobs],
            "order": self.goal.order if self.goal.jobs else None,
            "objective": self.goal.figure,
            "second": self.second,
            "limits": _texts(self.goal.limits),
            "candidate_count": self.candidate_count,
            "ranked": [each.to_dict() | self._confidence(each) for each in self.ranked],
            "ruled_out": [each.to_dict() for each in self.ruled_out],
            "front": [each.label for each in self.front],
            "doublings": [each.to_dict() for each in self.doublings],
            "sureness": None if self.sureness is None else self.sureness.to_dict(),
        }

    def _confidence(self, option: Option) -> dict[str, Any]:
        """In how many of the draws an option holds; nothing known of those that were not drawn."""
        drawn = self.drawn(option)
        return {
            "holds_in": None if drawn is None else drawn.within,
            "reliable": None if drawn is None else drawn.is_reliable,
        }

    def drawn(self, option: Option) -> Contender | None:
        """What came of an option with inputs drawn; None if it was not drawn."""
        return None if self.sureness is None else self.sureness.of(option)

    @property
    def doubt(self) -> str:
        """A line if the first option holds in too few draws to be relied on; empty otherwise."""
        first = None if self.best is None else self.drawn(self.best)
        if first is None or first.is_reliable:
            return ""
        holds, least = format_percent(first.within, 0), format_percent(RELIABLE, 0)
        return f"no option holds in {least} of the draws: the first does in {holds}"


def _texts(limits: Sequence[Expectation]) -> dict[str, str]:
    """Limits as they were written, those of one figure together."""
    texts: dict[str, list[str]] = {}
    for each in limits:
        texts.setdefault(each.metric, []).append(each.text)
    return {metric: " and ".join(told) for metric, told in texts.items()}


def plan(
    goal: str | Path | Goal,
    *,
    limits: Mapping[str, str] | None = None,
    overrides: Overrides = (),
    tell: Tell | None = None,
    processes: int | None = None,
    **wanted: Any,
) -> Answer:
    """Rank systems and divisions by what counts, within limits, and say what rules the others out.

    Args:
        goal: A goal file, a scenario by path or name, the name of a shipped study, or a goal.
        limits: Bounds by figure, such as `{"mfu": "> 10 %"}`, beside those of the goal.
        overrides: `key.path=value` texts, or values by key path, that hold for all candidates, beside those of the
            goal.
        tell: Is told of progress; a line in a notebook shows it if left out.
        processes: How many candidates are looked at at a time; as many as there are cores by default.
        wanted: Other attributes of a `Goal`, such as `objective`, `systems`, `divisions` or `request_rate`.

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
    say: Say = lambda _text: None,
) -> Answer:
    """Simulate what a goal asks on its candidates, rank them, and say what rules the others out.

    Args:
        goal: What is wanted.
        tell: Is told of progress.
        processes: How many candidates are looked at at a time; as many as there are cores by default.
        journal: A file that keeps what was found, from which the next call goes on.
        say: Takes a line about how many candidates there are, and how long that takes.

    Raises:
        PodsimError: The goal or a scenario is wrong, limits contradict each other, or results have no such figure
            as the goal counts or limits.
    """
    for limits in (goal.limits, *(job.limits for job in goal.work)):
        check_limits(limits)
    candidates = CandidateSystems(goal)
    candidates.check()
    loaded = [_read(goal, job) for job in goal.work]
    _check_wanted(goal, [each.spec for each in loaded])
    inputs = _inputs(goal, loaded)
    with Options(candidates, journal, inputs, tell, say, processes) as options:
        if len(candidates) <= goal.trials:
            found = options.of([each.number for each in candidates.all()])
        else:
            from podsim.many.capacity.search import searched

            found = searched(candidates, options)
    _check_figures(goal, found)
    _check_currencies(goal, found)
    limited = [_limited(goal, option) for option in found]
    out = sorted((each for each in limited if each.reason), key=lambda each: _closeness(goal, each))
    within = [each for each in limited if not each.reason]
    second = goal.second_figure or next(
        (name for each in (*within, *out) if each.figures and (name := second_of(goal.figure, each.figures))), None
    )
    best_first = _without_repeats(sorted(within, key=lambda each: _rank(goal, each, second)))
    sure = sureness(goal, best_first, out, processes)
    ranked = best_first if sure is None else reliable_first(best_first, sure)
    return Answer(goal, ranked, out, second, len(candidates), sure, inputs)


def _check_wanted(goal: Goal, specs: Sequence[Scenario]) -> None:
    """Refuse a figure that no result can have, before anything is simulated."""
    if goal.is_served:
        for job, spec in zip(goal.work, specs, strict=True):
            if spec.activity is not Activity.GENERATION:
                figures = dict.fromkeys((goal.figure, *(limit.metric for limit in goal.asked)))
                asked = next((f"`{name}` is a figure" for name in figures if name in SERVED), "a rate is one")
                what = f"{asked} of requests that are served, and {job.name or job.scenario} is {spec.activity.words}"
                raise PodsimError(what, do="serve a scenario whose model is of kind `decoder`, or count other figures")
    of_jobs = [names_of(spec, served=goal.is_served) for spec in specs]
    whole = TOTALS if len(specs) > 1 else of_jobs[0]
    second = [goal.second_figure] if goal.second_figure else []
    asked_of = [(name, whole) for name in (goal.figure, *second, *(limit.metric for limit in goal.limits))]
    asked_of += [(limit.metric, names) for job, names in zip(goal.work, of_jobs, strict=True) for limit in job.limits]
    for metric, names in asked_of:
        starts = tuple(name for name in names if name.endswith("."))
        if metric not in names and not (starts and metric.startswith(starts)):
            raise _no_figure(goal, metric, [f"{name}…" if name in starts else name for name in names], priced=True)
    varied = goal.space.axes if goal.space is not None else ()
    if any(spec.cost is not None for spec in specs) or any(
        key.startswith("cost") for axis in varied for key in axis.keys
    ):
        return
    for metric, names in asked_of:
        if metric_of(metric).is_cost:
            raise _no_figure(goal, metric, names)


def reliable_first(ranked: Sequence[Option], sure: Sureness) -> list[Option]:
    """Options that hold in nearly all draws, the best first; then those that hold in fewer, the surest first.

    Those that were not drawn come last: others are better, and one of them is reliable or as many were drawn as may be.

    Args:
        ranked: Options within all limits, the best first.
        sure: In how many of the draws they hold.
    """

    def tier(option: Option) -> tuple[int, float]:
        drawn = sure.of(option)
        return (2, 0.0) if drawn is None else (0, 0.0) if drawn.is_reliable else (1, -drawn.within)

    return sorted(ranked, key=tier)  # sorting keeps the best first among equals


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


def _rank(goal: Goal, option: Option, second: str | None) -> tuple[float, int, float, str]:
    """A key for sorting: by the objective, then fewer IPUs, then the second figure."""
    figure = value(option, goal.figure)
    assert figure is not None
    other = value(option, second) if second else None
    weighed = float("inf") if second is None or other is None else metric_of(second).rank(other)
    return metric_of(goal.figure).rank(figure), option.ipu_count, weighed, option.name


def _closeness(goal: Goal, option: Option) -> tuple[bool, float, str]:
    """A key for sorting that puts first what misses limits by least."""
    return option.figures is None, shortfall(goal, option), option.name


def _check_figures(goal: Goal, found: Iterable[Option]) -> None:
    known = [each for each in found if each.figures is not None]
    whole = _numbers(each.figures or {} for each in known)
    of_jobs = _numbers(part.figures for each in known for part in each.parts)
    second = [goal.second_figure] if goal.second_figure else []
    asked = [(name, whole) for name in (goal.figure, *second, *(limit.metric for limit in goal.limits))]
    asked += [(limit.metric, of_jobs) for job in goal.work for limit in job.limits]
    for metric, names in asked:
        if known and metric not in names:
            raise _no_figure(goal, metric, [name for name, is_known in names.items() if is_known])


def _numbers(figures: Iterable[Mapping[str, Any]]) -> dict[str, bool]:
    """Figures that may be numbers, each with whether one of them is."""
    names: dict[str, bool] = {}
    for each in figures:
        for name, found in each.items():
            if found is None or isinstance(found, (int, float)):
                names[name] = names.get(name, False) or found is not None
    return {name: is_known for name, is_known in names.items() if name != _NOTES}


def _no_figure(goal: Goal, metric: str, names: Sequence[str], *, priced: bool = False) -> PodsimError:
    whose = f"serving {goal.scenario}" if goal.is_served else goal.scenario or "these jobs together"
    if metric_of(metric).is_cost and not priced:
        do = "give one, for example --set 'cost.price_per_ipu_hour=1.5 USD'"
        return PodsimError(f"results of {whose} have no `{metric}`: there is no price", do=do)
    return PodsimError(f"results of {whose} have no figure `{metric}`", do=f"use one of: {', '.join(names)}")


def _check_currencies(goal: Goal, found: Iterable[Option]) -> None:
    """Refuse a budget in another currency than prices, since no rate of exchange is known."""
    paid = {part.bill["currency"] for each in found for part in each.parts if part.bill}
    if len(paid) > 1:
        raise PodsimError(f"prices are in {' and '.join(sorted(paid))}", do="give all prices in one currency")
    for asked in currencies_of(goal.asked):
        if paid and asked not in paid:
            what = f"a limit is in {asked}, and prices are in {''.join(paid)}"
            raise PodsimError(what, do="give it in the currency of the prices: no rate of exchange is known")


def _limited(goal: Goal, option: Option) -> Option:
    """An option with the limits that it misses."""
    if option.figures is None or option.reason:
        return option
    if value(option, goal.figure) is None:
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
