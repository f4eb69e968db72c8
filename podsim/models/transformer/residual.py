"""What both blocks of a layer have around them: a norm, dropout and the sum with the block's input."""

from __future__ import annotations

import math
from collections.abc import Sequence

from podsim.models.layers import GraphBuilder, layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from podsim.models.transformer.shape import LayerShape


def norm(g: GraphBuilder, s: LayerShape, source: str, name: str = "norm", rows: int | None = None) -> str:
    """The norm of this model, of all tokens unless another number of rows is given."""
    shape = s.own if rows is None else (rows, s.hidden_size)
    if s.norm == "layer":
        return layer_norm(g, name, *shape, source, is_shared=s.divides_width)
    return rms_norm(g, name, *shape, source, plus_one=s.norm == "rms_plus_one", is_shared=s.divides_width)


def norm_backward(g: GraphBuilder, s: LayerShape, gradient: str, name: str = "norm") -> str:
    """Gradients of the norm."""
    backward = layer_norm_backward if s.norm == "layer" else rms_norm_backward
    return backward(g, name, *s.own, gradient, is_shared=s.divides_width)


def add_up(g: GraphBuilder, s: LayerShape, source: str) -> str:
    """A hidden state of which each shard has a partial sum, which they have to add up."""
    if s.divides_tokens:
        return g.share_out("reduce_scatter", s.own, math.prod(s.hidden), source)
    return g.add_up(source) if s.shards > 1 else source


def over_width(g: GraphBuilder, s: LayerShape, source: str) -> str:
    """What a product has summed over the width of hidden states, of which IPUs may have a part each."""
    return g.add_up_width(source) if s.divides_width else source


def gathered(g: GraphBuilder, s: LayerShape, source: str) -> str:
    """A hidden state with the tokens of all shards, as products read it."""
    return g.share_out("all_gather", s.hidden, math.prod(s.hidden), source) if s.divides_tokens else source


def finish(g: GraphBuilder, s: LayerShape, out: str, total: str = "@input") -> str:
    """Dropout, the sum with what was in front of the block, and the norm where it stands behind."""
    if s.batch.dropout:
        out = g.elementwise("dropout", s.own, (out,))
    total = g.elementwise("add", s.own, (out, total), name="residual")
    return total if s.pre_norm else norm(g, s, total)


def start_backward(g: GraphBuilder, s: LayerShape) -> tuple[str, str]:
    """The gradient of what the block adds, and that of the sum."""
    residual = gradient = "@gradient" if s.pre_norm else norm_backward(g, s, "@gradient")
    if s.batch.dropout:
        gradient = g.elementwise("dropout", s.own, (gradient,))
    return gathered(g, s, gradient), residual


def together(g: GraphBuilder, s: LayerShape, gradients: Sequence[str]) -> str:
    """The gradient of a tensor that several products read."""
    total, *others = gradients
    for other in others:
        total = g.elementwise("add", s.hidden, (total, other))
    return total


def finish_backward(
    g: GraphBuilder, s: LayerShape, gradients: Sequence[str], residual: str, beside: Sequence[str] = ()
) -> str:
    """Gradients of everything that reads the block's input, added up."""
    if s.pre_norm:
        gradients = [norm_backward(g, s, add_up(g, s, together(g, s, gradients)))]
    elif s.shards > 1:
        gradients = [add_up(g, s, together(g, s, gradients))]
    for gradient in (*gradients, *beside):
        residual = g.elementwise("add", s.own, (residual, gradient), name="residual")
    return residual
