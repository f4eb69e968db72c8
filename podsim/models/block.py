"""Blocks, which pipeline stages consist of, and workloads of blocks."""

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

    name: str  # name within the block
    shape: tuple[int, ...]
    tied_to: str | None = None  # name of another block's parameter with the same storage, if tied
    share_read: float = 1.0  # expected share of the tensor that one run of its block reads; below 1 for experts
    dtype: DType | None = None  # storage format, if different from the block's; such a parameter is not tied

    @property
    def element_count(self) -> int:
        """Number of elements of the tensor."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a model that is not divided between pipeline stages."""

    name: str  # kind of block, for example `attention`
    forward: tuple[Op, ...]  # operations of the forward pass, in order
    backward: tuple[Op, ...]  # operations of the backward pass, gradient accumulation included
    parameters: tuple[Parameter, ...]  # trained tensors
    output_elements: int  # elements handed to the next block per micro-batch
    # elements that the backward pass needs from the forward pass per micro-batch, the block's input excluded;
    # recomputation does not store these
    saved_elements: int
    # most elements alive at once inside the block without its input, if operations do not name their inputs; None if
    # they do
    live_elements: int | None = None
    # operations whose results are partial sums or maxima over the shards of a layer, and are combined before any read
    partial_sums: tuple[str, ...] = ()
    # operations whose results are partial sums over parts of the hidden width, if IPUs divide the width as well
    width_sums: tuple[str, ...] = ()
    passed_elements: int = 0  # elements of the input that the block passes on unchanged
    unread_elements: int = 0  # elements of the input that the block does not read
    # True if the backward pass reads the block's input and the previous block does not save it as a result
    keeps_input: bool = False
    # operations at the end of the block whose results no backward pass reads if the block's output is stored;
    # recomputation leaves these out
    unread_results: frozenset[str] = frozenset()
    # operations in serial parts of a block whose results stay alive for the backward pass
    kept_results: tuple[str, ...] = ()
    cache_read_elements: int = 0  # elements of earlier tokens that a generation step reads from a cache
    cache_written_elements: int = 0  # elements that a generation step adds to the cache
    # work of the forward pass on padding rows: all experts compute as many rows as the fullest, or as their capacity
    # [FLOP]
    padding_flop: int = 0

    @property
    def parameter_count(self) -> int:
        """Number of elements of the block's parameters, without tied ones."""
        return sum(p.element_count for p in self.parameters if p.tied_to is None)

    @property
    def forward_flop(self) -> int:
        """Work of matrix products and convolutions in the forward pass, without work on padding. [FLOP]"""
        return sum(op.flop for op in self.forward if isinstance(op, (Conv, MatMul))) - self.padding_flop


_READ_BY_NO_GRADIENT = frozenset({"add", DROPOUT})
"""Elementwise functions whose gradients read no operand and no result."""


def unread_results(ops: Sequence[Op]) -> frozenset[str]:
    """Return the operations at the end of a forward pass whose results no gradient reads.

    Gradients of sums, dropouts and biases read nothing of the forward pass; gradients of products read operands, and
    gradients of look-ups read indices. Recomputation stops before these operations [popart_lowering].
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
    """Numbers of tensors that a host and a replica exchange for one micro-batch."""

    inputs: int = 0
    labels: int = 0  # tensors that only training reads
    results: int = 0  # tensors that a forward pass returns
    result_elements: int | None = None  # elements of a micro-batch's results, if known


@dataclass(frozen=True)
class Workload:
    """A model as blocks, for one micro-batch."""

    name: str
    blocks: Mapping[str, Block]
    order: tuple[str, ...]  # names of the blocks in the order of the forward pass; a name may repeat
    samples_per_micro_batch: float  # real samples of a micro-batch; a pack holds several
    host_input_bytes: int  # bytes from the host per micro-batch [B]
    host_decode_count: int = 0  # images that a host decodes per micro-batch
    # tensors between host and replica per micro-batch; none for synthetic data
    host_tensors: HostTensors = HostTensors()
    activation_dtype: str = "fp16"  # number format of activations between blocks
    # number format of stashed activations; None for that of activations
    stash_dtype: str | None = None
    # names of the blocks of a layer, by the name of the layer's kind; empty if all blocks differ
    layers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    whole: Workload | None = None  # undivided model, if this workload is one of the shards of all layers
    # elements that the first stage computes once for the attention blocks of all stages, such as a mask; stages that
    # need these elements receive and keep them, and they have no gradient
    carried_elements: int = 0

    @property
    def hidden_bytes(self) -> int:
        """Size of a layer's output. [B]"""
        last = next(iter(self.layers.values()))[-1]
        return self.blocks[last].output_elements * self.activation_bytes

    @property
    def units(self) -> tuple[tuple[str, ...], ...]:
        """Names of the blocks of each layer, and of each block without a layer, in order of their first run."""
        layer_of = {name: blocks for blocks in self.layers.values() for name in blocks}
        return tuple(dict.fromkeys(layer_of.get(name, (name,)) for name in self.order))

    def forward_only(self) -> Workload:
        """Return the workload without backward passes."""
        return replace(self, blocks={name: replace(block, backward=()) for name, block in self.blocks.items()})

    def input_elements(self, block_name: str) -> int:
        """Return the elements that a block reads from the previous block per micro-batch; 0 for the first block."""
        place = self.order.index(block_name)
        return self.blocks[self.order[place - 1]].output_elements if place else 0

    @property
    def product_dtype(self) -> str:
        """Narrowest number format of operands of products in a forward pass."""
        products = (op for block in self.blocks.values() for op in block.forward if isinstance(op, (Conv, MatMul)))
        return min((op.operand_dtype for op in products), key=DTYPE_BYTES.__getitem__, default=self.activation_dtype)

    @cached_property
    def summed_replicas(self) -> int:
        """Largest group of replicas that operations of a pass sum over; 0 without such operations."""
        ops = (op for block in self.blocks.values() for op in (*block.forward, *block.backward))
        return max((op.group_size for op in ops if isinstance(op, ReplicaSum)), default=0)

    @cached_property
    def parameter_count(self) -> int:
        """Number of trained elements; tied tensors count once."""
        return sum(count * self.blocks[name].parameter_count for name, count in Counter(self.order).items())

    @cached_property
    def parameter_tensor_count(self) -> int:
        """Number of trained tensors; tied tensors count once."""
        return sum(parameter.tied_to is None for name in self.order for parameter in self.blocks[name].parameters)

    @cached_property
    def forward_flop(self) -> int:
        """Work of matrix products and convolutions in one forward pass of one micro-batch. [FLOP]"""
        return sum(count * self.blocks[name].forward_flop for name, count in Counter(self.order).items())

    @property
    def training_flop(self) -> int:
        """Work of forward and backward pass without recomputation: three times the forward pass. [FLOP]

        For a shard, this is the work of the undivided model.
        """
        return 3 * (self.whole or self).forward_flop

    @property
    def stash_bytes(self) -> int:
        """Bytes per element of the stash. [B]"""
        return DTYPE_BYTES[self.stash_dtype or self.activation_dtype]

    @property
    def activation_bytes(self) -> int:
        """Bytes per activation element. [B]"""
        return DTYPE_BYTES[self.activation_dtype]
