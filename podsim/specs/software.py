"""Software stacks: the few things that change with framework and SDK."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from podsim.specs.base import HardwareSpec
from podsim.specs.quantity import Flag, Quantity, Real, Whole

_Code = Annotated[Whole, Quantity("bytes", ("1 B", "1 GiB"), usual=("1 kB", "1 MB"))]
_Call = Annotated[Real, Quantity("s", ("0 s", "1e6 s"), usual=("0 s", "10 s"))]
_Merged = Annotated[Whole, Quantity("bytes", ("1 B", "1000000 TB"), usual=("1 kB", "10 GB"))]
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
    layout_change_cycles_per_byte: Annotated[Real, Quantity("ratio", ("1e-6", "1e6"), usual=("0.05", "50"))]
    """Tile cycles per byte that is copied when a tensor changes its layout."""
    code_bytes_per_tile: _Code = Field(alias="code_memory_per_tile")
    """Vertex, control and exchange code with vertex state, for training."""
    inference_code_bytes_per_tile: _Code = Field(alias="inference_code_memory_per_tile")
    """The same for inference."""
    memory_reserve: Annotated[Real, Quantity("ratio", ("0", "0.9"), usual=("0", "0.5"))] | None = None
    """Share of In-Processor-Memory that divisions leave free that are chosen; none if left out."""
    collective_both_ways: Flag = False
    """Whether rings of tensor-parallel IPUs use both directions of their links."""
    collective_step_latency_s: Annotated[Real, Quantity("s", ("0 s", "1000 s"), usual=("0 s", "1 ms"))]
    """Least time of one step of a collective."""
    token_call_s: _Call | None = None
    """A call for one generated token, with sampling on the host."""
    forward_call_s: _Call | None = None
    """A session call for forward passes, device work and transfers apart."""
    forward_exchange_s: _Call | None = None
    """What a batch's exchange with the host takes beside the transfers, unless I/O tiles do it meanwhile."""
    host_call_s: _Call
    """A session call for one weight update, device work apart."""
    setup_s: _SetUp
    """From the start of a run to its first weight update."""
    sharding_threshold: Annotated[Whole, Quantity("count", ("1", "1e12"), usual=("1", "1e9"))]
    """Tensors with fewer elements are not sharded."""
    update_first_ipu_apart: Flag
    """Whether IPU 0, which holds the embedding, updates its weights after the others."""
    checkpoint_s: _SetUp | None = None
    """What writing a checkpoint adds to the training, data transfer apart."""
    validation_setup_s: _SetUp | None = None
    """Building and loading the program that validates checkpoints."""
    schedule: Literal["lock_step", "grouped"] = "lock_step"
    """What a pipeline cycle is: all stages of an IPU in turn, or all forward passes and then all backward passes."""
    recompute_last_segment: Flag = True
    """Whether the segment whose backward pass follows its forward pass at once is recomputed like the others."""
    reduction_merge_bytes: _Merged | None = Field(None, alias="reduction_merge_size")
    """Gradients are reduced together up to this size; each tensor alone if left out."""
