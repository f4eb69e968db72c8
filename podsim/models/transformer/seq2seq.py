"""Encoder-decoders such as T5 in training [raffel2020].

The first block looks up the words of both sequences, so that both hidden states pass from block to block, first through
encoder layers and then through decoder layers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from podsim.models.block import Block, HostTensors, Workload
from podsim.models.transformer.attention import Attention, attention
from podsim.models.transformer.embedding import TokenEmbedding, token_embedding
from podsim.models.transformer.feed_forward import feed_forward
from podsim.models.transformer.head import TokenHead, head_block
from podsim.models.transformer.names import DECODER, ENCODER
from podsim.models.transformer.shape import INT32_BYTES, WHOLE, Batch, LayerShape, Shards

# Token ids and mask of the source, token ids and labels of the target.
_HOST_INPUTS_PER_TOKEN = 2


@dataclass(frozen=True, slots=True)
class Seq2SeqShape:
    """Dimensions of an encoder-decoder."""

    encoder_layer_count: int
    decoder_layer_count: int
    hidden_size: int
    head_size: int  # width of a head; independent of the hidden width
    feed_forward_size: int  # inner width of the feed-forward blocks
    head_count: int
    vocabulary_size: int  # rows of the embedding that encoder and decoder share
    gated: bool  # True if feed-forward blocks are gated (T5 1.1)
    tied_embedding: bool  # True if the head shares the embedding's weights
    qkv_products: int = 1  # products that compute queries, keys and values of a sequence: 1, or 3


def encoder_decoder(
    shape: Seq2SeqShape, batch: Batch, target_length: int, name: str = "T5", sharing: Shards = WHOLE
) -> Workload:
    """Return the training graph of an encoder-decoder, or that of its largest shard."""
    encoder = _layers(shape, batch, shape.encoder_layer_count, sharing)
    target = replace(batch, sequence_length=target_length)
    decoder = replace(encoder, batch=target, layer_count=shape.decoder_layer_count, mask="causal")
    aside, memory = decoder.activation_elements, encoder.activation_elements
    embedding = TokenEmbedding(shape.vocabulary_size)
    both = replace(encoder, batch=replace(batch, sequence_length=batch.sequence_length + target_length))
    blocks = (
        token_embedding(both, embedding),
        *(
            replace(block, passed_elements=aside, unread_elements=aside)
            for block in (
                attention(Attention(encoder, ENCODER[0], handed_on=aside)),
                feed_forward(encoder, ENCODER[1], handed_on=aside),
            )
        ),
        _decoder_layer(decoder, batch.sequence_length, memory),
        replace(head_block(decoder, TokenHead(shape.vocabulary_size, shape.tied_embedding)), unread_elements=memory),
    )
    layers = ENCODER * shape.encoder_layer_count + DECODER * shape.decoder_layer_count
    return Workload(
        name=name,
        blocks={block.name: block for block in blocks},
        order=("embedding", *layers, "head"),
        samples_per_micro_batch=batch.size,
        host_input_bytes=both.tokens * _HOST_INPUTS_PER_TOKEN * INT32_BYTES,
        host_tensors=HostTensors(inputs=3, labels=1, results=1),
        activation_dtype=batch.dtype,
        layers={"layer": ENCODER, "decoder layer": DECODER},
    )


def _decoder_layer(s: LayerShape, source_length: int, memory: int) -> Block:
    """Return the block of a decoder layer: self-attention, cross-attention, and feed-forward block.

    The block passes on the encoder's result.
    """
    parts = (
        attention(Attention(s, "decoder_attention")),
        attention(Attention(s, "cross_attention", memory_length=source_length)),
        feed_forward(s, "decoder_feed_forward"),
    )
    return Block(
        name=DECODER[0],
        forward=tuple(op for part in parts for op in part.forward),
        backward=tuple(op for part in reversed(parts) for op in part.backward),
        parameters=tuple(
            replace(parameter, name=f"{part.name}/{parameter.name}") for part in parts for parameter in part.parameters
        ),
        output_elements=parts[-1].output_elements + memory,
        # The norms before the second and the third part read the sums after the previous part.
        saved_elements=sum(part.saved_elements for part in parts) + 2 * s.activation_elements,
        passed_elements=memory,
        partial_sums=tuple(name for part in parts for name in part.partial_sums),
        kept_results=tuple(name for part in parts for name in part.kept_results),
    )


def _layers(shape: Seq2SeqShape, batch: Batch, layer_count: int, sharing: Shards) -> LayerShape:
    return LayerShape(
        batch=batch,
        layer_count=layer_count,
        hidden_size=shape.hidden_size,
        feed_forward_size=shape.feed_forward_size,
        head_count=shape.head_count,
        kv_head_count=shape.head_count,
        head_size=shape.head_size,
        norm="rms",
        pre_norm=True,
        gated=shape.gated,
        activation="gelu" if shape.gated else "relu",
        relative_bias=True,
        biases=(),
        qkv_products=shape.qkv_products,
        sharing=sharing,
    )
