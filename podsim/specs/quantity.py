"""Fields of specifications: counts, ratios, and quantities that carry their source."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema

from podsim.errors import BadValueError
from podsim.specs.base import Spec
from podsim.specs.wording import known_here, shown
from podsim.units import EXAMPLES, UNITS, parse_quantity

INFORMATION = "x-information"
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


@dataclass(frozen=True, slots=True)
class Info:
    """Marks a quantity that is kept as information: no model reads it, and no result stands on it.

    Attributes:
        reason: Why no model reads it.
    """

    reason: str

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """For the reference."""
        return handler(core_schema) | {INFORMATION: self.reason}


def dimension_of(declared: FieldInfo) -> str:
    """Dimension of a field that holds a quantity, or may do without one."""
    marks = (*declared.metadata, *(mark for each in get_args(declared.annotation) for mark in get_args(each)[1:]))
    (reader,) = (mark.func for mark in marks if isinstance(mark, BeforeValidator))
    assert isinstance(reader, partial)
    return str(reader.args[0])


_SOURCED_KEYS = ("basis", "note", "range", "source", "value")
_LIMITS: dict[str, tuple[str, str]] = {
    "bytes": ("1 B", "1000000 TB"),
    "bytes_per_s": ("1 B/s", "1000000 TB/s"),
    "hz": ("1 Hz", "1000 THz"),
    "s": ("0 s", "1e9 s"),
    "cycles": ("0", "1e12"),
    "ratio": ("1e-6", "1e6"),
    "share": ("0.01 %", "100 %"),
    "count": ("1", "1e12"),
}
"""Least and greatest that makes sense; beyond them a slip of the unit is certain."""


def _sourced(dimension: str, raw: Any) -> Any:
    """Read `16 GB/s` or `{value: 16 GB/s, source: …, basis: …}`."""
    if isinstance(raw, Sourced):
        return raw
    example = EXAMPLES[dimension]
    if not isinstance(raw, dict):
        return Sourced(value=_number(raw, dimension), text=str(raw), source="given", basis="assumed")
    for key in raw:
        if key not in _SOURCED_KEYS:
            raise BadValueError(f"unknown key `{key}`", known_here(str(key), _SOURCED_KEYS))
    for key in ("value", "source", "basis"):
        if key not in raw:
            raise BadValueError(f"needs `{key}` beside `value`", f"add it, or write the quantity alone, `{example}`")
    return raw | {
        "value": _number(raw["value"], dimension),
        "text": str(raw["value"]),
        "range": _range(raw.get("range"), dimension),
    }


def _range(raw: Any, dimension: str) -> tuple[float, float] | None:
    if raw is None:
        return None
    if not isinstance(raw, (list, tuple)) or len(raw) != 2:
        example = EXAMPLES[dimension]
        do = f"write for example `range: [{example}, {example}]`"
        raise BadValueError("range needs a list of two quantities", do)
    low, high = (_number(bound, dimension) for bound in raw)
    if low > high:
        raise BadValueError("range ends before it starts", "write the smaller bound first")
    return low, high


def _number(raw: Any, dimension: str) -> float:
    if not isinstance(raw, (str, int, float)):
        raise BadValueError(f"needs a quantity, not {shown(raw)}", f"write for example `{EXAMPLES[dimension]}`")
    number = parse_quantity(raw, dimension)
    least, most = _LIMITS[dimension]
    do = f"write {least} to {most}, for example `{EXAMPLES[dimension]}`"
    if not math.isfinite(number):
        raise BadValueError(f"{shown(raw)} is not a finite number", do)
    if number < parse_quantity(least, dimension):
        raise BadValueError(f"{shown(raw)} is too small", do)
    if number > parse_quantity(most, dimension):
        raise BadValueError(f"{shown(raw)} is too large", do)
    if dimension == "count" and not number.is_integer():
        raise BadValueError(f"{shown(raw)} is not a whole number", do)
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


SourcedBytes = Annotated[Sourced, BeforeValidator(partial(_sourced, "bytes")), _schema("bytes")]
SourcedBandwidth = Annotated[Sourced, BeforeValidator(partial(_sourced, "bytes_per_s")), _schema("bytes_per_s")]
SourcedFrequency = Annotated[Sourced, BeforeValidator(partial(_sourced, "hz")), _schema("hz")]
SourcedTime = Annotated[Sourced, BeforeValidator(partial(_sourced, "s")), _schema("s")]
SourcedCycles = Annotated[Sourced, BeforeValidator(partial(_sourced, "cycles")), _schema("cycles")]
SourcedRatio = Annotated[Sourced, BeforeValidator(partial(_sourced, "ratio")), _schema("ratio")]
SourcedShare = Annotated[Sourced, BeforeValidator(partial(_sourced, "share")), _schema("share")]
SourcedCount = Annotated[Sourced, BeforeValidator(partial(_sourced, "count")), _schema("count")]

_MOST = 10**12
Count = Annotated[int, Field(strict=True, ge=1, le=_MOST)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=_MOST)]
Flag = Annotated[bool, Field(strict=True)]
Probability = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
NumberFormat = Literal["fp16", "fp32"]
