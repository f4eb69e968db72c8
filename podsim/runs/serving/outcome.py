"""Outcome of serving: latencies of requests, numbers of requests over time, and utilization of replicas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.runs.serving.arrivals import Requests
from podsim.units import PS_PER_S

Int64s = NDArray[np.int64]

DRAWN_INTERVALS = 1_000
_FEWEST_ARRIVALS = 100
_WARM_UP = 0.25  # share of the time of arrivals that `grows` leaves out
_SLICES = 30
_STANDARD_ERRORS = 2


@dataclass(frozen=True, slots=True)
class CountPath:
    """Count over time, as a step function: each count is valid until the next instant, the last one without end."""

    time_ps: Int64s  # instants in order, all different [ps]
    count: Int64s  # count from each instant on

    def counts_at(self, time_ps: NDArray[Any]) -> Int64s:
        """Return the counts at the given instants."""
        return self.count[np.searchsorted(self.time_ps, time_ps, side="right") - 1]

    @property
    def area_ps(self) -> int:
        """Integral of the count over time, up to the last instant; exact. [ps]"""
        return sum(map(mul, np.diff(self.time_ps).tolist(), self.count.tolist()))


def count_path(up_ps: Sequence[int] | Int64s, down_ps: Sequence[int] | Int64s, end_ps: int) -> CountPath:
    """Return a count that rises by 1 at the times `up_ps`, and falls by 1 at the times `down_ps`.

    Its last instant is `end_ps`.

    >>> path = count_path([0, 2], [3, 5], 6)
    >>> path.time_ps.tolist(), path.count.tolist(), path.area_ps
    ([0, 2, 3, 5, 6], [1, 2, 1, 0, 0], 6)
    """
    instants = np.concatenate([np.asarray(up_ps, np.int64), np.asarray(down_ps, np.int64), [0, end_ps]])
    changes = np.repeat(np.array([1, -1, 0]), [len(up_ps), len(down_ps), 2])
    order = np.argsort(instants, kind="stable")
    times = instants[order]
    lasts = np.append(np.flatnonzero(np.diff(times)), len(times) - 1)
    return CountPath(times[lasts], np.cumsum(changes[order])[lasts])


@dataclass(frozen=True, slots=True)
class QueueLength:
    """Queue length over time, in equal intervals from the first arrival to the last token."""

    time_s: tuple[float, ...]  # edges of the intervals, one more than intervals [s]
    mean: tuple[float, ...]  # mean over each interval
    peak: tuple[int, ...]  # maximum over each interval


def draw(path: CountPath) -> QueueLength:
    """Return the mean and the maximum of a count in equal intervals of time, at most a thousand."""
    end = int(path.time_ps[-1])
    intervals = min(DRAWN_INTERVALS, end)
    edges = np.array([end * number // intervals for number in range(intervals + 1)], np.int64)
    times = np.sort(np.concatenate([edges, path.time_ps]), kind="stable")  # fast for two sorted parts
    times = times[np.append(True, np.diff(times) > 0)]
    counts, starts = path.counts_at(times[:-1]), np.searchsorted(times, edges[:-1])
    means = np.add.reduceat(counts * np.diff(times).astype(np.float64), starts) / np.diff(edges)
    peaks = np.maximum.reduceat(counts, starts)
    return QueueLength(
        tuple(float(edge) for edge in edges / PS_PER_S), tuple(map(float, means)), tuple(map(int, peaks))
    )


def grows(path: CountPath, arrival_count: int, last_arrival_ps: int) -> bool | None:
    """Return True if a queue grows while requests arrive, or None if they are too few for a decision.

    The last three quarters of the time of arrivals are divided into slices. The queue grows if its mean change per
    slice is above two standard errors. In a queue that only fluctuates, changes cancel.

    Source: [law2015] for means of batches; the rule itself is this project's.

    Args:
        path: Length of the queue over time.
        arrival_count: Number of requests.
        last_arrival_ps: Time of the last arrival. [ps]
    """
    if arrival_count < _FEWEST_ARRIVALS or last_arrival_ps < _SLICES:
        return None
    edges = np.linspace(_WARM_UP * last_arrival_ps, last_arrival_ps, _SLICES + 1)
    changes = np.diff(path.counts_at(edges).astype(np.float64))
    return bool(changes.mean() > _STANDARD_ERRORS * changes.std(ddof=1) / np.sqrt(_SLICES))


@dataclass(frozen=True, slots=True)
class Timeline:
    """Times of all events of each request."""

    requests: Requests
    start_ps: tuple[int, ...]  # start of the prefill of each request [ps]
    first_token_ps: tuple[int, ...]  # end of the prefill, with the first token [ps]
    last_token_ps: tuple[int, ...]  # last token [ps]
    # busy time of each slot for a batch; the first slots of all replicas come before their second slots [ps]
    busy_ps: tuple[int, ...]

    @property
    def makespan_ps(self) -> int:
        """Time from the first arrival to the last token of all requests. [ps]"""
        return max(self.last_token_ps) - self.requests.arrival_ps[0]

    @property
    def waiting(self) -> CountPath:
        """Number of requests in the queue, from the first arrival on."""
        return self._path(self.requests.arrival_ps, self.start_ps)

    @property
    def present(self) -> CountPath:
        """Number of requests in the queue or in a batch, from the first arrival on."""
        return self._path(self.requests.arrival_ps, self.last_token_ps)

    def _path(self, up_ps: Sequence[int], down_ps: Sequence[int]) -> CountPath:
        return count_path(self.since_first(up_ps), self.since_first(down_ps), self.makespan_ps)

    def since_first(self, times_ps: Sequence[int]) -> Int64s:
        """Return times relative to the first arrival. [ps]"""
        origin = self.requests.arrival_ps[0]
        return np.asarray([time - origin for time in times_ps] if origin else times_ps, np.int64)


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Distribution of a time over all requests.

    A percentile is the smallest time of a request that at least this share of the requests does not exceed (nearest
    rank, the first definition of [hyndman1996]).
    """

    p50_s: float  # half of the requests [s]
    p95_s: float
    p99_s: float
    mean_s: float


def percentiles_of(times_ps: Sequence[int] | Int64s, divisors: Sequence[int] | Int64s | None = None) -> Percentiles:
    """Return the percentiles of times in picoseconds, each divided by its whole number if `divisors` are given.

    >>> percentiles_of([10**12 * seconds for seconds in range(1, 101)])
    Percentiles(p50_s=50.0, p95_s=95.0, p99_s=99.0, mean_s=50.5)
    """
    whole = np.asarray(times_ps, np.int64)
    values = np.sort(whole if divisors is None else whole / np.asarray(divisors, np.int64)).tolist()
    count = len(values)
    p50, p95, p99 = (values[-(-share * count // 100) - 1] / PS_PER_S for share in (50, 95, 99))
    return Percentiles(p50, p95, p99, math.fsum(values) / count / PS_PER_S)


@dataclass(frozen=True, slots=True)
class ServingOutcome:
    """Result of a run under load, from the first arrival to the last token."""

    timeline: Timeline = field(repr=False)
    queueing: Percentiles  # from arrival to the start of the prefill [s]
    time_to_first_token: Percentiles  # from arrival to the first token [s]
    latency: Percentiles  # from arrival to the last token [s]
    # from the first to the last token ÷ tokens after the first, over requests with more than one; None if there are
    # none. As [mlperf_inference_rules] defines it [s]
    time_per_output_token: Percentiles | None
    offered_per_s: float | None  # rate of arrivals, from the first to the last; None if all come at once [1/s]
    throughput_requests_per_s: float
    throughput_tokens_per_s: float  # output tokens ÷ makespan [1/s]
    utilization: float  # busy share of the makespan, mean over all batches that can be in flight
    mean_batch: float  # unfinished sequences in a batch, mean over the busy time
    mean_waiting: float  # requests in the queue, mean over the makespan
    mean_present: float  # requests in the queue or in a batch, mean over the makespan
    queue: QueueLength = field(repr=False)  # requests in the queue over time
    queue_grows: bool | None  # True if the queue grows while requests arrive; None if they are too few for a decision

    @property
    def warning(self) -> str | None:
        """Warning that the queue grows, so that percentiles depend on the length of the run; None if it does not."""
        if not self.queue_grows:
            return None
        return (
            f"the queue grows: {self.offered_per_s:.4g} requests/s come and {self.throughput_requests_per_s:.4g}/s "
            "are served; waiting and latency depend on how long the run lasts\n"
            "  do: offer less, or serve with more replicas or a larger batch"
        )


def outcome_of(timeline: Timeline, *, closed: bool = False) -> ServingOutcome:
    """Return all metrics of a run; `closed` if users wait for answers, so that the queue cannot grow without end."""
    requests, makespan = timeline.requests, timeline.makespan_ps
    waiting, busy = timeline.waiting, sum(timeline.busy_ps)
    arrival, start, first, last = map(
        timeline.since_first,
        (requests.arrival_ps, timeline.start_ps, timeline.first_token_ps, timeline.last_token_ps),
    )
    tokens_after = np.asarray(requests.output_tokens) - 1
    several = tokens_after > 0
    return ServingOutcome(
        timeline=timeline,
        queueing=percentiles_of(start - arrival),
        time_to_first_token=percentiles_of(first - arrival),
        latency=percentiles_of(last - arrival),
        time_per_output_token=(
            percentiles_of((last - first)[several], tokens_after[several]) if several.any() else None
        ),
        offered_per_s=(len(requests) - 1) * PS_PER_S / requests.span_ps if requests.span_ps else None,
        throughput_requests_per_s=len(requests) * PS_PER_S / makespan,
        throughput_tokens_per_s=sum(requests.output_tokens) * PS_PER_S / makespan,
        utilization=busy / (makespan * len(timeline.busy_ps)),
        mean_batch=sum((last - start).tolist()) / busy,  # exact integers, which may exceed 64 bits
        mean_waiting=waiting.area_ps / makespan,
        mean_present=timeline.present.area_ps / makespan,
        queue=draw(waiting),
        queue_grows=False if closed else grows(waiting, len(requests), requests.span_ps),
    )
