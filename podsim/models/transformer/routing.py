"""How tokens get to the experts of a feed-forward block, and their results back.

Shards that each hold a part of every expert route all tokens. Where groups of shards hold different experts, each
shard routes its share of the tokens, and copies travel: every shard has a buffer for each expert, of as many rows as
its share of the rows of the expert's products.

Source: [jiang2024]; [lepikhin2021] for the exchange.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsim.models.layers import GraphBuilder, linear, linear_backward, softmax, softmax_backward
from podsim.models.op import TokenExchange
from podsim.models.transformer.experts import Experts
from podsim.models.transformer.shape import LayerShape


def dispatch(g: GraphBuilder, s: LayerShape, experts: Experts, source: str) -> tuple[str, str]:
    """The weights of the experts chosen for each token, and the copies of tokens that these take."""
    tokens, _ = rows = _routed(s)
    logits = linear(g, "router", *rows, experts.count, source, bias=False)
    chosen = softmax(g, tokens, experts.count, logits)
    for _ in range(experts.per_token):
        chosen = g.reduce("router/top", (tokens,), tokens * experts.count, chosen)
    return chosen, _sent(g, s, g.rearrange("dispatch", _buffers(s, experts), source))


def combine(g: GraphBuilder, s: LayerShape, experts: Experts, out: str, weights: str) -> str:
    """Results of experts, weighted and added up for each token."""
    rows = g.rearrange("combine", _copies(s, experts), _sent(g, s, out, back=True))
    weighted = g.elementwise("mul", _copies(s, experts), (rows, weights), name="combine/weigh")
    return _sum_of_copies(g, s, experts, weighted)


def combine_backward(g: GraphBuilder, s: LayerShape, experts: Experts, gradient: str) -> tuple[str, str]:
    """Gradients of the results of experts, and of what the router reads."""
    copies, (tokens, _) = _copies(s, experts), _routed(s)
    rows = g.rearrange("combine", copies, gradient)
    weighted = g.elementwise("mul", copies, (rows, "@weights"), name="combine/weigh")
    products = g.elementwise("mul", copies, (rows, "@results"), name="combine/mul")
    sums = g.reduce("router/top_grad", copies[:1], copies[0] * copies[1], products)
    logits = softmax_backward(g, tokens, experts.count, "@probabilities", sums)
    router = linear_backward(g, "router", *_routed(s), experts.count, logits, bias=False)
    return _sent(g, s, weighted), router


def dispatch_backward(g: GraphBuilder, s: LayerShape, experts: Experts, gradients: Sequence[str]) -> str:
    """The gradient of tokens from those of their copies, each read by several products."""
    total, *others = gradients
    for other in others:
        total = g.elementwise("add", _received(s, experts), (total, other))
    copies = g.rearrange("dispatch", _copies(s, experts), _sent(g, s, total, back=True))
    return _sum_of_copies(g, s, experts, copies)


def _routed(s: LayerShape) -> tuple[int, int]:
    """Shape of the tokens that a shard routes."""
    return s.with_own_tokens.own if s.divides_experts else s.hidden


def _copies(s: LayerShape, experts: Experts) -> tuple[int, int]:
    """Shape of their copies."""
    tokens, width = _routed(s)
    return tokens * experts.per_token, width


def _buffers(s: LayerShape, experts: Experts) -> tuple[int, int]:
    """Shape of what holds them on the shard that routes them, by expert."""
    if s.divides_experts:
        return experts.count * s.share(s.networks[1]), s.hidden_size
    at_work, rows = s.networks
    even = experts.even_load(s.tokens)[1]
    return _copies(s, experts) if rows == even else (at_work * rows, s.hidden_size)


def _received(s: LayerShape, experts: Experts) -> tuple[int, int]:
    """Shape of what the experts of a shard read."""
    if not s.divides_experts:
        return _buffers(s, experts)
    at_work, rows = s.networks
    return at_work * rows, s.hidden_size


def _sent(g: GraphBuilder, s: LayerShape, source: str, *, back: bool = False) -> str:
    """Copies on the shards that hold their experts, or back on those that route them."""
    if s.experts is None or not s.divides_experts:
        return source
    held, rows = s.held_experts, s.networks[1]
    return g.add(
        TokenExchange(
            name=g.name("to_tokens" if back else "to_experts"),
            shape=_buffers(s, s.experts) if back else _received(s, s.experts),
            dtype=g.dtype,
            inputs=(source,),
            group_count=s.sharing.expert_groups,
            sent_count=held * s.share(rows) * s.hidden_size,
            whole_count=held * rows * s.hidden_size if s.expert_shards > 1 else 0,
        )
    )


def _sum_of_copies(g: GraphBuilder, s: LayerShape, experts: Experts, copies: str) -> str:
    total = copies
    for _ in range(experts.per_token - 1):
        total = g.elementwise("add", _routed(s), (total, copies), name="copies/add")
    return total
