"""Cycles of the 1x1 matrix vertex for a tile's part of a product [poplibs_poplin], and on Bow [tessellate_flops]."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.scenario.ipu import Ipu
from podsim.tiles.vector import ceil_div

Cycles = NDArray[Any]


def amp_vertex_cycles(
    ipu: Ipu,
    rows: Any,  # output positions that stream through each block of weights
    in_groups: Any,  # groups of input channels (32 in FP8, 16 in FP16 or 8 in FP32)
    out_groups: Any,  # groups of output channels
    conv_groups: Any = 1,
    dtype: str = "fp16",
    partials: str = "fp16",
    out_grain: int | None = None,  # channels of a group of output channels; 16 if None
) -> Cycles:
    """Return the cycles of one vertex on one tile; integer arrays give arrays. [cycles]"""
    vertex, workers = ipu.vertices.amp, ipu.tile.worker_count
    pass_count, load = weight_load_cycles(ipu, dtype, partials, out_grain)
    later, first = (_inner_cycles(ipu, rows, dtype, partials, first_pass) for first_pass in (False, True))
    block_later = out_groups * (vertex.out_group.later + pass_count * (vertex.pass_.later + load + later))
    block_first = out_groups * (vertex.out_group.first + pass_count * (vertex.pass_.first + load + first))
    per_group = vertex.conv_group + (in_groups - 1) * (vertex.in_group + block_later)
    per_group = per_group + vertex.conv_group_last + block_first
    start = workers * (vertex.worker_fixed + vertex.worker_per_in_group * (in_groups * conv_groups - 1))
    result: Cycles = np.asarray(vertex.fixed + start + conv_groups * per_group)
    return result


def weight_load_cycles(ipu: Ipu, dtype: str, partials: str, out_grain: int | None = None) -> tuple[int, int]:
    """Return the passes for a group of output channels [passes] and the cycles to load one pass's weights [cycles]."""
    amp = ipu.amp
    grain = out_grain or amp.half_conv_units
    units = min(amp.conv_units(dtype, partials), grain)
    # One 64-bit load feeds 8 bytes of the 32-byte coefficient line of each unit and input group.
    load = units * amp.channel_bytes(dtype) // amp.weight_load_width_bytes
    return int(ceil_div(grain, units)), load


def out_grains(ipu: Ipu, channels: int) -> tuple[int, ...]:
    """Return the sizes of groups of output channels that are worth costing; half of the units pad fewer channels.

    Source: [poplibs_poplin].
    """
    whole, half = ipu.amp.half_conv_units, ipu.amp.half_conv_units // 2
    return (whole, half) if half and ceil_div(channels, half) % 2 else (whole,)


def _inner_cycles(ipu: Ipu, rows: Any, dtype: str, partials: str, first_pass: bool) -> Any:
    """Return the cycles of the worker loop over the positions of one block. [cycles]"""
    workers = ipu.tile.worker_count
    fullest = ceil_div(rows, workers)
    # Workers take equal shares one after the other; the last worker gets the remainder, possibly nothing.
    last = np.maximum(rows - (workers - 1) * fullest, 0)
    full, rest = (_worker_cycles(ipu, positions, dtype, partials, first_pass) for positions in (fullest, last))
    return np.maximum(workers * np.maximum(full, rest), workers * np.minimum(full, rest) + ipu.vertices.amp.tail)


def _worker_cycles(ipu: Ipu, positions: Any, dtype: str, partials: str, first_pass: bool) -> Any:
    """Return one worker's cycles for its positions; FP8 and FP16 differ only in the unit's rate. [worker cycles]"""
    vertex, half = ipu.vertices.amp, dtype != "fp32"
    passes = vertex.half_worker if half else vertex.single_worker
    table = np.asarray(passes.first if first_pass else passes.later)
    unit = ipu.amp.cycles_per_position(dtype, partials)
    slope = unit + (vertex.single_first_cycles_per_position if first_pass and not half else 0)
    saving = vertex.retention_saving if half else 0
    estimate = table[np.minimum(positions, 3)] + slope * np.maximum(positions - 3, 0) - saving
    # The table of short loops was measured on one unit; a slower unit takes longer for the same positions.
    return np.maximum(estimate, unit * positions)
