"""Result of a plan and its report: verdict, ranked options, reasons that rule out others, and charts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from typing import Any, Final

from podsim import metrics
from podsim._version import __version__
from podsim.draws import Range
from podsim.format import (
    format_ends,
    format_figure,
    format_interval,
    format_percent,
    in_title,
    unit_of_duration,
    unit_of_energy,
)
from podsim.metrics import CONDITION, IF_IT_CONVERGES, IPUS, metric_of
from podsim.report.chart import FOLDED, SLOWER, TOTAL, Axis, Bar, Bars, Chart, Curves, Mark, Series, bar_axis
from podsim.report.report import Folded, Report, Section, Tile
from podsim.report.report import Part as Block
from podsim.report.table import Cell, Column, Table
from podsim.show.answers import JsonAnswer
from podsim.study.plan.candidates import Option
from podsim.study.plan.confidence import RELIABLE, Confidence, Contender, Spread, likelihood
from podsim.study.plan.goal import TOGETHER, Goal
from podsim.study.points import short

MOST_SHOWN: Final = 20  # options in a table, and options with ranges
_MOST_KEYS: Final = 3  # more varied keys share a column
_MOST_METRICS, _MOST_LISTED, _MOST_BARS, _DIGITS, _ROOM = 3, 500, 30, 4, 1.02
_MOST_LABELS: Final = 12  # with more points, only the front has names
_TOO_FEW: Final = 2  # points up to which bars are used
_LEASED: Final = {"machines": "machines in use", "partition": "the whole partition", "pod": "the whole pod"}
_SHOWN: Final = (
    *(metrics.TIME, metrics.THROUGHPUT, metrics.TOKENS, metrics.LATENCY, "latency_p99_s", metrics.COST),
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
_FilledColumn = tuple[Column, Sequence[str | Cell]]  # a column with its cells


@dataclass(frozen=True, repr=False)
class PlanResult(JsonAnswer):
    """Result of `podsim plan`.

    Attributes:
        goal: Goal of the plan.
        ranked: Options within all limits, reliable ones first, sorted by objective.
        ruled_out: Other options with reasons; the option that violates limits least is first.
        second: Second metric, which is traded off against the objective; None if there is none.
        candidate_count: Number of candidates.
        confidence: Results of sampling uncertain inputs; None without samples.
        inputs: (path, SHA-256) of every file read.
        spreads: Ranges of metrics, by label of the shown options.
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
        """First ranked option; None if nothing reaches the goal."""
        return self.ranked[0] if self.ranked else None

    @property
    def currency(self) -> str:
        """Currency of all costs; empty if none is known."""
        return next((option.currency for option in (*self.ranked, *self.ruled_out) if option.currency), "")

    @cached_property
    def front(self) -> Sequence[Option]:
        """Options within all limits that no other beats in both the objective and the second metric."""
        return pareto_front(self.ranked, self.goal.figure, self.second) if self.second else ()

    @cached_property
    def ranks(self) -> Sequence[int]:
        """Ranks of the ranked options from 1; options equal in metrics and probability share a rank."""
        keys = [(*rank_key(self.goal, option, self.second)[:3], self.likelihood(option)) for option in self.ranked]
        return [keys.index(key) + 1 for key in keys]

    def contender_for(self, option: Option) -> Contender | None:
        """Return the sampling results of an option; None if it was not sampled."""
        return None if self.confidence is None else self.confidence.contender_for(option)

    def likelihood(self, option: Option) -> float | None:
        """Return the probability that an option keeps to all limits, from samples or else from its ranges.

        Returns:
            A probability from 0 to 1; None if unknown.
        """
        if self.confidence is None:
            return likelihood(self.goal, option, self.spreads.get(option.label, Spread()).ranges)
        contender = self.confidence.contender_for(option)
        return None if contender is None else contender.within

    def is_reliable(self, option: Option) -> bool:
        """Return True if the option meets the limits with at least 80 % probability."""
        return (self.likelihood(option) or 0.0) >= RELIABLE

    def range(self, option: Option, figure: str) -> Range | None:
        """Return the 80 % prediction interval of a metric of an option, from its ranges or else from samples."""
        contender = self.contender_for(option)
        ranges = self.spreads.get(option.label, Spread()).ranges or ({} if contender is None else contender.ranges)
        return ranges.get(figure)

    def report(self) -> Report:
        """Return the plan as a report: verdict, tables of options, reasons that rule options out, and charts."""
        goal = self.goal
        overrides = f"; changed: {', '.join(goal.overrides)}" if goal.overrides else ""
        variant = f", variant {goal.variant}" if goal.variant else ""
        return Report(
            title=goal.description or in_title(f"{_question(goal)}: {goal.title}"),
            about=(f"{goal.title}{variant}, podsim {__version__}{overrides}",),
            version=__version__,
            inputs=self.inputs,
            verdict=(_verdict(self),),
            warnings=tuple(_warnings(self)),
            tiles=list(_tiles(self)),
            sections=list(_sections(self)),
        )

    def _summary_lines(self) -> Iterator[str]:
        yield f"best: {_option_text(self, self.best)}" if self.best else "nothing reaches the goal"
        yield f"options: {len(self.ranked):,} reach the goal, {len(self.ruled_out):,} ruled out"

    def _records(self) -> list[dict[str, Any]]:
        """Return one row for each option, the ranked ones first."""
        places = [*self.ranks, *[None] * len(self.ruled_out)]
        return [
            {"rank": place, "system": option.system, "division": option.division}
            | {"ipus": option.ipu_count, "reason": option.reason or None, **option.values}
            | {name: figure for name, figure in (option.figures or {}).items() if name != IPUS}
            for place, option in zip(places, (*self.ranked, *self.ruled_out), strict=True)
        ]

    def _currency(self) -> str:
        return self.currency

    def to_dict(self) -> dict[str, Any]:
        """Return plain types."""
        goal, texts = self.goal, dict[str, list[str]]()
        for bound in goal.limits:
            texts.setdefault(bound.metric, []).append(bound.text)

        def ranked(option: Option) -> dict[str, Any]:
            contender = self.contender_for(option)
            return option.to_dict() | {
                "holds_in": None if contender is None else contender.within,
                "reliable": None if contender is None else contender.within >= RELIABLE,
                "likelihood": self.likelihood(option),
                "ranges": {name: asdict(ends) for name in (goal.figure, *texts) if (ends := self.range(option, name))},
            }

        return {
            "verdict": [_verdict(self)],
            "scenario": goal.scenario or None,
            "jobs": [job.name for job in goal.jobs],
            "order": goal.order if goal.jobs else None,
            "objective": goal.figure,
            "second": self.second,
            "limits": {metric: " and ".join(bounds) for metric, bounds in texts.items()},
            "candidate_count": self.candidate_count,
            "ranked": [ranked(option) for option in self.ranked],
            "ruled_out": [option.to_dict() for option in self.ruled_out],
            "front": [option.label for option in self.front],
            "sureness": None if self.confidence is None else self.confidence.to_dict(),
        }


def pareto_front(options: Sequence[Option], first: str, second: str) -> list[Option]:
    """Return the Pareto-optimal options for two metrics, from the best in the first to the best in the second."""
    placed = [
        (metric_of(first).rank(a), metric_of(second).rank(b), place)
        for place, option in enumerate(options)
        if (a := option.value(first)) is not None and (b := option.value(second)) is not None
    ]
    front, best = list[Option](), float("inf")
    for _, second_rank, place in sorted(placed):
        if second_rank < best:
            front.append(options[place])
            best = second_rank
    return front


def rank_key(goal: Goal, option: Option, second: str | None) -> tuple[float, int, float, str]:
    """Return a sort key: the objective, then fewer IPUs, then the second metric, then the name."""
    value = option.value(second)
    second_rank = float("inf") if second is None or value is None else metric_of(second).rank(value)
    return option.rank(goal.figure), option.ipu_count, second_rank, option.name


def _question(goal: Goal) -> str:
    """Return the question of a goal, such as `least time to train`."""
    return f"{'most' if goal.more_is_better else 'least'} {metric_of(goal.figure).head}"


def _metric_text(figure: str, number: float | None, currency: str) -> str:
    """Format a metric with its unit; a missing value is a dash."""
    return "–" if number is None else format_figure(metric_of(figure), number, currency)


def _verdict(found: PlanResult) -> str:
    """Return the verdict: the question, the answer, its probability, and features without validation."""
    goal, first = found.goal, next(iter((*found.ranked, *found.ruled_out)), None)
    text = ", ".join((f"{_question(goal)} of {goal.title}", *(f"{name} {bound.text}" for name, bound in goal.bounds)))
    if found.best is not None:
        text += f": {'met by' if goal.bounds else 'the best is'} {_option_text(found, found.best)}"
    else:
        text += ": not met, nothing reaches the goal"
        text += f"; {first.label} comes closest, {first.reason}{_likelihood_text(found, first)}" if first else ""
    new = found.spreads.get(first.label, Spread()).new if first else ()
    return f"unknown: {text}; never compared with a published run: {'; '.join(new)}" if new else text


def _option_text(found: PlanResult, option: Option) -> str:
    """Return an option as text, with its objective, range and probability."""
    figure, ends = found.goal.figure, _range_text(found, option, found.goal.figure)
    range_ = f" (80 %: {ends})" if ends else ""
    return f"{option.label}, {_conditional_text(option, figure)}{range_}{_likelihood_text(found, option)}"


def _conditional_text(option: Option, figure: str) -> str:
    """Return a metric of an option, with a remark if a time to train holds only if the run converges."""
    has_condition = figure == metrics.TIME and (option.figures or {}).get(CONDITION)
    remark = f" {IF_IT_CONVERGES}" if has_condition else ""
    return f"{_metric_text(figure, option.value(figure), option.currency)}{remark}"


def _likelihood_text(found: PlanResult, option: Option) -> str:
    """Return the probability that an option meets the limits, as the end of a sentence; empty without limits."""
    share, drawn, goal = found.likelihood(option), found.confidence, found.goal
    if share is not None and drawn is not None:
        return f", holds in {format_percent(share, 0)} of {drawn.draws} draws"
    if not goal.bounds:
        return ""
    without = " without draws" if goal.is_served and drawn is None else ""
    return f", how likely is not known{without}" if share is None else f", {format_percent(share, 0)} likely"


def _warnings(found: PlanResult) -> Iterator[str]:
    conditions: dict[str, list[str]] = {}
    for option in found.ranked:
        if condition := (option.figures or {}).get(CONDITION):
            conditions.setdefault(condition, []).append(option.label)
    for condition, labels in conditions.items():
        yield f"time to train {IF_IT_CONVERGES} ({'; '.join(labels)}): {condition}"
    best = found.best
    if best is not None and found.goal.figure == metrics.THROUGHPUT and best.value(metrics.TIME) is None:
        yield from filter(None, [(best.figures or {}).get("warnings")])  # why the run has no time to train
    share = None if best is None else found.likelihood(best)
    if share is not None and share < RELIABLE:
        likely = format_percent(share, 0)
        if found.confidence:
            yield f"no option holds in {format_percent(RELIABLE, 0)} of the draws: the first does in {likely}"
        else:
            yield f"the first holds with a likelihood of {likely}; draws rank likely ones first"


def _tiles(found: PlanResult) -> Iterator[Tile]:
    if (best := found.best) is not None:
        yield Tile("Best", best.system, tuple(filter(None, (best.division, best.varied))))
        for figure in filter(None, (found.goal.figure, found.second)):
            notes = (f"80 %: {ends}",) if (ends := _range_text(found, best, figure)) else ()
            yield Tile(in_title(metric_of(figure).head), _conditional_text(best, figure), notes)
        if share := found.likelihood(best):
            by = f"of {found.confidence.draws} draws" if found.confidence else "by its range"
            yield Tile("Likely", format_percent(share, 0), (by,))
        yield Tile("IPUs", best.arithmetic)
    count = len(found.ranked) + len(found.ruled_out)
    yield Tile("Within all limits", f"{len(found.ranked):,} of {count:,} options")


def _sections(found: PlanResult) -> Iterator[Section]:
    figure, second = found.goal.figure, found.second
    options = [option for option in (*found.ranked, *found.ruled_out) if option.value(figure) is not None]
    options.sort(key=lambda option: (bool(option.reason), option.rank(figure)))
    with_both = [option for option in options if option.value(second) is not None]
    scatter = [_scatter(found, with_both, second)] if second and len(with_both) > _TOO_FEW else []
    ranking: list[Block] = []
    if found.ranked:
        ranking.append(ranked_table(found))
    if options:
        ranking.append(_bars(found, options))
    yield Section("Ranking", ranking, short=True, plotted=not scatter)
    if len(found.goal.work) > 1 and found.ranked:
        yield Section("Each job", [jobs_table(found)], short=True)
    if scatter:
        yield Section("Weighed", scatter, short=len(found.front) > 1, plotted=True)
    if found.ruled_out:
        yield Section("Ruled out", [_ruled_out(found)], short=True)
    if found.confidence is not None:
        yield Section("How sure", [_confidence_table(found, found.confidence)], short=True)
    if options:
        more = [f"The best {_MOST_LISTED} of {len(options):,}."] if len(options) > _MOST_LISTED else []
        table = option_table(found, options[:_MOST_LISTED], more)
        yield Section("Figures", [Folded("All figures of all options", [table])])


def _table(filled: Iterable[_FilledColumn], title: str = "", notes: Sequence[str] = ()) -> Table:
    heads, cells = zip(*filled, strict=True)
    return Table(heads, list(zip(*cells, strict=True)), title, notes)


def _number_column(head: str, cells: Iterable[str | Cell]) -> _FilledColumn:
    return Column(head, is_number=True), list(cells)


def _metric_column(found: PlanResult, figure: str, numbers: Iterable[float | None]) -> _FilledColumn:
    metric, currency = metric_of(figure), found.currency
    unit = {metrics.MONEY: currency, metrics.PER_SECOND: "", metrics.SHARE: "", metrics.IPU: ""}
    cells = [Cell(_metric_text(figure, number, currency), number) for number in numbers]
    return Column(metric.head, is_number=True, unit=unit.get(metric.unit, metric.unit)), cells


def _range_text(found: PlanResult, option: Option, figure: str) -> str:
    """Return the range of a metric in its displayed unit; empty if unknown or of zero width."""
    ends, value = found.range(option, figure), option.value(figure)
    if ends is None or value is None or ends.low == ends.high:
        return ""
    return format_ends(metric_of(figure), value, ends.low, ends.high)


def _distinguishing_columns(found: PlanResult, options: Sequence[Option]) -> Iterator[_FilledColumn]:
    """Yield the columns that distinguish the shown options; keys with one value are left out."""
    goal, shown = found.goal, options[:MOST_SHOWN]
    keys = list(dict.fromkeys(key for option in options for key in option.values))
    last_parts = [key.rpartition(".")[2] for key in keys]
    has_division = len(goal.divisions) > 1
    if len(goal.candidates) > 1 or not (has_division or keys):
        yield Column("system", whole=True), [option.system for option in shown]
    if has_division:
        yield Column("division", whole=True), [option.division for option in shown]
    if len(keys) > _MOST_KEYS:
        yield Column("varied", whole=True), [option.varied for option in shown]
        return
    for key, last in zip(keys, last_parts, strict=True):
        head = last.replace("_", " ") if last_parts.count(last) == 1 else key
        yield Column(head, whole=True), [short(option.values.get(key, "–")) for option in shown]


def ranked_table(found: PlanResult) -> Table:
    """Return a table of the options within all limits, the best first, with the range of one metric."""
    shown, goal, second = found.ranked[:MOST_SHOWN], found.goal, found.second
    shares = [found.likelihood(option) for option in shown]
    has_shares = any(share is not None for share in shares) and bool(goal.bounds or found.confidence)
    seconds = [second] if second and (goal.second or metric_of(second).unit == metrics.MONEY) else []
    wanted = dict.fromkeys((goal.figure, *seconds, *(bound.metric for bound in goal.limits)))
    wanted.pop(IPUS, None)
    # Requested metrics are shown, and others if there is room.
    room = _MOST_METRICS - has_shares - any(option.values for option in shown) - len(wanted)
    more = [name for name in _SHOWN if all(option.value(name) is not None for option in found.ranked)]
    filled = [
        _number_column("", map(str, found.ranks[:MOST_SHOWN])),
        *_distinguishing_columns(found, found.ranked),
        _number_column("IPUs", (option.arithmetic for option in shown)),
    ]
    is_ranged = False
    for name in (*wanted, *[name for name in more if name not in wanted][: max(0, room)]):
        filled.append(_metric_column(found, name, (option.value(name) for option in shown)))
        spans = [] if is_ranged else [_range_text(found, option, name) for option in shown]
        if any(spans):
            filled.append(_number_column("80 %", (span or "–" for span in spans)))
            is_ranged = True
    if has_shares:
        texts = ("–" if share is None else f"{'! ' * (share < RELIABLE)}{format_percent(share, 0)}" for share in shares)
        filled.append(_number_column("likely", map(Cell, texts, shares)))
    return _table(filled, f"{in_title(_question(goal))} first", list(_footer(found, has_shares)))


def _footer(found: PlanResult, has_shares: bool) -> Iterator[str]:
    """Yield the notes below the ranked options; `has_shares` if the table has likelihoods."""
    if len(found.ranked) > MOST_SHOWN:
        yield f"and {len(found.ranked) - MOST_SHOWN:,} more; --format json has all"
    if has_shares:
        drawn = found.confidence
        by = f"the share of {drawn.draws} draws in which it fits and keeps" if drawn else "by its ranges, that it keeps"
        yield f"likely: {by} to all limits"
        if any(share is not None and share < RELIABLE for share in map(found.likelihood, found.ranked)):
            behind = "; options that hold in more draws come first" if drawn else ""
            yield f"! less likely than {format_percent(RELIABLE, 0)}{behind}"
        if drawn and not all(map(found.contender_for, found.ranked[:MOST_SHOWN])):
            yield "– not drawn: others come first"
    if found.second and list(found.front) == [found.best] and len(found.ranked) > 1:
        side = "more" if metric_of(found.second).more_is_better else "less"
        yield f"no other has {side} {metric_of(found.second).head} than the first"
    if found.currency:
        parts = [part for option in found.ranked for part in option.parts if part.bill]
        yield f"cost: {' and '.join(dict.fromkeys(_LEASED[part.bill['lease']] for part in parts))} leased"


def jobs_table(found: PlanResult) -> Table:
    """Return a table of the jobs of each ranked option: the IPUs that a job runs on, and up to three metrics."""
    goal, ranked = found.goal, list(zip(found.ranks, found.ranked, strict=True))[:MOST_SHOWN]
    parts = [part for _, option in ranked for part in option.parts]
    limited = (bound.metric for job in goal.work for bound in job.limits)
    wanted = dict.fromkeys((*limited, goal.figure, *_SHOWN))
    known = [name for name in wanted if any(part.figures.get(name) is not None for part in parts)][:_MOST_METRICS]
    filled: list[_FilledColumn] = [
        _number_column(
            "", (str(place) * (part is option.parts[0]) for place, option in ranked for part in option.parts)
        ),
        (Column("job"), [part.name for part in parts]),
        _number_column("IPUs", (f"{part.used} (= {part.ipus_per_replica} × {part.replicas})" for part in parts)),
        *(_metric_column(found, name, [part.figures.get(name) for part in parts]) for name in known),
    ]
    return _table(filled, f"Each job, {'side by side' if goal.order == TOGETHER else 'one after another'}")


def _ruled_out(found: PlanResult) -> Table:
    reasons = [option.reason.partition(" (largest: ")[0] for option in found.ruled_out[:MOST_SHOWN]]
    rest = (option.reason.partition(": +")[0].partition(": -")[0] for option in found.ruled_out[MOST_SHOWN:])
    notes = [f"and {count:,} more: {reason}" for reason, count in Counter(rest).most_common()]
    return _table([*_distinguishing_columns(found, found.ruled_out), (Column("why not"), reasons)], "Ruled out", notes)


def _confidence_table(found: PlanResult, drawn: Confidence) -> Table:
    """Return a table of how often each contender is the best, meets the limits and fits, and of its ranges."""
    contenders = drawn.contenders
    shares = {"first in": [contender.first for contender in contenders]}
    if found.goal.bounds:
        shares["within limits in"] = [contender.within for contender in contenders]
    if any(contender.possible < 1 for contender in contenders):
        shares["fits in"] = [contender.possible for contender in contenders]
    filled: list[_FilledColumn] = [(Column("system", whole=True), [contender.option.label for contender in contenders])]
    for head, numbers in shares.items():
        filled.append(_number_column(head, [Cell(format_percent(share, 0), share) for share in numbers]))
    for name in dict.fromkeys(name for contender in contenders for name in contender.ranges):
        job, separator, figure = name.rpartition(": ")
        write = partial(_metric_text, figure, currency=found.currency)
        ranges = [format_interval(contender.ranges.get(name), write) or "–" for contender in contenders]
        filled.append(_number_column(f"{job}{separator}{metric_of(figure).head}", ranges))
    reached = "" if drawn.reached == drawn.draws else f"; in {drawn.reached} of them one reaches the goal"
    title = f"How sure: {drawn.draws} draws of what is assumed or calibrated, figures in 80 % of them{reached}"
    return _table(filled, title)


def option_table(found: PlanResult, options: Sequence[Option], notes: Sequence[str] = ()) -> Table:
    """Return a table of all metrics of options, and the reasons that rule them out."""
    filled: list[_FilledColumn] = [
        (Column("option"), [option.label for option in options]),
        _number_column("IPUs", [Cell(option.arithmetic, option.ipu_count) for option in options]),
    ]
    names = dict.fromkeys(
        name for option in options for name in option.figures or {} if name != IPUS and option.value(name) is not None
    )
    filled += [_metric_column(found, name, [option.value(name) for option in options]) for name in names]
    return _table([*filled, (Column("ruled out by"), [option.reason for option in options])], notes=notes)


def _state(found: PlanResult, option: Option) -> str:
    """Return the legend of an option: within all limits, less likely to hold, or ruled out."""
    share = found.likelihood(option)
    return _BEYOND if option.reason else _RARELY if share is not None and share < RELIABLE else _WITHIN


def _tip(option: Option, figures: Sequence[str]) -> dict[str, str]:
    """Return the tooltip of an option, with some metrics."""
    shown = {metric_of(figure).head: _metric_text(figure, option.value(figure), option.currency) for figure in figures}
    return {"option": option.label, "IPUs": option.arithmetic, **shown, "ruled out by": option.reason or "nothing"}


def _scaled(found: PlanResult, figure: str, options: Sequence[Option]) -> tuple[Axis, list[float]]:
    """Return an axis for a metric in a suitable unit, and the values in it."""
    metric, values = metric_of(figure), [option.value(figure) or 0.0 for option in options]
    label, _, unit = metric.titled.removesuffix("]").partition(" [")
    largest = max(values)
    unit, scale = {
        metrics.SECONDS: unit_of_duration(largest, _DIGITS) if largest else (unit, 1.0),
        metrics.JOULES: unit_of_energy(largest),
        metrics.WATTS: ("kW", 1000.0) if largest >= 1000 else (unit, 1.0),
        metrics.MONEY: (found.currency, 1.0),
    }.get(metric.unit, (unit, 1.0))
    return Axis(label, unit, from_zero=False), [value / scale for value in values]


def _bars(found: PlanResult, options: Sequence[Option]) -> Chart:
    """Return a bar chart of the objective of options, which all have it."""
    figure = found.goal.figure
    axis, numbers = _scaled(found, figure, options)
    bars = [
        Bar(option.label, 0.0, number, _FILLS[_state(found, option)], text, tip=_tip(option, [figure]))
        for option, number in list(zip(options, numbers, strict=True))[:_MOST_BARS]
        for text in [_metric_text(figure, option.value(figure), option.currency)]
    ]
    return Chart(
        title=f"{in_title(metric_of(figure).head)} of each option",
        description=f"Bars of {axis.label}; the best within all limits first.",
        drawn=Bars(bars, bar_axis(axis.label, axis.unit, bars, _ROOM)),
        legend=_FILLS,
        notes=[f"{len(options) - len(bars):,} more options are in the tables."] if len(options) > len(bars) else [],
    )


def _scatter(found: PlanResult, options: Sequence[Option], second: str) -> Chart:
    """Return a scatter chart of options over objective and second metric, with the Pareto front.

    Every option has both metrics.
    """
    figures, front = (found.goal.figure, second), found.front
    (y_axis, heights), (x_axis, places) = (_scaled(found, figure, options) for figure in figures)
    points = list(zip(options, places, heights, strict=True))
    # The front is a step line: between two options only the worse value of either is reached.
    mark = Mark.STEPS_BEFORE if metric_of(second).more_is_better else Mark.STEPS_AFTER
    ordered = sorted(((x, y) for option, x, y in points if option in front), key=lambda point: point[0])
    series = [Series(_FRONT, mark, [x for x, _ in ordered], [y for _, y in ordered], _FRONT_COLOUR)] if front else []
    for state, (colour, marker) in _LOOKS.items():
        if in_state := [point for point in points if _state(found, point[0]) == state]:
            shown, x, y = zip(*in_state, strict=True)
            texts = [option.label * (len(options) <= _MOST_LABELS or option in front) for option in shown]
            tips = [_tip(option, figures) for option in shown]
            series.append(Series(state, Mark.POINTS, x, y, colour, (), marker, tips, texts))
    title = f"{in_title(metric_of(figures[0]).head)} against {metric_of(second).head}"
    filled = [
        (Column("option"), [option.label for option in front]),
        _number_column("IPUs", (option.arithmetic for option in front)),
        *(_metric_column(found, name, [option.value(name) for option in front]) for name in figures),
    ]
    return Chart(
        title=title,
        description=f"{title}: a point for each option.",
        drawn=Curves(series, x_axis, y_axis),
        numbers=_table(filled, f"{title}: no other option beats these in both") if front else None,
        notes=["The line joins the options within all limits that none beats in both figures."] if front else [],
    )
