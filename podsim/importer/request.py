"""Options of an imported model, and the lines that every imported scenario starts with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from podsim.errors import PodsimError
from podsim.importer.reader import ConfigFile, Entry, Reader, printable
from podsim.importer.scenario_text import ScenarioSection
from podsim.models.graph.onnx_file import LARGEST_DIMENSION
from podsim.scenario.wording import shown

MOST_LAYERS, MOST_WIDTH, MOST_ROWS = 10_000, 1_000_000, 10_000_000
_NO_POSITIONS = Entry("positions", 0)


@dataclass(frozen=True, slots=True)
class Imported:
    """A model as a scenario describes it.

    Attributes:
        config: The file it was read from.
        family: Architecture, as `model_type` names it.
        kind: Family of models that the scenario belongs to.
        purpose: What the scenario is about, in words.
        model: Keys under `model`.
        notes: What the file says and the scenario cannot.
        data: Keys under `data`, of a training scenario.
        positions: Tokens that a decoder has positions for.
        positions_bind: Whether it can take no more than those.
    """

    config: ConfigFile
    family: str
    kind: Literal["decoder", "bert", "vit", "t5"]
    purpose: str
    model: tuple[Entry, ...]
    notes: tuple[str, ...]
    data: tuple[Entry, ...] = ()
    positions: Entry = _NO_POSITIONS
    positions_bind: bool = False


@dataclass(frozen=True, slots=True)
class ConfigFamily:
    """An architecture of Hugging Face Transformers.

    Attributes:
        class_name: How the names of its classes start.
        read: Reads the keys of a file of this architecture.
    """

    class_name: str
    read: Callable[[Reader], Imported]


def always(reader: Reader) -> str:
    """Where a value comes from that the family decides."""
    return f"in every {reader.family} model"


def check_heads(
    reader: Reader, hidden: Entry, heads: Entry, kv: Entry, *, key: str = "num_key_value_heads", own_size: bool = False
) -> None:
    """Complain where heads do not divide what they have to.

    Args:
        reader: Takes the complaint.
        hidden: Width of the model, which heads divide unless they have a size of their own.
        heads: Query heads.
        kv: Key and value heads, which divide the query heads.
        key: What the file calls them.
        own_size: Whether heads have a size of their own.
    """
    if not reader.sound:
        return
    width, count, kv_count = (entry.whole for entry in (hidden, heads, kv))
    where = reader.given("num_attention_heads", "n_head") or ""
    if not own_size and width % count:
        reader.complain(where, f"{count} heads do not divide a width of {width}", "correct one of the two")
    elif count % kv_count:
        what = f"{kv_count} key and value heads do not divide {count} query heads"
        reader.complain(key, what, "correct one of the two")


def note_activation(reader: Reader, name: str, usual: str, simulated: str) -> None:
    """Note an activation other than the one that is simulated."""
    word = reader.word(name, usual)
    if simulated not in word.replace("silu", "swish"):
        reader.notes.append(f"{name} is {printable(shown(word))}; {simulated} is simulated")


def architectures(config: ConfigFile) -> list[str]:
    """The texts under `architectures`."""
    names = config.data.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def class_count(reader: Reader) -> Entry:
    """Classes of a classifier, counted or as their number is written."""
    labels = reader.config.data.get("id2label")
    if labels is None:
        return reader.whole("class_count", ["num_labels"], 2, most=MOST_ROWS)
    if not isinstance(labels, dict) or not labels:
        what = f"needs an object with a label for each class, not {printable(shown(labels))}"
        reader.complain("id2label", what, 'write for example `{"0": "no", "1": "yes"}`')
        return Entry("class_count", 1)
    count = reader.whole("class_count", ["num_labels"], len(labels), most=MOST_ROWS)
    if reader.sound and count.value != len(labels):
        what = f"{count.value} classes, but id2label has {len(labels)}"
        reader.complain("num_labels", what, "correct one of the two")
    return Entry("class_count", len(labels), "entries of id2label")


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
