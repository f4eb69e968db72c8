"""Keys beside the name of a pod or stack, when another is named in its place: kept, or an error.

Hosts are a choice of the scenario and stay. Every other key was meant for what is replaced: it is an
error to lose it, unless it is written again or taken away with `null`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.scenario.document import Document, KeyPath, Replaced
from podsim.scenario.wording import dotted, setting, shown

BASE = "base"
_TOP = ("system", "software")
_REFERENCES = (*_TOP, "machine", "ipu", "vertices", "host")
_CHOICES: dict[KeyPath, tuple[str, ...]] = {("system",): ("host_count", "host")}
"""What a scenario decides, whichever pod it runs on."""


def keep_choices(base: Document, over: Document) -> Document:
    """The keys that are laid over a scenario, with the choices that stay, and a note of every key that is replaced."""
    for path in [path for top in _TOP for path in _renamed(base.data.get(top), over.data.get(top), (top,))]:
        over = _kept(base, over, path)
    return over


def _renamed(was: Any, new: Any, path: KeyPath) -> Iterator[KeyPath]:
    """Where another file is named in place of a mapping."""
    if not isinstance(was, dict):
        return
    if isinstance(new, str) or (isinstance(new, dict) and BASE in new):
        yield path
    elif isinstance(new, dict):
        for key in (key for key in _REFERENCES if key in new and key in was):
            yield from _renamed(was[key], new[key], (*path, key))


def _kept(base: Document, over: Document, path: KeyPath) -> Document:
    was, new = base.at(path), over.at(path)
    new = {BASE: new} if isinstance(new, str) else new
    choices = [key for key in _CHOICES.get(path, ()) if was.get(key) is not None and key not in new]
    given_whole = BASE not in was and len(path) == 1
    gone = [
        key
        for key in _leaves(was)
        if key != (BASE,) and key[0] not in choices and not (given_whole or _written(new, key))
    ]
    replaced = [_replaced(base, over, path, (key,), kept=True) for key in choices]
    replaced += [_replaced(base, over, path, key, kept=False) for key in gone]
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
    return Replaced(full, base.at(full), base.where(full), over.where(path), kept)


def _leaves(data: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Key paths of everything written; a number with its source is one thing."""
    if isinstance(data, dict) and "value" not in data:
        for key, value in data.items():
            yield from _leaves(value, (*path, key))
    elif data is not None:
        yield path


def _written(data: Any, path: KeyPath) -> bool:
    for key in path:
        if not isinstance(data, dict) or key not in data:
            return False
        data = data[key]
    return True


def settled(document: Document) -> Document:
    """The whole scenario, once everything is laid over it; `replaced` has the choices that stayed.

    Raises:
        SpecError: Keys would be lost; names each, and how to keep or to drop it.
    """
    problems, stay = [], []
    for each in document.replaced:
        if not _written(document.data, each.key):
            problems.append(_loss(each))
        elif document.at(each.key) is None:
            document = _without(document, each.key)
        elif each.kept and document.where(each.key) == each.place:
            stay.append(each)
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))
    return replace(document, replaced=tuple(stay))


def _loss(each: Replaced) -> Problem:
    at = f"written at {each.place}" if each.place else "written"
    what = f"what is named here would drop {dotted(each.key)}, {at} for what was named before"
    keep, drop = setting(each.key, each.value), setting(each.key, None)
    return Problem(each.by, dotted(each.key[:1]), what, f"keep it with `{keep}`, or drop it with `{drop}`")


def note_on_kept(each: Replaced, pod: str, own: Any) -> str:
    """A note on a choice that stays and differs from the pod's own."""
    at = f", as {each.place} has it" if each.place else ""
    value, drop = shown(each.value), setting(each.key, None)
    return f"{dotted(each.key)} stays {value}{at}; `{pod}` has {shown(own)} of its own: `{drop}` takes that"


def _without(document: Document, path: KeyPath) -> Document:
    return replace(document, data=_pruned(document.data, path))


def _pruned(data: dict[str, Any], path: KeyPath) -> dict[str, Any]:
    """Without a key, and without the mappings that it alone filled."""
    key, rest = str(path[0]), path[1:]
    inner = _pruned(data[key], rest) if rest else {}
    return {name: inner if name == key else value for name, value in data.items() if name != key or inner}
