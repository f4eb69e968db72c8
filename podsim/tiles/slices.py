"""Rows of a table read or added to, as the library plans them: multi-slice and multi-update-add.

A table is cut along its rows and along its features, in grains of eight bytes, and the lookups are shared out; the
product of the parts is at most the tiles of the chip. The library takes the split with the least cycles of its own
estimates whose temporaries fit, and serves lookups in turns where that needs less memory. Its estimates know neither
synchronisation nor chance: the cost of the split that it took has supersteps, and the fullest of all workers where
indices are random.

Source: [poplibs_popops] for planner and objective, [poplibs_estimators] for the vertices.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from podsim.errors import NoPlanError
from podsim.models.op import DTYPE_BYTES
from podsim.scenario.ipu import Ipu
from podsim.tiles.account import Account
from podsim.tiles.plans import SliceKind, SlicePlan, SliceShape
from podsim.tiles.split import choose, distinct_parts, sum_partials
from podsim.tiles.vector import ceil_div

_INDEX_BYTES: Final = 4
_GRAIN_BYTES: Final = 8
_LEAST_ROWS: Final = 2
"""Of a tile, where a table is cut along its rows."""
_TURNS: Final = tuple(1 << exponent for exponent in range(12))
"""Parts of the lookups that are served one after the other."""
_BLOM: Final = 0.375
"""The largest of n draws lies at the share (n - 0.375)/(n + 0.25) of their distribution."""
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
    """The split that the library takes, and its cost where indices are spread at random over the rows.

    Args:
        ipu: The chip.
        kind: Whether rows are read or added to.
        shape: The table and its lookups.
        dtype: Format of the elements: `fp16` or `fp32`.
        available_memory_proportion: Share of tile memory for temporaries, above 0.

    Raises:
        NoPlanError: Table, lookups or results are larger than the memory of the chip.
    """
    if max(shape.rows, shape.lookups) * shape.features * DTYPE_BYTES[dtype] > ipu.memory_bytes:
        what = f"{shape.lookups:,} rows of {shape.features:,} in a table of {shape.rows:,} do not fit {ipu.name}"
        raise NoPlanError(what, do="make the table, its rows or the lookups fewer")
    splits = _splits(ipu, shape, dtype)
    cost, temporary = (_slice_parts, _slice_bytes) if kind == "multi-slice" else (_update_parts, _update_bytes)
    planned = cost(ipu, shape, splits, dtype, random=False)
    objective = sum(cycles for name, cycles in planned.items() if name != "superstep")
    held = temporary(splits, DTYPE_BYTES[dtype])
    best = choose(np.asarray(objective), held, ipu.tile.memory_bytes, available_memory_proportion)
    one = _Splits(*(getattr(splits, name)[best : best + 1] for name in _Splits.__slots__))
    parts = cost(ipu, shape, one, dtype, random=True)
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


def _slice_bytes(s: _Splits, size: int) -> NDArray[Any]:
    """A copy of the part of the table, indices, and rows found on their way to be collected. [B]"""
    shared, cut = s.lookup_parts > 1, s.row_parts > 1
    row_bytes = s.features * size
    held: NDArray[Any] = shared * s.rows * row_bytes + s.lookups * (_INDEX_BYTES + 2 * cut * row_bytes)
    return held


def _slice_parts(ipu: Ipu, shape: SliceShape, s: _Splits, dtype: str, *, random: bool) -> dict[str, NDArray[Any]]:
    """Each tile looks in its part of the table; where that has only some of the rows, found rows are collected."""
    row_bytes, port = s.features * DTYPE_BYTES[dtype], ipu.exchange.bytes_per_cycle
    shared, cut = s.lookup_parts > 1, s.row_parts > 1
    own = ceil_div(s.lookups, s.row_parts)
    broadcast = shared * ceil_div(s.rows * row_bytes, port)
    indices = ceil_div(s.lookups * _INDEX_BYTES, port)
    collected = cut * ceil_div(s.row_parts * own * row_bytes, port)
    mine = ceil_div(s.lookups, ipu.tile.worker_count)
    hits = ceil_div(mine, s.row_parts)
    if random:
        hits = fullest(mine, s.rows / shape.rows, ipu.tile.worker_count * s.lookup_parts * s.row_parts)
    vertex = _slice_vertex(ipu, s.lookups, mine, hits, s.features, dtype)
    mine = ceil_div(own, ipu.tile.worker_count)
    second = cut * _slice_vertex(ipu, own, mine, mine, s.features, dtype)
    return {
        "vector": s.turns * (vertex + second),
        "exchange": s.turns * (broadcast + collected + random * indices),
        # The table is handed out, indices are and rows looked up, the indices of found rows made, and these collected.
        "superstep": s.turns * (1 + shared + 2 * cut) * float(ipu.superstep.overhead_cycles),
    }


def _slice_vertex(ipu: Ipu, lookups: Any, mine: Any, hits: Any, features: Any, dtype: str) -> Any:
    """Workers share the lookups; the words of a single one are spread over them. [cycles]"""
    vertex, workers = ipu.vertices.gather, ipu.tile.worker_count
    vectors = ceil_div(features, 2)  # of two elements in either format
    vectors = np.where(lookups == 1, ceil_div(vectors, workers), vectors)
    found = hits * (vertex.per_index + vectors * vertex.cycles_per_pair)
    return workers * (vertex.worker_fixed + found + (mine - hits) * vertex.skip)


def _update_bytes(s: _Splits, size: int) -> NDArray[Any]:
    """Updates and indices received, and single-precision copies of the part of the table with those summed. [B]"""
    part = s.rows * s.features
    copies = np.where(s.lookup_parts > 1, 2 * part * DTYPE_BYTES["fp32"], part * size)
    held: NDArray[Any] = s.lookups * (_INDEX_BYTES + s.features * size) + copies
    return held


def _update_parts(ipu: Ipu, shape: SliceShape, s: _Splits, dtype: str, *, random: bool) -> dict[str, NDArray[Any]]:
    """Updates go to every part of the rows; where lookups are shared out, copies of the table are summed."""
    size, port, workers = DTYPE_BYTES[dtype], ipu.exchange.bytes_per_cycle, ipu.tile.worker_count
    shared, part = s.lookup_parts > 1, s.rows * s.features
    own = ceil_div(part, s.lookup_parts)
    moved = 2 * ceil_div(own * size, port)
    updates = ceil_div(s.lookups * (s.features * size + random * _INDEX_BYTES), port)
    hits = ceil_div(s.lookups * ceil_div(s.rows, workers), shape.rows)
    if random:
        share = ceil_div(s.rows, workers) / shape.rows
        busy = np.minimum(s.rows, workers) * s.row_parts * s.lookup_parts
        hits = fullest(s.lookups, share, busy)
    sums, sums_exchange, stages = sum_partials(ipu, part, s.lookup_parts, "fp32")
    passes = shared * (_pass(ipu, "fill", part, "fp32") + _pass(ipu, "scaled_add", own, dtype))
    # The table begins as zeros: a pass that the planner of the update does not see.
    zeros = random * _pass(ipu, "fill", ceil_div(shape.rows * shape.features, ipu.tile.count), dtype)
    return {
        "vector": s.turns * _update_vertex(ipu, s.lookups, hits, s.features, dtype) + passes + zeros,
        "reduction": sums,
        "exchange": s.turns * updates + sums_exchange,
        "rearrange": moved,
        # Zeros, the table to and from the plan's layout, updates; copies: zeros, sums and what they are added to.
        "superstep": (3 + s.turns + shared * (2 + stages)) * float(ipu.superstep.overhead_cycles),
    }


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
    """The most hits that one of many workers expects, each of whose draws hits with the same chance.

    The mean of the largest of n binomial counts, by Blom's place of the largest and a quantile with the skewness of
    the binomial distribution. Exact where every draw hits.

    Args:
        draws: Of one worker.
        share: Chance of a hit, 0 to 1.
        workers: Independent counts.
    """
    counts = np.atleast_1d(np.asarray(workers, dtype=float))
    chance = (counts - _BLOM) / (counts + 1 - 2 * _BLOM)
    place = np.array([NormalDist().inv_cdf(each) for each in chance])
    mean, share = np.asarray(draws * share, dtype=float), np.minimum(share, 1.0)
    spread = np.sqrt(mean * (1 - share))
    most = mean + place * spread + (place**2 - 1) * (1 - 2 * share) / _SKEW * (share < 1)
    return np.clip(most, np.minimum(mean, draws), draws)
