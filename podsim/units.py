"""Units: quantities as text in input and output, SI base units inside, integer picoseconds in the engine.

This parser is not a library because messages name the cure, and start-up time counts in milliseconds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context
from typing import Final

from podsim.errors import BadValueError

PS_PER_S: Final = 10**12

_DECIMAL: Final = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_SECONDS: Final = {"ps": 1e-12, "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_BITS_PER_BYTE: Final = 8
_LONGEST_TEXT: Final = 60
_BYTE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_EXACT: Final = Context(prec=2 * _LONGEST_TEXT, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
"""Context for exact products of decimal numbers, which are rounded once, so that `3 ms` equals `3000 us`."""

_QUANTITY: Final = re.compile(
    r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?\.?(?:inf|nan))\s*(\S*)\s*", re.I
)


def _with_prefixes(unit: str, factor: float, *, binary: bool) -> dict[str, float]:
    prefixes = _DECIMAL | (_BINARY if binary else {})
    return {prefix + unit: scale * factor for prefix, scale in prefixes.items()}


_BYTES: Final = _with_prefixes("B", 1, binary=True) | _with_prefixes("b", 1 / _BITS_PER_BYTE, binary=True)
_SMALL_J: Final = {"mJ": 1e-3, "uJ": 1e-6, "nJ": 1e-9, "pJ": 1e-12}
UNITS: Final[dict[str, dict[str, float]]] = {
    "bytes": _BYTES,
    "bytes_per_s": {f"{unit}/s": factor for unit, factor in _BYTES.items()},
    "hz": _with_prefixes("Hz", 1, binary=False),
    "s": _SECONDS,
    "w": _with_prefixes("W", 1, binary=False),
    "j": _with_prefixes("J", 1, binary=False) | _with_prefixes("Wh", 3600, binary=False) | _SMALL_J,
    "cycles": {"": 1.0, "cycles": 1.0},
    "ratio": {"": 1.0, "%": 0.01},
    "share": {"": 1.0, "%": 0.01},
    "count": {"": 1.0},
}
"""Units by dimension, each with its factor to the SI base unit. `b` is a bit, `B` a byte."""

EXAMPLES: Final[dict[str, str]] = {
    "bytes": "624 KiB",
    "bytes_per_s": "16 GB/s",
    "hz": "1.85 GHz",
    "s": "1.5 us",
    "w": "300 W",
    "j": "2.4 kWh",
    "cycles": "250",
    "ratio": "0.85",
    "share": "85 %",
    "count": "4",
}


_PRICE: Final = re.compile(r"\s*(\+?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Z]{3})(?:\s*/\s*(\w+))?\s*")


class QuantityError(BadValueError):
    """A text that is not a quantity of the wanted dimension."""


class NotFiniteError(QuantityError):
    """A text that stands for no finite number."""


def parse_quantity(text: str | int | float, dimension: str) -> float:
    """Parse a quantity and return it in its SI base unit.

    >>> parse_quantity("16 GB/s", "bytes_per_s"), parse_quantity("624 KiB", "bytes")
    (16000000000.0, 638976.0)
    >>> parse_quantity("30 Gb/s", "bytes_per_s")
    3750000000.0
    >>> parse_quantity("0.7 us", "s") == parse_quantity("700 ns", "s")
    True
    """
    known, do = UNITS[dimension], f"write for example `{EXAMPLES[dimension]}`"
    written = str(text) if len(str(text)) <= _LONGEST_TEXT else f"{str(text)[:_LONGEST_TEXT]}…"
    match = None if isinstance(text, bool) or written != str(text) else _QUANTITY.fullmatch(written)
    if match is None:
        raise QuantityError(f"`{written}` is not a quantity", do)
    number, unit = match.groups()
    if unit not in known:
        raise QuantityError(f"unit `{unit}` does not fit here" if unit else f"`{written}` has no unit", do)
    found = float(_EXACT.multiply(*map(_EXACT.create_decimal, (number.replace("_", ""), repr(known[unit])))))
    if not math.isfinite(found):
        raise NotFiniteError(f"`{written}` is not a finite number", do)
    return found


def parse_price(text: object, per: Mapping[str, float], example: str) -> tuple[float, str]:
    """Parse a price and return its amount per unit, and its currency.

    >>> parse_price("1.5 USD", {"": 1.0}, "1.5 USD"), parse_price("120 EUR/MWh", {"kWh": 1, "MWh": 1000}, "")
    ((1.5, 'USD'), (0.12, 'EUR'))
    """
    written, do = str(text), f"write a number and the three letters of a currency, for example `{example}`"
    written = written if len(written) <= _LONGEST_TEXT else f"{written[:_LONGEST_TEXT]}…"
    match = _PRICE.fullmatch(written)
    if match is None:
        raise QuantityError(f"`{written}` is not a price", do)
    number, currency, unit = match.groups(default="")
    if unit not in per:
        what = f"`{written}` is a price per `{unit}`" if unit else f"`{written}` does not say what it is the price of"
        raise QuantityError(what, do)
    amount = float(number) / per[unit]
    if not math.isfinite(amount):
        raise NotFiniteError(f"`{written}` is not a finite number", do)
    return amount, currency


def seconds_to_ps(seconds: float) -> int:
    """Convert seconds to a whole number of picoseconds, rounded half to even. [ps]

    >>> seconds_to_ps(1.5e-6)
    1500000
    """
    return round(seconds * PS_PER_S)


def cycles_to_ps(cycles: float, clock_hz: float) -> int:
    """Convert clock cycles to a whole number of picoseconds, rounded half to even. [ps]

    >>> cycles_to_ps(1.33e6, 1.33e9)
    1000000000
    """
    return round(cycles * PS_PER_S / clock_hz)


def ps_to_seconds(picoseconds: int) -> float:
    """Convert picoseconds to seconds.

    >>> ps_to_seconds(1_500_000)
    1.5e-06
    """
    return picoseconds / PS_PER_S


def format_significant(value: float, digits: int = 3) -> str:
    """Format a number with a limited count of significant digits, grouped thousands and no trailing zeros.

    Digits before the decimal point are never rounded away.

    >>> format_significant(1413.44), format_significant(1.3), format_significant(0.02139)
    ('1,413', '1.3', '0.0214')
    """
    if value == 0:
        return "0"
    exponent = int(f"{abs(value):.{digits - 1}e}".partition("e")[2])
    decimals = max(0, digits - 1 - exponent)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_bytes(size_bytes: float, digits: int = 3) -> str:
    """Format a size in binary units. [B]

    >>> format_bytes(940_572_672), format_bytes(512), format_bytes(1.13 * 2**30)
    ('897 MiB', '512 B', '1.13 GiB')
    """
    value = float(size_bytes)
    for unit in _BYTE_UNITS[:-1]:
        if abs(float(f"{value:.{digits - 1}e}")) < 1000:
            return f"{format_significant(value, digits)} {unit}"
        value /= 1024
    return f"{format_significant(value, digits)} {_BYTE_UNITS[-1]}"
