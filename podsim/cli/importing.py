"""`podsim import`: what is asked for, and where the scenario goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from podsim.cli.ending import print_data, say
from podsim.cli.outputs import inputs_of_import, tell_written
from podsim.importer import Request, import_model
from podsim.importer.request import parse_dimensions
from podsim.importer.summary import summary
from podsim.result.files import check_new, check_outputs, write_atomically
from podsim.scenario import load_scenario
from podsim.scenario.document import parse_yaml
from podsim.show.progress import track


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What is to be imported, and what for; None where nothing is said.

    Attributes:
        model: A config.json or an ONNX file.
        system: The pod it is to run on.
        activity: What it is to do.
        precision: Number format.
        prompt_tokens: Tokens of a prompt.
        output_tokens: Tokens of an output.
        batch_size: Samples together; in training, per weight update.
        dimensions: `NAME=SIZE` of an ONNX file that leaves them open.
    """

    model: str
    system: str
    activity: str | None
    precision: str | None
    prompt_tokens: int | None
    output_tokens: int | None
    batch_size: int | None
    dimensions: tuple[str, ...]


def import_as_asked(asked: ImportRequest, output: Path | None, *, force: bool) -> None:
    """Write the scenario to a file, or print it; say on standard error how the model fits."""
    if output is not None:
        check_outputs({"output": output}, inputs_of_import(asked.model, asked.system, output))
        check_new(output, force=force)
    folder = None if output is None else output.parent
    request = Request(
        *(asked.system, asked.prompt_tokens, asked.output_tokens, asked.batch_size),
        *(parse_dimensions(asked.dimensions), folder),
        activity=asked.activity,
        precision=asked.precision,
    )
    text = import_model(
        asked.model, request, lambda warning: say(f"warning: {warning}"), lambda names: track(names, "importing:")
    )
    if output is None:
        print_data(text)
    else:
        write_atomically(output, text.encode())
        tell_written(output)
    loaded = load_scenario(output or parse_yaml(text, asked.model).data)
    for line in summary(loaded, asked.model, request, lambda names: track(names, "looking for the smallest pod:")):
        say(line)
