"""The inputs that are neither published nor measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import BaseModel

from podsim.specs.families import VisionScenarioSpec
from podsim.specs.forward import ForwardScenarioSpec
from podsim.specs.image import ImageScenarioSpec
from podsim.specs.inference import InferenceScenarioSpec
from podsim.specs.quantity import Sourced
from podsim.specs.scenario import TransformerScenarioSpec

AnyScenario = TransformerScenarioSpec | ImageScenarioSpec | InferenceScenarioSpec | ForwardScenarioSpec
_CERTAIN = ("published", "measured")


@dataclass(frozen=True, slots=True)
class Assumption:
    """A number that a result stands on and nobody has published or measured.

    Attributes:
        key: Its key path in the scenario.
        value: As it was written.
        basis: `derived`, `calibrated` or `assumed`.
        source: Key of the bibliography, or `given`.
        note: What a reader should know.
        range: Plausible bounds, in the SI base unit.
    """

    key: str
    value: str
    basis: str
    source: str
    note: str | None
    range: tuple[float, float] | None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


def assumptions(spec: AnyScenario) -> tuple[Assumption, ...]:
    """Every number that the scenario stands on and that is derived, calibrated or assumed."""
    unused = tuple(_unused(spec))
    return tuple(
        Assumption(key, number.text, number.basis, number.source, number.note, number.range)
        for key, number in _walk(spec, "")
        if number.basis not in _CERTAIN and not key.startswith(unused)
    )


def _unused(spec: AnyScenario) -> Iterator[str]:
    """Beginnings of keys that nothing in the scenario asks for."""
    if isinstance(spec, InferenceScenarioSpec):
        yield from ("system.machine.gw_link.", "system.host.", "software.host_call", "software.code_memory_per_tile")
        yield from ("software.setup", "software.checkpoint", "software.validation_setup", "software.forward_call")
        return
    if isinstance(spec, ForwardScenarioSpec):
        yield from ("system.machine.gw_link.", "system.host.", "software.host_call", "software.code_memory_per_tile")
        yield from ("software.setup", "software.checkpoint", "software.validation_setup", "software.token_call")
        yield "software.collective_step_latency"
        if spec.parallelism.pipeline_stages == 1:
            yield "system.machine.ipu_link."
        return
    yield from ("software.token_call", "software.forward_call", "software.inference_code_memory_per_tile")
    if spec.parallelism.replication_factor * spec.parallelism.ipus_per_replica <= spec.system.domain_ipu_count:
        yield "system.machine.gw_link."
    if isinstance(spec, TransformerScenarioSpec):
        yield from ("software.checkpoint", "software.validation_setup")
        if not (isinstance(spec, VisionScenarioSpec) and spec.data.decoded_by_host):
            yield "system.host."
        if spec.run is None or spec.run.setup is not None:
            yield "software.setup"
        return
    yield "software.setup"
    if not spec.data.decoded_by_host:
        yield "system.host."
    if spec.run is None or spec.run.checkpoint is None:
        yield "software.checkpoint"
    if spec.run is None or spec.run.validation is None or spec.run.validation.setup:
        yield "software.validation_setup"


def _walk(model: BaseModel, path: str) -> Iterator[tuple[str, Sourced]]:
    for name in type(model).model_fields:
        value, key = getattr(model, name), f"{path}.{name}".lstrip(".")
        if isinstance(value, Sourced):
            yield key, value
        elif isinstance(value, BaseModel):
            yield from _walk(value, key)
