"""What both blocks of a layer have around them: a norm, dropout and the sum with the block's input."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.workload.layers import GraphBuilder, layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from podsim.workload.transformer.shape import LayerShape


def norm(g: GraphBuilder, s: LayerShape, source: str, name: str = "norm") -> str:
    """The norm of this model."""
    return (rms_norm if s.norm == "rms" else layer_norm)(g, name, *s.hidden, source)


def norm_backward(g: GraphBuilder, s: LayerShape, gradient: str, name: str = "norm") -> str:
    """Its gradients."""
    return (rms_norm_backward if s.norm == "rms" else layer_norm_backward)(g, name, *s.hidden, gradient)


def finish(g: GraphBuilder, s: LayerShape, out: str) -> str:
    """Dropout, the sum, and the norm where it stands behind."""
    if s.dropout:
        out = g.elementwise("dropout", s.hidden, (out,))
    total = g.elementwise("add", s.hidden, (out, "@input"), name="residual")
    return total if s.pre_norm else norm(g, s, total)


def start_backward(g: GraphBuilder, s: LayerShape) -> tuple[str, str]:
    """The gradient of what the block adds, and that of the sum."""
    residual = gradient = "@gradient" if s.pre_norm else norm_backward(g, s, "@gradient")
    if s.dropout:
        gradient = g.elementwise("dropout", s.hidden, (gradient,))
    return gradient, residual


def finish_backward(g: GraphBuilder, s: LayerShape, gradients: Sequence[str], residual: str) -> str:
    """Gradients of everything that reads the block's input, added up."""
    if s.pre_norm:
        total, *others = gradients
        for other in others:
            total = g.elementwise("add", s.hidden, (total, other))
        gradients = [norm_backward(g, s, total)]
    for gradient in gradients:
        residual = g.elementwise("add", s.hidden, (residual, gradient), name="residual")
    return residual
