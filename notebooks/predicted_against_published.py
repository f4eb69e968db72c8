"""Every published figure beside what was predicted of it: a frame, and a chart of how many lie in the bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes

from notebooks.charts import MEASURED_INK, Chart, chart_of_height
from podsim.result.reference_data import PADDLE
from podsim.validation.comparison import NotRun, RowComparison, Validation
from podsim.validation.reference_data import CALIBRATION

if TYPE_CHECKING:
    from pandas import DataFrame

BLIND: Final = "blind"
FIRST: Final = "0.1.0"
"""The version whose blind predictions are shown."""
WHOLE_RUNS: Final = "averages of whole runs"
ROLES: Final = (BLIND, "hold-out", CALIBRATION)
_KINDS: Final = {
    "AMP vertex": "kernels",
    "GEMM": "kernels",
    "Mk1": "kernels",
    "Bow": "kernels",
    "C600": "kernels",
    "fits": "kernels",
    "power": "kernels",
    "energy": "kernels",
    "BERT effect": "ratios and differences",
    "ResNet-50 scaling": "ratios and differences",
    "published effect": "ratios and differences",
    PADDLE: "MLPerf",
    "BERT": "MLPerf",
    "ResNet-50": "MLPerf",
    "published averages of whole runs": WHOLE_RUNS,
    "published forward passes": "forward passes",
    "published text generation": "text generation",
    "published": "other training",
}
"""Kinds of rows by how the name of their group begins; the first that fits counts."""
KINDS: Final = (
    "kernels",
    "MLPerf",
    "other training",
    WHOLE_RUNS,
    "forward passes",
    "text generation",
    "ratios and differences",
)


def published_frame(found: Validation) -> DataFrame:
    """Return a row for each predicted figure, and a row of role `blind` for each first-version prediction.

    Columns: name, group, kind, role, `predicted`, `published`, unit, and `error`, predicted ÷ published - 1.
    """
    import pandas as pd

    return pd.DataFrame([*map(_record, found.comparisons), *_blind(found)])


def _record(row: RowComparison) -> dict[str, str | float]:
    return {
        "name": row.name,
        "group": row.group,
        "kind": _kind(row.group),
        "role": row.role,
        "predicted": row.predicted,
        "published": row.published,
        "unit": row.unit,
        "error": row.error,
    }


def _blind(found: Validation) -> Iterator[dict[str, str | float]]:
    for row in found.rows:
        for each in (blind for blind in row.blind if blind.version == FIRST):
            yield _record(_as_predicted_then(row, each.predicted))


def _as_predicted_then(row: RowComparison | NotRun, blind: float) -> RowComparison:
    return RowComparison(row.group, row.name, blind, row.published, row.unit, BLIND, row.source)


def _kind(group: str) -> str:
    return next((kind for start, kind in _KINDS.items() if group.startswith(start)), group)


_BANDS: Final = ((0.10, "#eeeeee"), (0.05, "#dcdcdc"))
_COLOURS: Final = ("#c09ad0", "#2171b5", "#1f9e80", "#737373", "#e6750f", "#6a2c86", "#b30000")
_MARKERS: Final = ("s", "o", "^", "x", "D", "v", "P")
_RATIOS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
_ROOM: Final = 1.04
_KEYS_IN_A_ROW: Final = 4


def published_chart(frame: DataFrame, roles: Sequence[str], kinds: Sequence[str]) -> Chart:
    """Predicted ÷ published over what was published, a panel for each role, with bands of 5 and 10 %.

    Args:
        frame: Columns `role`, `kind`, `predicted`, `published`.
        roles: One panel each, from the left.
        kinds: Which rows are shown, each kind in a colour of its own.
    """
    shown = frame[frame["kind"].isin(kinds) & frame["role"].isin(roles)]
    figure = chart_of_height(6.0)
    panels = figure.subplots(1, len(roles), sharex=True, sharey=True, squeeze=False)[0]
    for axes, role in zip(panels, roles, strict=True):
        _panel(axes, shown[shown["role"] == role], kinds)
        axes.set_title(_title(role, shown[shown["role"] == role]), loc="left", fontsize=10)
    _scales(panels[0], [float(each) for each in shown["predicted"] / shown["published"]])
    panels[0].set_ylabel("predicted ÷ published, logarithmic", fontsize=9)
    panels[len(panels) // 2].set_xlabel("published figure in its own unit, without sign, logarithmic", fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=_KEYS_IN_A_ROW, frameon=False, fontsize=8.5)
    return figure


def _panel(axes: Axes, rows: DataFrame, kinds: Sequence[str]) -> None:
    for band, shade in _BANDS:
        axes.axhspan(1 - band, 1 + band, color=shade, linewidth=0, zorder=0)
    axes.axhline(1, color="black", linewidth=0.8, zorder=1)
    for kind, colour, marker in zip(kinds, cycle(_COLOURS), cycle(_MARKERS), strict=False):
        own = rows[rows["kind"] == kind]
        axes.plot(
            own["published"].abs(),
            own["predicted"] / own["published"],
            marker,
            color=colour,
            markersize=5.5,
            alpha=0.75,
            label=kind,
        )
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)


def _title(role: str, rows: DataFrame) -> str:
    errors = (rows["predicted"] / rows["published"] - 1).abs()
    inside = (f"{(errors <= band).sum()} within {100 * band:.0f} %" for band, _ in reversed(_BANDS))
    return f"{role}, rows: {len(rows)}\n{', '.join(inside)}"


def _scales(axes: Axes, ratios: Sequence[float]) -> None:
    """Logarithmic, with ticks at round ratios and names of the bands."""
    least, most = min(ratios, default=1.0) / _ROOM, max(ratios, default=1.0) * _ROOM
    ends = min(least, 1 - _BANDS[0][0]), max(most, 1 + _BANDS[0][0])
    axes.set(xscale="log", yscale="log", ylim=ends)
    ticks = [ratio for ratio in _RATIOS if ends[0] <= ratio <= ends[1]]
    axes.set_yticks(ticks, [f"{ratio:g}" for ratio in ticks])
    axes.minorticks_off()
    beside = axes.get_yaxis_transform()
    for band, _ in _BANDS:
        name = f"±{100 * band:.0f} %"
        axes.text(0.01, 1 + band, name, transform=beside, va="top", fontsize=8, color=MEASURED_INK)
