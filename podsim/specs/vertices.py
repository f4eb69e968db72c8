"""Cycle estimates of vertices."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.specs.base import Spec
from podsim.specs.quantity import Basis, Count, CountOrZero

Pair = Annotated[list[Count], Field(min_length=2, max_length=2)]
Four = Annotated[list[Count], Field(min_length=4, max_length=4)]


class Passes(Spec):
    """Cycles of the first pass over the inputs and of later ones."""

    later: CountOrZero
    """Later passes."""
    first: CountOrZero
    """The pass that also clears the partials."""


class WorkerTable(Spec):
    """Worker cycles for 0, 1, 2 and 3 positions."""

    later: Four
    """Later passes."""
    first: Four
    """The pass that also clears the partials."""


class ByFormat(Spec):
    """A number per format."""

    half: CountOrZero
    """Half precision."""
    single: CountOrZero
    """Single precision."""


class ElementsByFormat(Spec):
    """Elements per format, at least one."""

    half: Count
    """Half precision."""
    single: Count
    """Single precision."""


class CallSpec(Spec):
    """Starting programs."""

    launch: CountOrZero
    """Supervisor cycles to start the workers."""
    copy_cycles: CountOrZero = Field(alias="copy")
    """Cycles of an on-tile copy call, data apart."""


class AmpVertexSpec(Spec):
    """The 1x1 matrix vertex."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Worker cycles of a call."""
    worker_per_in_group: CountOrZero
    """Worker cycles per group of input channels."""
    conv_group: CountOrZero
    """Supervisor cycles per product."""
    conv_group_last: CountOrZero
    """The same, for its last group of input channels."""
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
    """What a position more costs in the first pass, single inputs."""
    retention_saving: CountOrZero
    """Worker cycles saved by state retention, half inputs."""
    tail: CountOrZero
    """Cycles between the fastest worker's end and the next start."""

    @model_validator(mode="after")
    def _saving_is_possible(self) -> AmpVertexSpec:
        least = min(self.half_worker.later + self.half_worker.first)
        if self.retention_saving > least:
            what = f"retention_saving {self.retention_saving} is above the {least} cycles of half_worker"
            raise BadValueError(what, "lower it")
        return self


class ReductionVertexSpec(Spec):
    """Sums of partial results."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Worker cycles of a call."""
    cycles_per_partial: Count
    """Worker cycles per vector and partial."""
    output_overhead: ByFormat
    """Worker cycles per output vector."""
    output_vector: ElementsByFormat
    """Elements per output vector."""
    two_stage_depth: Count
    """Partials from which two stages are used."""
    three_stage_depth: Count
    """Partials from which three stages are used."""
    general_fixed: CountOrZero
    """Cycles of a general reduction beside its supersteps and its data."""


class SliceVertexSpec(Spec):
    """Dynamic slices of serialised operands."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Worker cycles of a call."""
    elements_per_cycle: Count
    """Elements copied per cycle and tile."""


class GatherVertexSpec(Spec):
    """Row look-ups and row updates, in worker cycles."""

    worker_fixed: CountOrZero
    """Set-up of a look-up."""
    per_index: CountOrZero
    """A row that lies on this tile."""
    cycles_per_pair: CountOrZero
    """Two elements of such a row."""
    skip: CountOrZero
    """A row that lies elsewhere."""
    update_worker_fixed: CountOrZero
    """Set-up of an update."""
    update_per_index: CountOrZero
    """A row to update on this tile."""
    update_cycles_per_atom: CountOrZero
    """A 32-bit word of such a row."""
    update_skip: CountOrZero
    """A row to update that lies elsewhere."""


class ElementwiseSpec(Spec):
    """One elementwise vertex: [worker cycles, elements] per step."""

    half: Pair
    """Half precision."""
    single: Pair
    """Single precision."""
    fixed: CountOrZero
    """Worker cycles before the first step."""


class VerticesSpec(Spec):
    """All vertices of one generation of tiles; one source for the whole file."""

    kind: Literal["vertices"] = "vertices"
    """What the file describes."""
    name: str
    """Its name."""
    source: str
    """Key of the bibliography."""
    basis: Basis
    """Where the cycles come from."""
    call: CallSpec
    """Starting programs."""
    amp: AmpVertexSpec
    """The matrix vertex."""
    reduction: ReductionVertexSpec
    """Sums of partials."""
    slice: SliceVertexSpec
    """Serialised operands."""
    gather: GatherVertexSpec
    """Rows of tables."""
    elementwise: dict[str, ElementwiseSpec]
    """Elementwise vertices by function."""
