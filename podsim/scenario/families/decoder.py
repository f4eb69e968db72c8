"""Decoders: models that generate one token after another."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from podsim.errors import BadValueError
from podsim.format import format_percent
from podsim.models import Workload
from podsim.models.layers import Formats
from podsim.models.transformer.causal import DecoderShape, causal_decoder
from podsim.models.transformer.experts import Experts, Routing
from podsim.models.transformer.shape import LAYER_BIASES, WHOLE, Bias, Shards
from podsim.scenario.activity import Activity
from podsim.scenario.base import Spec
from podsim.scenario.document import KeyPath
from podsim.scenario.families.base import GeneratorSpec, batch_of, named, sized, with_preset
from podsim.scenario.families.decoder_sizes import NAMES, PRESETS, Size
from podsim.scenario.family import Family
from podsim.scenario.forward import PassSpec
from podsim.scenario.quantity import Count, CountOrZero, Flag, LayerCount, Quantity, Real
from podsim.scenario.scenario import Finding
from podsim.scenario.transformer_training import TRANSFORMER_TRAINING, DropoutDataSpec
from podsim.scenario.wording import counted, quoted

_BIASES = get_args(Bias)
_LEAST_REPORTED_SHARE = 0.001


def _biases(raw: Any) -> Any:
    if isinstance(raw, bool):
        return raw
    do = "write for example `[qkv, projection]`"
    if not isinstance(raw, (list, tuple)):
        raise BadValueError(f"needs true, false or a list of dense layers, not {quoted(raw)}", do)
    for place, name in enumerate(raw):
        if name not in _BIASES:
            raise BadValueError(f"{quoted(name)} is not one of {', '.join(f'`{bias}`' for bias in _BIASES)}", do)
        if name in raw[:place]:
            raise BadValueError(f"{quoted(name)} is in the list twice", "keep one of the two")
    return tuple(raw)


Biases = Annotated[
    bool | tuple[Bias, ...],
    BeforeValidator(_biases),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"enum": list(_BIASES)}}]}),
]


_Imbalance = Annotated[Real, Quantity("ratio", ("1", "1000"), usual=("1", "20"))]
_CapacityFactor = Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)]


class ExpertsSpec(Spec):
    """Mixture of experts: several feed-forward networks in a layer, a few of which process each token [jiang2024].

    A batch of n tokens reads E·(1 - (1 - k/E)^n) of E experts, with k experts per token. This is the mean number of
    experts with at least one token, if each token chooses at random.
    """

    count: Count
    """Number of experts in each layer; each is as wide as `feed_forward_size`."""
    per_token: Count
    """Number of experts that process a token."""
    routing: Routing = "even"
    """`even`: all experts get the same number of tokens. `random`: each token chooses at random, and products have as
    many rows as the fullest expert gets tokens on average."""
    imbalance: _Imbalance | None = None
    """Tokens of the fullest expert over the mean of all experts. With a range, results show the effect of the range. An
    alternative to `routing: random`."""
    capacity_factor: _CapacityFactor | None = None
    """Capacity of each expert over the mean number of tokens of an expert [lepikhin2021]. Products have that many rows,
    and tokens beyond are dropped. No limit if left out."""

    @model_validator(mode="after")
    def _experts_are_possible(self) -> ExpertsSpec:
        if self.per_token > self.count:
            what = f"a token cannot go through {self.per_token} of {counted(self.count, 'expert')}"
            raise BadValueError(what, f"use a per_token of at most {self.count}")
        if self.imbalance is not None and self.routing == "random":
            what = "`imbalance` and `routing: random` both say how many tokens the fullest expert gets"
            raise BadValueError(what, "keep one of the two")
        most = self.count / self.per_token
        if self.imbalance is not None and float(self.imbalance) > most:
            what = f"an imbalance of {float(self.imbalance):g} cannot be: an expert that all tokens choose has {most:g}"
            raise BadValueError(what, f"use at most {math.floor(1000 * most) / 1000:g}")
        return self

    @property
    def load(self) -> Experts:
        """Experts as an argument of the model builder."""
        imbalance = 1.0 if self.imbalance is None else float(self.imbalance)
        return Experts(self.count, self.per_token, self.routing, imbalance, self.capacity_factor)


class DecoderSpec(GeneratorSpec):
    """Decoder. `size` presets its dimensions; each can be overridden."""

    incidental: ClassVar[frozenset[str]] = frozenset(
        {"size", "experts.routing", "experts.imbalance", "multiplies_by_mask"}
    )
    kind: Literal["decoder"]
    """Family of the model."""
    size: Size | None = None
    """A published size [touvron2023] [radford2019] [brown2020] [wang2021] [yang2024]
    [mesnard2024] [black2022] [almazrouei2023] [jiang2024]."""
    layer_count: LayerCount
    """Number of layers."""
    hidden_size: Count
    """Width of the model."""
    feed_forward_size: Count
    """Inner width of the feed-forward block."""
    head_count: Count
    """Query heads."""
    kv_head_count: Count
    """Key and value heads; fewer than query heads in grouped-query attention."""
    head_size: Count | None = None
    """Width of a head; hidden_size divided by head_count if left out."""
    vocabulary_size: Count
    """Rows of the embedding."""
    position_count: CountOrZero = 0
    """Rows of learned positions; needed without rotary positions."""
    gated: Flag = True
    """Whether the feed-forward block is gated: three matrices instead of two."""
    activation: Literal["gelu", "relu", "relu_squared", "swish"] | None = None
    """Function of the feed-forward block. If left out: `swish` if the block is gated, or else `gelu`."""
    experts: ExpertsSpec | None = None
    """Experts of each layer; one feed-forward network if left out."""
    norm: Literal["rms", "rms_plus_one", "layer"] = "rms"
    """Normalisation layers; `rms_plus_one` scales by its weights plus 1."""
    rotary: Flag = True
    """Rotary positions; otherwise positions are learned."""
    rotary_size: Count | None = None
    """Width of each head that rotary positions turn; the whole head if left out."""
    attention_window: Count | None = None
    """Largest number of tokens that a token attends to. Longer sequences are refused, since windows are not simulated;
    in shorter sequences a window changes nothing. No limit if left out."""
    parallel_blocks: Literal["none", "one_norm", "two_norms"] = "none"
    """Whether attention and feed-forward block read the same input, so that their results are added at once: both with
    one norm, or each with its own. `none`: one follows the other."""
    bias: Biases = False
    """Biases of dense layers: `true` for those in all layers, `false` for none, or a list of the layers with a bias."""
    scaled_embedding: Flag = False
    """Whether word embeddings are scaled by the square root of the width."""
    tied_embedding: Flag = False
    """Whether the head shares the embedding's weights."""
    multiplies_by_mask: Flag = False
    """Whether every layer computes the mask from integers, multiplies the scores by it and subtracts a large number
    where it is zero, as GPT-2 in PyTorch does. Applies to whole sequences; the softmax is then in single precision.
    Otherwise all layers add one mask."""

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and "size" in raw:
            # The user's kind of positions overrides the preset's: drop the preset's key of the other kind.
            rotary = raw.get("rotary")
            other = {"position_count": 0} if rotary is True else {"rotary_size": None} if rotary is False else {}
            raw = other | raw
        return with_preset(raw, PRESETS)

    @model_validator(mode="after")
    def _heads_go_together(self) -> DecoderSpec:
        if self.head_size is None and self.hidden_size % self.head_count:
            what = f"{self.head_count} heads do not divide a width of {self.hidden_size}"
            raise BadValueError(what, "change head_count or hidden_size, or give head_size")
        if self.head_count % self.kv_head_count:
            what = f"{self.kv_head_count} key and value heads do not divide {self.head_count} query heads"
            raise BadValueError(what, "change kv_head_count")
        if not self.rotary and not self.position_count:
            raise BadValueError("learned positions have no rows", "give position_count, or `rotary: true`")
        if self.rotary and self.position_count:
            what = f"rotary positions have no rows; position_count is {self.position_count}"
            raise BadValueError(what, "leave position_count out, or write `rotary: false`")
        return self

    @model_validator(mode="after")
    def _rotary_size_is_possible(self) -> DecoderSpec:
        width, rotated = self.head_size or self.hidden_size // self.head_count, self.rotary_size
        if rotated is None:
            return self
        if not self.rotary:
            what = f"learned positions turn nothing; rotary_size is {rotated}"
            raise BadValueError(what, "leave rotary_size out, or write `rotary: true`")
        if rotated > width or rotated % 2:
            what = f"rotary_size {rotated} of heads that are {width} wide: pairs of elements are turned"
            raise BadValueError(what, f"write an even number up to {width}, or leave rotary_size out")
        return self

    @property
    def title(self) -> str:
        """Published name if the shape is identical, or else layers and width."""
        experts = Experts(self.experts.count, self.experts.per_token) if self.experts else None
        shape = replace(self.shape, experts=experts, multiplies_by_mask=False)
        for size in PRESETS:
            if (PRESETS[size]["layer_count"], PRESETS[size]["hidden_size"]) != (self.layer_count, self.hidden_size):
                continue
            if DecoderSpec.model_validate({"kind": "decoder", "size": size}).shape == shape:
                return NAMES[size]
        return sized("decoder", self.layer_count, self.hidden_size)

    @property
    def placed_layers(self) -> int:
        """Number of layers."""
        return self.layer_count

    @property
    def shares_embedding(self) -> bool:
        """True if the head shares the embedding's weights."""
        return self.tied_embedding

    @property
    def _biases(self) -> tuple[Bias, ...]:
        if isinstance(self.bias, bool):
            return LAYER_BIASES if self.bias else ()
        return self.bias

    @property
    def shape(self) -> DecoderShape:
        """Dimensions, for training and for generation."""
        return DecoderShape(
            layer_count=self.layer_count,
            hidden_size=self.hidden_size,
            feed_forward_size=self.feed_forward_size,
            head_count=self.head_count,
            kv_head_count=self.kv_head_count,
            vocabulary_size=self.vocabulary_size,
            gated=self.gated,
            norm=self.norm,
            rotary=self.rotary,
            position_count=self.position_count,
            head_size=self.head_size,
            rotary_size=self.rotary_size,
            activation=self.activation,
            parallel=None if self.parallel_blocks == "none" else self.parallel_blocks,
            biases=self._biases,
            experts=self.experts.load if self.experts else None,
            scaled_embedding=self.scaled_embedding,
            tied_embedding=self.tied_embedding,
            multiplies_by_mask=self.multiplies_by_mask,
        )

    def workload(self, data: DecoderDataSpec, formats: Formats, batch_size: int, shards: Shards = WHOLE) -> Workload:
        """Return the graph of one micro-batch of sequences."""
        batch = batch_of(data, formats, batch_size, data.sequence_length)
        return causal_decoder(self.shape, batch, named("decoder", self.size), shards)

    def tokens_per_sample(self, data: DecoderDataSpec) -> int:
        """Return the number of tokens of a sequence."""
        return data.sequence_length

    def warnings(self, data: DecoderDataSpec, batch_size: int) -> Iterator[str]:
        """Yield a warning if experts drop tokens."""
        experts, tokens = self.shape.experts, batch_size * data.sequence_length
        if experts and (dropped := experts.dropped_share(tokens)) >= _LEAST_REPORTED_SHARE:
            yield (
                f"{format_percent(dropped)} of what tokens choose finds no room in its expert and is dropped; "
                f"`model.experts.capacity_factor: {experts.least_factor(tokens):.2f}` would have room for the fullest"
            )

    def findings(self, spec: Any) -> Iterator[Finding]:
        """Yield problems of sequences that are longer than the model's positions or window."""
        data: DecoderDataSpec = spec.data
        cure = "shorten it, or raise model.position_count"
        yield from self.position_findings(data.sequence_length, ("data", "sequence_length"), cure)

    def position_findings(self, token_count: int, key: KeyPath, do: str) -> Iterator[Finding]:
        """Yield a problem if there are too few learned positions, or more tokens than a window has.

        `key` is the place of the problem, `do` the cure.
        """
        if self.attention_window and token_count > self.attention_window:
            what = f"{token_count} tokens are more than the attention window of {self.attention_window}, and windows"
            cure = f"{do.partition(',')[0]} to {self.attention_window} tokens, or leave model.attention_window out"
            yield key, f"{what} are not simulated", cure
        if not self.rotary and token_count > self.position_count:
            yield key, f"{token_count} tokens, the model has {self.position_count} positions", do


class DecoderDataSpec(DropoutDataSpec):
    """The training data of a decoder."""

    sequence_length: Count
    """Tokens per sequence."""


FAMILY = Family(
    "a decoder",
    DecoderSpec,
    {
        Activity.TRAINING: {"data": (DecoderDataSpec, ...), **TRANSFORMER_TRAINING},
        Activity.GENERATION: {},
        Activity.FORWARD: {"data": (DecoderDataSpec, ...), "forward": (PassSpec, ...)},
    },
)
