"""The feed-forward block of a layer, forward and backward: one network, or experts.

If groups of shards hold different experts, each shard routes its share of the tokens and sends copies. It has a buffer
for each expert, with its share of the rows of the expert's products. Source: [jiang2024]; [lepikhin2021]
for the exchange.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsim.models.block import Block, Parameter, unread_results
from podsim.models.layers import (
    GraphBuilder,
    activate,
    activate_backward,
    linear,
    linear_backward,
    softmax,
    softmax_backward,
)
from podsim.models.op import TokenExchange
from podsim.models.transformer.experts import Experts
from podsim.models.transformer.residual import (
    add_gradients,
    finish_backward,
    finish_forward,
    gather_tokens,
    norm,
    norm_backward,
    start_backward,
    sum_over_shards,
    sum_over_width,
)
from podsim.models.transformer.shape import LayerShape, dense_parameters, norm_parameters


def dispatch(g: GraphBuilder, s: LayerShape, experts: Experts, source: str) -> tuple[str, str]:
    """Append the router; return the weights of the chosen experts and the copies of tokens for experts."""
    tokens, _ = rows = _routed(s)
    logits = linear(g, "router", *rows, experts.count, source, bias=False)
    chosen = softmax(g, tokens, experts.count, logits)
    for _ in range(experts.per_token):
        chosen = g.reduce("router/top", (tokens,), tokens * experts.count, chosen)
    return chosen, _sent(g, s, g.rearrange("dispatch", _buffers(s, experts), source))


def combine(g: GraphBuilder, s: LayerShape, experts: Experts, out: str, weights: str) -> str:
    """Append the weighted sum of the experts' results for each token."""
    rows = g.rearrange("combine", _copies(s, experts), _sent(g, s, out, back=True))
    weighted = g.elementwise("mul", _copies(s, experts), (rows, weights), name="combine/weigh")
    return _sum_of_copies(g, s, experts, weighted)


def combine_backward(g: GraphBuilder, s: LayerShape, experts: Experts, gradient: str) -> tuple[str, str]:
    """Append the gradients of the experts' results and of the router's input."""
    copies, (tokens, _) = _copies(s, experts), _routed(s)
    rows = g.rearrange("combine", copies, gradient)
    weighted = g.elementwise("mul", copies, (rows, "@weights"), name="combine/weigh")
    products = g.elementwise("mul", copies, (rows, "@results"), name="combine/mul")
    sums = g.reduce("router/top_grad", copies[:1], copies[0] * copies[1], products)
    logits = softmax_backward(g, tokens, experts.count, "@probabilities", sums)
    router = linear_backward(g, "router", *_routed(s), experts.count, logits, bias=False)
    return _sent(g, s, weighted), router


def dispatch_backward(g: GraphBuilder, s: LayerShape, experts: Experts, gradients: Sequence[str]) -> str:
    """Append the gradient of tokens, summed over their copies and the products that read these."""
    total, *others = gradients
    for other in others:
        total = g.elementwise("add", _received(s, experts), (total, other))
    copies = g.rearrange("dispatch", _copies(s, experts), _sent(g, s, total, back=True))
    return _sum_of_copies(g, s, experts, copies)


def _routed(s: LayerShape) -> tuple[int, int]:
    """Return the shape of the tokens that a shard routes."""
    return s.with_divided_tokens.shard_hidden if s.divides_experts else s.hidden


def _copies(s: LayerShape, experts: Experts) -> tuple[int, int]:
    """Return the shape of the copies of routed tokens."""
    tokens, width = _routed(s)
    return tokens * experts.per_token, width


def _buffers(s: LayerShape, experts: Experts) -> tuple[int, int]:
    """Return the shape of the buffers for copies, by expert, on the shard that routes tokens."""
    if s.divides_experts:
        return experts.count * s.share(s.networks[1]), s.hidden_size
    at_work, rows = s.networks
    even = experts.even_load(s.tokens)[1]
    return _copies(s, experts) if rows == even else (at_work * rows, s.hidden_size)


def _received(s: LayerShape, experts: Experts) -> tuple[int, int]:
    """Return the shape of the input of a shard's experts."""
    if not s.divides_experts:
        return _buffers(s, experts)
    at_work, rows = s.networks
    return at_work * rows, s.hidden_size


def _sent(g: GraphBuilder, s: LayerShape, source: str, *, back: bool = False) -> str:
    """Append the transfer of copies to the experts' shards, or with `back` to the routing shards."""
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


def feed_forward(s: LayerShape, name: str = "feed_forward", handed_on: int = 0) -> Block:
    """Return a feed-forward block; it passes on `handed_on` elements in addition to its output."""
    forward, backward = _forward(s, name), _backward(s, name)
    experts, rows = s.networks
    inner, routed = experts * rows * s.inner_size, (experts * rows * s.hidden_size if s.experts else 0)
    tensors, normal = 3 if s.gated else 2, (s.with_divided_tokens if s.divides_experts else s).activation_elements
    idle_rows = max(0, rows - s.experts.even_load(s.tokens)[1]) if s.experts else 0
    return Block(
        name=name,
        forward=forward.ops(),
        backward=backward.ops(),
        parameters=_parameters(s),
        output_elements=s.activation_elements + handed_on,
        # The tensors of the network; with `gelu_erf` the argument of the error function and its result plus one. A
        # norm before the attention is part of the input. Routed copies of tokens are added.
        saved_elements=(tensors + 2 * (s.activation == "gelu_erf")) * inner
        + (0 if s.parallel == "one_norm" else normal)
        + routed,
        partial_sums=forward.partial_sums() + backward.partial_sums(),
        width_sums=forward.width_sums() + backward.width_sums(),
        unread_results=unread_results(forward.ops()),
        # A norm before the block reads the sum after the attention; a norm after this sum saves its own result.
        keeps_input=s.pre_norm and not s.parallel,
        padding_flop=2 * tensors * experts * idle_rows * s.hidden_size * s.inner_size,
    )


def _parameters(s: LayerShape) -> tuple[Parameter, ...]:
    parameters: tuple[Parameter, ...] = ()
    groups: tuple[int, ...] = ()
    share_read = 1.0
    if s.experts:
        groups, share_read = (s.held_experts,), s.experts.expected_hit(s.tokens) / s.experts.count
        parameters = dense_parameters("router", s.hidden_size, s.experts.count, bias=False)
    for name in ("up", "gate", "down") if s.gated else ("up", "down"):
        sizes = (s.inner_size, s.hidden_size) if name == "down" else (s.hidden_size, s.inner_size)
        parameters += dense_parameters(name, *sizes, bias=_bias(s), groups=groups, share_read=share_read)
    return parameters if s.parallel == "one_norm" else parameters + norm_parameters("norm", s.hidden_size, s.norm)


def _bias(s: LayerShape) -> bool:
    return "feed_forward" in s.biases


def _forward(s: LayerShape, name: str) -> GraphBuilder:
    g, total = s.graph(name), "@input"
    if s.leaves_sum_open:
        total = g.elementwise("add", s.hidden, ("@attention", "@input"), name="residual")
    source = _source(g, s, total)
    if s.experts:
        weights, routed = dispatch(g, s, s.experts, source)
        out = combine(g, s, s.experts, _network(g, s, routed), weights)
    else:
        out = _network(g, s, source)
    if s.divides_experts:
        finish_forward(g, s, out if s.divides_tokens else gather_tokens(g, s.with_divided_tokens, out), total)
    elif s.parallel:
        # The attention's contribution is a partial sum as well, so shards sum both at once.
        sum_over_shards(g, s, finish_forward(g, s, out, total))
    else:
        finish_forward(g, s, sum_over_shards(g, s, out), total)
    return g


def _source(g: GraphBuilder, s: LayerShape, total: str) -> str:
    """Append the norm of the network's input; parallel blocks read the layer's input under one of its norms."""
    if s.parallel == "one_norm":
        return "@normal"
    if s.parallel == "two_norms":
        return norm(g, s, "@layer_input")
    if s.divides_experts:
        return norm(g, s.with_divided_tokens, total)
    return gather_tokens(g, s, norm(g, s, total) if s.pre_norm else total)


def _network(g: GraphBuilder, s: LayerShape, source: str) -> str:
    """Append a network: from the hidden width to the inner width and back."""
    (experts, rows), bias = s.networks, _bias(s)
    sizes, inner = (rows, s.hidden_size, s.inner_size), (experts * rows, s.inner_size)
    up = sum_over_width(g, s, linear(g, "up", *sizes, source, bias=bias, groups=experts))
    if s.gated:
        gate = sum_over_width(g, s, linear(g, "gate", *sizes, source, bias=bias, groups=experts))
        gate = activate(g, s.activation, inner, gate)
        active = g.elementwise("mul", inner, (up, gate), name="gated")
    else:
        active = activate(g, s.activation, inner, up)
    if s.inner_dropout and s.batch.dropout:
        active = g.elementwise("dropout", inner, (active,), name="active/dropout")
    return linear(g, "down", rows, s.inner_size, s.hidden_size, active, bias=bias, groups=experts)


def _backward(s: LayerShape, name: str) -> GraphBuilder:
    """Return the backward pass; empty in a generation step."""
    g = s.graph(f"{name}_backward")
    if s.batch.is_step:
        return g
    if s.experts and s.divides_experts:
        _divided_backward(g, s, s.experts)
        return g
    gradient, residual = start_backward(g, s)
    if s.experts:
        gradient, router = combine_backward(g, s, s.experts, gradient)
        parts = [dispatch_backward(g, s, s.experts, _network_backward(g, s, gradient)), router]
    else:
        parts = _network_backward(g, s, gradient)
    if s.parallel == "one_norm":
        add_gradients(g, s, parts)
    elif s.parallel == "two_norms":
        norm_backward(g, s, sum_over_shards(g, s, add_gradients(g, s, parts)))
    else:
        finish_backward(g, s, parts, residual)
    return g


def _divided_backward(g: GraphBuilder, s: LayerShape, experts: Experts) -> None:
    """Append the backward pass of divided experts; each shard routes its share of the tokens.

    If shards hold all tokens between products, they gather the result.
    """
    own, gradient = s.with_divided_tokens, "@gradient"
    if s.batch.dropout:
        gradient = g.elementwise("dropout", own.shard_hidden, (gradient,))
    gradient, router = combine_backward(g, s, experts, gradient)
    tokens = dispatch_backward(g, s, experts, _network_backward(g, s, gradient))
    normal = norm_backward(g, own, g.elementwise("add", own.shard_hidden, (tokens, router)))
    read = normal if s.divides_tokens else gather_tokens(g, own, normal)
    g.elementwise("add", s.shard_hidden, ("@gradient", read), name="residual")


def _network_backward(g: GraphBuilder, s: LayerShape, gradient: str) -> list[str]:
    """Return the gradients of the network's input, one for each product that reads it."""
    (experts, rows), bias = s.networks, _bias(s)
    again = s.divides_tokens and not s.divides_experts
    inner, read = (experts * rows, s.inner_size), gather_tokens(g, s, "@normal") if again else ""
    gradient = linear_backward(g, "down", rows, s.inner_size, s.hidden_size, gradient, bias=bias, groups=experts)
    gradient = sum_over_width(g, s, gradient)
    if s.inner_dropout and s.batch.dropout:
        gradient = g.elementwise("dropout", inner, (gradient,), name="active/dropout")
    gradients = {"up": gradient}
    if s.gated:
        gradients["up"] = g.elementwise("mul", inner, (gradient, "@gate"), name="gated")
        gradients["gate"] = g.elementwise("mul", inner, (gradient, "@up"), name="gated")
    last = "gate" if s.gated else "up"
    gradients[last] = activate_backward(g, s.activation, inner, gradients[last], f"@{last}")
    return [
        linear_backward(g, each, rows, s.hidden_size, s.inner_size, source, bias=bias, groups=experts, read=read)
        for each, source in gradients.items()
    ]
