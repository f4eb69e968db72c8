"""`podsim replay`: recorded execution traces on a pod."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsim.cli.flags import OutputFormat, System
from podsim.cli.outputs import Format, show


def replay(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder with PREFIX.0.et, PREFIX.1.et and so on, one a rank.")
    ],
    system: System = "ipu_pod16",
    software: Annotated[str, typer.Option(help="The software stack, whose rings collectives use.")] = "popart_sdk_2.5",
    output_format: OutputFormat = Format.TABLE,
) -> None:
    """Run recorded Chakra execution traces of any framework on a pod."""
    from podsim.chakra.replay import replay as run_again

    show(run_again(folder, system, software), output_format)
