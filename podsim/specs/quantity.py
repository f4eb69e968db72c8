"""Fields of specifications: counts, ratios, and quantities that carry their source."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

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
"""Least and greatest of a quantity that says nothing else; beyond them a slip of the unit is certain."""
Bounds = tuple[str, str]
_ROUNDING = 1e-6
"""How far `2.3 kB` may be from a whole number of bytes."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """How a quantity is read; stands in the declaration of its field.

    Attributes:
        dimension: A key of `podsim.units.UNITS`.
        bounds: Least and greatest that can be; beyond them it is refused.
        usual: Least and greatest that anything real has, with much room; beyond them a result says so.
        step: What it must be a whole multiple of.
    """

    dimension: str
    bounds: Bounds | None = None
    usual: Bounds | None = None
    step: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], CoreSchema]) -> CoreSchema:
        """Let pydantic read a quantity in place of its parts."""
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: Any) -> dict[str, Any]:
        """A quantity alone, or with its source."""
        return _json_schema(self.dimension)

    def read(self, raw: Any) -> Any:
        """Read `16 GB/s` or `{value: 16 GB/s, source: …, basis: …}`."""
        if isinstance(raw, Sourced):
            return raw
        if not isinstance(raw, dict):
            return Sourced(value=self._number(raw), text=str(raw), source="given", basis="assumed")
        for key in raw:
            if key not in _SOURCED_KEYS:
                raise BadValueError(f"unknown key `{key}`", known_here(str(key), _SOURCED_KEYS))
        for key in ("value", "source", "basis"):
            if key not in raw:
                do = f"add it, or write the quantity alone, `{EXAMPLES[self.dimension]}`"
                raise BadValueError(f"needs `{key}` beside `value`", do)
        value = self._number(raw["value"])
        return raw | {"value": value, "text": str(raw["value"]), "range": self._range(raw.get("range"))}

    def is_usual(self, value: float) -> bool:
        """Whether something real has, or could have, such a value."""
        if self.usual is None:
            return True
        least, most = (parse_quantity(bound, self.dimension) for bound in self.usual)
        return least <= value <= most

    def _range(self, raw: Any) -> tuple[float, float] | None:
        if raw is None:
            return None
        if not isinstance(raw, (list, tuple)) or len(raw) != 2:
            example = EXAMPLES[self.dimension]
            do = f"write for example `range: [{example}, {example}]`"
            raise BadValueError("range needs a list of two quantities", do)
        low, high = (self._number(bound) for bound in raw)
        if low > high:
            raise BadValueError("range ends before it starts", "write the smaller bound first")
        return low, high

    def _number(self, raw: Any) -> float:
        example = EXAMPLES[self.dimension]
        if not isinstance(raw, (str, int, float)):
            raise BadValueError(f"needs a quantity, not {shown(raw)}", f"write for example `{example}`")
        number = parse_quantity(raw, self.dimension)
        least, most = self.bounds or _LIMITS[self.dimension]
        do = f"write {least} to {most}, for example `{self._example()}`"
        if not math.isfinite(number):
            raise BadValueError(f"{shown(raw)} is not a finite number", do)
        if number < parse_quantity(least, self.dimension):
            raise BadValueError(f"{shown(raw)} is too small", do)
        if number > parse_quantity(most, self.dimension):
            raise BadValueError(f"{shown(raw)} is too large", do)
        if self.dimension == "count" and not number.is_integer():
            raise BadValueError(f"{shown(raw)} is not a whole number", do)
        steps = number / parse_quantity(self.step, self.dimension) if self.step else 0.0
        if abs(steps - round(steps)) > _ROUNDING:
            raise BadValueError(f"{shown(raw)} is not a whole multiple of {self.step}", do)
        return number

    def _example(self) -> str:
        """A quantity of the dimension that is within the bounds."""
        example = EXAMPLES[self.dimension]
        low, high = (parse_quantity(bound, self.dimension) for bound in self.bounds or _LIMITS[self.dimension])
        return example if low <= parse_quantity(example, self.dimension) <= high else (self.usual or (example,))[0]


def dimension_of(declared: FieldInfo) -> str:
    """Dimension of a field that holds a quantity, or may do without one."""
    marks = (*declared.metadata, *(mark for each in get_args(declared.annotation) for mark in get_args(each)[1:]))
    (dimension,) = (mark.dimension for mark in marks if isinstance(mark, Quantity))
    return dimension


def _json_schema(dimension: str) -> dict[str, Any]:
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
    return {"anyOf": [plain, full]}


SourcedBytes = Annotated[Sourced, Quantity("bytes")]
SourcedBandwidth = Annotated[Sourced, Quantity("bytes_per_s")]
SourcedTime = Annotated[Sourced, Quantity("s")]
SourcedRatio = Annotated[Sourced, Quantity("ratio")]
SourcedCount = Annotated[Sourced, Quantity("count")]

_MOST = 10**12
Count = Annotated[int, Field(strict=True, ge=1, le=_MOST)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=_MOST)]
Flag = Annotated[bool, Field(strict=True)]
Probability = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
NumberFormat = Literal["fp16", "fp32"]
