"""Bases, references and overrides: from a file that names others to one document.

A mapping with `base` takes everything from the file it names and lays its own keys over it. A key
that refers to another file (a pod's machine, a machine's chip) may hold a name, or such a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.specs.auto import give_way, spelled_out
from podsim.specs.library import display_path, find
from podsim.specs.wording import shown, with_article
from podsim.specs.yaml_source import Document, KeyPath, parse_value, read_yaml

BASE = "base"
REFERENCES: dict[str, dict[str, str]] = {
    "scenario": {"system": "pod", "software": "software"},
    "image_scenario": {"system": "pod", "software": "software"},
    "decoder_scenario": {"system": "pod", "software": "software"},
    "vision_scenario": {"system": "pod", "software": "software"},
    "seq2seq_scenario": {"system": "pod", "software": "software"},
    "inference_scenario": {"system": "pod", "software": "software"},
    "forward_scenario": {"system": "pod", "software": "software"},
    "bert_pass": {"system": "pod", "software": "software"},
    "vision_pass": {"system": "pod", "software": "software"},
    "pod": {"machine": "machine", "host": "host"},
    "machine": {"ipu": "ipu"},
    "ipu": {"vertices": "vertices"},
    "vertices": {},
    "host": {},
    "software": {},
}
_EXAMPLES = {
    "scenario": "template",
    "pod": "ipu_pod64",
    "machine": "ipu_m2000",
    "ipu": "ipu_gc200",
    "vertices": "vertices_mk2",
    "host": "host_r6525",
    "software": "popart_sdk_2.3",
}


def load_document(
    name: str,
    kind: str,
    beside: Path | None = None,
    place: str = "",
    key: KeyPath = (),
    chain: tuple[Path, ...] = (),
) -> Document:
    """A file with all its bases and references resolved.

    Args:
        name: A path, or a name.
        kind: What the file must describe.
        beside: Folder of the file that names it.
        place: `file:line:column` of the name.
        key: Key that holds the name.
        chain: Files whose base it is, or whose base's base.

    Raises:
        SpecError: A file is missing, wrong, of another kind, or its bases form a circle.
    """
    dotted = ".".join(map(str, key))
    path = find(name, kind, beside, place, dotted)
    resolved = path.resolve()
    if resolved in chain:
        circle = " → ".join(each.name for each in (*chain[chain.index(resolved) :], resolved))
        raise SpecError([Problem(place, dotted, f"base files form a circle: {circle}", "remove one `base`")])
    document = read_yaml(path, display_path(path))
    given = document.data.get("kind", kind)
    if kind != "scenario" and given != kind:
        where, what = place or document.where(("kind",)), with_article(kind)
        described = with_article(given) if given in REFERENCES else f"kind {shown(given)}"
        message = f"`{name}` describes {described}; {what} is needed here"
        raise SpecError([Problem(where, dotted, message, f"name the file of {what}")])
    return resolve(document, kind, path.parent, (), (*chain, resolved))


def resolve(
    document: Document, kind: str, beside: Path | None, within: KeyPath = (), chain: tuple[Path, ...] = ()
) -> Document:
    """Lay a document over its base, then resolve what it refers to.

    Args:
        document: A file, or a part of one.
        kind: What it describes.
        beside: Folder of the file.
        within: Key of the part, for messages.
        chain: Files whose base it is, or whose base's base; the file itself comes last.
    """
    document = _over_base(document, kind, beside, within, chain)
    for key, referred in REFERENCES[kind].items():
        value, path = document.data.get(key), (*within, key)
        if isinstance(value, str):
            part = load_document(value, referred, beside, document.where((key,)), path)
        elif isinstance(value, dict):
            part = resolve(_part(document, key), referred, beside, path)
        elif key in document.data:
            what = f"needs the name of {with_article(referred)}, or a mapping, not {shown(value)}"
            raise _problem(document, key, path, what, f"write for example `{key}: {_EXAMPLES[referred]}`")
        else:
            continue
        document = _replace(document, key, part)
    return document


def _problem(document: Document, key: str, path: KeyPath, message: str, do: str) -> SpecError:
    return SpecError([Problem(document.where((key,)), ".".join(map(str, path)), message, do)])


def _over_base(
    document: Document, kind: str, beside: Path | None, within: KeyPath, chain: tuple[Path, ...]
) -> Document:
    if BASE not in document.data:
        return document
    name, place, key = document.data[BASE], document.where((BASE,)), (*within, BASE)
    if not isinstance(name, str):
        what = f"needs the name of a file, not {shown(name)}"
        raise _problem(document, BASE, key, what, f"write for example `base: {_EXAMPLES[kind]}`")
    base = load_document(name, kind, beside, place, key, chain)
    own = {key: value for key, value in document.data.items() if key != BASE}
    inherited = {key: value for key, value in base.data.items() if key != "variants"}
    return merge(Document(inherited, base.places, base.inputs), Document(own, document.places, document.inputs))


def merge(base: Document, over: Document) -> Document:
    """Lay one document over another: mappings key by key, everything else as a whole.

    A number with its source (`value:`) and a mapping with a `base` of its own replace what was there.
    Keys laid over a name change a part of what the name stands for. `parallelism: auto` takes the place
    of a division, whose batch size it keeps.
    """
    base, over = spelled_out(base), spelled_out(over)
    base = give_way(base, over)
    places = dict(base.places)
    data = _merge(base.data, over.data, (), places, over)
    inputs = base.inputs + tuple(each for each in over.inputs if each not in base.inputs)
    return Document(data, places, inputs)


def _merge(base: Any, over: Any, path: KeyPath, places: dict[KeyPath, str], source: Document) -> Any:
    own_start = not isinstance(over, dict) or bool({BASE, "value"} & set(over))
    if isinstance(base, str) and not own_start:
        base = {BASE: base}
        places[(*path, BASE)] = places.get(path, "")
    mergeable = isinstance(base, dict) and not own_start
    if path in source.places:
        places[path] = source.places[path]
    if not mergeable:
        for stale in [key for key in places if key[: len(path)] == path and len(key) > len(path)]:
            del places[stale]
        places.update({key: place for key, place in source.places.items() if key[: len(path)] == path})
        return over
    merged = dict(base)
    for key, value in over.items():
        merged[key] = _merge(base.get(key), value, (*path, key), places, source)
    return merged


def _part(document: Document, key: str) -> Document:
    places = {path[1:]: place for path, place in document.places.items() if path[:1] == (key,)}
    return Document(document.data[key], places)


def _replace(document: Document, key: str, part: Document) -> Document:
    places = {path: place for path, place in document.places.items() if path[:1] != (key,) or len(path) == 1}
    places.update({(key, *path): place for path, place in part.places.items() if path})
    inputs = document.inputs + tuple(each for each in part.inputs if each not in document.inputs)
    return Document(document.data | {key: part.data}, places, inputs)


def override(document: Document, assignments: Sequence[str]) -> Document:
    """Apply `key.path=value` texts.

    Raises:
        SpecError: A text has no `=` or no key.
    """
    for assignment in assignments:
        key, sign, text = assignment.partition("=")
        place = f"--set {assignment}"
        path = tuple(key.strip().split("."))
        if not sign or not all(path):
            message, do = "this is not KEY=VALUE", "write for example `--set system=bow_pod64`"
            raise SpecError([Problem(place, "", message, do)])
        data: Any = parse_value(text)
        for part in reversed(path):
            data = {part: data}
        places: Mapping[KeyPath, str] = {path[:length]: place for length in range(1, len(path) + 1)}
        document = merge(document, Document(data, places))
    return document
