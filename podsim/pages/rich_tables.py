"""Tables of the terminal as tables of a page, so that both say the same."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from podsim.pages.parts import Block
from podsim.show.chart import Grid


def blocks_of(renderable: RenderableType | None) -> Iterator[Block]:
    """Tables and lines in the order in which a terminal shows them; a line above a table is its title."""
    title = ""
    for part in _parts(renderable):
        if isinstance(part, Table):
            yield _grid(part, title)
            title = ""
        else:
            if title:
                yield title
            title = part
    if title:
        yield title


def _parts(renderable: RenderableType | None) -> Iterator[Table | str]:
    match renderable:
        case Table():
            yield renderable
        case Group():
            for each in renderable.renderables:
                yield from _parts(each)
        case Text():
            yield renderable.plain
        case str():
            yield renderable


def _grid(table: Table, title: str) -> Grid:
    headers = [f"{'>' * (column.justify == 'right')}{_text(column.header)}" for column in table.columns]
    columns = [[_text(cell) for cell in column.cells] for column in table.columns]
    return Grid(headers, list(zip(*columns, strict=True)), title)


def _text(cell: RenderableType) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
