"""`podsim replay`: recorded execution traces on a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.ending import print_data
from podsim.cli.running import Format


def replay(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with PREFIX.0.et, PREFIX.1.et and so on, one a rank.")
    ],
    system: Annotated[
        str, typer.Option(help="The pod that it runs on.", autocompletion=completion.systems)
    ] = "ipu_pod16",
    software: Annotated[str, typer.Option(help="The software stack, whose rings collectives use.")] = "popart_sdk_2.5",
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
) -> None:
    """Run recorded Chakra execution traces of any framework on a pod."""
    from podsim.chakra.replay import replay as run_again

    found = run_again(folder, system, software)
    if output_format is Format.JSON:
        print_data(f"{found.to_json()}\n")
        return
    from podsim.show.text import print_blocks

    print_blocks(found.tables())
