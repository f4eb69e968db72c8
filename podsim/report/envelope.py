"""What has been compared with published runs, and what of a scenario lies outside of it.

`reference_data/envelope.json` is made of the scenarios that published rows name, so it is as wide as they are: for each
activity its chips and software stacks, and for each kind of model the ranges of size, length, batch and IPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from podsim.report.format import format_count
from podsim.report.usage import one_copy, replicas_in_use
from podsim.specs import data_file
from podsim.specs.activity import Activity
from podsim.specs.scenario import Scenario

FILE: Final = "reference_data/envelope.json"
NAMES: Final = ("chip", "software")
RANGES: Final = ("layer_count", "hidden_size", "depth", "sequence_length", "batch_size", "ipu_count")
SERVING: Final = "serving under load"
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


def names_of(spec: Scenario) -> dict[str, str]:
    """What is compared by name; arithmetic in a narrow format is named where there is any."""
    names = {"chip": spec.system.machine.ipu.name, "software": spec.software.name}
    if getattr(getattr(spec, "precision", None), "narrows_products", False):
        names["products"] = "products in fp8"
    return names


def numbers_of(spec: Any) -> dict[str, int]:
    """What is compared by size; what a kind of model does not have is left out."""
    model, data, generation = spec.model, getattr(spec, "data", None), getattr(spec, "generation", None)
    usage = one_copy(spec) if spec.activity is Activity.GENERATION else replicas_in_use(spec)
    found = {
        "layer_count": getattr(model, "layer_count", None),
        "hidden_size": getattr(model, "hidden_size", None),
        "depth": getattr(model, "depth", None),
        "sequence_length": getattr(generation or data, "sequence_length", None),
        "batch_size": _batch_size(spec),
        "ipu_count": usage.ipus_used,
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
    kind = spec.model.kind
    if kind not in covered.get("models", {}):
        yield f"models of kind `{kind}` for {spec.activity.words}"
        return
    for name, number in numbers_of(spec).items():
        low, high = covered["models"][kind].get(name, (0, 0))
        if not low <= number <= high:
            given = format_count(low) if low == high else f"{format_count(low)}–{format_count(high)}"
            yield f"{_WORDS.get(name, name)} {format_count(number)} ({given} covered)"
