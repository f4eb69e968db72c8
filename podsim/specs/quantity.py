"""Fields of specifications: counts, ratios, and quantities that carry their source."""

from __future__ import annotations

import math
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from podsim.specs.base import Spec
from podsim.units import EXAMPLES, UNITS, QuantityError, parse_quantity

Basis = Literal["published", "measured", "derived", "calibrated", "assumed"]


class Sourced(Spec):
    """A number with what it stands on."""

    value: float
    """The number, in the SI base unit of its dimension."""
    text: str
    """The number as it was written."""
    source: str
    """Key of the bibliography, or `given` for a number that a user's file brings."""
    basis: Basis
    """Where it comes from: published, measured, derived, calibrated or assumed."""
    note: str | None = None
    """What a reader should know."""
    range: tuple[float, float] | None = None
    """Plausible bounds, in the SI base unit."""

    def __int__(self) -> int:
        """The number rounded to a whole one."""
        return round(self.value)


_SOURCED_KEYS = {"value", "source", "basis", "note", "range"}


def _sourced(dimension: str, zero: bool, raw: Any) -> Any:
    """Read `16 GB/s` or `{value: 16 GB/s, source: …, basis: …}`."""
    if isinstance(raw, Sourced):
        return raw
    if not isinstance(raw, dict):
        return Sourced(value=_number(raw, dimension, zero), text=str(raw), source="given", basis="assumed")
    if unknown := sorted(set(raw) - _SOURCED_KEYS):
        raise ValueError(f"unknown key `{unknown[0]}` beside `value`; known: {', '.join(sorted(_SOURCED_KEYS))}")
    if missing := [key for key in ("value", "source", "basis") if key not in raw]:
        raise ValueError(f"needs `{missing[0]}` beside `value`; or write the quantity alone, `{EXAMPLES[dimension]}`")
    bounds = raw.get("range")
    return Sourced(
        value=_number(raw["value"], dimension, zero),
        text=str(raw["value"]),
        source=raw["source"],
        basis=raw["basis"],
        note=raw.get("note"),
        range=tuple(_number(bound, dimension, zero) for bound in bounds) if bounds else None,
    )


def _number(raw: Any, dimension: str, zero: bool) -> float:
    if not isinstance(raw, (str, int, float)):
        raise ValueError(f"needs a quantity, for example `{EXAMPLES[dimension]}`")
    try:
        number = parse_quantity(raw, dimension)
    except QuantityError as error:
        raise ValueError(str(error)) from error
    if not math.isfinite(number):
        raise ValueError(f"must be finite, not {raw}")
    if number < 0 or (number == 0 and not zero):
        raise ValueError(f"must be {'zero or more' if zero else 'greater than zero'}, not {raw}")
    return number


def _schema(dimension: str) -> WithJsonSchema:
    """A quantity alone, or with its source."""
    plain: dict[str, Any] = {"type": "string", "examples": [EXAMPLES[dimension]]}
    units = "|".join(sorted(unit for unit in UNITS[dimension] if unit))
    plain["pattern"] = rf"^\s*[+]?[0-9._eE+-]+\s*({units})\s*$"
    if "" in UNITS[dimension]:
        plain = {"anyOf": [{"type": "number"}, plain]} if units else {"type": "number"}
    properties = {
        "value": plain,
        "source": {"type": "string"},
        "basis": {"enum": list(Basis.__args__)},  # type: ignore[attr-defined]
        "note": {"type": "string"},
        "range": {"type": "array", "items": plain, "minItems": 2, "maxItems": 2},
    }
    full = {
        "type": "object",
        "properties": properties,
        "required": ["value", "source", "basis"],
        "additionalProperties": False,
    }
    return WithJsonSchema({"anyOf": [plain, full]})


SourcedBytes = Annotated[Sourced, BeforeValidator(partial(_sourced, "bytes", False)), _schema("bytes")]
SourcedBandwidth = Annotated[Sourced, BeforeValidator(partial(_sourced, "bytes_per_s", False)), _schema("bytes_per_s")]
SourcedFrequency = Annotated[Sourced, BeforeValidator(partial(_sourced, "hz", False)), _schema("hz")]
SourcedTime = Annotated[Sourced, BeforeValidator(partial(_sourced, "s", True)), _schema("s")]
SourcedCycles = Annotated[Sourced, BeforeValidator(partial(_sourced, "cycles", True)), _schema("cycles")]
SourcedRatio = Annotated[Sourced, BeforeValidator(partial(_sourced, "ratio", False)), _schema("ratio")]
SourcedCount = Annotated[Sourced, BeforeValidator(partial(_sourced, "count", False)), _schema("count")]

Count = Annotated[int, Field(strict=True, ge=1)]
CountOrZero = Annotated[int, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Probability = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]
NumberFormat = Literal["fp16", "fp32"]
