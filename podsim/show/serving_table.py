"""Tables of serving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from podsim.draws import SHARE
from podsim.format import format_count, format_duration_s, format_percent, format_range, format_significant
from podsim.metrics import METRICS, SECONDS, SERVED_SHARES
from podsim.metrics import SHARE as SHARE_UNIT
from podsim.result.serving import ServingResult
from podsim.runs.serving import LoadPoint, Percentiles
from podsim.show.power_table import spent_rows
from podsim.show.tables import Tables, headline, plain_table, titled

_DIGITS: Final = 4
_TABLE_DIGITS: Final = 3
_BARS: Final = " ▁▂▃▄▅▆▇█"
_ASCII_BARS: Final = " .:-=+*#@"
_SPARKS: Final = 60
_LABELS: Final = len("Saturation")
_NONE: Final = "-"
_RANGE_DIGITS: Final = 2
_LOW, _HIGH = attrgetter("low"), attrgetter("high")
_SEEN: Final = {
    "time_to_first_token": "time to first token",
    "time_per_output_token": "time per output token",
    "latency": "latency",
    "queueing": "of it in the queue",
}


def serving_tables(result: ServingResult, *, ascii_only: bool) -> Tables:
    """The headline, percentiles, the queue over time and the load curve."""
    return (_headline(result), _percentiles(result), _queue(result, ascii_only=ascii_only), _load_curve(result))


def sparkline(counts: Sequence[int], *, ascii_only: bool = False, width: int = _SPARKS) -> str:
    """The largest count of each of a number of equal stretches, as bars; blank only where all are 0.

    >>> sparkline([0, 0, 1, 8, 4, 0], width=3)
    ' █▄'
    """
    stretches = min(width, len(counts))
    edges = [len(counts) * number // stretches for number in range(stretches + 1)]
    peaks = [max(counts[start:end]) for start, end in pairwise(edges)]
    bars = _ASCII_BARS if ascii_only else _BARS
    return "".join(bars[-(-(len(bars) - 1) * peak // max(1, *peaks))] for peak in peaks)


def _headline(result: ServingResult) -> RenderableType:
    table = Table.grid(Column(), Column(style="bold"), Column(), padding=(0, 2, 0, 0))
    for row in serving_headline(result):
        table.add_row(*map(Text, row))
    spent = spent_rows(result)
    tables = (
        (table, headline(result, [(label.ljust(_LABELS), key, value) for label, key, value in spent]))
        if spent
        else (table,)
    )
    if not result.sources.text:
        return Group(*tables)
    return Group(*tables, Text(f"Sources of a decode step of a full batch: {result.sources.text}", style="dim"))


def serving_headline(result: ServingResult) -> tuple[tuple[str, str, str], ...]:
    """Label, value and remark of the numbers that matter most; power, energy and cost stand apart."""
    outcome = result.outcome
    return (
        ("Requests", format_count(result.request_count), _offered(result)),
        ("Copies", format_count(result.copy_count), _in_flight(result)),
        (
            "Batches",
            f"{format_count(result.batch_size)} sequences",
            f"{result.batching}; memory holds {result.max_batch}",
        ),
        (
            "Throughput",
            f"{_number(outcome.throughput_tokens_per_s)} tokens/s",
            ranged(result, f"{_number(outcome.throughput_requests_per_s)} requests/s", "throughput_requests_per_s"),
        ),
        (
            "Busy",
            format_percent(outcome.utilization),
            f"{_number(outcome.mean_batch)} sequences in a batch on average",
        ),
        (
            "Saturation",
            f"{_number(result.saturation.rate_per_s)} requests/s",
            f"{ranged(result, '', 'saturation_per_s').strip()}  beyond it the queue grows".strip(),
        ),
    )


def ranged(result: ServingResult, text: str, figure: str) -> str:
    """A text with the range of a figure, if that is known: `992 ms  (80 %: 21 ms to 14 s)`."""
    found = result.ranges.get(figure)
    if found is None:
        return text
    shown = {SHARE_UNIT: _percent, SECONDS: _time}.get(METRICS[figure].unit, _number)
    return f"{text}  ({format_range(shown(found.low), shown(found.high))})"


def _percent(share: float) -> str:
    return format_percent(share, 0)


def _time(time_s: float) -> str:
    return format_duration_s(time_s, _RANGE_DIGITS)


def _offered(result: ServingResult) -> str:
    if result.rate_per_s is None or result.load is None:
        return "all at once"
    return ranged(result, f"{_number(result.rate_per_s)}/s, {_percent(result.load)} of saturation", "load")


def _in_flight(result: ServingResult) -> str:
    return "" if result.batches_in_flight == 1 else f"{result.batches_in_flight} batches in flight in each"


def _percentiles(result: ServingResult) -> Group:
    table = plain_table("", ">P50", ">P95", ">P99", ">mean")
    for name, label in _SEEN.items():
        table.add_row(label, *_times(getattr(result.outcome, name)))
        ranges = [result.ranges.get(f"{name}_{share}_s") for share in SERVED_SHARES]
        if any(ranges):
            lows, highs = ([_NONE if each is None else _time(end(each)) for each in ranges] for end in (_LOW, _HIGH))
            table.add_row(f"  {SHARE:.0%}: from".replace("%", " %"), *lows)
            table.add_row("        to", *highs)
    return titled("What requests see", table, *_how_drawn(result))


def _how_drawn(result: ServingResult) -> Iterator[str]:
    """What ranges are made of, and in how many of the draws percentiles are none of a queue that ends."""
    if not result.draws:
        return
    draws, saturated = result.draws[0], result.saturated_count
    first = f" of the first {draws.request_count:,} requests" if draws.request_count < result.request_count else ""
    yield f"ranges: {draws.count} draws{first} with {len(draws.drawn)} uncertain inputs anywhere in their ranges"
    if impossible := draws.runs.count(None):
        yield f"in {impossible} of the draws the model does not fit, or no run is possible"
    if saturated:
        yield (
            f"in {saturated} of {draws.count} draws more requests come than can be served: "
            "waiting then tells how long the run lasts"
        )
    yield from (f"wider, since {reason}" for reason in draws.reasons)


def _times(times: Percentiles | None) -> list[str]:
    if times is None:
        return [_NONE] * 4
    return [format_duration_s(each, _TABLE_DIGITS) for each in (times.p50_s, times.p95_s, times.p99_s, times.mean_s)]


def _queue(result: ServingResult, *, ascii_only: bool) -> Group:
    queue = result.outcome.queue
    numbers = f"{_number(result.outcome.mean_waiting)} on average, {result.most_waiting} at most"
    span = f"over {format_duration_s(queue.time_s[-1])}, from the first arrival to the last token"
    return Group(
        Text(f"Requests in the queue: {numbers}", style="bold"),
        Text(f"|{sparkline(queue.peak, ascii_only=ascii_only)}|"),
        Text(span, style="dim"),
    )


def _load_curve(result: ServingResult) -> Group:
    three = (">P95", ">P99")
    table = plain_table(">load", ">requests/s", ">TTFT P50", *three, ">latency P50", *three, ">queue")
    for point in result.points:
        table.add_row(*_point(result, point))
    return titled("Time to first token (TTFT), latency and mean queue against load", table)


def _point(result: ServingResult, point: LoadPoint) -> list[str]:
    outcome = point.outcome
    return [
        format_percent(result.load_of(point.rate_per_s), 0),
        _number(point.rate_per_s),
        *_times(outcome.time_to_first_token)[:3],
        *_times(outcome.latency)[:3],
        f"{outcome.mean_waiting:.2f}",
    ]


def _number(value: float) -> str:
    return format_significant(value, _DIGITS)
