"""`podsim calibrate`: the constants of podsim on its own rows, or those of a stack on a user's measurements."""

from __future__ import annotations

from pathlib import Path

from podsim.cli.outputs import inputs_of, tell_written
from podsim.cli.running import echo
from podsim.cli.validating import ValidationFormat
from podsim.errors import PodsimError
from podsim.result.files import check_new, check_outputs, write_atomically
from podsim.show.progress import track


def calibrate_as_asked(
    measured: Path | None, target: Path | None, output_format: ValidationFormat, *, force: bool, with_rows: bool
) -> None:
    """Fit and print; write the stack of a cluster if that is asked for.

    Args:
        measured: A CSV file of measurements.
        target: Where the stack goes.
        output_format: How constants are printed.
        force: Whether the target may be replaced.
        with_rows: Whether rows are asked for, which only what is left out has.

    Raises:
        PodsimError: A stack is to be written without measurements, or the measurements are wrong.
    """
    if with_rows:
        raise PodsimError("--rows shows rows that were left out", do="say of what: `--leave-out stack --rows`")
    if measured is not None:
        text = _of_cluster(measured, target, output_format, force=force)
    elif target is not None:
        what = "--write holds the constants of your cluster, which need its measurements"
        raise PodsimError(what, do="give them with `--with FILE.csv`, or leave `--write` out")
    else:
        text = _of_podsim(output_format)
    echo(text, output_format is not ValidationFormat.TABLE)
    tell_written(target)


def _of_podsim(output_format: ValidationFormat) -> str:
    from podsim.validation.calibrate import calibrate
    from podsim.validation.noise_fit import noise_fits
    from podsim.validation.show_fits import show_fits

    fits = (*calibrate(lambda steps: track(steps, "refitting")), *noise_fits())
    return show_fits(fits, output_format.value)


def _of_cluster(measured: Path, target: Path | None, output_format: ValidationFormat, *, force: bool) -> str:
    from podsim.validation.cluster import fit_cluster, stack_of
    from podsim.validation.measurements import read_measurements
    from podsim.validation.show_fits import show_cluster

    if target is not None:
        check_outputs({"write": target}, [("the measurements", measured)])
        check_new(target, force=force)
    found = fit_cluster(read_measurements(measured), lambda names: track(names, "fitting:"))
    if target is not None:
        check_outputs({"write": target}, inputs_of(found.loaded))
        write_atomically(target, stack_of(found, measured, target).encode())
    return show_cluster(found, output_format.value)


def leave_out_as_asked(
    by: str, measured: Path | None, target: Path | None, output_format: ValidationFormat, *, with_rows: bool
) -> None:
    """Print the errors of runs that were left out while constants were fitted to the others.

    Args:
        by: What is left out together: a configuration, a stack, a family, a chip, or whole groups.
        measured: A CSV file of measurements, which does not go with it.
        target: Where a stack goes, which does not go with it.
        output_format: How errors are printed.
        with_rows: Whether each row is printed.

    Raises:
        PodsimError: Nothing can be left out by that name, or measurements of a cluster are given, too.
    """
    from podsim.validation.left_out import BY, left_out, shipped
    from podsim.validation.show_fits import show_left_out

    if by not in BY:
        do = f"give one of {', '.join(BY)}"
        raise PodsimError(f"nothing is left out by `{by}`", where="--leave-out", do=do)
    if measured is not None or target is not None:
        what = "--leave-out looks at the published rows of podsim, not at measurements of a cluster"
        raise PodsimError(what, do="leave `--with` and `--write` out")
    text = show_left_out(by, left_out(shipped(), by), output_format.value, with_rows=with_rows)
    echo(text, output_format is not ValidationFormat.TABLE)
