"""How a transformer in training is divided over the IPUs of a replica, and into replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.specs.base import Spec
from podsim.specs.quantity import Count, CountOrZero, Flag

SessionCall = Annotated[int, Field(strict=True, ge=1, le=100_000)]


class StageSpec(Spec):
    """One pipeline stage."""

    ipu: CountOrZero
    """IPU of the replica that holds it."""
    embedding: Flag = False
    """Whether it holds the embedding; the first stage does."""
    layers: CountOrZero = 0
    """Whole layers; of an encoder-decoder, those of the encoder."""
    decoder_layers: CountOrZero = 0
    """Whole decoder layers of an encoder-decoder."""
    attention: CountOrZero = 0
    """Attention blocks beside whole layers."""
    feed_forward: CountOrZero = 0
    """Feed-forward blocks beside whole layers."""
    head: Flag = False
    """Whether it holds heads and loss; the last stage does."""

    @property
    def attention_count(self) -> int:
        """All attention blocks."""
        return self.layers + self.attention

    @property
    def feed_forward_count(self) -> int:
        """All feed-forward blocks."""
        return self.layers + self.feed_forward

    @model_validator(mode="after")
    def _holds_something(self) -> StageSpec:
        if not (self.embedding or self.head or self.attention_count or self.feed_forward_count or self.decoder_layers):
            raise BadValueError("the stage holds nothing", "give it embedding, layers, attention, feed_forward or head")
        return self


class ParallelismSpec(Spec):
    """How the run is divided over IPUs."""

    micro_batch_size: Count
    """Sequences, or packs, per run of the graph."""
    accumulation_factor: Count
    """Micro-batches per weight update."""
    replication_factor: Count
    """Data-parallel copies."""
    layers_per_ipu: Annotated[list[CountOrZero], Field(min_length=1)] | None = None
    """Layers of each IPU, embedding with the first; of an encoder-decoder, encoder layers first."""
    head_on: Literal["first_ipu", "last_ipu"] | None = None
    """Where `layers_per_ipu` has head and loss; if left out, with the embedding if they share weights, else last."""
    stages: Annotated[list[StageSpec], Field(min_length=1)] | None = None
    """Pipeline stages in order; an alternative to `layers_per_ipu`."""
    recomputation: Literal["none", "layer"] = "layer"
    """`layer` keeps the inputs of layers only and redoes the forward pass."""
    updates_per_session_call: SessionCall = 1
    """Weight updates that one call from the host runs (device iterations)."""

    @model_validator(mode="after")
    def _one_placement(self) -> ParallelismSpec:
        if self.layers_per_ipu is None and self.stages is None:
            raise BadValueError("nothing says where the layers go", "add `layers_per_ipu:` or `stages:`")
        if self.layers_per_ipu is not None and self.stages is not None:
            raise BadValueError("`layers_per_ipu` and `stages` are both given", "keep one of the two")
        if self.stages is not None and self.head_on is not None:
            raise BadValueError(
                "`head_on` and `stages` are both given", "write `head: true` in the stage that holds it"
            )
        for problem in _stage_problems(self.stages or []):
            raise problem
        count = self.ipus_per_replica
        if count & (count - 1):
            what = f"a replica of {count} IPUs cannot be placed"
            raise BadValueError(what, "use 1, 2, 4, 8, 16, 32 or 64 IPUs")
        return self

    def stage_count(self, *, head_apart: bool) -> int:
        """Forward pipeline stages; a head that returns to the first IPU behind `layers_per_ipu` is one of its own."""
        if self.stages is not None:
            return len(self.stages)
        count = len(self.layers_per_ipu or ())
        return count + (head_apart and count > 1)

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one data-parallel copy."""
        return len({stage.ipu for stage in self.stages}) if self.stages is not None else len(self.layers_per_ipu or ())


def _stage_problems(stages: list[StageSpec]) -> Iterator[BadValueError]:
    used = sorted({stage.ipu for stage in stages})
    for wanted, ipu in enumerate(used):
        if ipu != wanted:
            yield BadValueError(f"stages use IPU {used[-1]} but not IPU {wanted}", "number the IPUs 0, 1, 2, …")
    if [stage.embedding for stage in stages] != [index == 0 for index in range(len(stages))]:
        yield BadValueError("the first stage, and no other, holds the embedding", "write `embedding: true` there only")
    if [stage.head for stage in stages] != [index == len(stages) - 1 for index in range(len(stages))]:
        yield BadValueError("the last stage, and no other, holds the head", "write `head: true` there only")
