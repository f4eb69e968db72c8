"""`podsim.compare`: two results or more, each beside the first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from string import ascii_uppercase
from typing import Final

from podsim._version import __version__
from podsim.draws import Draws
from podsim.errors import PodsimError
from podsim.metrics import PER_SECOND, SHARE
from podsim.report.report import Report
from podsim.result.base import plain
from podsim.show.answers import Answered
from podsim.show.markdown import report_as_markdown
from podsim.show.text import report_as_text
from podsim.study.compare.difference import Difference, Row, Waterfall, difference
from podsim.study.compare.report import DIGITS, comparison_report
from podsim.study.compare.sides import Side, side
from podsim.study.compare.subject import Range, Subject
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

    def report(self, *, unchanged: bool = False, precision: int = DIGITS) -> Report:
        """The comparison as data.

        Args:
            unchanged: Show what is the same as well.
            precision: Significant digits.
        """
        return comparison_report(self.subjects, self.differences, unchanged=unchanged, precision=precision)

    def text(self, *, unchanged: bool = False, precision: int = DIGITS) -> str:
        """The comparison for a terminal of 100 columns; arguments as of `report`."""
        return report_as_text(self.report(unchanged=unchanged, precision=precision))

    def markdown(self, *, unchanged: bool = False, precision: int = DIGITS) -> str:
        """The comparison in Markdown; arguments as of `report`."""
        return report_as_markdown(self.report(unchanged=unchanged, precision=precision))

    def to_dict(self) -> dict[str, object]:
        """Plain types only: every row, those too that are the same."""
        return {
            "version": __version__,
            "schema_version": SCHEMA_VERSION,
            "activity": self.subjects[0].activity,
            "sides": [_side(*each) for each in zip(ascii_uppercase, self.subjects, strict=False)],
            "differences": [_difference(*each) for each in zip(ascii_uppercase[1:], self.differences, strict=False)],
        }

    def to_json(self) -> str:
        """The comparison as JSON text."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)

    def _told(self) -> Iterator[str]:
        report = self.report()
        yield from (report.title, *report.verdict[:_MOST_TOLD])

    def _records(self) -> Sequence[Mapping[str, object]]:
        """A row for each metric of each side but the first, in its own unit."""
        return [
            {"side": letter, "label": each.b.label}
            | {key: found for key, found in _row(row).items() if key in _COLUMNS}
            | {
                "change_low": row.change_range and row.change_range[0],
                "change_high": row.change_range and row.change_range[1],
            }
            for letter, each in zip(ascii_uppercase[1:], self.differences, strict=False)
            for row in each.rows
        ]

    def _units(self) -> Mapping[str, str]:
        """Of what has the same unit in all rows; of the others the column `unit` tells."""
        return dict.fromkeys(("change", "change_low", "change_high"), SHARE)


def compare(*sides: Side, uncertainty: int | Draws | None = None, seed: int = 0, watch: Watch = watched) -> Comparison:
    """Compare results: the metrics that changed and why, time by kind, and what differs in the inputs.

    Args:
        sides: Two or more: scenarios by file or name, NAME@VARIANT, NAME@REVISION of a git repository, or JSON of
            podsim run; in Python mappings, loaded scenarios and results, too.
        uncertainty: Repeat each so often with inputs drawn from their ranges.
        seed: Seed of these draws.
        watch: Passes on the names of the steps in which scenarios are simulated.

    Returns:
        The first beside each of the others.

    Raises:
        PodsimError: One of them cannot be read or simulated, or they are of different activities.
    """
    if not 2 <= len(sides) <= len(ascii_uppercase):
        what = f"a comparison has two sides or more, not {len(sides)}"
        raise PodsimError(what, do=f"give from 2 to {len(ascii_uppercase)}, the one to compare with first")
    draws = Draws(uncertainty, seed) if isinstance(uncertainty, int) else uncertainty
    subjects = tuple(side(*each, draws, watch) for each in zip(sides, ascii_uppercase, strict=False))
    return Comparison(subjects, tuple(difference(subjects[0], other) for other in subjects[1:]))


def _side(letter: str, subject: Subject) -> dict[str, object]:
    return {
        "side": letter,
        "label": subject.label,
        "taken_for": subject.taken,
        "simulated": subject.machine,
        "version": subject.version,
        "ranges": {name: _ends(ends) for name, ends in subject.own_ranges.items()},
        "warnings": list(subject.warnings),
        "notes": [],
        "inputs": [{"path": path, "sha256": digest} for path, digest in subject.files],
    }


def _ends(ends: Range | None) -> dict[str, float] | None:
    return None if ends is None else {"low": ends[0], "high": ends[1]}


def _difference(letter: str, found: Difference) -> dict[str, object]:
    return {
        "a": "A",
        "b": letter,
        "worse": [row.metric.name for row in found.worse],
        "metrics": [plain(_row(row)) for row in found.rows],
        "waterfalls": [_waterfall(each) for each in found.waterfalls],
        "inputs": [asdict(each) for each in found.inputs],
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
        "change_range": _ends(row.change_range),
        "verdict": row.verdict,
        "within_ranges": row.within_ranges if row.ranged else None,
        "a_range": row.a_range,
        "b_range": row.b_range,
        "why": row.cause,
    }


def _waterfall(each: Waterfall) -> dict[str, object]:
    steps = [asdict(step) | {"change_ps": step.change_ps} for step in each.steps]
    return {"span": each.span, "a_ps": each.a_ps, "b_ps": each.b_ps, "steps": steps}
