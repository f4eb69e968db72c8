"""Comparisons as text for a terminal of 100 columns, and in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from string import ascii_uppercase
from textwrap import fill, wrap
from typing import Final

from podsim import harmless
from podsim.many.compare.cells import input_cells, metric_cells, waterfall_cells
from podsim.many.compare.comparison import Comparison
from podsim.many.compare.difference import SAME, Difference, Waterfall
from podsim.many.compare.wording import change_of, duration_of_ps
from podsim.validation.tables import WIDTH, Cells, markdown, plain

_GAPS: Final = 4
"""Columns between three columns."""
_NUMBERS: Final = {"A", "change", "change [ps]"}
"""Headers of columns that are aligned to the right, beside that of the other side."""


@dataclass(frozen=True, slots=True)
class _Page:
    """How the parts of a page are written.

    Attributes:
        heading: Writes a heading.
        table: Writes a table.
        item: Writes one of several texts.
        line: Writes a text that stands alone.
        bars: Whether waterfalls have bars.
    """

    heading: Callable[[str], str]
    table: Callable[[Cells], str]
    item: Callable[[str], str]
    line: Callable[[str], str]
    bars: bool


def as_text(found: Comparison, *, unchanged: bool, precision: int) -> str:
    """A comparison for a terminal.

    Args:
        found: The comparison.
        unchanged: Show what is the same as well.
        precision: Significant digits.
    """
    page = _Page(lambda text: f"\n{text}\n\n", lambda cells: plain(_aligned(cells)), _filled, _filled, bars=True)
    return "".join(_parts(found, page, unchanged, precision))


def as_markdown(found: Comparison, *, unchanged: bool, precision: int) -> str:
    """A comparison in Markdown; arguments as of `as_text`."""

    def table(cells: Cells) -> str:
        return markdown([[*map(harmless.markdown, row)] for row in cells])

    page = _Page(lambda text: f"\n### {harmless.markdown(text)}\n\n", table, _item, _paragraph, bars=False)
    return "".join(_parts(found, page, unchanged, precision))


def _parts(found: Comparison, page: _Page, unchanged: bool, precision: int) -> Iterator[str]:
    for letter, subject in zip(ascii_uppercase, found.subjects, strict=False):
        yield page.item(f"{letter}: {subject.about}")
    for letter, each in found.lettered():
        yield from _difference(each, letter, page, unchanged, precision)
    warned = [
        f"warning ({letter}): {text}"
        for letter, subject in zip(ascii_uppercase, found.subjects, strict=False)
        for text in subject.warnings
    ]
    noted = [f"note: {note}" for each in found.subjects for note in each.notes]
    noted += [f"note: {note}" for note in dict.fromkeys(note for each in found.differences for note in each.notes)]
    if warned or noted:
        yield "\n"
    yield from map(page.item, (*warned, *noted))


def _difference(each: Difference, letter: str, page: _Page, unchanged: bool, precision: int) -> Iterator[str]:
    yield page.heading(f"{letter} against A: {each.a.activity}")
    changed = [row for row in each.rows if row.verdict != SAME]
    rows = each.rows if unchanged else changed
    if rows:
        yield page.table(metric_cells(rows, letter, precision))
    yield page.line(_count(len(changed), len(each.rows) - len(changed), unchanged))
    for waterfall in each.waterfalls:
        if unchanged or any(step.change_ps for step in waterfall.steps):
            yield page.heading(_title(waterfall, letter, precision))
            cells = waterfall_cells(waterfall, letter, precision, unchanged=unchanged)
            yield page.table(cells if page.bars and any(row[-1] for row in cells) else [row[:-1] for row in cells])
    if each.inputs:
        yield page.heading("What differs in the inputs")
        cells, left_out = input_cells(each.inputs, letter, everything=unchanged)
        yield page.table(cells)
        if left_out:
            yield page.line(f"and {left_out} more, which `--all` shows")


def _title(waterfall: Waterfall, letter: str, precision: int) -> str:
    a_ps, b_ps = waterfall.a_ps, waterfall.b_ps
    times = " to ".join(duration_of_ps(each, precision) for each in (a_ps, b_ps))
    if a_ps == b_ps:
        return f"{waterfall.span.capitalize()} in A and {letter}: {duration_of_ps(a_ps, precision)}"
    change = f" ({change_of(b_ps / a_ps - 1, precision)})" if a_ps else ""
    return f"{waterfall.span.capitalize()} from A to {letter}: {times}{change}"


def _count(changed: int, same: int, unchanged: bool) -> str:
    if not changed:
        return "no metric changed"
    hidden = ", which `--all` shows" if same and not unchanged else ""
    unmoved = f"; {same} {'is' if same == 1 else 'are'} the same{hidden}" if same else ""
    return f"{changed} of {changed + same} metrics changed{unmoved}"


def _aligned(cells: Cells) -> Cells:
    """Cells with numbers aligned to the right."""
    header = cells[0]
    if header[0] == "key":
        return _wrapped(cells)
    right = [name in _NUMBERS or len(name) == 1 for name in header]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        [cell.rjust(width) if is_right else cell for cell, width, is_right in zip(row, widths, right, strict=True)]
        for row in cells
    ]


def _wrapped(cells: Cells) -> Cells:
    """Keys and values, in which long values go on below and keys stay whole."""
    room = (WIDTH - max(len(row[0]) for row in cells) - _GAPS) // 2
    rows = []
    for key, *values in cells:
        lines = [wrap(value, room) or [""] for value in values]
        rows += [[name, *parts] for name, *parts in zip_longest([key], *lines, fillvalue="")]
    return rows


def _filled(text: str) -> str:
    return fill(text, WIDTH, subsequent_indent="   ", break_long_words=False, break_on_hyphens=False) + "\n"


def _item(text: str) -> str:
    return f"- {harmless.markdown(text)}\n"


def _paragraph(text: str) -> str:
    return f"\n{harmless.markdown(text)}\n"
