"""Heads, which compute a loss from the last hidden state, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from podsim.models.block import Block, Parameter
from podsim.models.layers import (
    GraphBuilder,
    activate,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    softmax,
)
from podsim.models.transformer.residual import gather_tokens, norm, norm_backward, sum_over_shards, sum_over_width
from podsim.models.transformer.shape import LayerShape, dense_parameters, norm_parameters

_NEXT_SENTENCE_CLASSES = 2
SPAN_ENDS = 2


class Head(Protocol):
    """Interface of a head."""

    def parameters(self, s: LayerShape) -> Iterator[Parameter]:
        """Yield the trained tensors."""

    def forward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append the forward pass on `@input`."""

    def backward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append the backward pass from the labels."""

    def saved_elements(self, s: LayerShape) -> int:
        """Return the elements per micro-batch that the backward pass needs from the forward pass."""


def head_block(s: LayerShape, head: Head) -> Block:
    """Return the head as the last block of a model."""
    forward, backward = s.graph("head"), s.graph("head_backward")
    head.forward(forward, s)
    if not s.batch.is_step:
        head.backward(backward, s)
    return Block(
        name="head",
        forward=forward.ops(),
        backward=backward.ops(),
        parameters=tuple(head.parameters(s)),
        output_elements=0,
        saved_elements=head.saved_elements(s),
        partial_sums=forward.partial_sums() + backward.partial_sums(),
        width_sums=forward.width_sums() + backward.width_sums(),
    )


def _word_softmax(g: GraphBuilder, s: LayerShape, rows: int, words: int, logits: str) -> None:
    """Append a softmax over words; shards, which hold some words each, combine maxima, sums and label logits.

    Source: [shoeybi2019].
    """
    shared = s.shards > 1
    softmax(g, rows, words, logits, is_shared=shared)
    if shared:
        g.mark_partial_sum(g.reduce("loss/label", (rows,), rows * words, logits))


@dataclass(frozen=True, slots=True)
class PretrainingHead:
    """Head for masked tokens and next-sentence prediction [devlin2018]."""

    vocabulary_size: int
    masked_token_count: int  # predicted positions per sequence or pack
    transform: bool  # True for a dense layer and a norm before the decoder
    next_sentence: ClassHead | None  # head that classifies pairs of sentences, if any

    def _masked(self, s: LayerShape) -> tuple[int, int]:
        return s.batch.size * self.masked_token_count, s.hidden_size

    def parameters(self, s: LayerShape) -> Iterator[Parameter]:
        """Yield the trained tensors; the decoder shares the weights of the embedding, whose words shards divide."""
        yield Parameter("decoder/weight", (s.share(self.vocabulary_size), s.hidden_size), tied_to="embedding/word")
        if self.next_sentence:
            yield from self.next_sentence.parameters(s)
        if self.transform:
            yield from dense_parameters("transform", s.hidden_size, s.hidden_size)
            yield from norm_parameters("transform/norm", s.hidden_size)

    def forward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append the decoder of the gathered masked positions, and the next-sentence head."""
        masked, words = self._masked(s), s.share(self.vocabulary_size)
        rows = g.gather("masked", masked, s.tokens, (gather_tokens(g, s, "@input"), "@masked_positions"))
        if self.transform:
            rows = linear(g, "transform", *masked, s.hidden_size, rows)
            rows = activate(g, "gelu", masked, rows)
            rows = layer_norm(g, "transform/norm", *masked, rows)
        _word_softmax(g, s, masked[0], words, linear(g, "decoder", *masked, words, rows, bias=False))
        if self.next_sentence:
            self.next_sentence.forward(g, s)

    def backward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append the backward passes of both losses, in the order of the forward pass."""
        masked, words = self._masked(s), s.share(self.vocabulary_size)
        gradient = g.elementwise("sub", (masked[0], words), ("@probabilities", "@labels"), name="loss")
        gradient = linear_backward(g, "decoder", *masked, words, gradient, bias=False)
        if s.shards > 1:
            g.mark_partial_sum(gradient)
        if self.transform:
            gradient = layer_norm_backward(g, "transform/norm", *masked, gradient)
            gradient = g.elementwise("gelu_grad", masked, (gradient,))
            gradient = linear_backward(g, "transform", *masked, s.hidden_size, gradient)
        g.scatter_add("masked", masked, s.tokens, (gradient, "@masked_positions"))
        if self.next_sentence:
            self.next_sentence.backward(g, s)

    def saved_elements(self, s: LayerShape) -> int:
        """Return the elements of the transform's rows and of the probabilities."""
        rows, width = self._masked(s)
        return 4 * rows * width + rows * s.share(self.vocabulary_size)


@dataclass(frozen=True, slots=True)
class ClassHead:
    """Head that classifies a sequence by its first token, or by the mean of its tokens."""

    class_count: int = _NEXT_SENTENCE_CLASSES  # classes; 0 if the pooled hidden state is the result
    pooler: bool = True  # True for a dense layer and tanh before the classes
    name: str = "next_sentence"  # name of the last dense layer
    sequences_per_row: int = 1  # sequences that share a row of tokens
    final_norm: bool = False  # True for a norm of all tokens, as in models with norms before their blocks
    reads_mean: bool = False  # True to classify the mean of all tokens

    def _pooled_shape(self, s: LayerShape) -> tuple[int, int]:
        return s.batch.size * self.sequences_per_row, s.hidden_size

    def parameters(self, s: LayerShape) -> Iterator[Parameter]:
        """Yield the trained tensors."""
        if self.class_count:
            yield from dense_parameters(self.name, s.hidden_size, self.class_count)
        if self.pooler:
            yield from dense_parameters("pooler", s.hidden_size, s.hidden_size)
        if self.final_norm:
            yield from norm_parameters("norm", s.hidden_size, s.norm)

    def forward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append norm, pooled tokens, pooler, classes and softmax."""
        first = self._pooled_shape(s)
        source = gather_tokens(g, s, norm(g, s, "@input") if self.final_norm else "@input")
        if self.reads_mean:
            pooled = g.reduce("mean", first, math.prod(s.hidden), source)
        else:
            pooled = g.gather("first", first, s.tokens, (source, "@first_positions"))
        if self.pooler:
            pooled = g.elementwise("tanh", first, (linear(g, "pooler", *first, s.hidden_size, pooled),))
        if self.class_count:
            softmax(g, first[0], self.class_count, linear(g, self.name, *first, self.class_count, pooled))

    def backward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append the backward pass; the cost of the loss is negligible for few classes."""
        first, gradient = self._pooled_shape(s), "@sequence_gradient"
        if self.class_count:
            gradient = linear_backward(g, self.name, *first, self.class_count, gradient)
        if self.pooler:
            gradient = g.elementwise("tanh_grad", first, (gradient,))
            gradient = linear_backward(g, "pooler", *first, s.hidden_size, gradient)
        if self.reads_mean:
            gradient = g.elementwise("scale", s.hidden, (gradient,))
        else:
            gradient = g.scatter_add("first", first, s.tokens, (gradient, "@first_positions"))
        if self.final_norm:
            norm_backward(g, s, gradient)

    def saved_elements(self, s: LayerShape) -> int:
        """Return the elements of pooled tokens, classes and normalised tokens."""
        rows, width = self._pooled_shape(s)
        return rows * (2 * width + self.class_count) + (s.activation_elements if self.final_norm else 0)


@dataclass(frozen=True, slots=True)
class SpanHead:
    """Head that finds the start and the end of an answer by two scores per token [devlin2018]."""

    def _scores(self, s: LayerShape) -> tuple[int, int]:
        return s.batch.size * SPAN_ENDS, s.batch.sequence_length

    def parameters(self, s: LayerShape) -> Iterator[Parameter]:
        """Yield the trained tensors."""
        yield from dense_parameters("span", s.hidden_size, SPAN_ENDS)

    def forward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append the scores, and a softmax over the tokens of each sequence."""
        softmax(g, *self._scores(s), linear(g, "span", *s.hidden, SPAN_ENDS, gather_tokens(g, s, "@input")))

    def backward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append the backward pass from both positions."""
        gradient = g.elementwise("sub", self._scores(s), ("@probabilities", "@positions"), name="loss")
        read = gather_tokens(g, s, "@input") if s.divides_tokens else ""
        linear_backward(g, "span", *s.hidden, SPAN_ENDS, gradient, read=read)

    def saved_elements(self, s: LayerShape) -> int:
        """Return the elements of the probabilities."""
        return s.tokens * SPAN_ENDS


@dataclass(frozen=True, slots=True)
class TokenHead:
    """Head that predicts the next word of every token; in a generation step, of the last tokens [radford2019]."""

    vocabulary_size: int
    tied: bool  # True if the head shares the embedding's weights
    final_norm: bool = True
    bias: bool = False

    def _rows(self, s: LayerShape) -> int:
        """Return the number of tokens with a prediction; in a generation step, the last of each sequence."""
        return s.batch.size if s.batch.is_step else s.tokens

    def parameters(self, s: LayerShape) -> Iterator[Parameter]:
        """Yield the trained tensors; shards divide the words."""
        words, owner = s.share(self.vocabulary_size), "embedding/word" if self.tied else None
        yield Parameter("decoder/weight", (words, s.hidden_size), tied_to=owner)
        if self.bias:
            yield Parameter("decoder/bias", (words,))
        if self.final_norm:
            yield from norm_parameters("norm", s.hidden_size, s.norm)

    def forward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append norm, decoder and softmax; in a generation step without softmax, since the host takes the logits."""
        rows, words, source = self._rows(s), s.share(self.vocabulary_size), "@input"
        if rows < s.tokens:
            source = g.gather("last", (rows, s.hidden_size), s.tokens, (source,))
        if self.final_norm:
            source = norm(g, s, source, rows=rows if s.batch.is_step else None)
        source = gather_tokens(g, s, source)
        logits = sum_over_width(g, s, linear(g, "decoder", rows, s.hidden_size, words, source, bias=self.bias))
        if not s.batch.is_step:
            _word_softmax(g, s, rows, words, logits)

    def backward(self, g: GraphBuilder, s: LayerShape) -> None:
        """Append the backward pass from the labels of all tokens."""
        words = s.share(self.vocabulary_size)
        gradient = g.elementwise("sub", (s.tokens, words), ("@probabilities", "@labels"), name="loss")
        read = gather_tokens(g, s, "@normal") if s.divides_tokens else ""
        gradient = linear_backward(g, "decoder", *s.hidden, words, gradient, bias=self.bias, read=read)
        gradient = sum_over_shards(g, s, gradient)
        if self.final_norm:
            norm_backward(g, s, gradient)

    def saved_elements(self, s: LayerShape) -> int:
        """Return the elements of normalised tokens and probabilities."""
        return self._rows(s) * s.share(self.vocabulary_size) + s.activation_elements
