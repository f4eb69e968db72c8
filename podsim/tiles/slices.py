"""The planner of look-ups and updates of table rows, as in the library: multi-slice and multi-update-add.

A table is split along rows and features, in grains of eight bytes; look-ups are split as well. Among splits whose
temporaries fit, the library takes the least cycles by its own estimate, without synchronisation and for evenly spread
indices. The cost here adds supersteps, and takes the worker with the most hits for random indices.
Source: [poplibs_popops], [poplibs_estimators].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podsim.errors import NoPlanError
from podsim.models.op import DTYPE_BYTES
from podsim.scenario.ipu import Ipu
from podsim.scenario.vertices import GatherVertex, PlannedLookUp
from podsim.tiles.account import Account
from podsim.tiles.plans import LEAST_INDICES, SliceKind, SlicePlan, SliceShape
from podsim.tiles.split import choose, distinct_parts, strided_sum_cycles
from podsim.tiles.vector import ceil_div

_INDEX_BYTES: Final = 4
_GRAIN_BYTES: Final = 8
_LEAST_ROWS: Final = 2
"""Minimum rows of a tile when a table is split along its rows."""
_TURNS: Final = tuple(1 << exponent for exponent in range(12))
"""Numbers of serial parts of the look-ups."""
_BLOM: Final = 0.375
"""Blom's constant: the expected maximum of n samples is the quantile (n - 0.375)/(n + 0.25)."""
_MOST_TILES: Final = 0.75
"""Share of the tiles above which a split counts as spread over the chip."""
_SKEW: Final = 6
"""Divisor of the skewness in the Cornish-Fisher expansion of a quantile."""


@dataclass(frozen=True, slots=True)
class _Splits:
    """Candidates for the split, as arrays of one length.

    `lookups`, `rows` and `features` are the numbers on one tile in one turn (serial part of the look-ups).
    """

    lookup_parts: NDArray[Any]
    row_parts: NDArray[Any]
    feature_parts: NDArray[Any]
    turns: NDArray[Any]
    lookups: NDArray[Any]
    rows: NDArray[Any]
    features: NDArray[Any]


def plan_slices(
    ipu: Ipu, kind: SliceKind, shape: SliceShape, dtype: str = "fp32", available_memory_proportion: float = 0.6
) -> SlicePlan:
    """Return the library's split and its cost for indices that are uniformly random over the rows; fp16 or fp32."""
    if max(shape.rows, shape.lookups) * shape.features * DTYPE_BYTES[dtype] > ipu.memory_bytes:
        what = f"{shape.lookups:,} rows of {shape.features:,} in a table of {shape.rows:,} do not fit {ipu.name}"
        raise NoPlanError(what, do="make the table, its rows or the lookups fewer")
    splits = _splits(ipu, shape, dtype)
    estimate, temporary, cost = (
        (_slice_estimate, _slice_bytes, _slice_parts)
        if kind == "multi-slice"
        else (_update_estimate, _update_bytes, _update_parts)
    )
    held = temporary(ipu, shape, splits, DTYPE_BYTES[dtype])
    objective = estimate(ipu, shape, splits, dtype)
    best = choose(objective, held, ipu.tile.memory_bytes, available_memory_proportion)
    one = _Splits(*(getattr(splits, name)[best : best + 1] for name in _Splits.__slots__))
    parts = cost(ipu, shape, one, dtype)
    return SlicePlan(
        kind=kind,
        shape=shape,
        dtype=dtype,
        lookup_parts=int(one.lookup_parts[0]),
        row_parts=int(one.row_parts[0]),
        feature_parts=int(one.feature_parts[0]),
        turns=int(one.turns[0]),
        account=Account(**{name: float(cycles[0]) for name, cycles in parts.items()}),
        temporary_bytes_per_tile=int(held[best]),
    )


def _splits(ipu: Ipu, shape: SliceShape, dtype: str) -> _Splits:
    grain, most = _GRAIN_BYTES // DTYPE_BYTES[dtype], ipu.tile.count
    grains = ceil_div(shape.features, grain)
    row_parts = distinct_parts(shape.rows, min(most, max(1, shape.rows // _LEAST_ROWS)))
    feature_parts = distinct_parts(grains, most)
    rows, features = (axis.ravel() for axis in np.meshgrid(row_parts, feature_parts, indexing="ij"))
    rows, features = rows[rows * features <= most], features[rows * features <= most]
    every = []
    for turns in _TURNS[: shape.lookups.bit_length()]:
        lookups = distinct_parts(ceil_div(shape.lookups, turns), most)
        left = np.searchsorted(lookups, most // (rows * features), side="right")
        pairs = np.repeat(np.arange(len(rows)), left)
        ordinal = np.arange(len(pairs)) - np.repeat(np.cumsum(left) - left, left)
        every.append((lookups[ordinal], rows[pairs], features[pairs], np.full(len(pairs), turns)))
    lookup_parts, rows, features, turns_taken = (np.concatenate(axis) for axis in zip(*every, strict=True))
    return _Splits(
        *(lookup_parts, rows, features, turns_taken),
        lookups=ceil_div(ceil_div(shape.lookups, turns_taken), lookup_parts),
        rows=ceil_div(shape.rows, rows),
        features=np.minimum(ceil_div(grains, features) * grain, shape.features),
    )


def _uneven_bytes(ipu: Ipu, shape: SliceShape, s: _Splits, size: int) -> NDArray[Any]:
    """Return the bytes of a tile's part beyond an even share, which the library counts as moved there. [B]"""
    grain = _GRAIN_BYTES // size
    even = ceil_div(shape.rows * ceil_div(shape.features, grain), ipu.tile.count) * grain * size
    more: NDArray[Any] = np.maximum(s.rows * s.features * size - even, 0)
    return more


def _slice_bytes(ipu: Ipu, shape: SliceShape, s: _Splits, size: int) -> NDArray[Any]:
    """Return the temporaries of look-ups: a copy of the table's part, indices, and found rows in transfer. [B]"""
    shared, cut = s.lookup_parts > 1, s.row_parts > 1
    row_bytes, own = s.features * size, ceil_div(s.lookups, s.row_parts)
    copied = np.maximum(shared * s.rows * row_bytes, _uneven_bytes(ipu, shape, s, size))
    found = cut * s.lookups * row_bytes
    first = copied + found + s.lookups * _INDEX_BYTES
    second = found + cut * s.row_parts * own * row_bytes + own * _INDEX_BYTES
    held: NDArray[Any] = np.maximum(first, second + (s.turns > 1) * copied)
    return held


def _slice_estimate(ipu: Ipu, shape: SliceShape, s: _Splits, dtype: str) -> NDArray[Any]:
    """Return the library's estimate for look-ups; its second stage skips the same share as the first. [cycles]"""
    size, port, workers = DTYPE_BYTES[dtype], ipu.exchange.bytes_per_cycle, ipu.tile.worker_count
    row_bytes, share = s.features * size, s.rows / shape.rows
    own = ceil_div(s.lookups, s.row_parts)
    copied = np.maximum((s.lookup_parts > 1) * s.rows * row_bytes, _uneven_bytes(ipu, shape, s, size))
    mine, second = ceil_div(s.lookups, workers), ceil_div(own, workers)
    planned = ipu.vertices.gather.planned
    first_stage = _slice_vertex(ipu, planned, shape.lookups, mine, np.ceil(mine * share), s.features)
    second_stage = _slice_vertex(ipu, planned, shape.lookups, second, np.ceil(second * share), s.features)
    collected = ceil_div(s.row_parts * own * row_bytes, port)
    least = ceil_div(shape.lookups * shape.features * size, _GRAIN_BYTES)
    too_fast = s.turns * s.lookup_parts * s.feature_parts * first_stage < least
    cycles = s.turns * (first_stage + (s.row_parts > 1) * (second_stage + collected)) + ceil_div(copied, port)
    estimate: NDArray[Any] = np.where(too_fast, np.inf, cycles)
    return estimate


def _slice_parts(ipu: Ipu, shape: SliceShape, s: _Splits, dtype: str) -> dict[str, NDArray[Any]]:
    """Return the cycles of look-ups by kind of work. [cycles]

    Each tile reads its part of the table. Where this part has only some of the rows, found rows are then collected.
    """
    row_bytes, port, workers = s.features * DTYPE_BYTES[dtype], ipu.exchange.bytes_per_cycle, ipu.tile.worker_count
    shared, cut = s.lookup_parts > 1, s.row_parts > 1
    own = ceil_div(s.lookups, s.row_parts)
    broadcast = shared * ceil_div(s.rows * row_bytes, port)
    indices = ceil_div(s.lookups * _INDEX_BYTES, port)
    collected = cut * ceil_div(s.row_parts * own * row_bytes, port)
    mine = ceil_div(s.lookups, workers)
    hits = expected_most_hits(mine, s.rows / shape.rows, workers * s.lookup_parts * s.row_parts)
    spent = ipu.vertices.gather
    vertex = _slice_vertex(ipu, spent, s.lookups, mine, hits, s.features)
    mine = ceil_div(own, workers)
    second = cut * _slice_vertex(ipu, spent, own, mine, mine, s.features)
    places, pieces = _places(ipu, shape, s)
    return {
        "vector": s.turns * (vertex + second + cut * places),
        "exchange": broadcast + s.turns * (collected + indices),
        "rearrange": s.turns * cut * pieces,
        # One superstep sends table and indices; two more compute the places of found rows and collect these rows.
        "superstep": s.turns * (1 + 2 * cut) * float(ipu.superstep.overhead_cycles),
    }


def _places(ipu: Ipu, shape: SliceShape, s: _Splits) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the cycles to compute the place of each found row, and to copy words for this pass. [cycles]

    A place is the number of the table's part times the rows found there, plus a counter. The part is the index divided
    by the rows of a part; a power of two needs no division.
    """
    share = np.maximum(ceil_div(ceil_div(shape.lookups, s.turns), ipu.tile.count), LEAST_INDICES)
    share = np.minimum(share, shape.lookups)
    divided = (s.rows & (s.rows - 1)) > 0
    workers, (cycles, copied) = ipu.tile.worker_count, ipu.vertices.call.pieces.four
    division = workers * ceil_div(share, workers) * divided * ipu.vertices.gather.divide
    counted = _pass(ipu, "add", share, "fp32") + _pass(ipu, "scaled_add", share, "fp32")
    # Counters and numbers of rows are sent to the tiles of the indices.
    return counted + division, 2 * share * _INDEX_BYTES * cycles / copied


def _slice_vertex(
    ipu: Ipu, priced: GatherVertex | PlannedLookUp, lookups: Any, mine: Any, hits: Any, features: Any
) -> Any:
    """Return the cycles of the look-up vertex: workers share the look-ups, or the words of a single one. [cycles]"""
    vertex, workers = ipu.vertices.gather, ipu.tile.worker_count
    vectors = ceil_div(features, 2)  # vectors of two elements in both formats
    vectors = np.where(lookups == 1, ceil_div(vectors, workers), vectors)
    found = hits * (priced.per_index + vectors * vertex.cycles_per_pair)
    return workers * (priced.worker_fixed + found + (mine - hits) * vertex.skip)


def _update_bytes(ipu: Ipu, shape: SliceShape, s: _Splits, size: int) -> NDArray[Any]:
    """Return the temporaries of updates: received updates, indices, and FP32 copies of the part before the sum. [B]"""
    shared, cut = s.lookup_parts > 1, s.row_parts > 1
    copies = shared * s.rows * s.features * DTYPE_BYTES["fp32"]
    received = cut * s.lookups * s.features * size
    peak = np.maximum(received + copies + s.lookups * _INDEX_BYTES, 2 * copies)
    held: NDArray[Any] = _uneven_bytes(ipu, shape, s, size) + peak
    return held


def _update_estimate(ipu: Ipu, shape: SliceShape, s: _Splits, dtype: str) -> NDArray[Any]:
    """Return the library's estimate for updates; it moves an unevenly spread table to its layout and back. [cycles]"""
    size, port, workers = DTYPE_BYTES[dtype], ipu.exchange.bytes_per_cycle, ipu.tile.worker_count
    shared, part = s.lookup_parts > 1, s.rows * s.features
    moved = 2 * ceil_div(_uneven_bytes(ipu, shape, s, size), port)
    updates = (s.row_parts > 1) * ceil_div(s.lookups * s.features * size, port)
    hits = ceil_div(s.lookups * ceil_div(s.rows, workers), shape.rows)
    own = ceil_div(part, s.lookup_parts)
    sums = strided_sum_cycles(ipu, own, s.lookup_parts)
    sent = ceil_div(s.lookup_parts * own * DTYPE_BYTES["fp32"], port)
    passes = _pass(ipu, "fill", part, "fp32") + _pass(ipu, "scaled_add", own, dtype)
    vertex = _update_vertex(ipu, s.lookups, hits, s.features, dtype)
    estimate: NDArray[Any] = s.turns * (moved + updates + vertex + shared * (sums + sent + passes))
    return estimate


def _update_parts(ipu: Ipu, shape: SliceShape, s: _Splits, dtype: str) -> dict[str, NDArray[Any]]:
    """Return the cycles of updates by kind of work. [cycles]

    Every part of the rows receives the updates. Where updates are split, copies of the table are summed.
    """
    size, port, workers = DTYPE_BYTES[dtype], ipu.exchange.bytes_per_cycle, ipu.tile.worker_count
    shared, part = s.lookup_parts > 1, s.rows * s.features
    own = ceil_div(part, s.lookup_parts)
    cut = s.row_parts > 1
    updates = ceil_div(s.lookups * (cut * s.features * size + _INDEX_BYTES), port)
    share = ceil_div(s.rows, workers) / shape.rows
    hits = expected_most_hits(s.lookups, share, np.minimum(s.rows, workers) * s.row_parts * s.lookup_parts)
    sums, stages = _sums(ipu, s, part)
    passes = shared * (_pass(ipu, "fill", part, "fp32") + _pass(ipu, "scaled_add", own, dtype))
    # The table begins as zeros, in a pass that is not part of the planned update.
    zeros = _pass(ipu, "fill", own, dtype)
    away = part * DTYPE_BYTES["fp32"] * (1 - 1 / s.lookup_parts)
    cycles, copied = ipu.vertices.call.word_copy.summed
    return {
        "vector": s.turns * _update_vertex(ipu, s.lookups, hits, s.features, dtype) + passes + zeros,
        "reduction": sums,
        "exchange": s.turns * updates + ceil_div(stages * away, port),
        "rearrange": away * cycles / copied,
        # Zeros and sums need no superstep of their own: their layouts agree.
        "superstep": (s.turns + stages) * float(ipu.superstep.overhead_cycles),
    }


def _sums(ipu: Ipu, s: _Splits, part: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the cycles and stages of the sum over copies of each part of the table.

    Many copies of a part are summed in two stages, unless they are few relative to the tiles and fill most of the chip.
    """
    few = s.lookup_parts < 2 * math.sqrt(ipu.tile.count)
    spread = s.lookup_parts * s.row_parts * s.feature_parts > _MOST_TILES * ipu.tile.count
    deep = (s.lookup_parts > ipu.vertices.reduction.one_stage_depth) & ~(few & spread)
    first = np.where(deep, np.ceil(np.sqrt(s.lookup_parts)), s.lookup_parts)
    left = ceil_div(s.lookup_parts, first)
    held = ceil_div(part, first)
    cycles = strided_sum_cycles(ipu, held, first)
    cycles = cycles + (left > 1) * strided_sum_cycles(ipu, ceil_div(held, left), left)
    shared = s.lookup_parts > 1
    return shared * cycles, shared * (1 + deep)


def _update_vertex(ipu: Ipu, lookups: Any, hits: Any, features: Any, dtype: str) -> Any:
    """Return the cycles of the update vertex: each worker scans all indices for its share of the rows. [cycles]"""
    row = ipu.vertices.update.half if dtype == "fp16" else ipu.vertices.update.single
    words = ceil_div(features * DTYPE_BYTES[dtype], DTYPE_BYTES["fp32"])
    looped = row.per_index + row.cycles_per_word * (words - 1)
    hit = np.select((words == 2, words == 4), (row.two_words, row.four_words), looped)
    fixed = row.fixed - ((words == 2) | (words == 4))
    return ipu.tile.worker_count * (fixed + hits * hit + (lookups - hits) * ipu.vertices.gather.update_skip)


def _pass(ipu: Ipu, function: str, elements: Any, dtype: str) -> Any:
    """Return the cycles of an elementwise pass over arrays of elements per tile. [cycles]"""
    vertex = ipu.vertices.elementwise[function]
    cycles, vector = vertex.single if dtype == "fp32" else vertex.half
    steps = ceil_div(ceil_div(elements, ipu.tile.worker_count), vector)
    return ipu.vertices.call.launch + ipu.tile.worker_count * (vertex.fixed + cycles * steps)


def expected_most_hits(draws: Any, share: Any, workers: Any) -> Any:
    """Return the expected maximum of hits over `workers` workers.

    Each worker makes `draws` draws, each of which hits with the probability `share`. The mean of the maximum of n
    binomial counts is estimated as Blom's quantile, with the skewness of the distribution. It is exact for `share` = 1.
    """
    counts = np.atleast_1d(np.asarray(workers, dtype=float))
    chance = (counts - _BLOM) / (counts + 1 - 2 * _BLOM)
    place = np.array([NormalDist().inv_cdf(each) for each in chance])
    mean, share = np.asarray(draws * share, dtype=float), np.minimum(share, 1.0)
    spread = np.sqrt(mean * (1 - share))
    most = mean + place * spread + (place**2 - 1) * (1 - 2 * share) / _SKEW * (share < 1)
    return np.clip(most, np.minimum(mean, draws), draws)
