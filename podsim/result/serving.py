"""Result of serving: latencies of requests, utilisation of the copies, and saturation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Final

from podsim.draws import SHARE, Range, range_of
from podsim.format import format_count, format_duration_s, format_percent, format_range, format_significant, unit_for_s
from podsim.lazy import LazySequence
from podsim.metrics import (
    METRICS,
    REQUESTS,
    SATURATION,
    SECONDS,
    SERVED_SHARES,
    SERVED_TOKENS,
    SERVING,
    WAITS,
    metrics_of,
)
from podsim.metrics import SHARE as SHARE_UNIT
from podsim.report.chart import Axis, Chart, Curves, Mark, Series, is_wide
from podsim.report.report import Part, Section, Tile, Topic, with_range
from podsim.report.table import Cell, Cells, Table, columns
from podsim.result.base import Result
from podsim.result.power import WorkDone
from podsim.result.sources import Sources
from podsim.result.step import StepReport
from podsim.result.where import waterfall
from podsim.runs.serving import LoadPoint, Saturation, ServingOutcome

_RANGE_DIGITS: Final = 2
_SEEN: Final = {name: label for name, label in WAITS.items() if name != "queueing"} | {"queueing": "of it in the queue"}
_ROUNDS = 10
"""Requests per user below which the latencies are not representative."""
_SERVICE = ("batching", "batch_size", "max_batch", "copy_count", "batches_in_flight")
_OUTCOME = (*WAITS, REQUESTS, SERVED_TOKENS, "utilization", "mean_batch", "mean_waiting", "queue_grows")
_LINES: Final = {
    "P50": ("#5b9bd1", (), "circle"),
    "P95": ("#b35806", (7, 4), "square"),
    "P99": ("#1a1a1a", (2, 3), "triangle-up"),
}
"""Colour, dashes and marker of each line; each of the three distinguishes the lines."""
_WIDE_RANGE: Final = 20
_ROOM, _QUEUE_ROOM = 1.14, 1.25
_AREA, _LEVEL = "#9cc3e4", "#08306b"


@dataclass(frozen=True, slots=True)
class DrawnService:
    """Results of the same requests with uncertain inputs sampled from their ranges."""

    outcome: ServingOutcome
    saturation_per_s: float


@dataclass(frozen=True, slots=True)
class ServiceDraws:
    """Results of serving with sampled inputs."""

    count: int
    seed: int
    drawn: tuple[str, ...]  # keys of the sampled inputs
    request_count: int  # requests of each sample: the first ones of the run
    likely: DrawnService  # outcome of the same number of requests with unchanged inputs
    runs: tuple[DrawnService | None, ...]  # outcome of each sample; None if impossible
    reasons: tuple[str, ...] = ()  # reasons for the size of the model error


@dataclass(frozen=True, kw_only=True, repr=False)
class ServingResult(Result):
    """Result of simulated serving.

    Attributes:
        batching: `static` or `continuous`.
        batch_size: Most sequences of a batch.
        max_batch: Sequences of the largest batch that fits into memory.
        copy_count: Copies of the model.
        batches_in_flight: Batches that each copy processes at the same time.
        request_count: Number of requests.
        rate_per_s: Arrival rate of requests; None if all arrived at once. [1/s]
        users: Number of users, who send the next request after an answer; None for an open arrival process.
        think_s: Mean time between an answer and the next request of a user. [s]
        outcome: Outcome of the requests.
        saturation: Largest rate that can be served.
        points: Outcomes at other rates.
        decode: Decode step of a full batch, simulated on first use; none or one.
        draws: Outcomes with sampled inputs, simulated on first use; none or one.
    """

    KIND = SERVING
    batching: str
    batch_size: int
    max_batch: int
    copy_count: int
    batches_in_flight: int
    request_count: int
    rate_per_s: float | None
    users: int | None = None
    think_s: float | None = None
    outcome: ServingOutcome
    saturation: Saturation
    points: tuple[LoadPoint, ...]
    decode: Sequence[StepReport] = ()
    draws: Sequence[ServiceDraws] = ()

    @property
    def sources(self) -> Sources:
        """Basis of the inputs that determine the time of a decode step of a full batch."""
        return self.decode[0].sources if self.decode else Sources()

    @property
    def shares_by_basis(self) -> Mapping[str, float]:
        """Shares of a decode step of a full batch by basis of its inputs."""
        return self.sources.shares

    @property
    def load(self) -> float | None:
        """Rate as a share of the saturation; None if all requests came at once."""
        return None if self.rate_per_s is None else self.load_of(self.rate_per_s)

    @property
    def utilization(self) -> float:
        """Share of the time in which the copies work."""
        return self.outcome.utilization

    def load_of(self, rate_per_s: float) -> float:
        """Return a rate as a fraction of the saturation rate."""
        return rate_per_s / self.saturation.rate_per_s

    @property
    def breakdown_basis(self) -> dict[str, object]:
        """Shares of a full batch's decode step by basis of its inputs, for each kind of time and in total."""
        return self.sources.to_dict()

    def service_figures(self) -> dict[str, float | None]:
        """Return the serving metrics by key: percentiles, rates, load and saturation."""
        return {metric.key: metric.get(self) for metric in metrics_of(SERVING)}

    def drawn(self) -> Iterator[ServingResult | None]:
        """Yield the result of each sample at the same power and prices; None for an impossible sample."""
        for draws in self.draws:
            yield from (None if run is None else self._with(run) for run in draws.runs)

    def _with(self, run: DrawnService) -> ServingResult:
        """Return this result with the outcome of one sample."""
        limit = replace(self.saturation, rate_per_s=run.saturation_per_s)
        rate_per_s = self.rate_per_s if self.users is None else run.outcome.offered_per_s
        return replace(self, rate_per_s=rate_per_s, outcome=run.outcome, saturation=limit, points=(), draws=())

    @cached_property
    def ranges(self) -> Mapping[str, Range]:
        """Range of each serving metric in 80 % of the samples; empty without samples.

        Samples serve only the first requests; the relative spread is applied to the result of all requests.
        """
        if not self.draws:
            return {}
        draws = self.draws[0]
        likely = self._with(draws.likely).service_figures()
        runs = [self._with(run).service_figures() for run in draws.runs if run is not None]
        found = {}
        for name, figure in self.service_figures().items():
            values = [each[name] for each in runs]
            known = [value for value in values if value is not None]
            if figure is not None and known and len(known) == len(values):
                scale = figure / start if (start := likely[name]) and figure else 1.0
                found[name] = range_of(scale * each for each in known).holding(figure)
        return found

    @cached_property
    def saturated_count(self) -> int:
        """Number of samples in which requests arrive faster than they can be served."""
        return sum(each is not None and each.is_saturated for each in self.drawn())

    @property
    def is_saturated(self) -> bool:
        """True if requests arrive faster than they can be served; False for users, who wait for their answers."""
        if self.users is not None:
            return False
        return self.outcome.queue_grows is True if self.load is None else self.load >= 1

    @property
    def most_waiting(self) -> int:
        """Most requests in the queue at a time."""
        return max(self.outcome.queue.peak)

    def headline(self) -> Iterator[Tile]:
        """Yield tiles with arrivals, capacity, rates with load and saturation, power, energy and cost."""
        outcome, flight, queue = self.outcome, self.batches_in_flight, self.outcome.queue
        offered = "all at once"
        if self.rate_per_s is not None and self.load is not None:
            offered = f"{_number(self.rate_per_s)}/s, {format_percent(self.load, 0)} of saturation"
            offered = with_range(offered, self._range("load"))
        if self.users is not None and self.think_s is not None:
            offered = f"of {self.users:,} users who think {format_duration_s(self.think_s)} each time; {offered}"
        yield Tile("Requests", format_count(self.request_count), (offered,))
        copies = () if flight == 1 else (f"{flight} batches in flight in each",)
        yield Tile("Copies", format_count(self.copy_count), copies)
        held = f"{self.batching}; memory holds {self.max_batch}"
        yield Tile("Batches", f"{format_count(self.batch_size)} sequences", (held,))
        tokens = f"{_number(outcome.throughput_tokens_per_s)} tokens/s"
        yield self._tile(REQUESTS, label="Throughput", notes=(tokens,))
        batch = f"{_number(outcome.mean_batch)} sequences in a batch on average"
        yield Tile("Busy", format_percent(outcome.utilization), (batch,))
        most, grows = f"{_number(self.saturation.rate_per_s)} requests/s", ("beyond it the queue grows",)
        yield Tile("Saturation", most, grows, self._range(SATURATION), SATURATION)
        span = f"over {format_duration_s(queue.time_s[-1])}, from the first arrival to the last token"
        waiting = f"{_number(outcome.mean_waiting)} requests on average, {self.most_waiting} at most"
        yield Tile("Queue", waiting, (span,))
        yield from self.spent_tiles()

    def conclusion(self) -> str:
        """Return the saturation rate, and the latencies at the offered rate."""
        at = "all at once," if self.rate_per_s is None else f"at {format_significant(self.rate_per_s)}/s,"
        first, last = (
            f"{format_duration_s(times.p99_s)}{self._bracketed_range(f'{name}_p99_s')}"
            for name in ("time_to_first_token", "latency")
            if (times := getattr(self.outcome, name)) is not None
        )
        return (
            f"saturates at {format_significant(self.saturation.rate_per_s)} requests/s; {at} P99 is "
            f"{first} to the first token, {last} to the last"
        )

    def _range(self, key: str) -> str:
        """Return the range of a serving metric; its ends are rounded because samples are few."""
        known = self.ranges.get(key)
        return "" if known is None else format_range(*(_rounded(key, end) for end in (known.low, known.high)))

    def _sections(self) -> Iterator[Section]:
        yield self._division

        def latency_parts() -> Iterator[Part]:
            yield self._percentiles()
            for name in ("time_to_first_token", "time_per_output_token", "latency"):
                yield from self._load_chart(name)

        yield Section("What requests see", LazySequence(latency_parts), Topic.REQUESTS, short=True, plotted=True)
        yield Section("Queue", LazySequence(lambda: [queue_chart(self.outcome, self.load)]), plotted=True)
        what = "a decode step of a full batch"
        charts = LazySequence(lambda: [waterfall(what, step.breakdown, step.sources) for step in self.decode])
        yield Section("Where time goes", charts, Topic.TIME, short=True)

    def _load_chart(self, name: str) -> Iterator[Chart]:
        """Yield a chart of one latency against the request rate, if known."""
        limit_per_s, asked_per_s = self.saturation.rate_per_s, self.rate_per_s
        rules, per_s = {"saturation": limit_per_s}, [point.rate_per_s for point in self.points]
        line = f"The dashed line is the saturation, {format_significant(limit_per_s)} requests/s"
        if asked_per_s is not None and asked_per_s < limit_per_s:
            rules[f"{format_significant(asked_per_s)}/s, asked for"] = asked_per_s
            line += "; the dotted one is the rate that was asked for"
        ordered = sorted(self.points, key=lambda point: point.rate_per_s)
        known = [(point, times) for point in ordered if (times := getattr(point.outcome, name)) is not None]
        if not known:
            return
        title, rates = WAITS[name].capitalize(), [point.rate_per_s for point, _ in known]
        lines = {share: [getattr(times, f"{share.lower()}_s") for _, times in known] for share in _LINES}
        loads = [format_percent(self.load_of(rate_per_s), 0) for rate_per_s in rates]
        scale_s, unit = unit_for_s(max(lines["P99"]))
        series = []
        for share, times_s in lines.items():
            tips = [
                {"percentile": share, "time": format_duration_s(time_s), "load": load, "requests/s": f"{rate:.4g}"}
                for time_s, load, rate in zip(times_s, loads, rates, strict=True)
            ]
            heights = [time_s / scale_s for time_s in times_s]
            series.append(Series(share, Mark.LINE, rates, heights, *_LINES[share], tips))
        is_log = is_wide([time_s for times_s in lines.values() for time_s in times_s], _WIDE_RANGE)
        rows: list[Cells] = [
            (
                Cell(load, self.load_of(rate_per_s)),
                Cell(format_significant(rate_per_s, 4), rate_per_s),
                *(Cell(format_duration_s(time_s), time_s) for time_s in times_s),
            )
            for load, rate_per_s, *times_s in zip(loads, rates, *lines.values(), strict=True)
        ]
        x = Axis("requests per second", ends=(0.0, _ROOM * max([limit_per_s, *per_s])))
        yield Chart(
            title=f"{title} against load",
            description=f"Lines of P50, P95 and P99 of the {title.lower()} at rates up to {rates[-1]:.4g} requests/s.",
            drawn=Curves(series, x, Axis(title.lower(), unit, is_log=is_log), rules),
            numbers=Table(columns(">load", ">requests/s", *(f">{share}" for share in _LINES)), rows),
            notes=[f"{line}."],
        )

    def _percentiles(self) -> Table:
        """Return percentiles of latencies with their ranges, and a note on the sampling."""
        rows: list[Cells] = []
        for name, label in _SEEN.items():
            keys = [f"{name}_{share}_s" for share in SERVED_SHARES]
            rows.append((label, *(_cell(METRICS[key].get(self)) for key in keys)))
            if any(key in self.ranges for key in keys):
                known = [self.ranges.get(key) for key in keys]
                low, high = (
                    [_cell(None if each is None else getattr(each, end), _RANGE_DIGITS) for each in known]
                    for end in ("low", "high")
                )
                rows += [(f"  {SHARE * 100:.0f} %: from", *low), ("        to", *high)]
        heads = columns("", *(f">{share}" for share in SERVED_SHARES.values()))
        return Table(heads, rows, "What requests see", list(self._drawn_notes()))

    def _drawn_notes(self) -> Iterator[str]:
        for draws in self.draws:
            first = f" of the first {draws.request_count:,} requests" * (draws.request_count < self.request_count)
            inputs = f"{len(draws.drawn)} uncertain inputs anywhere in their ranges"
            yield f"ranges: {draws.count} draws{first} with {inputs}"
            if impossible := draws.runs.count(None):
                yield f"in {impossible} of the draws the model does not fit, or no run is possible"
            if self.saturated_count:
                yield (
                    f"in {self.saturated_count} of {draws.count} draws more requests come than can be served: "
                    "waiting then tells how long the run lasts"
                )
            yield from (f"wider, since {reason}" for reason in draws.reasons)

    def work(self) -> WorkDone:
        """Return the work of all copies; steps that read prompts count like other steps."""
        outcome = self.outcome
        rates = {"token": outcome.throughput_tokens_per_s, "request": outcome.throughput_requests_per_s}
        if not self.decode:
            return WorkDone({}, rates)
        step = self.decode[0]
        density = outcome.utilization * step.density(self.batches_in_flight)
        return WorkDone(step.breakdown_ps, rates, step.products, density)

    def specific_numbers(self) -> Mapping[str, object]:
        """Return the numbers that only serving has, in a fixed order of keys."""
        users = {} if self.users is None else {"users": self.users, "think_s": self.think_s}
        return {
            "service": {key: getattr(self, key) for key in _SERVICE} | users,
            "breakdown_basis": self.breakdown_basis,
            "request_count": self.request_count,
            "rate_per_s": self.rate_per_s,
            "load": self.load,
            **_outcome_numbers(self.outcome),
            "ranges": self.ranges,
            "draws": self._drawn_dict(),
            "queue": {"most": self.most_waiting, **asdict(self.outcome.queue)},
            "saturation": {key: getattr(self.saturation, key) for key in ("rate_per_s", "confirmed")},
            "load_curve": [
                {
                    "load": self.load_of(point.rate_per_s),
                    "rate_per_s": point.rate_per_s,
                    "request_count": len(point.outcome.timeline.requests),
                    **_outcome_numbers(point.outcome),
                }
                for point in self.points
            ],
            "energy": self.energy,
            "cost": self.cost,
        }

    def _drawn_dict(self) -> dict[str, object] | None:
        if not self.draws:
            return None
        draws = self.draws[0]
        return {
            "count": draws.count,
            "seed": draws.seed,
            "impossible": draws.runs.count(None),
            "saturated": self.saturated_count,
            "request_count": draws.request_count,
            "drawn": list(draws.drawn),
            "reasons": list(draws.reasons),
        }


def _number(value: float) -> str:
    return format_significant(value, 4)


def _cell(time_s: float | None, digits: int = 3) -> Cell:
    return Cell("-") if time_s is None else Cell(format_duration_s(time_s, digits), time_s)


def _rounded(key: str, value: float) -> str:
    metric = METRICS[key]
    if metric.unit == SHARE_UNIT:
        return format_percent(value, 0)
    return format_duration_s(value, _RANGE_DIGITS) if metric.unit == SECONDS else _number(value)


def serving_warnings(
    rate_per_s: float | None, outcome: ServingOutcome, saturation: Saturation, users: int | None = None
) -> Iterator[str]:
    """Yield warnings that a reader must know before using the numbers."""
    if users is not None:
        count = len(outcome.timeline.requests)
        if count < _ROUNDS * users:
            yield (
                f"{users:,} users send {count:,} requests, of which the first and the last find others idle: "
                f"raise serving.request_count to {_ROUNDS * users:,} or more"
            )
    elif rate_per_s is not None and rate_per_s >= saturation.rate_per_s:
        yield (
            f"{rate_per_s:.4g} requests/s come, {saturation.rate_per_s:.4g}/s can be served: the queue "
            "grows without bound, and waiting and latency depend on how long the run lasts; "
            "offer less, or serve with more copies or a larger batch"
        )
    elif outcome.queue_grows:
        yield "the queue grew as long as requests came, though the load is below saturation: simulate more requests"
    if not saturation.confirmed:
        yield (
            "runs on either side of the saturation do not confirm it: take it as an estimate, "
            "or raise serving.request_count"
        )


def _outcome_numbers(outcome: ServingOutcome) -> dict[str, Any]:
    return {key: getattr(outcome, key) for key in _OUTCOME}


def queue_chart(outcome: ServingOutcome, load: float | None) -> Chart:
    """Return a chart of the number of waiting requests over time."""
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
