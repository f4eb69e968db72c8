"""How a transformer in training is divided over the IPUs of a replica, and into replicas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.scenario.auto import AutoTrainingSpec
from podsim.scenario.base import Spec
from podsim.scenario.families.base import BuiltModelSpec
from podsim.scenario.pins import PARALLELISM
from podsim.scenario.quantity import Count, CountOrZero, Flag
from podsim.scenario.scenario import Finding
from podsim.scenario.training import SessionCall, TrainingLayoutSpec, TrainingScenario


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


class AutoTextSpec(AutoTrainingSpec):
    """A division that is chosen; a key that is given is kept."""

    recomputation: Literal["none", "layer"] | None = None
    """`layer` keeps the inputs of layers only and redoes the forward pass."""
    updates_per_session_call: SessionCall | None = None
    """Weight updates that one call from the host runs (device iterations); not chosen, one if left out."""
    replicas_per_process: Count | None = None
    """Replicas that one process on a host serves; not chosen."""


class ParallelismSpec(TrainingLayoutSpec):
    """How the run is divided over IPUs."""

    auto: ClassVar[type[AutoTrainingSpec]] = AutoTextSpec
    redone: ClassVar[str] = "layer"
    undivided: ClassVar[dict[str, Any]] = TrainingLayoutSpec.undivided | {"layers_per_ipu": [1]}
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

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one data-parallel copy."""
        return len({stage.ipu for stage in self.stages}) if self.stages is not None else len(self.layers_per_ipu or ())

    def head_on_first_ipu(self, model: BuiltModelSpec) -> bool:
        """Where `layers_per_ipu` has the head."""
        return model.shares_embedding if self.head_on is None else self.head_on == "first_ipu"

    def stage_count(self, model: BuiltModelSpec) -> int:
        """Forward pipeline stages; a head that returns to the first IPU behind `layers_per_ipu` is one of its own."""
        if self.stages is not None:
            return len(self.stages)
        return self.ipus_per_replica + (self.head_on_first_ipu(model) and self.ipus_per_replica > 1)

    def updates_per_call(self, spec: TrainingScenario) -> float:
        """As the scenario says."""
        return self.updates_per_session_call

    def findings(self, spec: TrainingScenario) -> Iterator[Finding]:
        """Problems of layers, micro-batches and session calls."""
        if self.layers_per_ipu is None:
            yield from self._stages(spec.model)
        else:
            yield from self._layers(self.layers_per_ipu, spec)
        yield from self._micro_batches(self.stage_count(spec.model))
        updates, shared = spec.run.update_count(spec) if spec.run else None, self.updates_per_session_call
        if updates is not None and shared > max(1, updates):
            yield (
                (PARALLELISM, "updates_per_session_call"),
                f"{shared} weight updates in a call; the run has {updates}",
                f"use at most {max(1, updates)}",
            )

    def _micro_batches(self, stage_count: int) -> Iterator[Finding]:
        need, given = 2 * stage_count - 1, self.accumulation_factor
        if given < need:
            yield (
                (PARALLELISM, "accumulation_factor"),
                f"{given} micro-batches are too few for {stage_count} pipeline stages",
                f"use 2·{stage_count} - 1 = {need} or more",
            )

    def _layers(self, layers_per_ipu: list[int], spec: TrainingScenario) -> Iterator[Finding]:
        placed, want = sum(layers_per_ipu), spec.model.placed_layers
        where = (PARALLELISM, "layers_per_ipu")
        if placed != want:
            yield where, f"layers add up to {placed}, the model has {want}", f"place {want} layers"
        ends = {0} if self.head_on_first_ipu(spec.model) else {0, len(layers_per_ipu) - 1}
        empty = [ipu for ipu, count in enumerate(layers_per_ipu) if not count and ipu not in ends]
        if empty and placed == want and len(layers_per_ipu) <= spec.system.domain_ipu_count:
            what = f"nothing is on IPU {', '.join(map(str, empty))}"
            yield where, what, "place layers there, or use fewer IPUs"

    def _stages(self, model: BuiltModelSpec) -> Iterator[Finding]:
        stages, decoder = self.stages or [], model.placed_decoder_layers
        behind = [bool(stage.decoder_layers) for stage in stages]
        if any(stage.layers and any(behind[:place]) for place, stage in enumerate(stages)):
            yield (PARALLELISM, "stages"), "a stage has encoder layers behind decoder layers", "place the encoder first"
        others = model.placed_layers - decoder
        placed = {
            "attention blocks": (sum(stage.attention_count for stage in stages), others),
            "feed_forward blocks": (sum(stage.feed_forward_count for stage in stages), others),
            "decoder layers": (sum(stage.decoder_layers for stage in stages), decoder),
        }
        for name, (count, want) in placed.items():
            if count != want:
                what = f"{name} add up to {count}, the model has {want}"
                yield (PARALLELISM, "stages"), what, f"place {want} of them"


def _stage_problems(stages: list[StageSpec]) -> Iterator[BadValueError]:
    used = sorted({stage.ipu for stage in stages})
    for wanted, ipu in enumerate(used):
        if ipu != wanted:
            yield BadValueError(f"stages use IPU {used[-1]} but not IPU {wanted}", "number the IPUs 0, 1, 2, …")
    if [stage.embedding for stage in stages] != [index == 0 for index in range(len(stages))]:
        yield BadValueError("the first stage, and no other, holds the embedding", "write `embedding: true` there only")
    if [stage.head for stage in stages] != [index == len(stages) - 1 for index in range(len(stages))]:
        yield BadValueError("the last stage, and no other, holds the head", "write `head: true` there only")
