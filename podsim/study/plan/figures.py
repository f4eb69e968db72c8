"""The figures that a goal can count or limit: those of a result, and a few that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from podsim.metrics import (
    COST,
    ENERGY,
    FULLEST,
    HOURLY,
    IPU,
    IPUS,
    JOULES,
    LOAD,
    MADE,
    POWER,
    RACK_POWER,
    REQUESTS,
    SERVING,
    SHORT,
    SPENT,
    THROUGHPUT,
    TIME,
    TOKENS,
    WATTS,
    find_metric,
    metric_of,
    metrics_of,
)
from podsim.scenario.scenario import Scenario
from podsim.study.store import figures_of

if TYPE_CHECKING:
    from podsim.result.serving import ServingResult
    from podsim.runs import Result

TOTALS: Final = (TIME, ENERGY, POWER, RACK_POWER, COST, IPUS)
"""Figures that several jobs have together."""
SERVED: Final = (*(each.key for each in metrics_of(SERVING) if each.of == (SERVING,)), LOAD)
"""Figures of requests that are served: one of them in a goal asks for serving."""


def figure_named(name: str) -> str:
    """The key of a figure by a short name, or by its path in a JSON result.

    >>> figure_named("cost"), figure_named("mfu"), figure_named("latency.p99_s")
    ('cost_per_run', 'mfu', 'latency_p99_s')
    """
    key = SHORT.get(name.strip(), name.strip())
    known = find_metric(key)
    return key if known is None else known.key


def figures(result: Result) -> dict[str, Any]:
    """The figures of a result."""
    return dict(figures_of(result)) | _made(result)


def served_figures(result: ServingResult) -> dict[str, Any]:
    """The figures of requests that are served."""
    return {**dict(result.figures()), "warnings": "; ".join(result.warnings) or None} | _made(result)


def _made(result: Result | ServingResult) -> dict[str, Any]:
    """The power of a rack, and what is done for a watt and for a unit of the currency, as far as they are known."""
    return {metric.key: value for metric in MADE if (value := metric.get(result)) is not None}


def names_of(spec: Scenario, *, served: bool) -> tuple[str, ...]:
    """Figures that results can have, known before any runs; those that end in a dot stand for all that begin so."""
    kind = SERVING if served else spec.activity.value
    metrics = (*metrics_of(kind), *(each for each in (*SPENT, *MADE) if kind in each.of))
    own = (f"{each.key}." if each.is_family else each.key for each in metrics)
    return (*own, IPUS, *(() if served else (FULLEST,)))


def second_of(objective: str, known: Mapping[str, Any]) -> str | None:
    """The figure that an objective is weighed against: time, or cost or energy, as far as they are known.

    >>> second_of("time_to_train_s", {"energy_per_run_j": 1.0}), second_of("cost_per_run", {"time_to_train_s": 1.0})
    ('energy_per_run_j', 'time_to_train_s')
    """
    metric = metric_of(objective)
    is_spent = metric.is_cost or metric.unit in (JOULES, WATTS, IPU) or metric in MADE
    order = (TIME, TOKENS, THROUGHPUT, REQUESTS) if is_spent else (COST, ENERGY, HOURLY, POWER)
    return next((name for name in order if name != objective and known.get(name) is not None), None)
