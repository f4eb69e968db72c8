"""The command line: parses, calls, prints. Everything heavy is imported when a command needs it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from podsim.cli import studies, trust
from podsim.cli.asking import Ask, asks
from podsim.cli.ending import print_data, run_to_the_end, say
from podsim.cli.outputs import FORMAT, Force, Page, Plot, RunFormat, load_asked, print_json, show, tell_written
from podsim.cli.running import print_list, run_scenario
from podsim.cli.usage import Commands, parsed
from podsim.errors import PodsimError
from podsim.options import POSITIVE, SHAPE, SYSTEM, Shell

_SETTINGS: Final[dict[str, Any]] = {"cls": Commands, "no_args_is_help": True, "rich_markup_mode": None}
app = typer.Typer(
    name="podsim",
    help="Predict how long a machine-learning run takes on an IPU-POD, and where the time goes.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    **_SETTINGS,
)
_cost = typer.Typer(help="Look at the cost model alone.", **_SETTINGS)
_COLLECTIVES: Final = {
    "all-reduce": "all tiles get the sum of what each holds",
    "all-gather": "all tiles get what each holds",
    "reduce-scatter": "each tile gets its share of the sum",
    "all-to-all": "each tile sends something else to every other",
    "broadcast": "one tile sends the same to all",
    "gather": "one tile receives from all",
    "scatter": "one tile sends something else to each",
    "reduce": "one tile gets the sum of what each holds",
}

_COSTS: Final = {
    "matmul": "cost.cost_matmul",
    "convolution": "cost.cost_convolution",
    "transfer": "cost_movement.cost_transfer",
    **dict.fromkeys(_COLLECTIVES, "cost_movement.cost_collective"),
    "multi-slice": "cost.cost_multi_slice",
    "multi-update-add": "cost.cost_multi_update_add",
    "schnet-block": "cost.cost_schnet_block",
}


def _printed(name: str, said: str, text: Callable[[], str]) -> Any:
    """Return an option that prints a text and ends, whatever else the line holds."""

    def callback(is_asked: bool) -> None:
        if is_asked:
            print_data(text())
            raise typer.Exit

    return typer.Option(name, callback=callback, is_eager=True, help=said)


def _version() -> str:
    from podsim._version import __version__

    return f"podsim {__version__}\n"


def _torch_script() -> str:
    from podsim.importer import TORCH_SCRIPT

    return TORCH_SCRIPT.read_text(encoding="utf-8")


_VERSION: Final = _printed("--version", "Print the version and exit.", _version)
_TORCH: Final = _printed("--torch-script", "Print what exports a model from PyTorch.", _torch_script)
_AS_JSON: Final = Shell(("--json",), said="Print JSON, as `--format json` does.")
_KIND: Final = Shell((), completes="kinds")


@app.callback()
def _options(version: Annotated[bool, _VERSION] = False) -> None:
    pass


@asks("podsim.runs.run")
def run(
    ask: Ask,
    output_format: RunFormat = "table",
    trace: Path | None = None,
    chakra: Annotated[Path | None, Shell(metavar="DIR")] = None,
    plot: Plot = None,
    tornado: Path | None = None,
    report: Page = None,
) -> None:
    """Simulate a scenario.

    Args:
        trace: Write a timeline for ui.perfetto.dev.
        chakra: Write Chakra execution traces there, one a rank.
        tornado: Write a chart of what moves the result most.
    """
    run_scenario(ask, output_format, trace, chakra, plot, tornado, report)


@asks("podsim.runs.serve.serve")
def _serve(ask: Ask, output_format: RunFormat = "table", plot: Plot = None, report: Page = None) -> None:
    from podsim.show.progress import track

    loaded = load_asked(ask.keywords, plot=plot, report=report)
    result = ask.func(loaded, watch=lambda names: track(names, "serving:"), tell=say, **ask.keywords)
    show(result, output_format, plot, report)


@asks()
def ui(
    offered: Annotated[Sequence[str], Shell((), "SCENARIO", completes="scenarios")] = (),
    port: Annotated[int, Shell(least=1, most=65535)] = 8080,
    host: str = "127.0.0.1",
    opens: Annotated[bool, Shell(("--open/--no-open",))] = True,
    processes: Annotated[int | None, POSITIVE] = None,
) -> None:
    """Open a page to plan on: move numbers, and see what a run takes, costs and is limited by.

    Args:
        offered: Scenario files to offer beside the shipped ones; the first is shown.
        port: Where it listens on this machine.
        host: Another address to listen at; a token in its address lets people in then.
        opens: Open a browser.
        processes: Questions answered at a time; as many as there are cores if left out.
    """
    from podsim.scenario import load_scenario
    from podsim.ui import serve as page

    page.check_packages()
    page.check_port(host, port)
    named = [str(Path(name).resolve()) if Path(name).is_file() else name for name in offered]
    for name in named:
        load_scenario(name)
    page.serve(named, host=host, port=port, token=page.new_token(host), opens=opens, processes=processes, tell=say)


@asks()
def import_file(
    model: Annotated[str, SHAPE],
    system: Annotated[str | None, SYSTEM] = None,
    activity: Literal["train", "forward", "generate"] | None = None,
    precision: Literal["fp16", "fp32", "fp8", "int4"] | None = None,
    output: Annotated[Path | None, Shell(("--output", "-o"))] = None,
    prompt_tokens: Annotated[int | None, POSITIVE] = None,
    output_tokens: Annotated[int | None, POSITIVE] = None,
    batch_size: Annotated[int | None, POSITIVE] = None,
    dimensions: Annotated[Sequence[str], Shell(("--dimension",), "NAME=SIZE")] = (),
    force: Force = False,
    torch_script: Annotated[bool, _TORCH] = False,
) -> None:
    """Write a scenario from a config.json, an ONNX file or shapes of PyTorch, divided over IPUs so that it fits.

    Args:
        model: A Hugging Face config.json, an ONNX file, or a .shapes.json of PyTorch.
        system: The pod that it runs on; if left out, pods are compared, and that with most for each IPU is taken.
        activity: What it is to do; what it is made for if left out: a decoder generates.
        precision: Number format, fp16 if left out; narrow ones are of weights alone.
        output: Write the scenario there; otherwise it is printed.
        prompt_tokens: In text generation; 512 if left out.
        output_tokens: In text generation; 512 if left out.
        batch_size: Sequences or images together; in training, per weight update; 1 if left out.
        dimensions: Of an ONNX file that leaves it open.
    """
    from podsim.importer import Request, import_model
    from podsim.importer.pods import COMPARED, best_offer, compare_pods, comparison
    from podsim.importer.request import parse_dimensions
    from podsim.importer.summary import summary
    from podsim.result.files import check_new, check_outputs, files_read, write_atomically
    from podsim.scenario import load_hardware, load_scenario
    from podsim.scenario.yaml_file import parse_yaml
    from podsim.show.progress import track

    if output is not None:
        read = [("the input", Path(model))]
        with suppress(PodsimError):  # the import says what is wrong with the pod
            read += files_read(load_hardware(system, "pod")[1].inputs) if system and output.exists() else []
        check_outputs({"output": output}, read)
        check_new(output, force=force)
    sizes = parse_dimensions(dimensions)
    folder = None if output is None else output.parent
    request = Request(
        *(system or COMPARED[0], prompt_tokens, output_tokens, batch_size, sizes, folder),
        activity=activity,
        precision=precision,
    )
    fits: str | None = None
    if system is None:
        offers = compare_pods(model, request, lambda names: track(names, "comparing pods:"))
        best = best_offer(offers)
        text, request = best.text, replace(request, system=best.system)
        fits = next(offer.system for offer in offers if offer.text)
        for line in (*(f"warning: {note}" for note in best.notes), *comparison(offers)):
            say(line)
    else:
        text = import_model(
            model, request, lambda warning: say(f"warning: {warning}"), lambda names: track(names, "importing:")
        )
    if output is None:
        print_data(text)
    else:
        write_atomically(output, text.encode())
        tell_written(output)
    loaded = load_scenario(output or parse_yaml(text, model).data)
    for line in summary(loaded, model, request, lambda names: track(names, "looking for the smallest pod:"), fits):
        say(line)


def _cost_of(ask: Ask, output_format: RunFormat = "table", as_json: Annotated[bool, _AS_JSON] = False) -> None:
    show(ask(), "json" if as_json else output_format)


@asks("podsim.chakra.replay.replay")
def replay(ask: Ask, output_format: RunFormat = "table") -> None:
    """Run recorded Chakra execution traces of any framework on a pod."""
    show(ask(), output_format)


@asks()
def list_shipped(
    words: Annotated[Sequence[str], Shell((), "WORD")] = (),
    output_format: Annotated[Literal["table", "json"], FORMAT] = "table",
) -> None:
    """List the shipped scenarios with kind of run, pod and variants, studies, systems and software stacks.

    Args:
        words: Only what has all of these words in its line.
    """
    print_list(words, output_format)


@asks()
def schema(kind: Annotated[str, _KIND] = "scenario") -> None:
    """Print the JSON Schema of a file, for editors that complete and check.

    Args:
        kind: scenario, pod, machine, ipu, vertices or software.
    """
    from podsim.scenario import json_schema

    print_json(json_schema(kind))


_COMMANDS: Final = {
    "One run": {"run": run, "serve": _serve, "ui": ui},
    "Many runs": {name: getattr(studies, name) for name in ("whatif", "sweep", "plan", "compare", "check")},
    "Models of your own": {"import": import_file, "replay": replay},
    "How far to trust it": {
        "validate": trust.validate,
        "calibrate": trust.calibrate,
    },
    "What there is": {"list": list_shipped, "schema": schema},
}
"""By the headings of the help."""
for _heading, _commands in _COMMANDS.items():
    for _name, _command in _commands.items():
        _command.register(app, _name, rich_help_panel=_heading)
app.add_typer(_cost, name="cost", rich_help_panel="What there is")
for _name, _place in _COSTS.items():
    _meaning = _COLLECTIVES.get(_name)
    _help = f"Show the predicted time of {'an' if _name[0] == 'a' else 'a'} {_name}: {_meaning}." if _meaning else ""
    _fixed = {"name": _name} if _meaning else {}
    asks(f"podsim.result.{_place}", _help, **_fixed)(_cost_of).register(_cost, _name)


def main() -> None:
    """Run the command line; errors a user can mend are printed without a traceback."""
    sys.exit(run_to_the_end(lambda: parsed(app, "podsim")))
