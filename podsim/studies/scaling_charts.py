"""Charts of a faster clock and of more IPUs: what they bring, and what takes the rest.

Figures are made directly, without pyplot and its global state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes

from podsim.report.chart_frame import plain_frame, write_on_bar
from podsim.report.format import format_percent
from podsim.studies.chart import Chart, chart_of_height

if TYPE_CHECKING:
    from pandas import DataFrame

_ROW_INCHES: Final = 0.32
_KEYS_IN_A_ROW: Final = 3
_SIMULATED, _PUBLISHED = "#2171b5", "#555555"
_COLOURS: Final = {
    "clock": "#2171b5",
    "compute": "#2171b5",
    "exchange": "#1f9e80",
    "links": "#e6750f",
    "streaming memory": "#6a2c86",
    "host": "#c09ad0",
    "hosts": "#c09ad0",
    "pipeline waits": "#9ecae1",
    "update waits": "#d9d9d9",
}
_LABEL_FROM_SHARE, _SEEN_FROM_SHARE = 0.06, 0.006
_RATES: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_DASHED: Final = (0, (4, 2))


def bow_chart(frame: DataFrame, published: float) -> Chart:
    """Ratio of each workload in the row of its group, beside the mean shares that explain it; least first.

    Args:
        frame: Scenarios as index; columns `group`, `ratio`, `ratio_of_shares`, `clock_ratio`, then one for each share.
        published: The published mean of the ratio.
    """
    means = frame.groupby("group").mean(numeric_only=True).sort_values("ratio")
    figure = chart_of_height(1.9 + _ROW_INCHES * len(means))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[1, 1.1])
    for place, group in enumerate(means.index):
        _ratios(left, place, frame[frame["group"] == group])
    left.set_title("Simulated (dots), from mean shares (ring)", loc="left", fontsize=10)
    plain_frame(left)
    clocks = float(frame["clock_ratio"].iloc[0])
    _mark(left, clocks, f"clocks {clocks:.2f} ", "black", "right")
    _mark(left, published, f" published\n mean {published:.2f}", _PUBLISHED, "left")
    left.set(xlim=(0.98, published + 0.12), ylim=(len(means) - 0.4, -2.4))
    left.set_xlabel("throughput on Bow ÷ on GC200", fontsize=9)
    _stack(right, means, _KEYS_IN_A_ROW)
    right.set_title("Mean shares of a weight update on GC200", loc="left", fontsize=10)
    right.set_xlabel("share of a weight update [%]", fontsize=9)
    counts = frame["group"].value_counts()
    left.set_yticks(range(len(means)), [f"{group} ({counts[group]})" for group in means.index], fontsize=9)
    left.tick_params(axis="y", length=0)
    return figure


def pods_chart(frame: DataFrame) -> Chart:
    """Throughput over IPUs before what is proportional to them, beside what a decode step is spent on.

    Args:
        frame: Variants as index, smallest pod first; columns `ipus`, `tokens_per_s`, `sequences`, then the shares.
    """
    figure = chart_of_height(1.7 + 0.42 * len(frame))
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.2])
    _throughput(left, frame)
    _stack(right, frame, len(frame.columns))
    right.set_ylim(len(frame) - 0.4, -1.2)
    right.set_title("What a decode step is spent on", loc="left", fontsize=10)
    right.set_xlabel("share of a decode step [%]", fontsize=9)
    _rows(right, frame)
    return figure


def _ratios(axes: Axes, place: int, rows: DataFrame) -> None:
    """The workloads of one group, and what their shares give on average."""
    axes.plot([1, float(rows["ratio"].max())], [place, place], color=_SIMULATED, linewidth=0.8, alpha=0.5, zorder=1)
    shares = float(rows["ratio_of_shares"].mean())
    axes.plot(shares, place, "o", color="black", markerfacecolor="none", markersize=11, zorder=2)
    axes.plot(rows["ratio"], [place] * len(rows), "o", color=_SIMULATED, markersize=5.5, alpha=0.6, zorder=3)


def _throughput(axes: Axes, frame: DataFrame) -> None:
    ipus, rates = [float(each) for each in frame["ipus"]], [float(each) for each in frame["tokens_per_s"]]
    axes.plot(ipus, [rates[0] * each / ipus[0] for each in ipus], color=_PUBLISHED, linestyle=_DASHED, linewidth=1)
    axes.plot(ipus, rates, "o", color=_SIMULATED, markersize=6)
    for each, rate, sequences in zip(ipus, rates, frame["sequences"], strict=True):
        note = f"{rate:.1f}" if sequences == 1 else f"{rate:.1f}, {sequences} sequences"
        axes.annotate(note, (each, rate), (6, -4), textcoords="offset points", va="top", fontsize=8.5)
    axes.set(xscale="log", yscale="log", xlabel="IPUs")
    counts = sorted(set(ipus))
    axes.set_xticks(counts, [f"{each:.0f}" for each in counts])
    ticks = [rate for rate in _RATES if min(rates) <= rate <= rates[0] * ipus[-1] / ipus[0]]
    axes.set_yticks(ticks, [f"{rate:g}" for rate in ticks])
    axes.minorticks_off()
    axes.set_xlim(right=2.4 * ipus[-1])
    axes.margins(y=0.14)
    axes.set_ylabel("tokens per second", fontsize=9)
    axes.tick_params(axis="y", labelsize=8.5)
    axes.set_title("Throughput; dashed: proportional to IPUs", loc="left", fontsize=10)
    plain_frame(axes)


def _rows(axes: Axes, frame: DataFrame) -> None:
    axes.set_yticks(range(len(frame)), [name.replace("_", " ") for name in frame.index], fontsize=8.5)
    axes.tick_params(axis="y", length=0)


def _mark(axes: Axes, value: float, text: str, colour: str, side: str) -> None:
    axes.axvline(value, color=colour, linewidth=1, linestyle=_DASHED, zorder=0)
    axes.text(value, -0.9, text, ha=side, va="bottom", fontsize=8.5, color=colour)


def _stack(axes: Axes, frame: DataFrame, columns: int) -> None:
    """A bar of shares for each row, and the names of those that can be seen over the first."""
    shares = frame[[name for name in frame.columns if name in _COLOURS]]
    for place in range(len(shares)):
        left = 0.0
        for name in shares.columns:
            share = float(shares[name].iloc[place])
            axes.barh(place, share, 0.74, left=left, color=_COLOURS[name], linewidth=0)
            if share >= _LABEL_FROM_SHARE:
                write_on_bar(axes, left + share / 2, place, format_percent(share, 0), _COLOURS[name], points=7.5)
            left += share
    axes.set(xlim=(0, 1))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.tick_params(axis="y", length=0)
    shown = [name for name in shares.columns if float(shares[name].max()) >= _SEEN_FROM_SHARE]
    for name in shown:
        axes.plot([], [], "s", color=_COLOURS[name], label=name, markersize=8)
    axes.legend(loc="upper left", ncols=columns, frameon=False, fontsize=8.5, handletextpad=0.1, columnspacing=1)
    plain_frame(axes)
