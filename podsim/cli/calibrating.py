"""`podsim calibrate`: the constants of a software stack on a user's measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsim.cli.flags import AnyFormat, Force
from podsim.cli.outputs import LongFormat, inputs_of, show, tell_written


def calibrate(
    measured: Annotated[
        Path, typer.Option("--with", metavar="FILE.csv", help="Measurements of your cluster, to fit its stack.")
    ],
    write: Annotated[Path | None, typer.Option(metavar="FILE.yaml", help="Write that stack there.")] = None,
    output_format: AnyFormat = LongFormat.TABLE,
    force: Force = False,
) -> None:
    """Fit the constants of a software stack to measurements of your own."""
    from podsim.result.files import check_new, check_outputs, write_atomically
    from podsim.show.progress import track
    from podsim.validation.cluster import fit_cluster, stack_of
    from podsim.validation.measurements import read_measurements
    from podsim.validation.show_fits import FittedStack

    if write is not None:
        check_outputs({"write": write}, [("the measurements", measured)])
        check_new(write, force=force)
    found = fit_cluster(read_measurements(measured), lambda names: track(names, "fitting:"))
    if write is not None:
        check_outputs({"write": write}, inputs_of(found.loaded))
        write_atomically(write, stack_of(found, measured, write).encode())
    show(FittedStack(found), output_format)
    tell_written(write)
