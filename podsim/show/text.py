"""Reports, tables and passages as text: plain in files and pipes, coloured in a terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from operator import gt
from typing import Final, NoReturn

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from podsim import escaped
from podsim.report.report import Report
from podsim.report.table import Block, Cell, Cells, Passage, Table

WIDTH: Final = 100
"""Width of a text without a terminal. [columns]"""
_GAP: Final = "  "
_LEAST: Final = 8
"""Smallest width of text columns before columns of numbers become narrower."""
_IN_ASCII: Final = str.maketrans("─│┤└·×–", "-||+.x-")
_WORD: Final = re.compile(r"@?[^ @]+ ?| ")
_Line = list[tuple[str, str]]
"""A line as (text, style) pairs."""


class PlainConsole(Console):
    """Console that removes control characters, interprets no markup, and raises if its reader has closed the pipe."""

    def __init__(self) -> None:
        """Open a console on standard output."""
        super().__init__(markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the printed segments; removed characters have no width, so that columns stay aligned."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escaped.terminal(segment.text), segment.style)

    def on_broken_pipe(self) -> NoReturn:
        """Pass the error on instead of ending the process."""
        raise BrokenPipeError


class Printed:
    """A block for a Rich console: in the console's width, in colours, and in ASCII if the console needs it."""

    __slots__ = ("block",)

    def __init__(self, block: Block) -> None:
        self.block = block

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        for line in _lines(self.block, options.max_width):
            shown = [(text.translate(_IN_ASCII) if options.ascii_only else text, style) for text, style in line]
            yield Text.assemble(*shown, no_wrap=True, overflow="ignore")


def _answer_blocks(report: Report) -> Iterator[Block]:
    """Yield the heading of a report, then its short answer with an empty line before each table."""
    yield from report.heading()
    for block in report.short():
        yield from (Passage(""), block)


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the short answer of a report, by default on standard output."""
    target = console or PlainConsole()
    for block in _answer_blocks(report):
        target.print(Printed(block))


def report_as_text(report: Report, width: int = WIDTH) -> str:
    """Return the short answer of a report as plain text of at most `width` columns."""
    return "".join(to_text(block, width) for block in _answer_blocks(report))


def to_text(block: Block, width: int = WIDTH) -> str:
    """Return a table or a passage as plain text of at most `width` columns."""
    return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in _lines(block, width))


def _lines(block: Block, width: int) -> Iterator[_Line]:
    if block.title:
        yield from ([(line, "bold")] for line in _wrapped(block.title, width))
    if isinstance(block, Passage):
        yield from ([(line, block.style)] for text in block.text.split("\n") for line in _wrapped(text, width))
        return
    widths = _widths(block, width)
    if block.has_heads:
        heads = [_wrapped(column.head, width) for column, width in zip(block.columns, widths, strict=True)]
        tallest = max(map(len, heads))
        bottom_aligned = ["\n" * (tallest - len(head)) + "\n".join(head) for head in heads]
        yield from _row_lines(bottom_aligned, block, widths, [""] * len(heads))
        yield [("─" * (sum(widths) + len(_GAP) * (len(widths) - 1)), "")]
    for number, row in enumerate(block.rows):
        if len(row) < len(widths):
            yield [(f"{row[0]}:", "bold")]
            continue
        chosen = "bold " * (number == block.chosen)
        cell_styles = (cell.style if isinstance(cell, Cell) else "" for cell in row)
        styles = [
            f"{chosen}{own or column.style}".strip() for own, column in zip(cell_styles, block.columns, strict=True)
        ]
        yield from _row_lines(row, block, widths, styles)
    for note in block.notes:
        yield from ([(line, "dim")] for line in _wrapped(note, width))


def _row_lines(row: Cells, table: Table, widths: Sequence[int], styles: Sequence[str]) -> Iterator[_Line]:
    """Yield the lines of a row with its cells side by side."""
    folded = [_wrapped(str(cell), width) for cell, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*folded, fillvalue=""):
        line: _Line = []
        for text, column, width, style in zip(parts, table.columns, widths, styles, strict=True):
            room = " " * (width - cell_len(text))
            line += [(room + text if column.is_number else text + room, style), (_GAP, "")]
        while line and not line[-1][0].strip():
            line.pop()
        yield [*line[:-1], *((text.rstrip(), style) for text, style in line[-1:])]


def _widths(table: Table, width: int) -> list[int]:
    """Return the width of each column; if needed, columns of text become narrower, then heads, then numbers."""
    rows = [row for row in table.rows if len(row) == len(table.columns)]
    body = [max((_text_width(str(row[place])) for row in rows), default=0) for place in range(len(table.columns))]
    head = [_text_width(column.head) for column in table.columns]
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


def _text_width(text: str) -> int:
    return max(map(cell_len, escaped.terminal(text).split("\n")))


def _wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a text that is wrapped after spaces and before `@`.

    >>> _wrapped("GCP-028: vit_base_pod16@bow", 24)
    ['GCP-028: vit_base_pod16', '@bow']
    """
    lines = []
    for paragraph in escaped.terminal(text).split("\n"):
        if cell_len(paragraph) <= width:
            lines.append(paragraph)
            continue
        line = ""
        for word in _WORD.findall(paragraph):
            if line and cell_len(line + word.rstrip()) > width:
                lines.append(line.rstrip())
                line = ""
            line += word
            if cell_len(line.rstrip()) > width:
                *whole, line = chop_cells(line.rstrip(), width)
                lines += whole
        lines.append(line.rstrip())
    return lines
