"""Charts that several notebooks share: what they have in common, times to train, throughputs, the cost of a sample.

Figures are made directly, without pyplot and its global state. Whatever is predicted is blue, whatever was measured
is grey.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from math import isfinite
from textwrap import fill
from typing import TYPE_CHECKING, Final, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from notebooks.figures import samples_of_update
from podsim.format import format_error, format_percent
from podsim.result.kinds import in_kind_order, kind_of
from podsim.result.result import RunResult
from podsim.show.matplotlib_charts import plain_frame, write_on_bar

if TYPE_CHECKING:
    from pandas import DataFrame

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
    """Return an empty chart with the standard width. [inches]"""
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
    """Write a value above its bar or whisker."""
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
    """Draw a whisker from the shortest to the longest value; return its upper end, or None without a whisker."""
    if ends is None or not all(map(isfinite, ends)):
        return None
    axes.plot((place, place), ends, "_-", color=MEASURED_INK, linewidth=1, markersize=5)
    return ends[1]


def bare_frame(axes: Axes) -> None:
    """Hide all lines of the frame except the bottom one, and the ticks at row names."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(labelsize=9)


Origin = Literal["predicted", "published", "other machine"]

_PLAIN: Final[Mapping[Origin, str]] = {"predicted": PREDICTED, "published": MEASURED, "other machine": OTHER}
_LABEL_FROM_HOURS_SHARE: Final = 0.06
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
    """Draw a bar for each run from the top: predicted times with their parts, published times in one colour."""
    figure = chart_of_height(1.2 + _ROW_INCHES * len(rows))
    axes = figure.add_subplot()
    colours = _colours_of_parts(rows)
    longest = max(row.hours for row in rows)
    shown: dict[str, str] = {}
    for place, row in enumerate(rows):
        _hours_bar(axes, place, row, colours, longest, shown)
    for label, colour in shown.items():
        axes.plot([], [], "s", color=colour, label=label, markersize=8)
    axes.legend(loc="lower right", frameon=False, fontsize=8.5, handletextpad=0.1)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=(0, 1.12 * longest))
    axes.set_xlabel("time to train [h]", fontsize=9)
    bare_frame(axes)
    return figure


def _colours_of_parts(rows: Sequence[HoursRow]) -> dict[str, str]:
    """Return a colour for each part of the predictions, or none if there is a single part."""
    names = dict.fromkeys(part for row in rows if row.origin == "predicted" for part in row.parts)
    return dict(zip(names, PARTS, strict=False)) if len(names) > 1 else {}


def _hours_bar(
    axes: Axes, place: int, row: HoursRow, colours: Mapping[str, str], longest: float, shown: dict[str, str]
) -> None:
    """Draw one bar, and add its colours to the legend entries in `shown`."""
    left, divided = 0.0, row.origin == "predicted" and bool(colours)
    for part, hours in row.parts.items():
        colour = colours[part] if divided else _PLAIN[row.origin]
        shown[f"predicted: {part}" if divided else row.origin] = colour
        axes.barh(place, hours, 0.7, left=left, color=colour, linewidth=0)
        if len(row.parts) > 1 and hours >= _LABEL_FROM_HOURS_SHARE * longest:
            write_on_bar(axes, left + hours / 2, place, f"{hours:.3g}", colour)
        left += hours
    text = f"{left:.1f} h" if left >= _ONE_DECIMAL_FROM_H else f"{left:.2f} h"
    axes.annotate(text, (left, place), (4, 0), textcoords="offset points", va="center", fontsize=9)


_THROUGHPUTS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
_ROOM: Final = 1.25


def throughput_chart(frame: DataFrame, unit: str) -> Chart:
    """Draw a row for each throughput: a blue dot for the prediction, a grey diamond for the published value.

    Args:
        frame: Names as index; columns `predicted`, `published` (not a number where there is none) and `role`: dots of
            rows that a constant was fitted to are hollow.
        unit: Unit of all figures.
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
    ticks = [tick for tick in _THROUGHPUTS if min(shown) / _ROOM <= tick <= max(shown) * _ROOM]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(frame)), list(frame.index))
    axes.set_xlabel(f"{unit}, logarithmic; dot: predicted, hollow: fitted to; diamond: published", fontsize=9)
    bare_frame(axes)
    return figure


_MS_PER_S, _US_PER_S = 1e3, 1e6
_LONG_SAMPLE_S: Final = 5e-3
_TOGETHER: Final = ("matmul", "vector", "reduction", "exchange", "rearrange", "sync", "superstep")
_SMALL_SHARE: Final = 0.005
_SUM_INCHES, _NUMBER_INCHES, _TEXT_INCHES, _YTICKS_INCHES = 2.8, 0.42, 1.0, 0.65
_COLUMN_INCHES, _CHARACTER_INCHES = 0.16, 0.07
_HEADING_CHARACTERS: Final = 20


def cost_of_a_sample_chart(frame: DataFrame, results: Mapping[str, RunResult]) -> Chart:
    """Time of one IPU for one sample, a column for each kind of time: what grows is what scaling costs.

    Rows are pods and all columns have one scale; each column starts at one place for all pods.

    Args:
        frame: Scenarios of one model as index; column `ipus`, smallest pod first, and
            `measured_update_ms` if measured times shall stand beside.
        results: Runs by scenario.
    """
    counts = [samples_of_update(results[name]) / frame["ipus"][name] for name in frame.index]
    parts = [_per_sample(results[name].breakdown, count) for name, count in zip(frame.index, counts, strict=True)]
    logged_ms = frame.get("measured_update_ms", ())
    measured = [ms / _MS_PER_S / count for ms, count in zip(logged_ms, counts, strict=False)]
    figure = chart_of_height(1.1 + 0.46 * len(parts))
    axes = figure.add_subplot()
    left = _columns(axes, parts)
    left = _totals(axes, left, [sum(each.values()) for each in parts], measured)
    figure.set_figwidth(_YTICKS_INCHES + left * _SUM_INCHES / _longest(parts))
    axes.set_yticks(range(len(parts)), [f"POD{ipus}" for ipus in frame["ipus"]])
    axes.set(xlim=(0, left), ylim=(len(parts) - 0.5, -0.5), xticks=[])
    axes.set_title(f"Time of one IPU for one sample [{_unit(_longest(parts))[1]}]", loc="left", fontsize=10.5, pad=38)
    bare_frame(axes)
    axes.spines["bottom"].set_visible(False)
    return figure


def _per_sample(breakdown: Mapping[str, float], count: float) -> dict[str, float]:
    return {kind: breakdown[kind] / count for kind in in_kind_order(breakdown) if breakdown[kind]}


def _longest(parts: Iterable[Mapping[str, float]]) -> float:
    return max(sum(each.values()) for each in parts)


def _columns(axes: Axes, parts: Sequence[Mapping[str, float]]) -> float:
    """Draw a column of bars for each kind or family of kinds; return the right end of the columns."""
    longest = _longest(parts)
    inch, left = longest / _SUM_INCHES, 0.0
    for name, kinds in _kinds_of_columns(parts).items():
        shown = [kind for kind in kinds if _peak(parts, [kind]) >= _SMALL_SHARE * longest]
        inside = ", ".join(kind_of(kind).label for kind in shown)
        heading = fill(f"{name}: {inside}", _HEADING_CHARACTERS) if len(shown) > 1 else _broken(name)
        axes.text(left, -0.45, heading, va="bottom", fontsize=8.5)
        for place, each in enumerate(parts):
            _bar(axes, place, left, {kind: each[kind] for kind in kinds if kind in each}, longest)
        least = _COLUMN_INCHES + _CHARACTER_INCHES * max(map(len, heading.splitlines()))
        left += max(_peak(parts, kinds) + _NUMBER_INCHES * inch, least * inch)
    return left


def _broken(name: str) -> str:
    """Return a name broken into several lines, for narrow columns."""
    return name.replace(" ", "\n").replace("-", "-\n")


def _kinds_of_columns(parts: Sequence[Mapping[str, float]]) -> dict[str, list[str]]:
    """Kinds by heading: work on the chip, which no pod changes, and what is too small stay with their family."""
    columns: dict[str, list[str]] = {}
    for kind in in_kind_order(kind for each in parts for kind in each):
        small = _peak(parts, [kind]) < _SMALL_SHARE * _longest(parts)
        known = kind_of(kind)
        columns.setdefault(known.family if small or kind in _TOGETHER else known.label, []).append(kind)
    return columns


def _peak(parts: Iterable[Mapping[str, float]], kinds: Sequence[str]) -> float:
    return max(sum(each.get(kind, 0.0) for kind in kinds) for each in parts)


def _bar(axes: Axes, place: int, left: float, times: Mapping[str, float], longest: float) -> None:
    """Kinds one behind the other, and their sum."""
    end = left
    for kind, time_s in times.items():
        axes.barh(place, time_s, 0.62, left=end, color=kind_of(kind).colour, linewidth=0)
        end += time_s
    if times:
        text = _time(end - left, longest)
        axes.annotate(text, (end, place), (3, 0), textcoords="offset points", va="center", fontsize=8.5)


def _totals(axes: Axes, left: float, totals: Sequence[float], measured: Sequence[float]) -> float:
    """Two columns of text, predicted and measured: the sums, and how fast an IPU is beside the first pod's."""
    longest = max(totals)
    predicted, logged = ([(_time(each, longest), _rate(each, times)) for each in times] for times in (totals, measured))
    behind = "\n(measured)" if measured else ""
    for column, heading in enumerate((f"total{behind}", f"speed of\nan IPU{behind}")):
        left += _TEXT_INCHES * longest / _SUM_INCHES
        axes.text(left, -0.45, heading, ha="right", va="bottom", fontsize=8.5)
        for place, texts in enumerate(predicted):
            text = f"{texts[column]} ({logged[place][column]})" if measured else texts[column]
            axes.text(left, place, text, ha="right", va="center", fontsize=8.5)
    return left


def _rate(time_s: float, times: Sequence[float]) -> str:
    """Return the speed of an IPU relative to the first pod, as text."""
    return format_percent(times[0] / time_s, 0)


def _unit(longest_s: float) -> tuple[float, str, int]:
    """Factor, name and decimals that suit times up to this one."""
    return (_MS_PER_S, "ms", 2) if longest_s > _LONG_SAMPLE_S else (_US_PER_S, "us", 0)


def _time(seconds: float, longest_s: float) -> str:
    factor, _, digits = _unit(longest_s)
    return f"{factor * seconds:.{digits}f}"


_SHARE_COLOURS: Final = {
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


def stack_shares(axes: Axes, frame: DataFrame, columns: int) -> None:
    """Draw a bar of shares for each row, and label the visible shares above the first bar."""
    shares = frame[[name for name in frame.columns if name in _SHARE_COLOURS]]
    for place in range(len(shares)):
        left = 0.0
        for name in shares.columns:
            share = float(shares[name].iloc[place])
            axes.barh(place, share, 0.74, left=left, color=_SHARE_COLOURS[name], linewidth=0)
            if share >= _LABEL_FROM_SHARE:
                write_on_bar(axes, left + share / 2, place, format_percent(share, 0), _SHARE_COLOURS[name], points=7.5)
            left += share
    axes.set(xlim=(0, 1))
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.tick_params(axis="y", length=0)
    shown = [name for name in shares.columns if float(shares[name].max()) >= _SEEN_FROM_SHARE]
    for name in shown:
        axes.plot([], [], "s", color=_SHARE_COLOURS[name], label=name, markersize=8)
    axes.legend(loc="upper left", ncols=columns, frameon=False, fontsize=8.5, handletextpad=0.1, columnspacing=1)
    plain_frame(axes)
