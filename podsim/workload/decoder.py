"""Decoders (LLaMa 2, GPT-2, GPT-J and their kin) as operations of one inference step on one shard.

Tensor parallelism divides heads, feed-forward width and vocabulary over shards; attention and
feed-forward block each end with partial sums that the shards have to add up.

Source: [touvron2023] for LLaMa 2, [radford2019] for GPT-2; [popxl_llama] for how they are divided.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from podsim.workload.layers import GraphBuilder, layer_norm, rms_norm, rotate, softmax
from podsim.workload.op import DType, Op

NormKind = Literal["rms", "layer"]


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Dimensions of a decoder.

    Attributes:
        layer_count: Layers.
        hidden_size: Width.
        feed_forward_size: Inner width of the feed-forward block.
        head_count: Query heads.
        kv_head_count: Key and value heads; fewer than query heads in grouped-query attention.
        vocabulary_size: Rows of the embedding.
        gated: Whether the feed-forward block is gated (SwiGLU): three matrices in place of two.
        norm: `rms` or `layer`.
        rotary: Rotary positions; learned ones otherwise.
        position_count: Rows of learned positions.
        bias: Biases in all dense layers.
        tied_embedding: Whether the head shares the embedding's weights.
    """

    layer_count: int
    hidden_size: int
    feed_forward_size: int
    head_count: int
    kv_head_count: int
    vocabulary_size: int
    gated: bool = True
    norm: NormKind = "rms"
    rotary: bool = True
    position_count: int = 0
    bias: bool = False
    tied_embedding: bool = False

    @property
    def head_size(self) -> int:
        """Width of a head."""
        return self.hidden_size // self.head_count

    @property
    def kv_size(self) -> int:
        """Width of keys, and of values."""
        return self.kv_head_count * self.head_size

    @property
    def layer_parameter_count(self) -> int:
        """Elements of one layer."""
        hidden, inner = self.hidden_size, self.feed_forward_size
        attention = 2 * hidden * hidden + 2 * hidden * self.kv_size
        feed_forward = (3 if self.gated else 2) * hidden * inner
        norms = 2 * hidden * (1 if self.norm == "rms" else 2)
        gate_bias = inner if self.gated else 0
        biases = (2 * hidden + 2 * self.kv_size + inner + gate_bias + hidden) if self.bias else 0
        return attention + feed_forward + norms + biases

    @property
    def embedding_parameter_count(self) -> int:
        """Elements of the embeddings of words and positions."""
        return (self.vocabulary_size + self.position_count) * self.hidden_size

    @property
    def head_parameter_count(self) -> int:
        """Elements of the last norm and of a head of its own."""
        norm = self.hidden_size * (1 if self.norm == "rms" else 2)
        return norm + (0 if self.tied_embedding else self.vocabulary_size * self.hidden_size)

    @property
    def parameter_count(self) -> int:
        """All elements."""
        layers = self.layer_count * self.layer_parameter_count
        return layers + self.embedding_parameter_count + self.head_parameter_count


@dataclass(frozen=True, slots=True)
class Step:
    """What one step of inference computes.

    Attributes:
        batch: Sequences.
        tokens: New tokens of each sequence that go through the network.
        context: Tokens that each of them attends to, itself included.
        shards: IPUs that share every layer.
        dtype: Format of activations.
        cached: Whether keys and values of the context come from a cache.
    """

    batch: int
    tokens: int
    context: int
    shards: int
    dtype: DType = "fp16"
    cached: bool = True

    @property
    def rows(self) -> int:
        """Rows of the activations."""
        return self.batch * self.tokens

    def share(self, count: int) -> int:
        """What one shard holds of `count` things."""
        return -(-count // self.shards)


def embedding_ops(shape: DecoderShape, step: Step) -> tuple[Op, ...]:
    """Look-up in one shard of the vocabulary."""
    g = GraphBuilder("embedding", step.dtype)
    hidden = (step.rows, shape.hidden_size)
    words = g.gather("word", hidden, step.share(shape.vocabulary_size), ("@word", "@token_ids"))
    if not shape.rotary:
        positions = g.gather("position", hidden, shape.position_count, ("@position", "@position_ids"))
        g.elementwise("add", hidden, (words, positions))
    return g.ops()


def attention_ops(shape: DecoderShape, step: Step) -> tuple[Op, ...]:
    """Norm, projections, attention of one shard's heads, output projection."""
    g = GraphBuilder("attention", step.dtype)
    heads, kv_heads = step.share(shape.head_count), step.share(shape.kv_head_count)
    width, kv_width = heads * shape.head_size, kv_heads * shape.head_size
    normal = _norm(g, shape, step)
    qkv = _dense(g, shape, step, "qkv", shape.hidden_size, width + 2 * kv_width, normal)
    if shape.rotary:
        qkv = rotate(g, (step.rows, width + kv_width), qkv)
    if step.cached:
        qkv = g.rearrange("cache", (step.rows, 2 * kv_width), qkv)
    groups, rows = step.batch * kv_heads, step.tokens * -(-heads // kv_heads)
    scores = g.matmul("scores", (groups, rows, step.context), shape.head_size, (qkv, "@keys"))
    scores = g.elementwise("scale", (groups, rows, step.context), (scores,))
    scores = g.elementwise("add", (groups, rows, step.context), (scores, "@mask"), name="mask")
    probabilities = softmax(g, groups * rows, step.context, scores)
    context = g.matmul("context", (groups, rows, shape.head_size), step.context, (probabilities, "@values"))
    _dense(g, shape, step, "projection", width, shape.hidden_size, context)
    return g.ops()


def feed_forward_ops(shape: DecoderShape, step: Step) -> tuple[Op, ...]:
    """Residual, norm and the feed-forward block on one shard's width."""
    g = GraphBuilder("feed_forward", step.dtype)
    hidden, inner = (step.rows, shape.hidden_size), (step.rows, step.share(shape.feed_forward_size))
    g.elementwise("add", hidden, ("@attention", "@input"), name="residual")
    normal = _norm(g, shape, step)
    up = _dense(g, shape, step, "up", shape.hidden_size, inner[1], normal)
    if shape.gated:
        gate = _dense(g, shape, step, "gate", shape.hidden_size, inner[1], normal)
        gate = g.elementwise("swish", inner, (gate,))
        active = g.elementwise("mul", inner, (up, gate), name="gated")
    else:
        active = g.elementwise("gelu", inner, (up,))
    out = _dense(g, shape, step, "down", inner[1], shape.hidden_size, active)
    g.elementwise("add", hidden, (out, "@residual"), name="residual")
    return g.ops()


def head_ops(shape: DecoderShape, step: Step) -> tuple[Op, ...]:
    """Logits of the last token of each sequence in one shard of the vocabulary."""
    g = GraphBuilder("head", step.dtype)
    last = Step(step.batch, 1, step.context, step.shards, step.dtype)
    rows = g.gather("last", (step.batch, shape.hidden_size), step.rows, ("@input",)) if step.tokens > 1 else "@input"
    normal = _norm(g, shape, last, rows)
    _dense(g, shape, last, "logits", shape.hidden_size, step.share(shape.vocabulary_size), normal, bias=False)
    return g.ops()


def unpack_ops(element_count: int, dtype: DType = "fp16") -> tuple[Op, ...]:
    """Weights of a narrow format brought to the one that the matrix unit takes."""
    g = GraphBuilder("weights", dtype)
    g.elementwise("cast", (element_count,), ("@packed",), name="unpack")
    g.elementwise("scale", (element_count,), ("@unpacked",))
    return g.ops()


def _dense(
    g: GraphBuilder,
    shape: DecoderShape,
    step: Step,
    name: str,
    inner: int,
    columns: int,
    source: str,
    *,
    bias: bool = True,
) -> str:
    out = g.matmul(name, (1, step.rows, columns), inner, (source, f"@{name}/weight"), weights=True)
    if not (shape.bias and bias):
        return out
    return g.elementwise("bias_add", (step.rows, columns), (out, f"@{name}/bias"), name=f"{name}/bias")


def _norm(g: GraphBuilder, shape: DecoderShape, step: Step, source: str = "@input") -> str:
    norm = rms_norm if shape.norm == "rms" else layer_norm
    return norm(g, "norm", step.rows, shape.hidden_size, source)
