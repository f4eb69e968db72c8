"""The attention block of a layer, forward and backward.

Where memory is short, queries meet keys in parts (docs/background/shared-layers.md): probabilities of all parts are
kept for the backward pass, and each part reads all keys and values again.
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
from podsim.models.op import DTYPE_BYTES, PIECE_BYTES, DType
from podsim.models.transformer.residual import (
    add_up,
    finish,
    finish_backward,
    gathered,
    norm,
    over_width,
    start_backward,
    together,
)
from podsim.models.transformer.shape import LayerShape, dense_parameters, norm_parameters


@dataclass(frozen=True, slots=True)
class Attention:
    """Dimensions of one attention block."""

    layer: LayerShape
    name: str = "attention"
    memory_length: int | None = None  # tokens of another sequence that it attends to; None for its own
    handed_on: int = 0  # elements that go past the block to the next one, beside its output
    query_count: int | None = None  # queries of a sequence that meet keys at once; None for all of them

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
        return self._padded(self.memory_length or batch.context_length or batch.sequence_length)

    def _padded(self, count: int) -> int:
        """Rows of an operand, or of its transposed form, in whole pieces if the library pads them."""
        if not self.layer.attention_padding:
            return count
        piece = PIECE_BYTES // DTYPE_BYTES[self.layer.batch.dtype]
        return -(-count // piece) * piece

    @property
    def scores(self) -> tuple[int, int, int]:
        """(batch x key heads, queries of all heads that share them, keys)."""
        layer, batch = self.layer, self.layer.batch
        sharing = -(-layer.shard_heads // layer.shard_kv_heads)
        queries = self.query_count or self._padded(batch.sequence_length)
        return (batch.size * layer.shard_kv_heads, queries * sharing, self.key_count)

    @property
    def context(self) -> tuple[int, int, int]:
        """The weighted values, shaped like the queries."""
        return (*self.scores[:2], self.layer.head_size)

    @property
    def row_length(self) -> int | None:
        """Scores of a query that lie one after the other; None in a step, whose keys lie in whole pieces of a cache."""
        return None if self.layer.batch.is_step else self.key_count

    @property
    def softmax_dtype(self) -> DType:
        """Number format of scores under a mask, and of their softmax."""
        return "fp32" if self.layer.multiplies_by_mask and not self.layer.batch.is_step else self.layer.batch.dtype

    @property
    def mask_reader_count(self) -> int:
        """Scores that read the same place of a square mask: those of all heads, and of all sequences but of packs."""
        return self.layer.shard_heads * (1 if self.layer.mask == "packs" else self.layer.batch.size)

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
            memory, query = layer.batch.size * self.memory_length, {"query": (tokens, layer.attention_size)}
            if layer.qkv_products == 1:
                return query | {"key_value": (memory, 2 * layer.kv_size)}
            return query | {"key": (memory, layer.kv_size), "value": (memory, layer.kv_size)}
        if layer.qkv_products == 1:
            return {"qkv": (tokens, sum(self._own_widths.values()))}
        return {name: (tokens, width) for name, width in self._own_widths.items()}

    @property
    def _own_widths(self) -> dict[str, int]:
        layer = self.layer
        return {"query": layer.attention_size, "key": layer.kv_size, "value": layer.kv_size}

    @property
    def of_memory(self) -> tuple[str, ...]:
        """Projections of another sequence."""
        return () if self.memory_length is None else tuple(self.projections())[1:]

    def weights(self, projection: str) -> dict[str, int]:
        """Names and widths of the weights of a projection that lie side by side; none if it has weights of its own."""
        return self._own_widths if projection == "qkv" and self.layer.split_qkv else {}


def attention(a: Attention) -> Block:
    """The block."""
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
        # A feed-forward block beside it reads what it read, or the norm of that.
        output_elements=(2 if s.parallel else 1) * s.activation_elements + a.handed_on,
        # Q, K, V, context and the normalised sum; probabilities, and their masked copy under dropout.
        saved_elements=2 * (queries + keys) + s.activation_elements + copies * scores,
        partial_sums=forward.partial_sums() + backward.partial_sums(),
        width_sums=forward.width_sums() + backward.width_sums(),
        kept_results=forward.kept(),
        unread_results=unread_results(forward.ops()),
        cache_read_elements=kept * ((s.batch.context_length or 0) - s.batch.sequence_length),
        cache_written_elements=kept * s.batch.sequence_length,
    )


def _forward(a: Attention) -> GraphBuilder:
    s, g = a.layer, a.layer.graph(a.name)
    source = gathered(g, s, norm(g, s, "@input") if s.pre_norm else "@input")
    query, key, value = _project(g, a, source)
    if s.scaled_queries:
        query = g.elementwise("scale", (s.tokens, s.attention_size), (query,))
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
    """An elementwise pass over scores, or over what is shaped like them."""
    return g.elementwise(function, a.scores, sources, dtype, name, a.row_length)


def _cast(g: GraphBuilder, a: Attention, source: str, name: str, dtype: DType | None = None) -> str:
    """Scores in the format of their softmax, or the like from there to that of the layers, where these differ."""
    return source if a.softmax_dtype == g.dtype else _pass(g, a, "cast", (source,), name, dtype)


def _joined(g: GraphBuilder, name: str, a: Attention, parts: Sequence[str]) -> str:
    """What belongs to all queries, laid together from the parts that were made one after the other."""
    return parts[0] if len(parts) == 1 else g.join(f"{name}/join", a.context, parts)


def _in_rows(g: GraphBuilder, a: Attention, scores: str) -> str:
    """A softmax has all scores of a query on one tile; the product leaves a few columns of them on each."""
    return g.rearrange(f"{scores.rpartition('/')[2]}/rows", a.scores, scores, a.row_length)


def _project(g: GraphBuilder, a: Attention, source: str) -> tuple[str, str, str]:
    """Queries, keys and values; one name where they come from one product."""
    s = a.layer
    sources = dict.fromkeys(a.of_memory, gathered(g, a.remembered, "@memory")) if a.memory_length else {}
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

    One row per sequence is broadcast; a square, of padding, per pack or causal, goes to the scores of all heads, but
    for steps of text generation, which find it laid out. Where layers make it from ones and zeros, they multiply scores
    by these, and take a large number off where they are zero [optimum_graphcore]. Of integers and a number PyTorch
    makes a mask in single precision, and so the sum with it is [poptorch_compiler].
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
    """The square that a mask is, for the scores of each head."""
    return g.spread("mask/broadcast", a.scores, mask, a.mask_reader_count, a.row_length, dtype)


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
    """Gradients of queries, and of keys and values as far as these queries have met them."""
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
    """A gradient that sums over queries, along which the rows of its left operand do not lie."""
    return g.matmul(name, a.keys, a.scores[1], sources, left_row_length=a.row_length, contracts_rows=True)


def _project_backward(g: GraphBuilder, a: Attention, gradients: Mapping[str, str], residual: str) -> None:
    """Back through the projections to the block's input, and to the memory that it attends to."""
    s = a.layer
    read = gathered(g, s, "@normal") if s.divides_tokens else ""
    reads = dict.fromkeys(a.of_memory, gathered(g, a.remembered, "@memory")) if a.memory_length and read else {}
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
        memory = together(g, a.remembered, [parts.pop(name) for name in a.of_memory])
        g.elementwise("add", a.remembered.own, (add_up(g, a.remembered, memory), "@memory_gradient"))
    inner, beside = list(parts.values()), list[str]()
    if s.parallel:
        (inner if s.parallel == "one_norm" else beside).append("@feed_forward_gradient")
    finish_backward(g, s, inner, residual, beside)
