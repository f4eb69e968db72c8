"""Elementwise passes, pools, changes of layout, and the largest elements of rows by a bitonic network [poplibs_popops].

Runs of k' elements are sorted, k' the next power of two of k; merges of two runs each drop the upper half, until one
run is left. Before each pass keys and places are laid out so that the two of a pair lie on one tile.
"""

from __future__ import annotations

import math
from typing import Any, Final

from podsim.models.op import DTYPE_BYTES, PIECE_BYTES
from podsim.scenario.ipu import Ipu

WORD_BYTES: Final = 4
"""Of the exchange and of a tile's integers, whatever a tile receives in a cycle."""
_LEAST_BYTES: Final = 128
"""Of a tensor on a tile."""


def ceil_div(numerator: Any, denominator: Any) -> Any:
    """Quotient rounded up, for integers and integer arrays."""
    return -(-numerator // denominator)


def tile_share(ipu: Ipu, elements: int, dtype: str) -> int:
    """Elements on the busiest tile of a tensor that is spread linearly: whole vectors, and at least 128 bytes.

    Elementwise results inherit the layout of an operand. Groups of channels, as products leave them, are taken to be
    no smaller; a sort spreads its results evenly. Sums, changes of layout and parts of plans have layouts of their
    own. Source: [poplibs_popops].
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
    """One elementwise pass over the elements of the busiest tile. [cycles]

    launch + workers x (fixed + cycles x ceil(ceil(n / workers) / vector)); source: [poplibs_estimators].
    """
    vertex = ipu.vertices.elementwise[function]
    # A cast into FP8 reads vectors of half precision.
    cycles, vector = vertex.single if dtype == "fp32" else vertex.half
    steps: int = ceil_div(ceil_div(elements_per_tile, ipu.tile.worker_count), vector)
    return ipu.vertices.call.launch + ipu.tile.worker_count * (vertex.fixed + cycles * steps)


def pool_cycles(ipu: Ipu, elements: int, width: int, taps: int, dtype: str, *, backward: bool) -> int:
    """Maximum or mean over windows on the busiest tile, `width` results a row [poplibs_estimators]. [cycles]"""
    vertex = ipu.vertices.pool
    per_vector = ipu.tile.vector_width_bytes // DTYPE_BYTES[dtype]
    vectors: int = ceil_div(ceil_div(elements, ipu.tile.worker_count), per_vector)
    rows: int = ceil_div(vectors, width)
    per_tap = vertex.backward_tap if backward else vertex.forward_tap
    return ipu.vertices.call.launch + ipu.tile.worker_count * (rows * vertex.row + vectors * taps * per_tap)


def layout_cycles(ipu: Ipu, byte_count: float, cycles_per_byte: float, piece_bytes: int = PIECE_BYTES) -> float:
    """A tile's share of a tensor moves to another layout: a copy, the exchange, a copy. [cycles]

    2·(call + rate·B) + B/port; source: [poplibs_poplin] for the rates, [tile_kernels] for the call.

    `byte_count`: on the tile [B]; `cycles_per_byte`: rate of each copy where pieces are large [cycles/B];
    `piece_bytes`: what lies together before and behind; of that, the largest power of two counts [B].
    """
    call, piece = ipu.vertices.call, math.gcd(piece_bytes, PIECE_BYTES)
    if piece < PIECE_BYTES:
        cycles, copied = call.pieces.of(piece)
        cycles_per_byte = cycles / copied
    copies = 2 * tile_copy_cycles(ipu, byte_count, cycles_per_byte)
    return copies + byte_count / ipu.exchange.bytes_per_cycle


def tile_copy_cycles(ipu: Ipu, byte_count: float, cycles_per_byte: float) -> float:
    """A copy that stays on its tile: call + rate·B; source: [tile_kernels]. [cycles]"""
    return ipu.vertices.call.copy_cycles + cycles_per_byte * byte_count


def passes(candidates: int, k: int) -> list[tuple[int, int]]:
    """(elements that are left of a row, distance of the two of a pair) for every pass of compares and swaps."""
    run = min((k - 1).bit_length(), (candidates - 1).bit_length())
    found = [(candidates, 1 << step) for level in range(run) for step in reversed(range(level + 1))]
    left = candidates
    for _ in range((candidates - 1).bit_length() - run):
        found.append((left, 1 << run))
        left = ceil_div(left, 2 << run) << run
        found += [(left, 1 << step) for step in reversed(range(run))]
    return found


def compare_swap_cycles(ipu: Ipu, elements: int, distance: int) -> int:
    """One pass over elements of all tiles: every worker compares its part of the pairs, each swapped at worst.

    Source: [poplibs_estimators], single-precision keys with 32-bit values. [cycles]
    """
    vertex, workers = ipu.vertices.compare_swap, ipu.tile.worker_count
    pairs: int = ceil_div(ceil_div(elements // 2, ipu.tile.count), workers)
    blocks: int = ceil_div(pairs, distance)
    worker = vertex.worker_fixed + vertex.entry + vertex.first_pair + max(0, pairs - 1) * vertex.pair
    return vertex.fixed + workers * (worker + blocks * vertex.block + vertex.turn)
