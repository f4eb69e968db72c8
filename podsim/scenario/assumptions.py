"""The inputs that are neither published nor measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel

from podsim.scenario.base import keys_of
from podsim.scenario.quantity import Apart, Info, Sourced, quantities
from podsim.scenario.scenario import Scenario

CERTAIN = ("published", "measured")
_WITHOUT_RANGE = 0.1
"""How far a number is moved that has no range of its own, as a share of it."""
_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Assumption:
    """A number that a result may stand on and that is neither published nor measured.

    Attributes:
        key: Its key path in the scenario.
        value: As it was written.
        basis: `derived`, `calibrated` or `assumed`.
        source: Key of the bibliography, or `given`.
        note: What a reader should know.
        range: Plausible bounds, in the SI base unit.
        bounds: The range, or a tenth either way where there is none.
        number: The value, in the SI base unit.
    """

    key: str
    value: str
    basis: str
    source: str
    note: str | None
    range: tuple[float, float] | None
    bounds: tuple[float, float] = field(repr=False)
    number: float = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """The assumption as plain data."""
        plain = asdict(self)
        del plain["bounds"], plain["number"]
        return plain


def assumptions(spec: Scenario) -> tuple[Assumption, ...]:
    """Every number of a scenario that is derived, calibrated or assumed, whether or not its result stands on it."""
    return tuple(
        Assumption(
            key, p.text, p.basis, p.source, p.note, p.range, p.range or a_tenth(number, dimension), float(number)
        )
        for key, number, dimension in numbers(spec)
        for p in [number.provenance]
        if p.basis not in CERTAIN
    )


def numbers(model: BaseModel) -> Iterator[tuple[str, Sourced, str]]:
    """Key, number and dimension of every quantity that a time may stand on."""
    for key, number, declared in quantities(model):
        if declared.quantity and not any(isinstance(each, Info | Apart) for each in declared.marks):
            yield key, number, declared.quantity.dimension


def with_number(spec: Scenario, key: str, value: float) -> Scenario:
    """The scenario with another number at a key.

    Raises:
        ValidationError: The part of the scenario that holds the number refuses it.
    """
    name, _, rest = key.partition(".")
    return spec.model_copy(update={name: with_value(getattr(spec, name), rest, value)})


def with_value(part: _Model, key: str, value: float) -> _Model:
    """A part of a scenario with another number at a key.

    Raises:
        ValidationError: The part refuses the number.
    """
    head, _, rest = key.partition(".")
    fields = {each: getattr(part, name) for each, name in keys_of(type(part)).items()}
    old = fields[head]
    fields[head] = with_value(old, rest, value) if rest else type(old)(value, old.provenance)
    return type(part).model_validate(fields)


def a_tenth(value: float, dimension: str) -> tuple[float, float]:
    """A tenth less and more; for whole numbers at least one, for shares at most all."""
    less, more = value * (1 - _WITHOUT_RANGE), value * (1 + _WITHOUT_RANGE)
    if dimension == "share":
        return less, min(more, 1.0)
    if dimension in ("count", "bytes"):
        return max(1.0, min(round(less), value - 1)), max(round(more), value + 1)
    return less, more
