"""A chart of what a result stands on: the inputs that move it most, the longest bar on top.

Figures are made directly, without pyplot and its global state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.figure import Figure

from podsim.errors import PodsimError
from podsim.format import format_error
from podsim.metrics import metric_of
from podsim.result.base import Result
from podsim.show.chart_frame import framed, plain_frame

_MOST: Final = 15
_ROW_INCHES, _FRAME_INCHES = 0.36, 1.0
_LOWER, _UPPER = "#4c78a8", "#e08a3c"
_Bar = tuple[str, str, float, float]


def plot_tornado(result: Result) -> Figure:
    """Each input at both ends of its range, and how far that moves the headline of the result.

    Raises:
        PodsimError: No input that is assumed or calibrated moves the result.
    """
    bars = _bars(result.assumptions)[:_MOST]
    if not bars:
        raise PodsimError("no assumed or calibrated input moves this result", do="leave --tornado out")
    metric = _metric(result.assumptions)
    figure, body = framed(
        result, f"Measure this next: {bars[0][0]} moves {metric} most", _FRAME_INCHES + _ROW_INCHES * len(bars)
    )
    axes = body.subplots()
    for row, (_, _, low, high) in enumerate(bars):
        for change, colour in ((low, _LOWER), (high, _UPPER)):
            axes.barh(row, 100 * change, height=0.7, color=colour, linewidth=0)
            side = "left" if change >= 0 else "right"
            axes.annotate(
                format_error(change), (100 * change, row), (3 if change >= 0 else -3, 0), textcoords="offset points",
                ha=side, va="center", fontsize=8,
            )  # fmt: skip
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(bars)), [f"{key}\n{value}" for key, value, _, _ in bars], fontsize=8)
    axes.set(ylim=(len(bars) - 0.5, -0.5))
    axes.margins(x=0.12)
    axes.set_xlabel(
        f"change of {metric} [%]: blue at the lower end of the input's range, orange at the upper", fontsize=9
    )
    plain_frame(axes)
    return figure


def _bars(assumptions: Sequence[Mapping[str, object]]) -> list[_Bar]:
    """Key, value and both changes of each input whose influence is known and not nothing."""
    bars = []
    for row in assumptions:
        influence = row["influence"]
        if isinstance(influence, Mapping):
            low, high = (float(influence[end] or 0.0) for end in ("low", "high"))
            if low or high:
                bars.append((str(row["key"]), str(row["value"]), low, high))
    return bars


def _metric(assumptions: Sequence[Mapping[str, object]]) -> str:
    found = next(row["influence"] for row in assumptions if isinstance(row["influence"], Mapping))
    assert isinstance(found, Mapping)
    return metric_of(str(found["metric"])).words
