"""Left column of the page: choices and sliders of a scenario, with their ends and validated ranges."""

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
from podsim.study.points import NUMBER_AND_UNIT
from podsim.ui.question import DIVISION, Question

SYSTEM, CHIP, REPLICAS = "system", "system.machine.ipu", "parallelism.replication_factor"
_HARDWARE: Final[Mapping[str, str]] = {
    "system.machine.ipu.clock": "Clock",
    "system.machine.ipu_link.bandwidth_per_direction": "IPU-Link, per direction",
    "system.machine.gw_link.bandwidth_per_direction": "GW-Link, per direction",
    "system.machine.ipu.tile.memory": "Memory of a tile",
}
"""Hardware numbers with a slider."""
_COUNTS: Final[Mapping[str, str]] = {
    "system.machine_count": "Machines",
    REPLICAS: "Replicas",
    "parallelism.micro_batch_size": "Micro-batch",
    "parallelism.accumulation_factor": "Micro-batches per replica and update",
    "generation.batch_size": "Batch",
    "forward.batch_size": "Batch",
    "serving.batch_size": "Most sequences of a batch",
}
_RATE, _RATE_LABEL = "serving.rate", "Requests per second"
_PRECISIONS: Final = {
    "precision.weights": "Weights",
    "precision.activations": "Activations",
    "precision.matmul_partials": "Partial sums of products",
}
PRICES: Final = {
    "cost.price_per_ipu_hour": "Rent per IPU-hour, such as 1.5 USD",
    "cost.energy_price": "Energy price, such as 0.12 USD/kWh",
}
"""Prices that can be typed, with their labels."""
_LESS, _MORE, _COUNTS_MORE, _FEWEST = 0.25, 2.5, 4, 8
"""Ends of sliders, as factors of a quantity; for counts, the upper factor and the smallest upper end."""
_STEPS: Final = 100
_REQUESTS_PER_S, _MOST_REQUESTS = 4.0, 10


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
        """Return a value as text for a scenario."""
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
    """Choices and sliders that the page offers for a scenario."""

    variants: tuple[str, ...]
    can_serve: bool
    can_divide: bool
    choices: tuple[Choice, ...]
    sliders: tuple[Slider, ...]


def form_of(question: Question, loaded: LoadedScenario) -> Form:
    """Return the form of a question."""
    spec: Any = loaded.spec
    can_serve = spec.activity is Activity.GENERATION
    written = {key: value.text for key, value in scenario_keys(loaded.resolved).items()} | dict(hardware_keys(spec))
    sliders = _sliders(spec, written, serves=can_serve and question.serves)
    return Form(
        variants=tuple(loaded.written.variants),
        can_serve=can_serve,
        can_divide=spec.activity is not Activity.FORWARD and getattr(type(spec.parallelism), "auto", None) is not None,
        choices=tuple(_choices(spec, written)),
        sliders=tuple(slider for slider in sliders if not (question.replanned and slider.key.startswith(DIVISION))),
    )


def _choices(spec: Any, written: Mapping[str, str]) -> Iterator[Choice]:
    pods = tuple(system.name for system in shipped_list().systems)
    yield Choice(SYSTEM, "Pod", written["system.name"], pods)
    chips = tuple(sorted(path.stem for path in shipped_files("ipu")))
    yield Choice(CHIP, "Chip", written[f"{CHIP}.name"], chips)
    for key, label in _PRECISIONS.items():
        if key in written:
            options = _texts_of(type(spec.precision).model_fields[key.rpartition(".")[2]].annotation)
            if len(options) > 1:
                yield Choice(key, label, written[key], options)


def _texts_of(annotation: Any) -> tuple[str, ...]:
    """Return the texts that a field allows, at any depth of its type."""
    if get_origin(annotation) is Literal:
        return tuple(arg for arg in get_args(annotation) if isinstance(arg, str))
    return tuple(dict.fromkeys(text for arg in get_args(annotation) for text in _texts_of(arg)))


def _sliders(spec: Any, written: Mapping[str, str], *, serves: bool) -> Iterator[Slider]:
    machine, in_units = residuals().machine, {key: float(number) for key, number, _ in numbers(spec)}
    for key, label in _HARDWARE.items():
        if match := NUMBER_AND_UNIT.fullmatch(written.get(key, "")):
            value, span = float(match[1]), None
            if key in machine:
                _, least, _, most = machine[key]
                span = value * least / in_units[key], value * most / in_units[key]
            low, high = min(_LESS * value, *(span or [value])), max(_MORE * value, *(span or [value]))
            step = _step(high - low)
            ends = max(step, math.floor(low / step) * step), math.ceil(high / step) * step
            yield Slider(key, label, match[2] or "", value, *ends, step, span)
    for key, label in _COUNTS.items():
        if (text := written.get(key, "")).isdigit():
            count = int(text)
            span = _compared_replicas(spec, count) if key == REPLICAS else None
            yield Slider(key, label, "", count, 1, max(_COUNTS_MORE * count, _FEWEST), 1, span)
    if serves:
        rate_per_s = float(written.get(_RATE) or _REQUESTS_PER_S)
        most_per_s = _MOST_REQUESTS * rate_per_s
        yield Slider(_RATE, _RATE_LABEL, "", rate_per_s, _step(most_per_s), most_per_s, _step(most_per_s))


def _compared_replicas(spec: Any, count: int) -> tuple[float, float] | None:
    """Return the range of replica counts in validated runs of this activity and kind of model."""
    size, alike = ipu_count(spec) / count, {"activity": spec.activity.value, "family": spec.model.kind}
    known = [run.sizes["ipu_count"] for run in residuals().runs if alike.items() <= run.names.items()]
    return (max(1, math.ceil(min(known) / size)), max(1, math.floor(max(known) / size))) if known else None


def _step(length: float) -> float:
    """Return the largest power of ten that is at most a hundredth of a length."""
    return 10.0 ** math.floor(math.log10(length / _STEPS))
