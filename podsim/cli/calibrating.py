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
    measured: Path | None, target: Path | None, output_format: ValidationFormat, *, force: bool
) -> None:
    """Fit and print; write the stack of a cluster if that is asked for.

    Args:
        measured: A CSV file of measurements.
        target: Where the stack goes.
        output_format: How constants are printed.
        force: Whether the target may be replaced.

    Raises:
        PodsimError: A stack is to be written without measurements, or the measurements are wrong.
    """
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
