"""`podsim ui`: the planner page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.ending import say


def ui(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCENARIO",
            help="Scenario files to offer beside the shipped ones; the first is shown.",
            show_default=False,
            autocompletion=completion.scenarios,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where it listens on this machine.")] = 8080,
    host: Annotated[
        str, typer.Option(help="Another address to listen at; a token in its address lets people in then.")
    ] = "127.0.0.1",
    is_opened: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Questions answered at a time.", show_default="as many as cores")
    ] = None,
) -> None:
    """Open a page to plan on: move numbers, and see what a run takes, costs and is limited by."""
    from podsim.scenario import load_scenario
    from podsim.ui.serve import check_packages, check_port, new_token, serve

    check_packages()
    check_port(host, port)
    named = [_whole(each) for each in scenarios or ()]
    for each in named:
        load_scenario(each)
    serve(named, host=host, port=port, token=new_token(host), opens=is_opened, processes=processes, tell=say)


def _whole(name: str) -> str:
    """A path as it is seen from any folder; the name of a shipped scenario as it is."""
    path = Path(name)
    return str(path.resolve()) if path.is_file() else name
