"""Cycle estimates of vertices."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.scenario.base import Spec, keys_of
from podsim.scenario.conv_vertices import (
    AmpVertex,
    ByFormat,
    ElementsByFormat,
    HmacVertex,
    Nx1Vertex,
    OuterProductVertex,
    Pair,
    SlicVertex,
    VmacVertex,
)
from podsim.scenario.quantity import Basis, Count, CountOrZero, Info, Level


class PieceCopies(Spec):
    """On-tile copies of small pieces, [cycles, bytes]; the software stack says what those of larger ones cost."""

    one: Pair
    """Pieces of one byte."""
    two: Pair
    """Pieces of two bytes."""
    four: Pair
    """Pieces of four bytes."""

    def of(self, piece_bytes: int) -> Pair:
        """For pieces of so many bytes: 1, 2 or 4."""
        return {1: self.one, 2: self.two, 4: self.four}[piece_bytes]


class WordCopies(Spec):
    """Copies word by word, [cycles, bytes]."""

    found: Pair
    """Of rows that were looked up."""
    added: Pair
    """Of tables that are added to, and of other results."""
    summed: Pair
    """Of copies of a table that other tiles sum."""


class Call(Spec):
    """Starting programs."""

    launch: CountOrZero
    """Supervisor cycles to start the workers."""
    copy_cycles: CountOrZero = Field(alias="copy")
    """Cycles of an on-tile copy call, data apart."""
    pieces: PieceCopies
    """What a byte adds to it in small pieces."""
    word_copy: WordCopies
    """What loops and sums of copies of a table copy word by word."""


class PoolVertex(Spec):
    """Pooling, in worker cycles."""

    row: CountOrZero
    """A row of outputs."""
    forward_tap: CountOrZero
    """A vector and position of the window, forward."""
    backward_tap: CountOrZero
    """The same, backward."""


class TransformVertex(Spec):
    """Copies that fold or regroup an operand."""

    combines_groups: Annotated[bool, Info("it says what the library can do")] = True
    """Whether several groups of a convolution can become one."""

    cycles: CountOrZero
    """Cycles per step."""
    elements: Count
    """Elements per step."""


class StridedSum(Spec):
    """Sums of partial results that lie a stride apart, in worker cycles; a partial is one more for each vector."""

    worker_fixed: CountOrZero
    """Set-up of a call."""
    per_vector: CountOrZero
    """An output vector."""
    vector: Count
    """Elements of an output vector."""


class ReductionVertex(Spec):
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
    one_stage_depth: Count
    """Partials up to which other sums than those of products are made in one stage."""
    strided: StridedSum
    """Sums of copies of a table, in single precision."""
    general_fixed: CountOrZero
    """Cycles of a general reduction beside its supersteps and its data."""


class SliceVertex(Spec):
    """Dynamic slices of serialised operands."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Worker cycles of a call."""
    elements_per_cycle: Count
    """Elements copied per cycle and tile."""
    inner: bool = True
    """Whether the contracted axis can be sliced, whose partial results are then added."""
    rearranged: bool = False
    """Whether the result of a slice takes another layout when it is joined to the others."""


class PlannedLookUp(Spec):
    """What a planner takes a look-up for, in worker cycles."""

    worker_fixed: CountOrZero
    """Set-up of a look-up."""
    per_index: CountOrZero
    """A row that lies on this tile."""


class GatherVertex(Spec):
    """Row look-ups and row updates, in worker cycles."""

    worker_fixed: CountOrZero
    """Set-up of a look-up."""
    per_index: CountOrZero
    """A row that lies on this tile."""
    cycles_per_pair: CountOrZero
    """Two elements of such a row."""
    skip: CountOrZero
    """A row that lies elsewhere."""
    planned: PlannedLookUp
    """The first two of these as the library's planner has them."""
    divide: CountOrZero
    """An index by a number that is no power of two."""
    update_worker_fixed: CountOrZero
    """Set-up of an update."""
    update_per_index: CountOrZero
    """A row to update on this tile."""
    update_cycles_per_atom: CountOrZero
    """A 32-bit word of such a row."""
    update_skip: CountOrZero
    """A row to update that lies elsewhere."""


class UpdateRow(Spec):
    """Row updates in one format, in worker cycles."""

    fixed: CountOrZero
    """Set-up of a call."""
    per_index: CountOrZero
    """A row of the worker's own part, its first word included."""
    cycles_per_word: CountOrZero
    """Each further 32-bit word of such a row."""
    two_words: CountOrZero
    """A whole row of two words, which needs no loop."""
    four_words: CountOrZero
    """A whole row of four words."""


class UpdateVertex(Spec):
    """Planned updates of rows, scaled and added; workers share the rows and each scans all indices."""

    half: UpdateRow
    """Half precision."""
    single: UpdateRow
    """Single precision."""


class SeedVertex(Spec):
    """Setting generators of random numbers."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Worker cycles of a call."""


class CompareSwapVertex(Spec):
    """Passes of a bitonic network over single-precision keys with 32-bit values."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Set-up of a worker."""
    entry: CountOrZero
    """An entry of the work list."""
    first_pair: CountOrZero
    """The first pair of an entry."""
    pair: CountOrZero
    """Each further pair, swapped."""
    block: CountOrZero
    """A run of pairs at one distance."""
    turn: CountOrZero
    """A change of order."""


class ElementwiseVertex(Spec):
    """One elementwise vertex: [worker cycles, elements] per step."""

    half: Pair
    """Half precision."""
    single: Pair
    """Single precision."""
    fixed: CountOrZero
    """Worker cycles before the first step."""


class Origin(Spec):
    """Evidence for numbers of a file, where it is not that of the whole file."""

    source: str
    """Key of the bibliography."""
    basis: Basis
    """Where the numbers come from."""
    level: Level | None = None
    """Level of evidence at which calibrated numbers are fitted."""
    note: str
    """What the numbers were chosen on."""


class Vertices(Spec):
    """All vertices of one generation of tiles; one source for the whole file, but for what `origins` names."""

    kind: Literal["vertices"] = "vertices"
    """What the file describes."""
    name: str
    """Its name."""
    source: str
    """Key of the bibliography."""
    basis: Basis
    """Where the cycles come from."""
    origins: Annotated[dict[str, Origin], Info("no time follows from them")] = Field(default_factory=dict)
    """Evidence for numbers of other origin, by their key paths in the file."""
    call: Call
    """Starting programs."""
    amp: AmpVertex
    """The matrix vertex."""
    nx1: Nx1Vertex
    """The matrix vertex for spatial kernels."""
    slic: SlicVertex | None = None
    """Short kernels of grouped convolutions; left out of libraries that do not have it."""
    vmac: VmacVertex | None = None
    """Vector multiply-adds over groups; likewise."""
    hmac: HmacVertex
    """Dot products."""
    outer_product: OuterProductVertex
    """A single input channel."""
    pool: PoolVertex
    """Pooling."""
    transform: Annotated[TransformVertex, Info("the software stack says what copies cost")]
    """Copies of operands."""
    reduction: ReductionVertex
    """Sums of partials."""
    slice: SliceVertex
    """Serialised operands."""
    gather: GatherVertex
    """Rows of tables."""
    update: UpdateVertex
    """Planned updates of rows of tables."""
    compare_swap: CompareSwapVertex
    """Sorting."""
    seed: SeedVertex
    """Random numbers."""
    elementwise: dict[str, ElementwiseVertex]
    """Elementwise vertices by function."""

    @model_validator(mode="after")
    def _origins_are_of_numbers(self) -> Vertices:
        for key in self.origins:
            if self.number_at(key) is None:
                raise BadValueError(f"`origins` names `{key}`, which is no key of this file", "correct the key path")
        return self

    def number_at(self, key: str) -> Any:
        """Return what stands at a key path; None if there is no such key."""
        part: Any = self
        for name in key.split("."):
            keys = keys_of(type(part)) if isinstance(part, Spec) else {}
            part = part.get(name) if isinstance(part, dict) else getattr(part, keys.get(name, ""), None)
        return part
