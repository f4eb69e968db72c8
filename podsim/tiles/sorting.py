"""The largest elements of rows, by a bitonic network over all tiles. Source: [poplibs_popops]."""

from __future__ import annotations

from podsim.models.op import DTYPE_BYTES
from podsim.scenario.ipu import Ipu
from podsim.tiles.account import Account, total
from podsim.tiles.vector import ceil_div


def top_k(ipu: Ipu, rows: int, candidates: int, k: int) -> Account:
    """The k largest of each row in single precision, with their places.

    Runs of k' elements are sorted, k' the next power of two; merges of two runs each drop the upper half, until one
    run is left. Before each pass keys and places are exchanged so that the two of a pair lie on one tile.

    Args:
        ipu: The chip.
        rows: Rows, all done together.
        candidates: Elements of a row.
        k: Of them to find.
    """
    return total(_pass(ipu, rows * elements, distance * rows) for elements, distance in passes(candidates, k))


def passes(candidates: int, k: int) -> list[tuple[int, int]]:
    """(elements of a row, distance of a pair) of every pass of compares and swaps."""
    run = min((k - 1).bit_length(), (candidates - 1).bit_length())
    sorting = [(candidates, 1 << step) for level in range(run) for step in reversed(range(level + 1))]
    left = candidates
    for _ in range((candidates - 1).bit_length() - run):
        sorting.append((left, 1 << run))
        left = ceil_div(left, 2 << run) << run
        sorting += [(left, 1 << step) for step in reversed(range(run))]
    return sorting


def _pass(ipu: Ipu, elements: int, distance: int) -> Account:
    """Every worker compares its part of the pairs, each of which is swapped at worst."""
    vertex, workers = ipu.vertices.compare_swap, ipu.tile.worker_count
    pairs: int = ceil_div(ceil_div(elements // 2, ipu.tile.count), workers)
    blocks: int = ceil_div(pairs, distance)
    worker = vertex.worker_fixed + vertex.entry + vertex.first_pair + max(0, pairs - 1) * vertex.pair
    worker += blocks * vertex.block + vertex.turn
    moved = 2 * workers * pairs * (DTYPE_BYTES["fp32"] + DTYPE_BYTES["int32"])
    return Account(
        vector=vertex.fixed + workers * worker,
        exchange=ceil_div(moved, ipu.exchange.bytes_per_cycle),
        superstep=ipu.superstep.overhead_cycles,
    )
