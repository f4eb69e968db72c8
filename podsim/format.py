"""Formatting of numbers for readers; functions that messages need too are in `podsim.units`."""

import re
from collections.abc import Callable
from math import inf
from typing import Final

from podsim import draws
from podsim.metrics import JOULES, SECONDS, SHARE, WATTS, Metric
from podsim.units import format_bytes as format_bytes
from podsim.units import format_significant as format_significant

_UNITS: Final = {
    SECONDS: (
        *((1e-9, "ps", 1e-12), (1e-6, "ns", 1e-9), (1e-3, "us", 1e-6), (1.0, "ms", 1e-3)),
        *((120.0, "s", 1.0), (7200.0, "min", 60.0), (172800.0, "h", 3600.0), (inf, "d", 86400.0)),
    ),
    JOULES: ((1e-3, "uJ", 1e-6), (1.0, "mJ", 1e-3), (1e3, "J", 1.0), (1e6, "kJ", 1e3), (inf, "kWh", 3.6e6)),
    WATTS: ((1e3, "W", 1.0), (inf, "kW", 1e3)),
}
"""Displayed units by SI unit: upper limit of the value, name, and size in the SI unit."""
_AXES: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_ENOUGH: Final = 2.0
"""Least length of an axis in its unit."""
_HEADLINE_DIGITS: Final = 4


def _unit_of(value: float, unit: str, digits: int) -> tuple[str, float]:
    """Return the unit that suits a value rounded to `digits` digits, and its size in the SI unit."""
    return next(
        (name, scale)
        for limit, name, scale in _UNITS[unit]
        if float(f"{abs(value) / scale:.{digits - 1}e}") * scale < limit
    )


def _scaled(value: float, unit: str, digits: int = 3) -> str:
    name, scale = _unit_of(value, unit, digits)
    return f"{format_significant(value / scale, digits)} {name}"


def format_duration_s(seconds: float, digits: int = 3) -> str:
    """Format a duration in a suitable unit. [s]

    Minutes are used from two minutes on and hours from two hours on, as run times are usually quoted.

    >>> format_duration_s(0.0013), format_duration_s(12.4), format_duration_s(1563.0)
    ('1.3 ms', '12.4 s', '26.1 min')
    """
    return _scaled(seconds, SECONDS, digits) if seconds else "0 s"


def unit_of_duration(seconds: float, digits: int) -> tuple[str, float]:
    """Return the unit that suits a duration, and its length. [s]"""
    return _unit_of(seconds, SECONDS, digits)


def unit_of_energy(energy_j: float) -> tuple[str, float]:
    """Return the unit that suits an energy, and its size. [J]"""
    return _unit_of(energy_j, JOULES, 3)


def format_power_w(power_w: float) -> str:
    """Format a power in a suitable unit. [W]

    >>> format_power_w(21.04), format_power_w(4936.6)
    ('21 W', '4.94 kW')
    """
    return _scaled(power_w, WATTS)


def format_energy_j(energy_j: float) -> str:
    """Format an energy in joules, from a megajoule on in kilowatt-hours. [J]

    >>> format_energy_j(0.1724), format_energy_j(3229.0), format_energy_j(7.2e6)
    ('172 mJ', '3.23 kJ', '2 kWh')
    """
    return _scaled(energy_j, JOULES)


def unit_for_s(longest_s: float) -> tuple[float, str]:
    """Return the length and the name of the unit for an axis up to a time. [s]

    >>> unit_for_s(12.5), unit_for_s(0.15)
    ((1.0, 's'), (0.001, 'ms'))
    """
    return next(((scale_s, name) for scale_s, name in _AXES if longest_s >= _ENOUGH * scale_s), _AXES[-1])


def format_range(low: str, high: str) -> str:
    """Return the ends of a range, to follow a value.

    >>> format_range("21 ms", "14 s"), format_range("3.9 requests/s", "6.1 requests/s")
    ('80 %: 21 ms to 14 s', '80 %: 3.9 to 6.1 requests/s')
    """
    return f"{100 * draws.SHARE:.0f} %: {format_span(low, high)}"


def format_span(low: str, high: str) -> str:
    """Return two values joined by `to`; a unit that they share is written once.

    >>> format_span("9.1 min", "11 min"), format_span("4", "5")
    ('9.1 to 11 min', '4 to 5')
    """
    number, _, unit = low.partition(" ")
    return f"{number if unit and high.endswith(f' {unit}') else low} to {high}"


def format_interval(ends: draws.Range | None, write: Callable[[float], str]) -> str:
    """Return the ends of a range as text, each formatted by `write`; empty without a range."""
    return "" if ends is None else format_span(write(ends.low), write(ends.high))


def format_figure(metric: Metric, value: float, currency: str = "") -> str:
    """Format a value in its unit; for a rate the column heading shows the unit.

    >>> from podsim.metrics import COST, ENERGY, METRICS
    >>> format_figure(METRICS[COST], 8.5466, "USD"), format_figure(METRICS["mfu"], 0.4)
    ('8.547 USD', '40.0 %')
    >>> format_figure(METRICS[ENERGY], 7.2e6)
    '2 kWh'
    """
    if metric.unit in _UNITS:
        return _scaled(value, metric.unit, _HEADLINE_DIGITS if metric.unit == SECONDS else 3)
    match metric.unit:
        case "1":
            return format_percent(value)
        case "IPU":
            return f"{value:,.0f}"
        case "currency":
            few = f"{value:,.4g}" if abs(value) < 10**_HEADLINE_DIGITS else f"{value:,.0f}"
            return f"{few} {currency}".rstrip()
    return format_significant(value, _HEADLINE_DIGITS)


def format_ends(metric: Metric, value: float, low: float, high: float) -> str:
    """Return the ends of a metric's range, in the unit of its value, without the unit.

    >>> from podsim.metrics import METRICS, TIME, TOKENS, UPDATE
    >>> [format_ends(METRICS[UPDATE], 0.6379, 0.6071, 0.6652), format_ends(METRICS[TOKENS], 4904.3, 4702.4, 5156.4)]
    ['607 to 665', '4,700 to 5,160']
    >>> [format_ends(METRICS[TIME], 487.2, 445.4, 535.3), format_ends(METRICS["mfu"], 0.153, 0.1468, 0.1609)]
    ['7.42 to 8.92', '14.7 to 16.1']
    """
    scale = 0.01 if metric.unit == SHARE else 1.0
    if metric.unit in (SECONDS, JOULES):
        scale = _unit_of(value, metric.unit, _HEADLINE_DIGITS if metric.unit == SECONDS else 3)[1]
    return " to ".join(format_significant(float(f"{end / scale:.2e}")) for end in (low, high))


def format_count(value: float) -> str:
    """Format a count with grouped thousands; a fraction has four significant digits.

    >>> format_count(2171427), format_count(1413.44), format_count(2.03681)
    ('2,171,427', '1,413', '2.037')
    """
    return f"{value:,d}" if isinstance(value, int) else format_significant(value, 4)


def format_counted(count: int, what: str) -> str:
    """Return a count with its noun.

    >>> format_counted(1, "scenario"), format_counted(2000, "figure")
    ('1 scenario', '2,000 figures')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def format_percent(ratio: float, decimals: int = 1) -> str:
    """Format a ratio as a percentage.

    >>> format_percent(0.5812)
    '58.1 %'
    """
    return f"{100 * ratio:.{decimals}f} %"


def format_error(ratio: float, decimals: int = 1) -> str:
    """Format a relative error as a percentage with its sign; an error that rounds to zero has none.

    >>> format_error(0.0123), format_error(-0.2), format_error(-0.0004)
    ('+1.2 %', '-20.0 %', '0.0 %')
    """
    text = f"{100 * ratio:+.{decimals}f}"
    return f"{text if float(text) else text[1:]} %"


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts `ipu2` before `ipu10`.

    >>> sorted(["ipu10", "ipu2"], key=natural_key)
    ['ipu2', 'ipu10']
    """
    parts = filter(None, re.split(r"(\d+)", text))
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


def in_title(words: str) -> str:
    """Return words with a capital first letter, and all other letters unchanged.

    >>> in_title("time to train of IPUs")
    'Time to train of IPUs'
    """
    return words[:1].upper() + words[1:]
