"""Blocks and workloads: the units a pipeline stage is made of."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from podsim.models.op import (
    DROPOUT,
    DTYPE_BYTES,
    Conv,
    DType,
    Elementwise,
    Gather,
    MatMul,
    Op,
    Rearrange,
    ReplicaSum,
    ShardExchange,
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A trained tensor."""

    name: str  # its name within the block
    shape: tuple[int, ...]
    tied_to: str | None = None  # name of the parameter of another block whose storage it shares, if any
    share_read: float = 1.0  # expected share of it that one run of its block reads; less than one for experts
    dtype: DType | None = None  # format in which it is stored, if it has one of its own; it then shares no storage

    @property
    def element_count(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a model that a pipeline stage holds as a whole."""

    name: str  # what it is, for example `attention`
    forward: tuple[Op, ...]  # operations of the forward pass, in order
    backward: tuple[Op, ...]  # operations of the backward pass, gradient accumulation included
    parameters: tuple[Parameter, ...]  # trained tensors
    output_elements: int  # elements handed to the next block per micro-batch
    # elements that the backward pass needs from the forward pass per micro-batch, the block's input excluded; what
    # recomputation saves
    saved_elements: int
    # the most elements alive at once inside the block beside its input, where its operations do not name each other's
    # results; None where they do
    live_elements: int | None = None
    # names of its operations whose results are partial sums, or partial maxima, over the shards of a layer, which these
    # have to join before anything reads them
    partial_sums: tuple[str, ...] = ()
    # those whose results are partial sums over the parts of the width of hidden states, where IPUs divide that as well
    width_sums: tuple[str, ...] = ()
    passed_elements: int = 0  # of its input, elements that it hands on as they came
    unread_elements: int = 0  # of its input, elements that it does not read
    # whether its backward pass reads its input, which the block before it does not save as a result
    keeps_input: bool = False
    # names of its operations, at its end, whose results no backward pass reads where what the block hands on is kept; a
    # forward pass is redone without them
    unread_results: frozenset[str] = frozenset()
    # names of its operations whose results the backward pass reads, where a forward pass makes them one after the other
    # and each would be gone before the next
    kept_results: tuple[str, ...] = ()
    cache_read_elements: int = 0  # elements of earlier tokens that a step of text generation finds in a cache
    cache_written_elements: int = 0  # elements that such a step adds to it
    # work of its forward pass on rows that stand for no token: experts are computed as if all got as many as the
    # fullest, or as they have room for [FLOP]
    padding_flop: int = 0

    @property
    def parameter_count(self) -> int:
        """Elements of the tensors that this block stores itself."""
        return sum(p.element_count for p in self.parameters if p.tied_to is None)

    @property
    def forward_flop(self) -> int:
        """Work of matrix products and convolutions in the forward pass, without that on padding. [FLOP]"""
        return sum(op.flop for op in self.forward if isinstance(op, (Conv, MatMul))) - self.padding_flop


_READ_BY_NO_GRADIENT = frozenset({"add", DROPOUT})
"""Elementwise functions whose gradients read neither operands nor result."""


def unread_results(ops: Sequence[Op]) -> frozenset[str]:
    """Operations at the end of a forward pass whose results only its own result is made of.

    Gradients of sums, dropouts and biases read nothing of the forward pass, those of products their operands and of
    look-ups their indices, so that a redone pass stops in front of them [popart_lowering].
    """
    unread: set[str] = set()
    read: set[str] = set()
    for op in reversed(ops):
        adds = isinstance(op, Elementwise) and (op.function in _READ_BY_NO_GRADIENT or op.inputs[-1].endswith("/bias"))
        moves = isinstance(op, (Rearrange, ShardExchange))
        if op.name not in read and (adds or moves or isinstance(op, (Gather, MatMul))):
            unread.add(op.name)
        if not (op.name in unread and (adds or moves)):
            read.update(op.inputs)
    return frozenset(unread)


@dataclass(frozen=True, slots=True)
class HostTensors:
    """How many tensors pass between a host and a replica for one micro-batch."""

    inputs: int = 0
    labels: int = 0  # what training reads beside
    results: int = 0  # what a forward pass returns
    targets: int = 0  # numbers of the labels that a loop of training looks at, one after the other
    result_elements: int | None = None  # numbers of the results of a micro-batch, where they are known


@dataclass(frozen=True)
class Workload:
    """A model as blocks, for one micro-batch."""

    name: str
    blocks: Mapping[str, Block]
    order: tuple[str, ...]  # names of the blocks as the forward pass runs them; one name may repeat
    samples_per_micro_batch: float  # real samples that one micro-batch stands for (packs hold several)
    host_input_bytes: int  # sent from the host per micro-batch [B]
    host_decode_count: int = 0  # images that a host decodes per micro-batch
    # tensors that a host hands over and takes per micro-batch; none of synthetic data
    host_tensors: HostTensors = HostTensors()
    activation_dtype: str = "fp16"  # number format of what blocks hand on
    # number format of what is kept from the forward to the backward pass; None if it is the same
    stash_dtype: str | None = None
    # blocks that make up a layer, by what such a layer is called; none where blocks differ
    layers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    whole: Workload | None = None  # the undivided model, where this is one of the shards that share every layer
    # what the first stage makes once for attention blocks of all stages, such as a mask: it is handed on beside
    # activations as far as it is read, each stage keeps it, and it has no gradient
    carried_elements: int = 0

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
    def summed_replicas(self) -> int:
        """Replicas that operations of a pass sum over, 0 without any."""
        ops = (op for block in self.blocks.values() for op in (*block.forward, *block.backward))
        return max((op.group_size for op in ops if isinstance(op, ReplicaSum)), default=0)

    @cached_property
    def parameter_count(self) -> int:
        """Trained elements, tied tensors counted once."""
        return sum(count * self.blocks[name].parameter_count for name, count in Counter(self.order).items())

    @cached_property
    def parameter_tensor_count(self) -> int:
        """Trained tensors, tied ones counted once."""
        return sum(parameter.tied_to is None for name in self.order for parameter in self.blocks[name].parameters)

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
