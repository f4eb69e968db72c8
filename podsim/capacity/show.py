"""An answer as tables: what reaches the goal, ranked, what rules the others out, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from podsim.capacity.answer import Answer
from podsim.capacity.chart import front_chart
from podsim.capacity.option import Option
from podsim.capacity.wording import cell, heading, ratio
from podsim.report.format import format_percent
from podsim.report.tables import plain_table, titled

_NARROW: Final = 5
_FIGURES: Final = 3
"""As many fit into 80 columns."""
_MOST_ROWS: Final = 20
_FEW_POINTS: Final = 3
"""Fewer points make no chart."""
_SHOWN: Final = (
    *("time_to_train_s", "throughput_samples_per_s", "tokens_per_s", "latency_s", "latency_p99_s", "cost_per_run"),
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
        yield from _ruled_out(answer)
    if answer.second and len(answer.ranked) >= _FEW_POINTS and len(answer.front) > 1:
        yield front_chart(answer)
    if answer.doublings:
        yield titled("Twice the IPUs", _doublings(answer))
    if answer.sureness is not None:
        yield titled(*_sureness(answer))


def headline(answer: Answer) -> str:
    """What was wanted, in a line."""
    goal = answer.goal
    limits = [f"{limit.metric} {limit.text}" for limit in goal.limits]
    limits += [f"{job.name}: {limit.metric} {limit.text}" for job in goal.work for limit in job.limits]
    words = ", ".join(limits) or "no limits"
    return f"{goal.title}: {'most' if goal.more_is_better else 'least'} {goal.figure}, {words}"


def _ranked(answer: Answer) -> Table:
    columns = _columns(answer)
    varied = ["varied"] if any(option.values for option in answer.ranked) else []
    table = plain_table(">", "system", "division", *varied, ">IPUs", *(f">{heading(name)}" for name in columns))
    for number, column in enumerate(table.columns):
        # Headers of figures, and values, may take several lines.
        column.no_wrap = number < _NARROW - (not varied) and column.header != "varied"
    for place, option in enumerate(answer.ranked[:_MOST_ROWS], 1):
        figures = option.figures or {}
        cells = (cell(name, figures.get(name), option.currency) for name in columns)
        values = [option.varied] if varied else []
        table.add_row(str(place), option.system, option.division, *values, option.arithmetic, *cells)
    return table


def _footer(answer: Answer) -> Iterator[str]:
    if len(answer.ranked) > _MOST_ROWS:
        yield f"and {len(answer.ranked) - _MOST_ROWS:,} more; --format json has all"
    looked_at = len(answer.ranked) + len(answer.ruled_out)
    if answer.candidate_count > answer.goal.trials:
        yield f"{looked_at:,} of {answer.candidate_count:,} candidates were looked at (seed {answer.goal.seed})"
    if answer.currency:
        parts = [part for option in answer.ranked for part in option.parts if part.bill]
        leased = "the whole pod" if any(part.bill.get("lease") == "pod" for part in parts) else "machines in use"
        yield f"cost: {leased} leased"


def _columns(answer: Answer) -> list[str]:
    """The figure that counts, what it is weighed against, then others that all options have."""
    wanted = [answer.goal.figure, *([answer.second] if answer.goal.second and answer.second else [])]
    rest = [name for name in _SHOWN if name not in wanted]
    known = (name for name in rest if all(_has(each.figures, name) for each in answer.ranked))
    return [*wanted, *known][:_FIGURES]


def _has(figures: Mapping[str, Any] | None, name: str) -> bool:
    return (figures or {}).get(name) is not None


def _ruled_out(answer: Answer) -> Iterator[RenderableType]:
    varied = any(option.values for option in answer.ruled_out)
    table = plain_table("system", "division", *(["varied"] if varied else []), "why not")
    for option in answer.ruled_out[:_MOST_ROWS]:
        table.add_row(option.system, option.division, *([option.varied] if varied else []), option.reason)
    rest = Counter(_kind_of(option) for option in answer.ruled_out[_MOST_ROWS:])
    lines = [f"and {count:,} more: {reason}" for reason, count in rest.most_common()]
    yield titled("Ruled out", table, *lines)


def _kind_of(option: Option) -> str:
    """A reason without by how much."""
    return option.reason.partition(": +")[0].partition(": -")[0]


def _doublings(answer: Answer) -> Table:
    names = list(dict.fromkeys(name for each in answer.doublings for name in each.ratios))
    table = plain_table("from", "to", *(f">{heading(name)}" for name in names))
    for each in answer.doublings[:_MOST_ROWS]:
        table.add_row(each.small.label, each.large.label, *(ratio(each.ratios.get(name)) for name in names))
    return table


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
    return f"How sure: {sure.draws} draws of what is assumed or calibrated, from its range", table
