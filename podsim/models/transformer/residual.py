"""Shared parts of the blocks of a layer: norm, dropout, the sum with the block's input, and sums over shards."""

from __future__ import annotations

import math
from collections.abc import Sequence

from podsim.models.layers import GraphBuilder, layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from podsim.models.transformer.shape import LayerShape


def norm(g: GraphBuilder, s: LayerShape, source: str, name: str = "norm", rows: int | None = None) -> str:
    """Append the layer's kind of norm, of all tokens unless `rows` is given."""
    shape = s.shard_hidden if rows is None else (rows, s.hidden_size)
    if s.norm == "layer":
        return layer_norm(g, name, *shape, source, is_shared=s.divides_width)
    return rms_norm(g, name, *shape, source, plus_one=s.norm == "rms_plus_one", is_shared=s.divides_width)


def norm_backward(g: GraphBuilder, s: LayerShape, gradient: str, name: str = "norm") -> str:
    """Append the gradients of the norm."""
    backward = layer_norm_backward if s.norm == "layer" else rms_norm_backward
    return backward(g, name, *s.shard_hidden, gradient, is_shared=s.divides_width)


def sum_over_shards(g: GraphBuilder, s: LayerShape, source: str) -> str:
    """Sum the shards' partial sums of a hidden state, by a reduce-scatter if shards divide tokens."""
    if s.divides_tokens:
        return g.exchange_shards("reduce_scatter", s.shard_hidden, math.prod(s.hidden), source)
    return g.mark_partial_sum(source) if s.shards > 1 else source


def sum_over_width(g: GraphBuilder, s: LayerShape, source: str) -> str:
    """Sum the partial results of a product over the hidden width, if IPUs divide the width."""
    return g.mark_width_sum(source) if s.divides_width else source


def gather_tokens(g: GraphBuilder, s: LayerShape, source: str) -> str:
    """Gather the tokens of all shards of a hidden state, if shards divide tokens."""
    return g.exchange_shards("all_gather", s.hidden, math.prod(s.hidden), source) if s.divides_tokens else source


def finish_forward(g: GraphBuilder, s: LayerShape, out: str, total: str = "@input") -> str:
    """Append dropout, the sum with the block's input, and the norm if it follows the sum."""
    if s.batch.dropout:
        out = g.elementwise("dropout", s.shard_hidden, (out,))
    total = g.elementwise("add", s.shard_hidden, (out, total), name="residual")
    return total if s.pre_norm else norm(g, s, total)


def start_backward(g: GraphBuilder, s: LayerShape) -> tuple[str, str]:
    """Append the start of a backward pass; return the gradients of the block's contribution and of the sum."""
    residual = gradient = "@gradient" if s.pre_norm else norm_backward(g, s, "@gradient")
    if s.batch.dropout:
        gradient = g.elementwise("dropout", s.shard_hidden, (gradient,))
    return gather_tokens(g, s, gradient), residual


def add_gradients(g: GraphBuilder, s: LayerShape, gradients: Sequence[str]) -> str:
    """Append the sum of the gradients from several products that read a tensor."""
    total, *others = gradients
    for other in others:
        total = g.elementwise("add", s.hidden, (total, other))
    return total


def finish_backward(
    g: GraphBuilder, s: LayerShape, gradients: Sequence[str], residual: str, beside: Sequence[str] = ()
) -> str:
    """Append the sum of all gradients of the block's input."""
    if s.pre_norm:
        gradients = [norm_backward(g, s, sum_over_shards(g, s, add_gradients(g, s, gradients)))]
    elif s.shards > 1:
        gradients = [sum_over_shards(g, s, add_gradients(g, s, gradients))]
    for gradient in (*gradients, *beside):
        residual = g.elementwise("add", s.shard_hidden, (residual, gradient), name="residual")
    return residual
