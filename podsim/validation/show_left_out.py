"""Errors of runs that were left out, and how many of them their ranges hold, as tables or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

from podsim.draws import SHARE
from podsim.validation.left_out import Error, Held
from podsim.validation.tables import Cells, plain

_WHOLE = ("left out", "rows", "configurations", "inside", "share", "mean error", "with them")
_ERRORS = ("row", "left out", "as fitted")
TITLE = f"Whole groups left out: configurations inside of the middle {SHARE * 100:.0f} % of what the rest says"


def show_errors(by: str, errors: Sequence[Error]) -> str:
    """Every row that was left out, by group, with means.

    Args:
        by: What was left out together.
        errors: The rows.
    """
    cells: list[Sequence[str]] = [_ERRORS]
    for group in dict.fromkeys(each.group for each in errors):
        rows = [each for each in errors if each.group == group]
        if by != "configuration":
            cells.append((f"{group}, mean {_mean(rows):.1%}",))
        cells += [(each.name, f"{each.error:+.1%}", f"{each.now:+.1%}") for each in rows]
    now = fmean(abs(each.now) for each in errors)
    return (
        f"Errors of times with constants fitted without the {by} of each row\n\n{plain(cells)}\n"
        f"mean {_mean(errors):.1%} left out, {now:.1%} with constants fitted to all calibration rows\n"
    )


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


def show_held(held: Sequence[Held], render: Callable[[Cells], str] = plain) -> str:
    """A line for each group that was left out whole, and all of them.

    Args:
        held: The groups.
        render: Makes a table of cells.
    """
    return render([_WHOLE, *_lines(held)])


def _lines(held: Sequence[Held]) -> Iterator[Sequence[str]]:
    for each in held:
        counts = str(each.rows), str(each.configurations), f"{each.inside:.3g}"
        share = f"{each.inside / each.configurations:.0%}"
        yield each.group, *counts, share, f"{each.mean_error:.1%}", f"{each.now:.1%}"
    rows, count, inside = (
        sum(figures) for figures in zip(*((e.rows, e.configurations, e.inside) for e in held), strict=True)
    )
    yield "together", str(rows), str(count), f"{inside:.3g}", f"{inside / count:.0%}", "", ""


def held_as_json(held: Sequence[Held]) -> str:
    """The same for programs.

    Args:
        held: The groups.
    """
    return json.dumps({"left_out": "groups", "share": SHARE, "groups": plain_held(held)}, indent=2) + "\n"


def plain_held(held: Sequence[Held]) -> list[dict[str, object]]:
    """The groups as plain data.

    Args:
        held: The groups.
    """
    return [
        {
            "left_out": each.group,
            "rows": each.rows,
            "configurations": each.configurations,
            "inside": each.inside,
            "mean_error": each.mean_error,
            "mean_error_as_fitted": each.now,
        }
        for each in held
    ]
