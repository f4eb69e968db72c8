"""Charts of serving: percentiles against load, and the queue over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podsim.format import format_duration_s, format_percent, format_significant
from podsim.report.chart import Axis, Chart, Curves, Mark, Series, Sheet, is_wide
from podsim.report.table import Table, columns
from podsim.result.serving import ServingResult
from podsim.show.run_charts import result_sheet, unit_for_s
from podsim.show.serving_table import ranged

_LINES: Final = {
    "P50": ("#5b9bd1", (), "circle"),
    "P95": ("#b35806", (7, 4), "square"),
    "P99": ("#1a1a1a", (2, 3), "triangle-up"),
}
"""Colour, dashes and marker of each, of which any tells them apart."""
_TIMES: Final = (
    ("time_to_first_token", "Time to first token"),
    ("time_per_output_token", "Time per output token"),
    ("latency", "Latency"),
)
_WIDE_RANGE: Final = 20
_ROOM, _QUEUE_ROOM = 1.14, 1.25
_AREA, _LEVEL = "#9cc3e4", "#08306b"


def serving_sheet(result: ServingResult) -> Sheet:
    """Percentiles against load above the queue over time."""
    return result_sheet(result, serving_conclusion(result), [list(percentile_charts(result)), [queue_chart(result)]])


def serving_conclusion(result: ServingResult) -> str:
    """The saturation, and what requests see at the rate that was asked for."""
    at = "all at once," if result.rate_per_s is None else f"at {format_significant(result.rate_per_s)}/s,"
    first, last = (
        ranged(result, format_duration_s(times.p99_s), f"{name}_p99_s").replace("  (", " (")
        for name in ("time_to_first_token", "latency")
        if (times := getattr(result.outcome, name)) is not None
    )
    return (
        f"saturates at {format_significant(result.saturation.rate_per_s)} requests/s; {at} P99 is "
        f"{first} to the first token, {last} to the last"
    )


def percentile_charts(result: ServingResult) -> Iterator[Chart]:
    """Each kind of time that is known, against the rate of requests."""
    limit_per_s = result.saturation.rate_per_s
    rules = {"saturation": limit_per_s}
    if result.rate_per_s is not None and result.rate_per_s < limit_per_s:
        rules[f"{format_significant(result.rate_per_s)}/s, asked for"] = result.rate_per_s
    until_per_s = _ROOM * max([limit_per_s, *(point.rate_per_s for point in result.points)])
    for name, title in _TIMES:
        points = sorted(result.points, key=lambda each: each.rate_per_s)
        known = [(point.rate_per_s, times) for point in points if (times := getattr(point.outcome, name)) is not None]
        if not known:
            continue
        scale_s, unit = unit_for_s(max(times.p99_s for _, times in known))
        rates = [rate_per_s for rate_per_s, _ in known]
        lines = {"P50": [times.p50_s for _, times in known], "P95": [times.p95_s for _, times in known]}
        lines |= {"P99": [times.p99_s for _, times in known]}
        loads = [format_percent(result.load_of(rate_per_s), 0) for rate_per_s in rates]
        series = []
        for line, (colour, dash, marker) in _LINES.items():
            tips = [
                {"percentile": line, "time": format_duration_s(time_s), "load": load, "requests/s": f"{rate:.4g}"}
                for time_s, load, rate in zip(lines[line], loads, rates, strict=True)
            ]
            heights = [time_s / scale_s for time_s in lines[line]]
            series.append(Series(line, Mark.LINE, rates, heights, colour, dash, marker, tips))
        is_log = is_wide([at for each in lines.values() for at in each], _WIDE_RANGE)
        rows = [
            (load, f"{rate:.6g}", *(f"{lines[line][place]:.6g}" for line in _LINES))
            for place, (load, rate) in enumerate(zip(loads, rates, strict=True))
        ]
        yield Chart(
            title=f"{title} against load",
            description=f"Lines of P50, P95 and P99 of the {title.lower()} at rates up to {rates[-1]:.4g} requests/s.",
            drawn=Curves(
                series,
                Axis("requests per second", ends=(0.0, until_per_s)),
                Axis(title.lower(), unit, is_log=is_log),
                rules,
            ),
            numbers=Table(columns(">load", ">requests/s", *(f">{line} [s]" for line in _LINES)), rows),
            notes=[
                f"The dashed line is the saturation, {format_significant(limit_per_s)} requests/s"
                + ("; the dotted one is the rate that was asked for." if len(rules) > 1 else ".")
            ],
        )


def queue_chart(result: ServingResult) -> Chart:
    """The number of requests that wait, over time."""
    queue = result.outcome.queue
    stretches = list(zip(queue.time_s, queue.time_s[1:], queue.peak, queue.mean, strict=False))
    tips = [
        {"most": str(peak), "mean": f"{mean:.3g}", "from [s]": f"{start:.4g}"} for start, _, peak, mean in stretches
    ]
    load = "" if result.load is None else f" at {format_percent(result.load, 0)} of saturation"
    mean = format_significant(result.outcome.mean_waiting)
    title = f"Requests in the queue{load}: {mean} on average, {result.most_waiting} at most"
    until = _QUEUE_ROOM * max(1, result.most_waiting)
    return Chart(
        title=title,
        description=f"{title}, over {format_duration_s(queue.time_s[-1])}.",
        drawn=Curves(
            [
                Series("most in each interval", Mark.AREA, queue.time_s, list(queue.peak), _AREA, tips=tips),
                Series("mean of each interval", Mark.LEVELS, queue.time_s, [round(each, 6) for each in queue.mean],
                       _LEVEL),
            ],
            Axis("time since the first arrival", "s", (0.0, queue.time_s[-1])),
            Axis("requests in the queue", ends=(0.0, until)),
        ),
        numbers=Table(
            columns(">from [s]", ">to [s]", ">most", ">mean"),
            [(f"{start:.4g}", f"{end:.4g}", str(peak), f"{mean:.4g}") for start, end, peak, mean in stretches],
        ),
    )  # fmt: skip
