"""Vision transformers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import model_validator

from podsim.errors import BadValueError
from podsim.models import Workload
from podsim.models.layers import Formats
from podsim.models.op import DTYPE_BYTES
from podsim.models.transformer.embedding import PatchEmbedding
from podsim.models.transformer.shape import WHOLE, Shards
from podsim.models.transformer.vision import VisionShape, vision_transformer
from podsim.scenario.activity import Activity
from podsim.scenario.families.base import BuiltModelSpec, batch_of, named, sized, with_preset
from podsim.scenario.family import Family
from podsim.scenario.forward import PassSpec
from podsim.scenario.quantity import Count, CountOrZero, Flag, LayerCount, NumberFormat, Probability
from podsim.scenario.scenario import Finding
from podsim.scenario.transformer_training import TRANSFORMER_TRAINING, DropoutDataSpec

_BYTE, _PATCH = 1, 16
_VIT: dict[str, dict[str, int]] = {
    "base": {"layer_count": 12, "hidden_size": 768, "feed_forward_size": 3072, "head_count": 12},
    "large": {"layer_count": 24, "hidden_size": 1024, "feed_forward_size": 4096, "head_count": 16},
}


class VisionDataSpec(DropoutDataSpec):
    """The training data of a vision transformer."""

    dropout: Probability = 0.0
    """Dropout after embedding and blocks."""
    attention_dropout: Probability = 0.0
    """Dropout on attention probabilities."""
    decoded_by_host: Flag = True
    """Whether host servers decode each image; otherwise they only send it."""
    pixel_format: Literal["uint8"] | NumberFormat = "uint8"
    """Format of images on their way from the host."""
    prefetch_depth: Count | None = None
    """Micro-batches in the prefetch queue of each replica; the software stack's if left out."""

    @property
    def host_decodes(self) -> bool:
        """True if host servers decode each image."""
        return self.decoded_by_host

    @property
    def ready_micro_batches(self) -> int | None:
        """Micro-batches in the prefetch queue of each replica, or None for the software stack's."""
        return self.prefetch_depth


class VisionSpec(BuiltModelSpec):
    """Vision transformer. `size` presets four dimensions; each can be overridden."""

    incidental: ClassVar[frozenset[str]] = frozenset({"size", "attention_padding"})
    widens_functions: ClassVar[bool] = True
    kind: Literal["vit"]
    """Family of the model."""
    size: Literal["base", "large"] | None = None
    """A published size [dosovitskiy2021]."""
    layer_count: LayerCount
    """Number of layers."""
    hidden_size: Count
    """Width of the model."""
    feed_forward_size: Count
    """Inner width of the feed-forward block."""
    head_count: Count
    """Attention heads."""
    image_size: Count = 224
    """Height and width of an image, in pixels."""
    patch_size: Count = 16
    """Height and width of a patch, in pixels; pixels beyond the last whole patch are ignored."""
    class_token: Flag = True
    """Whether there is a class token before the patches; otherwise classes are computed from the mean of the
    patches."""
    class_count: CountOrZero = 1000
    """Number of classes; 0 for forward passes that return the features instead."""
    divides_scores: Flag = True
    """Whether scores are divided by the square root of the width of a head, as in ViT, which is slower than multiplying
    by its inverse."""
    attention_padding: Flag = False
    """Whether attention pads sequences to a multiple of eight bytes, as PopRT's pass of that name does."""

    @property
    def title(self) -> str:
        """Published name with the size of a patch, or layers and width."""
        sizes = (size for size, preset in _VIT.items() if all(getattr(self, key) == preset[key] for key in preset))
        size = next(sizes, None)
        if size is None:
            return sized("ViT", self.layer_count, self.hidden_size)
        return f"ViT-{size.title()}" + ("" if self.patch_size == _PATCH else f"/{self.patch_size}")

    @property
    def reads_images(self) -> bool:
        """Always True."""
        return True

    @model_validator(mode="before")
    @classmethod
    def _fill_preset(cls, raw: Any) -> Any:
        return with_preset(raw, _VIT)

    @model_validator(mode="after")
    def _sizes_divide(self) -> VisionSpec:
        if self.hidden_size % self.head_count:
            what = f"head_count {self.head_count} does not divide hidden_size {self.hidden_size}"
            raise BadValueError(what, "change one of the two")
        if self.image_size < self.patch_size:
            what = f"patches of {self.patch_size} pixels are larger than images of {self.image_size}"
            raise BadValueError(what, "change image_size or patch_size")
        return self

    @property
    def placed_layers(self) -> int:
        """Number of layers."""
        return self.layer_count

    @property
    def _patches(self) -> PatchEmbedding:
        return PatchEmbedding(self.image_size, self.patch_size, class_token=self.class_token)

    def shortest_sequence(self, data: VisionDataSpec) -> int:
        """Return the number of patches of an image, plus the class token."""
        return self._patches.sequence_length

    def findings(self, spec: Any) -> Iterator[Finding]:
        """Yield a problem if a model is trained without classes."""
        if not self.class_count and spec.activity is Activity.TRAINING:
            yield ("model", "class_count"), "no classes, and so no loss to train with", "raise it"

    def workload(self, data: VisionDataSpec, formats: Formats, batch_size: int, shards: Shards = WHOLE) -> Workload:
        """Return the graph of one micro-batch of images."""
        shape = VisionShape(
            layer_count=self.layer_count,
            hidden_size=self.hidden_size,
            feed_forward_size=self.feed_forward_size,
            head_count=self.head_count,
            patches=self._patches,
            class_count=self.class_count,
            divides_scores=self.divides_scores,
            attention_padding=self.attention_padding,
        )
        batch = batch_of(data, formats, batch_size, self._patches.sequence_length)
        size = _BYTE if data.pixel_format == "uint8" else DTYPE_BYTES[data.pixel_format]
        name = named("ViT", self.size)
        return vision_transformer(shape, batch, size, decoded_by_host=data.decoded_by_host, name=name, sharing=shards)


FAMILY = Family(
    "a vision transformer",
    VisionSpec,
    {
        Activity.TRAINING: {"data": (VisionDataSpec, VisionDataSpec()), **TRANSFORMER_TRAINING},
        Activity.FORWARD: {"data": (VisionDataSpec, VisionDataSpec()), "forward": (PassSpec, ...)},
    },
)
