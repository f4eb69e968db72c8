"""`podsim.compare`: two results or more, each beside the first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Final

from podsim._version import __version__
from podsim.draws import Draws
from podsim.errors import PodsimError
from podsim.format import format_error
from podsim.many.compare.difference import Difference, Row, Waterfall, difference
from podsim.many.compare.sides import Side, side
from podsim.many.compare.subject import Subject
from podsim.metrics import PER_SECOND, SHARE
from podsim.report.chart import Sheet
from podsim.result.base import plain
from podsim.show.answers import Answered
from podsim.watch import Watch, watched

SCHEMA_VERSION: Final = 1
"""Of the JSON of comparisons."""
_UNITS: Final = {PER_SECOND: "/s", SHARE: "share"}
"""Units that the JSON of comparisons spells in its own way."""
_COLUMNS: Final = ("metric", "unit", "a", "b", "change", "verdict", "within_ranges")
"""What a frame holds of the JSON of a row."""
_MOST_TOLD: Final = 3


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Answered):
    """Two results or more, each beside the first.

    Attributes:
        subjects: The results; the first is what the others are compared with.
        differences: The first beside each of the others.
    """

    subjects: tuple[Subject, ...]
    differences: tuple[Difference, ...]

    @property
    def is_worse(self) -> bool:
        """True if a metric of any of them is worse than that of the first, beyond their ranges."""
        return any(each.worse for each in self.differences)

    @property
    def inputs(self) -> tuple[tuple[str, str], ...]:
        """(path, SHA-256) of every file that a side stands on."""
        return tuple(dict.fromkeys(each for subject in self.subjects for each in subject.files))

    def lettered(self) -> Iterator[tuple[str, Difference]]:
        """The differences, each with the letter of its other side."""
        return zip(ascii_uppercase[1:], self.differences, strict=False)

    def to_dict(self) -> dict[str, object]:
        """Plain types only: every row, those too that are the same."""
        return {
            "version": __version__,
            "schema_version": SCHEMA_VERSION,
            "activity": self.subjects[0].activity,
            "sides": [_side(*each) for each in zip(ascii_uppercase, self.subjects, strict=False)],
            "differences": [_difference(letter, each) for letter, each in self.lettered()],
        }

    def to_json(self) -> str:
        """The comparison as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def text(self, *, unchanged: bool = False, precision: int = 4) -> str:
        """The comparison for a terminal of 100 columns.

        Args:
            unchanged: Show what is the same as well.
            precision: Significant digits.
        """
        from podsim.many.compare.show import as_text

        return as_text(self, unchanged=unchanged, precision=precision)

    def markdown(self, *, unchanged: bool = False, precision: int = 4) -> str:
        """The comparison in Markdown; arguments as of `text`."""
        from podsim.many.compare.show import as_markdown

        return as_markdown(self, unchanged=unchanged, precision=precision)

    def _repr_html_(self) -> str:
        """The comparison, for notebooks."""
        from podsim.many.compare.show import as_html

        return as_html(self)

    def _told(self) -> Iterator[str]:
        yield f"{' and '.join(each.label for each in self.subjects[1:])} against {self.subjects[0].label}"
        for letter, each in list(self.lettered())[:_MOST_TOLD]:
            row = each.rows[0]
            change = "the same" if not row.change else format_error(row.change)
            yield f"{letter}: {row.metric.figure.words} {change}; metrics that are worse: {len(each.worse)}"

    def _sheet(self) -> Sheet:
        from podsim.many.compare.plot import comparison_sheet

        return comparison_sheet(self)

    def _records(self) -> Sequence[Mapping[str, object]]:
        """A row for each metric of each side but the first, in its own unit."""
        return [
            {"side": letter, "label": other.label} | {key: found for key, found in _row(row).items() if key in _COLUMNS}
            for (letter, each), other in zip(self.lettered(), self.subjects[1:], strict=True)
            for row in each.rows
        ]

    def _units(self) -> Mapping[str, str]:
        """Of what has the same unit in all rows; of the others the column `unit` tells."""
        return {"change": SHARE}


def compare(*sides: Side, uncertainty: Draws | None = None, watch: Watch = watched) -> Comparison:
    """Compare results: the metrics that changed and why, time by kind, and what differs in the inputs.

    Args:
        sides: Two or more: scenarios by path or name, `NAME@VARIANT`, `NAME@REVISION` of a git repository, files that
            `podsim run --format json` wrote, mappings, loaded scenarios, or results.
        uncertainty: How often runs of scenarios are repeated with their uncertain inputs drawn from their ranges.
        watch: Passes on the names of the steps in which scenarios are simulated.

    Raises:
        PodsimError: One of them cannot be read or simulated, or they are of different activities.
    """
    if not 2 <= len(sides) <= len(ascii_uppercase):
        what = f"a comparison has two sides or more, not {len(sides)}"
        raise PodsimError(what, do=f"give from 2 to {len(ascii_uppercase)}, the one to compare with first")
    subjects = tuple(side(*each, uncertainty, watch) for each in zip(sides, ascii_uppercase, strict=False))
    return Comparison(subjects, tuple(difference(subjects[0], other) for other in subjects[1:]))


def _side(letter: str, subject: Subject) -> dict[str, object]:
    return {
        "side": letter,
        "label": subject.label,
        "taken_for": subject.taken,
        "simulated": subject.machine,
        "version": subject.version,
        "ranges": {name: {"low": low, "high": high} for name, (low, high) in subject.sure.items()},
        "warnings": list(subject.warnings),
        "notes": list(subject.notes),
        "inputs": [{"path": path, "sha256": digest} for path, digest in subject.files],
    }


def _difference(letter: str, found: Difference) -> dict[str, object]:
    return {
        "a": "A",
        "b": letter,
        "worse": [row.metric.name for row in found.worse],
        "metrics": [plain(_row(row)) for row in found.rows],
        "waterfalls": [_waterfall(each) for each in found.waterfalls],
        "inputs": [plain(each) for each in found.inputs],
        "notes": list(found.notes),
    }


def _row(row: Row) -> dict[str, object]:
    return {
        "metric": row.metric.name,
        "label": row.metric.figure.label,
        "unit": _UNITS.get(row.metric.figure.unit, row.metric.figure.unit),
        "a": row.a,
        "b": row.b,
        "change": row.change,
        "verdict": row.verdict,
        "within_ranges": row.within_ranges if row.ranged else None,
        "a_range": row.a_range,
        "b_range": row.b_range,
        "why": row.cause,
    }


def _waterfall(each: Waterfall) -> dict[str, object]:
    steps = [{"kind": s.kind, "a_ps": s.a_ps, "b_ps": s.b_ps, "change_ps": s.change_ps} for s in each.steps]
    return {"span": each.span, "a_ps": each.a_ps, "b_ps": each.b_ps, "steps": steps}
