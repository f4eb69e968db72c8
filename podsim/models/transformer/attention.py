"""The attention block of a layer, forward and backward.

To save memory, attention may process its queries in serial parts (docs/background/shared-layers.md). Probabilities of
all parts are kept for the backward pass, and each part reads all keys and values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from podsim.models.block import Block, Parameter, unread_results
from podsim.models.layers import (
    GraphBuilder,
    linear,
    linear_backward,
    rotate,
    softmax,
    softmax_backward,
)
from podsim.models.op import DTYPE_BYTES, PIECE_BYTES, DType, Unexplained
from podsim.models.transformer.residual import (
    add_gradients,
    finish_backward,
    finish_forward,
    gather_tokens,
    norm,
    start_backward,
    sum_over_shards,
    sum_over_width,
)
from podsim.models.transformer.shape import LayerShape, dense_parameters, norm_parameters


@dataclass(frozen=True, slots=True)
class Attention:
    """Dimensions of an attention block."""

    layer: LayerShape
    name: str = "attention"
    memory_length: int | None = None  # tokens of another sequence for cross-attention; None for self-attention
    handed_on: int = 0  # elements that the block passes on in addition to its output
    query_count: int | None = None  # queries of a sequence in one serial part; None for all

    @property
    def parts(self) -> tuple[Attention, ...]:
        """Serial parts of the attention in order, each with an even share of the queries."""
        queries, count = self.layer.batch.sequence_length, self.layer.sharing.attention_parts
        if count == 1 or self.layer.batch.is_step:
            return (self,)
        ends = [queries * number // count for number in range(count + 1)]
        return tuple(replace(self, query_count=end - start) for start, end in pairwise(ends))

    @property
    def key_count(self) -> int:
        """Number of keys of each query."""
        batch = self.layer.batch
        return self._padded(self.memory_length or batch.context_length or batch.sequence_length)

    def _padded(self, count: int) -> int:
        """Return a length rounded up to whole pieces, if the library pads attention."""
        if not self.layer.attention_padding:
            return count
        piece = PIECE_BYTES // DTYPE_BYTES[self.layer.batch.dtype]
        return -(-count // piece) * piece

    @property
    def scores(self) -> tuple[int, int, int]:
        """Shape (batch x key heads, queries of all heads that share a key head, keys)."""
        layer, batch = self.layer, self.layer.batch
        sharing = -(-layer.shard_heads // layer.shard_kv_heads)
        queries = self.query_count or self._padded(batch.sequence_length)
        return (batch.size * layer.shard_kv_heads, queries * sharing, self.key_count)

    @property
    def context(self) -> tuple[int, int, int]:
        """Shape of the weighted values, equal to that of the queries."""
        return (*self.scores[:2], self.layer.head_size)

    @property
    def row_length(self) -> int | None:
        """Contiguous scores of a query; None in a generation step, whose keys are whole pieces of a cache."""
        return None if self.layer.batch.is_step else self.key_count

    @property
    def softmax_dtype(self) -> DType:
        """Number format of masked scores and of their softmax."""
        return "fp32" if self.layer.multiplies_by_mask and not self.layer.batch.is_step else self.layer.batch.dtype

    @property
    def mask_reader_count(self) -> int:
        """Number of scores that read one element of a square mask: all heads, and all sequences except packs."""
        return self.layer.shard_heads * (1 if self.layer.mask == "packs" else self.layer.batch.size)

    @property
    def keys(self) -> tuple[int, int, int]:
        """Shape of the keys, and of the values."""
        return (self.scores[0], self.key_count, self.layer.head_size)

    @property
    def memory_layer(self) -> LayerShape:
        """Layer dimensions with the length of the other sequence."""
        batch = replace(self.layer.batch, sequence_length=self.key_count)
        return replace(self.layer, batch=batch)

    def projections(self) -> dict[str, tuple[int, int]]:
        """Return (rows, width) of each input projection."""
        layer, tokens = self.layer, self.layer.tokens
        if self.memory_length is not None:
            memory, query = layer.batch.size * self.memory_length, {"query": (tokens, layer.attention_size)}
            if layer.qkv_products == 1:
                return query | {"key_value": (memory, 2 * layer.kv_size)}
            return query | {"key": (memory, layer.kv_size), "value": (memory, layer.kv_size)}
        if layer.qkv_products == 1:
            return {"qkv": (tokens, sum(self._qkv_widths.values()))}
        return {name: (tokens, width) for name, width in self._qkv_widths.items()}

    @property
    def _qkv_widths(self) -> dict[str, int]:
        layer = self.layer
        return {"query": layer.attention_size, "key": layer.kv_size, "value": layer.kv_size}

    @property
    def memory_projections(self) -> tuple[str, ...]:
        """Names of the projections of another sequence."""
        return () if self.memory_length is None else tuple(self.projections())[1:]

    def weights(self, projection: str) -> dict[str, int]:
        """Return names and widths of the concatenated weights of a projection; empty for a single weight."""
        return self._qkv_widths if projection == "qkv" and self.layer.split_qkv else {}


def attention(a: Attention) -> Block:
    """Return an attention block."""
    s = a.layer
    parameters: tuple[Parameter, ...] = ()
    for name, (_, whole) in a.projections().items():
        for part, width in (a.weights(name) or {name: whole}).items():
            parameters += dense_parameters(part, s.hidden_size, width, bias="qkv" in s.biases)
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
        # A parallel feed-forward block reads the same input, or the norm of this input.
        output_elements=(2 if s.parallel else 1) * s.activation_elements + a.handed_on,
        # Q, K, V, context and the normalised sum; probabilities, and their masked copy under dropout.
        saved_elements=2 * (queries + keys) + s.activation_elements + copies * scores,
        partial_sums=forward.partial_sums() + backward.partial_sums(),
        width_sums=forward.width_sums() + backward.width_sums(),
        kept_results=forward.kept_results(),
        unread_results=unread_results(forward.ops()),
        cache_read_elements=kept * ((s.batch.context_length or 0) - s.batch.sequence_length),
        cache_written_elements=kept * s.batch.sequence_length,
    )


def _forward(a: Attention) -> GraphBuilder:
    s, g = a.layer, a.layer.graph(a.name)
    source = gather_tokens(g, s, norm(g, s, "@input") if s.pre_norm else "@input")
    query, key, value = _project(g, a, source)
    if s.scaled_queries:
        query = g.elementwise("scale", (s.tokens, s.attention_size), (query,))
    context = _joined(g, "context", a, [_context(g, part, query, key, value) for part in a.parts])
    sizes, bias = (s.tokens, s.attention_size, s.hidden_size), "projection" in s.biases
    out = linear(g, "projection", *sizes, context, bias=bias)
    if not s.parallel:
        sum_over_shards(g, s, out)
    if not s.leaves_sum_open:
        finish_forward(g, s, out)
    return g


def _context(g: GraphBuilder, a: Attention, query: str, key: str, value: str) -> str:
    """Append scores, probabilities and weighted values of some queries."""
    s, keep = a.layer, g.keep_result if a.query_count else str
    scores = _in_rows(g, a, g.matmul("scores", a.scores, s.head_size, (query, key)))
    if not s.scaled_queries:
        scores = _pass(g, a, "divide_by_one_number" if s.divides_scores else "scale", (scores,), "scale")
    rows, dtype = math.prod(a.scores[:2]), a.softmax_dtype
    probabilities = softmax(g, rows, a.key_count, _masked(g, a, scores), row_length=a.row_length, dtype=dtype)
    probabilities = keep(_cast(g, a, probabilities, "probabilities/cast"))
    if s.batch.attention_dropout:
        probabilities = keep(_pass(g, a, "dropout", (probabilities,), "probabilities/dropout"))
    return g.matmul("context", a.context, a.key_count, (probabilities, value), left_row_length=a.row_length)


def _pass(
    g: GraphBuilder, a: Attention, function: str, sources: Sequence[str], name: str, dtype: DType | None = None
) -> str:
    """Append an elementwise pass over a tensor with the shape of scores."""
    return g.elementwise(function, a.scores, sources, dtype, name, a.row_length)


def _cast(g: GraphBuilder, a: Attention, source: str, name: str, dtype: DType | None = None) -> str:
    """Append a cast between the formats of the layer and of its softmax, if these differ."""
    return source if a.softmax_dtype == g.dtype else _pass(g, a, "cast", (source,), name, dtype)


def _joined(g: GraphBuilder, name: str, a: Attention, parts: Sequence[str]) -> str:
    """Append the concatenation of the results of serial parts."""
    return parts[0] if len(parts) == 1 else g.join(f"{name}/join", a.context, parts)


def _in_rows(g: GraphBuilder, a: Attention, scores: str) -> str:
    """Append the layout change of scores: a product spreads a query's scores, a softmax needs them on one tile."""
    return g.rearrange(f"{scores.rpartition('/')[2]}/rows", a.scores, scores, a.row_length)


def _project(g: GraphBuilder, a: Attention, source: str) -> tuple[str, str, str]:
    """Append the projections; return names of queries, keys and values, equal for one common product."""
    s = a.layer
    sources = (
        dict.fromkeys(a.memory_projections, gather_tokens(g, a.memory_layer, "@memory")) if a.memory_length else {}
    )
    made = [
        sum_over_width(
            g, s, linear(g, name, rows, s.hidden_size, width, sources.get(name, source), bias="qkv" in s.biases)
        )
        for name, (rows, width) in a.projections().items()
    ]
    if s.rotary_size:
        made = [rotate(g, _rotated(s), made[0]), *made[1:]]
    if s.batch.cached:
        g.rearrange("cache", (s.tokens, 2 * s.kv_size), made[-1])
        return made[0], "@keys", "@values"
    return made[0], made[len(made) // 2], made[-1]


def _rotated(s: LayerShape) -> tuple[int, int]:
    """Return the shape of the rotated part of queries and keys."""
    return s.tokens, (s.shard_heads + s.shard_kv_heads) * s.rotary_size


def _masked(g: GraphBuilder, a: Attention, scores: str) -> str:
    """Append the mask of scores, after a bias for distances if the layer has one.

    A mask of one row per sequence is broadcast. A square mask (of padding, per pack, or causal) is copied to the scores
    of all heads, except in generation steps, which find it in this layout. A layer that computes the mask from ones and
    zeros multiplies scores by these and subtracts a large number at zeros [optimum_graphcore]. PyTorch computes such a
    mask in FP32 from integers, so the sum with it is in FP32 as well [poptorch_compiler].
    """
    s = a.layer
    if s.relative_bias and a.memory_length is None:
        distances = g.rearrange("relative_bias/layout", a.scores, "@distances") if s.relative_rows else "@distances"
        scores = _pass(g, a, "add", (scores, distances), "relative_bias")
    if s.mask == "none":
        return scores
    if s.mask == "padding" or a.memory_length is not None:
        return _pass(g, a, "bias_add", (scores, "@mask"), "mask")
    if s.batch.is_step:
        return _pass(g, a, "add", (scores, "@mask"), "mask")
    mask = "@mask"
    if s.multiplies_by_mask:
        square = (math.prod(a.scores) // a.mask_reader_count,)
        ones = g.elementwise("cast", square, (mask,), name="mask/cast")
        scores = _pass(g, a, "mul", (scores, _mask_for_all(g, a, ones)), "mask/mul")
        for each in ("one_number", "cast", "one_number"):
            mask = g.elementwise(each, square, (mask,), a.softmax_dtype, f"mask/{each}")
        scores = _cast(g, a, scores, "mask/scores", a.softmax_dtype)
    mask = _mask_for_all(g, a, mask, a.softmax_dtype)
    return _pass(g, a, "add", (scores, mask), "mask", a.softmax_dtype)


def _mask_for_all(g: GraphBuilder, a: Attention, mask: str, dtype: DType | None = None) -> str:
    """Append the copies of a square mask to the scores of all heads."""
    return g.spread("mask/broadcast", a.scores, mask, a.mask_reader_count, a.row_length, dtype)


def _backward(a: Attention) -> GraphBuilder:
    """Return the backward pass; empty in a generation step."""
    s, g = a.layer, a.layer.graph(f"{a.name}_backward")
    if s.batch.is_step:
        return g
    gradient, residual = start_backward(g, s)
    sizes, bias = (s.tokens, s.attention_size, s.hidden_size), "projection" in s.biases
    gradient = sum_over_width(g, s, linear_backward(g, "projection", *sizes, gradient, bias=bias))
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
    g.add(Unexplained(name=g.name("unexplained"), shape=s.hidden, dtype=g.dtype, split_weights=s.split_qkv))
    gradients = {"query": grad_q, "key": grad_k, "value": grad_v, "qkv": grad_q, "key_value": grad_k}
    _project_backward(g, a, gradients, residual)
    return g


def _context_backward(g: GraphBuilder, a: Attention, gradient: str, part: str) -> tuple[str, str, str]:
    """Append the gradients of some queries, and their contributions to the gradients of keys and values."""
    s, probabilities = a.layer, f"@probabilities{part}"
    grad_p = _in_rows(g, a, g.matmul("probabilities_grad", a.scores, s.head_size, (gradient, "@value")))
    grad_v = _over_queries(g, a, "value_grad", (probabilities, gradient))
    if s.batch.attention_dropout:
        grad_p = _pass(g, a, "dropout", (grad_p,), "probabilities/dropout")
    rows, dtype = math.prod(a.scores[:2]), a.softmax_dtype
    grad_p = _cast(g, a, grad_p, "probabilities/cast", dtype)
    grad_s = softmax_backward(g, rows, a.key_count, probabilities, grad_p, a.row_length, dtype)
    grad_s = _cast(g, a, grad_s, "mask/scores")
    if s.multiplies_by_mask:
        grad_s = _pass(g, a, "mul", (grad_s, _mask_for_all(g, a, "@mask/cast")), "mask/mul")
    grad_s = _pass(g, a, "divide_by_one_number" if s.divides_scores else "scale", (grad_s,), "scale")
    grad_q = g.matmul("query_grad", a.context, a.key_count, (grad_s, "@key"), left_row_length=a.row_length)
    grad_k = _over_queries(g, a, "key_grad", (grad_s, f"@query{part}"))
    return grad_q, grad_k, grad_v


def _over_queries(g: GraphBuilder, a: Attention, name: str, sources: tuple[str, str]) -> str:
    """Append a gradient that sums over queries, which are the rows of its left operand."""
    return g.matmul(name, a.keys, a.scores[1], sources, left_row_length=a.row_length, contracts_rows=True)


def _project_backward(g: GraphBuilder, a: Attention, gradients: Mapping[str, str], residual: str) -> None:
    """Append the gradients of the projections, of the block's input, and of the other sequence."""
    s = a.layer
    read = gather_tokens(g, s, "@normal") if s.divides_tokens else ""
    reads = (
        dict.fromkeys(a.memory_projections, gather_tokens(g, a.memory_layer, "@memory"))
        if a.memory_length and read
        else {}
    )
    parts = {
        name: linear_backward(
            g,
            name,
            rows,
            s.hidden_size,
            width,
            gradients[name],
            bias="qkv" in s.biases,
            read=reads.get(name, read),
            parts=a.weights(name),
        )
        for name, (rows, width) in a.projections().items()
    }
    if a.memory_length:
        memory = add_gradients(g, a.memory_layer, [parts.pop(name) for name in a.memory_projections])
        g.elementwise(
            "add", a.memory_layer.shard_hidden, (sum_over_shards(g, a.memory_layer, memory), "@memory_gradient")
        )
    inner, beside = list(parts.values()), list[str]()
    if s.parallel:
        (inner if s.parallel == "one_norm" else beside).append("@feed_forward_gradient")
    finish_backward(g, s, inner, residual, beside)
