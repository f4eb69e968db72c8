"""Inputs by dotted key, and those that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podsim.comparisons.subject import Subject, Value
from podsim.specs.scenario import Scenario
from podsim.specs.wording import flow

_VALUE, _TEXT, _RANGE = "value", "text", "range"
_SAYS_NOTHING: Final = ("source", "basis", "note", "description")
_PARTS: Final = ("system", "software")
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


def flat(data: Any, key: str = "") -> Iterator[tuple[str, Value]]:
    """Every value by its dotted key; what only explains a number is left out.

    >>> [key for key, _ in flat({"model": {"size": "large", "note": "…"}, "stages": [{"ipu": 0}, {"ipu": 1}]})]
    ['model.size', 'stages.0.ipu', 'stages.1.ipu']
    """
    if isinstance(data, Mapping) and _VALUE in data and _TEXT in data:
        yield key, Value(data[_VALUE], str(data[_TEXT]))
        if data.get(_RANGE) is not None:
            yield f"{key}.{_RANGE}", Value(data[_RANGE], flow(data[_RANGE]))
    elif isinstance(data, Mapping) and data:
        for name, each in data.items():
            if name not in _SAYS_NOTHING:
                yield from flat(each, f"{key}.{name}".lstrip("."))
    elif isinstance(data, Sequence) and any(isinstance(each, Mapping) for each in data):
        yield from flat(dict(enumerate(data)), key)
    elif data is not None:
        yield key, Value(data, data if isinstance(data, str) else flow(data))


def scenario_keys(scenario: Mapping[str, object]) -> dict[str, Value]:
    """The keys of a scenario as resolved, without pod and stack."""
    return dict(flat({name: part for name, part in scenario.items() if name not in _PARTS}))


def hardware_keys(spec: Scenario) -> dict[str, Value]:
    """All keys of pod and stack."""
    data = spec.model_dump(mode="json", by_alias=True, include=set(_PARTS), exclude_none=True)
    return {key: value for key, value in flat(data) if not key.endswith(".kind")}


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
