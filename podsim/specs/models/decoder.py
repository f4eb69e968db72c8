"""Decoders: models that write one token after another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import model_validator

from podsim.errors import BadValueError
from podsim.specs.activity import Activity
from podsim.specs.document import KeyPath
from podsim.specs.family import Family
from podsim.specs.forward import PassSpec
from podsim.specs.models.base import GeneratorSpec, batch_of, named, with_preset
from podsim.specs.quantity import Count, CountOrZero, Flag
from podsim.specs.scenario import Finding
from podsim.specs.transformer_training import TRANSFORMER_TRAINING, DropoutDataSpec
from podsim.workload import Workload
from podsim.workload.layers import Formats
from podsim.workload.transformer.causal import DecoderShape, causal_decoder
from podsim.workload.transformer.shape import LAYER_BIASES

_LLAMA: dict[str, Any] = {"vocabulary_size": 32000, "gated": True, "norm": "rms", "rotary": True, "bias": False}
_GPT2: dict[str, Any] = {
    "vocabulary_size": 50257,
    "position_count": 1024,
    "gated": False,
    "norm": "layer",
    "rotary": False,
    "bias": True,
    "tied_embedding": True,
}
_GPT3 = _GPT2 | {"position_count": 2048}


def _sizes(layers: int, hidden: int, inner: int, heads: int, kv_heads: int) -> dict[str, int]:
    return {
        "layer_count": layers,
        "hidden_size": hidden,
        "feed_forward_size": inner,
        "head_count": heads,
        "kv_head_count": kv_heads,
    }


_PRESETS: dict[str, dict[str, Any]] = {
    "llama2_7b": _LLAMA | _sizes(32, 4096, 11008, 32, 32),
    "llama2_13b": _LLAMA | _sizes(40, 5120, 13824, 40, 40),
    "llama2_70b": _LLAMA | _sizes(80, 8192, 28672, 64, 8),
    "gpt2_small": _GPT2 | _sizes(12, 768, 3072, 12, 12),
    "gpt2_medium": _GPT2 | _sizes(24, 1024, 4096, 16, 16),
    "gpt2_large": _GPT2 | _sizes(36, 1280, 5120, 20, 20),
    "gpt2_xl": _GPT2 | _sizes(48, 1600, 6400, 25, 25),
    "gpt3_2_7b": _GPT3 | _sizes(32, 2560, 10240, 32, 32),
    "gpt3_6_7b": _GPT3 | _sizes(32, 4096, 16384, 32, 32),
    "gpt3_13b": _GPT3 | _sizes(40, 5120, 20480, 40, 40),
    "gpt3_175b": _GPT3 | _sizes(96, 12288, 49152, 96, 96),
    "gptj_6b": _GPT2
    | {"vocabulary_size": 50400, "rotary": True, "position_count": 0, "tied_embedding": False}
    | _sizes(28, 4096, 16384, 16, 16),
}


class DecoderSpec(GeneratorSpec):
    """A decoder. `size` presets its dimensions; any of them overrides it."""

    kind: Literal["decoder"]
    """Family of the model."""
    size: (
        Literal[
            "llama2_7b",
            "llama2_13b",
            "llama2_70b",
            "gpt2_small",
            "gpt2_medium",
            "gpt2_large",
            "gpt2_xl",
            "gpt3_2_7b",
            "gpt3_6_7b",
            "gpt3_13b",
            "gpt3_175b",
            "gptj_6b",
        ]
        | None
    ) = None
    """A published size [touvron2023] [radford2019] [brown2020]."""
    layer_count: Count
    """Layers."""
    hidden_size: Count
    """Width."""
    feed_forward_size: Count
    """Inner width of the feed-forward block."""
    head_count: Count
    """Query heads."""
    kv_head_count: Count
    """Key and value heads; fewer than query heads in grouped-query attention."""
    vocabulary_size: Count
    """Rows of the embedding."""
    position_count: CountOrZero = 0
    """Rows of learned positions; needed without rotary ones."""
    gated: Flag = True
    """Whether the feed-forward block is gated (SwiGLU)."""
    norm: Literal["rms", "layer"] = "rms"
    """Normalisation."""
    rotary: Flag = True
    """Rotary positions; learned ones otherwise."""
    bias: Flag = False
    """Biases in all dense layers."""
    tied_embedding: Flag = False
    """Whether the head shares the embedding's weights."""

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, raw: Any) -> Any:
        rotary = isinstance(raw, dict) and raw.get("rotary") is True
        return with_preset(({"position_count": 0} | raw) if rotary and "size" in raw else raw, _PRESETS)

    @model_validator(mode="after")
    def _heads_go_together(self) -> DecoderSpec:
        if self.hidden_size % self.head_count:
            what = f"{self.head_count} heads do not divide a width of {self.hidden_size}"
            raise BadValueError(what, "change head_count or hidden_size")
        if self.head_count % self.kv_head_count:
            what = f"{self.kv_head_count} key and value heads do not divide {self.head_count} query heads"
            raise BadValueError(what, "change kv_head_count")
        if not self.rotary and not self.position_count:
            raise BadValueError("learned positions have no rows", "give position_count, or `rotary: true`")
        if self.rotary and self.position_count:
            what = f"rotary positions have no rows; position_count is {self.position_count}"
            raise BadValueError(what, "leave position_count out, or write `rotary: false`")
        return self

    @property
    def placed_layers(self) -> int:
        """All of them."""
        return self.layer_count

    @property
    def shares_embedding(self) -> bool:
        """As the model has it."""
        return self.tied_embedding

    @property
    def shape(self) -> DecoderShape:
        """Its dimensions, for training as for generation."""
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
            biases=LAYER_BIASES if self.bias else (),
            tied_embedding=self.tied_embedding,
        )

    def workload(self, data: DecoderDataSpec, formats: Formats, batch_size: int) -> Workload:
        """The graph of one micro-batch of sequences."""
        batch = batch_of(data, formats, batch_size, data.sequence_length)
        return causal_decoder(self.shape, batch, named("decoder", self.size))

    def findings(self, spec: Any) -> Iterator[Finding]:
        """Sequences that are longer than the model has positions."""
        data: DecoderDataSpec = spec.data
        cure = "shorten it, or raise model.position_count"
        yield from self.position_findings(data.sequence_length, ("data", "sequence_length"), cure)

    def position_findings(self, token_count: int, key: KeyPath, do: str) -> Iterator[Finding]:
        """Too few learned positions for so many tokens; the key is to blame, and a cure is given."""
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
