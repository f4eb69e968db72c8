"""Commands about how far to trust predictions: `validate` and `calibrate`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from podsim.cli.asking import asks
from podsim.cli.ending import BEYOND_LIMITS
from podsim.cli.outputs import Force, Format, inputs_of, show, tell_written
from podsim.errors import PodsimError
from podsim.options import Shell

_PERCENT: Final = 100
_PERCENTAGE: Final = Shell(metavar="PERCENT")


class Role(StrEnum):
    """The use that a row is put to."""

    CALIBRATION = "calibration"
    HOLD_OUT = "hold_out"


@asks()
def validate(
    output_format: Format = "table",
    role: Role | None = None,
    group: Annotated[Sequence[str], Shell(metavar="TEXT")] = (),
    summary: bool = False,
    max_mean: Annotated[float | None, _PERCENTAGE] = None,
    max_worst: Annotated[float | None, _PERCENTAGE] = None,
    coverage: bool = False,
) -> None:
    """Compare predictions with published measurements.

    Args:
        role: Only rows of this role.
        group: Only groups with this in their name.
        summary: Print errors by group alone.
        max_mean: Exit with 4 if the mean error of the rows is larger.
        max_worst: Exit with 4 if an error of the rows is larger.
        coverage: Print how runs lie in ranges that other origins give them; seconds.
    """
    given = {key for key, value in locals().items() if value is not False and value not in (None, ())}
    given.remove("output_format")
    of_role = None if role is None else role.value.replace("_", "-")
    if coverage:
        if given != {"coverage"}:
            what = "--coverage looks at ranges, not at errors, and goes with --format alone"
            raise PodsimError(what, do="leave the other options out, or give them in a command without --coverage")
        from podsim.result.evidence import residuals
        from podsim.validation.coverage import coverage as left_out
        from podsim.validation.show import RangesHeld

        show(RangesHeld(left_out(residuals())), output_format)
    else:
        _compare(output_format, of_role, group, {"--max-mean": max_mean, "--max-worst": max_worst}, summary)


def _compare(
    output_format: Format,
    role: str | None,
    groups: Sequence[str],
    limits: Mapping[str, float | None],
    summary_only: bool,
) -> None:
    """Compare, print, and end with 4 if a limit is broken."""
    for option, percent in limits.items():
        if percent is not None and not 0 <= percent < math.inf:
            raise PodsimError(f"`{percent}` is no percentage", where=option, do=f"write `{option} 5` for 5 %")
    from podsim.show.markdown import to_csv
    from podsim.show.progress import track
    from podsim.validation.compare import validation
    from podsim.validation.comparison import verdicts_on
    from podsim.validation.identifiability import identifiability
    from podsim.validation.show import Accuracy

    everything = validation(lambda names: track(names, "simulating"))
    chosen = everything.only(role, groups)
    if not chosen.comparisons:
        known = ", ".join(dict.fromkeys(row.group for row in everything.comparisons))
        raise PodsimError(
            "no row with a prediction is left", do=f"leave `--role` out, or `--group` with part of: {known}"
        )
    shares = (percent if percent is None else percent / _PERCENT for percent in limits.values())
    verdicts = verdicts_on(chosen.comparisons, *shares)
    has_runs = any(row.scenarios for row in chosen.comparisons)
    fitted = identifiability(chosen.comparisons) if has_runs and not summary_only else None
    accuracy = Accuracy(chosen, verdicts, summary_only, fitted)
    show(accuracy, output_format, own={"csv": lambda: to_csv(accuracy.rows())})
    if not all(verdict.is_kept for verdict in verdicts):
        raise typer.Exit(BEYOND_LIMITS)


@asks()
def calibrate(
    measured: Annotated[Path, Shell(("--with",), "FILE.csv")],
    write_stack: Annotated[Path | None, Shell(("--write",), "FILE.yaml")] = None,
    output_format: Format = "table",
    force: Force = False,
) -> None:
    """Fit the constants of a software stack to measurements of your own.

    Args:
        measured: Measurements of your cluster, to fit its stack.
        write_stack: Write that stack there.
    """
    from podsim.result.files import check_new, check_outputs, write_atomically
    from podsim.show.progress import track
    from podsim.validation.cluster import fit_cluster, stack_of
    from podsim.validation.measurements import read_measurements
    from podsim.validation.show_fits import FittedStack

    outputs = {"write": write_stack}
    check_outputs(outputs, [("the measurements", measured)])
    if write_stack is not None:
        check_new(write_stack, force=force)
    fitted = fit_cluster(read_measurements(measured), lambda names: track(names, "fitting:"))
    if write_stack is not None:
        check_outputs(outputs, inputs_of(fitted.loaded))
        write_atomically(write_stack, stack_of(fitted, measured, write_stack).encode())
        tell_written(write_stack)
    show(FittedStack(fitted), output_format)
