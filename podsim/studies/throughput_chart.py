"""A chart of throughputs of any size: what is predicted, beside what was published of some."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Final

from podsim.report.format import format_error
from podsim.studies.chart import MEASURED_INK, PREDICTED, Chart, bare_frame, chart_of_height

if TYPE_CHECKING:
    from pandas import DataFrame

_TICKS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
_ROOM: Final = 1.25


def throughput_chart(frame: DataFrame, unit: str) -> Chart:
    """A row for each throughput: a blue dot where it is predicted, a grey diamond where it was published.

    Args:
        frame: Names as index; columns `predicted`, `published` (not a number where there is none) and `role`: dots of
            rows that a constant was fitted to are hollow.
        unit: Of all figures.
    """
    figure = chart_of_height(1.1 + 0.33 * len(frame))
    axes = figure.add_subplot()
    for place, (predicted, published, role) in enumerate(
        zip(frame["predicted"], frame["published"], frame["role"], strict=True)
    ):
        face = "white" if role == "calibration" else PREDICTED
        axes.plot(published, place, "D", color=MEASURED_INK, markersize=9, zorder=1, label="published" * (not place))
        axes.plot(predicted, place, "o", color=PREDICTED, markerfacecolor=face, markersize=6.5, zorder=2)
        text = f"{predicted:,.0f}"
        if isfinite(published):
            text += f"; published {published:,.0f}, {format_error(predicted / published - 1)}"
        beside = max(predicted, published) if isfinite(published) else predicted
        axes.annotate(text, (beside, place), (10, 0), textcoords="offset points", va="center", fontsize=8.5)
    shown = [float(each) for column in ("predicted", "published") for each in frame[column].dropna()]
    axes.set(xscale="log", xlim=(min(shown) / _ROOM, max(shown) * _ROOM**10), ylim=(len(frame) - 0.4, -0.6))
    ticks = [tick for tick in _TICKS if min(shown) / _ROOM <= tick <= max(shown) * _ROOM]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(frame)), list(frame.index))
    axes.set_xlabel(f"{unit}, logarithmic; dot: predicted, hollow: fitted to; diamond: published", fontsize=9)
    bare_frame(axes)
    return figure
