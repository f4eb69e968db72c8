"""Bases, references and overrides: merging a file and the files that it names into one document.

A mapping with `base` takes everything from the file that it names; its own keys override. A key that refers to another
file (a pod's machine, a machine's chip) may be a name, or such a mapping. Base, file, variant and each `--set` are
merged in this order.

If another pod or stack is named in place of one with keys next to its name, hosts are a choice of the scenario and
stay. Every other key was meant for the replaced pod or stack. Losing such a key is an error, unless it is written again
or removed with `null`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any, Final

from podsim import memo
from podsim.errors import Problem, SpecError
from podsim.scenario.auto import spelled_out, without_given_division
from podsim.scenario.document import LONE_SURROGATE, MAX_DEPTH, VALUE, Document, KeyPath, Replaced, is_text, plain_data
from podsim.scenario.library import Name, display_path, find, shipped, unread_namesakes
from podsim.scenario.wording import dotted, known_here, quoted, setting, with_article
from podsim.scenario.yaml_file import parse_value, read_yaml

BASE = "base"
_TOP_KEYS = ("system", "software")
_REFERENCES = (*_TOP_KEYS, "machine", "ipu", "vertices", "host")
_CHOICES: dict[KeyPath, tuple[str, ...]] = {("system",): ("host_count", "host")}
"""Keys of a pod that are choices of the scenario, and stay if another pod is named."""


def _with_kept_choices(base: Document, over: Document) -> Document:
    """Return `over` with the choices of `base` that stay when it names another pod, and a record of all other keys."""
    for path in [path for top in _TOP_KEYS for path in _renamed(base.data.get(top), over.data.get(top), (top,))]:
        over = _with_choices(base, over, path)
    return over


def _renamed(was: Any, new: Any, path: KeyPath) -> Iterator[KeyPath]:
    """Yield the key paths at which another file is named in place of a mapping."""
    if not isinstance(was, dict):
        return
    if isinstance(new, str) or (isinstance(new, dict) and BASE in new):
        yield path
    elif isinstance(new, dict):
        for key in (key for key in _REFERENCES if key in new and key in was):
            yield from _renamed(was[key], new[key], (*path, key))


def _with_choices(base: Document, over: Document, path: KeyPath) -> Document:
    """Return `over` with the kept choices and the record for one name, which is at `path`."""
    was, new = base.value_at(path), over.value_at(path)
    new = {BASE: new} if isinstance(new, str) else new
    choices = [key for key in _CHOICES.get(path, ()) if was.get(key) is not None and key not in new]
    given_whole = BASE not in was and len(path) == 1
    lost = [
        key
        for key in _leaf_paths(was)
        if key != (BASE,) and key[0] not in choices and not (given_whole or _is_written(new, key))
    ]
    replaced = [_replaced(base, over, path, (key,), kept=True) for key in choices]
    replaced += [_replaced(base, over, path, key, kept=False) for key in lost]
    places = dict(over.places)
    if choices:
        new = new | {key: was[key] for key in choices}
        kept = {(*path, key) for key in choices}
        places |= {key: place for key, place in base.places.items() if key[: len(path) + 1] in kept}
        places.setdefault((*path, BASE), over.where(path))
    return replace(
        over,
        data=over.data | {path[0]: new} if choices else over.data,
        places=places,
        replaced=(*over.replaced, *replaced),
    )


def _replaced(base: Document, over: Document, path: KeyPath, key: KeyPath, *, kept: bool) -> Replaced:
    full = (*path, *key)
    return Replaced(full, base.value_at(full), base.where(full), over.where(path), kept)


def _leaf_paths(data: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the key paths of all values; a number with its source counts as one value."""
    if isinstance(data, dict) and VALUE not in data:
        for key, value in data.items():
            yield from _leaf_paths(value, (*path, key))
    elif data is not None:
        yield path


def _is_written(data: Any, path: KeyPath) -> bool:
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True


def _settled(document: Document) -> Document:
    """Return a merged document without keys that `null` removes, and with only the kept choices in `replaced`.

    Raises:
        SpecError: Keys next to the name of a pod or stack are lost, since another one was named.
    """
    problems, kept = [], []
    for record in document.replaced:
        if not _is_written(document.data, record.key):
            problems.append(_loss_problem(record))
        elif document.value_at(record.key) is None:
            document = _without(document, record.key)
        elif record.kept and document.where(record.key) == record.place:
            kept.append(record)
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return replace(document, replaced=tuple(kept))


def _loss_problem(lost: Replaced) -> Problem:
    origin = f"written at {lost.place}" if lost.place else "written"
    what = f"what is named here would drop {dotted(lost.key)}, {origin} for what was named before"
    keep, drop = setting(lost.key, lost.value), setting(lost.key, None)
    return Problem(lost.by, dotted(lost.key[:1]), what, f"keep it with `{keep}`, or drop it with `{drop}`")


def _kept_choice_notice(kept: Replaced, pod: str, pod_value: Any) -> str:
    """Return the notice that a choice stays, which differs from the value of the new pod."""
    origin = f", as {kept.place} has it" if kept.place else ""
    value, drop = quoted(kept.value), setting(kept.key, None)
    return f"{dotted(kept.key)} stays {value}{origin}; `{pod}` has {quoted(pod_value)} of its own: `{drop}` takes that"


def _without(document: Document, path: KeyPath) -> Document:
    return replace(document, data=_pruned(document.data, path))


def _pruned(data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    """Return the data without a key, and without mappings that become empty."""
    key, rest = str(path[0]), path[1:]
    inner = _pruned(data[key], rest) if rest else {}
    return {name: inner if name == key else value for name, value in data.items() if name != key or inner}


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
    """Return a file with all its bases and references resolved.

    `place` and `key` are those of the name, for messages; `chain` has the files that led to it, to find circles.
    """
    cache_key = ("resolved", *_lookup_key(name, kind, folders, chain))
    return memo.file_content(cache_key, lambda: _load(name, kind, folders, place, key, chain))


def _lookup_key(name: str, kind: str, folders: Sequence[Path], chain: tuple[Path, ...]) -> tuple[Hashable, ...]:
    """Return the key of a cache: all that determines which file a name means."""
    return name, name.folders if isinstance(name, Name) else (), kind, tuple(folders), chain


def _load(name: str, kind: str, folders: Sequence[Path], place: str, key: KeyPath, chain: tuple[Path, ...]) -> Document:
    document, path = read_named(name, kind, folders, place, key, chain)
    given = document.data.get("kind", kind)
    if given != kind:
        where, expected = place or document.where(("kind",)), with_article(kind)
        described = with_article(given) if isinstance(given, str) and given in REFERENCES else f"kind {quoted(given)}"
        message = f"`{name}` describes {described}; {expected} is needed here"
        prefixed_name = f"{kind}_{name}"
        do = f"write `{prefixed_name}`" if shipped(prefixed_name, kind) else f"name the file of {expected}"
        raise SpecError([Problem(where, dotted(key), message, do)])
    return resolve(document, kind, (path.parent,), (), (*chain, path.resolve()))


def read_named(
    name: str,
    kind: str,
    folders: Sequence[Path] = (),
    place: str = "",
    key: KeyPath = (),
    chain: tuple[Path, ...] = (),
) -> tuple[Document, Path]:
    """Return a file as written, and its path; arguments as for `load_document`."""
    cache_key = ("written", *_lookup_key(name, kind, folders, chain))
    return memo.file_content(cache_key, lambda: _read(name, kind, folders, place, key, chain))


def _read(
    name: str, kind: str, folders: Sequence[Path], place: str, key: KeyPath, chain: tuple[Path, ...]
) -> tuple[Document, Path]:
    path = find(name, kind, folders, place, dotted(key))
    resolved = path.resolve()
    if resolved in chain:
        circle = " → ".join(file.name for file in (*chain[chain.index(resolved) :], resolved))
        raise SpecError([Problem(place, dotted(key), f"base files form a circle: {circle}", "remove one `base`")])
    document = read_yaml(path, display_path(path))
    return replace(document, namesakes=tuple(unread_namesakes(name, kind, folders))), path


def resolve(
    document: Document,
    kind: str,
    folders: Sequence[Path],
    within: KeyPath = (),
    chain: tuple[Path, ...] = (),
) -> Document:
    """Return the document merged over its base, with the files that its references name in their place.

    `within` is the key path of the document in the whole scenario.
    """
    document = _merged_over_base(document, kind, folders, within, chain)
    for key, referred in REFERENCES[kind].items():
        value, path = document.data.get(key), (*within, key)
        if isinstance(value, str):
            part = load_document(value, referred, folders, document.where((key,)), path)
        elif isinstance(value, dict):
            part = resolve(_part(document, key), referred, folders, path)
        elif key in document.data:
            what = f"needs the name of {with_article(referred)}, or a mapping, not {quoted(value)}"
            raise _problem(document, key, path, what, f"write for example `{key}: {_EXAMPLES[referred]}`")
        else:
            continue
        document = _replace(document, key, part)
    return document


def _problem(document: Document, key: str, path: KeyPath, message: str, do: str) -> SpecError:
    return SpecError([Problem(document.where((key,)), dotted(path), message, do)])


def _merged_over_base(
    document: Document, kind: str, folders: Sequence[Path], within: KeyPath, chain: tuple[Path, ...]
) -> Document:
    if BASE not in document.data:
        return document
    name, key = base_name(document, kind, within), (*within, BASE)
    base = load_document(name, kind, folders, document.where((BASE,)), key, chain)
    return merge(base, without(document, BASE))


def base_name(document: Document, kind: str, within: KeyPath = ()) -> str:
    """Return the name of a document's base."""
    name = document.data[BASE]
    if not isinstance(name, str):
        what = f"needs the name of a file, not {quoted(name)}"
        raise _problem(document, BASE, (*within, BASE), what, f"write for example `base: {_EXAMPLES[kind]}`")
    return name


def without(document: Document, *keys: str) -> Document:
    """Return the document without some of its keys."""
    return replace(document, data={key: value for key, value in document.data.items() if key not in keys})


def with_folders(data: Any, kind: str, folders: Sequence[Path]) -> Any:
    """Return the data with names of files that know the folders they are looked up in, also after merging."""
    if not isinstance(data, dict):
        return data
    located = dict(data)
    if isinstance(located.get(BASE), str):
        located[BASE] = Name.within(located[BASE], folders)
    for key, referred in REFERENCES[kind].items():
        if isinstance(located.get(key), str):
            located[key] = Name.within(located[key], folders)
        elif key in located:
            located[key] = with_folders(located[key], referred, folders)
    return located


def merge_recorded(base: Document, over: Document) -> Document:
    """Return `over` merged over `base`, with a record of keys next to the name of a pod that another name replaces."""
    return merge(base, _with_kept_choices(base, over))


def merge(base: Document, over: Document) -> Document:
    """Return `over` merged over `base`: mappings key by key, everything else as a whole.

    A number with its source (`value:`) and a mapping with its own `base` replace the old value. Keys over a name change
    a part of the named file. `parallelism: auto` replaces a layout but keeps its batch size.
    """
    base, over = spelled_out(base), spelled_out(over)
    base = without_given_division(base, over)
    places = dict(base.places)
    data = _merge(base.data, over.data, (), places, over)
    return replace(_with_origins(base, over), data=data, places=places)


def _with_origins(document: Document, part: Document) -> Document:
    """Return the document with the inputs, notices, namesakes and replaced keys of a merged part as well."""
    return replace(
        document,
        inputs=tuple(dict.fromkeys((*document.inputs, *part.inputs))),
        notices=tuple(dict.fromkeys((*document.notices, *part.notices))),
        namesakes=tuple(dict.fromkeys((*document.namesakes, *part.namesakes))),
        replaced=(*document.replaced, *part.replaced),
    )


def _merge(base: Any, over: Any, path: KeyPath, places: dict[KeyPath, str], source: Document) -> Any:
    replaces = not isinstance(over, dict) or bool({BASE, VALUE} & set(over))
    if isinstance(base, str) and not replaces:
        base = {BASE: base}
        places[(*path, BASE)] = places.get(path, "")
    mergeable = isinstance(base, dict) and not replaces
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
    return replace(_with_origins(document, part), data=document.data | {key: part.data}, places=places)


def assigned(text: Any) -> Document:
    """Return the document for `key.path=value`."""
    place = f"--set {text}" if len(str(text)) <= _LONGEST_PLACE else f"--set {str(text)[:_LONGEST_PLACE]}…"
    key, sign, value = text.partition("=") if isinstance(text, str) else ("", "", "")
    path = tuple(key.strip().split("."))
    if not sign or not all(path) or not is_text(key):
        message, do = "this is not KEY=VALUE", "write for example `--set system=bow_pod64`"
        raise SpecError([Problem(f"--set {quoted(text).strip('`')}", "", message, do)])
    if not is_text(value):
        raise SpecError([Problem("--set", dotted(path), *LONE_SURROGATE)])
    if len(path) > MAX_DEPTH:
        message, do = f"a key of {len(path)} parts", "no key is nested that deep; `podsim schema` shows all"
        raise SpecError([Problem(f"--set {quoted(text).strip('`')}", "", message, do)])
    data: Any = parse_value(value)
    for part in reversed(path):
        data = {part: data}
    return Document(data, {path[:length]: place for length in range(1, len(path) + 1)})


KIND, VARIANTS, EXPECT = "scenario", "variants", "expect"


@dataclass(frozen=True, slots=True)
class Written:
    """Scenario as written, neither merged over its base nor resolved."""

    name: str  # display name
    document: Document  # contents of the file, or the mapping
    path: Path | None = None  # path of the file; None for a mapping

    @property
    def folder(self) -> Path:
        """Folder in which files that the scenario names are looked up."""
        return Path() if self.path is None else self.path.parent

    @property
    def variants(self) -> Mapping[str, Any]:
        """Variants: named sets of overriding keys."""
        given = self.document.data.get(VARIANTS)
        named = {} if given is None else given
        if not isinstance(named, dict) or not all(isinstance(each, dict) for each in named.values()):
            what, do = "needs a mapping of names to mappings", "write `variants: {name: {key: value}}`"
            raise SpecError([Problem(self.document.where((VARIANTS,)), VARIANTS, what, do)])
        return named


def read_written(source: object) -> Written:
    """Return the scenario of a path, a shipped name or a mapping, as written."""
    if isinstance(source, Mapping):
        return Written("scenario", Document(plain_data(source)))
    if not isinstance(source, (str, os.PathLike)) or not isinstance(os.fspath(source), str):
        what = f"a scenario is a path, a name or a mapping, not {quoted(source)}"
        raise SpecError([Problem("", "", what, "give for example `bert_v1.1_pod16_open`")])
    document, path = read_named(os.fspath(source), KIND)
    return Written(path.stem, document, path)


def resolved_layers(written: Written, variant: str | None, overrides: Sequence[str]) -> Document:
    """Return the resolved scenario: bases, file, variant and overrides merged, and the files that it names read."""
    document = merged_layers(written, variant, overrides)
    notices = tuple(_kept_choice_notices(document, written.folder))
    return resolve(replace(document, notices=(*document.notices, *notices), replaced=()), KIND, (written.folder,))


def _kept_choice_notices(document: Document, folder: Path) -> Iterator[str]:
    for kept in document.replaced:
        pod = document.value_at((*kept.key[:-1], BASE))
        pod_value = _pod_value(pod, str(kept.key[-1]), (folder,)) if isinstance(pod, str) else None
        if pod_value is not None and pod_value != kept.value:
            yield _kept_choice_notice(kept, pod, pod_value)


def _pod_value(name: str, key: str, folders: tuple[Path, ...]) -> Any:
    """Return the value of a key in the file of a pod or its nearest base, or None if the pod cannot be read."""
    for _ in range(MAX_DEPTH):
        try:
            pod, path = read_named(name, "pod", folders)
        except SpecError:
            return None
        if key in pod.data or not isinstance(pod.data.get(BASE), str):
            return pod.data.get(key)
        name, folders = pod.data[BASE], (path.parent,)
    return None


def merged_layers(written: Written, variant: str | None, overrides: Sequence[str]) -> Document:
    """Return the merged scenario: bases, file, variant and overrides, with names of pods and stacks as written."""
    return _settled(reduce(merge_recorded, layers_of(written, variant, overrides)))


def layers_of(written: Written, variant: str | None, overrides: Sequence[str]) -> list[Document]:
    """Return the documents to merge, in this order: bases, most distant first; file; variant; overrides."""
    layers = [without(written.document, VARIANTS), *_variant_layers(written, variant)]
    layers = [_layer_with_folders(layer, (written.folder,)) for layer in layers]
    layers += [_layer_with_folders(assigned(text), (Path(), written.folder)) for text in overrides]
    chain = () if written.path is None else (written.path.resolve(),)
    naming = next((layer for layer in reversed(layers) if BASE in layer.data), None)
    bases = [] if naming is None else _bases(naming, (written.folder,), chain)
    return [*bases, *(without(layer, BASE) for layer in layers)]


def _layer_with_folders(layer: Document, folders: tuple[Path, ...]) -> Document:
    return replace(layer, data=with_folders(layer.data, KIND, folders))


def _bases(document: Document, folders: tuple[Path, ...], chain: tuple[Path, ...]) -> list[Document]:
    """Return the bases of a scenario, the most distant first, without variants and expectations."""
    name = base_name(document, KIND)
    base, path = read_named(name, KIND, folders, document.where((BASE,)), (BASE,), chain)
    base = _layer_with_folders(without(base, VARIANTS, EXPECT), (path.parent,))
    further = _bases(base, (path.parent,), (*chain, path.resolve())) if BASE in base.data else []
    return [*further, without(base, BASE)]


def _variant_layers(written: Written, variant: str | None) -> list[Document]:
    """Return the layer of the chosen variant, or no layer without a variant."""
    variants, document = written.variants, written.document
    if variant is None:
        return []
    if variant not in variants:
        do = known_here(variant, variants, "leave `--variant` out")
        what = f"there is no variant {quoted(variant)}"
        raise SpecError([Problem(document.where((VARIANTS,)), VARIANTS, what, do)])
    beginning: KeyPath = (VARIANTS, variant)
    places = {path[2:]: place for path, place in document.places.items() if path[:2] == beginning and len(path) > 2}
    return [Document(variants[variant], places)]


_NULL: Final = "null"


@dataclass(frozen=True, slots=True)
class Change:
    """Key that differs from the file."""

    key: str  # its path, for example `system.host_count`
    before: object  # value in the file, or in the files that it names; None if there is none
    after: object  # simulated value; None if left out, `null` if it removes a preset


def changes(
    file: Document, request: Document, inherited: Callable[[], Mapping[str, Any]], outcome: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Return the keys in which a request differs from the file, in the order of the file and then of the request.

    `inherited` returns the values that the file takes from other files, `outcome` has the resolved values.
    """
    before, after = dict(_values(file.data)), dict(_values(request.data))
    # A `null` where the file has no value may remove a preset.
    after |= {path: _NULL for path, value in after.items() if value is None and path not in before}
    differing = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    inherited_data = inherited() if any(path not in before for path in differing) else {}
    all_changes = (
        Change(
            ".".join(map(str, path)),
            before[path] if path in before else _value_at(inherited_data, path),
            after[path] if path in after else _value_at(outcome, path),
        )
        for path in differing
    )
    return tuple(change for change in all_changes if change.before != change.after)


def _values(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield paths and values of everything but mappings; a name equals a mapping with that name as its `base`."""
    if not isinstance(value, Mapping):
        yield path, value
    elif VALUE in value:
        yield path, value[VALUE]
    else:
        for key, part in value.items():
            yield from _values(part, path if key == BASE and path else (*path, key))


def _value_at(data: Any, path: KeyPath) -> Any:
    """Return the value at a path: the name of a whole file, the number of a sourced number."""
    for key in path:
        data = data.get(key) if isinstance(data, Mapping) else None
    if isinstance(data, Mapping):
        return data.get(VALUE, data.get("name"))
    return data
