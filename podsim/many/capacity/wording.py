"""Figures of options in words and cells."""

from __future__ import annotations

from podsim.draws import Range
from podsim.format import format_figure, format_significant, format_span
from podsim.metrics import MONEY, metric_of


def cell(figure: str, value: float | None, currency: str = "") -> str:
    """A figure with its unit, or a dash where there is none."""
    return "–" if value is None else format_figure(metric_of(figure), value, currency)


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
