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
    """[cycles, bytes] of copies on a tile in chunks of 1, 2 and 4 bytes; the software stack has larger chunks."""

    one: Pair
    """Chunks of one byte."""
    two: Pair
    """Chunks of two bytes."""
    four: Pair
    """Chunks of four bytes."""

    def for_chunk(self, chunk_bytes: int) -> Pair:
        """Return cycles and bytes for chunks of 1, 2 or 4 bytes."""
        return {1: self.one, 2: self.two, 4: self.four}[chunk_bytes]


class WordCopies(Spec):
    """[cycles, bytes] of copies that move one word at a time."""

    found: Pair
    """Copies of rows that were looked up."""
    added: Pair
    """Copies of tables that updates are added to, and of other results."""
    summed: Pair
    """Copies of partial tables that other tiles sum."""


class Call(Spec):
    """Cycles to start the programs of a tile, and of its copies."""

    launch: CountOrZero
    """Supervisor cycles to start the workers."""
    copy_cycles: CountOrZero = Field(alias="copy")
    """Cycles of an on-tile copy call, without data."""
    pieces: PieceCopies
    """Additional cost of small chunks."""
    word_copy: WordCopies
    """Copies word by word in loops and in sums of partial tables."""


class PoolVertex(Spec):
    """Pooling, in worker cycles."""

    row: CountOrZero
    """Cycles of a row of outputs."""
    forward_tap: CountOrZero
    """Cycles of a vector and position of the window, forward."""
    backward_tap: CountOrZero
    """Cycles of a vector and position of the window, backward."""


class TransformVertex(Spec):
    """Copies that change the layout of an operand of a convolution."""

    combines_groups: Annotated[bool, Info("it says what the library can do")] = True
    """Whether several groups of a convolution can be combined into one."""

    cycles: CountOrZero
    """Cycles per step."""
    elements: Count
    """Elements per step."""


class StridedSum(Spec):
    """Sums of partial results at a constant stride, in worker cycles; each partial adds one cycle per vector."""

    worker_fixed: CountOrZero
    """Setup of a call."""
    per_vector: CountOrZero
    """Cycles of an output vector."""
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
    """Least number of partials for two stages."""
    three_stage_depth: Count
    """Least number of partials for three stages."""
    one_stage_depth: Count
    """Largest number of partials for one stage, except in sums of products."""
    strided: StridedSum
    """Sums of copies of a table, in single precision."""
    general_fixed: CountOrZero
    """Additional cycles of a general reduction, besides its supersteps and its data."""


class SliceVertex(Spec):
    """Slices of operands of products that run in several parts, one after the other."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Worker cycles of a call."""
    elements_per_cycle: Count
    """Elements copied per cycle and tile."""
    inner: bool = True
    """Whether the contracted axis can be sliced; its partial results are then added."""
    rearranged: bool = False
    """Whether the result of a slice changes its layout when slices are joined."""


class PlannedLookUp(Spec):
    """Estimate of a row look-up by the planner of the library, which chooses plans with it; in worker cycles."""

    worker_fixed: CountOrZero
    """Setup of a look-up."""
    per_index: CountOrZero
    """Cycles of a row on this tile."""


class GatherVertex(Spec):
    """Row look-ups and row updates, in worker cycles."""

    worker_fixed: CountOrZero
    """Setup of a look-up."""
    per_index: CountOrZero
    """Cycles of a row on this tile."""
    cycles_per_pair: CountOrZero
    """Cycles of two elements of such a row."""
    skip: CountOrZero
    """Cycles of a row on another tile."""
    planned: PlannedLookUp
    """Setup and row as the library's planner estimates them."""
    divide: CountOrZero
    """Cycles to divide an index by a number that is no power of two."""
    update_worker_fixed: CountOrZero
    """Setup of an update."""
    update_per_index: CountOrZero
    """Cycles of a row to update on this tile."""
    update_cycles_per_atom: CountOrZero
    """Cycles of a 32-bit word of such a row."""
    update_skip: CountOrZero
    """Cycles of a row to update on another tile."""


class UpdateRow(Spec):
    """Cycles of row updates in one number format, in worker cycles."""

    fixed: CountOrZero
    """Setup of a call."""
    per_index: CountOrZero
    """Cycles of a row of the worker's part, with its first word."""
    cycles_per_word: CountOrZero
    """Cycles of each further 32-bit word of such a row."""
    two_words: CountOrZero
    """Cycles of a whole row of two words, which needs no loop."""
    four_words: CountOrZero
    """Cycles of a whole row of four words."""


class UpdateVertex(Spec):
    """Planned updates of rows, scaled and added; workers divide the rows, and each scans all indices."""

    half: UpdateRow
    """Half precision."""
    single: UpdateRow
    """Single precision."""


class SeedVertex(Spec):
    """Seeding of random number generators."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Worker cycles of a call."""


class CompareSwapVertex(Spec):
    """Passes of a bitonic network over single-precision keys with 32-bit values."""

    fixed: CountOrZero
    """Supervisor cycles of a call."""
    worker_fixed: CountOrZero
    """Setup of a worker."""
    entry: CountOrZero
    """Cycles of an entry of the work list."""
    first_pair: CountOrZero
    """Cycles of the first pair of an entry."""
    pair: CountOrZero
    """Cycles of each further pair, swapped."""
    block: CountOrZero
    """Cycles of a series of pairs at one distance."""
    turn: CountOrZero
    """Cycles of a change of order."""


class ElementwiseVertex(Spec):
    """Elementwise vertex: [worker cycles, elements] per step."""

    half: Pair
    """Half precision."""
    single: Pair
    """Single precision."""
    fixed: CountOrZero
    """Worker cycles before the first step."""


class Origin(Spec):
    """Source and basis of single numbers of a file that differ from those of the file."""

    source: str
    """Key of the bibliography."""
    basis: Basis
    """How the numbers were obtained."""
    level: Level | None = None
    """Level of evidence at which calibrated numbers are fitted."""
    note: str
    """Data that the numbers were chosen on."""


class Vertices(Spec):
    """Cycle estimates of all vertices of one generation of tiles; `origins` names numbers of other sources."""

    kind: Literal["vertices"] = "vertices"
    """What the file describes."""
    name: str
    """Its name."""
    source: str
    """Key of the bibliography."""
    basis: Basis
    """How the cycles were obtained."""
    origins: Annotated[dict[str, Origin], Info("no time follows from them")] = Field(default_factory=dict)
    """Evidence for numbers of other origin, by their key paths in the file."""
    call: Call
    """Start of programs."""
    amp: AmpVertex
    """The matrix vertex."""
    nx1: Nx1Vertex
    """The matrix vertex for spatial kernels."""
    slic: SlicVertex | None = None
    """Short kernels of grouped convolutions; left out for libraries without this vertex."""
    vmac: VmacVertex | None = None
    """Vector multiply-adds over groups; left out for libraries without this vertex."""
    hmac: HmacVertex
    """Dot products."""
    outer_product: OuterProductVertex
    """Convolutions with a single input channel."""
    pool: PoolVertex
    """Pooling."""
    transform: Annotated[TransformVertex, Info("the software stack says what copies cost")]
    """Copies of operands."""
    reduction: ReductionVertex
    """Sums of partial results."""
    slice: SliceVertex
    """Slices of serialised operands."""
    gather: GatherVertex
    """Look-ups and updates of rows of tables."""
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
        """Return the value at a key path, or None if there is no such key."""
        part: Any = self
        for name in key.split("."):
            keys = keys_of(type(part)) if isinstance(part, Spec) else {}
            part = part.get(name) if isinstance(part, dict) else getattr(part, keys.get(name, ""), None)
        return part
