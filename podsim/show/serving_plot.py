"""A chart of serving: percentiles against load, and the queue over time."""

from __future__ import annotations

from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullFormatter

from podsim.format import format_duration_s, format_percent, format_significant
from podsim.result.serving import ServingResult
from podsim.runs.serving import LoadPoint
from podsim.show.chart_frame import framed, plain_frame
from podsim.show.serving_table import ranged

_PERCENTILES: Final = (("p99_s", "P99", "#9e2a2b"), ("p95_s", "P95", "#e08214"), ("p50_s", "P50", "#2166ac"))
_BODY_INCHES: Final = 6.9
_WIDE_RANGE: Final = 20
_ASKED_COLOUR: Final = "#666666"
_PANELS: Final = (
    ("time_to_first_token", "Time to first token"),
    ("time_per_output_token", "Time per output token"),
    ("latency", "Latency"),
)


def plot_serving(result: ServingResult) -> Figure:
    """The chart of a result: percentiles against load above the queue over time."""
    figure, body = framed(result, serving_conclusion(result), _BODY_INCHES)
    grid = body.add_gridspec(2, len(_PANELS), height_ratios=[1.7, 1.0])
    for column, (name, title) in enumerate(_PANELS):
        _draw_percentiles(body.add_subplot(grid[0, column]), result, name, title)
    _draw_queue(body.add_subplot(grid[1, :]), result)
    return figure


def serving_conclusion(result: ServingResult) -> str:
    """Title of the chart, in two lines: the saturation, and what requests see at the rate that was asked for."""
    outcome = result.outcome
    return (
        f"{result.title}\n"
        f"saturates at {format_significant(result.saturation.rate_per_s)} requests/s; {_at(result)} P99 is "
        f"{_ranged(result, outcome.time_to_first_token.p99_s, 'time_to_first_token_p99_s')} to the first token, "
        f"{_ranged(result, outcome.latency.p99_s, 'latency_p99_s')} to the last"
    )


def _ranged(result: ServingResult, time_s: float, figure: str) -> str:
    return ranged(result, format_duration_s(time_s), figure).replace("  (", " (")


def _at(result: ServingResult) -> str:
    if result.rate_per_s is None:
        return "all at once,"
    return f"at {format_significant(result.rate_per_s)}/s,"


def _draw_percentiles(axes: Axes, result: ServingResult, name: str, title: str) -> None:
    points = [
        point
        for point in sorted(result.points, key=lambda each: each.rate_per_s)
        if getattr(point.outcome, name) is not None
    ]
    rates = [point.rate_per_s for point in points]
    scale, unit = _scale(points, name)
    for key, label, colour in _PERCENTILES:
        times = [getattr(getattr(point.outcome, name), key) / scale for point in points]
        axes.plot(rates, times, marker="o", markersize=4, color=colour, linewidth=1.8, label=label)
    if points and axes.dataLim.ymax > _WIDE_RANGE * axes.dataLim.ymin > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.set_ylim(0, 1.08 * axes.dataLim.ymax if points else 1)
    if name == _PANELS[0][0]:
        axes.legend(frameon=False, fontsize=9.5, loc="upper left")
    _mark_rates(axes, result)
    axes.set_title(f"{title} [{unit}]", loc="left", fontsize=10.5)
    axes.set_xlabel("requests per second", fontsize=9)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    plain_frame(axes)


def _scale(points: list[LoadPoint], name: str) -> tuple[float, str]:
    """Seconds, or milliseconds if all are below one second."""
    longest = max((getattr(point.outcome, name).p99_s for point in points), default=1.0)
    return (1.0, "s") if longest >= 1 else (1e-3, "ms")


def _mark_rates(axes: Axes, result: ServingResult) -> None:
    limit = result.saturation.rate_per_s
    axes.set_xlim(0, 1.14 * max([limit, *(point.rate_per_s for point in result.points)]))
    axes.axvline(limit, color="black", linewidth=0.9, linestyle=(0, (4, 2)))
    place = axes.get_xaxis_transform()
    axes.text(limit, 0.04, " saturation", transform=place, ha="left", va="bottom", fontsize=8.5, rotation=90)
    if result.rate_per_s is not None and result.rate_per_s < limit:
        axes.axvline(result.rate_per_s, color=_ASKED_COLOUR, linewidth=0.9, linestyle=(0, (1, 2)))
        text = f" {format_significant(result.rate_per_s)}/s, asked for"
        axes.text(
            result.rate_per_s,
            0.96,
            text,
            transform=place,
            ha="left",
            va="top",
            fontsize=8.5,
            rotation=90,
            color=_ASKED_COLOUR,
        )


def _draw_queue(axes: Axes, result: ServingResult) -> None:
    queue = result.outcome.queue
    axes.stairs(queue.peak, queue.time_s, fill=True, color="#c6dbef", label="most in each interval")
    axes.stairs(queue.mean, queue.time_s, color="#2166ac", linewidth=1.2, label="mean of each interval", baseline=None)
    load = "" if result.load is None else f" at {format_percent(result.load, 0)} of saturation"
    mean = format_significant(result.outcome.mean_waiting)
    axes.set_title(
        f"Requests in the queue{load}: {mean} on average, {result.most_waiting} at most", loc="left", fontsize=10.5
    )
    axes.set(xlim=(0, queue.time_s[-1]), ylim=(0, 1.25 * max(1, result.most_waiting)))
    axes.set_xlabel("time since the first arrival [s]", fontsize=9)
    axes.legend(frameon=False, fontsize=9, loc="upper right", ncols=2)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    plain_frame(axes)
