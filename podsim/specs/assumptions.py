"""The inputs that are neither published nor measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from podsim.specs.quantity import Info, Sourced, dimension_of
from podsim.specs.scenario import Scenario

_CERTAIN = ("published", "measured")
_WITHOUT_RANGE = 0.1
"""How far a number is moved that has no range of its own, as a share of it."""
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Assumption:
    """A number that a result may stand on and nobody has published or measured.

    Attributes:
        key: Its key path in the scenario.
        value: As it was written.
        basis: `derived`, `calibrated` or `assumed`.
        source: Key of the bibliography, or `given`.
        note: What a reader should know.
        range: Plausible bounds, in the SI base unit.
        bounds: The range, or a tenth either way where there is none.
    """

    key: str
    value: str
    basis: str
    source: str
    note: str | None
    range: tuple[float, float] | None
    bounds: tuple[float, float] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        plain = asdict(self)
        del plain["bounds"]
        return plain


def assumptions(spec: Scenario) -> tuple[Assumption, ...]:
    """Every number of a scenario that is derived, calibrated or assumed, whether or not its result stands on it."""
    return tuple(
        Assumption(key, n.text, n.basis, n.source, n.note, n.range, n.range or _tenth(n.value, dimension))
        for key, n, dimension in numbers(spec)
        if n.basis not in _CERTAIN
    )


def numbers(model: BaseModel, path: str = "") -> Iterator[tuple[str, Sourced, str]]:
    """Key, number and dimension of every quantity that a model may read."""
    for name, declared in type(model).model_fields.items():
        value, key = getattr(model, name), f"{path}.{name}".lstrip(".")
        if isinstance(value, Sourced):
            if not any(isinstance(each, Info) for each in declared.metadata):
                yield key, value, dimension_of(declared)
        elif isinstance(value, BaseModel):
            yield from numbers(value, key)


def with_number(spec: Scenario, key: str, value: float) -> Scenario:
    """The scenario with another number at a key.

    Raises:
        ValidationError: The part of the scenario that holds the number refuses it.
    """
    name, _, rest = key.partition(".")
    return spec.model_copy(update={name: _changed(getattr(spec, name), rest, value)})


def _changed(part: _Model, path: str, value: float) -> _Model:
    name, _, rest = path.partition(".")
    if isinstance(part, Sourced):
        return part.model_copy(update={"value": value})
    fields = {each: getattr(part, each) for each in type(part).model_fields}
    return type(part).model_validate(fields | {name: _changed(fields[name], rest, value)})


def _tenth(value: float, dimension: str) -> tuple[float, float]:
    """A tenth less and more; for whole numbers at least one, for shares at most all."""
    less, more = value * (1 - _WITHOUT_RANGE), value * (1 + _WITHOUT_RANGE)
    if dimension == "share":
        return less, min(more, 1.0)
    if dimension in ("count", "bytes"):
        return max(1.0, min(round(less), value - 1)), max(round(more), value + 1)
    return less, more
