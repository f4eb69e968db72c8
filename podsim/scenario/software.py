"""Software stacks: the few things that change with framework and SDK, and how much they differ from call to call."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.scenario.base import HardwareSpec
from podsim.scenario.quantity import APART, Flag, Info, Quantity, Real, Whole
from podsim.scenario.schedules import ScheduleName

_Spread = Annotated[Real, Quantity("s", ("0 s", "1000 s"), usual=("0 s", "1 s")), APART]
_SmallShare = Annotated[Real, Quantity("share", ("0 %", "50 %"), usual=("0 %", "5 %")), APART]
_Drift = Annotated[Real, Quantity("share", ("0 %", "100 %"), usual=("0 %", "10 %")), APART]

PHASED_STACK: Final = "popxl_sdk_3.3"
"""Shipped stack that runs phased execution, and divides layers among IPUs."""


class Noise(HardwareSpec):
    """Noise of session calls that train. What IPUs compute and exchange is planned to the cycle, and has none."""

    call_spread_s: _Spread
    """Standard deviation of a call, common to all IPUs: what the process that calls does."""
    late_call_share: _SmallShare | None = None
    """Share of calls that one machine is late for, each machine by itself; none if left out."""
    late_call_time_s: _Spread | None = None
    """How late it is then, on average, distributed exponentially; all machines of a run wait for the latest."""
    run_spread_s: _Spread | None = None
    """Standard deviation, from run to run, of what a call takes on average; none if left out."""

    drift: _Drift | None = None
    """How much longer a weight update takes at the end of a run than at its start, growing evenly; none if left out."""
    drift_machine_count: Annotated[Whole, Quantity("count", ("1", "1e9"), usual=("1", "10000")), APART] | None = None
    """Machines from which on runs do so; any number if left out."""

    def drift_on(self, machines: int) -> Real | None:
        """That of runs on so many machines; None where there is none."""
        return self.drift if self.drift and machines >= (self.drift_machine_count or 1) else None

    @model_validator(mode="after")
    def _late_calls_are_whole(self) -> Noise:
        if self.late_call_share and self.late_call_time_s is None:
            raise BadValueError("late_call_share is given, but not how late", "add `late_call_time: 100 ms`")
        return self


_Code = Annotated[Whole, Quantity("bytes", ("1 B", "1 GiB"), usual=("1 kB", "1 MB"))]
_Call = Annotated[Real, Quantity("s", ("0 s", "1e6 s"), usual=("0 s", "10 s"))]
_HandedOver = Annotated[Real, Quantity("bytes_per_s", ("1 kB/s", "1000000 TB/s"), usual=("10 MB/s", "1 TB/s"))]
_Merged = Annotated[Whole, Quantity("bytes", ("1 B", "1000000 TB"), usual=("1 kB", "10 GB"))]
_Sampling = Annotated[Real, Quantity("s", ("0 s", "1 s"), usual=("0 s", "10 us"))]
_Scatter = Annotated[Real, Quantity("ratio", ("0", "1"), usual=("0.005", "0.2"))]
_Stream = Annotated[Real, Quantity("s", ("0 s", "1 s"), usual=("0 s", "1 ms"))]
_Load = Annotated[Real, Quantity("s", ("0 s", "1000 s"), usual=("0 s", "100 ms"))]
_SetUp = Annotated[Real, Quantity("s", ("0 s", "1e9 s"), usual=("0 s", "24 h"))]


class Software(HardwareSpec):
    """A framework on an SDK."""

    kind: Literal["software"] = "software"
    """What the file describes."""
    name: str
    """Its name."""
    framework: str
    """For example PopART."""
    sdk: str
    """Version of the SDK."""
    model_scatter: Annotated[_Scatter | None, Info("no time follows from it; draws of uncertain inputs take it")] = None
    """How far predictions are off though their inputs are right, as one standard deviation."""
    layout_change_cycles_per_byte: Annotated[Real, Quantity("ratio", ("1e-6", "1e6"), usual=("0.05", "50"))]
    """Tile cycles per byte of each of two copies when a tensor changes its layout in pieces of 8 bytes or more."""
    code_bytes_per_tile: _Code = Field(alias="code_memory_per_tile")
    """Vertex, control and exchange code with vertex state, for training."""
    inference_code_bytes_per_tile: _Code = Field(alias="inference_code_memory_per_tile")
    """The same for inference."""
    memory_reserve: Annotated[Real, Quantity("ratio", ("0", "0.9"), usual=("0", "0.5"))] | None = None
    """Share of In-Processor-Memory that divisions leave free that are chosen; none if left out."""
    collective_rings: Annotated[Whole, Quantity("count", ("1", "4"), usual=("1", "4"))]
    """Rings that collectives are divided over, by turns in each direction, each on an IPU-Link as far as there are."""
    halved_bytes: Annotated[Whole, Quantity("bytes", ("0 B", "1 GB"), usual=("0 B", "1 MB"))] = Field(
        alias="halved_collective_size"
    )
    """The largest message that collectives halve, with partners twice as far apart each time, and hand to no ring."""
    collectives_merged: Flag = False
    """Whether collectives of the same kind in a weight update run as one, with the latencies of one."""
    shard_rings: Annotated[Whole, Quantity("count", ("1", "4"), usual=("1", "4"))] | None = None
    """The same of IPUs that share a layer; as `collective_rings` if left out."""
    token_call_s: _Call | None = None
    """A call for one generated token, device work apart."""
    sampling_per_logit_s: _Sampling | None = None
    """What the host does with each logit where it chooses the next token; nothing if left out."""
    forward_call_s: _Call | None = None
    """A session call for forward passes, device work and transfers apart."""
    forward_exchange_s: _Call | None = None
    """What a batch's exchange with the host takes beside the transfers, unless I/O tiles do it meanwhile."""
    host_call_s: _Call
    """A session call that trains, device work apart."""
    noise: Noise | None = None
    """How much session calls that train differ; always the same if left out."""
    one_update_per_call: Flag = False
    """Whether a session call runs one weight update of a convolutional network; otherwise a part of an epoch."""
    session_calls_per_epoch: Annotated[Whole, Quantity("count", ("1", "1e6"), usual=("1", "100"))] | None = None
    """Calls for an epoch of a convolutional network whose scenario does not say; one if left out."""
    buffering_depth: Annotated[Whole, Quantity("count", ("1", "1000"), usual=("1", "8"))] | None = None
    """Micro-batches of images that wait ready in front of each replica, if its scenario does not say; 3 if left out."""
    clipped_updates_in_turn: Flag = False
    """Whether IPUs of a pipeline update their weights one after the other where gradients are clipped."""
    collation_bytes_per_s: _HandedOver | None = Field(None, alias="collation_bandwidth")
    """The process that calls copies the batch of a call, but for images, before IPUs begin; in no time if left out."""
    optimizer_values_per_tensor: Annotated[Whole, Quantity("count", ("1", "100"), usual=("1", "10"))] | None = None
    """What each call hands over anew for every tensor of weights, as tensors of their own; nothing if left out."""
    process_input_bytes_per_s: _HandedOver | None = Field(None, alias="process_input_bandwidth")
    """What one process on a host hands over to the IPUs it serves; without limit if left out."""
    stream_s: _Stream | None = Field(None, alias="stream_time")
    """The process that calls serves each tensor of a micro-batch, one after the other; in no time if left out."""
    epoch_start_s: _Load | None = Field(None, alias="epoch_start_time")
    """Time in which the process that calls starts an epoch of a synchronous loader; zero if left out."""
    replica_call_s: _Stream | None = Field(None, alias="replica_call_time")
    """The process that calls sees to each replica that it feeds, one after the other; in no time if left out."""
    sample_load_s: _Load | None = Field(None, alias="sample_load_time")
    """Time in which a worker of a loader, or the process that calls, reads a sample and puts it into a batch."""
    setup_s: _SetUp
    """From the start of a run to its first weight update."""
    evaluation: Literal["training_program", "forward_passes"] = "training_program"
    """What evaluates during a run: the training program with its optimizer zeroed, or one of forward passes alone."""
    evaluation_call_s: _Call | None = None
    """A session call for the forward passes of an evaluation, device work apart."""
    sharding_threshold: Annotated[Whole, Quantity("count", ("1", "1e12"), usual=("1", "1e9"))]
    """Tensors with fewer elements are not sharded."""
    update_first_ipu_apart: Flag
    """Whether IPU 0, which holds the embedding, updates its weights after the others."""
    checkpoint_s: _SetUp | None = None
    """What writing a checkpoint adds to the training, data transfer apart."""
    validation_setup_s: _SetUp | None = None
    """Building and loading the program that validates checkpoints."""
    recomputes_pipelines: Flag = False
    """True if pipelines are recomputed stage by stage where `parallelism.recomputation` of images does not say."""
    schedule: ScheduleName = "lock_step"
    """When stages of a pipeline run which micro-batch, where `parallelism.schedule` does not say."""
    phased_execution: Flag | None = None
    """Whether the stack runs layers one after the other out of streaming memory; scenarios that ask a stack without it
    are refused. Not known if left out."""
    shared_layers: Flag | None = None
    """Whether the stack divides a layer among IPUs in training (`parallelism.tensor_parallel`); scenarios that ask a
    stack without it are refused. Not known if left out."""
    recompute_last_segment: Flag = True
    """Whether the segment whose backward pass follows its forward pass at once is recomputed like the others."""
    reduction_merge_bytes: _Merged | None = Field(None, alias="reduction_merge_size")
    """Gradients are reduced together up to this size; each tensor alone if left out."""

    @property
    def rings_of_shards(self) -> int:
        """Rings that sums over the IPUs that share a layer are divided over."""
        return self.shard_rings or self.collective_rings
