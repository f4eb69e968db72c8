"""The command line: parses, calls, prints. Everything heavy is imported when a command needs it."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.charts import Plot
from podsim.cli.checking import check
from podsim.cli.comparing import compare
from podsim.cli.ending import print_data, run_to_the_end, say
from podsim.cli.kernels import cost_app
from podsim.cli.mlperf import LogDivision, LogFolder, LogRound, import_mlperf, log_request
from podsim.cli.pages import ReportFile, check_report
from podsim.cli.planner import ui
from podsim.cli.planning import plan
from podsim.cli.replaying import replay
from podsim.cli.reproducing import reproduce
from podsim.cli.running import (
    EngineChoice,
    Format,
    Misfit,
    OutputFiles,
    check_not_inputs,
    check_paths,
    echo,
    run_scenario,
    show_result,
)
from podsim.cli.sweeping import sweep
from podsim.cli.usage import Commands
from podsim.cli.validating import ValidationFormat, validate
from podsim.cli.whatif import whatif

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


ServedScenario = Annotated[
    str,
    typer.Argument(
        help="A scenario of text generation, or the name of a shipped one.", autocompletion=completion.scenarios
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key, e.g. system=bow_pod64.")
]
Variant = Annotated[
    str | None, typer.Option(help="One of the variants named in the file.", autocompletion=completion.variants)
]
OutputFormat = Annotated[Format, typer.Option("--format", help="What to print.")]
Influence = Annotated[bool, typer.Option(help="Measure all that the result stands on; takes longer.")]


class ImportedActivity(StrEnum):
    """What an imported model is to do."""

    TRAIN = "train"
    FORWARD = "forward"
    GENERATE = "generate"


class ImportedFormat(StrEnum):
    """Number formats of an imported model."""

    FP16 = "fp16"
    FP32 = "fp32"
    FP8 = "fp8"
    INT4 = "int4"


def _version(show: bool) -> None:
    if show:
        from podsim._version import __version__

        typer.echo(f"podsim {__version__}")
        raise typer.Exit


def _torch_script(show: bool) -> None:
    if show:
        from podsim.importer import TORCH_SCRIPT

        print_data(TORCH_SCRIPT.read_text(encoding="utf-8"))
        raise typer.Exit


@app.callback()
def _options(
    _show: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Predict how long a machine-learning run takes on an IPU-POD, and where the time goes."""


@app.command(rich_help_panel=ONE)
def run(
    scenario: Annotated[
        str,
        typer.Argument(help="A scenario file, or the name of a shipped scenario.", autocompletion=completion.scenarios),
    ],
    variant: Variant = None,
    overrides: Overrides = None,
    output_format: OutputFormat = Format.TABLE,
    explicit: Annotated[bool, typer.Option("--explicit", help="Simulate every IPU of every replica.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write a timeline for ui.perfetto.dev.")] = None,
    chakra: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write Chakra execution traces there, one a rank.")
    ] = None,
    plot: Plot = None,
    influence: Influence = False,
    tornado: Annotated[Path | None, typer.Option(help="Write a chart of what moves the result most.")] = None,
    report: ReportFile = None,
    draw_count: Annotated[
        int | None, typer.Option("--uncertainty", help="Repeat so often with inputs drawn from their ranges.")
    ] = None,
    noise_count: Annotated[
        int | None, typer.Option("--noise", metavar="N", help="Repeat a training run so often with noise, e.g. 100.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of these draws, or of the noise.")] = 0,
    fit: Annotated[Misfit, typer.Option(help="Whether a division that does not fit is simulated.")] = Misfit.REFUSE,
    engine: Annotated[EngineChoice, typer.Option(help="What runs it; the result is the same.")] = EngineChoice.AUTO,
    mlperf_log: LogFolder = None,
    mlperf_round: LogRound = None,
    mlperf_division: LogDivision = None,
) -> None:
    """Simulate a scenario."""
    check_paths(trace, plot, tornado)
    check_report(report)
    if chakra is not None:
        from podsim.chakra.write import check_folder

        check_folder(chakra)
    from podsim.draws import Draws, Seeds
    from podsim.runs.settings import Settings
    from podsim.scenario import load_scenario

    settings = Settings(
        explicit=explicit,
        record=any(path is not None for path in (trace, chakra, plot, report)),
        influence=influence,
        uncertainty=None if draw_count is None else Draws(draw_count, seed),
        noise=None if noise_count is None else Seeds(noise_count, seed),
        fit=fit.value,
        engine=engine.value,
    )
    loaded = load_scenario(scenario, variant, overrides or ())
    check_not_inputs(scenario, loaded, trace=trace, plot=plot, tornado=tornado, report=report)
    log = log_request(loaded, mlperf_log, mlperf_round, mlperf_division)
    files = OutputFiles(trace, chakra, plot, tornado, report)
    run_scenario(loaded, settings, output_format, files, log)


@app.command(rich_help_panel=ONE)
def serve(
    scenario: ServedScenario,
    variant: Variant = None,
    overrides: Overrides = None,
    rate: Annotated[float | None, typer.Option(help="Requests per second.")] = None,
    arrivals: Annotated[
        Path | None, typer.Option(help="A CSV file with arrival_s, prompt_tokens and output_tokens.")
    ] = None,
    loads: Annotated[
        list[float] | None, typer.Option("--load", help="A point of the load curve, as a share of saturation; repeat.")
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(min=1, help="Users who wait for each answer, think, and send the next request."),
    ] = None,
    think: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long they think on average: 30s.", show_default="0 s")
    ] = None,
    output_format: OutputFormat = Format.TABLE,
    plot: Plot = None,
    influence: Influence = False,
    report: ReportFile = None,
) -> None:
    """Simulate requests that arrive, wait and are batched: percentiles, queue and saturation."""
    from podsim.runs.serve import serve as serve_scenario
    from podsim.scenario import load_scenario
    from podsim.show.progress import track

    check_paths(None, plot)
    check_report(report)
    loaded = load_scenario(scenario, variant, overrides or ())
    check_not_inputs(scenario, loaded, arrivals, plot=plot, report=report)
    result = serve_scenario(
        loaded,
        rate=rate,
        arrivals=arrivals,
        loads=loads or (),
        users=users,
        think=think,
        influence=influence,
        watch=lambda names: track(names, "serving:"),
        tell=say,
    )
    show_result(result, output_format, OutputFiles(plot=plot, report=report))


app.command(rich_help_panel=ONE)(ui)
for _command in (whatif, sweep, plan, compare, check):
    app.command(rich_help_panel=MANY)(_command)


@app.command("import", rich_help_panel=OWN)
def import_file(
    model: Annotated[
        str, typer.Argument(help="A Hugging Face config.json, an ONNX file, or a .shapes.json of PyTorch.")
    ],
    system: Annotated[
        str, typer.Option(help="The pod it is to run on.", autocompletion=completion.systems)
    ] = "ipu_pod16",
    activity: Annotated[
        ImportedActivity | None,
        typer.Option(show_default="generate of a decoder", help="What it is to do; otherwise, what it is made for."),
    ] = None,
    precision: Annotated[
        ImportedFormat | None,
        typer.Option(show_default="fp16", help="Number format; narrow ones are of weights alone."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the scenario there; otherwise it is printed.")] = None,
    prompt_tokens: Annotated[int | None, typer.Option(min=1, show_default="512", help="In text generation.")] = None,
    output_tokens: Annotated[int | None, typer.Option(min=1, show_default="512", help="In text generation.")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, show_default="1", help="Sequences or images together; in training, per weight update."),
    ] = None,
    dimensions: Annotated[
        list[str] | None, typer.Option("--dimension", metavar="NAME=SIZE", help="Of an ONNX file that leaves it open.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")] = False,
    _torch: Annotated[
        bool,
        typer.Option(
            "--torch-script", callback=_torch_script, is_eager=True, help="Print what exports a model from PyTorch."
        ),
    ] = False,
) -> None:
    """Write a scenario from a config.json, an ONNX file or shapes of PyTorch, divided over IPUs so that it fits."""
    from podsim.cli.importing import ImportRequest, import_as_asked

    asked = ImportRequest(
        *(model, system, activity and activity.value, precision and precision.value),
        *(prompt_tokens, output_tokens, batch_size, tuple(dimensions or ())),
    )
    import_as_asked(asked, output, force=force)


app.command(rich_help_panel=OWN)(replay)
app.command(rich_help_panel=TRUST)(validate)


@app.command(rich_help_panel=TRUST)
def calibrate(
    measured: Annotated[
        Path | None, typer.Option("--with", metavar="FILE.csv", help="Measurements of your cluster, to fit its stack.")
    ] = None,
    write: Annotated[Path | None, typer.Option(metavar="FILE.yaml", help="Write that stack there.")] = None,
    output_format: Annotated[
        ValidationFormat, typer.Option("--format", help="What to print.")
    ] = ValidationFormat.TABLE,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> None:
    """Refit the calibrated constants on their rows, or those of a software stack on measurements of your own."""
    from podsim.cli.calibrating import calibrate_as_asked

    calibrate_as_asked(measured, write, output_format, force=force)


app.command("import-mlperf", rich_help_panel=TRUST)(import_mlperf)
app.command(rich_help_panel=TRUST)(reproduce)


@app.command("list", rich_help_panel=PARTS)
def list_shipped(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="Only what has all of these words in its line.")
    ] = None,
    output_format: OutputFormat = Format.TABLE,
) -> None:
    """List the shipped scenarios with kind of run, pod and variants, studies, systems and software stacks."""
    from podsim.cli.listing import listing

    as_json = output_format is Format.JSON
    echo(listing(words or (), as_json=as_json), as_json)


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
    import json

    from podsim.scenario import json_schema

    print_data(f"{json.dumps(json_schema(kind), indent=2)}\n")


def main() -> None:
    """Run the command line; errors a user can mend are printed without a traceback."""
    sys.exit(run_to_the_end(lambda: app(prog_name="podsim", standalone_mode=False)))
