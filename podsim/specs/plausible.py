"""Quantities that are possible, but that nothing real comes near: most often a slip of the unit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from podsim.specs.quantity import Quantity, Sourced
from podsim.specs.scenario import Scenario
from podsim.specs.wording import counted


def unusual(spec: Scenario) -> Iterator[str]:
    """What there is to say of each."""
    yield from _walk(spec, "")
    system = spec.system
    if system.host_count > system.machine_count:
        servers, machines = counted(system.host_count, "host server"), counted(system.machine_count, "machine")
        yield f"system.host_count: {servers} for {machines} are more than any pod has; the result counts on all of them"


def _walk(model: BaseModel, path: str) -> Iterator[str]:
    for name, field in type(model).model_fields.items():
        value, key = getattr(model, name), f"{path}.{field.alias or name}".lstrip(".")
        if isinstance(value, BaseModel) and not isinstance(value, Sourced):
            yield from _walk(value, key)
            continue
        quantity = declared(field.metadata, field.annotation)
        if isinstance(value, Sourced) and quantity and quantity.usual and not quantity.is_usual(value.value):
            least, most = quantity.usual
            what = f"{key}: `{value.text}` is far from anything built ({least} to {most})"
            yield f"{what}; the result stands on it as it is written"


def declared(metadata: list[Any], annotation: Any) -> Quantity | None:
    """The declaration of a quantity, through unions."""
    for each in metadata:
        if isinstance(each, Quantity):
            return each
    for argument in get_args(annotation):
        if found := declared(list(getattr(argument, "__metadata__", ())), argument):
            return found
    return None
