"""An answer as tables: what reaches the goal, ranked, and what rules the others out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from podsim.capacity.answer import Answer, Option
from podsim.report.format import format_duration_s, format_significant
from podsim.report.tables import plain_table, titled

_DIGITS: Final = 4
_NARROW: Final = 4
_FIGURES: Final = 3
"""As many fit into 80 columns."""
_SHOWN: Final = ("time_to_train_s", "throughput_samples_per_s", "tokens_per_s", "latency_s", "weight_update_s", "mfu")


def answer_tables(answer: Answer) -> Iterator[RenderableType]:
    """The ranked options, then those that are ruled out."""
    goal = answer.goal
    limits = ", ".join(f"{limit.metric} {limit.text}" for limit in goal.limits) or "no limits"
    title = f"{goal.scenario}: {'most' if goal.more_is_better else 'least'} {goal.objective}, {limits}"
    if answer.ranked:
        yield titled(title, _ranked(answer))
    else:
        yield Text(f"{title}: nothing reaches the goal", style="bold")
    if answer.ruled_out:
        table = plain_table("system", "division", "why not")
        for option in answer.ruled_out:
            table.add_row(option.system, option.division, option.reason)
        yield titled("Ruled out", table)


def _ranked(answer: Answer) -> Table:
    columns = _columns(answer.ranked, answer.goal.objective)
    table = plain_table(">", "system", "division", ">IPUs", *(f">{_title(name)}" for name in columns))
    for number, column in enumerate(table.columns):
        column.no_wrap = number < _NARROW  # headers of figures may take several lines
    for place, option in enumerate(answer.ranked, 1):
        figures = option.figures or {}
        cells = (_cell(name, figures[name], option.currency) for name in columns)
        table.add_row(str(place), option.system, option.division, option.arithmetic, *cells)
    return table


def _columns(ranked: Sequence[Option], objective: str) -> list[str]:
    """The figure that counts, then others that all options have."""
    rest = [name for name in _SHOWN if name != objective]
    return [objective, *(name for name in rest if all((each.figures or {}).get(name) is not None for each in ranked))][
        :_FIGURES
    ]


def _title(name: str) -> str:
    return name.removesuffix("_per_s").removesuffix("_s").replace("throughput_", "").replace("_", " ") + (
        "/s" if name.endswith("_per_s") else ""
    )


def _cell(name: str, value: float, currency: str) -> str:
    if name.startswith("cost_"):
        return f"{value:,.4g} {currency}"
    if name.endswith("_per_s"):
        return format_significant(value, _DIGITS)
    return format_duration_s(value, _DIGITS) if name.endswith("_s") else f"{value:.3g}"
