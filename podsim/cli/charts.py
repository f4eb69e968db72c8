"""`--plot`: charts as files, drawn without a window, whatever the user's own configuration of matplotlib says."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli.outputs import tell_written
from podsim.errors import PodsimError

if TYPE_CHECKING:
    from podsim.report.chart import Sheet

Plot = Annotated[Path | None, typer.Option(help="Write a chart (.png, .svg or .pdf).")]


def write_chart(path: Path | None, make: Callable[[], Sheet], inputs: Iterable[tuple[str, str]]) -> None:
    """Write the charts that are asked for, and report it.

    Args:
        path: The file, if there is to be one.
        make: Makes the charts.
        inputs: (path, SHA-256) of every file they stand on, none of which is overwritten.
    """
    if path is not None:
        from podsim.show.matplotlib_charts import write_sheet

        write_sheet(make, path, inputs)
        tell_written(path)


def load_matplotlib() -> None:
    """Import matplotlib without a backend of the environment; its complaints about folders do not matter here.

    Raises:
        PodsimError: Its configuration cannot be read.
    """
    os.environ.pop("MPLBACKEND", None)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import_module("matplotlib")
    except (OSError, ValueError, RuntimeError) as error:
        what = f"matplotlib, which draws charts, cannot be loaded: {' '.join(str(error).split())}"
        cure = "mend or remove the file `matplotlibrc` in this folder, or the one that MATPLOTLIBRC names"
        raise PodsimError(what, do=cure) from error
