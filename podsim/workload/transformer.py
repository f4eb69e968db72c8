"""BERT of any size as blocks of operations.

Sources: [devlin2018] for the network; [popart_bert] for what the IPU implementation computes on
which tensor (masked positions gathered before the MLM head, embedding tied to its decoder).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from podsim.workload.block import Block, Parameter, Workload
from podsim.workload.layers import (
    GraphBuilder,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    softmax,
    softmax_backward,
)
from podsim.workload.op import DType, Op

_TOKEN_TYPES = 2
_NSP_CLASSES = 2
# Token ids, position ids, segment ids and labels or mask, as 32-bit integers.
_HOST_INPUTS_PER_TOKEN = 4
_INT32_BYTES = 4


@dataclass(frozen=True, slots=True)
class BertShape:
    """Dimensions of a BERT training graph for one micro-batch.

    Attributes:
        micro_batch_size: Sequences (or packs) per micro-batch.
        sequence_length: Tokens per sequence or pack.
        layer_count: Encoder layers.
        hidden_size: Width of the encoder.
        feed_forward_size: Inner width of the feed-forward block.
        head_count: Attention heads.
        vocabulary_size: Rows of the word embedding.
        position_count: Rows of the position embedding.
        masked_token_count: Positions per sequence or pack that the MLM head predicts.
        sequences_per_pack: Real sequences per pack; 1 when not packed.
        max_sequences_per_pack: Slots for sequences in a pack; 1 when not packed.
        attention_bias: Biases in the four attention projections.
        split_qkv: Three projections in place of one.
        pooler: The dense layer in front of the next-sentence head.
        mlm_transform: The dense layer and norm in front of the MLM decoder.
        dropout: Dropout after embedding and both sub-layers.
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
    vocabulary_size: int
    position_count: int
    masked_token_count: int
    sequences_per_pack: float = 1.0
    max_sequences_per_pack: int = 1
    attention_bias: bool = True
    split_qkv: bool = False
    pooler: bool = True
    mlm_transform: bool = True
    dropout: bool = True
    attention_dropout: bool = True
    dtype: DType = "fp16"
    accumulator_dtype: DType = "fp16"

    @property
    def tokens(self) -> int:
        """Tokens per micro-batch."""
        return self.micro_batch_size * self.sequence_length

    @property
    def activation_elements(self) -> int:
        """Elements of a hidden state per micro-batch."""
        return self.tokens * self.hidden_size

    @property
    def score_shape(self) -> tuple[int, int, int]:
        """Attention scores: (batch x heads, queries, keys)."""
        return (self.micro_batch_size * self.head_count, self.sequence_length, self.sequence_length)

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.head_count

    @property
    def masked_rows(self) -> int:
        """Rows of the MLM head per micro-batch."""
        return self.micro_batch_size * self.masked_token_count

    @property
    def packed(self) -> bool:
        """Whether several sequences share one row of tokens."""
        return self.max_sequences_per_pack > 1


def bert(shape: BertShape, name: str = "BERT") -> Workload:
    """The training graph of BERT with MLM and next-sentence heads."""
    blocks = (_embedding(shape), _attention(shape), _feed_forward(shape), _head(shape))
    return Workload(
        name=name,
        blocks={block.name: block for block in blocks},
        order=("embedding", *("attention", "feed_forward") * shape.layer_count, "head"),
        samples_per_micro_batch=shape.micro_batch_size * shape.sequences_per_pack,
        host_input_bytes=shape.tokens * _HOST_INPUTS_PER_TOKEN * _INT32_BYTES,
        activation_dtype=shape.dtype,
    )


def _graph(s: BertShape, prefix: str) -> GraphBuilder:
    return GraphBuilder(prefix, s.dtype, s.accumulator_dtype)


def _dense(name: str, inner: int, columns: int, *, bias: bool = True) -> tuple[Parameter, ...]:
    weight = Parameter(f"{name}/weight", (inner, columns))
    return (weight, Parameter(f"{name}/bias", (columns,))) if bias else (weight,)


def _norm(name: str, columns: int) -> tuple[Parameter, ...]:
    return (Parameter(f"{name}/gamma", (columns,)), Parameter(f"{name}/beta", (columns,)))


def _qkv_widths(s: BertShape) -> dict[str, int]:
    if s.split_qkv:
        return {"query": s.hidden_size, "key": s.hidden_size, "value": s.hidden_size}
    return {"qkv": 3 * s.hidden_size}


def _attention(s: BertShape) -> Block:
    parameters: tuple[Parameter, ...] = ()
    for name, width in _qkv_widths(s).items():
        parameters += _dense(name, s.hidden_size, width, bias=s.attention_bias)
    parameters += _dense("projection", s.hidden_size, s.hidden_size, bias=s.attention_bias)
    scores = math.prod(s.score_shape)
    return Block(
        name="attention",
        forward=_attention_forward(s),
        backward=_attention_backward(s),
        parameters=parameters + _norm("norm", s.hidden_size),
        output_elements=s.activation_elements,
        # Q, K, V, context and the normalised sum; probabilities, and their masked copy under dropout.
        saved_elements=5 * s.activation_elements + (2 if s.attention_dropout else 1) * scores,
        live_elements=3 * s.activation_elements + 2 * scores,
    )


def _attention_forward(s: BertShape) -> tuple[Op, ...]:
    g = _graph(s, "attention")
    hidden, heads = (s.tokens, s.hidden_size), (s.score_shape[0], s.sequence_length, s.head_size)
    projected = [
        linear(g, name, s.tokens, s.hidden_size, width, "@input", bias=s.attention_bias)
        for name, width in _qkv_widths(s).items()
    ]
    query, key, value = projected if s.split_qkv else projected * 3
    scores = g.matmul("scores", s.score_shape, s.head_size, (query, key))
    scores = g.elementwise("scale", s.score_shape, (scores,))
    probabilities = softmax(g, math.prod(s.score_shape[:2]), s.sequence_length, _masked(g, s, scores))
    if s.attention_dropout:
        probabilities = g.elementwise("dropout", s.score_shape, (probabilities,), name="probabilities/dropout")
    context = g.matmul("context", heads, s.sequence_length, (probabilities, value))
    out = linear(g, "projection", s.tokens, s.hidden_size, s.hidden_size, context, bias=s.attention_bias)
    if s.dropout:
        out = g.elementwise("dropout", hidden, (out,))
    total = g.elementwise("add", hidden, (out, "@input"), name="residual")
    layer_norm(g, "norm", *hidden, total)
    return g.ops()


def _masked(g: GraphBuilder, s: BertShape, scores: str) -> str:
    """Add the attention mask: one row per sequence, or one square per pack laid out like the scores."""
    if not s.packed:
        return g.elementwise("bias_add", s.score_shape, (scores, "@mask"), name="mask")
    mask = g.rearrange("mask/broadcast", s.score_shape, "@mask")
    return g.elementwise("add", s.score_shape, (scores, mask), name="mask")


def _attention_backward(s: BertShape) -> tuple[Op, ...]:
    g = _graph(s, "attention_backward")
    hidden, heads = (s.tokens, s.hidden_size), (s.score_shape[0], s.sequence_length, s.head_size)
    gradient = layer_norm_backward(g, "norm", *hidden, "@gradient")
    residual = gradient
    if s.dropout:
        gradient = g.elementwise("dropout", hidden, (gradient,))
    gradient = linear_backward(g, "projection", s.tokens, s.hidden_size, s.hidden_size, gradient, bias=s.attention_bias)
    grad_p = g.matmul("probabilities_grad", s.score_shape, s.head_size, (gradient, "@value"))
    grad_v = g.matmul("value_grad", heads, s.sequence_length, ("@probabilities", gradient))
    if s.attention_dropout:
        grad_p = g.elementwise("dropout", s.score_shape, (grad_p,), name="probabilities/dropout")
    grad_s = softmax_backward(g, math.prod(s.score_shape[:2]), s.sequence_length, "@probabilities", grad_p)
    grad_s = g.elementwise("scale", s.score_shape, (grad_s,))
    grad_q = g.matmul("query_grad", heads, s.sequence_length, (grad_s, "@key"))
    grad_k = g.matmul("key_grad", heads, s.sequence_length, (grad_s, "@query"))
    gradients = dict(zip(("query", "key", "value"), (grad_q, grad_k, grad_v), strict=True))
    for name, width in _qkv_widths(s).items():
        grad_in = linear_backward(
            g, name, s.tokens, s.hidden_size, width, gradients.get(name, grad_q), bias=s.attention_bias
        )
        residual = g.elementwise("add", hidden, (residual, grad_in), name="residual")
    return g.ops()


def _feed_forward(s: BertShape) -> Block:
    inner = s.tokens * s.feed_forward_size
    return Block(
        name="feed_forward",
        forward=_feed_forward_forward(s),
        backward=_feed_forward_backward(s),
        parameters=_dense("up", s.hidden_size, s.feed_forward_size)
        + _dense("down", s.feed_forward_size, s.hidden_size)
        + _norm("norm", s.hidden_size),
        output_elements=s.activation_elements,
        saved_elements=2 * inner + s.activation_elements,
        live_elements=2 * inner + 2 * s.activation_elements,
    )


def _feed_forward_forward(s: BertShape) -> tuple[Op, ...]:
    g = _graph(s, "feed_forward")
    hidden = (s.tokens, s.hidden_size)
    up = linear(g, "up", s.tokens, s.hidden_size, s.feed_forward_size, "@input")
    active = g.elementwise("gelu", (s.tokens, s.feed_forward_size), (up,))
    out = linear(g, "down", s.tokens, s.feed_forward_size, s.hidden_size, active)
    if s.dropout:
        out = g.elementwise("dropout", hidden, (out,))
    total = g.elementwise("add", hidden, (out, "@input"), name="residual")
    layer_norm(g, "norm", *hidden, total)
    return g.ops()


def _feed_forward_backward(s: BertShape) -> tuple[Op, ...]:
    g = _graph(s, "feed_forward_backward")
    hidden = (s.tokens, s.hidden_size)
    gradient = layer_norm_backward(g, "norm", *hidden, "@gradient")
    residual = gradient
    if s.dropout:
        gradient = g.elementwise("dropout", hidden, (gradient,))
    gradient = linear_backward(g, "down", s.tokens, s.feed_forward_size, s.hidden_size, gradient)
    gradient = g.elementwise("gelu_grad", (s.tokens, s.feed_forward_size), (gradient, "@up"))
    gradient = linear_backward(g, "up", s.tokens, s.hidden_size, s.feed_forward_size, gradient)
    g.elementwise("add", hidden, (residual, gradient), name="residual")
    return g.ops()


def _embedding(s: BertShape) -> Block:
    width = s.hidden_size
    return Block(
        name="embedding",
        forward=_embedding_forward(s),
        backward=_embedding_backward(s),
        parameters=(
            Parameter("word", (s.vocabulary_size, width)),
            Parameter("position", (s.position_count, width)),
            Parameter("segment", (_TOKEN_TYPES, width)),
            *_norm("norm", width),
        ),
        output_elements=s.activation_elements,
        saved_elements=s.activation_elements,
        live_elements=2 * s.activation_elements,
    )


def _embedding_forward(s: BertShape) -> tuple[Op, ...]:
    g = _graph(s, "embedding")
    hidden = (s.tokens, s.hidden_size)
    word = g.gather("word", hidden, s.vocabulary_size, ("@word", "@token_ids"))
    position = g.gather("position", hidden, s.position_count, ("@position", "@position_ids"))
    segment = g.gather("segment", hidden, _TOKEN_TYPES, ("@segment", "@segment_ids"))
    total = g.elementwise("add", hidden, (word, position))
    total = g.elementwise("add", hidden, (total, segment))
    out = layer_norm(g, "norm", *hidden, total)
    if s.dropout:
        g.elementwise("dropout", hidden, (out,))
    return g.ops()


def _embedding_backward(s: BertShape) -> tuple[Op, ...]:
    g = _graph(s, "embedding_backward")
    hidden = (s.tokens, s.hidden_size)
    gradient = "@gradient"
    if s.dropout:
        gradient = g.elementwise("dropout", hidden, (gradient,))
    gradient = layer_norm_backward(g, "norm", *hidden, gradient)
    for table, rows in (
        ("word", s.vocabulary_size),
        ("position", s.position_count),
        ("segment", _TOKEN_TYPES),
    ):
        g.scatter_add(table, hidden, rows, (gradient, f"@{table}_ids"), accumulate=True)
    return g.ops()


def _head(s: BertShape) -> Block:
    parameters: tuple[Parameter, ...] = (
        Parameter("decoder/weight", (s.vocabulary_size, s.hidden_size), tied_to="embedding/word"),
    )
    parameters += _dense("next_sentence", s.hidden_size, _NSP_CLASSES)
    if s.pooler:
        parameters += _dense("pooler", s.hidden_size, s.hidden_size)
    if s.mlm_transform:
        parameters += _dense("transform", s.hidden_size, s.hidden_size) + _norm("transform/norm", s.hidden_size)
    logits = s.masked_rows * s.vocabulary_size
    return Block(
        name="head",
        forward=_head_forward(s),
        backward=_head_backward(s),
        parameters=parameters,
        output_elements=0,
        saved_elements=4 * s.masked_rows * s.hidden_size + logits,
        live_elements=2 * logits + s.activation_elements,
    )


def _sequence_rows(s: BertShape) -> int:
    return s.micro_batch_size * s.max_sequences_per_pack


def _head_forward(s: BertShape) -> tuple[Op, ...]:
    g = _graph(s, "head")
    masked = (s.masked_rows, s.hidden_size)
    rows = g.gather("masked", masked, s.tokens, ("@input", "@masked_positions"))
    if s.mlm_transform:
        rows = linear(g, "transform", *masked, s.hidden_size, rows)
        rows = g.elementwise("gelu", masked, (rows,))
        rows = layer_norm(g, "transform/norm", *masked, rows)
    logits = linear(g, "decoder", *masked, s.vocabulary_size, rows, bias=False)
    softmax(g, s.masked_rows, s.vocabulary_size, logits)
    first = (_sequence_rows(s), s.hidden_size)
    pooled = g.gather("first", first, s.tokens, ("@input", "@first_positions"))
    if s.pooler:
        pooled = g.elementwise("tanh", first, (linear(g, "pooler", *first, s.hidden_size, pooled),))
    softmax(g, first[0], _NSP_CLASSES, linear(g, "next_sentence", *first, _NSP_CLASSES, pooled))
    return g.ops()


def _head_backward(s: BertShape) -> tuple[Op, ...]:
    g = _graph(s, "head_backward")
    masked, first = (s.masked_rows, s.hidden_size), (_sequence_rows(s), s.hidden_size)
    gradient = g.elementwise("sub", (s.masked_rows, s.vocabulary_size), ("@probabilities", "@labels"), name="loss")
    gradient = linear_backward(g, "decoder", *masked, s.vocabulary_size, gradient, bias=False)
    if s.mlm_transform:
        gradient = layer_norm_backward(g, "transform/norm", *masked, gradient)
        gradient = g.elementwise("gelu_grad", masked, (gradient,))
        gradient = linear_backward(g, "transform", *masked, s.hidden_size, gradient)
    g.scatter_add("masked", masked, s.tokens, (gradient, "@masked_positions"))
    pooled = linear_backward(g, "next_sentence", *first, _NSP_CLASSES, "@sequence_gradient")
    if s.pooler:
        pooled = g.elementwise("tanh_grad", first, (pooled,))
        pooled = linear_backward(g, "pooler", *first, s.hidden_size, pooled)
    g.scatter_add("first", first, s.tokens, (pooled, "@first_positions"))
    return g.ops()
