"""Base classes of all specifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """Frozen, and refuses unknown keys; the text under a field says what it means."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=False,
        validate_default=True,
        allow_inf_nan=False,
        defer_build=True,  # of all families of models, a run needs one
    )


def keys_of(model: type[BaseModel]) -> dict[str, str]:
    """The attribute behind each key of a file."""
    generator = model.model_config.get("alias_generator")
    given = generator if callable(generator) else str
    return {declared.alias or given(name): name for name, declared in model.model_fields.items()}


_UNITS = ("_bytes_per_s", "_bytes", "_cycles", "_hz", "_s", "_w", "_j")


def key_of(name: str) -> str:
    """The key in a file of an attribute whose name ends in its unit.

    >>> key_of("clock_hz"), key_of("hop_latency_s"), key_of("ipu_count")
    ('clock', 'hop_latency', 'ipu_count')
    """
    return next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name)


class HardwareSpec(Spec):
    """A part of a system or of its software: numbers in SI units, whose keys in files are without unit."""

    model_config = ConfigDict(alias_generator=key_of)


_Part = TypeVar("_Part", bound=BaseModel)


def with_written(part: _Part, path: Sequence[str | int], value: Any) -> _Part:
    """A part with another value at a key, as it is written in a file; parts beside the path are not read again."""
    names = keys_of(type(part))
    written = {key: getattr(part, name) for key, name in names.items() if name in part.model_fields_set}
    key, rest = str(path[0]), path[1:]
    inner = getattr(part, names[key])
    if rest and not isinstance(inner, BaseModel):
        raise KeyError(key)
    written[key] = with_written(inner, rest, value) if rest else value
    return type(part).model_validate(written)
