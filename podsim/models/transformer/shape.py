"""Dimensions of the layers of transformers, whole or of one shard, for what goes through them at once."""

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
    """What goes through a model at once: whole sequences, or the new tokens of a step of text generation."""

    size: int  # sequences or images per micro-batch
    sequence_length: int  # tokens of a sequence that go through the network
    dropout: bool = True  # dropout after embedding and blocks
    attention_dropout: bool = True
    dtype: DType = "fp16"  # number format of weights, activations and their gradients
    accumulator_dtype: DType = "fp16"  # number format of accumulated gradients
    # that of layer norms and activation functions in a forward pass; as activations if None
    functions_dtype: DType | None = None
    # in a step, tokens that each token attends to, itself included; None for whole sequences. Nothing is trained in a
    # step, and only the last token of a sequence reaches the head
    context_length: int | None = None
    cached: bool = False  # in a step, whether keys and values of the context come from a cache

    @property
    def tokens(self) -> int:
        """Tokens that go through the network."""
        return self.size * self.sequence_length

    @property
    def is_step(self) -> bool:
        """Whether it is a step of text generation."""
        return self.context_length is not None


@dataclass(frozen=True, slots=True)
class Shards:
    """How layers are divided: among the IPUs of a group, and in time."""

    count: int = 1
    # whether each has some tokens only of what lies between products: norms, dropout and sums [korthikanti2022]. They
    # then gather what products read, and each gets its part of the sums
    divide_tokens: bool = False
    # parts of its queries that an attention goes through one after the other, from scores to the sums of values
    attention_parts: int = 1
    # parts into which they divide the width of hidden states as well [popxl_gpt] [pope2022]. They are then a grid: IPUs
    # of a column have the same part of the width, and divide heads, inner widths and words; those of a row have the
    # same heads, inner widths and words, and divide what products sum over
    width_parts: int = 1
    # groups of neighbours among them that each hold some of the experts of a layer. Each IPU routes its share of the
    # tokens, which travel to the groups of their experts and back
    expert_groups: int = 1

    @property
    def column_count(self) -> int:
        """IPUs of a column; all of them unless they divide the width."""
        return self.count // self.width_parts


WHOLE = Shards()
"""Layers that are not divided."""


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Dimensions of the layers of a stack.

    Counts and sizes are those of whole layers; properties say what one shard holds. Shards may hold
    unequal numbers of heads and widths; the largest shard, which sets the time, is the one described.
    """

    batch: Batch  # what goes through them at once
    layer_count: int
    hidden_size: int  # width of hidden states; of a shard where IPUs divide it as well
    feed_forward_size: int  # inner width of the feed-forward block, of each expert if there are several
    head_count: int
    kv_head_count: int  # key and value heads; fewer than query heads in grouped-query attention
    head_size: int
    norm: NormKind = "layer"  # `layer`, `rms`, or `rms_plus_one`, which scales by one more than its weights
    pre_norm: bool = False  # whether the norm stands in front of each block; behind the sum otherwise
    # whether attention and feed-forward block read the same input, and their results are summed: `one_norm` for both of
    # them or `two_norms`; None if one follows the other
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
    # every layer makes a causal mask from ones and zeros by which it multiplies the scores
    multiplies_by_mask: bool = False
    divides_scores: bool = False  # scores are divided by the root of the width of a head, not multiplied by its inverse
    # dropout behind the activation of the feed-forward block as well, where there is any dropout
    inner_dropout: bool = False
    biases: tuple[Bias, ...] = LAYER_BIASES  # dense layers with biases: `qkv`, `projection`, `feed_forward`
    split_qkv: bool = False  # queries, keys and values have weights of their own, which lie side by side in one product
    qkv_products: int = 1  # products that make queries, keys and values: 1, or 3 with weights of their own each
    scaled_queries: bool = False  # whether queries are scaled in place of scores
    attention_padding: bool = False  # whether sequences are padded in attention, to whole pieces of what tiles copy
    sharing: Shards = WHOLE  # how IPUs share every layer, each with some heads and a part of the feed-forward width

    @property
    def shards(self) -> int:
        """IPUs that divide heads, inner widths and words."""
        return self.sharing.column_count

    @property
    def divides_width(self) -> bool:
        """Whether IPUs divide the width of hidden states as well."""
        return self.sharing.width_parts > 1

    @property
    def divides_tokens(self) -> bool:
        """Whether each shard has some tokens only of what lies between products."""
        return self.sharing.divide_tokens

    @property
    def tokens(self) -> int:
        """Tokens per micro-batch."""
        return self.batch.tokens

    @property
    def hidden(self) -> tuple[int, int]:
        """Shape of the activations that products read and write: (tokens, width)."""
        return self.tokens, self.hidden_size

    @property
    def own(self) -> tuple[int, int]:
        """Shape of the activations between products, as a shard has them."""
        return self.share(self.tokens) if self.divides_tokens else self.tokens, self.hidden_size

    @property
    def activation_elements(self) -> int:
        """Elements of a hidden state per micro-batch, as a shard has it."""
        return math.prod(self.own)

    @property
    def leaves_sum_open(self) -> bool:
        """Whether the feed-forward block adds the attention's result to its input; the attention itself otherwise.

        So it is in a step, where shards first have to add up that result.
        """
        return self.batch.is_step and self.pre_norm

    def share(self, count: int) -> int:
        """What the largest shard holds of `count` things."""
        return -(-count // self.shards)

    @property
    def shard_heads(self) -> int:
        """Query heads of a shard."""
        return self.share(self.head_count)

    @property
    def shard_kv_heads(self) -> int:
        """Key and value heads that the query heads of a shard need; neighbouring shards may hold the same ones."""
        sharing = self.head_count // self.kv_head_count
        ends = [self.head_count * shard // self.shards for shard in range(self.shards + 1)]
        return max(-(-end // sharing) - start // sharing for start, end in pairwise(ends))

    @property
    def attention_size(self) -> int:
        """Width of all query heads of a shard."""
        return self.shard_heads * self.head_size

    @property
    def kv_size(self) -> int:
        """Width of the keys of a shard, and of its values."""
        return self.shard_kv_heads * self.head_size

    @property
    def inner_size(self) -> int:
        """Inner width of a shard's feed-forward block, or of its part of each expert that it holds."""
        return -(-self.feed_forward_size // self.expert_shards)

    @property
    def divides_experts(self) -> bool:
        """Whether groups of shards hold different experts."""
        return self.experts is not None and self.sharing.expert_groups > 1

    @property
    def expert_shards(self) -> int:
        """IPUs that hold a part of the same expert each."""
        return self.shards // self.sharing.expert_groups

    @property
    def held_experts(self) -> int:
        """Experts of which a shard holds a part."""
        return self.experts.count // self.sharing.expert_groups if self.experts else 0

    @property
    def networks(self) -> tuple[int, int]:
        """(feed-forward networks at work on a shard, rows of each); one of all tokens without experts."""
        if self.experts is None:
            return 1, self.tokens
        at_work, rows = self.experts.load(self.tokens)
        return -(-at_work // self.sharing.expert_groups), rows

    @property
    def with_own_tokens(self) -> LayerShape:
        """The layers where each shard has some tokens only, as a shard that routes its share of them has."""
        return replace(self, sharing=replace(self.sharing, divide_tokens=True))

    def graph(self, prefix: str) -> GraphBuilder:
        """An empty graph in the formats of this model."""
        batch = self.batch
        return GraphBuilder(prefix, batch.dtype, batch.accumulator_dtype, batch.functions_dtype)


def dense_parameters(
    name: str, inner: int, columns: int, *, bias: bool = True, groups: tuple[int, ...] = (), share_read: float = 1.0
) -> tuple[Parameter, ...]:
    """Weights of a dense layer, or of groups of them."""
    weight = Parameter(f"{name}/weight", (*groups, inner, columns), share_read=share_read)
    shift = Parameter(f"{name}/bias", (*groups, columns), share_read=share_read)
    return (weight, shift) if bias else (weight,)


def norm_parameters(name: str, columns: int, kind: NormKind = "layer") -> tuple[Parameter, ...]:
    """Scale of a norm, and the shift of a layer norm."""
    scale = Parameter(f"{name}/gamma", (columns,))
    return (scale, Parameter(f"{name}/beta", (columns,))) if kind == "layer" else (scale,)
