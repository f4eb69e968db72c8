"""Cycle estimates of the vertices of convolutions and matrix products."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.scenario.base import Spec
from podsim.scenario.quantity import Count, CountOrZero

Pair = Annotated[tuple[Count, ...], Field(min_length=2, max_length=2)]
Three = Annotated[tuple[Count, ...], Field(min_length=3, max_length=3)]
Four = Annotated[tuple[Count, ...], Field(min_length=4, max_length=4)]


class Passes(Spec):
    """Cycles of the first pass over the inputs and of each later pass."""

    later: CountOrZero
    """Later passes."""
    first: CountOrZero
    """The pass that also clears the partials."""


class WorkerTable(Spec):
    """Worker cycles for 0, 1, 2 and 3 output positions."""

    later: Four
    """Later passes."""
    first: Four
    """The pass that also clears the partials."""


class ByFormat(Spec):
    """Two numbers, for half and for single precision."""

    half: CountOrZero
    """Half precision."""
    single: CountOrZero
    """Single precision."""

    def for_format(self, dtype: str) -> int:
        """Return the number for `fp16` or `fp32`."""
        return self.half if dtype == "fp16" else self.single


class ElementsByFormat(ByFormat):
    """Two numbers of elements, for half and for single precision; at least one each."""

    half: Count
    """Half precision."""
    single: Count
    """Single precision."""


class AmpVertex(Spec):
    """The matrix vertex for kernels of one position."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Worker cycles of a call."""
    worker_per_in_group: CountOrZero
    """Worker cycles per group of input channels."""
    conv_group: CountOrZero
    """Supervisor cycles per product."""
    conv_group_last: CountOrZero
    """Supervisor cycles for the last group of input channels of a product."""
    in_group: CountOrZero
    """Supervisor cycles per group of input channels."""
    out_group: Passes
    """Supervisor cycles per group of output channels."""
    pass_: Passes = Field(alias="pass")
    """Supervisor cycles per pass."""
    half_worker: WorkerTable
    """Worker cycles, half inputs."""
    single_worker: WorkerTable
    """Worker cycles, single inputs."""
    single_first_cycles_per_position: CountOrZero
    """Extra cycles of a position in the first pass, single inputs."""
    retention_saving: CountOrZero
    """Worker cycles saved by state retention, half inputs."""
    tail: CountOrZero
    """Cycles between the fastest worker's end and the next start."""

    @model_validator(mode="after")
    def _saving_is_possible(self) -> AmpVertex:
        least = min(self.half_worker.later + self.half_worker.first)
        if self.retention_saving > least:
            what = f"retention_saving {self.retention_saving} is above the {least} cycles of half_worker"
            raise BadValueError(what, "lower it")
        return self


class ByFilterHeight(Spec):
    """Cycles by the number of kernel rows whose weights are in the matrix unit at the same time."""

    one: CountOrZero
    """One row."""
    two: CountOrZero
    """Two rows."""
    four: CountOrZero
    """Four rows."""

    def for_rows(self, rows: int) -> int:
        """Return the cycles for 1, 2 or 4 kernel rows."""
        return {1: self.one, 2: self.two, 4: self.four}[rows]


class ByStride(Spec):
    """Two numbers, for output strides of 1 and of 2."""

    one: Count
    """Stride of 1."""
    two: Count
    """Stride of 2."""

    def for_stride(self, stride: int) -> int:
        """Return the number for a stride of 1 or 2."""
        return {1: self.one, 2: self.two}[stride]


class ByWidth(Spec):
    """Cycles for vectors of half and of full width."""

    half_width: CountOrZero
    """Half width."""
    full_width: CountOrZero
    """Full width."""

    def for_width(self, halves: int) -> int:
        """Return the cycles for vectors of 1 or 2 half widths."""
        return {1: self.half_width, 2: self.full_width}[halves]


class Nx1Vertex(Spec):
    """The matrix vertex for kernels of several positions."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Worker cycles of a call."""
    zero_call: CountOrZero
    """Supervisor cycles to clear the partials of a group of output channels."""
    zero_loop: CountOrZero
    """Supervisor cycles between two groups of output channels, and between convolution groups."""
    zero_end: CountOrZero
    """Supervisor cycles after the last group of output channels."""
    zero_worker: CountOrZero
    """Worker cycles to clear a group, without its vectors."""
    conv_group: CountOrZero
    """Supervisor cycles per convolution group."""
    in_group: CountOrZero
    """Supervisor cycles per group of input channels."""
    out_group: CountOrZero
    """Supervisor cycles per group of output channels."""
    kernel_row: CountOrZero
    """Supervisor cycles per row of the kernel."""
    kernel_position: CountOrZero
    """Supervisor cycles per position of the kernel."""
    filter_load: ByFilterHeight
    """Supervisor cycles to set up a load of weights."""
    pass_: CountOrZero = Field(alias="pass")
    """Supervisor cycles per pass."""
    worker: CountOrZero
    """Worker cycles per position of the kernel."""
    segment: CountOrZero
    """Worker cycles per row segment."""
    segment_saving: CountOrZero
    """Worker cycles saved per row segment by state retention."""
    half_segment: Four
    """Worker cycles of a row segment of 0, 1, 2 and 3 positions, half inputs; 0 is information, no segment is empty."""
    single_segment: Four
    """Worker cycles of a row segment of 0, 1, 2 and 3 positions, single inputs."""
    half_partials: CountOrZero
    """Worker cycles that half partials cost more per position of the kernel and segment of two."""
    tail: CountOrZero
    """Cycles between the fastest worker's end and the next start."""

    @model_validator(mode="after")
    def _saving_is_possible(self) -> Nx1Vertex:
        least = self.segment + min(self.half_segment + self.single_segment)
        if self.segment_saving > least:
            raise BadValueError(f"segment_saving {self.segment_saving} is above the {least} of a segment", "lower it")
        return self


class SlicVertex(Spec):
    """The vertex for short kernels of grouped convolutions."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    sub_kernel: CountOrZero
    """Supervisor cycles per part of a kernel row."""
    kernel_width: Count
    """Positions of a kernel row that are computed at once."""
    channels: Count
    """Channels that are computed at once, of one or several groups."""
    weight_load: Three
    """Cycles to load weights for 1, 2 and 4 channels per group."""
    work_item: CountOrZero
    """Worker cycles per row segment."""
    row: CountOrZero
    """Worker cycles of a short row segment per pass."""
    row_positions: ByStride
    """Positions of a short row segment."""
    row_cycles_per_position: ByStride
    """Worker cycles of each further position."""
    passes: ElementsByFormat
    """Passes over the input, by format of the partials."""


class VmacVertex(Spec):
    """The vertex that multiplies and adds vectors over convolution groups."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    group: CountOrZero
    """Supervisor cycles per set of groups."""
    in_channel: CountOrZero
    """Supervisor cycles per input channel."""
    worker: ByWidth
    """Worker cycles of a call."""
    half_width: Count
    """Groups in a set of half width."""
    segment: CountOrZero
    """Worker cycles per output position and kernel row."""
    tap: CountOrZero
    """Worker cycles per position of a kernel row and set of half width."""
    reduce: CountOrZero
    """Cycles of the sum over workers."""
    reduce_cycles_per_output: CountOrZero
    """Cycles of the sum per output position."""


class HmacVertex(Spec):
    """The vertex for dot products over few channels."""

    output: CountOrZero
    """Worker cycles per output and position of the kernel."""
    half_products_per_cycle: Count
    """Products per worker cycle, half."""
    single_products_per_cycle: Count
    """Products per worker cycle, single."""

    def products_per_cycle(self, dtype: str) -> int:
        """Return the products per worker cycle for inputs in `fp16` or `fp32`."""
        return self.single_products_per_cycle if dtype == "fp32" else self.half_products_per_cycle


class OuterProductVertex(Spec):
    """Outer-product vertex for a single input channel, in worker cycles."""

    fixed: CountOrZero
    """Cycles of a call."""
    group: CountOrZero
    """Cycles of a convolution group."""
    position: CountOrZero
    """Cycles of a position with few output channels."""
    position_channels: CountOrZero
    """Largest number of output channels of such a position."""
    channels_per_cycle: Count
    """Further output channels per cycle."""
