"""The inputs that are neither published nor measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel

from podsim.specs.quantity import Sourced
from podsim.specs.scenario import ScenarioBase

_CERTAIN = ("published", "measured")


@dataclass(frozen=True, slots=True)
class Assumption:
    """A number that a result stands on and nobody has published or measured.

    Attributes:
        key: Its key path in the scenario.
        value: As it was written.
        basis: `derived`, `calibrated` or `assumed`.
        source: Key of the bibliography, or `given`.
        note: What a reader should know.
        range: Plausible bounds, in the SI base unit.
    """

    key: str
    value: str
    basis: str
    source: str
    note: str | None
    range: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def assumptions(spec: ScenarioBase) -> tuple[Assumption, ...]:
    """Every number of system and software that is derived, calibrated or assumed."""
    found = (*_walk(spec.system, "system"), *_walk(spec.software, "software"))
    return tuple(
        Assumption(key, number.text, number.basis, number.source, number.note, number.range)
        for key, number in found
        if number.basis not in _CERTAIN
    )


def _walk(model: BaseModel, path: str) -> Iterator[tuple[str, Sourced]]:
    for name in type(model).model_fields:
        value = getattr(model, name)
        if isinstance(value, Sourced):
            yield f"{path}.{name}", value
        elif isinstance(value, BaseModel):
            yield from _walk(value, f"{path}.{name}")
