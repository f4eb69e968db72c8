"""What has been compared with published runs, and what of a scenario lies outside of it.

`reference_data/envelope.json` is made of the scenarios that published rows name, so it is as wide as they are: for each
activity its software stacks, the ranges of the numbers of its hardware, and for each kind of model the ranges of size,
length, batch and IPUs. Hardware is known by its numbers: a chip of another name with the same numbers is inside. The
configurations that the rows compared are listed one by one beside the ranges.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from podsim.format import format_bytes, format_count, format_significant
from podsim.result.usage import Usage, one_copy, replicas_in_use
from podsim.scenario import data_file
from podsim.scenario.activity import Activity
from podsim.scenario.scenario import Scenario

FILE: Final = "reference_data/envelope.json"
NAMES: Final = ("software",)
RANGES: Final = ("layer_count", "hidden_size", "depth", "sequence_length", "batch_size", "ipu_count")
SERVING: Final = "serving under load"
_GIGA: Final = 1e9
_DIGITS: Final = 4
HARDWARE: Final = {
    "clock_hz": ("clock", "Hz"),
    "tile_count": ("tiles", ""),
    "tile_memory_bytes": ("memory of a tile", "B"),
    "flop_per_tile_cycle": ("FLOP per tile and cycle in fp16", ""),
    "rung_bytes_per_s": ("IPU-Links of a rung, per direction,", "B/s"),
    "rail_bytes_per_s": ("IPU-Links between rungs, per direction,", "B/s"),
    "gw_link_bytes_per_s": ("GW-Links of a machine, per direction,", "B/s"),
    "streaming_memory_bytes": ("streaming memory of an IPU", "B"),
    "streaming_bytes_per_s": ("bandwidth of the streaming memory of a machine", "B/s"),
}
"""Numbers of hardware by which runs are compared, each in words and with its unit."""
_WORDS: Final = {
    "layer_count": "layers",
    "hidden_size": "hidden size",
    "sequence_length": "sequence length",
    "batch_size": "batch size",
    "ipu_count": "IPUs",
}


@dataclass(frozen=True, slots=True)
class Envelope:
    """Whether published runs like a simulated one have been compared with predictions.

    Attributes:
        outside: What of it no compared run has; empty inside of the envelope.
    """

    outside: tuple[str, ...] = ()

    @property
    def inside(self) -> bool:
        """Whether compared runs have all of it."""
        return not self.outside

    @property
    def text(self) -> str:
        """A line for a reader; empty inside of the envelope."""
        return (
            "" if self.inside else f"outside of what has been compared with published runs: {'; '.join(self.outside)}"
        )

    def to_dict(self) -> dict[str, object]:
        """Plain types only."""
        return {"inside": self.inside, "outside": list(self.outside)}


def envelope_of(spec: Any, *more: str) -> Envelope:
    """Where a scenario lies.

    Args:
        spec: The scenario, its division chosen.
        more: What else no compared run has.
    """
    return Envelope((*_outside(spec, _covered().get(spec.activity, {})), *more))


def covered_of(spec: Any) -> dict[str, tuple[float, float]]:
    """The ranges in which runs of this activity and kind of model were compared; empty where none was.

    They have the names of `hardware_of` and `numbers_of`.
    """
    found = _covered().get(spec.activity, {})
    ranges = {**found.get("hardware", {}), **found.get("models", {}).get(spec.model.kind, {})}
    return {name: (float(low), float(high)) for name, (low, high) in ranges.items()}


def names_of(spec: Scenario) -> dict[str, str]:
    """What is compared by name; arithmetic in a narrow format is named where there is any."""
    names = {"software": spec.software.name}
    if getattr(getattr(spec, "precision", None), "narrows_products", False):
        names["products"] = "products in fp8"
    return names


def hardware_of(spec: Any) -> dict[str, float]:
    """Numbers of the hardware in SI units; links that a run has no use for are left out."""
    system, used = spec.system, _usage(spec).ipus_used
    machine, ipu = system.machine, system.machine.ipu
    link, gw_link = machine.ipu_link, machine.gw_link
    several, domains = link is not None and used > 1, gw_link is not None and used > system.domain_ipu_count
    rails = several and used > 2
    found = {
        "clock_hz": ipu.clock_hz,
        "tile_count": ipu.tile.count,
        "tile_memory_bytes": ipu.tile.memory_bytes,
        "flop_per_tile_cycle": round(ipu.peak_flop_per_s("fp16") / ipu.tile.count / ipu.clock_hz),
        "rung_bytes_per_s": link.raw_bytes_per_s * (machine.rung_link_count or 0) if several else None,
        "rail_bytes_per_s": link.raw_bytes_per_s * (machine.rail_link_count or 0) if rails else None,
        "gw_link_bytes_per_s": gw_link.raw_bytes_per_s * gw_link.port_count if domains else None,
        "streaming_memory_bytes": machine.streaming_memory.capacity_per_ipu_bytes,
        "streaming_bytes_per_s": machine.streaming_memory.machine_bytes_per_s,
    }
    return {name: float(number) for name in HARDWARE if (number := found[name]) is not None}


def _usage(spec: Any) -> Usage:
    return one_copy(spec) if spec.activity is Activity.GENERATION else replicas_in_use(spec)


def numbers_of(spec: Any) -> dict[str, int]:
    """What is compared by size; what a kind of model does not have is left out."""
    model, data, generation = spec.model, getattr(spec, "data", None), getattr(spec, "generation", None)
    found = {
        "layer_count": getattr(model, "layer_count", None),
        "hidden_size": getattr(model, "hidden_size", None),
        "depth": getattr(model, "depth", None),
        "sequence_length": getattr(generation or data, "sequence_length", None),
        "batch_size": _batch_size(spec),
        "ipu_count": _usage(spec).ipus_used,
    }
    return {name: number for name in RANGES if (number := found[name]) is not None}


def _batch_size(spec: Any) -> int:
    if spec.activity is Activity.GENERATION:
        return int(spec.generation.batch_size)
    return int(spec.parallelism.batch_size if spec.activity is Activity.TRAINING else spec.batch_size)


@lru_cache
def _covered() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(data_file(FILE).read_text(encoding="utf-8"))
    return found


def _outside(spec: Any, covered: Mapping[str, Any]) -> Iterator[str]:
    for name, value in names_of(spec).items():
        if value not in covered.get(name, ()):
            yield f"{value} for {spec.activity.words}"
    for name, number in hardware_of(spec).items():
        low, high = covered.get("hardware", {}).get(name, (0, 0))
        if not low <= number <= high:
            words, unit = HARDWARE[name]
            covers = _span(_physical(low, unit), _physical(high, unit))
            yield f"{words} {_physical(number, unit)} ({covers} covered)"
    kind = spec.model.kind
    if kind not in covered.get("models", {}):
        yield f"models of kind `{kind}` for {spec.activity.words}"
        return
    for name, number in numbers_of(spec).items():
        low, high = covered["models"][kind].get(name, (0, 0))
        if not low <= number <= high:
            given = _span(format_count(low), format_count(high))
            yield f"{_WORDS.get(name, name)} {format_count(number)} ({given} covered)"


def _span(low: str, high: str) -> str:
    """A range, or what both of its ends are; a unit that both have is told once.

    >>> _span("1.33 GHz", "1.85 GHz"), _span("16", "16"), _span("8", "64"), _span("64 GB/s", "64 GB/s")
    ('1.33–1.85 GHz', '16', '8–64', '64 GB/s')
    """
    if low == high:
        return low
    first, _, unit = low.partition(" ")
    return f"{first}–{high}" if unit and high.endswith(f" {unit}") else f"{low}–{high}"


def _physical(number: float, unit: str) -> str:
    """A number of hardware with its unit, told apart to the last digit that a file would have."""
    if unit in ("Hz", "B/s"):
        return f"{format_significant(number / _GIGA, _DIGITS)} G{unit}"
    return format_bytes(number, _DIGITS) if unit else format_count(number)
