"""Rows of a table read or added to, as the library plans them: multi-slice and multi-update-add.

A table is cut along rows and features, in grains of eight bytes, and lookups are shared out. The split has the least
cycles of the library's own estimates, without synchronisation or chance, whose temporaries fit; its cost here has
supersteps, and the fullest of all workers where indices are random. Source: [poplibs_popops], [poplibs_estimators].
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
"""Of a tile, where a table is cut along its rows."""
_TURNS: Final = tuple(1 << exponent for exponent in range(12))
"""Parts of the lookups that are served one after the other."""
_BLOM: Final = 0.375
"""The largest of n draws lies at the share (n - 0.375)/(n + 0.25) of their distribution."""
_MOST_TILES: Final = 0.75
"""Share of the tiles from which sums are spread over enough of them."""
_SKEW: Final = 6
"""Divisor of the skewness in Cornish and Fisher's expansion of a quantile."""


@dataclass(frozen=True, slots=True)
class _Splits:
    """Splits to cost, as arrays of one length; lookups, rows and features are those of one tile and turn."""

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
    """The split that the library takes, and its cost where indices are spread at random over rows; fp16 or fp32."""
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
    """What a tile's part of the table is more than its even share: the library counts it as moved there. [B]"""
    grain = _GRAIN_BYTES // size
    even = ceil_div(shape.rows * ceil_div(shape.features, grain), ipu.tile.count) * grain * size
    more: NDArray[Any] = np.maximum(s.rows * s.features * size - even, 0)
    return more


def _slice_bytes(ipu: Ipu, shape: SliceShape, s: _Splits, size: int) -> NDArray[Any]:
    """A copy of the part of the table, indices, and rows found on their way to be collected. [B]"""
    shared, cut = s.lookup_parts > 1, s.row_parts > 1
    row_bytes, own = s.features * size, ceil_div(s.lookups, s.row_parts)
    copied = np.maximum(shared * s.rows * row_bytes, _uneven_bytes(ipu, shape, s, size))
    found = cut * s.lookups * row_bytes
    first = copied + found + s.lookups * _INDEX_BYTES
    second = found + cut * s.row_parts * own * row_bytes + own * _INDEX_BYTES
    held: NDArray[Any] = np.maximum(first, second + (s.turns > 1) * copied)
    return held


def _slice_estimate(ipu: Ipu, shape: SliceShape, s: _Splits, dtype: str) -> NDArray[Any]:
    """The objective of the library, in whose second stage workers skip as many lookups as in the first. [cycles]"""
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
    """Each tile looks in its part of the table; where that has only some of the rows, found rows are collected."""
    row_bytes, port, workers = s.features * DTYPE_BYTES[dtype], ipu.exchange.bytes_per_cycle, ipu.tile.worker_count
    shared, cut = s.lookup_parts > 1, s.row_parts > 1
    own = ceil_div(s.lookups, s.row_parts)
    broadcast = shared * ceil_div(s.rows * row_bytes, port)
    indices = ceil_div(s.lookups * _INDEX_BYTES, port)
    collected = cut * ceil_div(s.row_parts * own * row_bytes, port)
    mine = ceil_div(s.lookups, workers)
    hits = fullest(mine, s.rows / shape.rows, workers * s.lookup_parts * s.row_parts)
    spent = ipu.vertices.gather
    vertex = _slice_vertex(ipu, spent, s.lookups, mine, hits, s.features)
    mine = ceil_div(own, workers)
    second = cut * _slice_vertex(ipu, spent, own, mine, mine, s.features)
    places, pieces = _places(ipu, shape, s)
    return {
        "vector": s.turns * (vertex + second + cut * places),
        "exchange": broadcast + s.turns * (collected + indices),
        "rearrange": s.turns * cut * pieces,
        # Table and indices are handed out together; the places of found rows are made, and these collected.
        "superstep": s.turns * (1 + 2 * cut) * float(ipu.superstep.overhead_cycles),
    }


def _places(ipu: Ipu, shape: SliceShape, s: _Splits) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cycles of a pass that makes the place of each found row, and of what it copies word by word. [cycles]

    The part of the table that an index falls into, times the rows found there, and a counter. The part is an index
    divided by the rows of a part, which only for a power of two needs no division.
    """
    share = np.maximum(ceil_div(ceil_div(shape.lookups, s.turns), ipu.tile.count), LEAST_INDICES)
    share = np.minimum(share, shape.lookups)
    divided = (s.rows & (s.rows - 1)) > 0
    workers, (cycles, copied) = ipu.tile.worker_count, ipu.vertices.call.pieces.four
    division = workers * ceil_div(share, workers) * divided * ipu.vertices.gather.divide
    counted = _pass(ipu, "add", share, "fp32") + _pass(ipu, "scaled_add", share, "fp32")
    # Counters and numbers of rows are handed out to the tiles of the indices.
    return counted + division, 2 * share * _INDEX_BYTES * cycles / copied


def _slice_vertex(
    ipu: Ipu, priced: GatherVertex | PlannedLookUp, lookups: Any, mine: Any, hits: Any, features: Any
) -> Any:
    """Workers share the lookups; the words of a single one are spread over them. [cycles]"""
    vertex, workers = ipu.vertices.gather, ipu.tile.worker_count
    vectors = ceil_div(features, 2)  # of two elements in either format
    vectors = np.where(lookups == 1, ceil_div(vectors, workers), vectors)
    found = hits * (priced.per_index + vectors * vertex.cycles_per_pair)
    return workers * (priced.worker_fixed + found + (mine - hits) * vertex.skip)


def _update_bytes(ipu: Ipu, shape: SliceShape, s: _Splits, size: int) -> NDArray[Any]:
    """Updates and indices received, and single-precision copies of the part of the table with those summed. [B]"""
    shared, cut = s.lookup_parts > 1, s.row_parts > 1
    copies = shared * s.rows * s.features * DTYPE_BYTES["fp32"]
    received = cut * s.lookups * s.features * size
    peak = np.maximum(received + copies + s.lookups * _INDEX_BYTES, 2 * copies)
    held: NDArray[Any] = _uneven_bytes(ipu, shape, s, size) + peak
    return held


def _update_estimate(ipu: Ipu, shape: SliceShape, s: _Splits, dtype: str) -> NDArray[Any]:
    """The objective of the library, which moves a table that lies unevenly to its layout and back. [cycles]"""
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
    """Updates go to every part of the rows; where lookups are shared out, copies of the table are summed."""
    size, port, workers = DTYPE_BYTES[dtype], ipu.exchange.bytes_per_cycle, ipu.tile.worker_count
    shared, part = s.lookup_parts > 1, s.rows * s.features
    own = ceil_div(part, s.lookup_parts)
    cut = s.row_parts > 1
    updates = ceil_div(s.lookups * (cut * s.features * size + _INDEX_BYTES), port)
    share = ceil_div(s.rows, workers) / shape.rows
    hits = fullest(s.lookups, share, np.minimum(s.rows, workers) * s.row_parts * s.lookup_parts)
    sums, stages = _sums(ipu, s, part)
    passes = shared * (_pass(ipu, "fill", part, "fp32") + _pass(ipu, "scaled_add", own, dtype))
    # The table begins as zeros: a pass that the planner of the update does not see.
    zeros = _pass(ipu, "fill", own, dtype)
    away = part * DTYPE_BYTES["fp32"] * (1 - 1 / s.lookup_parts)
    cycles, copied = ipu.vertices.call.word_copy.summed
    return {
        "vector": s.turns * _update_vertex(ipu, s.lookups, hits, s.features, dtype) + passes + zeros,
        "reduction": sums,
        "exchange": s.turns * updates + ceil_div(stages * away, port),
        "rearrange": away * cycles / copied,
        # Zeros and the sum that is added to them lie where they are needed.
        "superstep": (s.turns + stages) * float(ipu.superstep.overhead_cycles),
    }


def _sums(ipu: Ipu, s: _Splits, part: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Cycles and stages of summing the copies of each part of the table.

    A second stage comes first where more tiles than a few have a copy of each, or where few tiles have any.
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
    """Workers share the rows of the tile, and each scans all lookups for its own. [cycles]"""
    row = ipu.vertices.update.half if dtype == "fp16" else ipu.vertices.update.single
    words = ceil_div(features * DTYPE_BYTES[dtype], DTYPE_BYTES["fp32"])
    looped = row.per_index + row.cycles_per_word * (words - 1)
    hit = np.select((words == 2, words == 4), (row.two_words, row.four_words), looped)
    fixed = row.fixed - ((words == 2) | (words == 4))
    return ipu.tile.worker_count * (fixed + hits * hit + (lookups - hits) * ipu.vertices.gather.update_skip)


def _pass(ipu: Ipu, function: str, elements: Any, dtype: str) -> Any:
    """An elementwise pass over arrays of elements per tile. [cycles]"""
    vertex = ipu.vertices.elementwise[function]
    cycles, vector = vertex.single if dtype == "fp32" else vertex.half
    steps = ceil_div(ceil_div(elements, ipu.tile.worker_count), vector)
    return ipu.vertices.call.launch + ipu.tile.worker_count * (vertex.fixed + cycles * steps)


def fullest(draws: Any, share: Any, workers: Any) -> Any:
    """The most hits that one of many workers expects, each of whose draws hits with the chance `share` (0 to 1).

    The mean of the largest of n binomial counts, by Blom's place of the largest and a quantile with the skewness of
    the binomial distribution. Exact where every draw hits.
    """
    counts = np.atleast_1d(np.asarray(workers, dtype=float))
    chance = (counts - _BLOM) / (counts + 1 - 2 * _BLOM)
    place = np.array([NormalDist().inv_cdf(each) for each in chance])
    mean, share = np.asarray(draws * share, dtype=float), np.minimum(share, 1.0)
    spread = np.sqrt(mean * (1 - share))
    most = mean + place * spread + (place**2 - 1) * (1 - 2 * share) / _SKEW * (share < 1)
    return np.clip(most, np.minimum(mean, draws), draws)
