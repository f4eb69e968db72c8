"""The command line: parses, calls, prints. Everything heavy is imported when a command needs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.asking import Ask, asks
from podsim.cli.calibrating import calibrate
from podsim.cli.checking import check
from podsim.cli.comparing import compare
from podsim.cli.cost import cost_app
from podsim.cli.ending import run_to_the_end, say
from podsim.cli.flags import OutputFormat, Plot, ReportFile
from podsim.cli.importing import import_file
from podsim.cli.outputs import Format, check_paths, echo, print_json, show
from podsim.cli.planner import ui
from podsim.cli.planning import plan
from podsim.cli.replaying import replay
from podsim.cli.running import load_asked, run_scenario
from podsim.cli.sweeping import sweep
from podsim.cli.usage import Commands
from podsim.cli.validating import validate
from podsim.cli.whatif import whatif
from podsim.runs import run as run_function
from podsim.runs.serve import serve as serve_function

app = typer.Typer(
    name="podsim",
    cls=Commands,
    help="Predict how long a machine-learning run takes on an IPU-POD, and where the time goes.",
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
ONE, MANY, OWN, TRUST, PARTS = "One run", "Many runs", "Models of your own", "How far to trust it", "What there is"
"""Headings of the commands."""


def _version(show: bool) -> None:
    if show:
        from podsim._version import __version__

        typer.echo(f"podsim {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Predict how long a machine-learning run takes on an IPU-POD, and where the time goes."""


@app.command(rich_help_panel=ONE)
@asks(run_function)
def run(
    ask: Ask,
    output_format: OutputFormat = Format.TABLE,
    trace: Annotated[Path | None, typer.Option(help="Write a timeline for ui.perfetto.dev.")] = None,
    chakra: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write Chakra execution traces there, one a rank.")
    ] = None,
    plot: Plot = None,
    tornado: Annotated[Path | None, typer.Option(help="Write a chart of what moves the result most.")] = None,
    report: ReportFile = None,
) -> None:
    """Simulate a scenario."""
    run_scenario(ask.func, ask.keywords, output_format, trace, chakra, tornado, plot, report)


@app.command(rich_help_panel=ONE)
@asks(serve_function)
def serve(ask: Ask, output_format: OutputFormat = Format.TABLE, plot: Plot = None, report: ReportFile = None) -> None:
    """Simulate requests that arrive, wait and are batched: percentiles, queue and saturation."""
    from podsim.show.progress import track

    check_paths(None, plot, report=report)
    loaded = load_asked(ask.keywords, plot=plot, report=report)
    result = ask.func(loaded, watch=lambda names: track(names, "serving:"), tell=say, **ask.keywords)
    show(result, output_format, plot, report)


app.command(rich_help_panel=ONE)(ui)
for _command in (whatif, sweep, plan, compare, check):
    app.command(rich_help_panel=MANY)(_command)


app.command("import", rich_help_panel=OWN)(import_file)
app.command(rich_help_panel=OWN)(replay)
app.command(rich_help_panel=TRUST)(validate)
app.command(rich_help_panel=TRUST)(calibrate)


@app.command("list", rich_help_panel=PARTS)
def list_shipped(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="Only what has all of these words in its line.")
    ] = None,
    output_format: OutputFormat = Format.TABLE,
) -> None:
    """List the shipped scenarios with kind of run, pod and variants, studies, systems and software stacks."""
    from podsim.cli.listing import listed

    found = listed(words or ())
    if output_format is Format.JSON:
        print_json(found.to_dict())
    else:
        echo(f"{found!r}\n")


app.add_typer(cost_app, name="cost", rich_help_panel=PARTS)


@app.command(rich_help_panel=PARTS)
def schema(
    kind: Annotated[
        str,
        typer.Argument(
            help="scenario, pod, machine, ipu, vertices or software.", autocompletion=completion.kinds_of_file
        ),
    ] = "scenario",
) -> None:
    """Print the JSON Schema of a file, for editors that complete and check."""
    from podsim.scenario import json_schema

    print_json(json_schema(kind))


def main() -> None:
    """Run the command line; errors a user can mend are printed without a traceback."""
    sys.exit(run_to_the_end(lambda: app(prog_name="podsim", standalone_mode=False)))
