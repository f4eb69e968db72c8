"""Charts of many runs: predictions beside measurements, and what scaling costs.

Figures are made directly, without pyplot and its global state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from podsim.report.kinds import in_kind_order, kind_of
from podsim.report.result import RunResult

if TYPE_CHECKING:
    from pandas import DataFrame

_PREDICTED, _MEASURED, _OTHER = "#2171b5", "#bdbdbd", "#e6750f"
_BAND: Final = (0.05, 0.10)
_BAR: Final = 0.38
_LABEL_FROM: Final = 0.04
_US_PER_S: Final = 1e6
_DOTS_PER_INCH: Final = 90


def time_to_train_chart(frame: DataFrame, others: Mapping[str, float], other_name: str) -> Chart:
    """Time to train per benchmark and pod, predicted beside measured.

    Args:
        frame: Columns `benchmark`, `division`, `ipus`, `train_min`, `measured_train_min`.
        others: Time of another machine by benchmark. [min]
        other_name: Its name.
    """
    benchmarks = list(dict.fromkeys(frame["benchmark"]))
    figure = _figure(11, 4)
    for place, benchmark in enumerate(benchmarks, start=1):
        axes = figure.add_subplot(1, len(benchmarks), place)
        rows = frame[frame["benchmark"] == benchmark]
        labels = [f"POD{ipus}\n{division}" for ipus, division in zip(rows["ipus"], rows["division"], strict=True)]
        _pairs(axes, labels, rows["train_min"], rows["measured_train_min"])
        axes.axhline(others[benchmark], color=_OTHER, linewidth=1.2)
        axes.annotate(
            f"{other_name} {others[benchmark]:.1f}",
            (len(rows) - 0.5, others[benchmark]),
            ha="right",
            va="bottom",
            color=_OTHER,
        )
        axes.set_title(f"{benchmark}: time to train [min]", loc="left")
    return figure


def rounds_chart(frame: DataFrame) -> Chart:
    """Time of a weight update in two rounds, for every pod and division that took part in both."""
    figure = _figure(11, 4)
    benchmarks = list(dict.fromkeys(frame["benchmark"]))
    for place, benchmark in enumerate(benchmarks, start=1):
        rows = frame[frame["benchmark"] == benchmark]
        keys = [key for key, group in rows.groupby(["ipus", "division"]) if len(set(group["round"])) > 1]
        chosen = rows[[key in keys for key in zip(rows["ipus"], rows["division"], strict=True)]]
        chosen = chosen.sort_values(["ipus", "division", "round"])
        axes = figure.add_subplot(1, len(benchmarks), place)
        columns = zip(chosen["round"], chosen["ipus"], chosen["division"], strict=True)
        labels = [f"{name}\nPOD{ipus}\n{division}" for name, ipus, division in columns]
        _pairs(axes, labels, chosen["train_min"], chosen["measured_train_min"])
        axes.set_title(f"{benchmark}: time to train [min]", loc="left")
    return figure


def accuracy_chart(frame: DataFrame) -> Chart:
    """Error of every weight update, calibration rows hollow, within bands of 5 and 10 %."""
    figure = _figure(11, 4.6)
    axes = figure.add_subplot()
    ordered = frame.assign(error=frame["update_ms"] / frame["measured_update_ms"] - 1).iloc[::-1]
    for band, shade in zip(sorted(_BAND, reverse=True), ("#f0f0f0", "#dedede"), strict=True):
        axes.axvspan(-100 * band, 100 * band, color=shade, zorder=0)
    for place, (error, role) in enumerate(zip(ordered["error"], ordered["role"], strict=True)):
        hollow = role == "calibration"
        colour = "white" if hollow else _PREDICTED
        axes.plot(100 * error, place, "o", color=_PREDICTED, markerfacecolor=colour, markersize=8)
        axes.annotate(f"{100 * error:+.1f}", (100 * error, place), (9, -4), textcoords="offset points", fontsize=9)
    names = [name.replace("_", " ") for name in ordered.index]
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("error of a weight update [%]: predicted over measured; hollow: a constant was fitted to it")
    axes.set_title("Every submission", loc="left")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.margins(x=0.1)
    return figure


def cost_of_a_sample_chart(results: Sequence[RunResult], labels: Sequence[str], samples: Sequence[float]) -> Chart:
    """Time of an IPU for one sample, by kind: what grows with the pod is what scaling costs.

    Args:
        results: Runs of one model.
        labels: What each is called.
        samples: Samples of a weight update per IPU, for each.
    """
    figure = _figure(11, 1.2 + 0.7 * len(results))
    axes = figure.add_subplot()
    kinds = in_kind_order(kind for result in results for kind in result.breakdown)
    times = [
        {kind: time_s / count * _US_PER_S for kind, time_s in result.breakdown.items()}
        for result, count in zip(results, samples, strict=True)
    ]
    longest = max(sum(each.values()) for each in times)
    for place, each in enumerate(times):
        left = 0.0
        for kind in kinds:
            width = each.get(kind, 0.0)
            axes.barh(place, width, left=left, color=kind_of(kind).colour, height=0.7)
            if width > _LABEL_FROM * longest:
                dark = kind_of(kind).colour < "#5"
                axes.text(
                    left + width / 2,
                    place,
                    f"{width:.0f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if dark else "black",
                )
            left += width
        axes.text(left + 0.01 * longest, place, f"{left:.0f}", va="center", fontweight="bold")
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_xlabel("time of one IPU for one sample [us]")
    handles = [axes.barh(0, 0, color=kind_of(kind).colour, label=kind_of(kind).label) for kind in kinds]
    axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.04, 1.0), frameon=False, fontsize=8)
    return figure


class Chart(Figure):
    """A figure that notebooks show as it is."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=_DOTS_PER_INCH)
        return buffer.getvalue()


def _figure(width: float, height: float) -> Chart:
    return Chart(figsize=(width, height), layout="constrained")


def _pairs(axes: Axes, labels: Sequence[str], predicted: Sequence[float], measured: Sequence[float]) -> None:
    """Two bars for each label, with their heights written on them."""
    places = range(len(labels))
    for shift, values, colour, name in (
        (-_BAR / 2, predicted, _PREDICTED, "predicted"),
        (_BAR / 2, measured, _MEASURED, "measured"),
    ):
        bars = axes.bar([place + shift for place in places], list(values), _BAR, color=colour, label=name)
        axes.bar_label(bars, [f"{value:.1f}" for value in values], fontsize=8, padding=1)
    axes.set_xticks(list(places), labels, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    axes.margins(y=0.12)
