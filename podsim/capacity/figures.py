"""The figures that a goal can count or limit: those of a result, and a few that are made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from podsim.report import base
from podsim.report.power import Meter
from podsim.report.serving import SHARES
from podsim.specs.activity import Activity
from podsim.specs.scenario import Scenario
from podsim.sweeps.rows import figures_of

if TYPE_CHECKING:
    from podsim.activity import Result
    from podsim.report.serving import ServingResult

TIME, COST, ENERGY = "time_to_train_s", "cost_per_run", "energy_per_run_j"
POWER, RACK_POWER = "mean_power_w", "rack_power_w"
IPUS: Final = "ipus"
"""IPUs of the pod or partition; a figure of options, which no result has."""
TOTALS: Final = (TIME, ENERGY, POWER, RACK_POWER, COST, IPUS)
"""Figures that several jobs have together."""
RATES: Final = {
    "samples": ("throughput_samples_per_s",),
    "tokens": ("tokens_per_s", "throughput_tokens_per_s"),
    "requests": ("throughput_requests_per_s",),
}
"""What is done in a second, and the figures that say how much of it."""
SHORT: Final = {
    "time": TIME,
    "deadline": TIME,
    "cost": COST,
    "budget": COST,
    "energy": ENERGY,
    "power": POWER,
    "rack_power": RACK_POWER,
    "throughput": "throughput_samples_per_s",
    "p99_latency": "latency_p99_s",
}
"""Short names of figures."""
_TIMES: Final = ("queueing", "time_to_first_token", "time_per_output_token", "latency")
SERVED: Final = (
    *(f"{name}_{share}_s" for name in _TIMES for share in SHARES),
    *("throughput_requests_per_s", "throughput_tokens_per_s", "load", "saturation_per_s"),
)
"""Figures of requests that are served: one of them in a goal asks for serving."""
_COUNTED: Final[Mapping[Activity, tuple[str, ...]]] = {
    Activity.TRAINING: ("sample", "run"),
    Activity.GENERATION: ("token",),
    Activity.FORWARD: ("sample",),
}
"""What energy and cost are told for."""
_SECONDS_PER_HOUR: Final = 3600
_PER = ("_per_s_per_w", "_per_currency")


def figure_named(name: str) -> str:
    """The key of a figure by a short name.

    >>> figure_named("cost"), figure_named("mfu")
    ('cost_per_run', 'mfu')
    """
    return SHORT.get(name.strip(), name.strip())


def more_is_better(figure: str) -> bool:
    """Whether a figure is better if there is more of it.

    >>> more_is_better("samples_per_s_per_w"), more_is_better("cost_per_run")
    (True, False)
    """
    return figure.endswith(_PER) or base.more_is_better(figure)


def is_cost(figure: str) -> bool:
    """Whether a figure is one of money, which needs a price."""
    return figure.startswith("cost_") or figure.endswith("_per_currency")


def better_first(figure: str, value: float) -> float:
    """A key for sorting that puts the better first."""
    return -value if more_is_better(figure) else value


def figures(result: Result) -> dict[str, Any]:
    """The figures of a result."""
    return _with_made(dict(figures_of(result)), result.meter)


def served_figures(result: ServingResult) -> dict[str, Any]:
    """The figures of requests that are served."""
    known = {**result.service_figures(), **dict(result.figures()), "warnings": "; ".join(result.warnings) or None}
    return _with_made(known, result.meter)


def names_of(spec: Scenario, *, served: bool) -> tuple[str, ...]:
    """Figures that results of a scenario can have, known before anything is simulated.

    Those that end in a dot stand for all that begin so.

    Args:
        spec: The scenario.
        served: Whether requests are served.
    """
    own = (*SERVED, "utilization") if served else tuple(_own(spec.activity))
    counted = ("token", "request") if served else _COUNTED[spec.activity]
    others = {"sample", "token", "request", "run"} - set(counted)
    spent = (name for name in base.SPENT if not any(each in name for each in others))
    rates = [what for what, names in RATES.items() if any(name in own for name in names)]
    made = (f"{what}{per}" for what in rates for per in _PER)
    return (*own, *spent, *made, RACK_POWER, IPUS, *(() if served else ("memory.fullest_ipu_bytes",)))


def _own(activity: Activity) -> Iterator[str]:
    """The figures of a result by its activity."""
    from podsim.report.forward import ForwardResult
    from podsim.report.generation import GenerationResult
    from podsim.report.result import RunResult

    kinds: dict[Activity, type[base.Result]] = {
        Activity.TRAINING: RunResult,
        Activity.GENERATION: GenerationResult,
        Activity.FORWARD: ForwardResult,
    }
    for name in kinds[activity].FIGURES:
        is_mapping = name.endswith(("breakdown", "percentiles"))
        yield f"{name}." if is_mapping else name


def _with_made(known: dict[str, Any], meter: Meter | None) -> dict[str, Any]:
    """With the power of a rack, and with what is done for a watt and for a unit of the currency."""
    power_w, hourly = known.get(POWER), known.get("cost_per_hour")
    if power_w and meter is not None:
        racked = min(meter.machine_count, int(meter.system.link_domain_machine_count))
        known[RACK_POWER] = power_w * racked / meter.machine_count
    for what, names in RATES.items():
        rate = next((known[name] for name in names if known.get(name)), None)
        if rate and power_w:
            known[f"{what}_per_s_per_w"] = rate / power_w
        if rate and hourly:
            known[f"{what}_per_currency"] = rate * _SECONDS_PER_HOUR / hourly
    return known


def second_of(objective: str, known: Mapping[str, Any]) -> str | None:
    """The figure that an objective is weighed against: time, or cost or energy, as far as they are known.

    >>> second_of("time_to_train_s", {"energy_per_run_j": 1.0}), second_of("cost_per_run", {"time_to_train_s": 1.0})
    ('energy_per_run_j', 'time_to_train_s')
    """
    spent = ("cost_per_run", "energy_per_run_j", "cost_per_hour", "mean_power_w")
    speed = (TIME, "tokens_per_s", "throughput_samples_per_s", "throughput_requests_per_s")
    is_spent = objective.startswith(("cost_", "energy_", "mean_power", "rack_power", IPUS)) or objective.endswith(_PER)
    order = speed if is_spent else spent
    return next((name for name in order if name != objective and known.get(name) is not None), None)
