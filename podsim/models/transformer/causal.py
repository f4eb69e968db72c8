"""Decoders for whole sequences with a backward pass and for generation steps with a cache.

Source: [radford2019] for GPT-2, [touvron2023] for LLaMa 2; [popxl_llama] for the division into shards.
"""

from __future__ import annotations

from dataclasses import dataclass

from podsim.models.block import HostTensors, Workload
from podsim.models.transformer.build import layer_stack
from podsim.models.transformer.embedding import TokenEmbedding, token_embedding
from podsim.models.transformer.experts import Experts
from podsim.models.transformer.head import TokenHead, head_block
from podsim.models.transformer.shape import (
    INT32_BYTES,
    WHOLE,
    Batch,
    Bias,
    LayerShape,
    NormKind,
    ParallelKind,
    Shards,
)

# Token ids and labels.
_HOST_INPUTS_PER_TOKEN = 2


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Dimensions of a decoder."""

    layer_count: int
    hidden_size: int
    feed_forward_size: int  # inner width of the feed-forward block, or of each expert
    head_count: int
    kv_head_count: int  # key and value heads; fewer than query heads in grouped-query attention, one in multi-query
    vocabulary_size: int  # rows of the embedding
    gated: bool = True  # True if the feed-forward block is gated (SwiGLU, GeGLU): three matrices instead of two
    norm: NormKind = "rms"  # `rms`, `rms_plus_one` or `layer`
    rotary: bool = True  # True for rotary positions, False for learned ones
    position_count: int = 0  # rows of learned positions
    biases: tuple[Bias, ...] = ()  # dense layers with biases: `qkv`, `projection`, `feed_forward`, `head`
    tied_embedding: bool = False  # whether the head shares the embedding's weights
    head_size: int | None = None  # width of a head; None if heads add up to the width of the model
    rotary_size: int | None = None  # width of each head that is rotated; None for all of it
    activation: str | None = (
        None  # `gelu`, `relu`, `relu_squared` or `swish`; None for `swish` if gated, and `gelu` otherwise
    )
    # whether attention and feed-forward block read the same input, under `one_norm` or `two_norms`
    parallel: ParallelKind | None = None
    experts: Experts | None = None  # experts of the feed-forward block, if any
    scaled_embedding: bool = False  # True if word embeddings are scaled by the root of the hidden width
    # True if every layer computes the mask from ones and zeros and multiplies scores by these
    multiplies_by_mask: bool = False

    @property
    def parameter_count(self) -> int:
        """Number of trained elements."""
        return causal_decoder(self, Batch(1, 1)).parameter_count

    def layer(self, batch: Batch, sharing: Shards = WHOLE) -> LayerShape:
        """Return the dimensions of the layers for a batch, whole or divided among shards."""
        head_size = self.head_size or self.hidden_size // self.head_count
        return LayerShape(
            batch=batch,
            layer_count=self.layer_count,
            hidden_size=-(-self.hidden_size // sharing.width_parts),
            feed_forward_size=self.feed_forward_size,
            head_count=self.head_count,
            kv_head_count=self.kv_head_count,
            head_size=head_size,
            norm=self.norm,
            pre_norm=True,
            parallel=self.parallel,
            gated=self.gated,
            activation=self.activation or ("swish" if self.gated else "gelu"),
            experts=self.experts,
            rotary_size=(self.rotary_size or head_size) if self.rotary else 0,
            mask="causal",
            multiplies_by_mask=self.multiplies_by_mask,
            biases=self.biases,
            sharing=sharing,
        )


def causal_decoder(shape: DecoderShape, batch: Batch, name: str = "decoder", shards: int | Shards = 1) -> Workload:
    """Return the graph of a decoder, or that of its largest shard."""
    layer = shape.layer(batch, shards if isinstance(shards, Shards) else Shards(shards))
    positions = 0 if shape.rotary else shape.position_count
    embedding = TokenEmbedding(shape.vocabulary_size, positions, scaled=shape.scaled_embedding)
    head = TokenHead(shape.vocabulary_size, shape.tied_embedding, bias="head" in shape.biases)
    return Workload(
        name=name,
        **layer_stack(layer, token_embedding(layer, embedding), head_block(layer, head)),
        samples_per_micro_batch=batch.size,
        host_input_bytes=layer.tokens * _HOST_INPUTS_PER_TOKEN * INT32_BYTES,
        host_tensors=HostTensors(inputs=1, labels=1, results=1),
        activation_dtype=batch.dtype,
    )
