"""Embeddings of tokens and images."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from podsim.models.block import Block, Parameter, unread_results
from podsim.models.layers import GraphBuilder, layer_norm, layer_norm_backward, linear
from podsim.models.op import Op
from podsim.models.transformer.residual import gather_tokens, sum_over_shards
from podsim.models.transformer.shape import LayerShape, dense_parameters, norm_parameters


@dataclass(frozen=True, slots=True)
class TokenEmbedding:
    """Dimensions of an embedding of tokens."""

    vocabulary_size: int  # rows of the word embedding
    position_count: int = 0  # rows of the position embedding; 0 without one
    token_type_count: int = 0  # rows of the segment embedding; 0 without one
    norm: bool = False
    scaled: bool = False  # True if word embeddings are scaled by the root of the hidden width

    def tables(self, s: LayerShape) -> dict[str, int]:
        """Return the rows of each table; shards divide the words."""
        rows = {
            "word": s.share(self.vocabulary_size),
            "position": self.position_count,
            "segment": self.token_type_count,
        }
        return {name: count for name, count in rows.items() if count}


@dataclass(frozen=True, slots=True)
class PatchEmbedding:
    """Dimensions of an embedding of images [dosovitskiy2021]."""

    image_size: int  # height and width [pixels]
    patch_size: int  # height and width of a patch [pixels]
    channel_count: int = 3  # values per pixel
    class_token: bool = True  # True if a class token precedes the patches

    @property
    def patch_count(self) -> int:
        """Number of whole patches of an image; other pixels are not read."""
        return (self.image_size // self.patch_size) ** 2

    @property
    def patch_elements(self) -> int:
        """Number of values of a patch."""
        return self.channel_count * self.patch_size**2

    @property
    def sequence_length(self) -> int:
        """Number of tokens of an image: its patches and the class token, if any."""
        return self.patch_count + self.class_token


def token_embedding(s: LayerShape, e: TokenEmbedding) -> Block:
    """Return the block that looks up the tables and adds their rows."""
    tables = tuple(Parameter(name, (rows, s.hidden_size)) for name, rows in e.tables(s).items())
    if s.relative_rows:
        tables += (Parameter("distances", (s.relative_rows, s.shard_heads)),)
    forward, backward = _tokens_forward(s, e), _tokens_backward(s, e)
    return Block(
        name="embedding",
        forward=forward.ops(),
        backward=backward.ops(),
        parameters=tables + (norm_parameters("norm", s.hidden_size) if e.norm else ()),
        output_elements=s.activation_elements,
        saved_elements=s.activation_elements,
        partial_sums=forward.partial_sums(),
        unread_results=unread_results(forward.ops()),
    )


def _tokens_forward(s: LayerShape, e: TokenEmbedding) -> GraphBuilder:
    g = s.graph("embedding")
    shapes = {"word": s.hidden}
    found = [
        g.gather(name, shapes.get(name, s.shard_hidden), rows, (f"@{name}", f"@{name}_ids"))
        for name, rows in e.tables(s).items()
    ]
    out, *others = found
    out = sum_over_shards(g, s, out)
    if e.scaled:
        out = g.elementwise("scale", s.shard_hidden, (out,))
    for other in others:
        out = g.elementwise("add", s.shard_hidden, (out, other))
    if e.norm:
        out = layer_norm(g, "norm", *s.shard_hidden, out)
    if s.batch.dropout:
        g.elementwise("dropout", s.shard_hidden, (out,))
    if s.relative_rows:
        _biases_of_distances(g, s)
    return g


def _biases_of_distances(g: GraphBuilder, s: LayerShape) -> None:
    """Append the look-up of a bias for each head and pair of tokens, by heads, and its copy for each sequence.

    Source: [hf_transformers], MPNetEncoder.compute_position_bias.
    """
    pairs = s.batch.sequence_length**2
    found = g.gather("distances", (pairs, s.shard_heads), s.relative_rows, ("@distances", "@distance_ids"))
    by_head = g.rearrange("distances/by_head", (s.shard_heads, pairs), found)
    g.rearrange("distances/copies", (s.batch.size * s.shard_heads, pairs), by_head)


def _tokens_backward(s: LayerShape, e: TokenEmbedding) -> GraphBuilder:
    """Return the backward pass; empty in a generation step."""
    g = s.graph("embedding_backward")
    if s.batch.is_step:
        return g
    gradient = "@gradient"
    if s.batch.dropout:
        gradient = g.elementwise("dropout", s.shard_hidden, (gradient,))
    if e.norm:
        gradient = layer_norm_backward(g, "norm", *s.shard_hidden, gradient)
    for table, rows in e.tables(s).items():
        shape, source = s.shard_hidden, gradient
        if table == "word":
            shape, source = s.hidden, gather_tokens(g, s, gradient)
            source = g.elementwise("scale", shape, (source,)) if e.scaled else source
        g.scatter_add(table, shape, rows, (source, f"@{table}_ids"), accumulate=True)
    return g


def patch_embedding(s: LayerShape, e: PatchEmbedding) -> Block:
    """Return the block that embeds patches by a dense layer and adds class token and positions."""
    parameters = (
        *dense_parameters("patch", e.patch_elements, s.hidden_size),
        *((Parameter("class_token", (s.hidden_size,)),) if e.class_token else ()),
        Parameter("position", (e.sequence_length, s.hidden_size)),
    )
    pixels, forward = s.batch.size * e.channel_count * e.image_size**2, _patches_forward(s, e)
    return Block(
        name="embedding",
        forward=forward,
        backward=tuple(_patches_backward(s, e)),
        parameters=parameters,
        output_elements=s.activation_elements,
        saved_elements=pixels,
        unread_results=unread_results(forward),
    )


def _patches_forward(s: LayerShape, e: PatchEmbedding) -> tuple[Op, ...]:
    g, rows = s.graph("embedding"), s.batch.size * e.patch_count
    patches = g.rearrange("patches", (rows, e.patch_elements), "@images")
    out = linear(g, "patch", rows, e.patch_elements, s.hidden_size, patches)
    if e.class_token:
        out = g.rearrange("class_token", s.hidden, out)
    out = g.elementwise("add", s.hidden, (out, "@position"))
    if s.batch.dropout:
        g.elementwise("dropout", s.hidden, (out,))
    return g.ops()


def _patches_backward(s: LayerShape, e: PatchEmbedding) -> Iterator[Op]:
    """Yield the backward pass, without a gradient of the images."""
    g, rows = s.graph("embedding_backward"), s.batch.size * e.patch_count
    gradient, count = gather_tokens(g, s, "@gradient"), s.hidden_size
    if s.batch.dropout:
        gradient = g.elementwise("dropout", s.hidden, (gradient,))
    positions = g.reduce("position_grad", (e.sequence_length, count), math.prod(s.hidden), gradient)
    g.accumulate("position", (e.sequence_length, count), positions)
    if e.class_token:
        g.accumulate("class_token", (count,), positions)
    shape = (1, e.patch_elements, count)
    weights = g.matmul("patch/weight_grad", shape, rows, ("@patches", gradient), gradient_of_weights=True)
    g.accumulate("patch", shape[1:], weights)
    bias = g.reduce("patch/bias_grad", (count,), rows * count, gradient)
    g.accumulate("patch/bias", (count,), bias)
    yield from g.ops()
