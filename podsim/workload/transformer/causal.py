"""Decoders (GPT-2, GPT-J, LLaMa 2 and their kin) in training: the next word for every token.

Source: [radford2019] for GPT-2, [touvron2023] for LLaMa 2.
"""

from __future__ import annotations

from podsim.workload.block import Workload
from podsim.workload.decoder import DecoderShape
from podsim.workload.transformer.build import layered
from podsim.workload.transformer.embedding import TokenEmbedding, token_embedding
from podsim.workload.transformer.head import TokenHead, head_block
from podsim.workload.transformer.shape import INT32_BYTES, Batch, LayerShape

# Token ids and labels.
_HOST_INPUTS_PER_TOKEN = 2


def causal_decoder(shape: DecoderShape, batch: Batch, name: str = "decoder") -> Workload:
    """The training graph of a decoder.

    Args:
        shape: The model.
        batch: What goes through it at once, and in which formats.
        name: Of the model.
    """
    layer = LayerShape(
        micro_batch_size=batch.size,
        sequence_length=batch.sequence_length,
        layer_count=shape.layer_count,
        hidden_size=shape.hidden_size,
        feed_forward_size=shape.feed_forward_size,
        head_count=shape.head_count,
        kv_head_count=shape.kv_head_count,
        attention_size=shape.hidden_size,
        norm=shape.norm,
        pre_norm=True,
        gated=shape.gated,
        activation="swish" if shape.gated else "gelu",
        rotary=shape.rotary,
        mask="causal",
        attention_bias=shape.bias,
        feed_forward_bias=shape.bias,
        dropout=batch.dropout,
        attention_dropout=batch.attention_dropout,
        dtype=batch.dtype,
        accumulator_dtype=batch.accumulator_dtype,
    )
    embedding = TokenEmbedding(shape.vocabulary_size, 0 if shape.rotary else shape.position_count)
    head = TokenHead(shape.vocabulary_size, shape.tied_embedding)
    return Workload(
        name=name,
        **layered(layer, token_embedding(layer, embedding), head_block(layer, head)),
        samples_per_micro_batch=batch.size,
        host_input_bytes=layer.tokens * _HOST_INPUTS_PER_TOKEN * INT32_BYTES,
        activation_dtype=batch.dtype,
    )
