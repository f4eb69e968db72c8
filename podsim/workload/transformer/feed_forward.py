"""The feed-forward block of a layer, forward and backward."""

from __future__ import annotations

from podsim.workload.block import Block
from podsim.workload.layers import linear, linear_backward
from podsim.workload.op import Op
from podsim.workload.transformer.residual import finish, finish_backward, norm, start_backward
from podsim.workload.transformer.shape import LayerShape, dense_parameters, norm_parameters


def feed_forward(s: LayerShape, name: str = "feed_forward", handed_on: int = 0) -> Block:
    """The block.

    Args:
        s: The layers.
        name: Of the block.
        handed_on: Elements that go past the block to the next one, beside its output.
    """
    inner, hidden, bias = s.tokens * s.feed_forward_size, s.hidden_size, s.feed_forward_bias
    tensors = 3 if s.gated else 2
    parameters = dense_parameters("up", hidden, s.feed_forward_size, bias=bias)
    if s.gated:
        parameters += dense_parameters("gate", hidden, s.feed_forward_size, bias=bias)
    parameters += dense_parameters("down", s.feed_forward_size, hidden, bias=bias)
    return Block(
        name=name,
        forward=_forward(s, name),
        backward=_backward(s, name),
        parameters=parameters + norm_parameters("norm", hidden, s.norm),
        output_elements=s.activation_elements + handed_on,
        saved_elements=tensors * inner + s.activation_elements,
        live_elements=tensors * inner + 2 * s.activation_elements,
    )


def _forward(s: LayerShape, name: str) -> tuple[Op, ...]:
    g, inner = s.graph(name), (s.tokens, s.feed_forward_size)
    source = norm(g, s, "@input") if s.pre_norm else "@input"
    up = linear(g, "up", s.tokens, s.hidden_size, s.feed_forward_size, source, bias=s.feed_forward_bias)
    if s.gated:
        gate = linear(g, "gate", s.tokens, s.hidden_size, s.feed_forward_size, source, bias=s.feed_forward_bias)
        gate = g.elementwise(s.activation, inner, (gate,))
        active = g.elementwise("mul", inner, (up, gate), name="gated")
    else:
        active = g.elementwise(s.activation, inner, (up,))
    out = linear(g, "down", s.tokens, s.feed_forward_size, s.hidden_size, active, bias=s.feed_forward_bias)
    finish(g, s, out)
    return g.ops()


def _backward(s: LayerShape, name: str) -> tuple[Op, ...]:
    g, inner, bias = s.graph(f"{name}_backward"), (s.tokens, s.feed_forward_size), s.feed_forward_bias
    gradient, residual = start_backward(g, s)
    gradient = linear_backward(g, "down", s.tokens, s.feed_forward_size, s.hidden_size, gradient, bias=bias)
    gradients = {"up": gradient}
    if s.gated:
        gradients["up"] = g.elementwise("mul", inner, (gradient, "@gate"), name="gated")
        gradients["gate"] = g.elementwise("mul", inner, (gradient, "@up"), name="gated")
    last = "gate" if s.gated else "up"
    gradients[last] = g.elementwise(f"{s.activation}_grad", inner, (gradients[last], f"@{last}"))
    parts = [
        linear_backward(g, each, s.tokens, s.hidden_size, s.feed_forward_size, source, bias=bias)
        for each, source in gradients.items()
    ]
    finish_backward(g, s, parts, residual)
    return g.ops()
