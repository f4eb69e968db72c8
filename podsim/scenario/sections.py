"""Sections of scenarios that several activities have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from podsim.errors import BadValueError
from podsim.scenario.wording import shown


def _proportion(raw: Any) -> Any:
    values = raw if isinstance(raw, (list, tuple)) else [raw]
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            what = f"needs a number, or a list with one per IPU, not {shown(value)}"
            raise BadValueError(what, "write for example `0.2`")
        if not 0 < value <= 1:
            raise BadValueError(f"{shown(value)} is not above 0 and at most 1", "write for example `0.2`")
    return tuple(float(value) for value in values) if isinstance(raw, (list, tuple)) else float(raw)


def io_tile_findings(io_tiles: int, tile_count: int) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """I/O tiles that leave none to compute."""
    if io_tiles >= tile_count:
        what = f"{io_tiles} I/O tiles leave none of {tile_count} tiles to compute"
        yield ("memory", "io_tiles"), what, "use 32 or 64"


Reserve = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


_PROPORTION_SCHEMA = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
AvailableMemory = Annotated[
    Any,
    BeforeValidator(_proportion),
    WithJsonSchema({"anyOf": [_PROPORTION_SCHEMA, {"type": "array", "items": _PROPORTION_SCHEMA}]}),
]
