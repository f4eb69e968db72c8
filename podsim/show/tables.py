"""Plain tables with a title."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from podsim.format import format_error, format_figure
from podsim.harmless import line
from podsim.metrics import PER_SECOND, metric_of
from podsim.result.base import Result
from podsim.result.ranges import range_text
from podsim.result.rows import Reference

Tables = Sequence[RenderableType | None]
"""Tables in the order in which they are shown; those that are None are left out."""


def titled(title: str, table: Table, *lines: str) -> Group:
    """A table below its title and above a few lines of text."""
    return Group(Text(title, style="bold"), table, *(Text(line, style="dim") for line in lines))


def plain_table(*headers: str) -> Table:
    """A table without a frame; a header that begins with `>` is of a right-aligned column."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, padding=(0, 1))
    for header in headers:
        is_number = header.startswith(">")
        table.add_column(header.removeprefix(">"), justify="right" if is_number else "left", no_wrap=is_number)
    return table


def heading(result: Result) -> Group:
    """The title of a report, what it is about, what a reader must know first, its warnings and notes."""
    title, about = Text(line(result.title), style="bold"), "\n".join(map(line, result.about))
    verdict = [Text(line(f"verdict: {sentence}"), style="bold") for sentence in result.verdict]
    warnings = [Text(line(f"warning: {warning}"), style="yellow") for warning in result.warnings]
    notes = [f"{each.key} changes nothing: {each.reason}" for each in result.without_effect]
    dim = [Text(line(f"note: {note}"), style="dim") for note in notes]
    return Group(title, Text(about, style="dim"), *verdict, *warnings, *dim)


def headline(result: Result, rows: Sequence[tuple[str, str, str]]) -> RenderableType:
    """The numbers that matter most: label, name of the quantity, value with its range; below it what was measured."""
    table = Table.grid(Column(), Column(), Column(), padding=(0, 2, 0, 0))
    for label, quantity, value in rows:
        sure, measured = range_text(result, quantity), compared(result, quantity)
        told = Text.assemble((value, "bold"), f"  ({sure})" if sure else "")
        if not result.ranges:
            table.add_row(Text(label), told, Text(measured))
            continue
        table.add_row(Text(label), told)  # ranges leave no room beside them
        for text in measured.splitlines():
            table.add_row("", Text(text))
    shown = [each for each in result.references if result.error_of(each) is not None]
    sources = "; ".join(dict.fromkeys(_source(each) for each in shown))
    return Group(table, Text(f"Measured: {sources}", style="dim")) if sources else table


def compared(result: Result, quantity: str) -> str:
    """What was measured, and how far the number is from it."""
    return "\n".join(
        f"measured {_measured(quantity, each.measured)}, error {format_error(error)}"
        for each in result.references
        if each.quantity == quantity and (error := result.error_of(each)) is not None
    )


def _source(reference: Reference) -> str:
    fitted = " (constants were fitted to it)" if reference.role == "calibration" else ""
    return f"{reference.label}{fitted}"


def _measured(quantity: str, value: float) -> str:
    metric = metric_of(quantity)
    return f"{format_figure(metric, value)}{'/s' if metric.unit == PER_SECOND else ''}"
