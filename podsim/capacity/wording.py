"""Figures of options in words and cells."""

from __future__ import annotations

from typing import Final

from podsim.draws import Range
from podsim.metrics import IPU, JOULES, MONEY, SECONDS, SHARE, WATTS, metric_of
from podsim.report.format import (
    format_duration_s,
    format_energy_j,
    format_percent,
    format_power_w,
    format_significant,
    format_span,
)

_DIGITS: Final = 4


def cell(figure: str, value: float | None, currency: str = "") -> str:
    """A figure with its unit.

    >>> cell("cost_per_run", 8.5466, "USD"), cell("mfu", 0.4), cell("energy_per_run_j", 7.2e6)
    ('8.547 USD', '40.0 %', '2 kWh')
    """
    if value is None:
        return "–"
    unit = metric_of(figure).unit
    if unit == IPU:
        return f"{value:,.0f}"
    if unit == MONEY:
        return f"{value:,.4g} {currency}".rstrip() if abs(value) < 10**_DIGITS else f"{value:,.0f} {currency}".rstrip()
    if unit == SECONDS:
        return format_duration_s(value, _DIGITS)
    if unit == WATTS:
        return format_power_w(value)
    if unit == JOULES:
        return format_energy_j(value)
    return format_percent(value) if unit == SHARE else format_significant(value, _DIGITS)


def range_cell(figure: str, ends: Range | None, currency: str = "") -> str:
    """Between what a figure lies, with its unit."""
    if ends is None:
        return "–"
    return format_span(cell(figure, ends.low, currency), cell(figure, ends.high, currency))


def ratio(value: float | None) -> str:
    """A ratio of figures.

    >>> ratio(0.5312), ratio(None)
    ('× 0.531', '–')
    """
    return "–" if value is None else f"× {format_significant(value)}"


def axis_label(figure: str, currency: str = "") -> str:
    """A figure with its unit, for an axis of a chart."""
    metric = metric_of(figure)
    if metric.unit == MONEY:
        return f"{metric.label} [{currency}]" if currency else metric.label
    return metric.titled
