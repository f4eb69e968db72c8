"""BERT of any size as blocks of operations [devlin2018], as implemented on the IPU [popart_bert]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from podsim.models.block import HostTensors, Workload
from podsim.models.op import DType
from podsim.models.transformer.build import layer_stack
from podsim.models.transformer.embedding import TokenEmbedding, token_embedding
from podsim.models.transformer.head import SPAN_ENDS, ClassHead, Head, PretrainingHead, SpanHead, head_block
from podsim.models.transformer.shape import INT32_BYTES, LAYER_BIASES, WHOLE, Batch, LayerShape, Shards

Task = Literal["pretraining", "span", "classes"]
# Token ids, position ids, segment ids and labels or mask.
_HOST_INPUTS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class BertShape:
    """Dimensions of a BERT training graph for one micro-batch."""

    micro_batch_size: int  # sequences (or packs) per micro-batch
    sequence_length: int  # tokens per sequence or pack
    layer_count: int
    hidden_size: int  # width of the encoder
    feed_forward_size: int  # inner width of the feed-forward block
    head_count: int
    vocabulary_size: int  # rows of the word embedding
    position_count: int  # rows of the position embedding
    masked_token_count: int  # positions per sequence or pack that the MLM head predicts
    sequences_per_pack: float = 1.0  # real sequences per pack; 1 when not packed
    max_sequences_per_pack: int = 1  # slots for sequences in a pack; 1 when not packed
    shared_mask: bool = False  # True if the mask of packs is computed once for all layers, not on each IPU
    attention_bias: bool = True  # biases in the four attention projections
    split_qkv: bool = False  # True if queries, keys and values have separate weights, concatenated for one product
    qkv_products: int = 1  # products that compute queries, keys and values: 1, or 3 with separate weights
    # activation of the feed-forward block: `gelu`, or `gelu_erf`, which takes five operations instead of one
    activation: str = "gelu"
    scaled_queries: bool = False  # queries are scaled in place of scores
    square_mask: bool = False  # the mask of padding is a square for each sequence in place of a row
    relative_rows: int = 0  # rows of the table of relative positions; 0 without one
    pooler: bool = True  # the dense layer in front of the next-sentence head
    mlm_transform: bool = True  # the dense layer and norm in front of the MLM decoder
    dropout: bool = True  # dropout after embedding and both sub-layers
    attention_dropout: bool = True
    token_type_count: int = 2  # rows of the segment embedding; 0 without one
    next_sentence: bool = True  # True for a next-sentence head in addition to the MLM head
    task: Task = "pretraining"  # `pretraining`, the `span` of an answer, or `classes` of a sequence
    class_count: int = 2  # classes of the task `classes`
    dtype: DType = "fp16"  # number format of weights, activations and their gradients
    accumulator_dtype: DType = "fp16"  # number format of accumulated gradients
    # number format of layer norms and activation functions in a forward pass; `dtype` if None
    functions_dtype: DType | None = None
    sharing: Shards = WHOLE  # how IPUs share every layer

    @property
    def tokens(self) -> int:
        """Number of tokens per micro-batch."""
        return self.micro_batch_size * self.sequence_length

    @property
    def packed(self) -> bool:
        """True if several sequences share a row of tokens."""
        return self.max_sequences_per_pack > 1


def bert(shape: BertShape, name: str = "BERT") -> Workload:
    """Return the training graph of BERT for pre-training or fine-tuning, or that of its largest shard."""
    layer = _layer(shape)
    embedding = TokenEmbedding(shape.vocabulary_size, shape.position_count, shape.token_type_count, norm=True)
    return Workload(
        name=name,
        **layer_stack(layer, token_embedding(layer, embedding), head_block(layer, _head(shape))),
        samples_per_micro_batch=shape.micro_batch_size * shape.sequences_per_pack,
        host_input_bytes=shape.tokens * _HOST_INPUTS_PER_TOKEN * INT32_BYTES,
        host_tensors=_host_tensors(shape),
        activation_dtype=shape.dtype,
        carried_elements=shape.tokens * shape.sequence_length if shape.shared_mask else 0,
    )


def _host_tensors(s: BertShape) -> HostTensors:
    """Return the tensors between host and replica: token numbers, masks, and tensors of the head and of packs."""
    inputs = 2 + (s.token_type_count > 0) + s.packed
    match s.task:
        case "span":
            return HostTensors(inputs, labels=2, results=2, result_elements=SPAN_ENDS * s.tokens)
        case "classes":
            return HostTensors(inputs, labels=1, results=1, result_elements=s.class_count * s.micro_batch_size)
    # Positions and labels of masked tokens; in packs, the first positions of sequences as well.
    return HostTensors(inputs, labels=2 + s.next_sentence * (1 + s.packed), results=1 + s.next_sentence)


def _layer(s: BertShape) -> LayerShape:
    batch = Batch(
        size=s.micro_batch_size,
        sequence_length=s.sequence_length,
        dropout=s.dropout,
        attention_dropout=s.attention_dropout,
        dtype=s.dtype,
        accumulator_dtype=s.accumulator_dtype,
        functions_dtype=s.functions_dtype,
    )
    return LayerShape(
        batch=batch,
        layer_count=s.layer_count,
        hidden_size=s.hidden_size,
        feed_forward_size=s.feed_forward_size,
        head_count=s.head_count,
        kv_head_count=s.head_count,
        head_size=s.hidden_size // s.head_count,
        mask="packs" if s.packed else "square" if s.square_mask else "padding",
        biases=LAYER_BIASES if s.attention_bias else ("feed_forward",),
        split_qkv=s.split_qkv,
        qkv_products=s.qkv_products,
        activation=s.activation,
        scaled_queries=s.scaled_queries,
        relative_bias=s.relative_rows > 0,
        relative_rows=s.relative_rows,
        sharing=s.sharing,
    )


def _head(s: BertShape) -> Head:
    if s.task == "span":
        return SpanHead()
    if s.task == "classes":
        return ClassHead(s.class_count, s.pooler, "classes")
    pairs = ClassHead(pooler=s.pooler, sequences_per_row=s.max_sequences_per_pack) if s.next_sentence else None
    return PretrainingHead(s.vocabulary_size, s.masked_token_count, s.mlm_transform, pairs)
