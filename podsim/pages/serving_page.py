"""What a page says of serving: percentiles against load, and the queue over time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from podsim.format import format_duration_s, format_percent, format_significant
from podsim.pages.parts import Chart, Grid, Section, Spec, Tile
from podsim.pages.rich_tables import blocks_of
from podsim.pages.tiles import tiles_of
from podsim.pages.time_charts import unit_for_s, waterfall
from podsim.result.serving import ServingResult
from podsim.show.power_table import spent_rows
from podsim.show.serving_table import serving_headline, serving_tables

_LINES: Final = {"P50": ("#5b9bd1", [1, 0]), "P95": ("#b35806", [7, 4]), "P99": ("#1a1a1a", [2, 3])}
_TIMES: Final = (
    ("time_to_first_token", "Time to first token"),
    ("time_per_output_token", "Time per output token"),
    ("latency", "Latency"),
)
_HEIGHT: Final = 220


def serving_tiles(result: ServingResult) -> list[Tile]:
    """The numbers that matter most."""
    tiles = [Tile(label, value, (remark,) if remark else ()) for label, value, remark in serving_headline(result)]
    return [*tiles, *tiles_of(result, spent_rows(result))]


def serving_sections(result: ServingResult) -> Iterator[Section]:
    """What requests see, how it changes with load, and what waits."""
    charts = [chart for name, title in _TIMES if (chart := _percentiles(result, name, title))]
    tables = [block for table in serving_tables(result, ascii_only=False)[1:2] for block in blocks_of(table)]
    yield Section("What requests see", [*tables, *charts])
    yield Section("Queue", [_queue(result)])
    if result.decode:
        step = result.decode[0]
        yield Section("Where time goes", [waterfall("decode step of a full batch", step.breakdown, step.sources)])


def _percentiles(result: ServingResult, name: str, title: str) -> Chart | None:
    """A kind of time at each of the rates."""
    points = sorted(result.points, key=lambda each: each.rate_per_s)
    known = [(point.rate_per_s, times) for point in points if (times := getattr(point.outcome, name)) is not None]
    if not known:
        return None
    scale_s, unit = unit_for_s(max(times.p99_s for _, times in known))
    values, rows = [], []
    for rate_per_s, times in known:
        each = {"P50": times.p50_s, "P95": times.p95_s, "P99": times.p99_s}
        load = format_percent(result.load_of(rate_per_s), 0)
        values += [
            {
                "rate": rate_per_s,
                "time": time_s / scale_s,
                "line": line,
                "load": load,
                "shown": format_duration_s(time_s),
            }
            for line, time_s in each.items()
        ]
        rows.append((load, f"{rate_per_s:.6g}", *(f"{time_s:.6g}" for time_s in each.values())))
    return Chart(
        title=f"{title} against load",
        description=f"Lines of P50, P95 and P99 of the {title.lower()} at rates up to {known[-1][0]:.4g} requests/s.",
        spec=_lines(values, f"{title.lower()} [{unit}]", result.saturation.rate_per_s),
        numbers=Grid((">load", ">requests/s", *(f">{line} [s]" for line in _LINES)), rows),
        notes=[f"The dashed line is the saturation, {format_significant(result.saturation.rate_per_s)} requests/s."],
    )


def _lines(values: list[dict[str, Any]], title: str, saturation_per_s: float) -> Spec:
    names = list(_LINES)
    colour = {"field": "line", "sort": names, "title": None}
    scale = {"domain": names, "range": [each for each, _ in _LINES.values()]}
    dash = {"domain": names, "range": [each for _, each in _LINES.values()]}
    return {
        "width": "container",
        "height": _HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": values},
        "encoding": {
            "x": {"field": "rate", "type": "quantitative", "title": "requests per second", "scale": {"zero": True}}
            | {"axis": {"tickCount": 6, "format": "~g"}},
            "y": {"field": "time", "type": "quantitative", "title": title},
        },
        "layer": [
            {
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"stroke": {**colour, "scale": scale}, "strokeDash": {**colour, "scale": dash}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 60},
                "encoding": {
                    "fill": {**colour, "scale": scale},
                    "tooltip": [
                        {"field": "line"},
                        {"field": "shown", "title": "time"},
                        {"field": "load"},
                        {"field": "rate", "title": "requests/s", "format": ".4~g"},
                    ],
                },
            },
            {
                "data": {"values": [{"at": saturation_per_s}]},
                "mark": {"type": "rule", "strokeDash": [5, 3]},
                "encoding": {
                    "x": {"field": "at", "type": "quantitative"},
                    "y": {"value": 0},
                    "y2": {"value": "height"},
                },
            },
        ],
    }


def _queue(result: ServingResult) -> Chart:
    queue = result.outcome.queue
    stretches = list(zip(queue.time_s, queue.time_s[1:], queue.peak, queue.mean, strict=False))
    values = [
        {"start": start, "end": end, "most": peak, "mean": round(mean, 6)} for start, end, peak, mean in stretches
    ]
    mean = format_significant(result.outcome.mean_waiting)
    title = f"Requests in the queue: {mean} on average, {result.most_waiting} at most"
    spec: Spec = {
        "width": "container",
        "height": _HEIGHT,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": values},
        "encoding": {
            "x": {"field": "start", "type": "quantitative", "title": "time since the first arrival [s]"},
            "x2": {"field": "end"},
        },
        "layer": [
            {
                "mark": {"type": "rect", "fill": "#9cc3e4"},
                "encoding": {
                    "y": {"field": "most", "type": "quantitative", "title": "requests in the queue"},
                    "y2": {"datum": 0},
                    "tooltip": [
                        {"field": "most"},
                        {"field": "mean", "format": ".3~g"},
                        {"field": "start", "title": "from [s]", "format": ".4~g"},
                    ],
                },
            },
            {
                "mark": {"type": "rule", "stroke": "#08306b", "strokeWidth": 2},
                "encoding": {"y": {"field": "mean"} | {"type": "quantitative"}},
            },
        ],
    }
    numbers = [(f"{start:.4g}", f"{end:.4g}", str(peak), f"{mean:.4g}") for start, end, peak, mean in stretches]
    return Chart(
        title=title,
        description=f"{title}, over {format_duration_s(queue.time_s[-1])}.",
        spec=spec,
        numbers=Grid((">from [s]", ">to [s]", ">most", ">mean"), numbers),
        notes=["Areas are the most in each stretch of time, dark lines the mean."],
    )
