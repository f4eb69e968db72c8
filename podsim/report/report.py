"""An answer as data: a verdict, headline figures, and sections of text, tables and charts.

Each kind of answer builds its report in its own module. `podsim.show` renders any report as text, Markdown, a page or
charts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from podsim.escaped import line
from podsim.report.chart import Chart, Sheet
from podsim.report.table import Block, Column, Passage, Table


@dataclass(frozen=True, slots=True)
class Tile:
    """A headline figure with its unit and notes, such as the measured value."""

    label: str
    value: str
    notes: tuple[str, ...] = ()
    range: str = ""
    """Prediction interval, such as `80 %: 3.1 to 3.3`; empty if unknown."""
    key: str = ""
    """Key of the metric; empty if the tile shows something else."""


def headline_table(tiles: Iterable[Tile], *notes: str) -> Table:
    """Return the headline figures as a table: each with its range, and its notes below it."""
    rows = [(tile.label, "\n".join((with_range(tile.value, tile.range), *tile.notes))) for tile in tiles]
    return Table((Column("", style="bold"), Column("")), rows, notes=notes)


def with_range(value: str, interval: str) -> str:
    """Return a figure followed by its prediction interval in brackets; without one, the figure alone."""
    return f"{value}  ({interval})" if interval else value


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that a page shows after a click on their title; text and Markdown leave them out."""

    title: str
    blocks: Sequence[Part]


Part = str | Passage | Table | Chart | Folded
"""A block of a section: a paragraph, preformatted lines, a table, a chart or folded blocks."""


class Topic(Enum):
    """Questions that the sections of a result answer."""

    REQUESTS = "latency of requests"
    TIME = "breakdown of the time"
    MEMORY = "content of the memories"
    INPUTS = "inputs that are neither published nor measured"
    TIMELINE = "timeline"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report. A page shows its title; text shows the titles of its tables instead."""

    title: str
    blocks: Sequence[Part]
    topic: Topic | None = None
    """Question that it answers, for readers that show only some sections."""
    short: bool = False
    """True if terminal, Markdown and notebook show the section; they show the numbers of its charts."""
    plotted: bool = False
    """True if `--plot` draws its charts, side by side."""
    paged: bool = True
    """True if a page shows the section; False for a headline table, which a page replaces by tiles."""


@dataclass(frozen=True, slots=True)
class Report:
    """An answer as data: a verdict, headline figures, and sections of text, tables and charts."""

    title: str
    about: Sequence[str]
    """Lines under the title: what was simulated, and where it comes from."""
    version: str
    """Version of podsim that computed the result."""
    inputs: Sequence[tuple[str, str]]
    """(path, SHA-256) of every file read."""
    verdict: Sequence[str] = ()
    """The answer in a sentence or a few."""
    warnings: Sequence[str] = ()
    """Reasons to distrust the numbers."""
    notes: Sequence[str] = ()
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = ()
    caption: str = ""
    """Title of the sheet of charts; `title` if empty."""

    def lead(self) -> Iterator[tuple[str, str, str]]:
        """Yield the verdict, warnings and notes as (kind, text, style in a terminal)."""
        for kind, texts, style in (
            ("verdict", self.verdict, "bold"),
            ("warning", self.warnings, "yellow"),
            ("note", self.notes, "dim"),
        ):
            yield from ((kind, text, style) for text in texts)

    def heading(self) -> Iterator[Passage]:
        """Yield the title with the lines about the run, then the verdict, warnings and notes."""
        yield Passage("\n".join(map(line, self.about)), line(self.title), "dim")
        yield from (Passage(line(f"{kind}: {text}"), style=style) for kind, text, style in self.lead())

    def short(self) -> Iterator[Block]:
        """Yield the tables and passages of the short answer; a chart is replaced by the table of its numbers."""
        for part in (part for section in self.sections if section.short for part in section.blocks):
            match part:
                case str():
                    yield Passage(part)
                case Passage() | Table():
                    yield part
                case Chart(numbers=Table() as numbers):
                    yield replace(numbers, title=numbers.title or part.title)

    def sheet(self) -> Sheet:
        """Return the charts that `--plot` draws; the sheet has no rows if there are none."""
        rows = [
            [part for part in section.blocks if isinstance(part, Chart)] for section in self.sections if section.plotted
        ]
        lines = [f"{kind}: {text}" for kind, text, _ in self.lead() if kind != "note"]
        return Sheet(self.caption or self.title, [row for row in rows if row], self.about, lines, self.inputs)
