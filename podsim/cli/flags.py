"""Options that commands share beside those of their functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.outputs import Format, LongFormat

OutputFormat = Annotated[Format, typer.Option("--format", help="What to print.")]
AnyFormat = Annotated[LongFormat, typer.Option("--format", help="What to print.")]
Plot = Annotated[Path | None, typer.Option(help="Write a chart (.png, .svg or .pdf).")]
ReportFile = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Write a page with charts to hover over and zoom."),
]
System = Annotated[str, typer.Option(help="The pod that it runs on.", autocompletion=completion.systems)]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key, e.g. system=bow_pod64.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")]
