"""Cycles of the vertices of convolutions, for one tile's share.

Integer arrays give arrays. Source: [poplibs_poplin], performance estimates of the partial convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from podsim.models.op import DTYPE_BYTES
from podsim.scenario.hardware import present
from podsim.scenario.ipu import Ipu
from podsim.tiles.amp import weight_load_cycles
from podsim.tiles.vector import ceil_div

Cycles = NDArray[Any]


@dataclass(frozen=True, slots=True)
class RowSegments:
    """Segments of the output rows of one tile, shared evenly among its workers; one line per worker."""

    width: NDArray[Any]  # positions of a complete row
    first: NDArray[Any]  # positions of a row that the previous worker began
    whole: NDArray[Any]  # number of complete rows
    last: NDArray[Any]  # positions of a row that the next worker finishes

    def worker_cycles(self, segment_cycles: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[Any]:
        """Return each worker's total, given the cycles of a segment by its length. [worker cycles]"""
        ends = [np.where(end > 0, segment_cycles(end), 0) for end in (self.first, self.last)]
        return np.asarray(ends[0] + self.whole * segment_cycles(self.width) + ends[1])


def row_segments(worker_count: int, rows: Any, width: Any) -> RowSegments:
    """Return the segments of each worker when all workers take equal shares of the positions.

    >>> segments = row_segments(6, 4, 9)
    >>> [int(n) for n in segments.first], [int(n) for n in segments.last]
    ([0, 3, 6, 0, 3, 6], [6, 3, 0, 6, 3, 0])
    """
    begin = np.arange(worker_count).reshape(-1, *[1] * np.ndim(rows)) * rows
    end = begin + rows
    begun, ended = begin % worker_count, end % worker_count
    cut_begin, cut_end = begun * width // worker_count, ended * width // worker_count
    one_row = begin // worker_count == end // worker_count
    first = np.where(one_row | (begun == 0), 0, width - cut_begin)
    whole = np.where(one_row, 0, end // worker_count - ceil_div(begin, worker_count))
    return RowSegments(np.asarray(width), first, whole, np.where(one_row, cut_end - cut_begin, cut_end))


def nx1_worker_cycles(ipu: Ipu, segments: RowSegments, dtype: str, partials: str) -> tuple[Cycles, Cycles]:
    """Return the slowest and fastest worker's time for a kernel position and a channel block. [worker cycles]"""
    vertex, half = ipu.vertices.nx1, dtype != "fp32"
    more = vertex.half_partials if partials == "fp16" else 0
    table = np.array(vertex.half_segment if half else vertex.single_segment)
    table[2] += more
    table += vertex.segment - vertex.segment_saving
    slope = ipu.amp.cycles_per_position(dtype, partials)
    cycles = segments.worker_cycles(
        lambda n: np.maximum(table[np.minimum(n, 3)] + slope * np.maximum(n - 3, 0), slope * n)
    )
    cycles = cycles + vertex.worker + more
    return cycles.max(axis=0), cycles.min(axis=0)


@dataclass(frozen=True, slots=True)
class TileShare:
    """Share of a convolution that one tile computes."""

    conv_groups: Any  # groups of the convolution, or sets of groups
    in_groups: Any  # grains of input channels
    out_groups: Any  # grains of output channels
    positions: Any  # output positions of one group and channel
    kernel_rows: Any  # rows of the kernel, over all axes except the last
    kernel_width: Any  # positions of one row of the kernel
    out_grain: int | None = None  # channels of a group of output channels of the matrix unit; 16 if None


def nx1_cycles(
    ipu: Ipu, share: TileShare, workers: tuple[Any, Any], filter_height: int, dtype: str, partials: str
) -> Cycles:
    """Return the cycles of the matrix vertex for spatial kernels. [cycles]

    The vertex holds `filter_height` = 1, 2 or 4 kernel rows at once; `share.kernel_rows` counts steps of this height.
    `workers` holds the slowest and the fastest worker's time for a kernel position and a channel block. [worker cycles]
    """
    v, count = ipu.vertices.nx1, ipu.tile.worker_count
    passes, load = weight_load_cycles(ipu, dtype, partials, share.out_grain)
    load += v.filter_load.for_rows(filter_height) + v.pass_
    taps = share.kernel_rows * share.kernel_width
    slowest, fastest = workers
    inner = share.kernel_rows * v.kernel_row + taps * (v.kernel_position + passes * load)
    inner = inner + taps * passes * np.maximum(count * slowest, count * fastest + v.tail)
    per_group = v.conv_group + share.in_groups * (v.in_group + share.out_groups * (v.out_group + inner))
    fixed = v.fixed + count * v.worker_fixed
    return np.asarray(fixed + _zero_cycles(ipu, share, partials) + share.conv_groups * per_group)


def _zero_cycles(ipu: Ipu, share: TileShare, partials: str) -> Any:
    """Return the time to clear the partials before a vertex adds to them. [cycles]"""
    v, groups, outs = ipu.vertices.nx1, share.conv_groups, share.out_groups
    per_vector = ipu.tile.vector_width_bytes // DTYPE_BYTES[partials]
    grain = share.out_grain or ipu.amp.half_conv_units
    elements = ceil_div(share.positions, ipu.tile.worker_count) * grain
    clear = ipu.tile.worker_count * outs * groups * (ceil_div(elements, per_vector) + v.zero_worker)
    calls = groups * (v.zero_call * outs + v.zero_loop * (outs - 1) + v.zero_end)
    return clear + calls + v.zero_loop * (groups - 1) + v.zero_end


def slic_worker_cycles(ipu: Ipu, segments: RowSegments, stride: int, partials: str) -> Cycles:
    """Return the slowest worker's time for one part of a kernel row, output stride 1 or 2. [worker cycles]"""
    vertex = present(ipu.vertices.slic)
    passes = vertex.passes.for_format(partials)
    short, slope = vertex.row_positions.for_stride(stride), vertex.row_cycles_per_position.for_stride(stride)
    cycles = segments.worker_cycles(
        lambda n: vertex.work_item + passes * (vertex.row + slope * np.maximum(n - short, 0))
    )
    return np.asarray(cycles.max(axis=0))


def slic_cycles(ipu: Ipu, share: TileShare, slowest_worker: Any, channels: int, phases: Any = 1) -> Cycles:
    """Return the cycles of the vertex for short kernels of grouped convolutions. [cycles]

    Args:
        ipu: Chip with costs of its vertices.
        share: The tile's share; `conv_groups` counts sets of groups with 4 channels in total.
        slowest_worker: Time of the slowest worker for one part of a kernel row. [worker cycles]
        channels: Channels of one group: 1, 2 or 4.
        phases: Number of sub-kernels into which zeros between the inputs divide a row of the kernel.
    """
    vertex = present(ipu.vertices.slic)
    sub_kernels = share.kernel_rows * phases * ceil_div(ceil_div(share.kernel_width, phases), vertex.kernel_width)
    load = vertex.weight_load[channels.bit_length() - 1]
    per_part = vertex.sub_kernel + load + ipu.tile.worker_count * slowest_worker
    blocks = share.conv_groups * share.in_groups * share.out_groups
    return np.asarray(vertex.fixed + blocks * sub_kernels * per_part)


def vmac_cycles(ipu: Ipu, share: TileShare, group_width: int) -> Cycles:
    """Return the cycles of multiply-adds over 8 or 16 groups at once; `conv_groups` counts such sets. [cycles]"""
    vertex, count = present(ipu.vertices.vmac), ipu.tile.worker_count
    vectors = group_width // vertex.half_width
    segments = ceil_div(share.positions * share.kernel_rows, count)
    worker = vertex.worker.for_width(vectors) + segments * (vertex.segment + vertex.tap * vectors * share.kernel_width)
    clear = ceil_div(share.positions * group_width * DTYPE_BYTES["fp16"], ipu.tile.vector_width_bytes)
    reduce = vertex.reduce + vertex.reduce_cycles_per_output * share.positions
    one = vertex.group + clear + share.in_groups * (vertex.in_channel + count * worker) + reduce
    return np.asarray(vertex.fixed + share.conv_groups * share.out_groups * one)


def hmac_cycles(ipu: Ipu, share: TileShare, in_grain: int, dtype: str) -> Cycles:
    """Return the cycles of dot products over the input channels, one per output and kernel position. [cycles]"""
    vertex = ipu.vertices.hmac
    products = ceil_div(share.in_groups * in_grain, vertex.products_per_cycle(dtype))
    taps = share.kernel_rows * share.kernel_width
    outputs = ceil_div(share.conv_groups * share.positions * share.out_groups, ipu.tile.worker_count)
    worker = outputs * taps * (vertex.output + products)
    return np.asarray(ipu.vertices.call.launch + ipu.tile.worker_count * worker)


def outer_product_cycles(ipu: Ipu, share: TileShare) -> Cycles:
    """Return the cycles of products with one input channel and a kernel of one position. [cycles]"""
    vertex = ipu.vertices.outer_product
    more = ceil_div(np.maximum(share.out_groups - vertex.position_channels, 0), vertex.channels_per_cycle)
    positions = ceil_div(share.positions, ipu.tile.worker_count)
    worker = vertex.fixed + share.conv_groups * (vertex.group + positions * (vertex.position + more))
    return np.asarray(ipu.vertices.call.launch + ipu.tile.worker_count * worker)
