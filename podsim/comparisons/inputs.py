"""Inputs that differ, by dotted key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from podsim.comparisons.subject import Subject
from podsim.specs.keys import Value

_YAML: Final = (".yaml", ".yml")
_SHORT_HASH: Final = 12


@dataclass(frozen=True, slots=True)
class Differing:
    """An input that differs.

    Attributes:
        key: Its dotted path, `file PATH` for the content of a file, or `podsim` for its version.
        before: The text of its value in the first; None if it has none.
        after: The same in the other.
    """

    key: str
    before: str | None
    after: str | None


def differing(a: Subject, b: Subject) -> Iterator[Differing]:
    """Inputs that differ, those of the first in their order.

    Where a result does not hold all keys of pod and stack, those that both hold are compared.
    """
    if a.version != b.version:
        yield Differing("podsim", a.version, b.version)
    yield from _keys(a.inputs, b.inputs)
    if a.whole and b.whole:
        yield from _keys(a.hardware, b.hardware)
    else:
        both = a.hardware.keys() & b.hardware.keys()
        first, second = ({key: each.hardware[key] for key in a.hardware if key in both} for each in (a, b))
        yield from _keys(first, second)
    yield from _files(a, b)


def _keys(first: Mapping[str, Value], second: Mapping[str, Value]) -> Iterator[Differing]:
    for key in {**first, **second}:
        before, after = first.get(key), second.get(key)
        if before is None or after is None or not before.same_as(after):
            yield Differing(key, *(None if each is None else each.text for each in (before, after)))


def _files(a: Subject, b: Subject) -> Iterator[Differing]:
    """Files of the same path and another content, where keys do not tell all that is in them."""
    known = a.whole and b.whole
    others = dict(b.files)
    for path, digest in a.files:
        if others.get(path, digest) != digest and not (known and path.endswith(_YAML)):
            yield Differing(f"file {path}", digest[:_SHORT_HASH], others[path][:_SHORT_HASH])
