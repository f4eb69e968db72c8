"""The figures that a goal can count or limit, its limits, and by how much figures miss them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from podsim.errors import BadValueError, PodsimError
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
    METRICS,
    MONEY,
    POWER,
    RACK_POWER,
    REQUESTS,
    SERVING,
    SHARE,
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
from podsim.scenario.expectations import Expectation, expectation
from podsim.scenario.scenario import Scenario
from podsim.study.sweep.rows import figures_of
from podsim.units import parse_price

if TYPE_CHECKING:
    from podsim.result.serving import ServingResult
    from podsim.runs import Result

TOTALS: Final = (TIME, ENERGY, POWER, RACK_POWER, COST, IPUS)
"""Figures that several jobs have together."""
SERVED: Final = (*(each.key for each in metrics_of(SERVING) if each.of == (SERVING,)), LOAD)
"""Figures of requests that are served: one of them in a goal asks for serving."""
_SIGNED_PRICE: Final = re.compile(r"\s*(<=|>=|<|>)\s*(.+?[A-Z]{3})\s*")
_SIGN: Final = re.compile(r"\s*[<>]")
_NEAR_NOTHING: Final = 0.0005
_EXAMPLE: Final = "500 USD"


def figure_named(name: str) -> str:
    """The key of a figure by a short name, or by its path in a JSON result.

    >>> figure_named("cost"), figure_named("mfu"), figure_named("latency.p99_s")
    ('cost_per_run', 'mfu', 'latency_p99_s')
    """
    key = SHORT.get(name.strip(), name.strip())
    known = find_metric(key)
    return key if known is None else known.key


def figures(result: Result | ServingResult) -> dict[str, Any]:
    """The figures of a result, what is done for a watt and for a unit of the currency among them, and its warnings."""
    own: Any = figures_of(result) if hasattr(result, "memory") else result.figures()  # type: ignore[arg-type]
    made = {metric.key: value for metric in MADE if (value := metric.get(result)) is not None}
    return {**dict(own), "warnings": "; ".join(result.warnings) or None} | made


def names_of(spec: Scenario, *, served: bool) -> tuple[str, ...]:
    """Figures that results can have, known before any runs; those that end in a dot stand for all that begin so."""
    kind = SERVING if served else spec.activity.value
    metrics = (*metrics_of(kind), *(metric for metric in (*SPENT, *MADE) if kind in metric.of))
    own = (f"{metric.key}." if metric.is_family else metric.key for metric in metrics)
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


@dataclass(frozen=True, slots=True)
class Limit(Expectation):
    """Bounds of a figure; those of a cost may have a currency."""

    currency: str = ""


def limit(metric: str, text: float | str) -> Limit:
    """The bounds of a figure, by its key or a short name, that a text stands for; `BadValueError` if it is none.

    >>> limit("deadline", "<= 12 h").high, limit("cost", "< 500 USD").currency
    (43200.0, 'USD')
    """
    key, written, currency = figure_named(metric), str(text), ""
    bounds: float | str = text
    if metric_of(key).unit == MONEY and (priced := _SIGNED_PRICE.fullmatch(written)):
        amount, currency = parse_price(priced[2], {"": 1.0}, _EXAMPLE)
        written, bounds = written.strip(), f"{priced[1]} {amount!r}"
    parsed = expectation(key, bounds)
    given = [end for end in (parsed.low, parsed.high) if not math.isinf(end)]
    if len(given) != 1 + (not _SIGN.match(written)) or any(map(math.isnan, given)):
        raise BadValueError(f"`{written.strip()}` is no finite bound", "give a finite number, for example `< 30 min`")
    return Limit(key, written, parsed.low, parsed.high, parsed.open_ended, currency)


def at_most(metric: str, most: str) -> Limit:
    """A bound that is given without its sign, as `--deadline 12h`; `BadValueError` of a budget without a currency."""
    if metric_of(figure_named(metric)).unit == MONEY:
        parse_price(most, {"": 1.0}, _EXAMPLE)
    return limit(metric, f"<= {most}")


def check_limits(limits: Iterable[Expectation]) -> None:
    """Refuse limits that no figure can meet together: they exclude each other, or are in several currencies."""
    given = list(limits)
    if len(several := sorted(currencies_of(given))) > 1:
        what = f"limits are in several currencies: {', '.join(several)}"
        raise PodsimError(what, do="give all in that of the prices")
    for metric in dict.fromkeys(bound.metric for bound in given):
        same = [bound for bound in given if bound.metric == metric]
        for bound in same:
            if bound.high <= 0 and metric in METRICS and METRICS[metric].unit != SHARE:
                raise PodsimError(f"nothing can have {metric} {bound.text}", do="give a bound above 0")
        low, high = max(bound.low for bound in same), min(bound.high for bound in same)
        if low > high or (low == high and any(bound.open_ended for bound in same)):
            texts = " and ".join(bound.text for bound in same)
            raise PodsimError(f"limits contradict each other: {metric} {texts}", do="drop or loosen one of them")


def currencies_of(limits: Iterable[Expectation]) -> set[str]:
    """Currencies in which bounds of costs are given."""
    return {bound.currency for bound in limits if isinstance(bound, Limit) and bound.currency}


def missed(limits: Iterable[tuple[str, Expectation]], known: Mapping[str, Any]) -> Iterator[tuple[float, str]]:
    """How far each limit of a figure is missed, as a share of its bound, and in words."""
    for name, bound in limits:
        value = known.get(name)
        whose, between, metric = name.rpartition(": ")
        if not isinstance(value, (int, float)):
            yield 1.0, f"{whose}{between}no {metric}"
        elif not bound.holds(value):
            end = bound.high if value >= bound.high else bound.low
            off = value / end - 1 if end else 0.0
            words = f": {off:+.1%}" if abs(off) >= _NEAR_NOTHING else f": {off:+.1e}"
            words = "" if not end else words if off else ": it is the bound itself"
            yield abs(off) + _NEAR_NOTHING if end else 1.0, f"{name} {bound.text}{words}"
