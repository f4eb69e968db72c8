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
        passes: Supervisor cycles per pass.
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
    passes: tuple[int, int]
    half_worker: tuple[tuple[int, ...], tuple[int, ...]]
    single_worker: tuple[tuple[int, ...], tuple[int, ...]]
    single_first_cycles_per_position: int
    retention_saving: int
    tail: int


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
    reduction: ReductionVertex
    slice: SliceVertex
    gather: GatherVertex
    elementwise: Mapping[str, ElementwiseVertex]
