"""Reports of fitted constants."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podsim.report.report import Report
from podsim.report.table import Cell, Cells, Table, columns
from podsim.scenario.assumptions import numbers
from podsim.validation.cluster import Cluster, in_unit_of
from podsim.validation.fit import PER_CONSTANT, Fit, correlated_pairs
from podsim.validation.show import report_of, share


@dataclass(frozen=True, slots=True)
class FittedStack:
    """Constants of a software stack, fitted to measurements of a cluster."""

    found: Cluster

    def report(self) -> Report:
        """Return a report: measurements with predictions, and the constants of the stack before and after."""
        found = self.found
        dimensions = {key: dimension for key, _, dimension in numbers(found.loaded.spec)}
        rows: list[Cells] = [
            (
                f"{row.measured.scenario}: {row.measured.figure}",
                row.measured.text,
                *(share(error, "+.1%") for error in (row.before, row.after)),
            )
            for row in found.rows
        ]
        constants = [
            (
                each.key,
                *(
                    in_unit_of(each, value, dimensions[each.key])
                    for value in (fit.committed, fit.fitted, fit.standard_error or 0.0)
                ),
            )
            for each, fit in zip(found.inputs, found.fits, strict=True)
        ]
        tables = [
            Table(columns("measured", ">value", ">error before", ">error after"), rows),
            Table(columns("constant", ">before", ">fitted", ">standard error"), constants),
        ]
        return report_of("Constants of a software stack", [*tables, *correlation_lines(found.fits), *_far(found)])

    def to_json(self) -> str:
        """Return the fits as JSON text, in SI base units."""
        rows = [
            {
                "scenario": row.measured.scenario,
                "figure": row.measured.figure,
                "measured": row.measured.value,
                "source": row.measured.source,
                "error_before": row.before,
                "error_after": row.after,
                "is_far": row.is_far,
            }
            for row in self.found.rows
        ]
        return json.dumps(plain_fits(self.found.fits) | {"measurements": rows}, indent=2)


def fits_table(fits: Sequence[Fit]) -> Table:
    """Return a table of constants with the data they are fitted to, and whether the data identify them."""
    rows: list[Cells] = [
        (
            fit.key,
            *(Cell(f"{value:.4g}", value) for value in (fit.committed, fit.fitted)),
            "" if fit.standard_error is None else Cell(f"{fit.standard_error:.2g}", fit.standard_error),
            fit.unit,
            *(Cell(str(count), count) for count in (fit.configurations, fit.constants)),
            "yes" if fit.is_identified else "not identified",
            fit.rows,
        )
        for fit in fits
    ]
    numbers = (">committed", ">fitted", ">±", "unit", ">configurations", ">constants")
    note = (
        f"identified: {PER_CONSTANT} independent configurations or more for each of the constants that are fitted to"
        " them together"
    )
    return Table(columns("constant", *numbers, "identified", "fitted to"), rows, "Constants fitted again", [note])


def correlation_lines(fits: Sequence[Fit]) -> Iterator[str]:
    """Yield the correlations of constants that are fitted to the same rows."""
    done = set()
    for fit in fits:
        for other, correlation in fit.correlations:
            if (other, fit.key) not in done:
                done.add((fit.key, other))
                yield f"correlation of {fit.key} and {other}: {correlation:+.2f}"
    for one, other, correlation in correlated_pairs(fits):
        yield f"warning: the rows cannot tell {one} and {other} apart ({correlation:+.3f}): trust both together only"


def plain_fits(fits: Sequence[Fit]) -> dict[str, object]:
    """Return the fits as plain types."""
    return {
        "constants": [
            {
                "key": fit.key,
                "committed": fit.committed,
                "fitted": fit.fitted,
                "unit": fit.unit,
                "rows": fit.rows,
                "standard_error": fit.standard_error,
                "correlations": dict(fit.correlations),
                "configurations": fit.configurations,
                "constants_together": fit.constants,
                "is_identified": fit.is_identified,
            }
            for fit in fits
        ],
        "alike": [{"constants": [one, other], "correlation": r} for one, other, r in correlated_pairs(fits)],
    }


def _far(found: Cluster) -> Iterator[str]:
    for row in found.rows:
        if row.is_far:
            what = f"{row.measured.row.where} stays {row.after:+.1%} off, which no constant accounts for"
            yield f"warning: {what}: check its unit, and that the scenario is what was run"
