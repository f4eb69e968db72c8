"""Software stacks: the few things that change with framework and SDK."""

from __future__ import annotations

from typing import Literal

from podsim.specs.base import Spec
from podsim.specs.quantity import Flag, SourcedBytes, SourcedCount, SourcedRatio, SourcedTime


class SoftwareSpec(Spec):
    """A framework on an SDK."""

    kind: Literal["software"] = "software"
    """What the file describes."""
    name: str
    """Its name."""
    framework: str
    """For example PopART."""
    sdk: str
    """Version of the SDK."""
    layout_change_cycles_per_byte: SourcedRatio
    """Tile cycles per byte that is copied when a tensor changes its layout."""
    code_memory_per_tile: SourcedBytes
    """Vertex, control and exchange code with vertex state, for training."""
    inference_code_memory_per_tile: SourcedBytes
    """The same for inference."""
    collective_both_ways: Flag = False
    """Whether rings of tensor-parallel IPUs use both directions of their links."""
    collective_step_latency: SourcedTime
    """Least time of one step of a collective."""
    token_call: SourcedTime | None = None
    """A call for one generated token, with sampling on the host."""
    forward_call: SourcedTime | None = None
    """A session call for forward passes, device work and transfers apart."""
    host_call: SourcedTime
    """A session call for one weight update, device work apart."""
    setup: SourcedTime
    """From the start of a run to its first weight update."""
    sharding_threshold: SourcedCount
    """Tensors with fewer elements are not sharded."""
    update_first_ipu_apart: Flag
    """Whether IPU 0, which holds the embedding, updates its weights after the others."""
    checkpoint: SourcedTime | None = None
    """What writing a checkpoint adds to the training, data transfer apart."""
    validation_setup: SourcedTime | None = None
    """Building and loading the program that validates checkpoints."""
    schedule: Literal["lock_step", "grouped"] = "lock_step"
    """What a pipeline cycle is: all stages of an IPU in turn, or all forward passes and then all backward passes."""
    recompute_last_segment: Flag = True
    """Whether the segment whose backward pass follows its forward pass at once is recomputed like the others."""
    reduction_merge_size: SourcedBytes | None = None
    """Gradients are reduced together up to this size; each tensor alone if left out."""
