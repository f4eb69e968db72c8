"""What a plan found, and its report: the verdict, ranked options, what rules the others out, and charts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Final

from podsim._version import __version__
from podsim.draws import Range
from podsim.format import (
    format_ends,
    format_figure,
    format_percent,
    format_span,
    in_title,
    unit_of_duration,
    unit_of_energy,
)
from podsim.metrics import (
    COST,
    IPU,
    IPUS,
    JOULES,
    LATENCY,
    MONEY,
    PER_SECOND,
    SECONDS,
    SHARE,
    THROUGHPUT,
    TIME,
    TOKENS,
    WATTS,
    metric_of,
)
from podsim.report.chart import FOLDED, SLOWER, TOTAL, Axis, Bar, Bars, Chart, Curves, Mark, Series
from podsim.report.report import Folded, Part, Report, Section, Tile
from podsim.report.table import Cell, Cells, Column, Table, columns
from podsim.show.answers import Answered
from podsim.study.plan.confidence import RELIABLE, Confidence, Contender, Spread, likelihood
from podsim.study.plan.goal import Goal
from podsim.study.plan.option import Option
from podsim.study.plan.spec import TOGETHER
from podsim.study.sweep.chart_words import short

MOST_SHOWN: Final = 20
"""Options in a table, and those whose ranges are measured."""
_MOST_KEYS: Final = 3
"""More that vary share a column."""
_FIGURES: Final = 3
_MOST_LISTED: Final = 500
_MOST_BARS: Final = 30
_MOST_LABELS: Final = 12
"""Of more points, those of the front alone have names."""
_TOO_FEW: Final = 2
"""Points through which no shape is seen; bars tell them better."""
_ROOM: Final = 1.02
_DIGITS: Final = 4
_LEASED: Final = {"machines": "machines in use", "partition": "the whole partition", "pod": "the whole pod"}
_SHOWN: Final = (
    *(TIME, THROUGHPUT, TOKENS, LATENCY, "latency_p99_s", COST),
    *("energy_per_run_j", "weight_update_s", "mfu", "mean_power_w"),
)
_WITHIN, _RARELY, _BEYOND = "within all limits", "less likely to hold", "ruled out by a limit"
_FILLS: Final = {_WITHIN: TOTAL, _RARELY: SLOWER, _BEYOND: FOLDED}
_LOOKS: Final = {
    _WITHIN: (TOTAL.colour, "circle"),
    _RARELY: ("#7b6fa8", "diamond"),
    _BEYOND: ("#e08214", "triangle-up"),
}
_FRONT, _FRONT_COLOUR = "no other beats it in both", "#1b5e92"


@dataclass(frozen=True, repr=False)
class PlanResult(Answered):
    """What was found.

    Attributes:
        goal: What was wanted.
        ranked: Options within all limits, those first that hold in nearly all draws, and of these the best.
        ruled_out: The others, each with its reason; those that come closest first.
        second: Figure that the objective is weighed against.
        candidate_count: How many there were to look at.
        confidence: How often each of the best comes first with inputs drawn from their ranges; None without draws.
        inputs: (path, SHA-256) of every file read.
        spreads: Between what figures lie, by the labels of the options that are shown.
    """

    goal: Goal
    ranked: Sequence[Option]
    ruled_out: Sequence[Option]
    second: str | None = None
    candidate_count: int = 0
    confidence: Confidence | None = None
    inputs: tuple[tuple[str, str], ...] = ()
    spreads: Mapping[str, Spread] = field(default_factory=dict)

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
    def ranks(self) -> Sequence[int]:
        """Places of the ranked options, from 1; those that are as good and as likely in all that counts share one."""
        keys = [(*rank_key(self.goal, each, self.second)[:3], self.likelihood(each)) for each in self.ranked]
        return [keys.index(key) + 1 for key in keys]

    def drawn(self, option: Option) -> Contender | None:
        """What came of an option with inputs drawn; None if it was not drawn."""
        return None if self.confidence is None else self.confidence.of(option)

    def likelihood(self, option: Option) -> float | None:
        """How likely an option keeps to all limits: the share of draws in which it does; without draws by its ranges.

        Returns:
            A share from 0 to 1; None where nothing is known of it.
        """
        if self.confidence is None:
            return likelihood(self.goal, option, self.spreads.get(option.label, Spread()).ranges)
        drawn = self.confidence.of(option)
        return None if drawn is None else drawn.within

    def is_reliable(self, option: Option) -> bool:
        """Whether it is known to hold in four fifths of the draws, or to be as likely to."""
        return (self.likelihood(option) or 0.0) >= RELIABLE

    def range(self, option: Option, figure: str) -> Range | None:
        """The middle 80 % of what a figure of an option may be, as `podsim run` says, or else in the draws."""
        drawn = self.drawn(option)
        known = self.spreads.get(option.label, Spread()).ranges or ({} if drawn is None else drawn.ranges)
        return known.get(figure)

    def report(self) -> Report:
        """The answer as data: the verdict, tables of options, what rules others out, and charts."""
        return plan_report(self)

    def _told(self) -> Iterator[str]:
        yield f"best: {_in_words(self, self.best)}" if self.best else "nothing reaches the goal"
        yield f"options: {len(self.ranked):,} reach the goal, {len(self.ruled_out):,} ruled out"

    def _records(self) -> list[dict[str, Any]]:
        """A row for each option, the ranked ones first."""
        places = [*self.ranks, *[None] * len(self.ruled_out)]
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
        texts: dict[str, list[str]] = {}
        for each in self.goal.limits:
            texts.setdefault(each.metric, []).append(each.text)
        return {
            "verdict": list(self.report().verdict),
            "scenario": self.goal.scenario or None,
            "jobs": [job.name for job in self.goal.jobs],
            "order": self.goal.order if self.goal.jobs else None,
            "objective": self.goal.figure,
            "second": self.second,
            "limits": {metric: " and ".join(told) for metric, told in texts.items()},
            "candidate_count": self.candidate_count,
            "ranked": [each.to_dict() | self._known(each) for each in self.ranked],
            "ruled_out": [each.to_dict() for each in self.ruled_out],
            "front": [each.label for each in self.front],
            "sureness": None if self.confidence is None else self.confidence.to_dict(),
        }

    def to_json(self) -> str:
        """The answer as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False)

    def _known(self, option: Option) -> dict[str, Any]:
        """How likely an option is to hold, and between what it lies; nothing known of those that were not drawn."""
        drawn, names = self.drawn(option), (self.goal.figure, *(each.metric for each in self.goal.limits))
        return {
            "holds_in": None if drawn is None else drawn.within,
            "reliable": None if drawn is None else drawn.within >= RELIABLE,
            "likelihood": self.likelihood(option),
            "ranges": {name: asdict(found) for name in names if (found := self.range(option, name))},
        }


def pareto_front(options: Sequence[Option], first: str, second: str) -> list[Option]:
    """Options that no other beats in one figure without losing in the other, by the first figure."""
    placed = [
        (metric_of(first).rank(a), metric_of(second).rank(b), place)
        for place, each in enumerate(options)
        if (a := each.value(first)) is not None and (b := each.value(second)) is not None
    ]
    front: list[Option] = []
    best = float("inf")
    for _, other, place in sorted(placed):
        if other < best:
            front.append(options[place])
            best = other
    return front


def rank_key(goal: Goal, option: Option, second: str | None) -> tuple[float, int, float, str]:
    """A key for sorting: by the objective, then fewer IPUs, then the second figure."""
    figure, other = option.value(goal.figure), option.value(second)
    assert figure is not None
    weighed = float("inf") if second is None or other is None else metric_of(second).rank(other)
    return metric_of(goal.figure).rank(figure), option.ipu_count, weighed, option.name


def plan_report(found: PlanResult) -> Report:
    """The report of a plan."""
    goal = found.goal
    overrides = f"; changed: {', '.join(goal.overrides)}" if goal.overrides else ""
    variant = f", variant {goal.variant}" if goal.variant else ""
    least = "most" if goal.more_is_better else "least"
    return Report(
        title=goal.description or in_title(f"{least} {metric_of(goal.figure).head}: {goal.title}"),
        about=(f"{goal.title}{variant}, podsim {__version__}{overrides}",),
        version=__version__,
        inputs=found.inputs,
        verdict=(verdict(found),),
        warnings=tuple(_warnings(found)),
        tiles=list(_tiles(found)),
        sections=list(_sections(found)),
    )


def verdict(found: PlanResult) -> str:
    """In one sentence: what was asked, whether it is met and by what, how likely, and what was never compared."""
    goal, best, figure = found.goal, found.best, found.goal.figure
    limits = [f"{limit.metric} {limit.text}" for limit in goal.limits]
    limits += [f"{job.name}: {limit.metric} {limit.text}" for job in goal.work for limit in job.limits]
    least = "most" if goal.more_is_better else "least"
    asked = ", ".join((f"{least} {metric_of(figure).head} of {goal.title}", *limits))
    closest = best or next(iter(found.ruled_out), None)
    new = "; ".join(found.spreads.get(closest.label, Spread()).new) if closest else ""
    if best is None or closest is None:
        told = f"{asked}: not met, nothing reaches the goal"
        if closest is not None:
            told += f"; {closest.label} comes closest, {closest.reason}{_likely(found, closest)}"
    else:
        told = f"{asked}: {'met by' if goal.asked else 'the best is'} {_in_words(found, best)}"
    return f"unknown: {told}; never compared with a published run: {new}" if new else told


def _in_words(found: PlanResult, option: Option) -> str:
    """An option, the figure that counts with its range, and how likely it is to hold."""
    figure, ends = found.goal.figure, _span(found, option, found.goal.figure)
    value = f"{cell(figure, option.value(figure), option.currency)}{f' (80 %: {ends})' if ends else ''}"
    return f"{option.label}, {value}{_likely(found, option)}"


def _likely(found: PlanResult, option: Option) -> str:
    """How likely an option is to hold, as the end of a sentence; empty where there is nothing to miss."""
    share = found.likelihood(option)
    if share is None:
        without = " without draws" if found.goal.is_served and found.confidence is None else ""
        return f", how likely is not known{without}" if found.goal.asked else ""
    if found.confidence is not None:
        return f", holds in {format_percent(share, 0)} of {found.confidence.draws} draws"
    return f", {format_percent(share, 0)} likely" if found.goal.asked else ""


def _warnings(found: PlanResult) -> Iterator[str]:
    share = None if found.best is None else found.likelihood(found.best)
    if share is not None and share < RELIABLE:
        likely, least = format_percent(share, 0), format_percent(RELIABLE, 0)
        drawn = f"no option holds in {least} of the draws: the first does in {likely}"
        yield (
            drawn
            if found.confidence
            else f"the first holds with a likelihood of {likely}; draws rank likely ones first"
        )


def _sections(found: PlanResult) -> Iterator[Section]:
    known, second = _with_figures(found), found.second
    placed = [each for each in known if each.value(second) is not None]
    weighed = [_scatter(found, placed, second)] if second and len(placed) > _TOO_FEW else []
    bars = [_options_chart(found, known)] if known else []
    ranking: list[Part] = [*([ranked_table(found)] if found.ranked else []), *bars]
    yield Section("Ranking", ranking, short=True, plotted=not weighed)
    if len(found.goal.work) > 1 and found.ranked:
        yield Section("Each job", [jobs_table(found)], short=True)
    if weighed:
        yield Section("Weighed", weighed, short=len(found.front) > 1, plotted=True)
    if found.ruled_out:
        yield Section("Ruled out", [_ruled_out(found)], short=True)
    if found.confidence is not None:
        yield Section("How sure", [_how_sure(found)], short=True)
    if known:
        more = [f"The best {_MOST_LISTED} of {len(known):,}."] if len(known) > _MOST_LISTED else []
        shown = option_table(found, known[:_MOST_LISTED], more)
        yield Section("Figures", [Folded("All figures of all options", [shown])])


def cell(figure: str, number: float | None, currency: str = "") -> Cell:
    """A figure with its unit, or a dash where there is none."""
    return Cell("–" if number is None else format_figure(metric_of(figure), number, currency), number)


def _ends(figure: str, value: float | None, ends: Range | None) -> str:
    """Between what a figure lies, in the unit in which it is shown; empty where that is not known, or certain."""
    if ends is None or value is None or ends.low == ends.high:
        return ""
    return format_ends(metric_of(figure), value, ends.low, ends.high)


def _figure_column(figure: str, currency: str = "") -> Column:
    metric = metric_of(figure)
    unit = {MONEY: currency, PER_SECOND: "", SHARE: "", IPU: ""}.get(metric.unit, metric.unit)
    return Column(metric.head, is_number=True, unit=unit)


def ranked_table(found: PlanResult) -> Table:
    """The options within all limits, the best first, by what tells them apart; the range of the figure that counts."""
    shown, goal, names = found.ranked[:MOST_SHOWN], found.goal, _names(found, found.ranked)
    shares = [found.likelihood(each) for each in shown]
    is_sure = any(each is not None for each in shares) and bool(goal.asked or found.confidence)
    room = _FIGURES - is_sure - any(each.values for each in shown)
    figures, spans = list(_columns(found, room)), list[str]()
    ranged = next(
        (name for name in (goal.figure, *figures) if any(spans := [_span(found, each, name) for each in shown])), ""
    )
    rows: list[Cells] = []
    for place, option, span, share in zip(found.ranks, shown, spans, shares, strict=False):
        row: list[str | Cell] = [str(place), *_named(option, names), option.arithmetic]
        for name in figures:
            row += [cell(name, option.value(name), option.currency), *[span or "–"] * (name == ranged)]
        mark = "" if found.is_reliable(option) else "! "
        held = Cell("–") if share is None else Cell(f"{mark}{format_percent(share, 0)}", share)
        rows.append((*row, *[held] * is_sure))
    heads = [*columns(">"), *(Column(name, whole=True) for name in names), *columns(">IPUs")]
    for name in figures:
        heads += [_figure_column(name, found.currency), *columns(*[">80 %"] * (name == ranged))]
    title = f"{'Most' if goal.more_is_better else 'Least'} {metric_of(goal.figure).head} first"
    notes = list(_footer(found, is_sure=is_sure))
    return Table([*heads, *columns(*[">likely"] * is_sure)], rows, title, notes)


def _span(found: PlanResult, option: Option, figure: str) -> str:
    return _ends(figure, option.value(figure), found.range(option, figure))


def _footer(found: PlanResult, *, is_sure: bool) -> Iterator[str]:
    if len(found.ranked) > MOST_SHOWN:
        yield f"and {len(found.ranked) - MOST_SHOWN:,} more; --format json has all"
    if is_sure:
        drawn = found.confidence
        by = f"the share of {drawn.draws} draws in which it fits and keeps" if drawn else "by its ranges, that it keeps"
        yield f"likely: {by} to all limits"
        if any(found.likelihood(each) is not None and not found.is_reliable(each) for each in found.ranked):
            behind = "; options that hold in more draws come first" if drawn else ""
            yield f"! less likely than {format_percent(RELIABLE, 0)}{behind}"
        if drawn and not all(map(found.drawn, found.ranked[:MOST_SHOWN])):
            yield "– not drawn: others come first"
    if found.second and list(found.front) == [found.best] and len(found.ranked) > 1:
        side = "more" if metric_of(found.second).more_is_better else "less"
        yield f"no other has {side} {metric_of(found.second).head} than the first"
    if found.currency:
        parts = [part for option in found.ranked for part in option.parts if part.bill]
        leases = dict.fromkeys(_LEASED[part.bill["lease"]] for part in parts)
        yield f"cost: {' and '.join(leases)} leased"


def _columns(found: PlanResult, room: int) -> Iterator[str]:
    """The figure that counts, what it is weighed against, those with a limit; others where there is room."""
    goal, second = found.goal, found.second
    is_shown = second and (goal.second is not None or metric_of(second).unit == MONEY)
    asked = (goal.figure, *([second] if second and is_shown else []), *(limit.metric for limit in goal.limits))
    wanted = [name for name in dict.fromkeys(asked) if name != IPUS]
    known = (name for name in _SHOWN if all(each.value(name) is not None for each in found.ranked))
    yield from (*wanted, *[name for name in known if name not in wanted][: max(0, room - len(wanted))])


def jobs_table(found: PlanResult) -> Table:
    """Each job of the ranked options on its part of the system, with as many of its figures as fit."""
    shown, goal = found.ranked[:MOST_SHOWN], found.goal
    parts = [part for option in shown for part in option.parts]
    limited = (limit.metric for job in goal.work for limit in job.limits)
    wanted = dict.fromkeys((*limited, goal.figure, *_SHOWN))
    known = [name for name in wanted if any(part.figures.get(name) is not None for part in parts)][:_FIGURES]
    rows: list[Cells] = [
        (
            *(str(place) if part is option.parts[0] else "", part.name),
            f"{part.used} (= {part.ipus_per_replica} × {part.replicas})",
            *(cell(name, part.figures.get(name), option.currency) for name in known),
        )
        for place, option in zip(found.ranks, shown, strict=False)
        for part in option.parts
    ]
    figures = (_figure_column(name, found.currency) for name in known)
    words = "side by side" if goal.order == TOGETHER else "one after another"
    return Table((*columns(">", "job", ">IPUs"), *figures), rows, f"Each job, {words}")


def _ruled_out(found: PlanResult) -> Table:
    names, shown = _names(found, found.ruled_out), found.ruled_out[:MOST_SHOWN]
    rows = [(*_named(option, names), option.reason.partition(" (largest: ")[0]) for option in shown]
    rest = Counter(each.reason.partition(": +")[0].partition(": -")[0] for each in found.ruled_out[MOST_SHOWN:])
    notes = [f"and {count:,} more: {reason}" for reason, count in rest.most_common()]
    return Table([*(Column(name, whole=True) for name in names), Column("why not")], rows, "Ruled out", notes)


def _names(found: PlanResult, options: Sequence[Option]) -> dict[str, str]:
    """Columns that tell options apart: heading, and attribute or key. Where keys vary, what is the same is left out."""
    keys, goal = list(dict.fromkeys(key for option in options for key in option.values)), found.goal
    several = {"system": len(goal.candidates) > 1, "division": len(goal.divisions) > 1}
    names = {name: name for name, differs in several.items() if differs} or ({} if keys else {"system": "system"})
    if len(keys) > _MOST_KEYS:
        return names | {"varied": "varied"}
    ends = [key.rpartition(".")[2] for key in keys]
    heads = (end.replace("_", " ") if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True))
    return names | dict(zip(heads, keys, strict=True))


def _named(option: Option, names: Mapping[str, str]) -> Iterator[str]:
    own = {"system": option.system, "division": option.division, "varied": option.varied}
    yield from (own[name] if name in own else short(option.values.get(name, "–")) for name in names.values())


def _how_sure(found: PlanResult) -> Table:
    """In how many draws each contender is the best, holds and fits, and between what its figures lie there."""
    drawn = found.confidence
    assert drawn is not None
    shares = {"first in": [each.first for each in drawn.contenders]}
    if found.goal.asked:
        shares["within limits in"] = [each.within for each in drawn.contenders]
    if any(each.possible < 1 for each in drawn.contenders):
        shares["fits in"] = [each.possible for each in drawn.contenders]
    names = {name: name.rpartition(": ") for name in dict.fromkeys(k for each in drawn.contenders for k in each.ranges)}
    rows = [
        (
            each.option.label,
            *(Cell(format_percent(share, 0), share) for share in found_in),
            *(_span_with_unit(key, each.ranges.get(name), each.option.currency) for name, (*_, key) in names.items()),
        )
        for each, *found_in in zip(drawn.contenders, *shares.values(), strict=True)
    ]
    heads = (f">{job}{between}{metric_of(key).head}" for job, between, key in names.values())
    reached = "" if drawn.reached == drawn.draws else f"; in {drawn.reached} of them one reaches the goal"
    title = f"How sure: {drawn.draws} draws of what is assumed or calibrated, figures in 80 % of them{reached}"
    return Table([Column("system", whole=True), *columns(*(f">{head}" for head in shares), *heads)], rows, title)


def _span_with_unit(figure: str, ends: Range | None, currency: str) -> str:
    if ends is None:
        return "–"
    return format_span(*(format_figure(metric_of(figure), end, currency) for end in (ends.low, ends.high)))


def option_table(found: PlanResult, options: Sequence[Option], notes: Sequence[str] = ()) -> Table:
    """All figures that options have, and what rules them out."""
    named = (name for each in options for name in each.figures or {} if each.value(name) is not None)
    known = [name for name in dict.fromkeys(named) if name != IPUS]
    rows: list[Cells] = [
        (
            each.label,
            Cell(each.arithmetic, each.ipu_count),
            *(cell(name, each.value(name), each.currency) for name in known),
            each.reason,
        )
        for each in options
    ]
    figures = (_figure_column(name, found.currency) for name in known)
    return Table((*columns("option", ">IPUs"), *figures, *columns("ruled out by")), rows, notes=notes)


def _tiles(found: PlanResult) -> Iterator[Tile]:
    best = found.best
    if best is not None:
        yield Tile("Best", best.system, tuple(text for text in (best.division, best.varied) if text))
        for figure in (found.goal.figure, *([found.second] if found.second else [])):
            notes = (f"80 %: {ends}",) if (ends := _span(found, best, figure)) else ()
            yield Tile(in_title(metric_of(figure).head), str(cell(figure, best.value(figure), best.currency)), notes)
        if share := found.likelihood(best):
            by = f"of {found.confidence.draws} draws" if found.confidence else "by its range"
            yield Tile("Likely", format_percent(share, 0), (by,))
        yield Tile("IPUs", best.arithmetic)
    count = len(found.ranked) + len(found.ruled_out)
    yield Tile("Within all limits", f"{len(found.ranked):,} of {count:,} options")


def _with_figures(found: PlanResult) -> list[Option]:
    """Options that have the figure that counts, those within all limits first, the best first."""
    figure = found.goal.figure
    known = [each for each in (*found.ranked, *found.ruled_out) if each.value(figure) is not None]
    return sorted(known, key=lambda each: (bool(each.reason), metric_of(figure).rank(each.value(figure) or 0.0)))


def _options_chart(found: PlanResult, known: Sequence[Option]) -> Chart:
    """The figure that counts, of each option that has it."""
    figure, shown = found.goal.figure, known[:_MOST_BARS]
    label, unit, scale = _scale(figure, known, found.currency)
    values = [(each.value(figure) or 0.0) / scale for each in shown]
    texts = [str(cell(figure, each.value(figure), each.currency)) for each in shown]
    bars = [
        Bar(each.label, 0.0, number, _FILLS[_state(found, each)], text, tip=_tip(each, [figure]))
        for each, number, text in zip(shown, values, texts, strict=True)
    ]
    ends = (min(0.0, *values), max(*values, 0.0) * _ROOM or 1.0)
    return Chart(
        title=f"{in_title(metric_of(figure).head)} of each option",
        description=f"Bars of {label}; the best within all limits first.",
        drawn=Bars(bars, Axis(label, unit, ends)),
        legend=_FILLS,
        notes=[f"{len(known) - len(shown):,} more options are in the tables."] if len(known) > len(shown) else [],
    )


def _state(found: PlanResult, option: Option) -> str:
    """The words for an option that reaches the goal, is too unlikely to, or does not."""
    is_rare = found.likelihood(option) is not None and not found.is_reliable(option)
    return _BEYOND if option.reason else _RARELY if is_rare else _WITHIN


def _tip(option: Option, figures: Sequence[str]) -> dict[str, str]:
    shown = {metric_of(figure).head: str(cell(figure, option.value(figure), option.currency)) for figure in figures}
    return {"option": option.label, "IPUs": option.arithmetic, **shown, "ruled out by": option.reason or "nothing"}


def _scatter(found: PlanResult, known: Sequence[Option], second: str) -> Chart:
    """Options by the figure that counts and a second one, with the front that no option beats."""
    figures, front = (found.goal.figure, second), found.front
    up, across = (_scale(figure, known, found.currency) for figure in figures)

    def places(options: Sequence[Option]) -> tuple[list[float], list[float]]:
        x = [(each.value(second) or 0.0) / across[2] for each in options]
        return x, [(each.value(found.goal.figure) or 0.0) / up[2] for each in options]

    # Between two of the front, what is as good as the worse of them in one figure is known to be reached.
    mark = Mark.STEPS_BEFORE if metric_of(second).more_is_better else Mark.STEPS_AFTER
    ordered = sorted((each for each in known if each in front), key=lambda each: each.value(second) or 0.0)
    series = [Series(_FRONT, mark, *places(ordered), _FRONT_COLOUR)] if front else []
    for state, (colour, marker) in _LOOKS.items():
        if those := [each for each in known if _state(found, each) == state]:
            texts = [each.label if len(known) <= _MOST_LABELS or each in front else "" for each in those]
            tips = [_tip(each, figures) for each in those]
            series.append(Series(state, Mark.POINTS, *places(those), colour, (), marker, tips, texts))
    title = f"{in_title(metric_of(figures[0]).head)} against {metric_of(second).head}"
    rows: list[Cells] = [
        (each.label, each.arithmetic, *(cell(name, each.value(name), each.currency) for name in figures))
        for each in front
    ]
    heads = (*columns("option", ">IPUs"), *(_figure_column(name, found.currency) for name in figures))
    return Chart(
        title=title,
        description=f"{title}: a point for each option.",
        drawn=Curves(series, Axis(*across[:2], from_zero=False), Axis(*up[:2], from_zero=False)),
        numbers=Table(heads, rows, f"{title}: no other option beats these in both") if front else None,
        notes=["The line joins the options within all limits that none beats in both figures."] if front else [],
    )


def _scale(figure: str, options: Sequence[Option], currency: str) -> tuple[str, str, float]:
    """Label and unit of an axis of a figure of options, and how much of the base unit that is."""
    metric, largest = metric_of(figure), max(each.value(figure) or 0.0 for each in options)
    if metric.unit == MONEY:
        return metric.label, currency, 1.0
    label, _, unit = metric.titled.removesuffix("]").partition(" [")
    scale: Any = 1.0
    if metric.unit == SECONDS and largest:
        unit, scale = unit_of_duration(largest, _DIGITS)
    elif metric.unit == JOULES and largest:
        unit, scale = unit_of_energy(largest)
    elif metric.unit == WATTS and largest >= 1000:
        unit, scale = "kW", 1000.0
    return label, unit, scale
