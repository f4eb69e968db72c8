"""A table is data; a terminal, Markdown, HTML and CSV are written from it.

A topic makes its tables once, next to what they show. Cells are text, or a `Cell` with the number behind the text and
its colour. Nothing here knows what a table is about.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from operator import gt
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, chop_cells

from podsim import harmless

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

WIDTH: Final = 100
"""Columns of a text that no terminal limits."""
_GAP: Final = "  "
_LEAST: Final = 8
"""Columns of text are made as narrow as this before those of numbers are broken."""
_EIGHTHS: Final = " ▏▎▍▌▋▊▉█"
_HEIGHTS: Final = " ▁▂▃▄▅▆▇█"
_BAR: Final = 8
_IN_ASCII: Final = str.maketrans("█▉▊▋▌▍▎▏▇▆▅▄▃▂▁─│┤└·×–", "####+...%*+=-:.-||+.x-")
_NOTHING: Final = ("–", "-")
_PIECE: Final = re.compile(r"@?[^ @]+ ?| ")
_ADDRESS: Final = re.compile(r"https?://[^\s<>\"';,]+")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        head: What it holds; may have several lines.
        is_number: Whether it is aligned to the right, and kept on one line as long as there is room.
        style: How a terminal shows its cells, as Rich names it.
        whole: Whether its cells stay on one line as long as there is room, as numbers do.
        unit: Of the numbers behind its cells, where they are not written in that of the head.
    """

    head: str
    is_number: bool = False
    style: str = ""
    unit: str = ""
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that is more than text.

    Attributes:
        text: What a reader sees.
        value: The number behind it, in SI units, for programs; the text if left out.
        style: How a terminal shows it, as Rich names it.
    """

    text: str
    value: float | None = None
    style: str = ""

    def __str__(self) -> str:
        """The text."""
        return self.text


Cells = Sequence[str | Cell]
"""A row: a cell for each column; or a single one, which is a heading over those that follow."""


class _Printed:
    """A block that a console of Rich prints: as wide as it is, in colours, in ASCII where it knows no more."""

    __slots__ = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        assert isinstance(self, Table | Passage)
        for pieces in _lines(self, options.max_width):
            shown = [(text.translate(_IN_ASCII) if options.ascii_only else text, style) for text, style in pieces]
            yield Text.assemble(*shown, no_wrap=True, overflow="ignore")


@dataclass(frozen=True, slots=True)
class Table(_Printed):
    """A table.

    Attributes:
        columns: Its columns; heads are left out if all are empty.
        rows: Cells, or headings over rows.
        title: What it shows.
        notes: Lines below it.
        chosen: Number of the row that stands out.
        headings: What headings over rows are, the name of their column in CSV.
    """

    columns: Sequence[Column]
    rows: Sequence[Cells]
    title: str = ""
    notes: Sequence[str] = ()
    chosen: int | None = None
    headings: str = "group"

    @property
    def has_heads(self) -> bool:
        """True if any column has a head."""
        return any(column.head for column in self.columns)


@dataclass(frozen=True, slots=True)
class Passage(_Printed):
    """Lines of text below a title, which are shown as they are.

    Attributes:
        text: The lines.
        title: What they are about.
        style: How a terminal shows them, as Rich names it.
    """

    text: str
    title: str = ""
    style: str = ""


Block = Table | Passage


def columns(*heads: str) -> tuple[Column, ...]:
    """Columns by their heads; one that begins with `>` holds numbers.

    >>> [(each.head, each.is_number) for each in columns("kind", ">share")]
    [('kind', False), ('share', True)]
    """
    return tuple(Column(head.removeprefix(">"), head.startswith(">")) for head in heads)


def bar(fraction: float, style: str = "") -> Cell:
    """A bar of a fraction of the full width, never empty.

    >>> str(bar(0.5)), str(bar(0.0))
    ('████', '▏')
    """
    whole, eighths = divmod(max(1, round(fraction * _BAR * 8)), 8)
    return Cell("█" * whole + _EIGHTHS[eighths].strip(), fraction, style)


def sparkline(counts: Sequence[int], width: int) -> str:
    """The largest count of each of a number of equal stretches, as bars; blank only where all are 0.

    >>> sparkline([0, 0, 1, 8, 4, 0], width=3)
    ' █▄'
    """
    stretches = min(width, len(counts))
    edges = [len(counts) * number // stretches for number in range(stretches + 1)]
    peaks = [max(counts[start:end]) for start, end in pairwise(edges)]
    return "".join(_HEIGHTS[-(-(len(_HEIGHTS) - 1) * peak // max(1, *peaks))] for peak in peaks)


# Text


def to_text(block: Block, width: int = WIDTH) -> str:
    """A table as plain text, at most so wide."""
    lines = [line.rstrip() for line in ("".join(text for text, _ in pieces) for pieces in _lines(block, width))]
    return "\n".join(lines) + "\n"


_Pieces = list[tuple[str, str]]
"""A line, as texts with their styles."""


def _lines(block: Block, width: int) -> Iterator[_Pieces]:
    if block.title:
        yield from ([(line, "bold")] for line in _folded(block.title, width))
    if isinstance(block, Passage):
        yield from ([(line, block.style)] for text in block.text.split("\n") for line in _folded(text, width))
        return
    widths = _widths(block, width)
    if block.has_heads:
        heads = [_folded(column.head, width) for column, width in zip(block.columns, widths, strict=True)]
        tallest = max(map(len, heads))
        low = ["\n" * (tallest - len(each)) + "\n".join(each) for each in heads]
        yield from _beside(low, block, widths, [""] * len(low))
        yield [("─" * (sum(widths) + len(_GAP) * (len(widths) - 1)), "")]
    for number, row in enumerate(block.rows):
        if len(row) < len(widths):
            yield [(f"{row[0]}:", "bold")]
            continue
        chosen = "bold " * (number == block.chosen)
        own = (each.style if isinstance(each, Cell) else "" for each in row)
        styles = [f"{chosen}{style or column.style}" for style, column in zip(own, block.columns, strict=True)]
        yield from _beside(row, block, widths, [each.strip() for each in styles])
    for note in block.notes:
        yield from ([(line, "dim")] for line in _folded(note, width))


def _beside(row: Cells, table: Table, widths: Sequence[int], styles: Sequence[str]) -> Iterator[_Pieces]:
    """The lines of a row, its cells beside one another."""
    folded = [_folded(str(cell), width) for cell, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*folded, fillvalue=""):
        pieces: _Pieces = []
        for text, column, width, style in zip(parts, table.columns, widths, styles, strict=True):
            room = " " * (width - cell_len(text))
            pieces += [(room + text if column.is_number else text + room, style), (_GAP, "")]
        while pieces and not pieces[-1][0].strip():
            pieces.pop()
        yield [*pieces[:-1], *((text.rstrip(), style) for text, style in pieces[-1:])]


def _widths(table: Table, width: int) -> list[int]:
    """The width of each column. Where there is too little room columns of text give way, then heads, then numbers."""
    rows = [row for row in table.rows if len(row) == len(table.columns)]
    body = [max((_wide(str(row[place])) for row in rows), default=0) for place in range(len(table.columns))]
    head = [_wide(column.head) for column in table.columns]
    word = [max(map(cell_len, column.head.split()), default=0) for column in table.columns]
    widths = list(map(max, body, head))
    room = width - len(_GAP) * (len(widths) - 1)
    text = [
        least if column.is_number or column.whole else _LEAST
        for column, least in zip(table.columns, widths, strict=True)
    ]
    for least in (text, list(map(max, body, word)), body, [1] * len(widths)):
        while sum(widths) > room and any(map(gt, widths, least)):
            wide = max(range(len(widths)), key=lambda place: (widths[place] > least[place], widths[place]))
            widths[wide] -= 1
    return widths


def _wide(text: str) -> int:
    return max(map(cell_len, harmless.terminal(text).split("\n")))


def _folded(text: str, width: int) -> list[str]:
    """Text in lines that fit, broken behind spaces and in front of `@`.

    >>> _folded("GCP-028: vit_base_pod16@bow", 24)
    ['GCP-028: vit_base_pod16', '@bow']
    """
    lines = []
    for given in harmless.terminal(text).split("\n"):
        if cell_len(given) <= width:
            lines.append(given)
            continue
        line = ""
        for piece in _PIECE.findall(given):
            if line and cell_len(line + piece.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += piece
            if cell_len(line.rstrip()) > width:
                *whole, line = chop_cells(line.rstrip(), width)
                lines += whole
        lines.append(line.rstrip())
    return lines


# Markdown, HTML, CSV


def to_markdown(block: Block, level: int = 2) -> str:
    """A table in Markdown, below a heading of a level; headings over rows are cells in bold."""
    head = f"{'#' * level} {harmless.markdown(block.title)}\n\n" if block.title else ""
    if isinstance(block, Passage):
        return head + "".join(f"{harmless.markdown(line)}\n" for line in block.text.split("\n"))
    count = len(block.columns)
    lines = [[harmless.markdown(column.head) for column in block.columns]]
    lines.append(["--:" if column.is_number else "---" for column in block.columns])
    for row in block.rows:
        cells = [harmless.markdown(str(cell)) for cell in row]
        lines.append(cells if len(cells) == count else [f"**{cells[0]}**", *[""] * (count - 1)])
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return head + text + "".join(f"\n{harmless.markdown(note)}\n" for note in block.notes)


def to_html(table: Block) -> str:
    """A table as HTML, with its notes below it; addresses are links."""
    if isinstance(table, Passage):
        title = f"<p>{linked(table.title)}</p>\n" if table.title else ""
        return f'{title}<pre tabindex="0">{harmless.html(table.text)}</pre>'
    name = harmless.html(table.title or "Table")
    caption = f"<caption>{harmless.html(table.title)}</caption>" if table.title else ""
    kinds = [' class="number"' if column.is_number else "" for column in table.columns]
    heads = (f'<th scope="col"{kind}>{linked(each.head)}</th>' for each, kind in zip(table.columns, kinds, strict=True))
    rows = []
    for number, row in enumerate(table.rows):
        chosen = ' class="chosen"' if number == table.chosen else ""
        cells = [f"<td{kind}>{linked(str(cell))}</td>" for cell, kind in zip(row, kinds, strict=False)]
        if len(row) < len(kinds):
            cells = [f'<th scope="rowgroup" colspan="{len(kinds)}">{linked(str(row[0]))}</th>']
        rows.append(f"<tr{chosen}>{''.join(cells)}</tr>")
    head = f"<thead><tr>{''.join(heads)}</tr></thead>" if table.has_heads else ""
    rows_text = "\n".join(rows)
    body = f"<table>{caption}{head}<tbody>{rows_text}</tbody></table>"
    notes = "".join(f'\n<p class="small">{linked(note)}</p>' for note in table.notes)
    return f'<div class="scroll" role="region" aria-label="{name}" tabindex="0">{body}</div>{notes}'


def linked(text: str) -> str:
    """Text of HTML, escaped, in which addresses are links and lines are kept."""
    parts, end = [], 0
    for found in _ADDRESS.finditer(text):
        address = harmless.html(found[0])
        parts += [harmless.html(text[end : found.start()]), f'<a href="{address}" rel="noreferrer">{address}</a>']
        end = found.end()
    return "".join([*parts, harmless.html(text[end:])]).replace("\n", "<br>")


def to_csv(table: Table) -> str:
    """A table as CSV: numbers as programs read them, nothing for a dash, headings over rows as a first column."""
    width = len(table.columns)
    is_grouped, group = any(len(row) < width for row in table.rows), ""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    heads = [" ".join(each.head.split()) + (f" [{each.unit}]" if each.unit else "") for each in table.columns]
    writer.writerow(map(harmless.csv, [*[table.headings] * is_grouped, *heads]))
    for row in table.rows:
        if len(row) < width:
            group = str(row[0])
            continue
        known = (each.value if isinstance(each, Cell) and each.value is not None else str(each) for each in row)
        cells = ["" if each in _NOTHING else each for each in known]
        line = [*[group] * is_grouped, *cells]
        writer.writerow([harmless.csv(each) if isinstance(each, str) else each for each in line])
    return file.getvalue()
