"""Bases, references and overrides: from a file that names others to one document.

A mapping with `base` takes everything from the file it names and lays its own keys over it. A key
that refers to another file (a pod's machine, a machine's chip) may hold a name, or such a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.specs.library import display_path, find
from podsim.specs.yaml_source import Document, KeyPath, parse_value, read_yaml

BASE = "base"
_REFERENCES: dict[str, dict[str, str]] = {
    "scenario": {"system": "pod", "software": "software"},
    "pod": {"machine": "machine"},
    "machine": {"ipu": "ipu"},
    "ipu": {"vertices": "vertices"},
    "vertices": {},
    "software": {},
}


def load_document(
    name: str, kind: str, beside: Path | None = None, place: str = "", chain: tuple[Path, ...] = ()
) -> Document:
    """A file with all its bases and references resolved.

    Raises:
        SpecError: A file is missing, wrong, of another kind, or its bases form a circle.
    """
    path = find(name, kind, beside, place)
    resolved = path.resolve()
    if resolved in chain:
        circle = " → ".join(each.name for each in (*chain[chain.index(resolved) :], resolved))
        raise SpecError(
            [Problem(place or display_path(path), BASE, f"base files form a circle: {circle}", "remove one `base`")]
        )
    document = read_yaml(path, display_path(path))
    given = document.data.get("kind", kind)
    if kind != "scenario" and given != kind:
        what = f"describes a {given}, a {kind} is needed here"
        raise SpecError([Problem(document.where(("kind",)), "kind", what, f"name a {kind} specification")])
    return resolve(document, kind, path.parent, (*chain, resolved))


def resolve(document: Document, kind: str, beside: Path | None, chain: tuple[Path, ...] = ()) -> Document:
    """Lay a document over its base, then resolve what it refers to."""
    document = _over_base(document, kind, beside, chain)
    for key, referred in _REFERENCES[kind].items():
        value = document.data.get(key)
        if isinstance(value, str):
            part = load_document(value, referred, beside, document.where((key,)))
        elif isinstance(value, dict):
            part = resolve(_part(document, key), referred, beside)
        else:
            continue
        document = _replace(document, key, part)
    return document


def _over_base(document: Document, kind: str, beside: Path | None, chain: tuple[Path, ...]) -> Document:
    name = document.data.get(BASE)
    if name is None:
        return document
    if not isinstance(name, str):
        raise SpecError([Problem(document.where((BASE,)), BASE, "needs the name of a file", "write `base: ipu_pod64`")])
    base = load_document(name, kind, beside, document.where((BASE,)), chain)
    own = {key: value for key, value in document.data.items() if key != BASE}
    inherited = {key: value for key, value in base.data.items() if key != "variants"}
    return merge(Document(inherited, base.places, base.inputs), Document(own, document.places, document.inputs))


def merge(base: Document, over: Document) -> Document:
    """Lay one document over another: mappings key by key, everything else as a whole.

    A number with its source (`value:`) and a mapping with a `base` of its own replace what was there.
    Keys laid over a name change a part of what the name stands for.
    """
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
            raise SpecError([Problem(place, "", "is not KEY=VALUE", "write for example `--set system=bow_pod64`")])
        data: Any = parse_value(text)
        for part in reversed(path):
            data = {part: data}
        places: Mapping[KeyPath, str] = {path[:length]: place for length in range(1, len(path) + 1)}
        document = merge(document, Document(data, places))
    return document
