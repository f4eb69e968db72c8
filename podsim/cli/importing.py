"""`podsim import`: a scenario of a model that is described elsewhere, and what is predicted of it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from podsim.cli.ending import print_data, say
from podsim.cli.flags import Force, System
from podsim.cli.outputs import inputs_of_import, tell_written


class Activity(StrEnum):
    """What an imported model is to do."""

    TRAIN = "train"
    FORWARD = "forward"
    GENERATE = "generate"


class Precision(StrEnum):
    """Number formats of an imported model."""

    FP16 = "fp16"
    FP32 = "fp32"
    FP8 = "fp8"
    INT4 = "int4"


def _torch_script(show: bool) -> None:
    if show:
        from podsim.importer import TORCH_SCRIPT

        print_data(TORCH_SCRIPT.read_text(encoding="utf-8"))
        raise typer.Exit


def import_file(
    model: Annotated[
        str, typer.Argument(help="A Hugging Face config.json, an ONNX file, or a .shapes.json of PyTorch.")
    ],
    system: System = "ipu_pod16",
    activity: Annotated[
        Activity | None,
        typer.Option(show_default="generate of a decoder", help="What it is to do; otherwise, what it is made for."),
    ] = None,
    precision: Annotated[
        Precision | None, typer.Option(show_default="fp16", help="Number format; narrow ones are of weights alone.")
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
    force: Force = False,
    _torch: Annotated[
        bool,
        typer.Option(
            "--torch-script", callback=_torch_script, is_eager=True, help="Print what exports a model from PyTorch."
        ),
    ] = False,
) -> None:
    """Write a scenario from a config.json, an ONNX file or shapes of PyTorch, divided over IPUs so that it fits."""
    from podsim.importer import Request, import_model
    from podsim.importer.request import parse_dimensions
    from podsim.importer.summary import summary
    from podsim.result.files import check_new, check_outputs, write_atomically
    from podsim.scenario import load_scenario
    from podsim.scenario.yaml_file import parse_yaml
    from podsim.show.progress import track

    if output is not None:
        check_outputs({"output": output}, inputs_of_import(model, system, output))
        check_new(output, force=force)
    request = Request(
        *(system, prompt_tokens, output_tokens, batch_size, parse_dimensions(dimensions or ())),
        None if output is None else output.parent,
        activity=activity and activity.value,
        precision=precision and precision.value,
    )
    text = import_model(
        model, request, lambda warning: say(f"warning: {warning}"), lambda names: track(names, "importing:")
    )
    if output is None:
        print_data(text)
    else:
        write_atomically(output, text.encode())
        tell_written(output)
    loaded = load_scenario(output or parse_yaml(text, model).data)
    for line in summary(loaded, model, request, lambda names: track(names, "looking for the smallest pod:")):
        say(line)
