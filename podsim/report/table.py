"""A table as data: typed columns and rows of cells, made once by what it is about and shown by `podsim.show`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; its style is that of its cells in a terminal, as Rich names it."""

    head: str
    is_number: bool = False
    """Whether it is aligned to the right, and kept on one line as long as there is room."""
    style: str = ""
    unit: str = ""
    """Of the numbers behind its cells, where they are not written in that of the head."""
    whole: bool = False
    """Whether its cells stay on one line as long as there is room, as numbers do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell that is more than text: the number behind it in SI units, for programs, or a style as Rich names it."""

    text: str
    value: float | None = None
    style: str = ""

    def __str__(self) -> str:
        return self.text


Cells = Sequence[str | Cell]
"""A row: a cell for each column; or a single one, which is a heading over those that follow."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with notes below it; heads are left out if all are empty."""

    columns: Sequence[Column]
    rows: Sequence[Cells]
    title: str = ""
    notes: Sequence[str] = ()
    chosen: int | None = None
    """Number of the row that stands out."""
    headings: str = "group"
    """What headings over rows are, the name of their column in CSV."""

    @property
    def has_heads(self) -> bool:
        """True if any column has a head."""
        return any(column.head for column in self.columns)


@dataclass(frozen=True, slots=True)
class Passage:
    """Lines of text below a title, which are shown as they are, in a style as Rich names it."""

    text: str
    title: str = ""
    style: str = ""


Block = Table | Passage


def columns(*heads: str) -> tuple[Column, ...]:
    """Columns by their heads; one that begins with `>` holds numbers.

    >>> [(column.head, column.is_number) for column in columns("kind", ">share")]
    [('kind', False), ('share', True)]
    """
    return tuple(Column(head.removeprefix(">"), head.startswith(">")) for head in heads)
