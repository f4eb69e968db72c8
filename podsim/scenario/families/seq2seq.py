"""Encoder-decoders of the T5 family."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from podsim.models import Workload
from podsim.models.layers import Formats
from podsim.models.transformer.seq2seq import Seq2SeqShape, encoder_decoder
from podsim.models.transformer.shape import WHOLE, Shards
from podsim.scenario.activity import Activity
from podsim.scenario.families.base import BuiltModelSpec, batch_of, named, sized, with_preset
from podsim.scenario.family import Family
from podsim.scenario.forward import PassSpec
from podsim.scenario.quantity import Count, Flag, LayerCount
from podsim.scenario.transformer_training import TRANSFORMER_TRAINING, DropoutDataSpec

_T5_1_1: dict[str, Any] = {"gated": True, "tied_embedding": False}
_T5: dict[str, dict[str, Any]] = {
    "small": {"layer_count": 6, "hidden_size": 512, "feed_forward_size": 2048, "head_count": 8, "head_size": 64},
    "base": {"layer_count": 12, "hidden_size": 768, "feed_forward_size": 3072, "head_count": 12, "head_size": 64},
    "large": {"layer_count": 24, "hidden_size": 1024, "feed_forward_size": 4096, "head_count": 16, "head_size": 64},
    "flan_xl": _T5_1_1
    | {"layer_count": 24, "hidden_size": 2048, "feed_forward_size": 5120, "head_count": 32, "head_size": 64},
    "flan_xxl": _T5_1_1
    | {"layer_count": 24, "hidden_size": 4096, "feed_forward_size": 10240, "head_count": 64, "head_size": 64},
}
_NAMES = {
    "small": "T5-Small",
    "base": "T5-Base",
    "large": "T5-Large",
    "flan_xl": "Flan-T5-XL",
    "flan_xxl": "Flan-T5-XXL",
}


class Seq2SeqDataSpec(DropoutDataSpec):
    """The training data of an encoder-decoder."""

    source_length: Count
    """Tokens of an input sequence."""
    target_length: Count
    """Tokens of an output sequence."""


class Seq2SeqSpec(BuiltModelSpec):
    """Encoder-decoder of the T5 family. `size` presets its dimensions; each can be overridden."""

    kind: Literal["t5"]
    """Family of the model."""
    size: Literal["small", "base", "large", "flan_xl", "flan_xxl"] | None = None
    """A published size [raffel2020] [chung2022]."""
    layer_count: LayerCount
    """Layers of the encoder."""
    decoder_layer_count: LayerCount | None = None
    """Layers of the decoder; as many as the encoder's if left out."""
    hidden_size: Count
    """Width of the model."""
    feed_forward_size: Count
    """Inner width of the feed-forward blocks."""
    head_count: Count
    """Attention heads."""
    head_size: Count
    """Width of a head; heads need not add up to the width of the model."""
    vocabulary_size: Count = 32128
    """Rows of the embedding."""
    gated: Flag = False
    """Whether feed-forward blocks are gated (T5 1.1 and Flan-T5)."""
    tied_embedding: Flag = True
    """Whether the head shares the embedding's weights."""
    qkv_products: Literal[1, 3] = 1
    """Number of products that compute queries, keys and values of a sequence. Three are slower; graphs that were not
    rewritten for IPUs have three."""

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, raw: Any) -> Any:
        return with_preset(raw, _T5)

    @property
    def title(self) -> str:
        """Published name, or layers and width."""
        is_symmetric = self.placed_decoder_layers == self.layer_count
        sizes = (size for size, preset in _T5.items() if all(getattr(self, key) == preset[key] for key in preset))
        size = next(sizes, None) if is_symmetric else None
        if size is not None:
            return _NAMES[size]
        layers = self.layer_count if is_symmetric else self.placed_layers
        return sized("T5", layers, self.hidden_size)

    @property
    def placed_layers(self) -> int:
        """Number of layers of encoder and decoder."""
        return self.layer_count + self.placed_decoder_layers

    @property
    def placed_decoder_layers(self) -> int:
        """Number of layers of the decoder."""
        return self.decoder_layer_count or self.layer_count

    @property
    def shares_embedding(self) -> bool:
        """True if the head shares the embedding's weights."""
        return self.tied_embedding

    def tokens_per_sample(self, data: Seq2SeqDataSpec) -> int:
        """Return the number of tokens of both sequences."""
        return data.source_length + data.target_length

    def workload(self, data: Seq2SeqDataSpec, formats: Formats, batch_size: int, shards: Shards = WHOLE) -> Workload:
        """Return the graph of one micro-batch of pairs of sequences."""
        shape = Seq2SeqShape(
            encoder_layer_count=self.layer_count,
            decoder_layer_count=self.placed_decoder_layers,
            hidden_size=self.hidden_size,
            head_size=self.head_size,
            feed_forward_size=self.feed_forward_size,
            head_count=self.head_count,
            vocabulary_size=self.vocabulary_size,
            gated=self.gated,
            tied_embedding=self.tied_embedding,
            qkv_products=self.qkv_products,
        )
        batch = batch_of(data, formats, batch_size, data.source_length)
        return encoder_decoder(shape, batch, data.target_length, named("T5", self.size), shards)


FAMILY = Family(
    "an encoder-decoder",
    Seq2SeqSpec,
    {
        Activity.TRAINING: {"data": (Seq2SeqDataSpec, ...), **TRANSFORMER_TRAINING},
        Activity.FORWARD: {"data": (Seq2SeqDataSpec, ...), "forward": (PassSpec, ...)},
    },
)
