"""Constants that were fitted again, and errors of rows that were left out, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from statistics import fmean

from podsim.draws import SHARE
from podsim.scenario.assumptions import numbers
from podsim.show.table import Cell, Cells, Table, columns, to_text
from podsim.validation.cluster import Cluster, in_unit_of
from podsim.validation.fit import Fit, alike
from podsim.validation.left_out import Error, Held
from podsim.validation.show import held_table, plain_held


def show_fits(fits: Sequence[Fit]) -> str:
    """A line for each constant, then how far they go together.

    Args:
        fits: The constants.
    """
    return "".join(f"{line}\n" for line in (*map(_fit, fits), *_together(fits)))


def _fit(fit: Fit) -> str:
    error = f" ± {fit.standard_error:.2g}" if fit.standard_error is not None else ""
    fitted = f"fitted {fit.fitted:.4g}{error} {fit.unit}"
    return f"{fit.key}: committed {fit.committed:.4g} {fit.unit}, {fitted} on {fit.rows}"


def _together(fits: Sequence[Fit]) -> Iterator[str]:
    done = set()
    for fit in fits:
        for other, correlation in fit.correlations:
            if (other, fit.key) not in done:
                done.add((fit.key, other))
                yield f"correlation of {fit.key} and {other}: {correlation:+.2f}"
    for one, other, correlation in alike(fits):
        yield f"warning: the rows cannot tell {one} and {other} apart ({correlation:+.3f}): trust both together only"


def fits_as_json(fits: Sequence[Fit]) -> str:
    """The same for programs.

    Args:
        fits: The constants.
    """
    return json.dumps(_plain(fits), indent=2) + "\n"


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
            }
            for fit in fits
        ],
        "alike": [{"constants": [one, other], "correlation": r} for one, other, r in alike(fits)],
    }


def show_cluster(found: Cluster) -> str:
    """Measurements beside their predictions, and the constants of the stack before and after.

    Args:
        found: What was fitted.
    """
    dimensions = {key: dimension for key, _, dimension in numbers(found.loaded.spec)}
    rows: list[Cells] = [
        (
            f"{row.measured.scenario}: {row.measured.figure}",
            row.measured.text,
            *(Cell(f"{error:+.1%}", error) for error in (row.before, row.after)),
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
    tables = (
        Table(columns("measured", ">value", ">error before", ">error after"), rows),
        Table(columns("constant", ">before", ">fitted", ">standard error"), constants),
    )
    lines = "".join(f"{line}\n" for line in (*_together(found.fits), *_far(found)))
    return "\n".join((*map(to_text, tables), *([lines] if lines else [])))


def _far(found: Cluster) -> Iterator[str]:
    for row in found.rows:
        if row.is_far:
            cure = "check its unit, and that the scenario is what was run"
            yield f"warning: {row.measured.where} stays {row.after:+.1%} off, which no constant accounts for: {cure}"


def cluster_as_json(found: Cluster) -> str:
    """The same for programs, in SI base units.

    Args:
        found: What was fitted.
    """
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


def show_errors(by: str, errors: Sequence[Error]) -> str:
    """Every row that was left out, by group, with means.

    Args:
        by: What was left out together.
        errors: The rows.
    """
    cells: list[Cells] = []
    for group in dict.fromkeys(each.group for each in errors):
        rows = [each for each in errors if each.group == group]
        if by != "configuration":
            cells.append((f"{group}, mean {_mean(rows):.1%}",))
        cells += [(each.name, *(Cell(f"{error:+.1%}", error) for error in (each.error, each.now))) for each in rows]
    now = fmean(abs(each.now) for each in errors)
    title = f"Errors of times with constants fitted without the {by} of each row"
    note = f"mean {_mean(errors):.1%} left out, {now:.1%} with constants fitted to all calibration rows"
    return to_text(Table(columns("row", ">left out", ">as fitted"), cells, title, [note]))


def _mean(errors: Sequence[Error]) -> float:
    return fmean(abs(each.error) for each in errors)


def errors_as_json(by: str, errors: Sequence[Error]) -> str:
    """The same for programs.

    Args:
        by: What was left out together.
        errors: The rows.
    """
    rows = [{"group": e.group, "name": e.name, "error": e.error, "as_fitted": e.now} for e in errors]
    return json.dumps({"left_out": by, "mean_error": _mean(errors), "rows": rows}, indent=2) + "\n"


def show_held(held: Sequence[Held]) -> str:
    """A line for each group that was left out whole, and all of them.

    Args:
        held: The groups.
    """
    return to_text(held_table(held))


def held_as_json(held: Sequence[Held]) -> str:
    """The same for programs.

    Args:
        held: The groups.
    """
    return json.dumps({"left_out": "groups", "share": SHARE, "groups": plain_held(held)}, indent=2) + "\n"
