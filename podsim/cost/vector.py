"""Elementwise passes on one tile."""

from __future__ import annotations

from typing import Any

from podsim.specs.ipu import Ipu


def ceil_div(numerator: Any, denominator: Any) -> Any:
    """Quotient rounded up, for integers and integer arrays."""
    return -(-numerator // denominator)


def elementwise_cycles(ipu: Ipu, function: str, elements_per_tile: int, dtype: str) -> int:
    """One elementwise pass over the elements of the busiest tile. [cycles]

    launch + workers x (fixed + cycles x ceil(ceil(n / workers) / vector)); source: [poplibs_estimators].
    """
    vertex = ipu.vertices.elementwise[function]
    cycles, vector = vertex.half if dtype == "fp16" else vertex.single
    steps: int = ceil_div(ceil_div(elements_per_tile, ipu.tile.worker_count), vector)
    return ipu.vertices.call.launch + ipu.tile.worker_count * (vertex.fixed + cycles * steps)
