"""Lines of a headline about power, energy and cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podsim.format import format_energy_j, format_percent, format_power_w, format_significant
from podsim.result.base import Result
from podsim.result.bill import Cost

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
    yield "Power", "mean_power_w", format_power_w(result.energy.mean_power_w)
    yield "  range", "", f"{low.removesuffix(f' {high.split()[-1]}')} to {high}"
    label = "Energy"
    for name in _SHOWN:
        if name in result.energy.per_j:
            yield label, f"energy_per_{name}_j", f"{format_energy_j(result.energy.per_j[name])}/{name}"
            label = ""


def _cost(cost: Cost | None) -> Iterator[tuple[str, str, str]]:
    if cost is None or cost.per_hour is None:
        return
    if cost.per_run is not None:
        whole, fixed, used, of = cost.per_run, cost.fixed_per_run, cost.energy_per_run, "run"
    else:
        whole, fixed, used, of = cost.per_hour, cost.fixed_per_hour, cost.energy_per_hour, "hour of work"
    yield "Cost", "cost_per_run" if of == "run" else "", f"{_amount(whole)} {cost.currency} per {of}"
    for label, part in (("  fixed", fixed), ("  energy", used)):
        yield label, "", "no price" if part is None else f"{_amount(part)} {cost.currency}"
    for name, value in cost.per_million.items():
        yield "", "", f"{_amount(value)} {cost.currency} per million {name}s"
    if (busy := float(cost.prices.duty_cycle)) < 1:
        yield "  at work", "", f"{format_percent(busy, 0)} of the time"


def _amount(value: float) -> str:
    """An amount of money, in hundredths from one on.

    >>> _amount(1234.567), _amount(0.0123456), _amount(0.0)
    ('1,234.57', '0.0123', '0')
    """
    return f"{value:,.2f}" if abs(value) >= 1 else format_significant(value)
