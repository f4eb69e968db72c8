"""The left column: what can be moved in a scenario, from where to where, and where anything was ever compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args, get_origin

from podsim.many.sweeps.axes import NUMBER_AND_UNIT
from podsim.result.envelope import covered_of, hardware_of, numbers_of
from podsim.scenario import LoadedScenario
from podsim.scenario.activity import Activity
from podsim.scenario.assumptions import hardware_keys, scenario_keys
from podsim.scenario.catalogue import shipped_list
from podsim.scenario.library import shipped_files
from podsim.ui.question import DIVISION, Question

SYSTEM, CHIP, RATE = "system", "system.machine.ipu", "serving.rate"
_LINKS: Final = "bandwidth_per_direction"
_HARDWARE: Final[Mapping[str, tuple[str, str]]] = {
    "system.machine.ipu.clock": ("Clock", "clock_hz"),
    f"system.machine.ipu_link.{_LINKS}": ("IPU-Link, per direction", "rung_bytes_per_s"),
    f"system.machine.gw_link.{_LINKS}": ("GW-Link, per direction", "gw_link_bytes_per_s"),
    "system.machine.ipu.tile.memory": ("Memory of a tile", "tile_memory_bytes"),
}
"""Numbers of hardware with a slider: a label, and what the envelope calls what grows in proportion."""
_COUNTS: Final[Mapping[str, tuple[str, str]]] = {
    "system.machine_count": ("Machines", ""),
    "parallelism.replication_factor": ("Replicas", "ipu_count"),
    "parallelism.micro_batch_size": ("Micro-batch", "batch_size"),
    "parallelism.accumulation_factor": ("Micro-batches per replica and update", "batch_size"),
    "generation.batch_size": ("Batch", "batch_size"),
    "forward.batch_size": ("Batch", "batch_size"),
    "serving.batch_size": ("Most sequences of a batch", ""),
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
    """A number that can be moved.

    Attributes:
        key: Its key path.
        label: What it is.
        unit: Of its number; empty for counts.
        value: As the scenario has it.
        low: Where the slider begins.
        high: Where it ends.
        step: From one place to the next.
        covered: Between which values runs were compared with predictions; None where nothing is known of that.
    """

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
    """A name that can be chosen.

    Attributes:
        key: Its key path.
        label: What it is.
        value: As the scenario has it.
        options: What can be chosen.
    """

    key: str
    label: str
    value: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """What can be asked of a scenario.

    Attributes:
        variants: Names of its variants.
        can_serve: Whether it can be served under load.
        serves: Whether it says how requests come.
        can_divide: Whether its division can be chosen anew.
        choices: Names that can be chosen.
        sliders: Numbers that can be moved.
    """

    variants: tuple[str, ...]
    can_serve: bool
    serves: bool
    can_divide: bool
    choices: tuple[Choice, ...]
    sliders: tuple[Slider, ...]


def form_of(question: Question, loaded: LoadedScenario) -> Form:
    """What can be asked.

    Args:
        question: What is asked; only whether it serves, and whether its division is chosen anew, count.
        loaded: Its scenario, before numbers were moved.
    """
    spec: Any = loaded.spec
    can_serve = spec.activity is Activity.GENERATION
    hardware = dict(hardware_keys(spec))
    own = {key: value.text for key, value in scenario_keys(loaded.resolved).items()}
    return Form(
        variants=tuple(loaded.written.variants),
        can_serve=can_serve,
        serves=can_serve and spec.serving is not None,
        can_divide=spec.activity is not Activity.FORWARD and getattr(type(spec.parallelism), "auto", None) is not None,
        choices=tuple(_choices(spec, hardware, own)),
        sliders=tuple(
            each
            for each in _sliders(spec, hardware, own, serves=can_serve and question.serves)
            if not (question.anew and each.key.startswith(DIVISION))
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
    now, covered = {**hardware_of(spec), **numbers_of(spec)}, covered_of(spec)
    for key, (label, name) in _HARDWARE.items():
        match = NUMBER_AND_UNIT.fullmatch(hardware.get(key, ""))
        if match is not None:
            value = float(match[1])
            span = _span(value, now.get(name), covered.get(name))
            low, high = (min(_LESS * value, *(span or [value])), max(_MORE * value, *(span or [value])))
            yield Slider(key, label, match[2] or "", value, *_round_ends(low, high), span)
    for key, (label, name) in _COUNTS.items():
        text = hardware.get(key) or own.get(key, "")
        if text.isdigit():
            number = int(text)
            span = _span(number, now.get(name), covered.get(name))
            span = span and (max(1, math.ceil(span[0])), max(1, math.floor(span[1])))
            yield Slider(key, label, "", number, 1, max(_COUNTS_MORE * number, _FEWEST), 1, span)
    if serves:
        rate_per_s = float(own.get(RATE) or _REQUESTS_PER_S)
        step = _step(_MOST_REQUESTS * rate_per_s)
        yield Slider(RATE, "Requests per second", "", rate_per_s, step, _MOST_REQUESTS * rate_per_s, step)


def _span(value: float, now: float | None, covered: Sequence[float] | None) -> tuple[float, float] | None:
    """Between which values of a key what the envelope knows, which grows with it, is covered."""
    if not now or covered is None:
        return None
    return value * covered[0] / now, value * covered[1] / now


def _round_ends(low: float, high: float) -> tuple[float, float, float]:
    """Ends and step of a slider."""
    step = _step(high - low)
    return max(step, math.floor(low / step) * step), math.ceil(high / step) * step, step


def _step(length: float) -> float:
    """At most a hundredth of a length, as a power of ten."""
    return 10.0 ** math.floor(math.log10(length / _STEPS))
