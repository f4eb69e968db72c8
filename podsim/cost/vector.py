"""Elementwise passes on one tile."""

from __future__ import annotations

from typing import Any

from podsim.system import Ipu


def ceil_div(numerator: Any, denominator: Any) -> Any:
    """Quotient rounded up, for integers and integer arrays."""
    return -(-numerator // denominator)


def elementwise_cycles(ipu: Ipu, function: str, elements_per_tile: int, dtype: str) -> int:
    """One elementwise pass over the elements of the busiest tile. [cycles]

    launch + workers x (fixed + cycles x ceil(ceil(n / workers) / vector)); source: [poplibs_estimators].
    """
    vertex = ipu.vertices.elementwise[function]
    half = dtype == "fp16"
    cycles = vertex.half_cycles if half else vertex.single_cycles
    vector = vertex.half_elements if half else vertex.single_elements
    steps: int = ceil_div(ceil_div(elements_per_tile, ipu.worker_count), vector)
    return ipu.vertices.launch_cycles + ipu.worker_count * (vertex.fixed + cycles * steps)
