"""The attention block of a layer, forward and backward.

Where memory is short, queries meet keys in parts, one part after the other: scores, their gradients and what is made of
them are there for one part at a time, while probabilities of all parts are kept for the backward pass. Each part reads
all keys and values again, its products have fewer rows, and what belongs to all queries is laid together behind them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from podsim.models.block import Block, Parameter
from podsim.models.layers import (
    GraphBuilder,
    linear,
    linear_backward,
    rotate,
    softmax,
    softmax_backward,
)
from podsim.models.transformer.residual import (
    add_up,
    finish,
    finish_backward,
    gathered,
    norm,
    over_width,
    start_backward,
)
from podsim.models.transformer.shape import LayerShape, dense_parameters, norm_parameters


@dataclass(frozen=True, slots=True)
class Attention:
    """Dimensions of one attention block.

    Attributes:
        layer: The layers it belongs to.
        name: Of the block.
        memory_length: Tokens of another sequence that it attends to; None for its own.
        handed_on: Elements that go past the block to the next one, beside its output.
        query_count: Queries of a sequence that meet keys at once; None for all of them.
    """

    layer: LayerShape
    name: str = "attention"
    memory_length: int | None = None
    handed_on: int = 0
    query_count: int | None = None

    @property
    def parts(self) -> tuple[Attention, ...]:
        """The same with some of the queries each, as even as can be, in the order in which they meet keys."""
        queries, count = self.layer.batch.sequence_length, self.layer.sharing.attention_parts
        if count == 1 or self.layer.batch.is_step:
            return (self,)
        ends = [queries * number // count for number in range(count + 1)]
        return tuple(replace(self, query_count=end - start) for start, end in pairwise(ends))

    @property
    def key_count(self) -> int:
        """Tokens that each query meets."""
        batch = self.layer.batch
        return self.memory_length or batch.context_length or batch.sequence_length

    @property
    def scores(self) -> tuple[int, int, int]:
        """(batch x key heads, queries of all heads that share them, keys)."""
        layer, batch = self.layer, self.layer.batch
        sharing = -(-layer.shard_heads // layer.shard_kv_heads)
        queries = self.query_count or batch.sequence_length
        return (batch.size * layer.shard_kv_heads, queries * sharing, self.key_count)

    @property
    def context(self) -> tuple[int, int, int]:
        """The weighted values, shaped like the queries."""
        return (*self.scores[:2], self.layer.head_size)

    @property
    def row_count(self) -> int | None:
        """Scores of a query that lie one after the other; None in a step, whose keys lie in whole pieces of a cache."""
        return None if self.layer.batch.is_step else self.key_count

    @property
    def keys(self) -> tuple[int, int, int]:
        """Keys, and values."""
        return (self.scores[0], self.key_count, self.layer.head_size)

    @property
    def remembered(self) -> LayerShape:
        """The layers with the other sequence in the place of their own."""
        batch = replace(self.layer.batch, sequence_length=self.key_count)
        return replace(self.layer, batch=batch)

    def projections(self) -> dict[str, tuple[int, int]]:
        """(rows, width) of each input projection."""
        layer, tokens = self.layer, self.layer.tokens
        if self.memory_length is not None:
            memory = layer.batch.size * self.memory_length
            return {"query": (tokens, layer.attention_size), "key_value": (memory, 2 * layer.kv_size)}
        if layer.split_qkv:
            return {
                "query": (tokens, layer.attention_size),
                "key": (tokens, layer.kv_size),
                "value": (tokens, layer.kv_size),
            }
        return {"qkv": (tokens, layer.attention_size + 2 * layer.kv_size)}


def attention(a: Attention) -> Block:
    """The block."""
    s = a.layer
    parameters: tuple[Parameter, ...] = ()
    for name, (_, width) in a.projections().items():
        parameters += dense_parameters(name, s.hidden_size, width, bias="qkv" in s.biases)
    parameters += dense_parameters("projection", s.attention_size, s.hidden_size, bias="projection" in s.biases)
    scores, queries, keys = math.prod(a.scores), s.tokens * s.attention_size, math.prod(a.keys)
    copies = 2 if s.batch.attention_dropout else 1
    # Keys and values of a token of every sequence.
    kept = 2 * s.kv_size * s.batch.size if s.batch.cached else 0
    forward, backward = _forward(a), _backward(a)
    return Block(
        name=a.name,
        forward=forward.ops(),
        backward=backward.ops(),
        parameters=parameters + norm_parameters("norm", s.hidden_size, s.norm),
        # A feed-forward block beside it reads what it read, or the norm of that.
        output_elements=(2 if s.parallel else 1) * s.activation_elements + a.handed_on,
        # Q, K, V, context and the normalised sum; probabilities, and their masked copy under dropout.
        saved_elements=2 * (queries + keys) + s.activation_elements + copies * scores,
        partial_sums=forward.partial_sums() + backward.partial_sums(),
        width_sums=forward.width_sums() + backward.width_sums(),
        kept_results=forward.kept(),
        cache_read_elements=kept * ((s.batch.context_length or 0) - s.batch.sequence_length),
        cache_written_elements=kept * s.batch.sequence_length,
    )


def _forward(a: Attention) -> GraphBuilder:
    s, g = a.layer, a.layer.graph(a.name)
    source = gathered(g, s, norm(g, s, "@input") if s.pre_norm else "@input")
    query, key, value = _project(g, a, source)
    context = _joined(g, "context", a, [_context(g, part, query, key, value) for part in a.parts])
    sizes, bias = (s.tokens, s.attention_size, s.hidden_size), "projection" in s.biases
    out = linear(g, "projection", *sizes, context, bias=bias)
    if not s.parallel:
        add_up(g, s, out)
    if not s.leaves_sum_open:
        finish(g, s, out)
    return g


def _context(g: GraphBuilder, a: Attention, query: str, key: str, value: str) -> str:
    """Scores of queries, probabilities, and the weighted values."""
    s, keep = a.layer, g.keep if a.query_count else str
    scores = _in_rows(g, a, g.matmul("scores", a.scores, s.head_size, (query, key)))
    scores = g.elementwise("scale", a.scores, (scores,))
    probabilities = keep(softmax(g, math.prod(a.scores[:2]), a.key_count, _masked(g, a, scores)))
    if s.batch.attention_dropout:
        probabilities = keep(g.elementwise("dropout", a.scores, (probabilities,), name="probabilities/dropout"))
    return g.matmul("context", a.context, a.key_count, (probabilities, value), left_row_count=a.row_count)


def _joined(g: GraphBuilder, name: str, a: Attention, parts: Sequence[str]) -> str:
    """What belongs to all queries, laid together from the parts that were made one after the other."""
    return parts[0] if len(parts) == 1 else g.join(f"{name}/join", a.context, parts)


def _in_rows(g: GraphBuilder, a: Attention, scores: str) -> str:
    """A softmax has all scores of a query on one tile; the product leaves a few columns of them on each."""
    return g.rearrange(f"{scores.rpartition('/')[2]}/rows", a.scores, scores, a.row_count)


def _project(g: GraphBuilder, a: Attention, source: str) -> tuple[str, str, str]:
    """Queries, keys and values; one name where they come from one product."""
    s = a.layer
    sources = {"key_value": gathered(g, a.remembered, "@memory")} if a.memory_length else {}
    made = [
        over_width(g, s, linear(g, name, rows, s.hidden_size, width, sources.get(name, source), bias="qkv" in s.biases))
        for name, (rows, width) in a.projections().items()
    ]
    if s.rotary_size:
        made = [rotate(g, _rotated(s), made[0]), *made[1:]]
    if s.batch.cached:
        g.rearrange("cache", (s.tokens, 2 * s.kv_size), made[-1])
        return made[0], "@keys", "@values"
    return made[0], made[len(made) // 2], made[-1]


def _rotated(s: LayerShape) -> tuple[int, int]:
    """Shape of what is rotated of queries and keys."""
    return s.tokens, (s.shard_heads + s.shard_kv_heads) * s.rotary_size


def _masked(g: GraphBuilder, a: Attention, scores: str) -> str:
    """Hide what is not to be seen; a bias for distances comes on top.

    One row per sequence is broadcast; a square, per pack or causal, is laid out like the scores first,
    but for steps of text generation, which find it laid out.
    """
    s = a.layer
    if s.relative_bias and a.memory_length is None:
        scores = g.elementwise("add", a.scores, (scores, "@distances"), name="relative_bias")
    if s.mask == "none":
        return scores
    if s.mask == "padding" or a.memory_length is not None:
        return g.elementwise("bias_add", a.scores, (scores, "@mask"), name="mask")
    mask = "@mask" if s.batch.is_step else g.rearrange("mask/broadcast", a.scores, "@mask", a.row_count)
    return g.elementwise("add", a.scores, (scores, mask), name="mask")


def _backward(a: Attention) -> GraphBuilder:
    """The backward pass; empty in a step of text generation."""
    s, g = a.layer, a.layer.graph(f"{a.name}_backward")
    if s.batch.is_step:
        return g
    gradient, residual = start_backward(g, s)
    sizes, bias = (s.tokens, s.attention_size, s.hidden_size), "projection" in s.biases
    gradient = over_width(g, s, linear_backward(g, "projection", *sizes, gradient, bias=bias))
    grads_q, grad_k, grad_v = list[str](), "", ""
    for number, part in enumerate(a.parts, 1):
        grad_q, more_k, more_v = _context_backward(g, part, gradient, f".{number}" if part.query_count else "")
        grads_q.append(grad_q)
        grad_k, grad_v = (
            g.elementwise("add", a.keys, (total, more), name=name) if total else more
            for name, total, more in (("key_grad/add", grad_k, more_k), ("value_grad/add", grad_v, more_v))
        )
    grad_q = _joined(g, "query_grad", a, grads_q)
    if s.rotary_size:
        grad_q = rotate(g, _rotated(s), grad_q)
    gradients = {"query": grad_q, "key": grad_k, "value": grad_v, "qkv": grad_q, "key_value": grad_k}
    _project_backward(g, a, gradients, residual)
    return g


def _context_backward(g: GraphBuilder, a: Attention, gradient: str, part: str) -> tuple[str, str, str]:
    """Gradients of queries, and of keys and values as far as these queries have met them.

    Args:
        g: The graph.
        a: The attention, or a part of its queries.
        gradient: Of all weighted values.
        part: Behind the names of what was kept of these queries.
    """
    s, probabilities = a.layer, f"@probabilities{part}"
    grad_p = _in_rows(g, a, g.matmul("probabilities_grad", a.scores, s.head_size, (gradient, "@value")))
    grad_v = g.matmul("value_grad", a.keys, a.scores[1], (probabilities, gradient), left_row_count=a.row_count)
    if s.batch.attention_dropout:
        grad_p = g.elementwise("dropout", a.scores, (grad_p,), name="probabilities/dropout")
    grad_s = softmax_backward(g, math.prod(a.scores[:2]), a.key_count, probabilities, grad_p)
    grad_s = g.elementwise("scale", a.scores, (grad_s,))
    grad_q = g.matmul("query_grad", a.context, a.key_count, (grad_s, "@key"), left_row_count=a.row_count)
    grad_k = g.matmul("key_grad", a.keys, a.scores[1], (grad_s, f"@query{part}"), left_row_count=a.row_count)
    return grad_q, grad_k, grad_v


def _project_backward(g: GraphBuilder, a: Attention, gradients: Mapping[str, str], residual: str) -> None:
    """Back through the projections to the block's input, and to the memory that it attends to."""
    s = a.layer
    read = gathered(g, s, "@normal") if s.divides_tokens else ""
    reads = {"key_value": gathered(g, a.remembered, "@memory")} if a.memory_length and read else {}
    parts = {
        name: linear_backward(
            g, name, rows, s.hidden_size, width, gradients[name], bias="qkv" in s.biases, read=reads.get(name, read)
        )
        for name, (rows, width) in a.projections().items()
    }
    if memory := parts.pop("key_value", ""):
        g.elementwise("add", a.remembered.own, (add_up(g, a.remembered, memory), "@memory_gradient"))
    inner, beside = list(parts.values()), list[str]()
    if s.parallel:
        (inner if s.parallel == "one_norm" else beside).append("@feed_forward_gradient")
    finish_backward(g, s, inner, residual, beside)
