"""Prices: an amount of money in a currency, with what it stands on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from podsim.errors import BadValueError
from podsim.scenario.dates import DATE_SCHEMA
from podsim.scenario.quantity import SOURCED_KEYS, Basis, Provenance, Real
from podsim.scenario.wording import known_here, shown
from podsim.units import parse_price

_MOST: Final = 10**12


class Price(Real):
    """An amount of money with its currency and what it stands on."""

    currency: str

    def __new__(cls, value: float, provenance: Provenance, currency: str = "") -> Self:
        """An amount in a currency."""
        price = super().__new__(cls, value, provenance)
        price.currency = currency
        return price

    def __getnewargs__(self) -> tuple[float, Provenance, str]:  # type: ignore[override]
        return float(self), self.provenance, self.currency


@dataclass(frozen=True)
class Priced:
    """How a price is read; stands in the declaration of its field.

    Attributes:
        example: A price of that kind.
        per: Units that may stand behind a slash, each with what the number is divided by.
        words: Words that may stand in its place.
    """

    example: str
    per: tuple[tuple[str, float], ...] = (("", 1.0),)
    words: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic read a price with its provenance."""
        return core_schema.no_info_wrap_validator_function(
            self.read,
            handler.generate_schema(Provenance),
            serialization=core_schema.plain_serializer_function_ser_schema(_written_out),
        )

    def __get_pydantic_json_schema__(self, _schema: Any, _handler: Any) -> dict[str, Any]:
        plain: dict[str, Any] = {"type": "string", "examples": [self.example]}
        properties = {
            "value": plain,
            "source": {"type": "string"},
            "basis": {"enum": list(get_args(Basis))},
            "note": {"type": "string"},
            "date": DATE_SCHEMA,
            "range": {"type": "array", "items": plain, "minItems": 2, "maxItems": 2},
        }
        full = {"type": "object", "properties": properties, "required": ["value"], "additionalProperties": False}
        return {"anyOf": [*({"const": word} for word in self.words), plain, full]}

    def read(self, raw: Any, provenance: Callable[[Any], Provenance]) -> Price | str:
        """Read `1.5 USD` or `{value: 1.5 USD, date: …, source: …, basis: …}`.

        Args:
            raw: As it was written; a price that was read before stays as it is.
            provenance: Checks what the price stands on.
        """
        if isinstance(raw, Price) or (isinstance(raw, str) and raw in self.words):
            return raw
        given: Mapping[str, Any] = raw if isinstance(raw, dict) else {"value": raw}
        for key in given:
            if key not in SOURCED_KEYS:
                raise BadValueError(f"unknown key `{key}`", known_here(str(key), SOURCED_KEYS))
        if "value" not in given:
            raise BadValueError("needs `value`", f"add it, or write the price alone, `{self.example}`")
        value, currency = self._amount(given["value"])
        stands_on = {"source": "given", "basis": "assumed"} | {k: v for k, v in given.items() if k != "value"}
        bounds = self._range(given.get("range"), currency)
        return Price(value, provenance(stands_on | {"text": str(given["value"]), "range": bounds}), currency)

    def _amount(self, raw: Any) -> tuple[float, str]:
        if isinstance(raw, (dict, list, tuple, bool)) or raw is None:
            raise BadValueError(f"needs a price, not {shown(raw)}", f"write for example `{self.example}`")
        value, currency = parse_price(raw, dict(self.per), self.example)
        if value > _MOST:
            raise BadValueError(f"{shown(raw)} is too large", f"write at most {_MOST:,}, for example `{self.example}`")
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


def _written_out(price: Price | str) -> dict[str, Any] | str:
    """A price with its provenance as plain data."""
    if not isinstance(price, Price):
        return price
    plain = price.provenance.model_dump(mode="json", exclude_none=True)
    return {"value": float(price), "currency": price.currency} | plain
