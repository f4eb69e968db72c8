"""Blocks and workloads: the units a pipeline stage is made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from podsim.models.op import DTYPE_BYTES, PIECE_BYTES, Conv, DType, MatMul, Op, ReplicaSum


@dataclass(frozen=True, slots=True)
class Parameter:
    """A trained tensor.

    Attributes:
        name: Its name within the block.
        shape: Its shape.
        tied_to: Name of the parameter of another block whose storage it shares, if any.
        share_read: Expected share of it that one run of its block reads; less than one for experts.
        dtype: Format in which it is stored, if it has one of its own; it then shares no storage.
    """

    name: str
    shape: tuple[int, ...]
    tied_to: str | None = None
    share_read: float = 1.0
    dtype: DType | None = None

    @property
    def element_count(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a model that a pipeline stage holds as a whole.

    Attributes:
        name: What it is, for example `attention`.
        forward: Operations of the forward pass, in order.
        backward: Operations of the backward pass, gradient accumulation included.
        parameters: Trained tensors.
        output_elements: Elements handed to the next block per micro-batch.
        saved_elements: Elements that the backward pass needs from the forward pass per micro-batch,
            the block's input excluded; what recomputation saves.
        live_elements: The most elements alive at once inside the block beside its input, where its operations
            do not name each other's results; None where they do.
        partial_sums: Names of its operations whose results are partial sums, or partial maxima, over the shards of a
            layer, which these have to join before anything reads them.
        width_sums: Those whose results are partial sums over the parts of the width of hidden states, where IPUs divide
            that as well.
        passed_elements: Of its input, elements that it hands on as they came.
        unread_elements: Of its input, elements that it does not read.
        keeps_input: Whether its backward pass reads its input, which the block before it does not save as a result.
        kept_results: Names of its operations whose results the backward pass reads, where a forward pass makes them one
            after the other and each would be gone before the next.
        cache_read_elements: Elements of earlier tokens that a step of text generation finds in a cache.
        cache_written_elements: Elements that such a step adds to it.
        padding_flop: Work of its forward pass on rows that stand for no token: experts are computed as if all got as
            many as the fullest, or as they have room for. [FLOP]
    """

    name: str
    forward: tuple[Op, ...]
    backward: tuple[Op, ...]
    parameters: tuple[Parameter, ...]
    output_elements: int
    saved_elements: int
    live_elements: int | None = None
    partial_sums: tuple[str, ...] = ()
    width_sums: tuple[str, ...] = ()
    passed_elements: int = 0
    unread_elements: int = 0
    keeps_input: bool = False
    kept_results: tuple[str, ...] = ()
    cache_read_elements: int = 0
    cache_written_elements: int = 0
    padding_flop: int = 0

    @property
    def parameter_count(self) -> int:
        """Elements of the tensors that this block stores itself."""
        return sum(p.element_count for p in self.parameters if p.tied_to is None)

    @property
    def read_parameter_count(self) -> int:
        """Elements that one run reads, tied tensors included."""
        return round(sum(p.element_count * p.share_read for p in self.parameters))

    @property
    def forward_flop(self) -> int:
        """Work of matrix products and convolutions in the forward pass, without that on padding. [FLOP]"""
        return sum(op.flop for op in self.forward if isinstance(op, (Conv, MatMul))) - self.padding_flop


@dataclass(frozen=True, slots=True)
class HostTensors:
    """How many tensors pass between a host and a replica for one micro-batch.

    Attributes:
        inputs: What the model reads.
        labels: What training reads beside.
        results: What a forward pass returns.
    """

    inputs: int = 0
    labels: int = 0
    results: int = 0


@dataclass(frozen=True)
class Workload:
    """A model as blocks, for one micro-batch.

    Attributes:
        name: The model.
        blocks: Blocks by name.
        order: Names of the blocks as the forward pass runs them; one name may repeat.
        samples_per_micro_batch: Real samples that one micro-batch stands for (packs hold several).
        host_input_bytes: Sent from the host per micro-batch. [B]
        host_decode_count: Images that a host decodes per micro-batch.
        host_tensors: Tensors that a host hands over and takes per micro-batch; none of synthetic data.
        activation_dtype: Number format of what blocks hand on.
        stash_dtype: Number format of what is kept from the forward to the backward pass; None if it is the same.
        layers: Blocks that make up a layer, by what such a layer is called; none where blocks differ.
        whole: The undivided model, where this is one of the shards that share every layer.
    """

    name: str
    blocks: Mapping[str, Block]
    order: tuple[str, ...]
    samples_per_micro_batch: float
    host_input_bytes: int
    host_decode_count: int = 0
    host_tensors: HostTensors = HostTensors()
    activation_dtype: str = "fp16"
    stash_dtype: str | None = None
    layers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    whole: Workload | None = None

    @property
    def hidden_bytes(self) -> int:
        """What a layer hands on. [B]"""
        last = next(iter(self.layers.values()))[-1]
        return self.blocks[last].output_elements * self.activation_bytes

    @property
    def units(self) -> tuple[tuple[str, ...], ...]:
        """Layers, and blocks that belong to none, in the order in which they first run."""
        layer_of = {name: blocks for blocks in self.layers.values() for name in blocks}
        return tuple(dict.fromkeys(layer_of.get(name, (name,)) for name in self.order))

    def forward_only(self) -> Workload:
        """The workload without backward passes: what is not run takes neither time nor memory."""
        return replace(self, blocks={name: replace(block, backward=()) for name, block in self.blocks.items()})

    def input_elements(self, block_name: str) -> int:
        """Elements that a block reads from the one before it per micro-batch; 0 for the first."""
        place = self.order.index(block_name)
        return self.blocks[self.order[place - 1]].output_elements if place else 0

    @property
    def product_dtype(self) -> str:
        """The narrowest number format of operands in a forward pass: that of activations where all are alike."""
        products = (op for block in self.blocks.values() for op in block.forward if isinstance(op, (Conv, MatMul)))
        return min((op.operand_dtype for op in products), key=DTYPE_BYTES.__getitem__, default=self.activation_dtype)

    @cached_property
    def sums_over_replicas(self) -> bool:
        """Whether an operation of a pass waits for other replicas."""
        blocks = self.blocks.values()
        return any(isinstance(op, ReplicaSum) for block in blocks for op in (*block.forward, *block.backward))

    @cached_property
    def has_small_pieces(self) -> bool:
        """Whether a tensor changes its layout in pieces that are not copied at full speed."""
        ops = (op for block in self.blocks.values() for op in (*block.forward, *block.backward))
        return any(piece_bytes % PIECE_BYTES for op in ops for _, piece_bytes in op.laid_out)

    @cached_property
    def parameter_count(self) -> int:
        """Trained elements, tied tensors counted once."""
        return sum(count * self.blocks[name].parameter_count for name, count in Counter(self.order).items())

    @cached_property
    def forward_flop(self) -> int:
        """Work of matrix products and convolutions in one forward pass of one micro-batch. [FLOP]"""
        return sum(count * self.blocks[name].forward_flop for name, count in Counter(self.order).items())

    @property
    def training_flop(self) -> int:
        """Model work of forward and backward pass: three times the forward pass, recomputation excluded. [FLOP]

        Of a shard it is that of the undivided model, which counts nothing twice.
        """
        return 3 * (self.whole or self).forward_flop

    @property
    def stash_bytes(self) -> int:
        """Bytes per element that is kept from the forward to the backward pass. [B]"""
        return DTYPE_BYTES[self.stash_dtype or self.activation_dtype]

    @property
    def activation_bytes(self) -> int:
        """Bytes per activation element. [B]"""
        return DTYPE_BYTES[self.activation_dtype]
