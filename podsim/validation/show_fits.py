"""Constants that were fitted again as text or JSON, with what their rows cannot tell apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from podsim.scenario.assumptions import numbers
from podsim.validation.cluster import Cluster, Compared, in_unit_of
from podsim.validation.fit import Fit, alike
from podsim.validation.tables import plain

_ROWS = ("measured", "value", "error before", "error after")
_CONSTANTS = ("constant", "before", "fitted", "standard error")


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
    rows = [
        (
            f"{row.measured.scenario}: {row.measured.figure}",
            row.measured.text,
            f"{row.before:+.1%}",
            f"{row.after:+.1%}",
        )
        for row in found.rows
    ]
    constants = [
        (each.key, *(in_unit_of(each, value, dimensions[each.key]) for value in _values(fit)))
        for each, fit in zip(found.inputs, found.fits, strict=True)
    ]
    tables = plain([_ROWS, *rows]), plain([_CONSTANTS, *constants])
    lines = "".join(f"{line}\n" for line in (*_together(found.fits), *_far(found)))
    return "\n".join((*tables, *([lines] if lines else [])))


def _name(row: Compared) -> str:
    return " ".join((row.measured.scenario, *row.measured.overrides)) + f": {row.measured.figure}"


def _far(found: Cluster) -> Iterator[str]:
    for row in found.rows:
        if row.is_far:
            cure = "check its unit, and that the scenario is what was run"
            yield f"warning: {row.measured.where} stays {row.after:+.1%} off, which no constant accounts for: {cure}"


def _values(fit: Fit) -> tuple[float, float, float]:
    return fit.committed, fit.fitted, fit.standard_error or 0.0


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
