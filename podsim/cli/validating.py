"""`podsim validate`: comparisons with published figures, ranges, and limits on errors."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli.ending import BEYOND_LIMITS
from podsim.cli.flags import AnyFormat
from podsim.cli.outputs import LongFormat, show
from podsim.errors import PodsimError

if TYPE_CHECKING:
    from podsim.validation.comparison import Validation

_PERCENT = 100


class Role(StrEnum):
    """The use that a row is put to."""

    CALIBRATION = "calibration"
    HOLD_OUT = "hold_out"


def validate(
    context: typer.Context,
    output_format: AnyFormat = LongFormat.TABLE,
    role: Annotated[Role | None, typer.Option(help="Only rows of this role.")] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--group", metavar="TEXT", help="Only groups with this in their name; repeat.")
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Print errors by group alone.")] = False,
    max_mean: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Exit with 4 if the mean error of the rows is larger.")
    ] = None,
    max_worst: Annotated[
        float | None, typer.Option(metavar="PERCENT", help="Exit with 4 if an error of the rows is larger.")
    ] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Print how runs lie in ranges that other origins give them; seconds.")
    ] = False,
) -> None:
    """Compare predictions with published measurements."""
    given = {
        key
        for key, value in context.params.items()
        if key != "output_format" and value is not False and value not in (None, [], ())
    }
    of_role = role and role.value.replace("_", "-")
    if coverage:
        if given != {"coverage"}:
            what = "--coverage looks at ranges, not at errors, and goes with --format alone"
            raise PodsimError(what, do="leave the other options out, or give them in a command without --coverage")
        from podsim.result.evidence import residuals
        from podsim.validation.coverage import coverage as left_out
        from podsim.validation.show import RangesHeld

        show(RangesHeld(left_out(residuals())), output_format)
    else:
        limits = _share("--max-mean", max_mean), _share("--max-worst", max_worst)
        _compare(output_format, of_role, groups or [], limits, summary_only=summary)


def _compare(
    output_format: LongFormat,
    role: str | None,
    groups: list[str],
    limits: tuple[float | None, float | None],
    *,
    summary_only: bool,
) -> None:
    """Compare, print, and end with 4 if a limit is broken."""
    from podsim.validation.comparison import verdicts_on
    from podsim.validation.freedom import freedom
    from podsim.validation.show import Accuracy

    everything = _published()
    found = everything.only(role, groups)
    if not found.comparisons:
        known = ", ".join(dict.fromkeys(row.group for row in everything.comparisons))
        raise PodsimError(
            "no row with a prediction is left", do=f"leave `--role` out, or `--group` with part of: {known}"
        )
    verdicts = verdicts_on(found.comparisons, *limits)
    has_runs = any(row.scenarios for row in found.comparisons)
    chosen = freedom(found.comparisons) if has_runs and not summary_only else None
    shown = Accuracy(found, verdicts, summary_only, chosen)
    show(shown, output_format, rows=shown.rows())
    if not all(verdict.is_kept for verdict in verdicts):
        raise typer.Exit(BEYOND_LIMITS)


def _share(option: str, percent: float | None) -> float | None:
    """A limit as a share; what is no number cannot be kept or broken."""
    if percent is None:
        return None
    if not 0 <= percent < math.inf:
        raise PodsimError(f"`{percent}` is no percentage", where=option, do=f"write `{option} 5` for 5 %")
    return percent / _PERCENT


def _published() -> Validation:
    from podsim.show.progress import track
    from podsim.validation.compare import validation

    return validation(lambda names: track(names, "simulating"))
