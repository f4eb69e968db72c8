"""Options of an import, and the first lines of every imported scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from podsim.errors import PodsimError
from podsim.escaped import printable
from podsim.importer.reader import ConfigFile, Entry, Reader
from podsim.importer.scenario_text import ScenarioSection
from podsim.models.graph.node import LARGEST_DIMENSION
from podsim.scenario.wording import quoted

MOST_LAYERS, MOST_WIDTH, MOST_ROWS = 10_000, 1_000_000, 10_000_000
_NO_POSITIONS = Entry("positions", 0)


@dataclass(frozen=True, slots=True)
class Imported:
    """Imported model as entries of a scenario."""

    config: ConfigFile  # the file it was read from
    family: str  # architecture, as `model_type` names it
    kind: Literal["decoder", "bert", "vit", "t5"]  # family of models that the scenario belongs to
    purpose: str  # description of the scenario, such as `pre-training`
    model: tuple[Entry, ...]  # keys under `model`
    notes: tuple[str, ...]  # properties in the file that a scenario cannot express
    data: tuple[Entry, ...] = ()  # keys under `data`, of a training scenario
    positions: Entry = _NO_POSITIONS  # tokens that a decoder has positions for
    positions_bind: bool = False  # True if longer sequences are impossible
    window: Entry | None = None  # tokens that a token of a decoder attends to at most; None without a window


@dataclass(frozen=True, slots=True)
class ConfigFamily:
    """Architecture of Hugging Face Transformers with its reader."""

    class_name: str  # beginning of the names of its classes
    read: Callable[[Reader], Imported]  # reads the keys of a file of this architecture


def always(reader: Reader) -> str:
    """Return the origin of a value that all models of the family share."""
    return f"in every {reader.family} model"


def check_heads(
    reader: Reader, hidden: Entry, heads: Entry, kv: Entry, *, key: str = "num_key_value_heads", own_size: bool = False
) -> None:
    """Record a problem if the query heads do not divide the width, or the key and value heads the query heads.

    `key` is the key of the key and value heads; heads of a size of their own (`own_size`) need not divide the width.
    """
    if not reader.sound:
        return
    width, count, kv_count = (entry.whole for entry in (hidden, heads, kv))
    where = reader.used_name("num_attention_heads", "n_head") or ""
    if not own_size and width % count:
        reader.complain(where, f"{count} heads do not divide a width of {width}", "correct one of the two")
    elif count % kv_count:
        what = f"{kv_count} key and value heads do not divide {count} query heads"
        reader.complain(key, what, "correct one of the two")


def note_activation(reader: Reader, name: str, usual: str, simulated: str) -> None:
    """Note an activation other than the simulated one."""
    activation = reader.word(name, usual)
    if simulated not in activation.replace("silu", "swish"):
        reader.notes.append(f"{name} is {printable(quoted(activation))}; {simulated} is simulated")


def architectures(config: ConfigFile) -> list[str]:
    """Return the class names under `architectures`."""
    names = config.data.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def class_count(reader: Reader) -> Entry:
    """Return the number of classes of a classifier, from its labels or from `num_labels`."""
    labels = reader.config.data.get("id2label")
    if labels is None:
        return reader.whole("class_count", ["num_labels"], 2, most=MOST_ROWS)
    if not isinstance(labels, dict) or not labels:
        what = f"needs an object with a label for each class, not {printable(quoted(labels))}"
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
    """Options of an import."""

    system: str = _DEFAULT_SYSTEM  # a pod, by name or path
    prompt_tokens: int | None = None  # tokens of a prompt, of a decoder
    output_tokens: int | None = None  # tokens generated for it, of a decoder
    batch_size: int | None = None  # sequences or images that go through the model together
    dimensions: Mapping[str, int] = field(default_factory=dict)  # sizes of the dimensions that a graph leaves open
    folder: Path | None = None  # future folder of the scenario, which names a graph's file relative to it
    activity: str | None = None  # `train`, `forward` or `generate`; None for the usual activity of the model
    precision: str | None = None  # number format; None for half precision


def parse_dimensions(texts: Sequence[str]) -> dict[str, int]:
    """Return the sizes of `--dimension NAME=SIZE` options by name.

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
            raise PodsimError(f"the size {quoted(size)} is not a whole number in digits", where=where, do=do)
        if len(size) > _MOST_DIGITS:
            raise PodsimError("the size is too large", where=where, do=f"give it a size from 1 to {LARGEST_DIMENSION}")
        if name in sizes:
            raise PodsimError(f"dimension `{printable(name)}` is given twice", where=where, do="keep one of the two")
        sizes[name] = int(size)
    return sizes


def top(model: Imported, request: Request, software: str, purpose: str, why: str = "") -> ScenarioSection:
    """Return description, system and software; `why` is the reason for the software."""
    sizes = {entry.key: entry.value for entry in model.model}
    description = f"{model.family}, {sizes['layer_count']} layers of width {sizes['hidden_size']}, {purpose}"
    entries = (
        Entry("description", description),
        Entry("system", request.system, "--system"),
        Entry("software", software, why),
    )
    return ScenarioSection("", entries)


def header(model: Imported, parameter_count: int, notes: Sequence[str]) -> Iterator[str]:
    """Yield the comment at the top: file, contents, and what is not simulated."""
    yield f"Written by `podsim import` from {model.config.name}"
    yield f"SHA-256 {model.config.sha256}"
    yield f"{parameter_count:,} parameters. Next to a value: the key of that file, or the option, that it comes from."
    for note in notes:
        yield f"Note: {note}."


def option(key: str, requested: int | None, default: int) -> Entry:
    """Return the entry of a key that a command-line option sets, or of its default."""
    name = f"--{key.replace('_', '-')}"
    return Entry(key, default, f"{name} was not given") if requested is None else Entry(key, requested, name)
