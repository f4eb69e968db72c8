"""Training scenarios of transformers beside BERT: decoders, vision transformers, encoder-decoders."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from podsim.errors import BadValueError
from podsim.specs.base import Spec
from podsim.specs.inference import DecoderSpec
from podsim.specs.quantity import Count, CountOrZero, Flag, NumberFormat, Probability
from podsim.specs.scenario import TransformerScenarioSpec

VISION_KIND, SEQ2SEQ_KIND = "vit", "t5"
_VIT: dict[str, dict[str, int]] = {
    "base": {"layer_count": 12, "hidden_size": 768, "feed_forward_size": 3072, "head_count": 12},
    "large": {"layer_count": 24, "hidden_size": 1024, "feed_forward_size": 4096, "head_count": 16},
}
_T5: dict[str, dict[str, Any]] = {
    "small": {"layer_count": 6, "hidden_size": 512, "feed_forward_size": 2048, "head_count": 8, "head_size": 64},
    "base": {"layer_count": 12, "hidden_size": 768, "feed_forward_size": 3072, "head_count": 12, "head_size": 64},
    "large": {"layer_count": 24, "hidden_size": 1024, "feed_forward_size": 4096, "head_count": 16, "head_size": 64},
}


def _with_preset(raw: Any, presets: dict[str, dict[str, Any]]) -> Any:
    """The numbers of a published size under what is written out."""
    size = raw.get("size") if isinstance(raw, dict) else None
    return presets[size] | raw if isinstance(size, str) and size in presets else raw


class VisionSpec(Spec):
    """A vision transformer. `size` presets four dimensions; any of them overrides it."""

    kind: Literal["vit"]
    """Family of the model."""
    size: Literal["base", "large"] | None = None
    """A published size [dosovitskiy2021]."""
    layer_count: Count
    """Layers."""
    hidden_size: Count
    """Width."""
    feed_forward_size: Count
    """Inner width of the feed-forward block."""
    head_count: Count
    """Attention heads."""
    image_size: Count = 224
    """Height and width of an image, in pixels."""
    patch_size: Count = 16
    """Height and width of a patch, in pixels."""
    class_count: Count = 1000
    """Classes."""

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, raw: Any) -> Any:
        return _with_preset(raw, _VIT)

    @model_validator(mode="after")
    def _sizes_divide(self) -> VisionSpec:
        if self.hidden_size % self.head_count:
            what = f"head_count {self.head_count} does not divide hidden_size {self.hidden_size}"
            raise BadValueError(what, "change one of the two")
        if self.image_size % self.patch_size:
            what = f"patches of {self.patch_size} pixels do not divide images of {self.image_size}"
            raise BadValueError(what, "change image_size or patch_size")
        return self


class Seq2SeqSpec(Spec):
    """An encoder-decoder of the T5 family. `size` presets its dimensions; any of them overrides it."""

    kind: Literal["t5"]
    """Family of the model."""
    size: Literal["small", "base", "large"] | None = None
    """A published size [raffel2020]."""
    layer_count: Count
    """Layers of the encoder."""
    decoder_layer_count: Count | None = None
    """Layers of the decoder; as many as the encoder's if left out."""
    hidden_size: Count
    """Width."""
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

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, raw: Any) -> Any:
        return _with_preset(raw, _T5)


class _Dropouts(Spec):
    dropout: Probability = 0.1
    """Dropout after embedding and blocks."""
    attention_dropout: Probability = 0.1
    """Dropout on attention probabilities."""
    samples_per_epoch: Count | None = None
    """Samples of the training set; needed for `run.epochs`."""


class DecoderDataSpec(_Dropouts):
    """The training data of a decoder."""

    sequence_length: Count
    """Tokens per sequence."""


class VisionDataSpec(Spec):
    """The training data of a vision transformer."""

    dropout: Probability = 0.0
    """Dropout after embedding and blocks."""
    attention_dropout: Probability = 0.0
    """Dropout on attention probabilities."""
    samples_per_epoch: Count | None = None
    """Images of the training set; needed for `run.epochs`."""
    decoded_by_host: Flag = True
    """Whether host servers decode each image; otherwise they only send it."""
    pixel_format: Literal["uint8"] | NumberFormat = "fp16"
    """Format of images on their way from the host."""


class Seq2SeqDataSpec(_Dropouts):
    """The training data of an encoder-decoder."""

    source_length: Count
    """Tokens of a sequence that is read."""
    target_length: Count
    """Tokens of a sequence that is written."""


class DecoderTrainingSpec(TransformerScenarioSpec):
    """One question: a decoder in training, a pod, and how the one runs on the other."""

    model: DecoderSpec
    """The model."""
    data: DecoderDataSpec
    """The data."""

    @property
    def layer_count(self) -> int:
        """Layers."""
        return self.model.layer_count

    @property
    def head_shares_embedding(self) -> bool:
        """As the model has it."""
        return self.model.tied_embedding

    @property
    def samples_per_epoch(self) -> int | None:
        """Sequences of the training set."""
        return self.data.samples_per_epoch


class VisionScenarioSpec(TransformerScenarioSpec):
    """One question: a vision transformer in training, a pod, and how the one runs on the other."""

    model: VisionSpec
    """The model."""
    data: VisionDataSpec = VisionDataSpec()
    """The data."""

    @property
    def layer_count(self) -> int:
        """Layers."""
        return self.model.layer_count

    @property
    def head_shares_embedding(self) -> bool:
        """Never."""
        return False

    @property
    def samples_per_epoch(self) -> int | None:
        """Images of the training set."""
        return self.data.samples_per_epoch


class Seq2SeqScenarioSpec(TransformerScenarioSpec):
    """One question: an encoder-decoder in training, a pod, and how the one runs on the other."""

    model: Seq2SeqSpec
    """The model."""
    data: Seq2SeqDataSpec
    """The data."""

    @property
    def decoder_layer_count(self) -> CountOrZero:
        """Layers of the decoder."""
        return self.model.decoder_layer_count or self.model.layer_count

    @property
    def layer_count(self) -> int:
        """Layers of both."""
        return self.model.layer_count + self.decoder_layer_count

    @property
    def head_shares_embedding(self) -> bool:
        """As the model has it."""
        return self.model.tied_embedding

    @property
    def samples_per_epoch(self) -> int | None:
        """Pairs of the training set."""
        return self.data.samples_per_epoch
