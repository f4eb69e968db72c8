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

from podsim import metrics
from podsim.metrics import IN_PROCESSOR, METRICS, STREAMING, Metric
from podsim.study.compare.subject import Range, Subject

TRAINING, GENERATION, FORWARD, SERVING = "training", "text generation", "forward passes", "serving"
UPDATE, PREFILL, DECODE, BATCH, CALL = "weight update", "prefill", "decode", "batch", "call"

_UPDATES: Final = "training"
"""The part of a run that is weight updates."""

Part = tuple[str, str]
"""A stretch of time or a memory, and a kind of time or a tenant."""
Parts = Callable[[Subject, float], Mapping[Part, float]]
"""Divides the cost of a metric."""


@dataclass(frozen=True, slots=True)
class ComparedMetric:
    """A metric of a kind of result, as it is compared."""

    figure: Metric
    parts: Parts
    per: str = ""
    """What a cost of one over it is the time of."""
    of_batch: bool = False
    """Whether it says nothing where a batch has another size."""

    @property
    def name(self) -> str:
        """As JSON results write it."""
        return self.figure.json_key

    def cost(self, value: float) -> float:
        """Cost of a value: more is worse."""
        if not self.figure.more_is_better:
            return value
        return 1 / value if value else 0.0

    def range_in(self, subject: Subject) -> Range | None:
        """P10 and P90 of what was drawn, if that is known."""
        name, followed = self.figure.key, self.figure.follows
        if name in subject.ranges:
            return subject.ranges[name]
        leader, own = subject.metrics.get(followed), subject.metrics.get(name)
        if followed not in subject.ranges or not leader or own is None:
            return None
        low, high = subject.ranges[followed]
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
    first_s = subject.metrics.get(metrics.FIRST_TOKEN, 0.0)
    return dict(_of_span(PREFILL, subject, first_s)) | dict(_of_span(DECODE, subject, cost - first_s))


def _of_memory(where: str, subject: Subject, _cost: float) -> Mapping[Part, float]:
    return {(where, tenant): size_bytes for tenant, size_bytes in subject.memory.get(where, {}).items()}


_update, _prefill, _decode, _batch, _call = (partial(_of_span, each) for each in (UPDATE, PREFILL, DECODE, BATCH, CALL))
_MEMORY: Final = tuple(ComparedMetric(METRICS[each], partial(_of_memory, each)) for each in (IN_PROCESSOR, STREAMING))
COMPARED: Final[Mapping[str, tuple[ComparedMetric, ...]]] = {
    TRAINING: (
        ComparedMetric(METRICS[metrics.THROUGHPUT], _update, per="sample"),
        ComparedMetric(METRICS[metrics.UPDATE], _update, of_batch=True),
        ComparedMetric(METRICS[metrics.TIME], _of_run),
        *(ComparedMetric(METRICS[f"{metrics.PERCENTILES}.{share}"], _of_run) for share in ("p50", "p10", "p90")),
        *(ComparedMetric(METRICS[name], _update) for name in ("mfu", "mfu_of_pod")),
        *_MEMORY,
    ),
    GENERATION: (
        ComparedMetric(METRICS[metrics.TOKENS], _decode, per="token"),
        ComparedMetric(METRICS[metrics.STEPS], _decode, per="step"),
        ComparedMetric(METRICS[metrics.OUTPUT_TOKEN], _decode),
        ComparedMetric(METRICS[metrics.FIRST_TOKEN], _prefill),
        ComparedMetric(METRICS[metrics.LATENCY], _of_answer),
        *_MEMORY,
    ),
    FORWARD: (
        ComparedMetric(METRICS[metrics.THROUGHPUT], _call, per="sample"),
        ComparedMetric(METRICS[metrics.BATCHES], _call, per="batch"),
        ComparedMetric(METRICS[metrics.LATENCY], _batch),
        *(ComparedMetric(METRICS[name], _call) for name in ("utilization", "utilization_of_pod")),
        *_MEMORY,
    ),
    SERVING: tuple(
        ComparedMetric(METRICS[name], _of_nothing)
        for name in (
            *(f"{wait}_{share}_s" for wait in metrics.WAITS for share in ("p50", "p95", "p99")),
            *(metrics.REQUESTS, metrics.SERVED_TOKENS, metrics.SATURATION),
        )
    ),
}
"""Metrics by activity, the headline first."""
