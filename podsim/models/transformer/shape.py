"""Dimensions of batches, shards and layers of transformers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from podsim.models.block import Parameter
from podsim.models.layers import GraphBuilder
from podsim.models.op import DType
from podsim.models.transformer.experts import Experts

NormKind = Literal["layer", "rms", "rms_plus_one"]
MaskKind = Literal["none", "padding", "square", "packs", "causal"]
ParallelKind = Literal["one_norm", "two_norms"]
Bias = Literal["qkv", "projection", "feed_forward", "head"]
LAYER_BIASES: tuple[Bias, ...] = ("qkv", "projection", "feed_forward")
INT32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of whole sequences, or of the new tokens of a generation step."""

    size: int  # sequences or images per micro-batch
    sequence_length: int  # tokens of a sequence in the batch
    dropout: bool = True  # dropout after embedding and blocks
    attention_dropout: bool = True
    dtype: DType = "fp16"  # number format of weights, activations and their gradients
    accumulator_dtype: DType = "fp16"  # number format of accumulated gradients
    # number format of layer norms and activation functions in a forward pass; `dtype` if None
    functions_dtype: DType | None = None
    # tokens that each token of a generation step attends to, itself included; None for whole sequences. A generation
    # step trains nothing, and only the last token of a sequence reaches the head
    context_length: int | None = None
    cached: bool = False  # True if a generation step reads keys and values of the context from a cache

    @property
    def tokens(self) -> int:
        """Number of tokens of the batch."""
        return self.size * self.sequence_length

    @property
    def is_step(self) -> bool:
        """True if the batch is a generation step."""
        return self.context_length is not None


@dataclass(frozen=True, slots=True)
class Shards:
    """Division of layers among the IPUs of a group, and of attention into serial parts."""

    count: int = 1  # IPUs that share every layer
    # True if each shard holds only some tokens of tensors between products: norms, dropout and sums [korthikanti2022].
    # Inputs of products are then gathered, and partial sums are reduced and scattered
    divide_tokens: bool = False
    # serial parts of the queries of an attention, from scores to weighted values
    attention_parts: int = 1
    # parts of the hidden width, if IPUs divide it as well [popxl_gpt] [pope2022]. The IPUs are then a grid: IPUs of a
    # column have the same part of the width, and divide heads, inner widths and words. IPUs of a row have the same
    # heads, inner widths and words, and divide the axes that products sum over
    width_parts: int = 1
    # groups of neighbouring IPUs; each group holds some experts of a layer. Each IPU routes its share of the tokens and
    # sends these to the groups of their experts
    expert_groups: int = 1

    @property
    def column_count(self) -> int:
        """Number of IPUs of a column; all IPUs unless they divide the width."""
        return self.count // self.width_parts


WHOLE = Shards()
"""Undivided layers."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Dimensions of the layers of a stack.

    Counts and sizes are those of whole layers; properties describe the largest shard, which determines the time, since
    shards may hold unequal numbers of heads and widths.
    """

    batch: Batch  # sequences or tokens that the layers process at once
    layer_count: int
    hidden_size: int  # width of hidden states; a shard's part of it if IPUs divide the width
    feed_forward_size: int  # inner width of the feed-forward block, or of each expert
    head_count: int
    kv_head_count: int  # key and value heads; fewer than query heads in grouped-query attention
    head_size: int
    norm: NormKind = "layer"  # `layer`, `rms`, or `rms_plus_one`, which scales by its weights plus one
    pre_norm: bool = False  # True if the norm precedes each block; otherwise it follows the sum
    # norms of parallel blocks, if attention and feed-forward block read the same input and their results are summed:
    # `one_norm` or `two_norms`; None for blocks in sequence
    parallel: ParallelKind | None = None
    gated: bool = False  # whether the feed-forward block is gated: three matrices in place of two
    activation: str = "gelu"  # `gelu`, `gelu_erf`, which is five operations in place of one, `relu` or `swish`
    experts: Experts | None = None  # the networks of the feed-forward block, if there are several
    rotary_size: int = 0  # width of each head that is rotated; 0 without rotary positions
    relative_bias: bool = False  # A bias for each distance, added to the scores
    relative_rows: int = 0  # rows of the table in which each pass looks these up; 0 if they are at hand
    # what is hidden from the attention: `padding`, which may be a `square`, other sequences of `packs`, later tokens
    # (`causal`), or `none`
    mask: MaskKind = "padding"
    # True if every layer computes a causal mask from ones and zeros and multiplies scores by these
    multiplies_by_mask: bool = False
    # True if scores are divided by the root of a head's width, False if multiplied by its inverse
    divides_scores: bool = False
    # True for dropout after the activation of the feed-forward block, if the batch has dropout
    inner_dropout: bool = False
    biases: tuple[Bias, ...] = LAYER_BIASES  # dense layers with biases: `qkv`, `projection`, `feed_forward`
    split_qkv: bool = False  # True if queries, keys and values have separate weights, concatenated for one product
    qkv_products: int = 1  # products that compute queries, keys and values: 1, or 3 with separate weights
    scaled_queries: bool = False  # True if queries are scaled instead of scores
    attention_padding: bool = False  # True if attention pads sequences to whole pieces that tiles copy
    sharing: Shards = WHOLE  # division among IPUs: each has some heads and a part of the feed-forward width

    @property
    def shards(self) -> int:
        """Number of IPUs that divide heads, inner widths and words."""
        return self.sharing.column_count

    @property
    def divides_width(self) -> bool:
        """True if IPUs divide the width of hidden states as well."""
        return self.sharing.width_parts > 1

    @property
    def divides_tokens(self) -> bool:
        """True if each shard holds only some tokens of tensors between products."""
        return self.sharing.divide_tokens

    @property
    def tokens(self) -> int:
        """Number of tokens per micro-batch."""
        return self.batch.tokens

    @property
    def hidden(self) -> tuple[int, int]:
        """Shape of the activations that products read and write: (tokens, width)."""
        return self.tokens, self.hidden_size

    @property
    def shard_hidden(self) -> tuple[int, int]:
        """Shape of a shard's activations between products."""
        return self.share(self.tokens) if self.divides_tokens else self.tokens, self.hidden_size

    @property
    def activation_elements(self) -> int:
        """Number of elements of a shard's hidden state per micro-batch."""
        return math.prod(self.shard_hidden)

    @property
    def leaves_sum_open(self) -> bool:
        """True if the feed-forward block, instead of the attention, adds the attention's result to the layer's input.

        In a generation step, shards first have to sum the attention's result.
        """
        return self.batch.is_step and self.pre_norm

    def share(self, count: int) -> int:
        """Return the largest shard's number out of `count` items."""
        return -(-count // self.shards)

    @property
    def shard_heads(self) -> int:
        """Number of query heads of a shard."""
        return self.share(self.head_count)

    @property
    def shard_kv_heads(self) -> int:
        """Number of key and value heads of a shard; neighbouring shards may hold copies of the same head."""
        sharing = self.head_count // self.kv_head_count
        ends = [self.head_count * shard // self.shards for shard in range(self.shards + 1)]
        return max(-(-end // sharing) - start // sharing for start, end in pairwise(ends))

    @property
    def attention_size(self) -> int:
        """Width of all query heads of a shard."""
        return self.shard_heads * self.head_size

    @property
    def kv_size(self) -> int:
        """Width of a shard's keys, and of its values."""
        return self.shard_kv_heads * self.head_size

    @property
    def inner_size(self) -> int:
        """Inner width of a shard's part of the feed-forward block, or of each held expert."""
        return -(-self.feed_forward_size // self.expert_shards)

    @property
    def divides_experts(self) -> bool:
        """True if groups of shards hold different experts."""
        return self.experts is not None and self.sharing.expert_groups > 1

    @property
    def expert_shards(self) -> int:
        """Number of IPUs that divide an expert."""
        return self.shards // self.sharing.expert_groups

    @property
    def held_experts(self) -> int:
        """Number of experts that a shard holds, or holds parts of."""
        return self.experts.count // self.sharing.expert_groups if self.experts else 0

    @property
    def networks(self) -> tuple[int, int]:
        """Pair (feed-forward networks at work on a shard, rows of each); without experts (1, all tokens)."""
        if self.experts is None:
            return 1, self.tokens
        at_work, rows = self.experts.load(self.tokens)
        return -(-at_work // self.sharing.expert_groups), rows

    @property
    def with_divided_tokens(self) -> LayerShape:
        """Layer dimensions in which each shard holds only its share of the tokens, as for routing to experts."""
        return replace(self, sharing=replace(self.sharing, divide_tokens=True))

    def graph(self, prefix: str) -> GraphBuilder:
        """Return an empty graph builder with the batch's number formats."""
        batch = self.batch
        return GraphBuilder(prefix, batch.dtype, batch.accumulator_dtype, batch.functions_dtype)


def dense_parameters(
    name: str, inner: int, columns: int, *, bias: bool = True, groups: tuple[int, ...] = (), share_read: float = 1.0
) -> tuple[Parameter, ...]:
    """Return the parameters of a dense layer, or of `groups` such layers."""
    weight = Parameter(f"{name}/weight", (*groups, inner, columns), share_read=share_read)
    shift = Parameter(f"{name}/bias", (*groups, columns), share_read=share_read)
    return (weight, shift) if bias else (weight,)


def norm_parameters(name: str, columns: int, kind: NormKind = "layer") -> tuple[Parameter, ...]:
    """Return the scale of a norm, and the shift of a layer norm."""
    scale = Parameter(f"{name}/gamma", (columns,))
    return (scale, Parameter(f"{name}/beta", (columns,))) if kind == "layer" else (scale,)
