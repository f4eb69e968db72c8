"""Base classes of all specifications."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict


class Spec(BaseModel):
    """Frozen section of a file that refuses unknown keys; the docstring of a field describes its key."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        arbitrary_types_allowed=False,
        validate_default=True,
        allow_inf_nan=False,
        defer_build=True,  # a run needs one family of models only
    )


def keys_of(model: type[BaseModel]) -> dict[str, str]:
    """Return the attribute names of a section by their keys in files."""
    generator = model.model_config.get("alias_generator")
    key_for = generator if callable(generator) else str
    return {field.alias or key_for(name): name for name, field in model.model_fields.items()}


_UNITS = ("_bytes_per_s", "_bytes", "_cycles", "_hz", "_s", "_w", "_j")


def key_of(name: str) -> str:
    """Return the key in a file for an attribute name with a unit suffix.

    >>> key_of("clock_hz"), key_of("hop_latency_s"), key_of("ipu_count")
    ('clock', 'hop_latency', 'ipu_count')
    """
    return next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name)


class HardwareSpec(Spec):
    """Section of a system or a software stack: attributes in SI units, keys without unit."""

    model_config = ConfigDict(alias_generator=key_of)


_Part = TypeVar("_Part", bound=BaseModel)


def with_written(part: _Part, path: Sequence[str | int], value: Any) -> _Part:
    """Return the section with another value at a key, as written in a file; only sections on the path are validated."""
    names = keys_of(type(part))
    written = {key: getattr(part, name) for key, name in names.items() if name in part.model_fields_set}
    key, rest = str(path[0]), path[1:]
    inner = getattr(part, names[key])
    if rest and not isinstance(inner, BaseModel):
        raise KeyError(key)
    written[key] = with_written(inner, rest, value) if rest else value
    return type(part).model_validate(written)
