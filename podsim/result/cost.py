"""Answers of `podsim cost`: a title, a few facts, and what the time is made of."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from podsim._version import __version__
from podsim.draws import SHARE
from podsim.report.report import Report, Section
from podsim.report.table import Cell, Cells, Table, columns
from podsim.result.evidence import Z
from podsim.show.answers import Answered


class Cost(Answered):
    """What one operation, transfer or collective costs, with nothing else on the machine."""

    __slots__ = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of its range."""
        return ()

    @abstractmethod
    def _title(self) -> str: ...

    @abstractmethod
    def _facts(self) -> Iterable[tuple[str, str]]:
        """What is known, by what it is; the time first."""

    @abstractmethod
    def _parts(self) -> Table:
        """What the time is made of."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """What `--json` prints."""

    def to_json(self) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=2)

    def to_text(self) -> str:
        """The same as `text`."""
        return self.text()

    def report(self) -> Report:
        """What is known of it, and what its time is made of."""
        tables = [Table(columns("", ""), list(self._facts())), self._parts()]
        about = [f"podsim {__version__}"]
        sections = [Section("Cost", tables, short=True)]
        return Report(self._title(), about, __version__, (), notes=self.notes, sections=sections)

    def _told(self) -> Iterable[str]:
        return self._title(), *(f"{name} {said}" for name, said in list(self._facts())[:1])

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return [{key: value for key, value in self.to_dict().items() if not isinstance(value, (dict, list))}]


def spread(value: float, sigma: float) -> tuple[float, float]:
    """Ends of the range of a time or a rate, in its unit.

    Args:
        value: What is predicted.
        sigma: Standard deviation of the logarithm of predicted over measured time.
    """
    factor = math.exp(Z * sigma)
    return value / factor, value * factor


def ranges_of(sigma: float, **values: float) -> dict[str, Any]:
    """Ranges as JSON has them, by figure."""
    ends = {name: dict(zip(("low", "high"), spread(value, sigma), strict=True)) for name, value in values.items()}
    return {"share": SHARE, **ends}


def ranged(value: float, sigma: float, digits: Callable[[float], str], unit: str, shown: str = "") -> str:
    """A figure with its range, in a unit."""
    low, high = spread(value, sigma)
    return f"{digits(value)} {unit}{shown} ({SHARE:.0%}: {digits(low)} to {digits(high)} {unit})".replace("%:", " %:")


def cycles_by_kind(parts: Iterable[tuple[str, float]]) -> Table:
    """Tile cycles by kind, and their shares."""
    known = dict(parts)
    whole = sum(known.values())
    rows: list[Cells] = [
        (kind, Cell(f"{cycles:,.0f}", cycles), Cell(f"{cycles / whole:.0%}", cycles / whole))
        for kind, cycles in known.items()
    ]
    return Table(columns("kind", ">cycles", ">share"), rows)
