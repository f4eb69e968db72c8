"""An answer as tables: what reaches the goal, ranked, what rules the others out, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import log
from textwrap import fill
from typing import Any, Final

from podsim.draws import Range
from podsim.format import format_figure, format_percent, format_significant, format_span
from podsim.many.capacity.answer import Answer
from podsim.many.capacity.front import value
from podsim.many.capacity.option import Option
from podsim.many.capacity.spec import TOGETHER
from podsim.many.capacity.sure import RELIABLE
from podsim.many.sweeps.chart_words import short
from podsim.metrics import COST, IPU, IPUS, LATENCY, MONEY, PER_SECOND, SHARE, THROUGHPUT, TIME, TOKENS, metric_of
from podsim.report.table import Block, Cell, Cells, Column, Passage, Table, columns

_MOST_KEYS: Final = 3
"""More that vary share a column."""
_FIGURES: Final = 3
"""As many fit into 80 columns."""
_MOST_ROWS: Final = 20
_WIDTH: Final = 80
_LEASED: Final = {"machines": "machines in use", "partition": "the whole partition", "pod": "the whole pod"}
_GAP: Final = 2
_BETWEEN: Final = "Between what figures lie in 80 % of the draws"
_FEW_POINTS: Final = 3
"""Fewer points make no chart."""
_ACROSS: Final = 56
_UP: Final = 12
_LABELS: Final = "123456789abcdefghijklmnopqrstuvwxyz"
_OTHER: Final = "·"
_MORE: Final = "+"
_WIDE: Final = 8
"""From this ratio of its ends on, an axis is logarithmic."""
_SHOWN: Final = (
    *(TIME, THROUGHPUT, TOKENS, LATENCY, "latency_p99_s", COST),
    *("energy_per_run_j", "weight_update_s", "mfu", "mean_power_w"),
)


def answer_tables(answer: Answer) -> Iterator[Block]:
    """The ranked options, those that are ruled out, what twice the IPUs give, and how sure the ranking is."""
    if answer.ranked:
        yield ranked_table(answer)
    else:
        yield Passage("", f"{headline(answer)}: nothing reaches the goal")
    if len(answer.goal.work) > 1 and answer.ranked:
        yield jobs_table(answer)
    if answer.ruled_out:
        yield _ruled_out(answer)
    if answer.second and len(answer.ranked) >= _FEW_POINTS and len(answer.front) > 1:
        yield _front_chart(answer)
    if answer.doublings:
        yield _doublings(answer)
    if answer.sureness is not None:
        yield _sureness(answer)
        yield _between(answer)


def headline(answer: Answer) -> str:
    """The goal in a line."""
    goal = answer.goal
    limits = [f"{limit.metric} {limit.text}" for limit in goal.limits]
    limits += [f"{job.name}: {limit.metric} {limit.text}" for job in goal.work for limit in job.limits]
    words = ", ".join(limits) or "no limits"
    return f"{goal.title}: {'most' if goal.more_is_better else 'least'} {goal.figure}, {words}"


def cell(figure: str, number: float | None, currency: str = "") -> Cell:
    """A figure with its unit, or a dash where there is none."""
    return Cell("–" if number is None else format_figure(metric_of(figure), number, currency), number)


def range_text(figure: str, ends: Range | None, currency: str = "") -> str:
    """Between what a figure lies, with its unit."""
    if ends is None:
        return "–"
    return format_span(*(format_figure(metric_of(figure), end, currency) for end in (ends.low, ends.high)))


def axis_label(figure: str, currency: str = "") -> str:
    """A figure with its unit, for an axis of a chart."""
    metric = metric_of(figure)
    if metric.unit == MONEY:
        return f"{metric.label} [{currency}]" if currency else metric.label
    return metric.titled


def ranked_table(answer: Answer) -> Table:
    """The options within all limits, the best first, by what tells them apart and as many figures as fit."""
    names = _names(answer, answer.ranked)
    figures = _that_fit(answer, names)
    rows: list[Cells] = []
    for place, option in enumerate(answer.ranked[:_MOST_ROWS], 1):
        cells = (cell(name, (option.figures or {}).get(name), option.currency) for name in figures)
        held = [_held(answer, option)] if answer.sureness else []
        rows.append((str(place), *_named(option, names), option.arithmetic, *cells, *held))
    told = (
        columns(">", *names, ">IPUs"),
        (figure_column(name, answer.currency) for name in figures),
        columns(*[">holds in"] if answer.sureness else []),
    )
    return _stacked(Table([each for some in told for each in some], rows, headline(answer), list(_footer(answer))))


def jobs_table(answer: Answer) -> Table:
    """Each job of the ranked options on its part of the system, with as many of its figures as fit."""
    shown = answer.ranked[:_MOST_ROWS]
    parts = [part for option in shown for part in option.parts]
    wanted = dict.fromkeys(
        (*(limit.metric for job in answer.goal.work for limit in job.limits), answer.goal.figure, *_SHOWN)
    )
    known = [name for name in wanted if any(part.figures.get(name) is not None for part in parts)][:_FIGURES]
    rows: list[Cells] = [
        (
            *(str(place) if part is option.parts[0] else "", part.name),
            f"{part.used} (= {part.ipus_per_replica} × {part.replicas})",
            *(cell(name, part.figures.get(name), option.currency) for name in known),
        )
        for place, option in enumerate(shown, 1)
        for part in option.parts
    ]
    figures = (figure_column(name, answer.currency) for name in known)
    words = "side by side" if answer.goal.order == TOGETHER else "one after another"
    return Table((*columns(">", "job", ">IPUs"), *figures), rows, f"Each job, {words}")


def figure_column(figure: str, currency: str = "") -> Column:
    """A column of a figure, by its metric."""
    metric = metric_of(figure)
    unit = {MONEY: currency, PER_SECOND: "", SHARE: "", IPU: ""}.get(metric.unit, metric.unit)
    return Column(metric.head, is_number=True, unit=unit)


def option_table(answer: Answer, options: Sequence[Option], notes: Sequence[str] = ()) -> Table:
    """All figures that options have, and what rules them out."""
    named = ((name, value(each, name)) for each in options for name in each.figures or {})
    known = list(dict.fromkeys(name for name, number in named if number is not None and name != IPUS))
    rows: list[Cells] = [
        (
            each.label,
            Cell(each.arithmetic, each.ipu_count),
            *(cell(name, value(each, name), each.currency) for name in known),
            each.reason,
        )
        for each in options
    ]
    figures = (figure_column(name, answer.currency) for name in known)
    return Table((*columns("option", ">IPUs"), *figures, *columns("ruled out by")), rows, notes=notes)


def _held(answer: Answer, option: Option) -> Cell:
    """In how many of the draws an option holds, with a mark if these are few."""
    drawn = answer.drawn(option)
    if drawn is None:
        return Cell("–")
    return Cell(f"{'' if drawn.is_reliable else '! '}{format_percent(drawn.within, 0)}", drawn.within)


def _that_fit(answer: Answer, names: Mapping[str, str]) -> list[str]:
    """The figure that counts, those with a limit, and as many others as fit beside what tells options apart."""
    limited = {limit.metric for limit in answer.goal.limits}
    options = answer.ranked[:_MOST_ROWS]
    held = ["! 48 %"] if answer.sureness else []
    lines = [(str(place), *_named(each, names), each.arithmetic, *held) for place, each in enumerate(options, 1)]
    taken = sum(max(map(len, column)) + _GAP for column in zip(*lines, strict=True))
    found: list[str] = []
    for name in _columns(answer):
        cells = (cell(name, (option.figures or {}).get(name), option.currency) for option in options)
        taken += max(map(len, (*map(str, cells), *metric_of(name).head.split()))) + _GAP
        if not found or name in limited or taken <= _WIDTH:
            found.append(name)
    return found


def _stacked(table: Table) -> Table:
    """Heads on several lines, as wide as the cells below them or their own longest word."""
    heads = []
    for place, column in enumerate(table.columns):
        below = [str(row[place]) for row in table.rows]
        width = max(map(len, (*below, *column.head.split(), "")))
        heads.append(replace(column, head=fill(column.head, max(1, width), break_long_words=False)))
    return replace(table, columns=heads)


def _names(answer: Answer, options: Sequence[Option]) -> dict[str, str]:
    """Columns that tell options apart: heading, and attribute or key. Where keys vary, what is the same is left out."""
    keys = list(dict.fromkeys(key for option in options for key in option.values))
    if not keys:
        return {"system": "system", "division": "division"}
    goal = answer.goal
    several = {"system": len(goal.candidates) > 1, "division": len(goal.divisions) > 1}
    names = {name: name for name, differs in several.items() if differs}
    if len(keys) > _MOST_KEYS:
        return names | {"varied": "varied"}
    ends = [key.rpartition(".")[2] for key in keys]
    heads = (end.replace("_", " ") if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True))
    return names | dict(zip(heads, keys, strict=True))


def _named(option: Option, names: Mapping[str, str]) -> Iterator[str]:
    own = {"system": option.system, "division": option.division, "varied": option.varied}
    yield from (own[name] if name in own else short(option.values.get(name, "–")) for name in names.values())


def _footer(answer: Answer) -> Iterator[str]:
    if len(answer.ranked) > _MOST_ROWS:
        yield f"and {len(answer.ranked) - _MOST_ROWS:,} more; --format json has all"
    looked_at = len(answer.ranked) + len(answer.ruled_out)
    if answer.candidate_count > answer.goal.trials:
        yield f"{looked_at:,} of {answer.candidate_count:,} candidates were looked at (seed {answer.goal.seed})"
    if answer.doubt:
        yield answer.doubt
    if any(drawn is not None and not drawn.is_reliable for drawn in map(answer.drawn, answer.ranked)):
        yield f"! holds in less than {format_percent(RELIABLE, 0)} of the draws; options that hold in more come first"
    if answer.sureness and not all(map(answer.drawn, answer.ranked[:_MOST_ROWS])):
        yield "– not drawn: others come first"
    if answer.second and list(answer.front) == [answer.best] and len(answer.ranked) > 1:
        side = "more" if metric_of(answer.second).more_is_better else "less"
        yield f"no other has {side} {metric_of(answer.second).head} than the first"
    if answer.currency:
        parts = [part for option in answer.ranked for part in option.parts if part.bill]
        leases = dict.fromkeys(_LEASED[part.bill["lease"]] for part in parts)
        yield f"cost: {' and '.join(leases)} leased"


def _columns(answer: Answer) -> list[str]:
    """The figure that counts, what it is weighed against, then others that all options have."""
    is_shown = answer.second is not None and (answer.goal.second is not None or metric_of(answer.second).unit == MONEY)
    wanted = [answer.goal.figure, *([answer.second] if is_shown and answer.second else [])]
    wanted = list(dict.fromkeys((*wanted, *(limit.metric for limit in answer.goal.limits))))
    wanted = [name for name in wanted if name != IPUS]
    rest = [name for name in _SHOWN if name not in wanted]
    known = (name for name in rest if all(_has(each.figures, name) for each in answer.ranked))
    varies = any(option.values for option in answer.ranked)
    return [*wanted, *known][: len(wanted) + max(0, _FIGURES - len(wanted)) // (2 if varies else 1)]


def _has(figures: Mapping[str, Any] | None, name: str) -> bool:
    return (figures or {}).get(name) is not None


def _ruled_out(answer: Answer) -> Table:
    names = _names(answer, answer.ruled_out)
    shown = answer.ruled_out[:_MOST_ROWS]
    rows = [(*_named(option, names), option.reason.partition(" (largest: ")[0]) for option in shown]
    rest = Counter(_kind_of(option) for option in answer.ruled_out[_MOST_ROWS:])
    notes = [f"and {count:,} more: {reason}" for reason, count in rest.most_common()]
    return _stacked(Table(columns(*names, "why not"), rows, "Ruled out", notes))


def _kind_of(option: Option) -> str:
    """A reason without by how much."""
    return option.reason.partition(": +")[0].partition(": -")[0]


def _doublings(answer: Answer) -> Table:
    names = list(dict.fromkeys(name for each in answer.doublings for name in each.ratios))
    rows: list[Cells] = []
    for each in answer.doublings[:_MOST_ROWS]:
        ratios = ((each.ratios.get(name)) for name in names)
        told = (Cell("–" if ratio is None else f"× {format_significant(ratio)}", ratio) for ratio in ratios)
        rows.append((each.small.label, each.large.label, *told))
    return Table(columns("from", "to", *(f">{metric_of(name).head}" for name in names)), rows, "Twice the IPUs")


def _between(answer: Answer) -> Table:
    """Between what the figure that counts and those that are limited lie."""
    sure = answer.sureness
    assert sure is not None
    names = list(dict.fromkeys(name for each in sure.contenders for name in each.ranges))
    heads = (f">{': '.join((*whose, metric_of(name).head))}" for *whose, name in map(_split, names))
    rows = [
        (
            each.option.label,
            *(range_text(_split(name)[-1], each.ranges.get(name), each.option.currency) for name in names),
        )
        for each in sure.contenders
    ]
    return Table(columns("system", *heads), rows, _BETWEEN)


def _split(name: str) -> list[str]:
    """The job of a figure and its key, or its key alone."""
    return name.split(": ")


def _sureness(answer: Answer) -> Table:
    sure = answer.sureness
    assert sure is not None
    shares = {"first in": [each.first for each in sure.contenders]}
    if answer.goal.asked:
        shares["within limits in"] = [each.within for each in sure.contenders]
    if any(each.possible < 1 for each in sure.contenders):
        shares["fits in"] = [each.possible for each in sure.contenders]
    rows = [
        (each.option.label, *(Cell(format_percent(share, 0), share) for share in found))
        for each, *found in zip(sure.contenders, *shares.values(), strict=True)
    ]
    reached = "" if sure.reached == sure.draws else f"; in {sure.reached} of them one reaches the goal"
    title = f"How sure: {sure.draws} draws of what is assumed or calibrated{reached}"
    return Table(columns("system", *(f">{head}" for head in shares)), rows, title)


def _front_chart(answer: Answer) -> Passage:
    """Options by both figures: those of the front by their place in the ranking, the others as dots."""
    figure, second, currency = answer.goal.figure, answer.second or "", answer.currency
    points = []
    for place, option in enumerate(answer.ranked):
        x, y = value(option, figure), value(option, second)
        if x is not None and y is not None:
            is_best = option in answer.front
            label = (_LABELS[place] if place < len(_LABELS) else _MORE) if is_best else _OTHER
            points.append((x, y, label))
    logarithmic = [min(each) > 0 and max(each) / min(each) > _WIDE for each in _axes(points)]
    lows, highs = [min(each) for each in _axes(points)], [max(each) for each in _axes(points)]
    across, up = (log if is_log else float for is_log in logarithmic)
    placed = [(across(x), up(y), label) for x, y, label in points]
    rows = drawn(placed, (across(lows[0]), across(highs[0])), (up(lows[1]), up(highs[1])))
    ends = str(cell(second, highs[1], currency)), str(cell(second, lows[1], currency))
    margin = max(map(len, ends))
    lines = [f"{ends[0]:>{margin}} ┤{rows[0]}"]
    lines += [f"{'':>{margin}} │{row}" for row in rows[1:-1]]
    lines += [f"{ends[1]:>{margin}} ┤{rows[-1]}", f"{'':>{margin}} └{'─' * _ACROSS}"]
    left, right = str(cell(figure, lows[0], currency)), str(cell(figure, highs[0], currency))
    lines += [f"{'':>{margin}}  {left}{right:>{_ACROSS - len(left)}}"]
    words = [
        metric_of(name).head + " (logarithmic)" * is_log
        for name, is_log in zip((figure, second), logarithmic, strict=True)
    ]
    title = f"{words[1]} against {words[0]}; numbers: no other beats it in both"
    return Passage("\n".join(line.rstrip() for line in lines), title)


def _axes(points: list[tuple[float, float, str]]) -> tuple[list[float], list[float]]:
    return [x for x, _, _ in points], [y for _, y, _ in points]


def drawn(points: list[tuple[float, float, str]], across: tuple[float, float], up: tuple[float, float]) -> list[str]:
    """Points on a grid of characters, the largest of the second figure on top.

    Args:
        points: Both figures and the character of each.
        across: Least and largest of the first figure.
        up: Least and largest of the second.
    """
    grid = [[" "] * _ACROSS for _ in range(_UP)]
    for x, y, label in sorted(points, key=lambda point: point[2] != _OTHER):  # numbers cover dots
        row, column = _UP - 1 - _step(y, up, _UP), _step(x, across, _ACROSS)
        taken = grid[row][column]
        grid[row][column] = _MORE if taken not in (" ", _OTHER) else label
    return ["".join(row) for row in grid]


def _step(number: float, ends: tuple[float, float], steps: int) -> int:
    low, high = ends
    return round((number - low) / (high - low) * (steps - 1)) if high > low else 0
