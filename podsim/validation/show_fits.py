"""Constants that were fitted again, as text, Markdown, JSON or CSV."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from podsim.report.table import Cell, Cells, Passage, Table, columns
from podsim.scenario.assumptions import numbers
from podsim.validation.cluster import Cluster, in_unit_of
from podsim.validation.fit import PER_CONSTANT, Fit, alike
from podsim.validation.show import share, written


def show_fits(fits: Sequence[Fit], output_format: str = "table") -> str:
    """A row for each constant, then how far they go together, as `table`, `markdown`, `json` or `csv`.

    Args:
        fits: The constants.
        output_format: One of those.
    """
    if output_format == "json":
        return json.dumps(_plain(fits), indent=2) + "\n"
    return written([fits_table(fits), *map(Passage, _together(fits))], output_format)


def fits_table(fits: Sequence[Fit]) -> Table:
    """Each constant with what it is fitted to, and whether that identifies it.

    Args:
        fits: The constants.
    """
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


def _together(fits: Sequence[Fit]) -> Iterator[str]:
    done = set()
    for fit in fits:
        for other, correlation in fit.correlations:
            if (other, fit.key) not in done:
                done.add((fit.key, other))
                yield f"correlation of {fit.key} and {other}: {correlation:+.2f}"
    for one, other, correlation in alike(fits):
        yield f"warning: the rows cannot tell {one} and {other} apart ({correlation:+.3f}): trust both together only"


def _plain(fits: Sequence[Fit]) -> dict[str, object]:
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
        "alike": [{"constants": [one, other], "correlation": r} for one, other, r in alike(fits)],
    }


def show_cluster(found: Cluster, output_format: str = "table") -> str:
    """Measurements beside their predictions, and the constants of the stack before and after.

    Args:
        found: What was fitted.
        output_format: `table`, `markdown`, `json`, in SI base units, or `csv`, which has the measurements alone.
    """
    if output_format == "json":
        return _cluster_as_json(found)
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
    lines = "\n".join((*_together(found.fits), *_far(found)))
    return written([*tables, *([Passage(lines)] if lines else [])], output_format)


def _far(found: Cluster) -> Iterator[str]:
    for row in found.rows:
        if row.is_far:
            what = f"{row.measured.row.where} stays {row.after:+.1%} off, which no constant accounts for"
            yield f"warning: {what}: check its unit, and that the scenario is what was run"


def _cluster_as_json(found: Cluster) -> str:
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
        for row in found.rows
    ]
    return json.dumps(_plain(found.fits) | {"measurements": rows}, indent=2) + "\n"
