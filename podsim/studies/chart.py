"""The common part of charts of many runs: figures that notebooks show, colours, pairs of bars.

Figures are made directly, without pyplot and its global state. Whatever is predicted is blue, whatever was measured
is grey.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from math import isfinite
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

PREDICTED: Final = "#2171b5"
MEASURED: Final = "#bdbdbd"
MEASURED_INK: Final = "#555555"
OTHER: Final = "#e6750f"
"""Another machine."""
PARTS: Final = ("#2171b5", "#9ecae1", "#1f9e80", "#e6750f", "#6a2c86", "#c09ad0", "#bdbdbd", "#e8c547")
"""Colours of parts of a whole; neighbours differ in lightness, for readers who see no red or no green."""
BAR: Final = 0.42
"""Width of one of a pair of bars, of the distance between two pairs."""
# Text of 8.5 points is then 1/75 of the width: legible where a page shows a chart at 900 pixels.
_WIDTH_INCHES: Final = 9.0
_DOTS_PER_INCH: Final = 125
CLEAR: Final = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
"""Behind text that may lie over a line."""


class Chart(Figure):
    """A figure that notebooks show as it is, the same bytes for the same figure."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
        return buffer.getvalue()


def chart_of_height(height: float) -> Chart:
    """An empty chart of the width that all have. [inches]"""
    return Chart(figsize=(_WIDTH_INCHES, height), layout="constrained")


def draw_pairs(
    axes: Axes,
    labels: Sequence[str],
    predicted: Iterable[float],
    measured: Iterable[float],
    ranges: Iterable[tuple[float, float]] = (),
    digits: int = 1,
    names: tuple[str, str] = ("predicted", "measured"),
) -> None:
    """Two bars for each label, with their heights written on them and their names in the first pair.

    Args:
        axes: Where to draw.
        labels: Below the pairs.
        predicted: Heights of the bars at the left.
        measured: Heights of the bars at the right.
        ranges: Ends of the whiskers of those at the right; not numbers where there are none.
        digits: Of the heights behind the point.
        names: Of both kinds of bars.
    """
    ends = dict(enumerate(ranges))
    for shift, values, colour, name, ink in (
        (-BAR / 2, list(predicted), PREDICTED, names[0], "white"),
        (BAR / 2, list(measured), MEASURED, names[1], "black"),
    ):
        for place, value in enumerate(values):
            axes.bar(place + shift, value, 0.95 * BAR, color=colour)
            top = _whisker(axes, place + shift, ends.get(place)) if shift > 0 else None
            write_value(axes, place + shift, value, top, digits)
        axes.text(shift, 0.04 * values[0], name, rotation=90, ha="center", va="bottom", fontsize=9, color=ink)
    axes.set_xticks(range(len(labels)), labels)
    axes.tick_params(axis="x", length=0)
    axes.set_yticks([])
    axes.margins(y=0.1)
    bare_frame(axes)


def write_value(axes: Axes, place: float, value: float, top: float | None = None, digits: int = 1) -> None:
    """Write a value over its bar, or over the whisker that stands on it."""
    axes.annotate(
        f"{value:.{digits}f}",
        (place, value if top is None else top),
        (0, 3),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
        bbox=CLEAR,
    )


def _whisker(axes: Axes, place: float, ends: tuple[float, float] | None) -> float | None:
    """A line from the shortest to the longest with a dash at either end; returns the upper one if there is one."""
    if ends is None or not all(map(isfinite, ends)):
        return None
    axes.plot((place, place), ends, "_-", color=MEASURED_INK, linewidth=1, markersize=5)
    return ends[1]


def bare_frame(axes: Axes) -> None:
    """Only the horizontal axis, and no ticks beside names of rows."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(labelsize=9)
