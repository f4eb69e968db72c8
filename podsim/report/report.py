"""An answer as data: a sentence, the figures that matter most, and sections of text, tables and charts.

One module an answer builds its report, next to what it answers; `podsim.show` turns it into text, Markdown, a page and
charts without knowing what it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from podsim.harmless import line
from podsim.report.chart import Chart, Sheet
from podsim.report.table import Block, Column, Passage, Table


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that matters most.

    Attributes:
        label: What it is.
        value: The number with its unit.
        notes: What belongs to it, such as what was measured.
        range: What it may be, such as `80 %: 3.1 to 3.3`; empty if that is not known.
        key: Of the figure, where it is one.
    """

    label: str
    value: str
    notes: tuple[str, ...] = ()
    range: str = ""
    key: str = ""


def headline_table(tiles: Iterable[Tile], *notes: str) -> Table:
    """The same in text: each with its range, and its notes below it."""
    rows = [(each.label, "\n".join((beside(each.value, each.range), *each.notes))) for each in tiles]
    return Table((Column("", style="bold"), Column("")), rows, notes=notes)


def beside(value: str, known: str) -> str:
    """A figure with its range, if that is known."""
    return f"{value}  ({known})" if known else value


@dataclass(frozen=True, slots=True)
class Folded:
    """Parts that are shown when a reader of a page asks for them, and nowhere else.

    Attributes:
        title: What it holds.
        blocks: What is inside.
    """

    title: str
    blocks: Sequence[Part]


Part = str | Passage | Table | Chart | Folded
"""A paragraph, lines as they are, a table, a chart, or what is folded away."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a report with a heading.

    Attributes:
        title: The heading on a page; in text each table brings its own.
        blocks: What is below it.
        short: Whether it belongs to the short answer, which a terminal, Markdown and a notebook show; there a chart is
            the table of its numbers.
        plotted: Whether its charts are drawn by `--plot`, side by side.
        paged: Whether a page shows it, which shows tiles instead of a headline.
    """

    title: str
    blocks: Sequence[Part]
    short: bool = False
    plotted: bool = False
    paged: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """An answer as data.

    Attributes:
        title: What it is about.
        about: Lines under the title: what was simulated, and where it comes from.
        version: Version of podsim that made what it shows.
        inputs: (path, SHA-256) of every file it stands on.
        verdict: What a reader must know first.
        warnings: What a reader must know before using the numbers.
        notes: What else a reader may want to know.
        tiles: The numbers that matter most, on a page.
        sections: Its parts.
        caption: What its charts say, above them; the title if left out.
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
    caption: str = ""

    def heading(self) -> Iterator[Passage]:
        """The title, what it is about, what a reader must know first, warnings and notes."""
        yield Passage("\n".join(map(line, self.about)), line(self.title), "dim")
        yield from (Passage(line(f"verdict: {each}"), style="bold") for each in self.verdict)
        yield from (Passage(line(f"warning: {each}"), style="yellow") for each in self.warnings)
        yield from (Passage(line(f"note: {each}"), style="dim") for each in self.notes)

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
        """The charts of `--plot`; without rows where there are none."""
        rows = [
            [part for part in section.blocks if isinstance(part, Chart)] for section in self.sections if section.plotted
        ]
        told = [*(f"verdict: {each}" for each in self.verdict), *(f"warning: {each}" for each in self.warnings)]
        return Sheet(self.caption or self.title, [row for row in rows if row], self.about, told, self.inputs)
