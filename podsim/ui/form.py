"""The left column: what can be moved in a scenario, from where to where, and where anything was ever compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args, get_origin

from podsim.result.evidence import ipu_count, residuals
from podsim.scenario import LoadedScenario
from podsim.scenario.activity import Activity
from podsim.scenario.assumptions import hardware_keys, numbers, scenario_keys
from podsim.scenario.catalogue import shipped_list
from podsim.scenario.library import shipped_files
from podsim.study.sweep.axes import NUMBER_AND_UNIT
from podsim.ui.question import DIVISION, Question

SYSTEM, CHIP, RATE = "system", "system.machine.ipu", "serving.rate"
_LINKS: Final = "bandwidth_per_direction"
_HARDWARE: Final[Mapping[str, str]] = {
    "system.machine.ipu.clock": "Clock",
    f"system.machine.ipu_link.{_LINKS}": "IPU-Link, per direction",
    f"system.machine.gw_link.{_LINKS}": "GW-Link, per direction",
    "system.machine.ipu.tile.memory": "Memory of a tile",
}
"""Numbers of hardware with a slider."""
REPLICAS: Final = "parallelism.replication_factor"
_COUNTS: Final[Mapping[str, str]] = {
    "system.machine_count": "Machines",
    REPLICAS: "Replicas",
    "parallelism.micro_batch_size": "Micro-batch",
    "parallelism.accumulation_factor": "Micro-batches per replica and update",
    "generation.batch_size": "Batch",
    "forward.batch_size": "Batch",
    "serving.batch_size": "Most sequences of a batch",
}
_PRECISIONS: Final = {
    "precision.weights": "Weights",
    "precision.activations": "Activations",
    "precision.matmul_partials": "Partial sums of products",
}
PRICES: Final = {
    "cost.price_per_ipu_hour": "Rent per IPU-hour, such as 1.5 USD",
    "cost.energy_price": "Energy price, such as 0.12 USD/kWh",
}
"""Prices that can be typed, each with what is written beside it."""
_LESS, _MORE, _COUNTS_MORE, _FEWEST = 0.25, 2.5, 4, 8
"""Ends of sliders: of quantities as shares of the value, of counts as a multiple and at least so many."""
_STEPS: Final = 100
_REQUESTS_PER_S: Final = 4.0
_MOST_REQUESTS: Final = 10


@dataclass(frozen=True, slots=True)
class Slider:
    """A number that can be moved, and between which values runs were compared with predictions, where that is known."""

    key: str
    label: str
    unit: str
    value: float
    low: float
    high: float
    step: float
    covered: tuple[float, float] | None = None

    def text(self, value: float) -> str:
        """A value as a scenario has it."""
        return f"{value:.12g} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class Choice:
    """A name that can be chosen."""

    key: str
    label: str
    value: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """What can be asked of a scenario."""

    variants: tuple[str, ...]
    can_serve: bool
    can_divide: bool
    choices: tuple[Choice, ...]
    sliders: tuple[Slider, ...]


def form_of(question: Question, loaded: LoadedScenario) -> Form:
    """What can be asked."""
    spec: Any = loaded.spec
    can_serve = spec.activity is Activity.GENERATION
    hardware = dict(hardware_keys(spec))
    own = {key: value.text for key, value in scenario_keys(loaded.resolved).items()}
    return Form(
        variants=tuple(loaded.written.variants),
        can_serve=can_serve,
        can_divide=spec.activity is not Activity.FORWARD and getattr(type(spec.parallelism), "auto", None) is not None,
        choices=tuple(_choices(spec, hardware, own)),
        sliders=tuple(
            each
            for each in _sliders(spec, hardware, own, serves=can_serve and question.serves)
            if not (question.replanned and each.key.startswith(DIVISION))
        ),
    )


def _choices(spec: Any, hardware: Mapping[str, str], own: Mapping[str, str]) -> Iterator[Choice]:
    pods = tuple(each.name for each in shipped_list().systems)
    yield Choice(SYSTEM, "Pod", hardware["system.name"], pods)
    chips = tuple(sorted(path.stem for path in shipped_files("ipu")))
    yield Choice(CHIP, "Chip", hardware[f"{CHIP}.name"], chips)
    for key, label in _PRECISIONS.items():
        if key in own:
            options = _texts_of(type(spec.precision).model_fields[key.rpartition(".")[2]].annotation)
            if len(options) > 1:
                yield Choice(key, label, own[key], options)


def _texts_of(annotation: Any) -> tuple[str, ...]:
    """The texts that a field can have, wherever they stand in its type."""
    if get_origin(annotation) is Literal:
        return tuple(each for each in get_args(annotation) if isinstance(each, str))
    return tuple(dict.fromkeys(text for each in get_args(annotation) for text in _texts_of(each)))


def _sliders(spec: Any, hardware: Mapping[str, str], own: Mapping[str, str], *, serves: bool) -> Iterator[Slider]:
    known, in_units = residuals(), {key: float(number) for key, number, _ in numbers(spec)}
    for key, label in _HARDWARE.items():
        match = NUMBER_AND_UNIT.fullmatch(hardware.get(key, ""))
        if match is not None:
            value = float(match[1])
            span = None
            if key in known.machine:
                _, least, _, most = known.machine[key]
                span = value * least / in_units[key], value * most / in_units[key]
            low, high = (min(_LESS * value, *(span or [value])), max(_MORE * value, *(span or [value])))
            yield Slider(key, label, match[2] or "", value, *_round_ends(low, high), span)
    for key, label in _COUNTS.items():
        text = hardware.get(key) or own.get(key, "")
        if text.isdigit():
            number = int(text)
            span = _replicas(spec, number) if key == REPLICAS else None
            yield Slider(key, label, "", number, 1, max(_COUNTS_MORE * number, _FEWEST), 1, span)
    if serves:
        rate_per_s = float(own.get(RATE) or _REQUESTS_PER_S)
        step = _step(_MOST_REQUESTS * rate_per_s)
        yield Slider(RATE, "Requests per second", "", rate_per_s, step, _MOST_REQUESTS * rate_per_s, step)


def _replicas(spec: Any, number: int) -> tuple[float, float] | None:
    """Between how many replicas runs of this activity and kind of model were compared."""
    each, activity = ipu_count(spec) / number, spec.activity.value
    alike = {"activity": activity, "family": spec.model.kind}
    known = [run.sizes["ipu_count"] for run in residuals().runs if {**run.names, **alike} == run.names]
    return (max(1, math.ceil(min(known) / each)), max(1, math.floor(max(known) / each))) if known else None


def _round_ends(low: float, high: float) -> tuple[float, float, float]:
    """Ends and step of a slider."""
    step = _step(high - low)
    return max(step, math.floor(low / step) * step), math.ceil(high / step) * step, step


def _step(length: float) -> float:
    """At most a hundredth of a length, as a power of ten."""
    return 10.0 ** math.floor(math.log10(length / _STEPS))
