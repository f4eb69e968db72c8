"""Figures of options in words and cells."""

from __future__ import annotations

from typing import Final

from podsim.capacity.figures import IPUS
from podsim.draws import Range
from podsim.report.format import (
    format_duration_s,
    format_energy_j,
    format_percent,
    format_power_w,
    format_significant,
    format_span,
)
from podsim.sweeps.table import unit_of

_DIGITS: Final = 4
_PERCENT: Final = ("mfu", "utilization", "load")


def heading(figure: str) -> str:
    """A figure as the head of a column.

    >>> heading("time_to_train_s"), heading("throughput_samples_per_s"), heading("mean_power_w")
    ('time to train', 'samples/s', 'mean power')
    """
    if figure == IPUS:
        return "IPUs"
    if figure.endswith("_per_s"):
        return f"{figure.removesuffix('_per_s').replace('throughput_', '').replace('_', ' ')}/s"
    for ending in ("_s", "_w", "_j"):
        if figure.endswith(ending) and not figure.endswith("_per_w"):
            return figure.removesuffix(ending).replace("_", " ")
    return figure.replace("_per_s_per_w", "/s per W").replace("_", " ")


def cell(figure: str, value: float | None, currency: str = "") -> str:
    """A figure with its unit.

    >>> cell("cost_per_run", 8.5466, "USD"), cell("mfu", 0.4), cell("energy_per_run_j", 7.2e6)
    ('8.547 USD', '40.0 %', '2 kWh')
    """
    if value is None:
        return "–"
    if figure == IPUS:
        return f"{value:,.0f}"
    if figure.startswith("cost_"):
        return f"{value:,.4g} {currency}".rstrip() if abs(value) < 10**_DIGITS else f"{value:,.0f} {currency}".rstrip()
    if figure.endswith("_per_s"):
        return format_significant(value, _DIGITS)
    if figure.endswith("_s"):
        return format_duration_s(value, _DIGITS)
    if figure.endswith("_w") and not figure.endswith("_per_w"):
        return format_power_w(value)
    if figure.endswith("_j"):
        return format_energy_j(value)
    return format_percent(value) if figure.startswith(_PERCENT) else format_significant(value, _DIGITS)


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
    unit = currency if figure.startswith("cost_") else unit_of(figure)
    words = figure.removesuffix("_s").removesuffix("_w").removesuffix("_j") if unit else figure
    return f"{words.replace('_', ' ')} [{unit}]" if unit else words.replace("_", " ")
