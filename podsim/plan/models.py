"""From the model of a checked scenario to its workload."""

from __future__ import annotations

from dataclasses import dataclass

from podsim.specs import ScenarioSpec
from podsim.specs.families import (
    DecoderDataSpec,
    DecoderTrainingSpec,
    Seq2SeqScenarioSpec,
    VisionDataSpec,
    VisionScenarioSpec,
    VisionSpec,
)
from podsim.specs.forward import BertPassSpec, TransformerPassSpec, VisionPassSpec
from podsim.specs.inference import DecoderSpec
from podsim.specs.scenario import DataSpec, ModelSpec, TransformerScenarioSpec
from podsim.workload import (
    Batch,
    BertShape,
    DecoderShape,
    PatchEmbedding,
    Seq2SeqShape,
    VisionShape,
    Workload,
    bert,
    causal_decoder,
    encoder_decoder,
    vision_transformer,
)
from podsim.workload.op import DTYPE_BYTES, DType
from podsim.workload.transformer.shape import LAYER_BIASES

_BYTE = 1
_TWO_CLASSES = 2


@dataclass(frozen=True, slots=True)
class Formats:
    """Number formats of a model.

    Attributes:
        dtype: Of weights and activations.
        accumulator: Of accumulated gradients.
    """

    dtype: DType
    accumulator: DType


def transformer_workload(spec: TransformerScenarioSpec, micro_batch_size: int) -> Workload:
    """The training graph of a scenario's model for a micro-batch size."""
    formats = Formats(spec.precision.activations, spec.precision.gradient_accumulation)
    match spec:
        case ScenarioSpec():
            return _bert(spec.model, spec.data, formats, micro_batch_size)
        case DecoderTrainingSpec():
            return _decoder(spec.model, spec.data, formats, micro_batch_size)
        case VisionScenarioSpec():
            return _vision(spec.model, spec.data, formats, micro_batch_size)
        case Seq2SeqScenarioSpec():
            return _seq2seq(spec, formats, micro_batch_size)
    raise TypeError(f"no workload for {type(spec).__name__}")


def pass_workload(spec: TransformerPassSpec) -> Workload:
    """The same model without dropout, of which forward passes alone are wanted."""
    formats = Formats(spec.precision.activations, spec.precision.activations)
    still = {"dropout": 0.0, "attention_dropout": 0.0}
    match spec:
        case BertPassSpec():
            model = _bert(spec.model, spec.data.model_copy(update=still), formats, spec.forward.batch_size)
        case VisionPassSpec():
            model = _vision(spec.model, spec.data.model_copy(update=still), formats, spec.forward.batch_size)
        case _:
            raise TypeError(f"no workload for {type(spec).__name__}")
    return model.forward_only()


def decoder_shape(model: DecoderSpec) -> DecoderShape:
    """Dimensions of a decoder, for training as for inference."""
    return DecoderShape(
        layer_count=model.layer_count,
        hidden_size=model.hidden_size,
        feed_forward_size=model.feed_forward_size,
        head_count=model.head_count,
        kv_head_count=model.kv_head_count,
        vocabulary_size=model.vocabulary_size,
        gated=model.gated,
        norm=model.norm,
        rotary=model.rotary,
        position_count=model.position_count,
        biases=LAYER_BIASES if model.bias else (),
        tied_embedding=model.tied_embedding,
    )


def _name(kind: str, size: str | None) -> str:
    return f"{kind} {size}" if size else kind


def _bert(model: ModelSpec, data: DataSpec, formats: Formats, micro_batch_size: int) -> Workload:
    shape = BertShape(
        micro_batch_size=micro_batch_size,
        sequence_length=data.sequence_length,
        layer_count=model.layer_count,
        hidden_size=model.hidden_size,
        feed_forward_size=model.feed_forward_size,
        head_count=model.head_count,
        vocabulary_size=model.vocabulary_size,
        position_count=model.position_count or data.sequence_length,
        masked_token_count=data.masked_token_count or 0,
        sequences_per_pack=data.packing.sequences_per_pack if data.packing else 1.0,
        max_sequences_per_pack=data.packing.max_sequences_per_pack if data.packing else 1,
        attention_bias=model.attention_bias,
        split_qkv=model.split_qkv,
        pooler=model.pooler,
        mlm_transform=model.mlm_transform,
        dropout=data.dropout > 0,
        attention_dropout=data.attention_dropout > 0,
        token_type_count=model.token_type_count,
        next_sentence=model.next_sentence,
        task=model.task,
        class_count=model.class_count or _TWO_CLASSES,
        dtype=formats.dtype,
        accumulator_dtype=formats.accumulator,
    )
    return bert(shape, _name("BERT", model.size))


def _batch(formats: Formats, size: int, sequence_length: int, dropout: float, attention_dropout: float) -> Batch:
    return Batch(
        size=size,
        sequence_length=sequence_length,
        dropout=dropout > 0,
        attention_dropout=attention_dropout > 0,
        dtype=formats.dtype,
        accumulator_dtype=formats.accumulator,
    )


def _decoder(model: DecoderSpec, data: DecoderDataSpec, formats: Formats, micro_batch_size: int) -> Workload:
    batch = _batch(formats, micro_batch_size, data.sequence_length, data.dropout, data.attention_dropout)
    return causal_decoder(decoder_shape(model), batch, _name("decoder", model.size))


def _vision(model: VisionSpec, data: VisionDataSpec, formats: Formats, micro_batch_size: int) -> Workload:
    patches = PatchEmbedding(model.image_size, model.patch_size)
    shape = VisionShape(
        layer_count=model.layer_count,
        hidden_size=model.hidden_size,
        feed_forward_size=model.feed_forward_size,
        head_count=model.head_count,
        patches=patches,
        class_count=model.class_count,
    )
    batch = _batch(formats, micro_batch_size, patches.sequence_length, data.dropout, data.attention_dropout)
    size = _BYTE if data.pixel_format == "uint8" else DTYPE_BYTES[data.pixel_format]
    return vision_transformer(shape, batch, size, decoded_by_host=data.decoded_by_host, name=_name("ViT", model.size))


def _seq2seq(spec: Seq2SeqScenarioSpec, formats: Formats, micro_batch_size: int) -> Workload:
    model, data = spec.model, spec.data
    shape = Seq2SeqShape(
        encoder_layer_count=model.layer_count,
        decoder_layer_count=spec.decoder_layer_count,
        hidden_size=model.hidden_size,
        head_size=model.head_size,
        feed_forward_size=model.feed_forward_size,
        head_count=model.head_count,
        vocabulary_size=model.vocabulary_size,
        gated=model.gated,
        tied_embedding=model.tied_embedding,
    )
    batch = _batch(formats, micro_batch_size, data.source_length, data.dropout, data.attention_dropout)
    return encoder_decoder(shape, batch, data.target_length, _name("T5", model.size))
