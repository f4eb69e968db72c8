"""`podsim import-mlperf`: logged runs beside predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.flags import OutputFormat, Overrides
from podsim.cli.outputs import Format, show


def import_mlperf(
    logs: Annotated[list[Path], typer.Argument(metavar="LOG", help="Result files, one run in each.")],
    scenario: Annotated[
        str | None,
        typer.Option(
            show_default="the shipped one of that benchmark, batch and pod",
            help="What to compare with.",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    overrides: Overrides = None,
    output_format: OutputFormat = Format.TABLE,
) -> None:
    """Compare logged runs of MLPerf Training with what is predicted, phase by phase."""
    from podsim.validation.mlperf.compare import compare_logs
    from podsim.validation.mlperf.show import LoggedRuns

    show(LoggedRuns(compare_logs(logs, scenario, overrides or ())), output_format)
