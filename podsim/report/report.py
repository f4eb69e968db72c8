"""An answer as data: a sentence, the figures that matter most, and sections of text, tables and charts.

One module an answer builds its report, next to what it answers; `podsim.show` turns it into text, Markdown, a page and
charts without knowing what it is about.
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
    """A number that matters most, with its unit, and what belongs to it, such as what was measured."""

    label: str
    value: str
    notes: tuple[str, ...] = ()
    range: str = ""
    """What it may be, such as `80 %: 3.1 to 3.3`; empty if that is not known."""
    key: str = ""
    """Of the figure, where it is one."""


def headline_table(tiles: Iterable[Tile], *notes: str) -> Table:
    """Return the headline figures as a table: each with its range, and its notes below it."""
    rows = [(tile.label, "\n".join((with_range(tile.value, tile.range), *tile.notes))) for tile in tiles]
    return Table((Column("", style="bold"), Column("")), rows, notes=notes)


def with_range(value: str, known: str) -> str:
    """Return a figure with its range, if that is known."""
    return f"{value}  ({known})" if known else value


@dataclass(frozen=True, slots=True)
class Folded:
    """Parts that are shown when a reader of a page asks for them, and nowhere else."""

    title: str
    blocks: Sequence[Part]


Part = str | Passage | Table | Chart | Folded
"""A paragraph, lines as they are, a table, a chart, or what is folded away."""


class Topic(Enum):
    """Questions that the sections of a result answer."""

    REQUESTS = "latency of requests"
    TIME = "breakdown of the time"
    MEMORY = "content of the memories"
    INPUTS = "inputs that are neither published nor measured"
    TIMELINE = "timeline"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with a heading on a page; in text each table brings its own."""

    title: str
    blocks: Sequence[Part]
    topic: Topic | None = None
    """Question that it answers, for readers that show only some sections."""
    short: bool = False
    """Whether it belongs to the short answer of a terminal, Markdown and a notebook, where a chart is its numbers."""
    plotted: bool = False
    """Whether its charts are drawn by `--plot`, side by side."""
    paged: bool = True
    """Whether a page shows it, which shows tiles instead of a headline."""


@dataclass(frozen=True, slots=True)
class Report:
    """An answer as data."""

    title: str
    about: Sequence[str]
    """Lines under the title: what was simulated, and where it comes from."""
    version: str
    """Of the podsim that made what it shows."""
    inputs: Sequence[tuple[str, str]]
    """(path, SHA-256) of every file it stands on."""
    verdict: Sequence[str] = ()
    """What a reader must know first."""
    warnings: Sequence[str] = ()
    """What a reader must know before using the numbers."""
    notes: Sequence[str] = ()
    tiles: Sequence[Tile] = ()
    sections: Sequence[Section] = ()
    caption: str = ""
    """What its charts say, above them; the title if left out."""

    def lead(self) -> Iterator[tuple[str, str, str]]:
        """Yield the lines a reader must see first: kind, text, and style in a terminal."""
        for kind, texts, style in (
            ("verdict", self.verdict, "bold"),
            ("warning", self.warnings, "yellow"),
            ("note", self.notes, "dim"),
        ):
            yield from ((kind, text, style) for text in texts)

    def heading(self) -> Iterator[Passage]:
        """Yield the title, the subject, the verdict, warnings and notes."""
        yield Passage("\n".join(map(line, self.about)), line(self.title), "dim")
        yield from (Passage(line(f"{kind}: {text}"), style=style) for kind, text, style in self.lead())

    def short(self) -> Iterator[Block]:
        """Tables and passages of the short answer."""
        for part in (part for section in self.sections if section.short for part in section.blocks):
            match part:
                case str():
                    yield Passage(part)
                case Passage() | Table():
                    yield part
                case Chart(numbers=Table() as numbers):
                    yield replace(numbers, title=numbers.title or part.title)

    def sheet(self) -> Sheet:
        """Return the charts of `--plot`; a sheet without rows if there are none."""
        rows = [
            [part for part in section.blocks if isinstance(part, Chart)] for section in self.sections if section.plotted
        ]
        told = [f"{kind}: {text}" for kind, text, _ in self.lead() if kind != "note"]
        return Sheet(self.caption or self.title, [row for row in rows if row], self.about, told, self.inputs)
