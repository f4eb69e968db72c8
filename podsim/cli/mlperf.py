"""`podsim import-mlperf`: logged runs beside predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.running import Format, echo


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
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key of the scenario.")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
) -> None:
    """Compare logged runs of MLPerf Training with what is predicted, phase by phase."""
    from podsim.validation.mlperf.compare import compare_logs
    from podsim.validation.mlperf.show import show

    compared = compare_logs(logs, scenario, overrides or ())
    as_json = output_format is Format.JSON
    echo(show(compared, as_json=as_json), as_json)
