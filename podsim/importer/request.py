"""What is asked of an imported model, and the lines that every imported scenario starts with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from podsim.importer.huggingface import Imported
from podsim.importer.reader import Entry
from podsim.importer.scenario_text import Section

_DEFAULT_SYSTEM = "ipu_pod16"


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of the model.

    Attributes:
        system: A pod, by name or path.
        prompt_tokens: Tokens of a prompt, of a decoder.
        output_tokens: Tokens generated for it, of a decoder.
        batch_size: Sequences that go through a decoder together.
    """

    system: str = _DEFAULT_SYSTEM
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    batch_size: int | None = None


def top(model: Imported, request: Request, purpose: str, software: str) -> Section:
    """Description, system and software."""
    sizes = {entry.key: entry.value for entry in model.model}
    description = f"{model.family}, {sizes['layer_count']} layers of width {sizes['hidden_size']}, {purpose}"
    entries = (
        Entry("description", description),
        Entry("system", request.system, "--system"),
        Entry("software", software),
    )
    return Section("", entries)


def header(model: Imported, parameter_count: int, notes: Sequence[str]) -> Iterator[str]:
    """The comment at the top: which file, what is in it, what is not simulated."""
    yield f"Written by `podsim import` from {model.config.name}"
    yield f"SHA-256 {model.config.sha256}"
    yield f"{parameter_count:,} parameters. Beside a value: the key of that file, or the option, that it comes from."
    for note in notes:
        yield f"Note: {note}."
