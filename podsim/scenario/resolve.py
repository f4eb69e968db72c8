"""Bases, references and overrides: from a file that names others to one document.

A mapping with `base` takes everything from the file it names and lays its own keys over it. A key
that refers to another file (a pod's machine, a machine's chip) may hold a name, or such a mapping.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from podsim import memo
from podsim.errors import Problem, SpecError
from podsim.scenario.auto import spelled_out, without_given_division
from podsim.scenario.document import MAX_DEPTH, NO_TEXT, Document, KeyPath, is_text
from podsim.scenario.library import Name, display_path, find, unread_namesakes
from podsim.scenario.replacing import BASE, keep_choices
from podsim.scenario.wording import dotted, shown, with_article
from podsim.scenario.yaml_source import parse_value, read_yaml

REFERENCES: dict[str, dict[str, str]] = {
    "scenario": {"system": "pod", "software": "software"},
    "pod": {"machine": "machine", "host": "host"},
    "machine": {"ipu": "ipu"},
    "ipu": {"vertices": "vertices"},
    "vertices": {},
    "host": {},
    "software": {},
}
_LONGEST_PLACE = 200
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
    folders: Sequence[Path] = (),
    place: str = "",
    key: KeyPath = (),
    chain: tuple[Path, ...] = (),
) -> Document:
    """A file with all its bases and references resolved.

    Args:
        name: A path, or a name.
        kind: What the file must describe.
        folders: Where it is looked up first.
        place: `file:line:column` of the name.
        key: Key that holds the name.
        chain: Files whose base it is, or whose base's base.

    Raises:
        SpecError: A file is missing, wrong, of another kind, or its bases form a circle.
    """
    asked = ("resolved", *_asked(name, kind, folders, chain))
    return memo.of_file(asked, lambda: _load(name, kind, folders, place, key, chain))


def _asked(name: str, kind: str, folders: Sequence[Path], chain: tuple[Path, ...]) -> tuple[Hashable, ...]:
    """All that decides which file a name stands for."""
    return name, name.folders if isinstance(name, Name) else (), kind, tuple(folders), chain


def _load(name: str, kind: str, folders: Sequence[Path], place: str, key: KeyPath, chain: tuple[Path, ...]) -> Document:
    document, path = read_named(name, kind, folders, place, key, chain)
    given = document.data.get("kind", kind)
    if given != kind:
        where, what = place or document.where(("kind",)), with_article(kind)
        described = with_article(given) if isinstance(given, str) and given in REFERENCES else f"kind {shown(given)}"
        message = f"`{name}` describes {described}; {what} is needed here"
        raise SpecError([Problem(where, dotted(key), message, f"name the file of {what}")])
    return resolve(document, kind, (path.parent,), (), (*chain, path.resolve()))


def read_named(
    name: str,
    kind: str,
    folders: Sequence[Path] = (),
    place: str = "",
    key: KeyPath = (),
    chain: tuple[Path, ...] = (),
) -> tuple[Document, Path]:
    """A file as it is written, and its path; arguments as of `load_document`.

    Raises:
        SpecError: The file is missing, wrong, or among the files whose base it is.
    """
    asked = ("written", *_asked(name, kind, folders, chain))
    return memo.of_file(asked, lambda: _read(name, kind, folders, place, key, chain))


def _read(
    name: str, kind: str, folders: Sequence[Path], place: str, key: KeyPath, chain: tuple[Path, ...]
) -> tuple[Document, Path]:
    path = find(name, kind, folders, place, dotted(key))
    resolved = path.resolve()
    if resolved in chain:
        circle = " → ".join(each.name for each in (*chain[chain.index(resolved) :], resolved))
        raise SpecError([Problem(place, dotted(key), f"base files form a circle: {circle}", "remove one `base`")])
    document = read_yaml(path, display_path(path))
    return replace(document, notices=tuple(unread_namesakes(name, kind, folders))), path


def resolve(
    document: Document,
    kind: str,
    folders: Sequence[Path],
    within: KeyPath = (),
    chain: tuple[Path, ...] = (),
) -> Document:
    """Lay a document over its base, then resolve what it refers to.

    Args:
        document: A file, or a part of one.
        kind: What it describes.
        folders: Where names are looked up first.
        within: Key of the part, for messages.
        chain: Files whose base it is, or whose base's base; the file itself comes last.
    """
    document = _over_base(document, kind, folders, within, chain)
    for key, referred in REFERENCES[kind].items():
        value, path = document.data.get(key), (*within, key)
        if isinstance(value, str):
            part = load_document(value, referred, folders, document.where((key,)), path)
        elif isinstance(value, dict):
            part = resolve(_part(document, key), referred, folders, path)
        elif key in document.data:
            what = f"needs the name of {with_article(referred)}, or a mapping, not {shown(value)}"
            raise _problem(document, key, path, what, f"write for example `{key}: {_EXAMPLES[referred]}`")
        else:
            continue
        document = _replace(document, key, part)
    return document


def _problem(document: Document, key: str, path: KeyPath, message: str, do: str) -> SpecError:
    return SpecError([Problem(document.where((key,)), dotted(path), message, do)])


def _over_base(
    document: Document, kind: str, folders: Sequence[Path], within: KeyPath, chain: tuple[Path, ...]
) -> Document:
    if BASE not in document.data:
        return document
    name, key = base_name(document, kind, within), (*within, BASE)
    base = load_document(name, kind, folders, document.where((BASE,)), key, chain)
    return merge(base, without(document, BASE))


def base_name(document: Document, kind: str, within: KeyPath = ()) -> str:
    """The name of the base of a document.

    Raises:
        SpecError: It is not a name.
    """
    name = document.data[BASE]
    if not isinstance(name, str):
        what = f"needs the name of a file, not {shown(name)}"
        raise _problem(document, BASE, (*within, BASE), what, f"write for example `base: {_EXAMPLES[kind]}`")
    return name


def without(document: Document, *keys: str) -> Document:
    """The document without some of its keys."""
    return replace(document, data={key: value for key, value in document.data.items() if key not in keys})


def located(data: Any, kind: str, folders: Sequence[Path]) -> Any:
    """Data whose names remember the folders of the file they were written in, whatever they are laid over."""
    if not isinstance(data, dict):
        return data
    known = dict(data)
    if isinstance(known.get(BASE), str):
        known[BASE] = Name.within(known[BASE], folders)
    for key, referred in REFERENCES[kind].items():
        if isinstance(known.get(key), str):
            known[key] = Name.within(known[key], folders)
        elif key in known:
            known[key] = located(known[key], referred, folders)
    return known


def lay_over(base: Document, over: Document) -> Document:
    """Lay keys over a scenario as `merge` does, but note what is lost beside the name of a pod."""
    return merge(base, keep_choices(base, over))


def merge(base: Document, over: Document) -> Document:
    """Lay one document over another: mappings key by key, everything else as a whole.

    A number with its source (`value:`) and a mapping with a `base` of its own replace what was there.
    Keys laid over a name change a part of what the name stands for. `parallelism: auto` takes the place
    of a division, whose batch size it keeps.
    """
    base, over = spelled_out(base), spelled_out(over)
    base = without_given_division(base, over)
    places = dict(base.places)
    data = _merge(base.data, over.data, (), places, over)
    return replace(_joined(base, over), data=data, places=places)


def _joined(document: Document, part: Document) -> Document:
    """A document with the inputs, notices and replaced keys of another that becomes part of it."""
    return replace(
        document,
        inputs=tuple(dict.fromkeys((*document.inputs, *part.inputs))),
        notices=tuple(dict.fromkeys((*document.notices, *part.notices))),
        replaced=(*document.replaced, *part.replaced),
    )


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
    return replace(_joined(document, part), data=document.data | {key: part.data}, places=places)


def assigned(text: Any) -> Document:
    """The document that `key.path=value` stands for.

    Raises:
        SpecError: It is no text, has no `=` or no key, or is nested beyond reason.
    """
    place = f"--set {text}" if len(str(text)) <= _LONGEST_PLACE else f"--set {str(text)[:_LONGEST_PLACE]}…"
    key, sign, value = text.partition("=") if isinstance(text, str) else ("", "", "")
    path = tuple(key.strip().split("."))
    if not sign or not all(path) or not is_text(key):
        message, do = "this is not KEY=VALUE", "write for example `--set system=bow_pod64`"
        raise SpecError([Problem(f"--set {shown(text).strip('`')}", "", message, do)])
    if not is_text(value):
        raise SpecError([Problem("--set", dotted(path), *NO_TEXT)])
    if len(path) > MAX_DEPTH:
        message, do = f"a key of {len(path)} parts", "no key is nested that deep; `podsim schema` shows all"
        raise SpecError([Problem(f"--set {shown(text).strip('`')}", "", message, do)])
    data: Any = parse_value(value)
    for part in reversed(path):
        data = {part: data}
    return Document(data, {path[:length]: place for length in range(1, len(path) + 1)})
