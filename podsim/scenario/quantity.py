"""Fields of specifications: counts, ratios, dates, and quantities and prices with their source."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache, partial
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema, core_schema

from podsim.errors import BadValueError
from podsim.scenario.base import Spec, keys_of
from podsim.scenario.wording import known_here, quoted
from podsim.units import EXAMPLES, UNITS, NotFiniteError, QuantityError, parse_price, parse_quantity

DATE_SCHEMA: Final = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": r"^\d{4}(-\d{2}){0,2}$"}]}
_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")
_LAST_MONTH: Final = 12


def date_text(raw: Any) -> Any:
    """Return a valid date as text; a year may be a number."""
    if raw is not None:
        last_day(raw)
    return None if raw is None else str(raw)


Day = Annotated[str, BeforeValidator(date_text), WithJsonSchema(DATE_SCHEMA)]


def last_day(written: object) -> date:
    """Return the last day that a date may mean, so that no number appears older than it is.

    >>> last_day("2020"), last_day("2024-02"), last_day("2026-10-01")
    (datetime.date(2020, 12, 31), datetime.date(2024, 2, 29), datetime.date(2026, 10, 1))
    """
    match = None if isinstance(written, bool) else _DATE.fullmatch(str(written))
    try:
        year, month, day = (int(part) if part else None for part in match.groups()) if match else (0, None, None)
        month = month or _LAST_MONTH
        return date(year or 0, month, day or calendar.monthrange(year or 0, month)[1])
    except ValueError:
        what = f"{quoted(written)} is not a date"
        raise BadValueError(what, "write for example `2026-10-01`, or a year alone") from None


INFORMATION = "x-information"
Basis = Literal["published", "measured", "derived", "calibrated", "assumed"]
Level = Literal["kernel", "operation", "collective", "block", "update or pass", "run"]
LEVELS: Final[tuple[str, ...]] = get_args(Level)
"""Levels of evidence, from most to least isolated."""


class Provenance(Spec):
    """Source and basis of a number."""

    text: str
    """The number as written."""
    source: str
    """Key of the bibliography, or `given` for a number from a user's file."""
    basis: Basis
    """How the number was obtained: published, measured, derived, calibrated or assumed."""
    note: str | None = None
    """Remark for the reader."""
    range: tuple[float, float] | None = None
    """Plausible bounds, in the SI base unit."""
    date: Day | None = None
    """Date at which the number applied: a year, a month or a day."""
    level: Level | None = None
    """Lowest level of evidence at which a calibrated number can be observed; it is fitted there."""


class Real(float):
    """Number in the SI base unit of its dimension; arithmetic returns a plain `float`."""

    provenance: Provenance

    def __new__(cls, value: float, provenance: Provenance) -> Self:
        """Create a number with its provenance."""
        number = super().__new__(cls, value)
        number.provenance = provenance
        return number

    def __getnewargs__(self) -> tuple[float, Provenance]:  # type: ignore[override]
        return float(self), self.provenance


class Whole(int):
    """Whole number of bytes or things with its provenance; arithmetic returns a plain `int`."""

    provenance: Provenance

    def __new__(cls, value: float, provenance: Provenance) -> Self:
        """Create the nearest whole number with its provenance."""
        number = super().__new__(cls, round(value))
        number.provenance = provenance
        return number

    def __getnewargs__(self) -> tuple[int, Provenance]:  # type: ignore[override]
        return int(self), self.provenance


Sourced = Real | Whole


@dataclass(frozen=True, slots=True)
class Info:
    """Mark of a quantity that is information only: no model reads it, and no result depends on it."""

    reason: str  # why no model reads it

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(core_schema) | {INFORMATION: self.reason}


@dataclass(frozen=True, slots=True)
class Apart:
    """Mark of a quantity that changes energy, cost or noise, but not the time of a run without noise."""


APART = Apart()
SOURCED_KEYS = ("basis", "date", "level", "note", "range", "source", "value")
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
"""Default bounds of a dimension; a value beyond is certainly a slip of the unit."""
Bounds = tuple[str, str]
_ROUNDING = 1e-6
"""Tolerance for a whole number of bytes, as in `2.3 kB`."""


@dataclass(frozen=True)
class Quantity:
    """Annotation of a field with a quantity, by which pydantic reads texts such as `16 GB/s` and checks bounds."""

    dimension: str  # a key of `podsim.units.UNITS`
    bounds: Bounds | None = None  # least and greatest possible value; others are refused
    usual: Bounds | None = None  # least and greatest value of real systems
    step: str | None = None  # divisor of the value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic read a number of the declared kind, with its provenance."""
        return core_schema.no_info_wrap_validator_function(
            partial(self.read, source),
            handler.generate_schema(Provenance),
            serialization=core_schema.plain_serializer_function_ser_schema(_number_data),
        )

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: Any) -> dict[str, Any]:
        return _json_schema(self.dimension)

    def read(self, kind: type[Real | Whole], raw: Any, provenance: Callable[[Any], Provenance]) -> Sourced:
        """Return the number of `16 GB/s` or `{value: 16 GB/s, source: …, basis: …}`, or raise an error."""
        if isinstance(raw, Sourced):
            return raw
        if not isinstance(raw, dict):
            return kind(self._number(raw), Provenance(text=str(raw), source="given", basis="assumed"))
        for key in raw:
            if key not in SOURCED_KEYS:
                raise BadValueError(f"unknown key `{key}`", known_here(str(key), SOURCED_KEYS))
        for key in ("value", "source", "basis"):
            if key not in raw:
                do = f"add it, or write the quantity alone, `{self._example()}`"
                raise BadValueError(f"needs `{key}`" + " beside `value`" * (key != "value"), do)
        value, bounds = self._number(raw["value"]), self._range(raw.get("range"))
        if bounds is not None and not bounds[0] <= value <= bounds[1]:
            ends = " to ".join(map(str, raw["range"]))
            raise BadValueError(
                f"{quoted(raw['value'])} lies outside its range, {ends}", "widen `range` until it holds `value`"
            )
        given = {key: each for key, each in raw.items() if key != "value"}
        return kind(value, provenance(given | {"text": str(raw["value"]), "range": bounds}))

    def is_usual(self, value: float) -> bool:
        """Return True if a real system has, or could have, such a value."""
        if self.usual is None:
            return True
        least, most = self._usual_limits
        return least <= value <= most

    @cached_property
    def _usual_limits(self) -> tuple[float, float]:
        return self._limits_of(self.usual or self._bounds)

    @cached_property
    def _limits(self) -> tuple[float, float]:
        return self._limits_of(self._bounds)

    @cached_property
    def _step(self) -> float | None:
        return parse_quantity(self.step, self.dimension) if self.step else None

    @property
    def _bounds(self) -> Bounds:
        return self.bounds or _LIMITS[self.dimension]

    def _limits_of(self, bounds: Bounds) -> tuple[float, float]:
        least, most = (parse_quantity(bound, self.dimension) for bound in bounds)
        return least, most

    def _range(self, raw: Any) -> tuple[float, float] | None:
        if raw is None:
            return None
        if not isinstance(raw, (list, tuple)) or len(raw) != 2:
            example = self._example()
            do = f"write for example `range: [{example}, {example}]`"
            raise BadValueError("range needs a list of two quantities", do)
        low, high = (self._number(bound) for bound in raw)
        if low > high:
            raise BadValueError("range ends before it starts", "write the smaller bound first")
        return low, high

    def _number(self, raw: Any) -> float:
        if not isinstance(raw, (str, int, float)):
            raise BadValueError(f"needs a quantity, not {quoted(raw)}", f"write for example `{self._example()}`")
        try:
            number = parse_quantity(raw, self.dimension)
            problem = self._problem(number)
        except NotFiniteError:
            number, problem = 0.0, "not a finite number"
        except QuantityError as error:  # its example may be outside these bounds
            raise BadValueError(str(error), f"write for example `{self._example()}`") from None
        if problem is not None:
            least, most = self._bounds
            do = f"write {least} to {most}, for example `{self._example()}`"
            raise BadValueError(f"{quoted(raw)} is {problem}", do)
        return number

    def _problem(self, number: float) -> str | None:
        """Return the problem of a number, or None."""
        least, most = self._limits
        if not least <= number <= most:
            return "too small" if number < least else "too large"
        if self.dimension == "count" and not number.is_integer():
            return "not a whole number"
        steps = number / self._step if self._step else 0.0
        return f"not a whole multiple of {self.step}" if abs(steps - round(steps)) > _ROUNDING else None

    def _example(self) -> str:
        """Return an example of the dimension within the bounds."""
        example = EXAMPLES[self.dimension]
        low, high = self._limits
        return example if low <= parse_quantity(example, self.dimension) <= high else (self.usual or (example,))[0]


def _number_data(number: Sourced) -> dict[str, Any]:
    """Return a number with its provenance as plain data."""
    return {"value": float(number)} | number.provenance.model_dump(mode="json", exclude_none=True)


def quantity_of(declared: FieldInfo) -> Quantity | None:
    """Return the `Quantity` of a field, or None for a field without one."""
    return next((mark for mark in marks_of(declared) if isinstance(mark, Quantity)), None)


def marks_of(declared: FieldInfo) -> tuple[Any, ...]:
    """Return the annotations of a field, also those inside `| None`."""
    return (*declared.metadata, *(mark for arg in get_args(declared.annotation) for mark in get_args(arg)[1:]))


@dataclass(frozen=True, slots=True)
class Declared:
    """Field of a section, with its annotations."""

    key: str  # its key in files
    name: str
    marks: tuple[Any, ...]  # annotations besides its type
    quantity: Quantity | None  # None for any other field


def quantities(model: BaseModel, path: str = "") -> Iterator[tuple[str, Sourced, Declared]]:
    """Yield key, number and declaration of every given quantity, at any depth."""
    for declared in _declared(type(model)):
        value = getattr(model, declared.name)
        if isinstance(value, Sourced):
            yield f"{path}.{declared.key}" if path else declared.key, value, declared
        elif isinstance(value, BaseModel):
            yield from quantities(value, f"{path}.{declared.key}" if path else declared.key)


@lru_cache(maxsize=256)
def _declared(model: type[BaseModel]) -> tuple[Declared, ...]:
    """Return every field of a section."""
    fields = ((key, name, model.model_fields[name]) for key, name in keys_of(model).items())
    return tuple(Declared(key, name, marks_of(field), quantity_of(field)) for key, name, field in fields)


def _json_schema(dimension: str) -> dict[str, Any]:
    """Return the schema of a quantity without or with its source."""
    plain: dict[str, Any] = {"type": "string", "examples": [EXAMPLES[dimension]]}
    units = "|".join(sorted(unit for unit in UNITS[dimension] if unit))
    plain["pattern"] = rf"^\s*[+]?[0-9._eE+-]+\s*({units})\s*$"
    if "" in UNITS[dimension]:
        plain = {"anyOf": [{"type": "number"}, plain]} if units else {"type": "number"}
    properties = {
        "value": plain,
        "source": {"type": "string"},
        "basis": {"enum": list(Basis.__args__)},  # type: ignore[attr-defined]
        "level": {"enum": list(LEVELS)},
        "note": {"type": "string"},
        "date": DATE_SCHEMA,
        "range": {"type": "array", "items": plain, "minItems": 2, "maxItems": 2},
    }
    full = {
        "type": "object",
        "properties": properties,
        "required": ["value", "source", "basis"],
        "additionalProperties": False,
    }
    return {"anyOf": [plain, full]}


SourcedBytes = Annotated[Whole, Quantity("bytes")]
SourcedTime = Annotated[Real, Quantity("s")]

_MOST = 10**12
Count = Annotated[int, Field(strict=True, ge=1, le=_MOST)]
CountOrZero = Annotated[int, Field(strict=True, ge=0, le=_MOST)]
_MOST_LAYERS = 10_000
LayerCount = Annotated[int, Field(strict=True, ge=1, le=_MOST_LAYERS)]
"""Upper limit of layers, which are planned one by one; real models have less than a tenth."""
Flag = Annotated[bool, Field(strict=True)]
Probability = Annotated[float, Field(strict=True, ge=0, lt=1, allow_inf_nan=False)]
NumberFormat = Literal["fp16", "fp32"]


_MOST_MONEY: Final = 10**12


class Price(Real):
    """Amount of money with its currency and provenance."""

    currency: str

    def __new__(cls, value: float, provenance: Provenance, currency: str = "") -> Self:
        """Create an amount in a currency."""
        price = super().__new__(cls, value, provenance)
        price.currency = currency
        return price

    def __getnewargs__(self) -> tuple[float, Provenance, str]:  # type: ignore[override]
        return float(self), self.provenance, self.currency


@dataclass(frozen=True)
class Priced:
    """Annotation of a field with a price, by which pydantic reads texts such as `1.5 USD`."""

    example: str  # a price of that kind
    per: tuple[tuple[str, float], ...] = (("", 1.0),)  # units allowed behind a slash
    words: tuple[str, ...] = ()  # words allowed in place of a price

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic read a price with its provenance."""
        return core_schema.no_info_wrap_validator_function(
            self.read,
            handler.generate_schema(Provenance),
            serialization=core_schema.plain_serializer_function_ser_schema(_price_data),
        )

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: Any) -> dict[str, Any]:
        plain: dict[str, Any] = {"type": "string", "examples": [self.example]}
        properties = {
            "value": plain,
            "source": {"type": "string"},
            "basis": {"enum": list(get_args(Basis))},
            "level": {"enum": list(LEVELS)},
            "note": {"type": "string"},
            "date": DATE_SCHEMA,
            "range": {"type": "array", "items": plain, "minItems": 2, "maxItems": 2},
        }
        full = {"type": "object", "properties": properties, "required": ["value"], "additionalProperties": False}
        return {"anyOf": [*({"const": word} for word in self.words), plain, full]}

    def read(self, raw: Any, provenance: Callable[[Any], Provenance]) -> Price | str:
        """Return the price of `1.5 USD` or `{value: 1.5 USD, date: …, source: …, basis: …}`, or raise an error."""
        if isinstance(raw, Price) or (isinstance(raw, str) and raw in self.words):
            return raw
        given: Mapping[str, Any] = raw if isinstance(raw, dict) else {"value": raw}
        for key in given:
            if key not in SOURCED_KEYS:
                raise BadValueError(f"unknown key `{key}`", known_here(str(key), SOURCED_KEYS))
        if "value" not in given:
            raise BadValueError("needs `value`", f"add it, or write the price alone, `{self.example}`")
        value, currency = self._amount(given["value"])
        evidence = {"source": "given", "basis": "assumed"} | {k: v for k, v in given.items() if k != "value"}
        bounds = self._range(given.get("range"), currency)
        return Price(value, provenance(evidence | {"text": str(given["value"]), "range": bounds}), currency)

    def _amount(self, raw: Any) -> tuple[float, str]:
        if isinstance(raw, (dict, list, tuple, bool)) or raw is None:
            raise BadValueError(f"needs a price, not {quoted(raw)}", f"write for example `{self.example}`")
        value, currency = parse_price(raw, dict(self.per), self.example)
        if value > _MOST_MONEY:
            raise BadValueError(
                f"{quoted(raw)} is too large", f"write at most {_MOST_MONEY:,}, for example `{self.example}`"
            )
        return value, currency

    def _range(self, raw: Any, currency: str) -> tuple[float, float] | None:
        if raw is None:
            return None
        do = f"write for example `range: [{self.example}, {self.example}]`"
        if not isinstance(raw, (list, tuple)) or len(raw) != 2:
            raise BadValueError("range needs a list of two prices", do)
        (low, first), (high, second) = map(self._amount, raw)
        if {first, second} != {currency}:
            raise BadValueError(f"range in another currency than {currency}", "give all three in one currency")
        if low > high:
            raise BadValueError("range ends before it starts", "write the smaller bound first")
        return low, high


def _price_data(price: Price | str) -> dict[str, Any] | str:
    """Return a price with its provenance as plain data."""
    if not isinstance(price, Price):
        return price
    plain = price.provenance.model_dump(mode="json", exclude_none=True)
    return {"value": float(price), "currency": price.currency} | plain
