"""What one thing alone costs, as `podsim cost` tells it: its time and rate with their ranges, then its parts."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from podsim._version import __version__
from podsim.draws import SHARE
from podsim.format import format_duration_s, format_ends, format_percent, format_significant
from podsim.metrics import UPDATE, metric_of
from podsim.report.report import Report, Section, Tile, headline_table
from podsim.report.table import Cell, Table, columns
from podsim.result.ranges import NORMAL_P90
from podsim.show.answers import Answered

_DIGITS = 4


class Costed(Answered):
    """One thing alone: a class of them says its title, what it took, its time, figures and parts."""

    __slots__ = ()

    @abstractmethod
    def heading(self) -> str:
        """What it is."""

    @property
    @abstractmethod
    def time_s(self) -> float:
        """From its start to its end. [s]"""

    @property
    @abstractmethod
    def factor(self) -> float:
        """How far its time may be off either way, in the middle 80 % of cases."""

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """What `--json` prints."""

    @abstractmethod
    def where(self) -> str:
        """What runs it."""

    @abstractmethod
    def figures(self) -> Iterable[Tile]:
        """What is known of it beside its time."""

    @abstractmethod
    def parts(self) -> Table:
        """What its time is made of."""

    @property
    def ends_s(self) -> tuple[float, float]:
        """The middle 80 % of what its time may be. [s]"""
        return self.ends_of(self.time_s)

    def ends_of(self, value: float) -> tuple[float, float]:
        """The middle 80 % of what a time, or a rate, may be."""
        return value / self.factor, value * self.factor

    def ranges(self, **values: float) -> dict[str, object]:
        """Ranges of figures, as `--json` prints them."""
        ends = {name: dict(zip(("low", "high"), self.ends_of(value), strict=True)) for name, value in values.items()}
        return {"share": SHARE, **ends}

    def figure(self, label: str, value: float, unit: str, *notes: str) -> Tile:
        """A figure with its range, which has the same unit."""
        ends = " to ".join(map(format_significant, self.ends_of(value)))
        told = f"{format_significant(value, _DIGITS)} {unit}"
        return Tile(label, told, notes, f"{format_percent(SHARE, 0)}: {ends}")

    def report(self) -> Report:
        """Its time with its range, what else is known, and its parts."""
        metric, told = metric_of(UPDATE), format_duration_s(self.time_s, _DIGITS)
        known = f"{format_percent(SHARE, 0)}: {format_ends(metric, self.time_s, *self.ends_s)}"
        tiles = [Tile("Time", told, (), known), *self.figures()]
        sections = [
            Section("Headline", [headline_table(tiles)], short=True, paged=False),
            Section("Where time goes", [self.parts()], short=True),
        ]
        return Report(self.heading(), [self.where()], __version__, (), tiles=tiles, sections=sections)

    def to_text(self) -> str:
        """What `podsim cost` prints."""
        return self.text()

    def _told(self) -> Iterable[str]:
        return self.heading(), self.where(), f"time {format_duration_s(self.time_s, _DIGITS)}"

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return [{name: value for name, value in self.to_dict().items() if not isinstance(value, dict | list)}]


def off_by(sigma: float) -> float:
    """How far a time may be off in the middle 80 % of cases, from the standard deviation of its logarithm."""
    return math.exp(NORMAL_P90 * sigma)


def cycles_by_kind(parts: Iterable[tuple[str, float]], cycles: float) -> Table:
    """Tile cycles by kind."""
    rows = [
        (kind, Cell(f"{each:,.0f}", each), Cell(format_percent(each / cycles), each / cycles)) for kind, each in parts
    ]
    return Table(columns("kind", ">cycles", ">share"), rows)
