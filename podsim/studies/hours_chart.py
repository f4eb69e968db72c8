"""A chart of long runs: predicted times to train with their parts, beside published ones and other machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from matplotlib.axes import Axes

from podsim.report.chart_frame import write_on_bar
from podsim.studies.chart import MEASURED, OTHER, PARTS, PREDICTED, Chart, bare_frame, chart_of_height

Origin = Literal["predicted", "published", "other machine"]

_PLAIN: Final[Mapping[Origin, str]] = {"predicted": PREDICTED, "published": MEASURED, "other machine": OTHER}
_LABEL_FROM_SHARE: Final = 0.06
_ROW_INCHES: Final = 0.42
_ONE_DECIMAL_FROM_H: Final = 10


@dataclass(frozen=True, slots=True)
class HoursRow:
    """The time of one run.

    Attributes:
        name: Beside the bar.
        origin: Where the time is from.
        parts: Hours by part of the run; a single part needs no telling name. [h]
    """

    name: str
    origin: Origin
    parts: Mapping[str, float]

    @property
    def hours(self) -> float:
        """The whole run. [h]"""
        return sum(self.parts.values())


def hours_chart(rows: Sequence[HoursRow]) -> Chart:
    """A bar for each run, from the top: what is predicted with its parts, what was published in one colour."""
    figure = chart_of_height(1.2 + _ROW_INCHES * len(rows))
    axes = figure.add_subplot()
    colours = _colours_of_parts(rows)
    longest = max(row.hours for row in rows)
    shown: dict[str, str] = {}
    for place, row in enumerate(rows):
        _bar(axes, place, row, colours, longest, shown)
    for label, colour in shown.items():
        axes.plot([], [], "s", color=colour, label=label, markersize=8)
    axes.legend(loc="lower right", frameon=False, fontsize=8.5, handletextpad=0.1)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1.12 * longest))
    axes.set_xlabel("time to train [h]", fontsize=9)
    bare_frame(axes)
    return figure


def _colours_of_parts(rows: Sequence[HoursRow]) -> dict[str, str]:
    """A colour for each part of what is predicted, if there are several."""
    names = dict.fromkeys(part for row in rows if row.origin == "predicted" for part in row.parts)
    return dict(zip(names, PARTS, strict=False)) if len(names) > 1 else {}


def _bar(
    axes: Axes, place: int, row: HoursRow, colours: Mapping[str, str], longest: float, shown: dict[str, str]
) -> None:
    """One bar; notes which colours it shows, by their names in the legend."""
    left, divided = 0.0, row.origin == "predicted" and bool(colours)
    for part, hours in row.parts.items():
        colour = colours[part] if divided else _PLAIN[row.origin]
        shown[f"predicted: {part}" if divided else row.origin] = colour
        axes.barh(place, hours, 0.7, left=left, color=colour, linewidth=0)
        if len(row.parts) > 1 and hours >= _LABEL_FROM_SHARE * longest:
            write_on_bar(axes, left + hours / 2, place, f"{hours:.3g}", colour)
        left += hours
    text = f"{left:.1f} h" if left >= _ONE_DECIMAL_FROM_H else f"{left:.2f} h"
    axes.annotate(text, (left, place), (4, 0), textcoords="offset points", va="center", fontsize=9)
