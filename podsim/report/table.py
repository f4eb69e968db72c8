"""A table as data: typed columns and rows of cells, made once by what it is about and shown by `podsim.show`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


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


@dataclass(frozen=True, slots=True)
class Table:
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
class Passage:
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
