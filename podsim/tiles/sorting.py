"""The largest elements of rows, by a bitonic network over all tiles. Source: [poplibs_popops].

Runs of k' elements are sorted, k' the next power of two of k; merges of two runs each drop the upper half, until one
run is left. Before each pass keys and places are laid out so that the two of a pair lie on one tile.
"""

from __future__ import annotations

from podsim.scenario.ipu import Ipu
from podsim.tiles.vector import ceil_div


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
