"""The tables of what faults cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rich.console import Group
from rich.text import Text

from podsim.format import format_count, format_duration_s, format_percent
from podsim.result.faults import FaultReport, ranges
from podsim.result.kinds import kind_of
from podsim.show.tables import plain_table, titled

_MOST_ROWS: Final = 8
_MOST_KINDS: Final = 3
_LEAST_SHARE: Final = 0.01
_DIGITS: Final = 4


def fault_tables(report: FaultReport, ipu_count: int) -> Group:
    """The stretches of the run, and who waits for whom in the one that the other tables show.

    Args:
        report: What the faults cost.
        ipu_count: IPUs that run.
    """
    shown = report.stretches[report.shown]
    longer = shown.weight_update_s / report.weight_update_without_s - 1
    without = f"Without faults a weight update takes {format_duration_s(report.weight_update_without_s, _DIGITS)}"
    change = f"{without}; with those shown here it is {format_percent(longer)} longer."
    return Group(
        _stretches(report), *([Text("")] if len(report.stretches) > 1 else []), _waiting(report, change, ipu_count)
    )


def _stretches(report: FaultReport) -> Group:
    table = plain_table(">from", ">until", ">weight update", ">updates", "faults")
    for number, each in enumerate(report.stretches):
        until = "end" if each.until_s is None else format_duration_s(each.until_s)
        count = "" if each.weight_updates is None else format_count(each.weight_updates)
        mark = " (shown here)" if number == report.shown and len(report.stretches) > 1 else ""
        faults = "; ".join(each.faults) or "none"
        table.add_row(
            format_duration_s(each.from_s),
            until,
            format_duration_s(each.weight_update_s, _DIGITS),
            count,
            faults + mark,
        )
    return titled("Faults", table)


def _waiting(report: FaultReport, change: str, ipu_count: int) -> Group:
    table = plain_table("IPUs", "more or less time in a weight update than without faults")
    rows: dict[str, list[int]] = {}
    for each in report.waiting:
        rows.setdefault(", ".join(_changes(each.more_s)) or "as without", []).extend(each.ipus)
    for text, ipus in list(rows.items())[:_MOST_ROWS]:
        table.add_row("all others" if len(ipus) > ipu_count // 2 and len(rows) > 1 else ranges(ipus), text)
    left = len(rows) - _MOST_ROWS
    return titled("Who waits for whom", table, *([f"and {left} more groups"] if left > 0 else []), change)


def _changes(more_s: Mapping[str, float]) -> Iterator[str]:
    """The largest changes, each with its sign."""
    largest = max((abs(change) for change in more_s.values()), default=0.0)
    ordered = sorted(more_s.items(), key=lambda each: -abs(each[1]))
    for kind, change in ordered[:_MOST_KINDS]:
        if abs(change) >= _LEAST_SHARE * largest:
            sign = "+" if change > 0 else "-"
            yield f"{kind_of(kind).label} {sign}{format_duration_s(abs(change), 2)}"
