"""The command line: parses, calls, prints. Everything heavy is imported when a command needs it."""

from __future__ import annotations

import sys
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from podsim.report.forward import ForwardResult
    from podsim.report.generation import GenerationResult
    from podsim.specs import LoadedScenario

app = typer.Typer(
    name="podsim",
    help="Predict how long a machine-learning run takes on an IPU-POD, and where the time goes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
cost_app = typer.Typer(help="Look at the cost model alone.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(cost_app, name="cost")

_EXIT_ERROR, _EXIT_INFEASIBLE = 2, 3


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


class ValidationFormat(StrEnum):
    """How a comparison is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


class NumberFormat(StrEnum):
    """Number formats of the matrix units."""

    FP16 = "fp16"
    FP32 = "fp32"


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


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(help="A scenario file, or the name of a shipped scenario.")],
    variant: Annotated[str | None, typer.Option(help="One of the variants named in the file.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key, e.g. system=bow_pod64.")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    explicit: Annotated[bool, typer.Option(help="Simulate every IPU of every replica.")] = False,
    trace: Annotated[Path | None, typer.Option(help="Write a timeline for ui.perfetto.dev.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a chart (.png, .svg or .pdf).")] = None,
    influence: Annotated[bool, typer.Option(help="Measure all that the result stands on; takes longer.")] = False,
) -> None:
    """Simulate a scenario."""
    from podsim.report.files import check_distinct, check_writable
    from podsim.report.progress import track
    from podsim.simulation import simulate, with_references
    from podsim.specs import ForwardScenarioSpec, InferenceScenarioSpec, load_scenario
    from podsim.validation.references import references_for

    check_distinct(scenario=scenario, trace=trace, plot=plot)
    if trace is not None:
        check_writable(trace)
    if plot is not None:
        from podsim.report.plot import check_plot_path

        check_plot_path(plot)
    loaded = load_scenario(scenario, variant, overrides or ())
    record = trace is not None or plot is not None
    if isinstance(loaded.spec, InferenceScenarioSpec | ForwardScenarioSpec):
        _infer(loaded, output_format, explicit=explicit, influence=influence, trace=trace, plot=plot)
        return
    result = simulate(
        loaded,
        explicit=explicit,
        record=record,
        influence=influence,
        watch=lambda names: track(names, "choosing: trying"),
    )
    if variant is None and not overrides:
        result = with_references(result, references_for(result.name))
    if trace is not None:
        from podsim.report.perfetto import write_trace

        write_trace(result, trace)
    if plot is not None:
        from podsim.report.plot import write_plot

        write_plot(result, plot)
    if output_format is Format.JSON:
        typer.echo(result.to_json())
    else:
        from podsim.report.table import print_result

        print_result(result)


def _infer(
    loaded: LoadedScenario,
    output_format: Format,
    *,
    explicit: bool,
    influence: bool,
    trace: Path | None,
    plot: Path | None,
) -> None:
    """Text generation and forward passes: the same options, other results."""
    from podsim.errors import PodsimError
    from podsim.forward import infer
    from podsim.generation import generate
    from podsim.report.forward_table import print_forward
    from podsim.report.generation_table import print_generation
    from podsim.report.perfetto import write_trace
    from podsim.report.progress import track
    from podsim.specs import ForwardScenarioSpec

    result: ForwardResult | GenerationResult
    show: Callable[[], None]
    if isinstance(loaded.spec, ForwardScenarioSpec):
        if plot is not None:
            raise PodsimError("there is no chart of a forward pass", do="leave --plot out; --trace writes a timeline")
        result = passed = infer(loaded, explicit=explicit, record=trace is not None, influence=influence)
        show = partial(print_forward, passed)
    else:
        result = generated = generate(
            loaded,
            explicit=explicit,
            record=trace is not None,
            influence=influence,
            watch=lambda names: track(names, "choosing: trying"),
        )
        show = partial(print_generation, generated)
        if plot is not None:
            from podsim.report.generation_plot import write_generation_plot

            write_generation_plot(generated, plot)
    if trace is not None:
        write_trace(result, trace)
    if output_format is Format.JSON:
        typer.echo(result.to_json())
    else:
        show()


@app.command()
def serve(
    scenario: Annotated[str, typer.Argument(help="A scenario of text generation, or the name of a shipped one.")],
    variant: Annotated[str | None, typer.Option(help="One of the variants named in the file.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key, e.g. serving.batch_size=8.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests per second.")] = None,
    arrivals: Annotated[
        Path | None, typer.Option(help="A CSV file with arrival_s, prompt_tokens and output_tokens.")
    ] = None,
    loads: Annotated[
        list[float] | None, typer.Option("--load", help="A point of the load curve, as a share of saturation; repeat.")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    plot: Annotated[Path | None, typer.Option(help="Write a chart (.png, .svg or .pdf).")] = None,
    influence: Annotated[bool, typer.Option(help="Measure all that the result stands on; takes longer.")] = False,
) -> None:
    """Simulate requests that arrive, wait and are batched: percentiles, queue and saturation."""
    from podsim.report.files import check_distinct
    from podsim.service import serve as serve_scenario

    check_distinct(scenario=scenario, arrivals=arrivals, plot=plot)
    if plot is not None:
        from podsim.report.plot import check_plot_path

        check_plot_path(plot)
    result = serve_scenario(
        scenario,
        variant=variant,
        overrides=overrides or (),
        rate=rate,
        arrivals=arrivals,
        loads=loads or (),
        influence=influence,
    )
    if plot is not None:
        from podsim.report.serving_plot import write_serving_plot

        write_serving_plot(result, plot)
    if output_format is Format.JSON:
        typer.echo(result.to_json())
    else:
        from podsim.report.serving_table import print_serving

        print_serving(result)


@app.command("import")
def import_file(
    model: Annotated[str, typer.Argument(help="A Hugging Face config.json, or an ONNX file.")],
    system: Annotated[str, typer.Option(help="The pod it is to run on.")] = "ipu_pod16",
    output: Annotated[Path | None, typer.Option(help="Write the scenario there; otherwise it is printed.")] = None,
    prompt_tokens: Annotated[int | None, typer.Option(min=1, show_default="512", help="Of a decoder.")] = None,
    output_tokens: Annotated[int | None, typer.Option(min=1, show_default="512", help="Of a decoder.")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, show_default="1 of a decoder", help="Sequences together; in training, per weight update."),
    ] = None,
    dimensions: Annotated[
        list[str] | None, typer.Option("--dimension", metavar="NAME=SIZE", help="Of an ONNX file that leaves it open.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")] = False,
) -> None:
    """Write a scenario from a config.json or an ONNX file, divided over IPUs so that it fits."""
    from podsim.importer import Request, import_model
    from podsim.importer.request import parse_dimensions
    from podsim.report.files import check_distinct, check_new, write_atomically

    if output is not None:
        check_distinct(input=model, output=output)
        check_new(output, force=force)
    folder = None if output is None else output.parent
    request = Request(system, prompt_tokens, output_tokens, batch_size, parse_dimensions(dimensions or ()), folder)
    text = import_model(model, request, lambda warning: typer.echo(f"warning: {warning}", err=True))
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_atomically(output, text.encode())


@app.command()
def validate(
    output_format: Annotated[
        ValidationFormat, typer.Option("--format", help="What to print.")
    ] = ValidationFormat.TABLE,
) -> None:
    """Compare predictions with published measurements."""
    from podsim.report.progress import track
    from podsim.validation import validate as compare
    from podsim.validation.sensitivity import sensitivity
    from podsim.validation.show import show

    comparisons = compare(lambda names: track(names, "simulating"))
    typer.echo(show(comparisons, output_format.value, sensitivity()), nl=False)


@app.command()
def calibrate() -> None:
    """Refit the calibrated constants on their rows and show them beside the committed ones."""
    from podsim.report.progress import track
    from podsim.validation.calibrate import calibrate as refit

    for fit in refit(lambda steps: track(steps, "refitting")):
        typer.echo(
            f"{fit.key}: committed {fit.committed:.4g} {fit.unit}, fitted {fit.fitted:.4g} {fit.unit} on {fit.rows}"
        )


@app.command()
def schema(
    kind: Annotated[str, typer.Argument(help="scenario, pod, machine, ipu, vertices or software.")] = "scenario",
) -> None:
    """Print the JSON Schema of a file, for editors that complete and check."""
    import json

    from podsim.specs import json_schema

    typer.echo(json.dumps(json_schema(kind), indent=2))


@app.command("list")
def list_names() -> None:
    """List the shipped scenarios, systems and software stacks."""
    from podsim.specs import shipped_names

    for title, names in shipped_names().items():
        typer.echo(f"{title}:")
        for name in names:
            typer.echo(f"  {name}")


@cost_app.command("matmul")
def cost_matmul(
    shape: Annotated[str, typer.Argument(help="ROWSxINNERxCOLUMNS, or GROUPSxROWSxINNERxCOLUMNS.")],
    ipu: Annotated[str, typer.Option(help="An IPU specification: gc200, bow, or a file.")] = "gc200",
    dtype: Annotated[NumberFormat, typer.Option(help="Format of the operands.")] = NumberFormat.FP16,
    partials: Annotated[NumberFormat | None, typer.Option(help="Format of the partial results.")] = None,
    memory: Annotated[float, typer.Option(help="Available-memory proportion, above 0 and at most 1.")] = 0.6,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
) -> None:
    """Plan one matrix product and show what it costs."""
    from podsim.report.plan_view import show_matmul
    from podsim.specs import load_ipu
    from podsim.system import build_ipu

    chip = build_ipu(load_ipu(ipu))
    typer.echo(
        show_matmul(chip, shape, dtype.value, (partials or dtype).value, memory, as_json=output_format is Format.JSON),
        nl=False,
    )


def main() -> None:
    """Run the command line; errors a user can mend are printed without a traceback."""
    from podsim.errors import InfeasibleError, PodsimError

    try:
        app()
    except PodsimError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(_EXIT_INFEASIBLE if isinstance(error, InfeasibleError) else _EXIT_ERROR)
