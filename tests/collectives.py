"""Collectives by hand: what each method's steps take in exchanges, supersteps, and bytes on links and tiles."""

from __future__ import annotations

from collections.abc import Sequence

REDUCE, GATHER = 0, 1
SUPERSTEPS = {"ring": ((4, 4), (5, 4)), "pair": ((8, 7), (9, 7)), "meet": ((3, 12), (6, 10))}
"""(Before the loop, in each step) of a reduce-scatter and of an all-gather, counted in the library's programs.

A ring: an index is updated, a fragment is chosen and copied, received bytes are added. Meeting in the middle: two
indices and a counter are updated, the last step is told apart twice, and both directions choose, copy and add.
"""
OVERHEAD = 275
"""Of a superstep on Mk2. [cycles]"""
ADDITION = 3 / 4 / 2
"""Cycles of a tile for a byte: three for four halves."""
PORT = 4
"""Bytes that a tile sends or copies in a cycle."""


def collective_s(
    byte_count: float,
    count: int,
    exchange_s: float,
    rate: float,
    method: str = "meet",
    passes: Sequence[int] = (REDUCE, GATHER),
    *,
    tensors: int = 1,
    exchanges: int = 1,
    clock: float = 1.33e9,
    tiles: int = 1472,
    overhead: int = OVERHEAD,
) -> float:
    """Sum of `tensors` equal collectives of `byte_count` bytes together over `count` IPUs, alone on the machine. [s]

    `exchange_s`: a sync and the longest way. `rate`: at which what an IPU sends in a step passes the fullest link.
    """
    steps, fragments = (count // 2, 2) if method == "meet" else (count - 1, 1)
    sent, found = byte_count * fragments / count, 0.0
    for each in passes:
        before, inside = SUPERSTEPS[method][each]
        latency_s = exchanges * exchange_s + (before / steps + inside) * overhead / clock
        tile_s = (2 / PORT if each == GATHER else 1 / PORT + ADDITION) / tiles / clock
        found += steps * (tensors * latency_s + sent * (1 / rate + tile_s))
    return found
