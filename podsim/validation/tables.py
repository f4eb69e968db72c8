"""Tables as text: for a terminal of 100 columns, and in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

Cells = Sequence[Sequence[str]]
"""A header, then rows; a row of one cell is a heading over those that follow."""
WIDTH = 100
"""Columns of a terminal that a table stays within."""
_GAP = "  "
_NUMBER = re.compile(r"[-+]?[\d,.]+(e[-+]\d+)?%?")
_PIECE = re.compile(r"@?[^ @]+ ?| ")


def plain(cells: Cells) -> str:
    """A table for a terminal; what is too long for its column goes on below."""
    widths = _widths([row for row in cells if len(row) > 1])
    lines = [line for row in cells for line in _lines(row, widths)]
    lines.insert(1, _GAP.join("-" * width for width in widths))
    return "\n".join(lines) + "\n"


def markdown(cells: Cells) -> str:
    """A table in Markdown; headings over rows become cells in bold."""
    columns = len(cells[0])
    lines = ["| " + " | ".join(_full(row, columns)) + " |" for row in cells]
    lines.insert(1, "|" + "---|" * columns)
    return "\n".join(lines) + "\n"


def figure(value: float) -> str:
    """A figure with four digits that count, or all of those before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _full(row: Sequence[str], columns: int) -> Sequence[str]:
    return row if len(row) > 1 else [f"**{row[0]}**", *[""] * (columns - 1)]


def _widths(rows: Cells) -> list[int]:
    """Width that each column needs; the widest gives way if they are too many together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - WIDTH
    while excess > 0:
        widest = widths.index(max(widths))
        widths[widest] -= 1
        excess -= 1
    return widths


def _lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    if len(row) == 1:
        yield f"{row[0]}:"
        return
    folded = [_folded(cell, width) for cell, width in zip(row, widths, strict=True)]
    for parts in zip_longest(*folded, fillvalue=""):
        yield _GAP.join(_placed(part, width) for part, width in zip(parts, widths, strict=True)).rstrip()


def _placed(text: str, width: int) -> str:
    return text.rjust(width) if _NUMBER.fullmatch(text) else text.ljust(width)


def _folded(cell: str, width: int) -> list[str]:
    """The cell in lines that fit, broken behind spaces and in front of `@`.

    >>> _folded("GCP-028: vit_base_pod16@bow", 24)
    ['GCP-028: vit_base_pod16', '@bow']
    """
    lines = [""]
    for piece in _PIECE.findall(cell):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line.rstrip() for line in lines]
