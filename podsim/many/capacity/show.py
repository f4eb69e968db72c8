"""An answer as tables: what reaches the goal, ranked, what rules the others out, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from textwrap import fill
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from podsim.format import format_percent
from podsim.many.capacity.answer import Answer
from podsim.many.capacity.chart import front_chart
from podsim.many.capacity.option import Option
from podsim.many.capacity.sure import RELIABLE
from podsim.many.capacity.wording import cell, range_cell, ratio
from podsim.many.sweeps.chart_words import short
from podsim.metrics import COST, IPUS, LATENCY, MONEY, THROUGHPUT, TIME, TOKENS, metric_of
from podsim.show.tables import plain_table, titled

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
_SHOWN: Final = (
    *(TIME, THROUGHPUT, TOKENS, LATENCY, "latency_p99_s", COST),
    *("energy_per_run_j", "weight_update_s", "mfu", "mean_power_w"),
)


def answer_tables(answer: Answer) -> Iterator[RenderableType]:
    """The ranked options, those that are ruled out, what twice the IPUs give, and how sure the ranking is."""
    title = headline(answer)
    if answer.ranked:
        yield titled(title, _ranked(answer), *_footer(answer))
    else:
        yield Text(f"{title}: nothing reaches the goal", style="bold")
    if answer.ruled_out:
        yield _ruled_out(answer)
    if answer.second and len(answer.ranked) >= _FEW_POINTS and len(answer.front) > 1:
        yield front_chart(answer)
    if answer.doublings:
        yield titled("Twice the IPUs", _doublings(answer))
    if answer.sureness is not None:
        yield titled(*_sureness(answer))
        yield titled(_BETWEEN, _between(answer))


def headline(answer: Answer) -> str:
    """What was wanted, in a line."""
    goal = answer.goal
    limits = [f"{limit.metric} {limit.text}" for limit in goal.limits]
    limits += [f"{job.name}: {limit.metric} {limit.text}" for job in goal.work for limit in job.limits]
    words = ", ".join(limits) or "no limits"
    return f"{goal.title}: {'most' if goal.more_is_better else 'least'} {goal.figure}, {words}"


def _ranked(answer: Answer) -> Table:
    names = _names(answer, answer.ranked)
    figures = _that_fit(answer, names)
    held = [">holds in"] if answer.sureness else []
    table = plain_table(">", *names, ">IPUs", *(f">{metric_of(name).head}" for name in figures), *held)
    for place, option in enumerate(answer.ranked[:_MOST_ROWS], 1):
        known = option.figures or {}
        cells = (cell(name, known.get(name), option.currency) for name in figures)
        held = [_held(answer, option)] if answer.sureness else []
        table.add_row(str(place), *_named(option, names), option.arithmetic, *cells, *held)
    return _headers_wrap(table, len(table.columns))


def _held(answer: Answer, option: Option) -> str:
    """In how many of the draws an option holds, with a mark if these are few."""
    drawn = answer.drawn(option)
    if drawn is None:
        return "–"
    return f"{'' if drawn.is_reliable else '! '}{format_percent(drawn.within, 0)}"


def _that_fit(answer: Answer, names: Mapping[str, str]) -> list[str]:
    """The figure that counts, and as many others as fit into a line beside the columns that tell options apart."""
    options = answer.ranked[:_MOST_ROWS]
    held = ["! 48 %"] if answer.sureness else []
    lines = [(str(place), *_named(each, names), each.arithmetic, *held) for place, each in enumerate(options, 1)]
    taken = sum(max(map(len, column)) + _GAP for column in zip(*lines, strict=True))
    found: list[str] = []
    for name in _columns(answer):
        cells = (cell(name, (option.figures or {}).get(name), option.currency) for option in options)
        taken += max(map(len, (*cells, *metric_of(name).head.split()))) + _GAP
        if not found or taken <= _WIDTH:
            found.append(name)
    return found


def _headers_wrap(table: Table, count: int) -> Table:
    """Columns as wide as their cells, or the longest word of their heads, which take several lines."""
    for column in table.columns[:count]:
        head = str(column.header)
        if head != "varied":
            width = max(map(len, (*map(str, column.cells), *head.split(), "")))
            column.header, column.no_wrap = fill(head, max(1, width), break_long_words=False), True
    return table


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


def _ruled_out(answer: Answer) -> RenderableType:
    names = _names(answer, answer.ruled_out)
    table = plain_table(*names, "why not")
    for option in answer.ruled_out[:_MOST_ROWS]:
        table.add_row(*_named(option, names), option.reason.partition(" (largest: ")[0])
    table = _headers_wrap(table, len(names))
    rest = Counter(_kind_of(option) for option in answer.ruled_out[_MOST_ROWS:])
    return titled("Ruled out", table, *(f"and {count:,} more: {reason}" for reason, count in rest.most_common()))


def _kind_of(option: Option) -> str:
    """A reason without by how much."""
    return option.reason.partition(": +")[0].partition(": -")[0]


def _doublings(answer: Answer) -> Table:
    names = list(dict.fromkeys(name for each in answer.doublings for name in each.ratios))
    table = plain_table("from", "to", *(f">{metric_of(name).head}" for name in names))
    for each in answer.doublings[:_MOST_ROWS]:
        table.add_row(each.small.label, each.large.label, *(ratio(each.ratios.get(name)) for name in names))
    return table


def _between(answer: Answer) -> Table:
    """Between what the figure that counts and those that are limited lie."""
    sure = answer.sureness
    assert sure is not None
    names = list(dict.fromkeys(name for each in sure.contenders for name in each.ranges))
    table = plain_table(
        "system", *(f">{': '.join((*whose, metric_of(name).head))}" for *whose, name in map(_split, names))
    )
    for each in sure.contenders:
        ranges = (range_cell(_split(name)[-1], each.ranges.get(name), each.option.currency) for name in names)
        table.add_row(each.option.label, *ranges)
    return table


def _split(name: str) -> list[str]:
    """The job of a figure and its key, or its key alone."""
    return name.split(": ")


def _sureness(answer: Answer) -> tuple[str, Table]:
    sure = answer.sureness
    assert sure is not None
    shares = {"first in": [each.first for each in sure.contenders]}
    if answer.goal.asked:
        shares["within limits in"] = [each.within for each in sure.contenders]
    if any(each.possible < 1 for each in sure.contenders):
        shares["fits in"] = [each.possible for each in sure.contenders]
    table = plain_table("system", *(f">{head}" for head in shares))
    for each, *cells in zip(sure.contenders, *shares.values(), strict=True):
        table.add_row(each.option.label, *(format_percent(share, 0) for share in cells))
    reached = "" if sure.reached == sure.draws else f"; in {sure.reached} of them one reaches the goal"
    return f"How sure: {sure.draws} draws of what is assumed or calibrated{reached}", table
