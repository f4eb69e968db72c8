"""The parts of pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from podsim.show.table import Passage, Table

Spec = dict[str, Any]
"""A chart in the language of Vega-Lite."""


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
class Swatch:
    """An entry of a legend.

    Attributes:
        fill: What it is drawn with, a colour or `url(#pattern)`.
        text: What that means.
    """

    fill: str
    text: str


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a timeline to look at.

    Attributes:
        title: Name of the button that shows it.
        start: Where it begins, in the unit of the axis.
        end: Where it ends.
    """

    title: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with its numbers.

    Attributes:
        title: What it shows.
        description: The same in a sentence or two, for those who do not see it.
        spec: How it is drawn.
        legend: What its fills mean.
        numbers: What it shows as a table.
        notes: Lines below it.
        stretches: Parts to zoom to, the first all of it; a chart without any has no zoom.
        choices: Columns of which one is shown: its field by its label; none if there is nothing to choose.
    """

    title: str
    description: str
    spec: Spec
    legend: Sequence[Swatch] = ()
    numbers: Table | None = None
    notes: Sequence[str] = ()
    stretches: Sequence[Stretch] = ()
    choices: Mapping[str, str] = field(default_factory=dict)


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


def in_title(words: str) -> str:
    """Words as they begin a line; only the first letter changes.

    >>> in_title("time to train of IPUs")
    'Time to train of IPUs'
    """
    return words[:1].upper() + words[1:]
