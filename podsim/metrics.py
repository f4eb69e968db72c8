"""Table of all metrics: key, label, unit, direction, and path in a result.

Results, sweeps, checks, plans, comparisons, charts and pages use this table. Keys in the JSON of results that differ,
such as `latency.p99_s` for `latency_p99_s`, lead to the same metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Final

LESS, NEITHER, MORE = -1, 0, 1
SECONDS, BYTES, WATTS, JOULES, PER_SECOND, SHARE = "s", "B", "W", "J", "1/s", "1"
MONEY, PER_MONEY, PER_JOULE, IPU = "currency", "1/currency", "1/J", "IPU"
TRAINING, GENERATION, FORWARD, SERVING = "training", "generation", "forward", "serving"
_EACH: Final = (TRAINING, GENERATION, FORWARD, SERVING)
_SECONDS_PER_HOUR: Final = 3600

THROUGHPUT, BATCHES = "throughput_samples_per_s", "batches_per_s"
TOKENS, STEPS = "tokens_per_s", "steps_per_s"
UPDATE, TIME, PERCENTILES = "weight_update_s", "time_to_train_s", "time_to_train_percentiles"
CONDITION, IF_IT_CONVERGES = "time_to_train_condition", "if it converges"
"""Key of the condition of a time to train, and the text behind a time with this condition."""
_PERCENTILE: Final = f"{PERCENTILES}.p"
FIRST_TOKEN, OUTPUT_TOKEN, LATENCY = "time_to_first_token_s", "time_per_output_token_s", "latency_s"
REQUESTS, SERVED_TOKENS = "throughput_requests_per_s", "throughput_tokens_per_s"
SATURATION, LOAD = "saturation_per_s", "load"
_RATE: Final = "saturation.rate_per_s"
COST, HOURLY, ENERGY = "cost_per_run", "cost_per_hour", "energy_per_run_j"
POWER, RACK_POWER = "mean_power_w", "rack_power_w"
IPUS: Final = "ipus"
"""Number of IPUs of the pod or partition; a metric of plan options, not of results."""
FULLEST, IN_PROCESSOR, STREAMING = "memory.fullest_ipu_bytes", "in_processor_memory", "streaming_memory"
HEADLINES: Final = (THROUGHPUT, TOKENS)
"""Default metrics for comparisons; the first that a result has is used."""
LOW, HIGH = "_low", "_high"
"""Suffixes of the keys for the ends of a range."""


def value_at_path(path: str, value: Any) -> Any:
    """Return the value at a dotted path of attributes or items; None if one is missing."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
    return value


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure that results, plans, checks and comparisons tell."""

    key: str
    label: str  # text without unit
    unit: str  # `1` for shares, empty for plain numbers of a study
    better: int  # NEITHER if undefined; goals then prefer less
    of: tuple[str, ...] = ()  # activities whose results have it
    counted: str = ""  # counted noun of a rate
    follows: str = ""  # metric that it, or its inverse, is proportional to, and whose range it shares
    short: tuple[str, ...] = ()  # short names in goals
    written: str = ""  # key in the JSON of a result, if different
    path: str = ""  # dotted path of attributes or items; its key by default
    getter: Callable[[Any], Any] | None = None  # function instead of a path
    is_family: bool = False  # True for a mapping whose items are metrics: `breakdown.matmul`

    def get(self, result: Any) -> Any:
        """Return the value in a result; None if the result does not have it."""
        if self.getter:
            return self.getter(result)
        return value_at_path(self.path or self.key, result)

    @property
    def name(self) -> str:
        """Dotted path in a result that was written as JSON."""
        return self.written or self.key

    @property
    def head(self) -> str:
        """The figure as the head of a narrow column: `samples/s` for a rate, otherwise its label."""
        return f"{self.counted}/s" if self.counted and self.unit == PER_SECOND else self.label

    @property
    def phrase(self) -> str:
        """Text for the metric in a sentence: its label, or the heading of a rate."""
        return self.head if self.label == self.counted else self.label

    @property
    def titled(self) -> str:
        """The figure with its unit, for axes and heads of columns.

        >>> METRICS[UPDATE].titled, METRICS["mfu"].titled, METRICS[THROUGHPUT].titled, METRICS[TOKENS].titled
        ('weight update [s]', 'MFU', 'throughput [samples/s]', 'tokens/s')
        """
        unit = self.head if self.counted and self.unit == PER_SECOND else self.unit
        return self.phrase if self.label == self.counted or unit in ("", SHARE, IPU) else f"{self.label} [{unit}]"

    @property
    def more_is_better(self) -> bool:
        """True if a larger value is better."""
        return self.better == MORE

    @property
    def is_cost(self) -> bool:
        """True if the metric needs a price."""
        return self.unit in (MONEY, PER_MONEY)

    def rank(self, value: float) -> float:
        """Return a sort key; a better value has a smaller key."""
        return -value if self.more_is_better else value

    def slowed(self, value: float, factor: float) -> float:
        """Return the value after a slowdown by a factor: a time grows, a rate or a share of a peak falls.

        >>> METRICS[TOKENS].slowed(8.0, 2.0), METRICS[UPDATE].slowed(8.0, 2.0)
        (4.0, 16.0)
        """
        return value / factor if self.more_is_better else value * factor


def _fullest(where: str, result: Any) -> int | None:
    """Return the memory in use on the fullest IPU. [B]"""
    fullest = result.memory.fullest_ipu(where)
    return None if fullest is None else int(result.memory.used_bytes(fullest, where))


def _ratio(above: tuple[str, ...], below: str, factor: float, result: Any) -> float | None:
    """Return a metric over another; of the numerators, the first available counts."""
    rate = next((found for key in above if (found := METRICS[key].get(result))), None)
    spent = METRICS[below].get(result)
    return factor * rate / spent if rate and spent else None


def _rack_power_w(result: Any) -> float | None:
    """Return the mean power of a full rack of machines. [W]"""
    power_w, meter = METRICS[POWER].get(result), result.meter
    if not power_w or meter is None:
        return None
    racked = min(meter.machine_count, int(meter.system.link_domain_machine_count))
    return float(power_w * racked / meter.machine_count)


_RATES: Final = {"samples": (THROUGHPUT,), "tokens": (TOKENS, SERVED_TOKENS), "requests": (REQUESTS,)}
"""Rate metrics by counted noun."""
_DOERS: Final = {"samples": (TRAINING, FORWARD), "tokens": (GENERATION, SERVING), "requests": (SERVING,)}
WAITS: Final = {
    name: name.replace("_", " ") for name in ("queueing", "time_to_first_token", "time_per_output_token", "latency")
}
"""Label of each latency of requests."""
SERVED_SHARES: Final = {"p50": "P50", "p95": "P95", "p99": "P99", "mean": "mean"}
"""Label of each statistic of a latency."""

RUN_METRICS: Final = (
    Metric(FIRST_TOKEN, "time to first token", SECONDS, LESS, (GENERATION,)),
    Metric(OUTPUT_TOKEN, "time per output token", SECONDS, LESS, (GENERATION,)),
    Metric(TOKENS, "tokens", PER_SECOND, MORE, (GENERATION,), counted="tokens"),
    Metric(STEPS, "steps", PER_SECOND, MORE, (GENERATION,), counted="steps", follows=TOKENS),
    *(
        Metric(
            *(f"{wait}_{share}_s", f"{label}, {share_label}", SECONDS, LESS, (SERVING,)),
            short=("p99_latency",) if (wait, share) == ("latency", "p99") else (),
            written=f"{wait}.{share}_s",
            path=f"outcome.{wait}.{share}_s",
        )
        for (wait, label), (share, share_label) in product(WAITS.items(), SERVED_SHARES.items())
    ),
    Metric(REQUESTS, "requests", PER_SECOND, MORE, (SERVING,), counted="requests", path=f"outcome.{REQUESTS}"),
    Metric(SERVED_TOKENS, "tokens", PER_SECOND, MORE, (SERVING,), counted="tokens", path=f"outcome.{SERVED_TOKENS}"),
    Metric(LATENCY, "latency", SECONDS, LESS, (GENERATION, FORWARD)),
    Metric(THROUGHPUT, "throughput", PER_SECOND, MORE, (TRAINING, FORWARD), "samples", short=("throughput",)),
    Metric(BATCHES, "batches", PER_SECOND, MORE, (FORWARD,), counted="batches", follows=THROUGHPUT),
    Metric("utilization", "utilisation", SHARE, MORE, (FORWARD, SERVING), follows=THROUGHPUT),
    Metric("utilization_of_pod", "utilisation of the pod", SHARE, MORE, (FORWARD,), follows=THROUGHPUT),
    Metric(LOAD, "load", SHARE, NEITHER, (SERVING,)),
    Metric(SATURATION, "saturation", PER_SECOND, MORE, (SERVING,), written=_RATE, path=_RATE),
    Metric(UPDATE, "weight update", SECONDS, LESS, (TRAINING,)),
    Metric(TIME, "time to train", SECONDS, LESS, (TRAINING,), short=("time", "deadline")),
    Metric(PERCENTILES, "time to train", SECONDS, LESS, (TRAINING,), is_family=True),
    Metric("mfu", "MFU", SHARE, MORE, (TRAINING,), follows=THROUGHPUT),
    Metric("mfu_of_pod", "MFU of the pod", SHARE, MORE, (TRAINING,), follows=THROUGHPUT),
    Metric("breakdown", "breakdown", SECONDS, LESS, (TRAINING, GENERATION, FORWARD), is_family=True),
    Metric("run_breakdown", "run", SECONDS, LESS, (TRAINING,), is_family=True),
)
"""Metrics of runs, in the order of tables."""
SPENT: Final = (
    # Less power is no gain if IPUs wait longer; compare the energy per unit of work.
    Metric(POWER, "mean power", WATTS, NEITHER, _EACH, short=("power",)),
    Metric("energy_per_sample_j", "energy per sample", JOULES, LESS, (TRAINING, FORWARD), follows=THROUGHPUT),
    Metric("energy_per_token_j", "energy per token", JOULES, LESS, (GENERATION, SERVING), follows=TOKENS),
    Metric("energy_per_request_j", "energy per request", JOULES, LESS, (SERVING,), follows=REQUESTS),
    Metric(ENERGY, "energy per run", JOULES, LESS, (TRAINING,), follows=TIME, short=("energy",)),
    Metric(HOURLY, "cost per hour", MONEY, LESS, _EACH),
    Metric("cost_per_million_samples", "cost per million samples", MONEY, LESS, (TRAINING, FORWARD), "", THROUGHPUT),
    Metric("cost_per_million_tokens", "cost per million tokens", MONEY, LESS, (GENERATION, SERVING), "", TOKENS),
    Metric(COST, "cost per run", MONEY, LESS, (TRAINING,), follows=TIME, short=("cost", "budget")),
)
"""Metrics of power, energy and cost; a result may lack some."""
MADE: Final = (
    Metric(RACK_POWER, "rack power", WATTS, NEITHER, _EACH, short=("rack_power",), getter=_rack_power_w),
    *(
        Metric(key, label, unit, MORE, _DOERS[what], what, rates[0], getter=partial(_ratio, rates, below, factor))
        for what, rates in _RATES.items()
        for key, label, unit, below, factor in (
            (f"{what}_per_s_per_w", f"{what}/s per W", PER_JOULE, POWER, 1),
            (f"{what}_per_currency", f"{what} per currency", PER_MONEY, HOURLY, _SECONDS_PER_HOUR),
        )
    ),
)
"""Metrics that plans derive from a result; a result may lack some."""
_OTHERS: Final = (
    *(
        Metric(f"{_PERCENTILE}{share}", f"time to train, P{share}", SECONDS, LESS, follows=leader)
        for share, leader in ((10, f"{_PERCENTILE}50"), (50, ""), (90, f"{_PERCENTILE}50"))
    ),
    Metric(FULLEST, "memory of the fullest IPU", BYTES, LESS, getter=partial(_fullest, IN_PROCESSOR)),
    Metric(IN_PROCESSOR, "in-processor memory, fullest IPU", BYTES, LESS, getter=partial(_fullest, IN_PROCESSOR)),
    Metric(STREAMING, "streaming memory, fullest IPU", BYTES, LESS, getter=partial(_fullest, STREAMING)),
    Metric(IPUS, "IPUs", IPU, LESS),
)
METRICS: Final[Mapping[str, Metric]] = {each.key: each for each in (*RUN_METRICS, *SPENT, *MADE, *_OTHERS)}
"""All metrics by their keys."""
SHORT: Final[Mapping[str, str]] = {name: each.key for each in METRICS.values() for name in each.short}
"""Keys by short names in goals; columns of studies have no short names."""
_WRITTEN: Final = {each.written: each for each in METRICS.values() if each.written}


def find_metric(name: str) -> Metric | None:
    """Return the metric of a key or of its path in a JSON result; None for other names.

    >>> [find_metric(name).key for name in ("latency.p99_s", "latency_p99_s")]
    ['latency_p99_s', 'latency_p99_s']
    >>> find_metric("weight_update_s_low").titled
    'weight update, low end [s]'
    >>> find_metric("breakdown.matmul").titled
    'breakdown: matmul [s]'
    """
    if known := METRICS.get(name) or _WRITTEN.get(name):
        return known
    for end in (LOW, HIGH):
        if name.endswith(end) and (figure := find_metric(name.removesuffix(end))):
            return replace(figure, key=name, label=f"{figure.label}, {end[1:]} end", path="", getter=None)
    family, _, part = name.partition(".")
    known = METRICS.get(family)
    if known is None or not known.is_family or not part:
        return None
    label = f"{known.label}: {part.replace('_', ' ')}"
    return replace(known, key=name, label=label, is_family=False)


def metric_of(name: str) -> Metric:
    """Return the metric of a name; an unknown column of a study is a plain number, smaller first."""
    return METRICS.get(name) or find_metric(name) or Metric(name, name.replace("_", " "), "", NEITHER)


def metrics_of(activity: str) -> tuple[Metric, ...]:
    """Return the metrics of an activity, or of `serving`, in the order of tables."""
    return tuple(each for each in RUN_METRICS if activity in each.of)
