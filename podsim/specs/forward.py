"""Scenarios of forward passes: a graph, one batch in, one result out."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.specs.activity import Activity
from podsim.specs.base import Spec
from podsim.specs.families import VisionDataSpec, VisionSpec
from podsim.specs.quantity import Count, NumberFormat
from podsim.specs.scenario import AvailableMemory, DataSpec, ModelSpec, ScenarioBase

GRAPH_KIND = "graph"


class GraphSpec(Spec):
    """A graph of operators, read from a file."""

    kind: Literal["graph"]
    """Family of the model."""
    file: str
    """An ONNX file, from the folder of the scenario or the working folder."""
    dimensions: dict[str, Count] = Field(default_factory=dict)
    """Sizes of the dimensions that the file leaves open, by name."""


class ForwardDataSpec(Spec):
    """What goes in."""

    batches_per_call: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 64
    """Batches of each replica that one session call runs, one behind the other."""
    prefetch_depth: Count = 3
    """Batches that wait ready in front of each replica."""
    samples_per_batch: Count | None = None
    """Samples of one batch; the first axis of the graph's first input if left out."""


class ForwardParallelismSpec(Spec):
    """How the model is divided over IPUs."""

    pipeline_stages: Count = 1
    """IPUs of one replica, each with a part of the model."""
    replication_factor: Count = 1
    """Copies of the model, each with batches of its own."""

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one copy."""
        return self.pipeline_stages

    @model_validator(mode="after")
    def _replicas_can_be_placed(self) -> ForwardParallelismSpec:
        if self.pipeline_stages & (self.pipeline_stages - 1):
            what = f"a replica of {self.pipeline_stages} IPUs cannot be placed"
            raise BadValueError(what, "use 1, 2, 4, 8, … pipeline stages")
        return self


class ForwardMemorySpec(Spec):
    """How memory is used."""

    available_memory_proportion: AvailableMemory = 0.4
    """Share of tile memory for the temporaries of an operation; one number for all IPUs."""


class ForwardPrecisionSpec(Spec):
    """Number formats; those of the file are not kept."""

    weights: NumberFormat = "fp16"
    """Weights."""
    activations: NumberFormat = "fp16"
    """Activations, and the inputs and results that are not whole numbers."""
    matmul_partials: NumberFormat = "fp16"
    """Partial results of matrix products."""

    @model_validator(mode="after")
    def _one_format(self) -> ForwardPrecisionSpec:
        if self.weights != self.activations:
            what = f"weights in {self.weights} with activations in {self.activations} are not modelled"
            raise BadValueError(what, "give both the same format")
        return self


class PassSpec(Spec):
    """How batches go through a transformer."""

    batch_size: Count = 1
    """Sequences or images of one batch."""
    batches_per_call: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 64
    """Batches of each replica that one session call runs, one behind the other."""
    prefetch_depth: Count = 3
    """Batches that wait ready in front of each replica."""


class ForwardScenarioSpec(ScenarioBase):
    """One question about forward passes: how late, how many, on how many IPUs."""

    activity: ClassVar[Activity] = Activity.FORWARD
    model: Any
    """The model."""
    data: Any = None
    """What goes in."""
    parallelism: ForwardParallelismSpec = ForwardParallelismSpec()
    """How the model is divided over IPUs."""
    memory: ForwardMemorySpec = ForwardMemorySpec()
    """How memory is used."""
    precision: ForwardPrecisionSpec = ForwardPrecisionSpec()
    """Number formats."""

    @property
    def batches_per_call(self) -> int:
        """Batches of each replica that one session call runs."""
        raise NotImplementedError

    @property
    def prefetch_depth(self) -> int:
        """Batches that wait ready in front of each replica."""
        raise NotImplementedError


class GraphScenarioSpec(ForwardScenarioSpec):
    """One question about forward passes of a graph."""

    model: GraphSpec
    """The model."""
    data: ForwardDataSpec = ForwardDataSpec()
    """What goes in."""

    @property
    def batches_per_call(self) -> int:
        """As the data say."""
        return self.data.batches_per_call

    @property
    def prefetch_depth(self) -> int:
        """As the data say."""
        return self.data.prefetch_depth


class TransformerPassSpec(ForwardScenarioSpec):
    """What forward passes of all transformers have in common."""

    forward: PassSpec
    """How batches go through; what tells a forward pass from training."""

    @property
    def batches_per_call(self) -> int:
        """As the pass says."""
        return self.forward.batches_per_call

    @property
    def prefetch_depth(self) -> int:
        """As the pass says."""
        return self.forward.prefetch_depth


class BertPassSpec(TransformerPassSpec):
    """One question about forward passes of a BERT: answers, classes, embeddings."""

    model: ModelSpec
    """The model."""
    data: DataSpec
    """The data; dropout is off."""


class VisionPassSpec(TransformerPassSpec):
    """One question about forward passes of a vision transformer."""

    model: VisionSpec
    """The model."""
    data: VisionDataSpec = VisionDataSpec()
    """The data; dropout is off."""
