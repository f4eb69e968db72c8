"""What a tile's programs cost: the cycle estimates of vertices, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ElementwiseVertex:
    """Cycles of one elementwise vertex.

    Attributes:
        half_cycles: Worker cycles per step in half precision.
        half_elements: Elements per step in half precision.
        single_cycles: Worker cycles per step in single precision.
        single_elements: Elements per step in single precision.
        fixed: Worker cycles before the first step.
    """

    half_cycles: int
    half_elements: int
    single_cycles: int
    single_elements: int
    fixed: int


@dataclass(frozen=True, slots=True)
class AmpVertex:
    """Cycles of the 1x1 matrix vertex; tuples of two hold the (later, first) pass over the inputs.

    Attributes:
        fixed: Supervisor cycles of a call.
        worker_fixed: Worker cycles of a call.
        worker_per_in_group: Worker cycles per group of input channels.
        conv_group: Supervisor cycles per product.
        conv_group_last: The same, for its last group of input channels.
        in_group: Supervisor cycles per group of input channels.
        out_group: Supervisor cycles per group of output channels.
        pass_: Supervisor cycles per pass.
        half_worker: Worker cycles for 0, 1, 2 and 3 positions, half inputs, for later and first pass.
        single_worker: The same for single inputs.
        single_first_cycles_per_position: What a position more costs in the first pass, single inputs.
        retention_saving: Worker cycles saved by state retention, half inputs.
        tail: Cycles between the fastest worker's end and the next start.
    """

    fixed: int
    worker_fixed: int
    worker_per_in_group: int
    conv_group: int
    conv_group_last: int
    in_group: int
    out_group: tuple[int, int]
    pass_: tuple[int, int]
    half_worker: tuple[tuple[int, ...], tuple[int, ...]]
    single_worker: tuple[tuple[int, ...], tuple[int, ...]]
    single_first_cycles_per_position: int
    retention_saving: int
    tail: int


@dataclass(frozen=True, slots=True)
class Nx1Vertex:
    """The matrix vertex for spatial kernels.

    Attributes:
        fixed: Supervisor cycles of a call.
        worker_fixed: Worker cycles of a call.
        zero_call: Supervisor cycles to clear the partials of a group of output channels.
        zero_loop: Supervisor cycles between two of them, and between convolution groups.
        zero_end: Supervisor cycles after the last of them.
        zero_worker: Worker cycles of each, its vectors apart.
        conv_group: Supervisor cycles per convolution group.
        in_group: Supervisor cycles per group of input channels.
        out_group: Supervisor cycles per group of output channels.
        kernel_row: Supervisor cycles per row of the kernel.
        kernel_position: Supervisor cycles per position of the kernel.
        filter_load: Supervisor cycles to set up a load of weights of one, two and four kernel rows at once.
        pass_: Supervisor cycles per pass.
        worker: Worker cycles per position of the kernel.
        segment: Worker cycles per row segment.
        segment_saving: Worker cycles saved per row segment by state retention.
        half_segment: Worker cycles of a row segment of 0, 1, 2 and 3 positions, half inputs.
        single_segment: The same, single inputs.
        half_partials: Worker cycles that half partials cost more per position of the kernel and segment of two.
        tail: Cycles between the fastest worker's end and the next start.
    """

    fixed: int
    worker_fixed: int
    zero_call: int
    zero_loop: int
    zero_end: int
    zero_worker: int
    conv_group: int
    in_group: int
    out_group: int
    kernel_row: int
    kernel_position: int
    filter_load: tuple[int, int, int]
    pass_: int
    worker: int
    segment: int
    segment_saving: int
    half_segment: tuple[int, ...]
    single_segment: tuple[int, ...]
    half_partials: int
    tail: int


@dataclass(frozen=True, slots=True)
class SlicVertex:
    """The vertex for short kernels of grouped convolutions.

    Attributes:
        fixed: Supervisor cycles of a call.
        sub_kernel: Supervisor cycles per part of a kernel row.
        kernel_width: Positions of a kernel row taken at once.
        channels: Channels taken at once, of one group or several.
        weight_load: Cycles to load weights for 1, 2 and 4 channels per group.
        work_item: Worker cycles per row segment.
        row: Worker cycles of a short row segment per pass.
        row_positions: Positions of such a segment, for output stride 1 and 2.
        row_cycles_per_position: Worker cycles of each further position, for output stride 1 and 2.
        passes: Passes over the input, for half and single partials.
    """

    fixed: int
    sub_kernel: int
    kernel_width: int
    channels: int
    weight_load: tuple[int, ...]
    work_item: int
    row: int
    row_positions: tuple[int, int]
    row_cycles_per_position: tuple[int, int]
    passes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class VmacVertex:
    """Vector multiply-adds over convolution groups.

    Attributes:
        fixed: Supervisor cycles of a call.
        group: Supervisor cycles per set of groups.
        in_channel: Supervisor cycles per input channel.
        worker: Worker cycles of a call, in half and full width.
        half_width: Groups in a set of half width.
        segment: Worker cycles per output position and kernel row.
        tap: Worker cycles per position of a kernel row and set of half width.
        reduce: Cycles of the sum over workers.
        reduce_cycles_per_output: Its cycles per output position.
    """

    fixed: int
    group: int
    in_channel: int
    worker: tuple[int, int]
    half_width: int
    segment: int
    tap: int
    reduce: int
    reduce_cycles_per_output: int


@dataclass(frozen=True, slots=True)
class HmacVertex:
    """Dot products over few channels.

    Attributes:
        output: Worker cycles per output and position of the kernel.
        half_products_per_cycle: Products per worker cycle, half.
        single_products_per_cycle: Products per worker cycle, single.
    """

    output: int
    half_products_per_cycle: int
    single_products_per_cycle: int


@dataclass(frozen=True, slots=True)
class OuterProductVertex:
    """Products with a single input channel, in worker cycles.

    Attributes:
        fixed: A call.
        group: A convolution group.
        position: A position with few output channels.
        position_channels: Output channels of such a position.
        channels_per_cycle: Further output channels per cycle.
    """

    fixed: int
    group: int
    position: int
    position_channels: int
    channels_per_cycle: int


@dataclass(frozen=True, slots=True)
class PoolVertex:
    """Pooling, in worker cycles.

    Attributes:
        row: A row of outputs.
        forward_tap: A vector and position of the window, forward.
        backward_tap: The same, backward.
    """

    row: int
    forward_tap: int
    backward_tap: int


@dataclass(frozen=True, slots=True)
class TransformVertex:
    """Copies that fold or regroup an operand.

    Attributes:
        cycles: Cycles per step.
        elements: Elements per step.
    """

    cycles: int
    elements: int


@dataclass(frozen=True, slots=True)
class ReductionVertex:
    """Cycles of the vertex that sums partial results; pairs are (half, single).

    Attributes:
        fixed: Supervisor cycles of a call.
        worker_fixed: Worker cycles of a call.
        cycles_per_partial: Worker cycles per vector and partial.
        output_overhead: Worker cycles per output vector.
        output_vector: Elements per output vector.
        two_stage_depth: Partials from which two stages are used.
        three_stage_depth: Partials from which three stages are used.
        general_fixed: Cycles of a general reduction beside its two supersteps and its data.
    """

    fixed: int
    worker_fixed: int
    cycles_per_partial: int
    output_overhead: tuple[int, int]
    output_vector: tuple[int, int]
    two_stage_depth: int
    three_stage_depth: int
    general_fixed: int


@dataclass(frozen=True, slots=True)
class SliceVertex:
    """Cycles of a dynamic slice of a serialised operand."""

    fixed: int
    worker_fixed: int
    elements_per_cycle: int


@dataclass(frozen=True, slots=True)
class GatherVertex:
    """Worker cycles of row look-ups and row updates.

    Attributes:
        worker_fixed: Set-up of a look-up.
        per_index: A row that lies on this tile.
        cycles_per_pair: Two elements of such a row.
        skip: A row that lies elsewhere.
        update_worker_fixed: Set-up of an update.
        update_per_index: A row to update on this tile.
        update_cycles_per_atom: A 32-bit word of such a row.
        update_skip: A row to update that lies elsewhere.
    """

    worker_fixed: int
    per_index: int
    cycles_per_pair: int
    skip: int
    update_worker_fixed: int
    update_per_index: int
    update_cycles_per_atom: int
    update_skip: int


@dataclass(frozen=True, slots=True)
class Vertices:
    """All vertices of one generation of tiles.

    Attributes:
        launch_cycles: Supervisor cycles to start the workers.
        copy_cycles: Cycles of an on-tile copy call, data apart.
    """

    launch_cycles: int
    copy_cycles: int
    amp: AmpVertex
    nx1: Nx1Vertex
    slic: SlicVertex
    vmac: VmacVertex
    hmac: HmacVertex
    outer_product: OuterProductVertex
    pool: PoolVertex
    transform: TransformVertex
    reduction: ReductionVertex
    slice: SliceVertex
    gather: GatherVertex
    elementwise: Mapping[str, ElementwiseVertex]
