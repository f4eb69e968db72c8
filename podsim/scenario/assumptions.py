"""Uncertain inputs of a scenario, and a record of the numbers that a computation reads.

A number that was not read cannot change the result. `watched` copies a scenario such that every access to a key is
recorded. A section that is compared, copied or serialized as a whole counts as read with all its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from podsim.scenario.base import keys_of
from podsim.scenario.quantity import Apart, Info, Sourced, quantities
from podsim.scenario.scenario import Scenario
from podsim.scenario.wording import flow

CERTAIN = ("published", "measured")
GIVEN: Final = "given"
"""Source of a number that the request gives without a source."""
_DEFAULT_RANGE = 0.1
"""Relative range of a number without a range of its own, in both directions."""
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Assumption:
    """Number that has a range, or that is neither published nor measured."""

    key: str  # its key path in the scenario
    value: str  # as it was written
    basis: str  # `derived`, `calibrated` or `assumed`; with a range, `measured` or `published`
    source: str  # key of the bibliography, or `given`
    note: str | None  # what a reader should know
    range: tuple[float, float] | None  # plausible bounds, in the SI base unit
    bounds: tuple[float, float] = field(repr=False)  # the range, or a tenth either way where there is none
    number: float = field(repr=False)  # the value, in the SI base unit
    level: str | None = None  # level of evidence at which a calibrated number is fitted

    def is_like(self, other: Assumption) -> bool:
        """Return True if both have the same value and the same bounds."""
        return (self.number, self.bounds) == (other.number, other.bounds)

    def to_dict(self) -> dict[str, Any]:
        """Return the assumption as plain data."""
        plain = asdict(self)
        del plain["bounds"], plain["number"]
        return plain


def assumptions(spec: BaseModel) -> tuple[Assumption, ...]:
    """Return all numbers of a scenario that have a range, or are neither published nor measured."""
    return tuple(
        Assumption(
            key,
            p.text,
            p.basis,
            p.source,
            p.note,
            p.range,
            p.range or default_bounds(number, dimension),
            float(number),
            p.level,
        )
        for key, number, dimension in numbers(spec)
        for p in [number.provenance]
        if p.range or p.basis not in CERTAIN
    )


def numbers(model: BaseModel) -> Iterator[tuple[str, Sourced, str]]:
    """Yield key path, number and dimension of every quantity that may change a time."""
    for key, number, declared in quantities(model):
        if declared.quantity and not any(isinstance(mark, Info | Apart) for mark in declared.marks):
            yield key, number, declared.quantity.dimension


def with_number(spec: Scenario, key: str, value: float, *, is_certain: bool = False) -> Scenario:
    """Return the scenario with the number at `key` replaced by `value`; a certain number has no range."""
    return type(spec).model_validate(_with_value(spec, key, value, is_certain))


def with_value(part: _Model, key: str, value: float) -> _Model:
    """Return a section of a scenario with the number at `key` replaced by `value`."""
    return type(part).model_validate(_with_value(part, key, value, is_certain=False))


def _with_value(part: BaseModel, key: str, value: float, is_certain: bool) -> dict[str, Any]:
    """Return the fields of a section for validation; sections on the key path become mappings."""
    head, _, rest = key.partition(".")
    fields = {each: getattr(part, name) for each, name in keys_of(type(part)).items()}
    old = fields[head]
    if rest:
        fields[head] = _with_value(old, rest, value, is_certain)
    else:
        update = {"range": None} if is_certain else {}
        fields[head] = type(old)(value, old.provenance.model_copy(update=update))
    return fields


def default_bounds(value: float, dimension: str) -> tuple[float, float]:
    """Return the bounds of a number without a range: 10 % either way, counts by at least 1, shares up to 100 %."""
    less, more = value * (1 - _DEFAULT_RANGE), value * (1 + _DEFAULT_RANGE)
    if dimension == "share":
        return less, min(more, 1.0)
    if dimension in ("count", "bytes"):
        return max(1.0, min(round(less), value - 1)), max(round(more), value + 1)
    return less, more


_Part = TypeVar("_Part", bound=BaseModel)
_Made = TypeVar("_Made")
_NOTED = "_podsim_noted"


def watched(part: _Part, path: str = "") -> tuple[_Part, set[str]]:
    """Return a copy of a scenario, and the set of its key paths that have been read, which the copy extends."""
    read: set[str] = set()
    return _watched(part, path, read), read


def _watched(part: _Part, path: str, read: set[str]) -> _Part:
    kind = type(part)
    keys = {name: f"{path}.{key}".lstrip(".") for key, name in keys_of(kind).items()}

    def note(self: _Part, name: str) -> Any:
        if name in keys:
            read.add(keys[name])
        elif name == "__dict__":
            read.update(keys.values())
        elif name == "__class__":
            return kind  # pydantic compares classes: the copy equals the original
        return object.__getattribute__(self, name)

    sections = {name: value for name in keys if isinstance(value := getattr(part, name), BaseModel)}
    copy = part.model_copy(update={name: _watched(value, keys[name], read) for name, value in sections.items()})
    # A bare subclass with one more method; pydantic would build a whole model for a regular subclass.
    members = {"__slots__": (), "__getattribute__": note, _NOTED: (part, read)}
    noting = type.__new__(type(kind), kind.__name__, (kind,), members)
    object.__setattr__(copy, "__class__", noting)
    return copy


def differing(first: BaseModel, second: BaseModel, path: str = "") -> Iterator[str]:
    """Yield the key paths at which two scenarios differ; sections of different types differ as a whole."""
    for key, name in keys_of(type(first)).items():
        value, other_value = getattr(first, name), getattr(second, name)
        if value is other_value:
            continue
        inner = f"{path}.{key}".lstrip(".")
        if isinstance(value, BaseModel) and type(value) is type(other_value):
            yield from differing(value, other_value, inner)
        elif value != other_value:
            yield inner


class Parts:
    """Cache of the computed parts of the first run, for runs of scenarios with a few other numbers.

    The first run is that of a `watched` scenario. A part is reused if no key that it read has changed, and no part that
    the caller names as its dependency. A part must be plain data, which does not read the scenario later.
    """

    def __init__(self) -> None:
        """Start without a first run."""
        self._first: tuple[BaseModel, set[str]] | None = None
        self._parts: dict[str, Any] = {}
        self._read: dict[str, set[str]] = {}
        self._changed: set[str] = set()
        self.is_first = False

    def begin(self, spec: BaseModel) -> None:
        """Begin a run: compare its scenario with the one of the first run."""
        noted: tuple[BaseModel, set[str]] | None = type(spec).__dict__.get(_NOTED)
        self.is_first = self._first is None and noted is not None
        if self.is_first:
            self._first = noted
        elif self._first is not None:
            self._changed = set(differing(self._first[0], spec if noted is None else noted[0]))

    @property
    def first_spec(self) -> Any:
        """Scenario of the first run, without a record of what is read; None before that run."""
        return self._first and self._first[0]

    def holds(self, name: str, *dependencies: str) -> bool:
        """Return True if a run can reuse a part: no key that the part read and none of its dependencies has changed."""
        is_computed = not self.is_first and name in self._parts
        return is_computed and not (self._changed & self._read[name]) and self._changed.isdisjoint(dependencies)

    def reuse(self, name: str, make: Callable[[], _Made], *dependencies: str) -> _Made:
        """Return a part: that of the first run if it holds, or else the result of `make`."""
        if self.holds(name, *dependencies):
            part: _Made = self._parts[name]
            return part
        if not self.is_first or self._first is None:
            self._changed.add(name)
            return make()
        read = self._first[1]
        before = set(read)
        read.clear()
        try:
            self._parts[name] = part = make()
            self._read[name] = set(read)
        finally:
            read |= before
        return part

    def register(self, name: str, value: _Made) -> _Made:
        """Register a part that every run computes; parts that depend on it hold if it equals that of the first run."""
        if self.is_first:
            self._parts[name] = value
        elif name in self._parts and self._parts[name] == value:
            self._changed.discard(name)
            return self._parts[name]  # type: ignore[no-any-return]
        else:
            self._changed.add(name)
        return value


_VALUE, _TEXT, _RANGE = "value", "text", "range"
_EXPLANATIONS: Final = ("source", "basis", "note", "description")
_HARDWARE: Final = ("system", "software")
_EXPECT: Final = "expect"


@dataclass(frozen=True, slots=True)
class Value:
    """Value of a key, with its text as written."""

    value: object  # a quantity in its SI base unit
    text: str  # as it was written

    def same_as(self, other: Value) -> bool:
        """Return True if the values or the texts agree; some stored results have only the text."""
        return self.value == other.value or self.text == other.text


def flat(data: Any, key: str = "") -> Iterator[tuple[str, Value]]:
    """Yield every value with its dotted key, without keys that only explain a number.

    >>> [key for key, _ in flat({"model": {"size": "large", "note": "…"}, "stages": [{"ipu": 0}, {"ipu": 1}]})]
    ['model.size', 'stages.0.ipu', 'stages.1.ipu']
    """
    if isinstance(data, Mapping) and _VALUE in data and _TEXT in data:
        yield key, Value(data[_VALUE], str(data[_TEXT]))
        if data.get(_RANGE) is not None:
            yield f"{key}.{_RANGE}", Value(data[_RANGE], flow(data[_RANGE]))
    elif isinstance(data, Mapping) and data:
        for name, value in data.items():
            if name not in _EXPLANATIONS:
                yield from flat(value, f"{key}.{name}".lstrip("."))
    elif isinstance(data, Sequence) and any(isinstance(value, Mapping) for value in data):
        yield from flat(dict(enumerate(data)), key)
    elif data is not None:
        yield key, Value(data, data if isinstance(data, str) else flow(data))


def scenario_keys(scenario: Mapping[str, object]) -> dict[str, Value]:
    """Return the values of a resolved scenario by key, without hardware, software and expectations."""
    return dict(flat({name: part for name, part in scenario.items() if name not in (*_HARDWARE, _EXPECT)}))


def hardware_keys(spec: Scenario) -> Iterator[tuple[str, str]]:
    """Yield all keys of hardware and software, with their values as written."""
    data = spec.model_dump(mode="json", by_alias=True, include=set(_HARDWARE), exclude_none=True)
    return ((key, value.text) for key, value in flat(data) if not key.endswith(".kind"))
