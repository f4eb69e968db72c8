"""Elementwise passes and pools on one tile."""

from __future__ import annotations

from typing import Any

from podsim.models.op import DTYPE_BYTES
from podsim.scenario.ipu import Ipu


def ceil_div(numerator: Any, denominator: Any) -> Any:
    """Quotient rounded up, for integers and integer arrays."""
    return -(-numerator // denominator)


def elementwise_cycles(ipu: Ipu, function: str, elements_per_tile: int, dtype: str) -> int:
    """One elementwise pass over the elements of the busiest tile. [cycles]

    launch + workers x (fixed + cycles x ceil(ceil(n / workers) / vector)); source: [poplibs_estimators].
    """
    vertex = ipu.vertices.elementwise[function]
    # A cast into FP8 reads vectors of half precision.
    cycles, vector = vertex.single if dtype == "fp32" else vertex.half
    steps: int = ceil_div(ceil_div(elements_per_tile, ipu.tile.worker_count), vector)
    return ipu.vertices.call.launch + ipu.tile.worker_count * (vertex.fixed + cycles * steps)


def pool_cycles(ipu: Ipu, elements: int, width: int, taps: int, dtype: str, *, backward: bool) -> int:
    """Maximum or mean over windows, for the elements of the busiest tile. Source: [poplibs_estimators]. [cycles]

    Args:
        ipu: The chip.
        elements: Results on the tile.
        width: Results of a row, each a vector of channels.
        taps: Elements that are read for each result.
        dtype: Format of the elements.
        backward: Whether it is the gradient.
    """
    vertex = ipu.vertices.pool
    per_vector = ipu.tile.vector_width_bytes // DTYPE_BYTES[dtype]
    vectors: int = ceil_div(ceil_div(elements, ipu.tile.worker_count), per_vector)
    rows: int = ceil_div(vectors, width)
    per_tap = vertex.backward_tap if backward else vertex.forward_tap
    return ipu.vertices.call.launch + ipu.tile.worker_count * (rows * vertex.row + vectors * taps * per_tap)
