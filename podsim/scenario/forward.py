"""Scenarios of forward passes: one batch in, one result out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.scenario.activity import Activity
from podsim.scenario.base import Spec
from podsim.scenario.families.base import ModelSpec
from podsim.scenario.quantity import Count, CountOrZero, Flag, NumberFormat
from podsim.scenario.scenario import Finding, Scenario
from podsim.scenario.sections import (
    AvailableMemory,
    Reserve,
    check_products,
    io_tile_findings,
    one_share,
    product_findings,
    replica_findings,
)


class BatchesSpec(Spec):
    """Batches of forward passes, one after the other."""

    batches_per_call: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 64
    """Batches of each replica that one session call runs, one after the other."""
    prefetch_depth: Count = 3
    """Batches in the prefetch queue of each replica."""
    numbers_converted: Flag = False
    """Whether the process converts each number of a result into a Python number before its next call."""
    synthetic: Flag = False
    """Whether the IPUs make their inputs and drop their results, so that nothing is exchanged with the host."""

    @model_validator(mode="after")
    def _results_reach_the_process(self) -> BatchesSpec:
        if self.synthetic and self.numbers_converted:
            what = "with synthetic data no result reaches the process, which cannot convert its numbers"
            raise BadValueError(what, "leave `numbers_converted` out")
        return self


class PassSpec(BatchesSpec):
    """Batches of forward passes for a model that podsim builds."""

    batch_size: Count = 1
    """Sequences or images of one batch."""


class ForwardParallelismSpec(Spec):
    """Division of the model over IPUs."""

    auto: ClassVar[None] = None
    pipeline_stages: Count = 1
    """IPUs of one replica, each with a part of the model."""
    replication_factor: Count = 1
    """Copies of the model, each with its own batches."""
    replicas_per_process: Count | None = None
    """Replicas that one process on a host serves; all of a link domain if left out."""

    @property
    def ipus_per_replica(self) -> int:
        """IPUs of one copy."""
        return self.pipeline_stages


class ForwardMemorySpec(Spec):
    """Use of memory."""

    available_memory_proportion: AvailableMemory = 0.4
    """Share of tile memory for the temporaries of an operation; one number for all IPUs."""
    reserve: Reserve = 0.0
    """Share of In-Processor-Memory that is left free."""
    io_tiles: CountOrZero = 0
    """Tiles that exchange data with the host while the others compute; with 0, computation waits for transfers."""
    wide_weight_loads: Flag = False
    """Whether weights of products are in interleaved memory, from which the matrix unit loads 128 bits per cycle. By
    default the library loads 64 bits."""


class ForwardPrecisionSpec(Spec):
    """Number formats, which replace the formats in a model's file."""

    weights: Literal["fp8", "fp16", "fp32"] = "fp16"
    """Format of weights. `fp8`: weights of dense layers and convolutions, cast in every pass if products are half
    precision."""
    activations: NumberFormat = "fp16"
    """Format of activations, and of all inputs and results that are not integers."""
    matmul_partials: NumberFormat = "fp16"
    """Format of partial results of matrix products."""
    functions: Literal["fp32"] | None = None
    """Format of layer norms and activation functions of BERT and vision transformers: `fp32` between casts, or that of
    activations."""
    products: Literal["fp8", "fp16", "fp32"] | None = None
    """Operands of dense layers and convolutions, with their weights; `fp8` for chips that take it, or left out."""

    attention_products: Literal["fp8"] | None = None
    """Format of operands of products of two activations, as in attention; requires `products: fp8`."""

    @model_validator(mode="after")
    def _products_are_possible(self) -> ForwardPrecisionSpec:
        check_products(self)
        if self.attention_products and not self.narrows_products:
            raise BadValueError("attention_products in fp8 without other products", "write `products: fp8` as well")
        return self

    @property
    def narrows_products(self) -> bool:
        """True if operands of products are FP8 between activations in half precision."""
        return self.products == "fp8"

    @model_validator(mode="after")
    def _one_format(self) -> ForwardPrecisionSpec:
        if self.weights != self.activations and (self.weights, self.activations) != ("fp8", "fp16"):
            what = f"weights in {self.weights} with activations in {self.activations} are not modelled"
            raise BadValueError(what, "give both the same format")
        return self


class ForwardScenario(Scenario):
    """Scenario of forward passes: latency, throughput and number of IPUs."""

    activity: ClassVar[Activity] = Activity.FORWARD
    model: ModelSpec
    """The model."""
    data: Any = None
    """Input of the model."""
    parallelism: ForwardParallelismSpec = ForwardParallelismSpec()
    """Division of the model over IPUs."""
    memory: ForwardMemorySpec = ForwardMemorySpec()
    """Use of memory."""
    precision: ForwardPrecisionSpec = ForwardPrecisionSpec()
    """Number formats."""

    @property
    def calls(self) -> BatchesSpec:
        """Section with the batches: `forward`, or `data` for a model that is read from a file."""
        found: BatchesSpec = getattr(self, "forward", self.data)
        return found

    @property
    def batch_size(self) -> int:
        """Sequences or images of one batch of a model that podsim builds."""
        size: int = getattr(self.calls, "batch_size", 1)
        return size

    def division_findings(self) -> Iterator[Finding]:
        """Yield problems of replicas that do not fit the pod."""
        yield from replica_findings(self.system, self.parallelism)

    def model_findings(self) -> Iterator[Finding]:
        """Yield problems of memory, model and data."""
        yield from one_share(self.memory.available_memory_proportion)
        yield from io_tile_findings(self.memory.io_tiles, self.system.machine.ipu.tile.count)
        yield from product_findings(self.system.machine.ipu, self.precision)
        if self.precision.functions and not getattr(self.model, "widens_functions", False):
            what = "functions in single precision are modelled for BERT and vision transformers"
            yield ("precision", "functions"), what, "leave it out"
        yield from self.model.findings(self)
