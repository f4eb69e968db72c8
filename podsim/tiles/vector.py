"""Cycles of elementwise passes, pools, layout changes, and top-k by a bitonic network [poplibs_popops].

Top-k sorts runs of k' elements, where k' is k rounded up to a power of two. Merges of two runs then drop half of the
elements until one run is left. Before each pass, a layout change brings both elements of a pair to one tile.
"""

from __future__ import annotations

import math
from typing import Any, Final

from podsim.models.op import DTYPE_BYTES, PIECE_BYTES
from podsim.scenario.ipu import Ipu

WORD_BYTES: Final = 4
"""Bytes of a word of the exchange, and of an integer on a tile. [B]"""
_LEAST_BYTES: Final = 128
"""Minimum bytes of a tensor on a tile. [B]"""


def ceil_div(numerator: Any, denominator: Any) -> Any:
    """Return the quotient rounded up, for integers and integer arrays."""
    return -(-numerator // denominator)


def tile_share(ipu: Ipu, elements: int, dtype: str) -> int:
    """Return the elements on the busiest tile of a linearly spread tensor: whole vectors, at least 128 bytes.

    Elementwise results inherit the layout of an operand. The channel groups of a product's result are assumed to be no
    smaller; a sort spreads its results evenly. Sums, layout changes and parts of plans have layouts of their own.
    Source: [poplibs_popops].
    """
    if not elements:
        return 0
    size = DTYPE_BYTES[dtype]
    vector = ipu.tile.vector_width_bytes // size
    vectors: int = ceil_div(elements, vector)
    least = ceil_div(_LEAST_BYTES, size * vector)
    most = max(ceil_div(vectors, ipu.tile.count), ceil_div(vectors, max(1, vectors // least)))
    return min(elements, vector * int(ceil_div(vectors, ceil_div(vectors, most))))


def elementwise_cycles(ipu: Ipu, function: str, elements_per_tile: int, dtype: str) -> int:
    """Return the cycles of one elementwise pass over the elements of the busiest tile. [cycles]

    launch + workers x (fixed + cycles x ceil(ceil(n / workers) / vector)); source: [poplibs_estimators].
    """
    vertex = ipu.vertices.elementwise[function]
    # A cast into FP8 reads vectors of half precision.
    cycles, vector = vertex.single if dtype == "fp32" else vertex.half
    steps: int = ceil_div(ceil_div(elements_per_tile, ipu.tile.worker_count), vector)
    return ipu.vertices.call.launch + ipu.tile.worker_count * (vertex.fixed + cycles * steps)


def pool_cycles(ipu: Ipu, elements: int, width: int, taps: int, dtype: str, *, backward: bool) -> int:
    """Return the cycles of a pool on the busiest tile, `width` results per row [poplibs_estimators]. [cycles]"""
    vertex = ipu.vertices.pool
    per_vector = ipu.tile.vector_width_bytes // DTYPE_BYTES[dtype]
    vectors: int = ceil_div(ceil_div(elements, ipu.tile.worker_count), per_vector)
    rows: int = ceil_div(vectors, width)
    per_tap = vertex.backward_tap if backward else vertex.forward_tap
    return ipu.vertices.call.launch + ipu.tile.worker_count * (rows * vertex.row + vectors * taps * per_tap)


def layout_cycles(ipu: Ipu, byte_count: float, cycles_per_byte: float, piece_bytes: int = PIECE_BYTES) -> float:
    """Return the time to change the layout of a tile's share of a tensor: copy, exchange, copy. [cycles]

    2·(call + rate·B) + B/port; source: [poplibs_poplin] for the rates, [tile_kernels] for the call.

    Args:
        ipu: Chip with costs of its vertices.
        byte_count: Size of the share on the tile. [B]
        cycles_per_byte: Rate of each copy of large pieces. [cycles/B]
        piece_bytes: Size of the pieces that are contiguous in both layouts; its largest power of two counts. [B]
    """
    call, piece = ipu.vertices.call, math.gcd(piece_bytes, PIECE_BYTES)
    if piece < PIECE_BYTES:
        cycles, copied = call.pieces.for_chunk(piece)
        cycles_per_byte = cycles / copied
    copies = 2 * tile_copy_cycles(ipu, byte_count, cycles_per_byte)
    return copies + byte_count / ipu.exchange.bytes_per_cycle


def regroup_cycles(ipu: Ipu, byte_count: float) -> float:
    """Return the time of a copy within a tile whose vectors stay whole [poplibs_poplin]. [cycles]"""
    vertex = ipu.vertices.transform
    return tile_copy_cycles(ipu, byte_count, vertex.cycles / vertex.elements / ipu.tile.vector_width_bytes)


def tile_copy_cycles(ipu: Ipu, byte_count: float, cycles_per_byte: float) -> float:
    """Return the time of a copy within a tile: call + rate·B; source: [tile_kernels]. [cycles]"""
    return ipu.vertices.call.copy_cycles + cycles_per_byte * byte_count


def passes(candidates: int, k: int) -> list[tuple[int, int]]:
    """Return (remaining elements of a row, distance within a pair) for every compare-and-swap pass of a top-k."""
    run = min((k - 1).bit_length(), (candidates - 1).bit_length())
    found = [(candidates, 1 << step) for level in range(run) for step in reversed(range(level + 1))]
    left = candidates
    for _ in range((candidates - 1).bit_length() - run):
        found.append((left, 1 << run))
        left = ceil_div(left, 2 << run) << run
        found += [(left, 1 << step) for step in reversed(range(run))]
    return found


def compare_swap_cycles(ipu: Ipu, elements: int, distance: int) -> int:
    """Return the cycles of one compare-and-swap pass if every pair is swapped. [cycles]

    `elements` are those on all tiles. Source: [poplibs_estimators], single-precision keys with 32-bit values.
    """
    vertex, workers = ipu.vertices.compare_swap, ipu.tile.worker_count
    pairs: int = ceil_div(ceil_div(elements // 2, ipu.tile.count), workers)
    blocks: int = ceil_div(pairs, distance)
    worker = vertex.worker_fixed + vertex.entry + vertex.first_pair + max(0, pairs - 1) * vertex.pair
    return vertex.fixed + workers * (worker + blocks * vertex.block + vertex.turn)
