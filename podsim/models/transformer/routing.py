"""How tokens get to the experts of a feed-forward block, and their results back.

Every shard routes all tokens and holds a part of every expert.

Source: [jiang2024].
"""

from __future__ import annotations

from collections.abc import Sequence

from podsim.models.layers import GraphBuilder, linear, linear_backward, softmax, softmax_backward
from podsim.models.transformer.shape import Experts, LayerShape


def dispatch(g: GraphBuilder, s: LayerShape, experts: Experts, source: str) -> tuple[str, str]:
    """The weights of the experts chosen for each token, and the copies of tokens that these take."""
    logits = linear(g, "router", *s.hidden, experts.count, source, bias=False)
    chosen = softmax(g, s.tokens, experts.count, logits)
    for _ in range(experts.per_token):
        chosen = g.reduce("router/top", (s.tokens,), s.tokens * experts.count, chosen)
    return chosen, g.rearrange("dispatch", _copies(s, experts), source)


def combine(g: GraphBuilder, s: LayerShape, experts: Experts, out: str, weights: str) -> str:
    """Results of experts, weighted and added up for each token."""
    rows = g.rearrange("combine", _copies(s, experts), out)
    weighted = g.elementwise("mul", _copies(s, experts), (rows, weights), name="combine/weigh")
    return _sum_of_copies(g, s, experts, weighted)


def combine_backward(g: GraphBuilder, s: LayerShape, experts: Experts, gradient: str) -> tuple[str, str]:
    """Gradients of the results of experts, and of what the router reads."""
    copies = _copies(s, experts)
    rows = g.rearrange("combine", copies, gradient)
    weighted = g.elementwise("mul", copies, (rows, "@weights"), name="combine/weigh")
    products = g.elementwise("mul", copies, (rows, "@results"), name="combine/mul")
    sums = g.reduce("router/top_grad", copies[:1], copies[0] * copies[1], products)
    logits = softmax_backward(g, s.tokens, experts.count, "@probabilities", sums)
    return weighted, linear_backward(g, "router", *s.hidden, experts.count, logits, bias=False)


def dispatch_backward(g: GraphBuilder, s: LayerShape, experts: Experts, gradients: Sequence[str]) -> str:
    """The gradient of tokens from those of their copies, each read by several products."""
    total, *others = gradients
    for other in others:
        total = g.elementwise("add", _copies(s, experts), (total, other))
    return _sum_of_copies(g, s, experts, g.rearrange("dispatch", _copies(s, experts), total))


def _copies(s: LayerShape, experts: Experts) -> tuple[int, int]:
    return s.tokens * experts.per_token, s.hidden_size


def _sum_of_copies(g: GraphBuilder, s: LayerShape, experts: Experts, copies: str) -> str:
    total = copies
    for _ in range(experts.per_token - 1):
        total = g.elementwise("add", s.hidden, (total, copies), name="copies/add")
    return total
