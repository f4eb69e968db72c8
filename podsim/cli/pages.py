"""`--report`: the answer of a command as a page of HTML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli.outputs import tell_written

if TYPE_CHECKING:
    from podsim.report.report import Report

ReportFile = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Write a page with charts to hover over and zoom."),
]


def check_report(path: Path | None) -> None:
    """Refuse a page that cannot be written, before anything is read or simulated."""
    if path is not None:
        from podsim.show.html_page import check_page_path

        check_page_path(path)


def write_report(path: Path | None, make: Callable[[], Report]) -> None:
    """Write the page that is asked for, and report it."""
    if path is not None:
        from podsim.show.html_page import write_page

        write_page(make(), path)
        tell_written(path)
