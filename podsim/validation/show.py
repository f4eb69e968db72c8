"""Reports of comparisons with published figures and of prediction intervals."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, Final, TypeVar

from podsim._version import __version__
from podsim.draws import Z
from podsim.report.report import Part, Report, Section
from podsim.report.table import Cell, Cells, Table, columns
from podsim.result.reference_data import rows as reference_rows
from podsim.scenario.quantity import LEVELS
from podsim.validation.comparison import (
    BEYOND,
    WHOLE_RUNS,
    Blind,
    LimitVerdict,
    NotRun,
    RowComparison,
    Summary,
    Validation,
    by_level,
    summarize,
)
from podsim.validation.coverage import TARGET, Coverage
from podsim.validation.identifiability import MOST_OF_NOISE, Identifiability
from podsim.validation.reference_data import CALIBRATION

_MS_PER_S: Final = 1000
_Row = TypeVar("_Row", bound=RowComparison | NotRun)
_ROLES: Final = {
    "calibration": "Calibration: rows that a constant is fitted to",
    "hold-out": "Hold-out: rows that nothing is fitted to",
}
_NOTE: Final = (
    "data: twice the uncertainty of what was measured. An error within it is explained; a larger one is one of the"
    " model, or of its inputs."
)


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Predictions beside published figures."""

    found: Validation
    verdicts: Sequence[LimitVerdict] = ()  # verdicts on limits
    summary_only: bool = False  # True if rows are left out
    chosen: Identifiability | None = None  # number of free choices

    def report(self) -> Report:
        """Return a report: rows by role, a summary per group and role, free choices, and verdicts."""
        rows, chosen = self.found.comparisons, self.chosen
        parts: list[Part] = [] if self.summary_only else list(_tables(self.found))
        if not self.summary_only and any(row.uncertainty is not None for row in rows):
            parts.append(_NOTE)
        parts.append(summary_table(rows))
        if chosen is not None:
            parts += [level_table(rows, chosen), identifiability_table(chosen), _switch_table()]
        return report_of("Predictions beside published figures", [*parts, *map(str, self.verdicts)])

    def rows(self) -> Table:
        """Return the table for CSV: all rows with their roles, or their summary."""
        rows = self.found.comparisons
        return summary_table(rows) if self.summary_only else _rows_table(rows, roles=True)

    def to_json(self) -> str:
        """Return rows, summary, free choices and limits as JSON text."""
        found = self.found
        rows = {
            "comparisons": [asdict(c) | {"error": c.error, "is_beyond_data": c.is_beyond()} for c in found.comparisons],
            "not_run": [asdict(row) for row in found.not_run],
        }
        data: dict[str, Any] = ({} if self.summary_only else rows) | {
            "summary": [asdict(s) for s in summarize(found.comparisons)]
        }
        if self.chosen is not None:
            data["degrees_of_freedom"] = asdict(self.chosen) | {
                "most_of_noise": MOST_OF_NOISE,
                "chosen_switches": [dict(row) for row in reference_rows("switches")],
            }
        if self.verdicts:
            data["limits"] = [asdict(v) | {"is_kept": v.is_kept} for v in self.verdicts]
        return json.dumps(data, indent=2)


def report_of(title: str, parts: Iterable[Part]) -> Report:
    """Return a report whose parts all belong to its short form."""
    return Report(title, [f"podsim {__version__}"], __version__, (), sections=[Section("", list(parts), short=True)])


def figure(value: float) -> Cell:
    """Return a cell with four significant digits, or all digits before the point."""
    return Cell(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}", value)


def share(value: float, form: str = ".1%") -> Cell:
    """Return a cell with a share in per cent; a share that rounds to zero has no sign.

    >>> str(share(0.012, "+.1%")), str(share(-0.0001, "+.1%")), str(share(0.0001, "+.1%"))
    ('+1.2%', '0.0%', '0.0%')
    """
    text = format(value, form)
    return Cell(text if float(text.removesuffix("%")) else text.lstrip("+-"), value)


def _count(value: int) -> Cell:
    return Cell(str(value), value)


def _tables(found: Validation) -> Iterator[Table]:
    for role, title in _ROLES.items():
        if rows := [row for row in found.comparisons if row.role == role]:
            yield _rows_table(rows, title)
    if blind := [(row, each) for row in found.rows for each in row.blind]:
        heads = columns(
            *("version", "row", "described as", ">blind", ">now", ">published", "unit", ">blind error", ">error now")
        )
        title = "Blind: what earlier versions predicted before the figure was known, never computed again"
        yield Table(heads, [_blind_row(*pair) for pair in blind], title)
    if found.not_run:
        heads = columns("row", ">published", "unit", "why nothing is predicted")
        rows_of = _by_group(found.not_run, lambda row: (row.name, figure(row.published), row.unit, row.reason))
        yield Table(heads, list(rows_of), "Published figures without a prediction")


def _rows_table(rows: Sequence[RowComparison], title: str = "", *, roles: bool = False) -> Table:
    """Return a table of predictions and published figures, with their roles if there are several."""

    def cells(c: RowComparison) -> Cells:
        data = "" if c.uncertainty is None else share(BEYOND * c.uncertainty)
        explained = {None: "", True: "no", False: "yes"}[c.is_beyond()]
        known = (c.name, figure(c.predicted), figure(c.published), c.unit, share(c.error, "+.1%"), data, explained)
        return (*known, *[c.role] * roles)

    heads = columns("row", ">predicted", ">published", "unit", ">error", ">data", "explained", *["role"] * roles)
    return Table(heads, list(_by_group(rows, cells)), title)


def _by_group(rows: Sequence[_Row], cells: Callable[[_Row], Cells]) -> Iterator[Cells]:
    """Yield the cells of every row below the name of its group, in order of first appearance."""
    for group in dict.fromkeys(row.group for row in rows):
        yield (group,)
        yield from (cells(row) for row in rows if row.group == group)


def _blind_row(row: RowComparison | NotRun, blind: Blind) -> Cells:
    now: Cells = (
        (figure(row.predicted), share(row.error, "+.1%")) if isinstance(row, RowComparison) else ("not run", "")
    )
    then = share(blind.predicted / row.published - 1, "+.1%")
    figures = figure(blind.predicted), now[0], figure(row.published), row.unit, then, now[1]
    return (blind.version, blind.row, blind.described_as, *figures)


def summary_table(comparisons: Sequence[RowComparison], title: str = "Summary") -> Table:
    """Return errors by level, group and role, fitted rows first."""

    def cells(s: Summary) -> Cells:
        errors = (share(s.bias, "+.1%"), share(s.mean), share(s.rms), share(s.worst, "+.1%"))
        return s.group, s.role, _count(s.count), _count(s.configurations), *errors, _count(s.beyond)

    counts, errors = (">rows", ">configurations"), (">bias", ">mean error", ">RMS", ">worst", ">beyond data")
    rows: list[Cells] = []
    for role, level in product(_ROLES, LEVELS):
        found = [cells(s) for s in summarize(comparisons) if (s.role, s.level) == (role, level)]
        rows += [(level,), *found] if found else []
    return Table(columns("group", "role", *counts, *errors), rows, title, headings="level")


def level_table(comparisons: Sequence[RowComparison], chosen: Identifiability) -> Table:
    """Return errors of each level of evidence, the lowest first, with the constants fitted at it."""

    def cells(s: Summary) -> Cells:
        fitted = () if s.role == CALIBRATION else chosen.fitted.get(s.level, ())
        sizes = share(s.bias, "+.1%"), share(s.mean), share(s.worst, "+.1%")
        names = Counter(each.partition(" = ")[0].rpartition(".")[2] for each in fitted)
        fitted_here = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in names.items())
        return s.level, s.role, _count(s.count), _count(s.configurations), *sizes, fitted_here

    rows = [cells(s) for s in sorted(by_level(comparisons), key=lambda s: list(_ROLES).index(s.role))]
    heads = columns("level", "role", ">rows", ">configurations", ">bias", ">mean error", ">worst", "fitted at it")
    note = f"without {WHOLE_RUNS}; a constant that only updates, passes or runs show may hide what else they hold"
    return Table(heads, rows, "By level of evidence", [note])


def identifiability_table(chosen: Identifiability) -> Table:
    """Return a table of the numbers of choices of each kind, and of configurations to match."""
    stacks = ", ".join(switch.removeprefix("software.") for switch in chosen.switches)
    noise = f"at most {MOST_OF_NOISE}, fitted to how much logged runs differ"
    fitted = [name for names in chosen.fitted.values() for name in names]
    of_tables = sum(".vertices." in name for name in fitted)
    numbers = [row for row in reference_rows("switches") if row["chosen"].isdecimal()]
    names = dict.fromkeys(row["key"].rpartition(".")[2] for row in numbers)
    rows = [
        ("fitted constants", _count(len(fitted)), f"{of_tables} of them in tables of cycles of vertices"),
        ("whole numbers chosen on rows", _count(len(numbers)), ", ".join(names)),
        ("constants of noise", _count(len(chosen.of_noise)), noise),
        ("assumed numbers", _count(len(chosen.assumed)), "of machines and software stacks, each with its range"),
        ("assumed in scenarios", _count(len(chosen.assumed_in_scenarios)), "beside those"),
        ("switches of stacks", _count(len(chosen.switches)), stacks or "none differs between these stacks"),
    ]
    apart = "of whole runs; those that differ in name alone count once"
    rows += [(f"{role} configurations", _count(count), apart) for role, count in chosen.configurations.items()]
    if len(chosen.configurations) > 1:
        rows.append(("in both roles", _count(chosen.shared), "other figures of runs that constants are fitted to"))
    return Table(columns("what", ">count", "which"), rows, "Degrees of freedom")


def _switch_table() -> Table:
    """Return switches of software stacks that act like fitted constants, with the rows they depend on."""
    switches = reference_rows("switches")
    rows = [(r["key"].removeprefix("software."), r["chosen"], r["otherwise"], r["rows"]) for r in switches]
    heads = columns("switch", "chosen", "otherwise", "after these rows were seen")
    return Table(heads, rows, "Switches that act like fitted constants")


# Ranges


@dataclass(frozen=True, slots=True)
class RangesHeld:
    """Coverage of prediction intervals, each origin predicted from the others."""

    found: Coverage

    def report(self) -> Report:
        """Return a report: a row for each origin and each constant interval, and the runs outside."""
        parts: list[Part] = [coverage_table(self.found)]
        outside: list[Cells] = [
            (each.run.row, each.run.origin, *(share(v, "+.1%") for v in (each.run.error, *_ends(each.sigma))))
            for each in self.found.outside
        ]
        if outside:
            heads = columns("row", "origin", ">error", ">from", ">to")
            parts.append(Table(heads, outside, "Outside, the furthest first"))
        return report_of("Ranges of published runs", [*parts, *_coverage_notes(self.found)])

    def to_json(self) -> str:
        """Return the coverage and all runs as JSON text."""
        found = self.found
        data = {
            "target": list(TARGET),
            "total": asdict(found.total),
            "bands": [asdict(band) for band in found.bands],
            "origins": [asdict(origin) for origin in found.origins],
            "rows": [
                {
                    "row": run.run.row,
                    "origin": run.run.origin,
                    "role": run.run.role,
                    "error": run.run.error,
                    "sigma": run.sigma,
                    "is_inside": run.is_inside,
                    "new": list(run.new),
                }
                for run in found.runs
            ],
        }
        return json.dumps(data, indent=2)


def _ends(sigma: float) -> tuple[float, float]:
    return -Z * sigma, Z * sigma


def coverage_table(found: Coverage) -> Table:
    """Return a row for each origin, a row for all, and rows for the constant intervals."""
    rows: list[Cells] = [
        (
            each.name,
            *map(_count, (each.rows, each.configurations)),
            share(each.inside, ".0%"),
            *map(share, (each.mean_error, each.width)),
            _in_per_cent(each.score),
        )
        for each in (*found.origins, found.total, *found.bands)
    ]
    heads = columns("left out", ">rows", ">configurations", ">inside", ">mean error", ">width", ">score")
    return Table(heads, rows, "Published runs in the middle 80 % that the other origins give them")


def _in_per_cent(score: float) -> Cell:
    return Cell(f"{100 * score:.1f}", score)


def _coverage_notes(found: Coverage) -> Iterator[str]:
    low, high = TARGET
    yield f"{low:.0%} to {high:.0%} of configurations should be inside, ± {found.error_of_share:.0%} for their number"
    best = min(found.bands, key=lambda each: each.score)
    yield (
        "score: width and ten times what is missed, in per cent; "
        f"{found.total.score / best.score - 1:+.0%} beside {best.name}, the best that is chosen from the other origins"
    )
