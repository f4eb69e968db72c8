"""Lines of a headline about power, energy and cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podsim.report.base import Result
from podsim.report.bill import Cost
from podsim.report.format import format_percent, format_significant

_JOULES: Final = ((1e-3, "uJ", 1e-6), (1.0, "mJ", 1e-3), (1e3, "J", 1.0), (1e6, "kJ", 1e3))
_J_PER_KWH: Final = 3.6e6
_W_PER_KW: Final = 1000
_SHOWN: Final = ("sample", "token", "request", "run")


def spent_rows(result: Result) -> list[tuple[str, str, str]]:
    """Rows of a headline: mean power with its range, energy, and the cost where prices are given."""
    return [*_power(result), *_cost(result.cost)]


def _power(result: Result) -> Iterator[tuple[str, str, str]]:
    if result.energy is None:
        missing = result.meter.missing if result.meter else []
        if missing:
            yield "Power", "", f"not known without {' and '.join(missing)}"
        return
    low, high = map(format_power_w, result.energy.range_w)
    mean = format_power_w(result.energy.mean_power_w)
    yield "Power", "mean_power_w", f"{mean} on average ({low} to {high})"
    parts = [f"{format_energy_j(joules)} per {name}" for name, joules in result.energy.per_j.items() if name in _SHOWN]
    yield "Energy", "energy_per_sample_j", ", ".join(parts)


def _cost(cost: Cost | None) -> Iterator[tuple[str, str, str]]:
    if cost is None or cost.per_hour is None:
        return
    per_run = cost.per_run is not None
    whole, fixed, used = (
        (cost.per_run, cost.fixed_per_run, cost.energy_per_run)
        if per_run
        else (cost.per_hour, cost.fixed_per_hour, cost.energy_per_hour)
    )
    parts = [f"{_amount(part)} {name}" for part, name in ((fixed, "fixed"), (used, "for energy")) if part is not None]
    of = "run" if per_run else "hour of work"
    split = f" ({' + '.join(parts)})" if len(parts) > 1 else f", {'fixed' if used is None else 'energy alone'}"
    yield "Cost", "cost_per_run" if per_run else "", f"{_amount(whole or 0.0)} {cost.currency} per {of}{split}"
    each = [f"{_amount(value)} {cost.currency} per million {name}s" for name, value in cost.per_million.items()]
    busy = float(cost.prices.duty_cycle)
    idle = f", at work {format_percent(busy, 0)} of the time" if busy < 1 else ""
    if each:
        yield "", "", ", ".join(each) + idle


def _amount(value: float) -> str:
    """An amount of money, in hundredths from one on.

    >>> _amount(1234.567), _amount(0.0123456), _amount(0.0)
    ('1,234.57', '0.0123', '0')
    """
    return f"{value:,.2f}" if abs(value) >= 1 else format_significant(value)


def format_power_w(power_w: float) -> str:
    """Power in the unit that suits it. [W]

    >>> format_power_w(21.04), format_power_w(4936.6)
    ('21 W', '4.94 kW')
    """
    if power_w < _W_PER_KW:
        return f"{format_significant(power_w)} W"
    return f"{format_significant(power_w / _W_PER_KW)} kW"


def format_energy_j(energy_j: float) -> str:
    """Energy in joules, from a megajoule on in kilowatt-hours. [J]

    >>> format_energy_j(0.1724), format_energy_j(3229.0), format_energy_j(7.2e6)
    ('172 mJ', '3.23 kJ', '2 kWh')
    """
    for limit_j, unit, scale_j in _JOULES:
        if energy_j < limit_j:
            return f"{format_significant(energy_j / scale_j)} {unit}"
    return f"{format_significant(energy_j / _J_PER_KWH)} kWh"
