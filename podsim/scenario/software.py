"""Software stacks: properties that depend on framework and SDK, and the variation between calls."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import Field, model_validator

from podsim.errors import BadValueError
from podsim.scenario.base import HardwareSpec
from podsim.scenario.quantity import APART, Flag, Info, Quantity, Real, Whole
from podsim.scenario.schedules import ScheduleName

_Spread = Annotated[Real, Quantity("s", ("0 s", "1000 s"), usual=("0 s", "1 s")), APART]
_SmallShare = Annotated[Real, Quantity("share", ("0 %", "50 %"), usual=("0 %", "5 %")), APART]
_Drift = Annotated[Real, Quantity("share", ("0 %", "100 %"), usual=("0 %", "10 %")), APART]

PHASED_STACK: Final = "popxl_sdk_3.3"
"""Shipped stack with phased execution and layers divided among IPUs."""


class Noise(HardwareSpec):
    """Noise of session calls in training. Work of IPUs is planned to the cycle, and has no noise."""

    call_spread_s: _Spread
    """Standard deviation of the time of a call, common to all IPUs; it comes from the calling process."""
    late_call_share: _SmallShare | None = None
    """Share of calls in which a machine is slow, independently for each machine; 0 if left out."""
    late_call_time_s: _Spread | None = None
    """Mean delay of such a call, distributed exponentially; all machines of a run wait for the slowest."""
    run_spread_s: _Spread | None = None
    """Standard deviation of a run's mean time of a call, from run to run; 0 if left out."""

    drift: _Drift | None = None
    """Relative increase of the time of a weight update from start to end of a run, growing evenly; 0 if left out."""
    drift_machine_count: Annotated[Whole, Quantity("count", ("1", "1e9"), usual=("1", "10000")), APART] | None = None
    """Least number of machines of a run with drift; 1 if left out."""

    def drift_on(self, machines: int) -> Real | None:
        """Return the drift of runs on `machines` machines, or None without drift."""
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
    """Standard deviation of the error of predictions with correct inputs, relative."""
    layout_change_cycles_per_byte: Annotated[Real, Quantity("ratio", ("1e-6", "1e6"), usual=("0.05", "50"))]
    """Tile cycles per byte of each of two copies when a tensor changes its layout in chunks of 8 bytes or more."""
    accumulators_like_weights: Flag = False
    """Whether gradient accumulators of products have the layout of the weights, so that every gradient changes its
    layout; otherwise they have the layout of the gradients."""
    unexplained_cycles_per_byte: Annotated[Real, Quantity("ratio", ("0", "1e6"), usual=("0", "500"))] | None = None
    """Tile cycles of unexplained work, per byte of the hidden state on a tile, of each transformer layer in a backward
    pass, if its queries, keys and values have separate weights or the graph is traced; 0 if left out."""
    traces_graphs: Flag = False
    """Whether the framework traces graphs, so that all transformer layers have unexplained work."""
    code_bytes_per_tile: _Code = Field(alias="code_memory_per_tile")
    """Size of vertex, control and exchange code with vertex state, for training."""
    inference_code_bytes_per_tile: _Code = Field(alias="inference_code_memory_per_tile")
    """Size of vertex, control and exchange code with vertex state, for inference."""
    memory_reserve: Annotated[Real, Quantity("ratio", ("0", "0.9"), usual=("0", "0.5"))] | None = None
    """Share of In-Processor-Memory that chosen layouts leave free; 0 if left out."""
    collective_rings: Annotated[Whole, Quantity("count", ("1", "4"), usual=("1", "4"))]
    """Rings of a collective, alternating in direction; each has its own IPU-Link as far as there are enough."""
    broadcast_bytes: Annotated[Whole, Quantity("bytes", ("0 B", "1 GB"), usual=("0 B", "1 MB"))] | None = Field(
        None, alias="broadcast_collective_size"
    )
    """Largest tensor of an all-reduce in a weight update that all replicas send to all others; none if left out."""
    collectives_merged: Flag = False
    """Whether collectives of the same kind in a weight update run as one, with the latencies of one."""
    shard_rings: Annotated[Whole, Quantity("count", ("1", "4"), usual=("1", "4"))] | None = None
    """Rings of collectives between IPUs that share a layer; as `collective_rings` if left out."""
    token_call_s: _Call | None = None
    """Time of a call for one generated token, without device work."""
    sampling_per_logit_s: _Sampling | None = None
    """Time of the host per logit if the host chooses the next token; 0 if left out."""
    forward_call_s: _Call | None = None
    """Time of a session call for forward passes, without device work and transfers."""
    forward_exchange_s: _Call | None = None
    """Time of a batch's exchange with the host in addition to the transfers; hidden if I/O tiles do the exchange."""
    host_call_s: _Call
    """Time of a session call in training, without device work."""
    noise: Noise | None = None
    """Variation of session calls in training; none if left out."""
    one_update_per_call: Flag = False
    """Whether a session call runs one weight update of a convolutional network; otherwise a part of an epoch."""
    session_calls_per_epoch: Annotated[Whole, Quantity("count", ("1", "1e6"), usual=("1", "100"))] | None = None
    """Calls for an epoch of a convolutional network, unless its scenario gives a number; 1 if left out."""
    buffering_depth: Annotated[Whole, Quantity("count", ("1", "1000"), usual=("1", "8"))] | None = None
    """Micro-batches of images in the prefetch queue of each replica, unless its scenario gives a number; 3 if left
    out."""
    clipped_updates_in_turn: Flag = False
    """Whether IPUs of a pipeline update their weights one after the other if gradients are clipped."""
    collation_bytes_per_s: _HandedOver | None = Field(None, alias="collation_bandwidth")
    """Rate at which the calling process copies the batch of a call, except images, before IPUs begin; infinite if left
    out."""
    optimizer_values_per_tensor: Annotated[Whole, Quantity("count", ("1", "100"), usual=("1", "10"))] | None = None
    """Values that each call passes again for every weight tensor, as separate tensors; none if left out."""
    process_input_bytes_per_s: _HandedOver | None = Field(None, alias="process_input_bandwidth")
    """Rate at which one process on a host passes inputs to its IPUs; infinite if left out."""
    stream_s: _Stream | None = Field(None, alias="stream_time")
    """Time of the calling process for each tensor of a micro-batch, one after the other; 0 if left out."""
    epoch_start_s: _Load | None = Field(None, alias="epoch_start_time")
    """Time in which the process that calls starts an epoch of a synchronous loader; zero if left out."""
    replica_call_s: _Stream | None = Field(None, alias="replica_call_time")
    """Time of the calling process for each replica that it feeds, one after the other; 0 if left out."""
    sample_load_s: _Load | None = Field(None, alias="sample_load_time")
    """Time in which a worker of a loader, or the calling process, reads a sample and adds it to a batch."""
    setup_s: _SetUp
    """Time from the start of a run to its first weight update."""
    evaluation: Literal["training_program", "forward_passes"] = "training_program"
    """Program that evaluates during a run: the training program with its optimizer zeroed, or forward passes only."""
    evaluation_call_s: _Call | None = None
    """Time of a session call for the forward passes of an evaluation, without device work."""
    sharding_threshold: Annotated[Whole, Quantity("count", ("1", "1e12"), usual=("1", "1e9"))]
    """Least number of elements of a sharded tensor."""
    update_first_ipu_apart: Flag
    """Whether IPU 0, which holds the embedding, updates its weights after the others."""
    checkpoint_s: _SetUp | None = None
    """Time that a checkpoint adds to the training, without data transfer."""
    validation_setup_s: _SetUp | None = None
    """Time to build and load the program that validates checkpoints."""
    recomputes_pipelines: Flag = False
    """Whether pipelines of image models are recomputed stage by stage, unless `parallelism.recomputation` is given."""
    schedule: ScheduleName = "lock_step"
    """Pipeline schedule, unless `parallelism.schedule` is given."""
    phased_execution: Flag | None = None
    """Whether the stack can run layers one after the other from streaming memory. `false` refuses scenarios that need
    it; unknown if left out."""
    shared_layers: Flag | None = None
    """Whether the stack can divide a layer among IPUs in training (`parallelism.tensor_parallel`). `false` refuses
    scenarios that need it; unknown if left out."""
    recompute_last_segment: Flag = True
    """Whether the last segment, whose backward pass follows its forward pass at once, is recomputed like the others."""
    reduction_merge_bytes: _Merged | None = Field(None, alias="reduction_merge_size")
    """Size up to which gradients are reduced together; each tensor separately if left out."""

    @property
    def update_rules(self) -> tuple[Any, ...]:
        """Properties of the stack that the collectives of a weight update depend on."""
        return self.sharding_threshold, self.collectives_merged, self.broadcast_bytes

    @property
    def rings_of_shards(self) -> int:
        """Number of rings of a collective between IPUs that share a layer."""
        return self.shard_rings or self.collective_rings
