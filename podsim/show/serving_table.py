"""Tables of serving."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from podsim.draws import SHARE
from podsim.format import format_count, format_duration_s, format_percent, format_range, format_significant
from podsim.metrics import METRICS, SECONDS, SERVED_SHARES
from podsim.metrics import SHARE as SHARE_UNIT
from podsim.report.table import Cell, Cells, Column, Passage, Table, columns
from podsim.result.serving import ServingResult
from podsim.runs.serving import Percentiles
from podsim.show.tables import Tables, headline_table, spent_rows

_DIGITS: Final = 4
_NONE: Final = "-"
_RANGE_DIGITS: Final = 2
_LOW, _HIGH = attrgetter("low"), attrgetter("high")
_SEEN: Final = {
    "time_to_first_token": "time to first token",
    "time_per_output_token": "time per output token",
    "latency": "latency",
    "queueing": "of it in the queue",
}


def serving_tables(result: ServingResult) -> Tables:
    """The headline, power, energy and cost, percentiles, the queue over time and the load curve."""
    sources = result.sources.text
    notes = [f"Sources of a decode step of a full batch: {sources}"] if sources else []
    spent = spent_rows(result)
    return (
        Table((Column("", style="bold"), *columns("", "")), serving_headline(result), notes=notes),
        headline_table(result, spent) if spent else None,
        percentile_table(result),
        _queue(result),
        _load_curve(result),
    )


def serving_headline(result: ServingResult) -> tuple[tuple[str, str, str], ...]:
    """Label, value and remark of the numbers that matter most; power, energy and cost stand apart."""
    outcome, flight = result.outcome, result.batches_in_flight
    offered = "all at once"
    if result.rate_per_s is not None and result.load is not None:
        offered = f"{_number(result.rate_per_s)}/s, {format_percent(result.load, 0)} of saturation"
        offered = ranged(result, offered, "load")
    if result.users is not None and result.think_s is not None:
        offered = f"of {result.users:,} users who think {format_duration_s(result.think_s)} each time; {offered}"
    return (
        ("Requests", format_count(result.request_count), offered),
        ("Copies", format_count(result.copy_count), "" if flight == 1 else f"{flight} batches in flight in each"),
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
    shown = {SHARE_UNIT: lambda share: format_percent(share, 0), SECONDS: _time}.get(METRICS[figure].unit, _number)
    return f"{text}  ({format_range(shown(found.low), shown(found.high))})"


def _time(time_s: float) -> str:
    return format_duration_s(time_s, _RANGE_DIGITS)


def percentile_table(result: ServingResult) -> Table:
    """Percentiles of the times that requests see, and how their ranges were drawn."""
    rows: list[Cells] = []
    for name, label in _SEEN.items():
        rows.append((label, *_times(getattr(result.outcome, name))))
        ranges = [result.ranges.get(f"{name}_{share}_s") for share in SERVED_SHARES]
        if any(ranges):
            lows, highs = (
                [_NONE if each is None else Cell(_time(end(each)), end(each)) for each in ranges]
                for end in (_LOW, _HIGH)
            )
            rows += [(f"  {SHARE:.0%}: from".replace("%", " %"), *lows), ("        to", *highs)]
    notes = []
    if result.draws:
        draws, saturated = result.draws[0], result.saturated_count
        first = f" of the first {draws.request_count:,} requests" if draws.request_count < result.request_count else ""
        inputs = f"{len(draws.drawn)} uncertain inputs anywhere in their ranges"
        notes.append(f"ranges: {draws.count} draws{first} with {inputs}")
        if impossible := draws.runs.count(None):
            notes.append(f"in {impossible} of the draws the model does not fit, or no run is possible")
        if saturated:
            notes.append(
                f"in {saturated} of {draws.count} draws more requests come than can be served: "
                "waiting then tells how long the run lasts"
            )
        notes += [f"wider, since {reason}" for reason in draws.reasons]
    return Table(columns("", ">P50", ">P95", ">P99", ">mean"), rows, "What requests see", notes)


def _times(times: Percentiles | None) -> Sequence[str | Cell]:
    if times is None:
        return [_NONE] * 4
    return [Cell(format_duration_s(each), each) for each in (times.p50_s, times.p95_s, times.p99_s, times.mean_s)]


def _queue(result: ServingResult) -> Passage:
    queue = result.outcome.queue
    numbers = f"{_number(result.outcome.mean_waiting)} on average, {result.most_waiting} at most"
    span = f"over {format_duration_s(queue.time_s[-1])}, from the first arrival to the last token"
    return Passage(span, f"Requests in the queue: {numbers}")


def _load_curve(result: ServingResult) -> Table:
    rows = []
    for point in result.points:
        outcome, load = point.outcome, result.load_of(point.rate_per_s)
        offered = (Cell(format_percent(load, 0), load), Cell(_number(point.rate_per_s), point.rate_per_s))
        times = (*_times(outcome.time_to_first_token)[:3], *_times(outcome.latency)[:3])
        rows.append((*offered, *times, Cell(f"{outcome.mean_waiting:.2f}", outcome.mean_waiting)))
    three = (">P95", ">P99")
    heads = columns(">load", ">requests/s", ">TTFT P50", *three, ">latency P50", *three, ">queue")
    return Table(heads, rows, "Time to first token (TTFT), latency and mean queue against load")


def _number(value: float) -> str:
    return format_significant(value, _DIGITS)
