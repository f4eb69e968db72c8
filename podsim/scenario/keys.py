"""Every value of a scenario, its pod and its stack by dotted key, for those who compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podsim.scenario.scenario import Scenario
from podsim.scenario.wording import flow

_VALUE, _TEXT, _RANGE = "value", "text", "range"
_SAYS_NOTHING: Final = ("source", "basis", "note", "description")
_HARDWARE: Final = ("system", "software")
_EXPECT: Final = "expect"


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a key.

    Attributes:
        value: What is compared; a quantity in its SI base unit.
        text: As it was written.
    """

    value: object
    text: str

    def same_as(self, other: Value) -> bool:
        """Whether it is the same; of some results only the text is known."""
        return self.value == other.value or self.text == other.text


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
    """The keys of a scenario as resolved, without pod and stack, and without what it expects of its result."""
    return dict(flat({name: part for name, part in scenario.items() if name not in (*_HARDWARE, _EXPECT)}))


def hardware_keys(spec: Scenario) -> Iterator[tuple[str, str]]:
    """All keys of pod and stack, with their values as they were written."""
    data = spec.model_dump(mode="json", by_alias=True, include=set(_HARDWARE), exclude_none=True)
    return ((key, value.text) for key, value in flat(data) if not key.endswith(".kind"))
