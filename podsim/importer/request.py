"""Options of an imported model, and the lines that every imported scenario starts with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from podsim.errors import PodsimError
from podsim.importer.config_file import printable
from podsim.importer.imported import Imported
from podsim.importer.reader import Entry
from podsim.importer.scenario_text import ScenarioSection
from podsim.models.graph.dimensions import LARGEST_DIMENSION
from podsim.scenario.wording import shown

_DEFAULT_SYSTEM = "ipu_pod16"
_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Request:
    """Options of an import.

    Attributes:
        system: A pod, by name or path.
        prompt_tokens: Tokens of a prompt, of a decoder.
        output_tokens: Tokens generated for it, of a decoder.
        batch_size: Sequences or images that go through the model together, or samples per weight update.
        dimensions: Sizes of the dimensions that a graph leaves open, by name.
        folder: Where the scenario will lie, if that is known; a graph's file is named from there.
        activity: `train`, `forward` or `generate`; None for what the model is made for.
        precision: Number format; None for half precision.
    """

    system: str = _DEFAULT_SYSTEM
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    batch_size: int | None = None
    dimensions: Mapping[str, int] = field(default_factory=dict)
    folder: Path | None = None
    activity: str | None = None
    precision: str | None = None


def parse_dimensions(texts: Sequence[str]) -> dict[str, int]:
    """Sizes by name.

    Raises:
        PodsimError: A text is not NAME=SIZE, a size is no whole number or too large, or a name is given twice.

    >>> parse_dimensions(["batch=4", "height=640"])
    {'batch': 4, 'height': 640}
    """
    sizes: dict[str, int] = {}
    for text in texts:
        name, sign, size = text.rpartition("=")
        where, do = f"--dimension {printable(text)}", "write for example `--dimension batch=4`"
        if not sign or not name or not size:
            raise PodsimError("this is not NAME=SIZE", where=where, do=do)
        if not size.removeprefix("-").isdecimal():
            raise PodsimError(f"the size {shown(size)} is not a whole number in digits", where=where, do=do)
        if len(size) > _MOST_DIGITS:
            raise PodsimError("the size is too large", where=where, do=f"give it a size from 1 to {LARGEST_DIMENSION}")
        if name in sizes:
            raise PodsimError(f"dimension `{printable(name)}` is given twice", where=where, do="keep one of the two")
        sizes[name] = int(size)
    return sizes


def top(model: Imported, request: Request, software: str, purpose: str) -> ScenarioSection:
    """Description, system and software."""
    sizes = {entry.key: entry.value for entry in model.model}
    description = f"{model.family}, {sizes['layer_count']} layers of width {sizes['hidden_size']}, {purpose}"
    entries = (
        Entry("description", description),
        Entry("system", request.system, "--system"),
        Entry("software", software),
    )
    return ScenarioSection("", entries)


def header(model: Imported, parameter_count: int, notes: Sequence[str]) -> Iterator[str]:
    """The comment at the top: which file, what is in it, what is not simulated."""
    yield f"Written by `podsim import` from {model.config.name}"
    yield f"SHA-256 {model.config.sha256}"
    yield f"{parameter_count:,} parameters. Beside a value: the key of that file, or the option, that it comes from."
    for note in notes:
        yield f"Note: {note}."


def option(key: str, given: int | None, default: int) -> Entry:
    """A value that an option sets."""
    name = f"--{key.replace('_', '-')}"
    return Entry(key, default, f"{name} was not given") if given is None else Entry(key, given, name)
