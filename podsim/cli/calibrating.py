"""`podsim calibrate`: the constants of podsim on its own rows, or those of a stack on a user's measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsim.cli.flags import AnyFormat, Force
from podsim.cli.outputs import LongFormat, inputs_of, show, tell_written
from podsim.errors import PodsimError


def calibrate(
    measured: Annotated[
        Path | None, typer.Option("--with", metavar="FILE.csv", help="Measurements of your cluster, to fit its stack.")
    ] = None,
    write: Annotated[Path | None, typer.Option(metavar="FILE.yaml", help="Write that stack there.")] = None,
    output_format: AnyFormat = LongFormat.TABLE,
    force: Force = False,
) -> None:
    """Refit the calibrated constants on their rows, or those of a software stack on measurements of your own."""
    from podsim.show.progress import track

    if measured is not None:
        _of_cluster(measured, write, output_format, force=force)
        return
    if write is not None:
        what = "--write holds the constants of your cluster, which need its measurements"
        raise PodsimError(what, do="give them with `--with FILE.csv`, or leave `--write` out")
    from podsim.validation.calibrate import calibrate as fit_again
    from podsim.validation.noise_fit import noise_fits
    from podsim.validation.show_fits import Refitted

    show(Refitted((*fit_again(lambda steps: track(steps, "refitting")), *noise_fits())), output_format)


def _of_cluster(measured: Path, target: Path | None, output_format: LongFormat, *, force: bool) -> None:
    from podsim.result.files import check_new, check_outputs, write_atomically
    from podsim.show.progress import track
    from podsim.validation.cluster import fit_cluster, stack_of
    from podsim.validation.measurements import read_measurements
    from podsim.validation.show_fits import FittedStack

    if target is not None:
        check_outputs({"write": target}, [("the measurements", measured)])
        check_new(target, force=force)
    found = fit_cluster(read_measurements(measured), lambda names: track(names, "fitting:"))
    if target is not None:
        check_outputs({"write": target}, inputs_of(found.loaded))
        write_atomically(target, stack_of(found, measured, target).encode())
    show(FittedStack(found), output_format)
    tell_written(target)
