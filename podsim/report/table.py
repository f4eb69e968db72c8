"""A table as data: columns and rows of cells, which `podsim.show` renders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    head: str
    is_number: bool = False
    """True if cells are aligned to the right, and not wrapped as long as there is room."""
    style: str = ""
    """Style of the cells in a terminal, in Rich's syntax."""
    unit: str = ""
    """Unit of `Cell.value`, if it differs from the unit in the head."""
    whole: bool = False
    """True if cells of text are not wrapped as long as there is room."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with more than its text."""

    text: str
    value: float | None = None
    """The unformatted number, in the SI unit or the unit of the column; programs read it."""
    style: str = ""
    """Style in a terminal, in Rich's syntax."""

    def __str__(self) -> str:
        return self.text


Cells = Sequence[str | Cell]
"""A row: a cell for each column, or a single cell, which is a heading over the following rows."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with notes below it; without any head, it has no head row."""

    columns: Sequence[Column]
    rows: Sequence[Cells]
    title: str = ""
    notes: Sequence[str] = ()
    chosen: int | None = None
    """Index of the highlighted row."""
    headings: str = "group"
    """Name of the CSV column that holds the headings over rows."""

    @property
    def has_heads(self) -> bool:
        """True if any column has a head."""
        return any(column.head for column in self.columns)


@dataclass(frozen=True, slots=True)
class Passage:
    """Preformatted lines of text below a title."""

    text: str
    title: str = ""
    style: str = ""
    """Style of the text in a terminal, in Rich's syntax."""


Block = Table | Passage


def columns(*heads: str) -> tuple[Column, ...]:
    """Return a column for each head; a head that begins with `>` is a column of numbers.

    >>> [(column.head, column.is_number) for column in columns("kind", ">share")]
    [('kind', False), ('share', True)]
    """
    return tuple(Column(head.removeprefix(">"), head.startswith(">")) for head in heads)
