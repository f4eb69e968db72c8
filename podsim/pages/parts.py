"""The parts of pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from podsim.show.chart import Chart
from podsim.show.table import Passage, Table


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that matters most.

    Attributes:
        label: What it is.
        value: The number with its unit.
        notes: What belongs to it, such as a range or what was measured.
    """

    label: str
    value: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are shown when a reader asks for them.

    Attributes:
        title: What it holds.
        blocks: What is inside.
    """

    title: str
    blocks: Sequence[Block]


Block = str | Passage | Table | Chart | Folded
"""A paragraph, lines as they are, a table, a chart, or what is folded away."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page with a heading.

    Attributes:
        title: The heading.
        blocks: What is below it.
    """

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True, slots=True)
class Page:
    """A page.

    Attributes:
        title: What it is about.
        about: Lines under the title: what was simulated, and where it comes from.
        verdict: What a reader must know first.
        warnings: What a reader must know before using the numbers.
        notes: What else a reader may want to know.
        tiles: The numbers that matter most.
        sections: Its parts.
        version: Version of podsim that made what it shows.
        inputs: (path, SHA-256) of every file it stands on.
    """

    title: str
    about: Sequence[str]
    version: str
    inputs: Sequence[tuple[str, str]]
    verdict: Sequence[str] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = ()
