"""Dimensions of transformers, for one micro-batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from podsim.workload.block import Parameter
from podsim.workload.layers import GraphBuilder
from podsim.workload.op import DType

NormKind = Literal["layer", "rms"]
MaskKind = Literal["none", "padding", "packs", "causal"]
INT32_BYTES = 4


@dataclass(frozen=True, slots=True)
class LayerShape:
    """Dimensions of the layers of a stack.

    Attributes:
        micro_batch_size: Sequences, packs or images per micro-batch.
        sequence_length: Tokens of each of them.
        layer_count: Layers.
        hidden_size: Width.
        feed_forward_size: Inner width of the feed-forward block.
        head_count: Query heads.
        kv_head_count: Key and value heads; fewer than query heads in grouped-query attention.
        attention_size: Width of all query heads together.
        norm: `layer` or `rms`.
        pre_norm: Whether the norm stands in front of each block; behind the sum otherwise.
        gated: Whether the feed-forward block is gated: three matrices in place of two.
        activation: `gelu`, `relu` or `swish`.
        rotary: Rotary positions.
        relative_bias: A bias for each distance, added to the scores.
        mask: What is hidden from the attention: `padding`, other sequences of `packs`,
            later tokens (`causal`), or `none`.
        attention_bias: Biases in the four attention projections.
        feed_forward_bias: Biases in the feed-forward block.
        split_qkv: Three projections in place of one.
        dropout: Dropout after both blocks.
        attention_dropout: Dropout on the attention probabilities.
        dtype: Number format of weights, activations and their gradients.
        accumulator_dtype: Number format of accumulated gradients.
    """

    micro_batch_size: int
    sequence_length: int
    layer_count: int
    hidden_size: int
    feed_forward_size: int
    head_count: int
    kv_head_count: int
    attention_size: int
    norm: NormKind = "layer"
    pre_norm: bool = False
    gated: bool = False
    activation: str = "gelu"
    rotary: bool = False
    relative_bias: bool = False
    mask: MaskKind = "padding"
    attention_bias: bool = True
    feed_forward_bias: bool = True
    split_qkv: bool = False
    dropout: bool = True
    attention_dropout: bool = True
    dtype: DType = "fp16"
    accumulator_dtype: DType = "fp16"

    @property
    def tokens(self) -> int:
        """Tokens per micro-batch."""
        return self.micro_batch_size * self.sequence_length

    @property
    def hidden(self) -> tuple[int, int]:
        """Shape of the activations: (tokens, width)."""
        return self.tokens, self.hidden_size

    @property
    def activation_elements(self) -> int:
        """Elements of a hidden state per micro-batch."""
        return self.tokens * self.hidden_size

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.attention_size // self.head_count

    @property
    def kv_size(self) -> int:
        """Width of keys, and of values."""
        return self.kv_head_count * self.head_size

    def graph(self, prefix: str) -> GraphBuilder:
        """An empty graph in the formats of this model."""
        return GraphBuilder(prefix, self.dtype, self.accumulator_dtype)


@dataclass(frozen=True, slots=True)
class Batch:
    """What goes through a model at once.

    Attributes:
        size: Sequences or images per micro-batch.
        sequence_length: Tokens of a sequence.
        dropout: Dropout after embedding and blocks.
        attention_dropout: Dropout on the attention probabilities.
        dtype: Number format of weights, activations and their gradients.
        accumulator_dtype: Number format of accumulated gradients.
    """

    size: int
    sequence_length: int
    dropout: bool = True
    attention_dropout: bool = True
    dtype: DType = "fp16"
    accumulator_dtype: DType = "fp16"


def dense_parameters(name: str, inner: int, columns: int, *, bias: bool = True) -> tuple[Parameter, ...]:
    """Weights of a dense layer."""
    weight = Parameter(f"{name}/weight", (inner, columns))
    return (weight, Parameter(f"{name}/bias", (columns,))) if bias else (weight,)


def norm_parameters(name: str, columns: int, kind: NormKind = "layer") -> tuple[Parameter, ...]:
    """Scale of a norm, and the shift of a layer norm."""
    scale = Parameter(f"{name}/gamma", (columns,))
    return (scale,) if kind == "rms" else (scale, Parameter(f"{name}/beta", (columns,)))
