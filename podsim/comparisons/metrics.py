"""The metrics of each kind of result: what is better, and what each is made of.

Every metric has a cost that adds up over its parts: the metric itself where less is better, and one over it where
more is better. The time of a sample is such a cost of the throughput. A change is due to the part whose cost moved most
in the same direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from podsim.comparisons.subject import Range, Subject
from podsim.report.rows import IN_PROCESSOR, STREAMING

TRAINING, GENERATION, FORWARD, SERVING = "training", "text generation", "forward passes", "serving"
LESS, MORE = -1, 1
UPDATE, PREFILL, DECODE, BATCH, CALL = "weight update", "prefill", "decode", "batch", "call"

_UPDATES: Final = "training"
"""The part of a run that is weight updates."""

Part = tuple[str, str]
"""A stretch of time or a memory, and a kind of time or a tenant."""
Parts = Callable[[Subject, float], Mapping[Part, float]]
"""Divides the cost of a metric."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a kind of result.

    Attributes:
        name: As results have it.
        label: In words.
        better: `MORE` or `LESS`.
        unit: `s`, `/s`, `share` or `B`.
        parts: Divides its cost.
        per: What a cost of one over it is the time of.
        follows: The metric that it is in proportion to, which has its range.
        of_batch: Whether it says nothing where a batch has another size.
    """

    name: str
    label: str
    better: int
    unit: str
    parts: Parts
    per: str = ""
    follows: str = ""
    of_batch: bool = False

    def cost(self, value: float) -> float:
        """Cost of a value: more is worse."""
        if self.better == LESS:
            return value
        return 1 / value if value else 0.0

    def range_in(self, subject: Subject) -> Range | None:
        """P10 and P90, if they are known."""
        if self.name in subject.ranges:
            return subject.ranges[self.name]
        leader, own = subject.metrics.get(self.follows), subject.metrics.get(self.name)
        if self.follows not in subject.ranges or not leader or own is None:
            return None
        low, high = subject.ranges[self.follows]
        return low / leader * own, high / leader * own


def _of_nothing(_subject: Subject, _cost: float) -> Mapping[Part, float]:
    return {}


def _of_span(name: str, subject: Subject, cost: float) -> Mapping[Part, float]:
    """A cost in proportion to the kinds of time of a stretch."""
    times_ps = subject.spans.get(name, {})
    total_ps = sum(times_ps.values())
    return {(name, kind): cost * time_ps / total_ps for kind, time_ps in times_ps.items()} if total_ps else {}


def _of_run(subject: Subject, _cost: float) -> Mapping[Part, float]:
    """The parts of a run, of which training is divided by kind of time."""
    others = {("run", name): time_s for name, time_s in subject.parts.items() if name != _UPDATES}
    return others | dict(_of_span(UPDATE, subject, subject.parts.get(_UPDATES, 0.0)))


def _of_answer(subject: Subject, cost: float) -> Mapping[Part, float]:
    """The first token, and those that follow."""
    first_s = subject.metrics.get("time_to_first_token_s", 0.0)
    return dict(_of_span(PREFILL, subject, first_s)) | dict(_of_span(DECODE, subject, cost - first_s))


def _of_memory(where: str, subject: Subject, _cost: float) -> Mapping[Part, float]:
    return {(where, tenant): size_bytes for tenant, size_bytes in subject.memory.get(where, {}).items()}


_update, _prefill, _decode = (partial(_of_span, each) for each in (UPDATE, PREFILL, DECODE))
_batch, _call = (partial(_of_span, each) for each in (BATCH, CALL))
_RATE, _RUN = "throughput_samples_per_s", "time_to_train_s"
_DRAWN: Final = "time_to_train_percentiles"
_QUEUED: Final = {
    "queueing": "queueing",
    "time_to_first_token": "time to first token",
    "time_per_output_token": "time per output token",
    "latency": "latency",
}
_MEMORY: Final = (
    Metric(IN_PROCESSOR, "in-processor memory, fullest IPU", LESS, "B", partial(_of_memory, IN_PROCESSOR)),
    Metric(STREAMING, "streaming memory, fullest IPU", LESS, "B", partial(_of_memory, STREAMING)),
)
METRICS: Final[Mapping[str, tuple[Metric, ...]]] = {
    TRAINING: (
        Metric(_RATE, "throughput", MORE, "/s", _update, per="sample"),
        Metric("weight_update_s", "weight update", LESS, "s", _update, of_batch=True),
        Metric(_RUN, "time to train", LESS, "s", _of_run),
        Metric(f"{_DRAWN}.p50", "time to train, P50", LESS, "s", _of_run),
        Metric(f"{_DRAWN}.p10", "time to train, P10", LESS, "s", _of_run, follows=f"{_DRAWN}.p50"),
        Metric(f"{_DRAWN}.p90", "time to train, P90", LESS, "s", _of_run, follows=f"{_DRAWN}.p50"),
        Metric("mfu", "MFU", MORE, "share", _update, follows=_RATE),
        Metric("mfu_of_pod", "MFU of the pod", MORE, "share", _update, follows=_RATE),
        *_MEMORY,
    ),
    GENERATION: (
        Metric("tokens_per_s", "tokens", MORE, "/s", _decode, per="token"),
        Metric("steps_per_s", "steps", MORE, "/s", _decode, per="step", follows="tokens_per_s"),
        Metric("time_per_output_token_s", "time per output token", LESS, "s", _decode),
        Metric("time_to_first_token_s", "time to first token", LESS, "s", _prefill),
        Metric("latency_s", "latency", LESS, "s", _of_answer),
        *_MEMORY,
    ),
    FORWARD: (
        Metric(_RATE, "throughput", MORE, "/s", _call, per="sample"),
        Metric("batches_per_s", "batches", MORE, "/s", _call, per="batch", follows=_RATE),
        Metric("latency_s", "latency", LESS, "s", _batch),
        Metric("utilization", "utilisation", MORE, "share", _call, follows=_RATE),
        Metric("utilization_of_pod", "utilisation of the pod", MORE, "share", _call, follows=_RATE),
        *_MEMORY,
    ),
    SERVING: (
        *(
            Metric(f"{name}.{share}_s", f"{label}, {share.upper()}", LESS, "s", _of_nothing)
            for name, label in _QUEUED.items()
            for share in ("p50", "p95", "p99")
        ),
        Metric("throughput_requests_per_s", "requests", MORE, "/s", _of_nothing),
        Metric("throughput_tokens_per_s", "tokens", MORE, "/s", _of_nothing),
        Metric("saturation.rate_per_s", "saturation", MORE, "/s", _of_nothing),
    ),
}
"""Metrics by activity, the headline first."""
