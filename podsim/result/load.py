"""Charts of serving: percentiles against load, and the queue over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from podsim.format import format_duration_s, format_percent, format_significant, unit_for_s
from podsim.metrics import WAITS
from podsim.report.chart import Axis, Chart, Curves, Mark, Series, is_wide
from podsim.report.table import Cell, Cells, Table, columns
from podsim.runs.serving import LoadPoint, ServingOutcome

_LINES: Final = {
    "P50": ("#5b9bd1", (), "circle"),
    "P95": ("#b35806", (7, 4), "square"),
    "P99": ("#1a1a1a", (2, 3), "triangle-up"),
}
"""Colour, dashes and marker of each, of which any tells them apart."""
_TIMES: Final = ("time_to_first_token", "time_per_output_token", "latency")
_WIDE_RANGE: Final = 20
_ROOM, _QUEUE_ROOM = 1.14, 1.25
_AREA, _LEVEL = "#9cc3e4", "#08306b"


def load_charts(points: Sequence[LoadPoint], limit_per_s: float, asked_per_s: float | None) -> Iterator[Chart]:
    """Each kind of time that is known, against the rate of requests."""
    rules = {"saturation": limit_per_s}
    line = f"The dashed line is the saturation, {format_significant(limit_per_s)} requests/s"
    if asked_per_s is not None and asked_per_s < limit_per_s:
        rules[f"{format_significant(asked_per_s)}/s, asked for"] = asked_per_s
        line += "; the dotted one is the rate that was asked for"
    until_per_s = _ROOM * max([limit_per_s, *(point.rate_per_s for point in points)])
    for name in _TIMES:
        ordered = sorted(points, key=lambda each: each.rate_per_s)
        known = [(each.rate_per_s, times) for each in ordered if (times := getattr(each.outcome, name)) is not None]
        if not known:
            continue
        title, rates = WAITS[name].capitalize(), [rate_per_s for rate_per_s, _ in known]
        lines = {each: [getattr(times, f"{each.lower()}_s") for _, times in known] for each in _LINES}
        loads = [rate_per_s / limit_per_s for rate_per_s in rates]
        scale_s, unit = unit_for_s(max(lines["P99"]))
        series = []
        for each, (colour, dash, marker) in _LINES.items():
            tips = [
                {
                    "percentile": each,
                    "time": format_duration_s(time_s),
                    "load": format_percent(load, 0),
                    "requests/s": f"{rate_per_s:.4g}",
                }
                for time_s, load, rate_per_s in zip(lines[each], loads, rates, strict=True)
            ]
            heights = [time_s / scale_s for time_s in lines[each]]
            series.append(Series(each, Mark.LINE, rates, heights, colour, dash, marker, tips))
        is_log = is_wide([time_s for each in lines.values() for time_s in each], _WIDE_RANGE)
        x = Axis("requests per second", ends=(0.0, until_per_s))
        rows: list[Cells] = [
            (
                Cell(format_percent(load, 0), load),
                Cell(format_significant(rate_per_s, 4), rate_per_s),
                *(Cell(format_duration_s(each), each) for each in times_s),
            )
            for load, rate_per_s, *times_s in zip(loads, rates, *lines.values(), strict=True)
        ]
        yield Chart(
            title=f"{title} against load",
            description=f"Lines of P50, P95 and P99 of the {title.lower()} at rates up to {rates[-1]:.4g} requests/s.",
            drawn=Curves(series, x, Axis(title.lower(), unit, is_log=is_log), rules),
            numbers=Table(columns(">load", ">requests/s", *(f">{each}" for each in _LINES)), rows),
            notes=[f"{line}."],
        )


def queue_chart(outcome: ServingOutcome, load: float | None) -> Chart:
    """The number of requests that wait, over time."""
    queue, most = outcome.queue, max(outcome.queue.peak)
    stretches = list(zip(queue.time_s, queue.time_s[1:], queue.peak, queue.mean, strict=False))
    tips = [
        {"most": str(peak), "mean": f"{mean:.3g}", "from [s]": f"{start:.4g}"} for start, _, peak, mean in stretches
    ]
    at = "" if load is None else f" at {format_percent(load, 0)} of saturation"
    title = f"Requests in the queue{at}: {format_significant(outcome.mean_waiting)} on average, {most} at most"
    means = [round(each, 6) for each in queue.mean]
    series = [
        Series("most in each interval", Mark.AREA, queue.time_s, list(queue.peak), _AREA, tips=tips),
        Series("mean of each interval", Mark.LEVELS, queue.time_s, means, _LEVEL),
    ]
    x = Axis("time since the first arrival", "s", (0.0, queue.time_s[-1]))
    rows = [(f"{start:.4g}", f"{end:.4g}", str(peak), f"{mean:.4g}") for start, end, peak, mean in stretches]
    return Chart(
        title=title,
        description=f"{title}, over {format_duration_s(queue.time_s[-1])}.",
        drawn=Curves(series, x, Axis("requests in the queue", ends=(0.0, _QUEUE_ROOM * max(1, most)))),
        numbers=Table(columns(">from [s]", ">to [s]", ">most", ">mean"), rows),
    )
