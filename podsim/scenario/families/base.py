"""Base classes of all families of models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from podsim.models import Workload
from podsim.models.eight_bits import with_products_in_fp8, with_weights_in_fp8
from podsim.models.layers import Formats
from podsim.models.transformer.shape import WHOLE, Batch, Shards
from podsim.scenario.base import Spec
from podsim.scenario.document import KeyPath
from podsim.watch import Watch

if TYPE_CHECKING:
    from podsim.models.transformer.causal import DecoderShape
    from podsim.scenario.forward import ForwardScenario
    from podsim.scenario.scenario import Finding


@dataclass(frozen=True, slots=True)
class Reading:
    """Model that was read for forward passes, with warnings and the files it was read from."""

    workload: Workload  # the model for one batch
    warnings: tuple[str, ...] = ()  # parts of the model that are left out
    files: tuple[tuple[str, str], ...] = ()  # (path, SHA-256) of every file read


def forward_passes_of(trained: Workload, spec: ForwardScenario) -> Workload:
    """Return the forward passes of a model in the number formats of the scenario."""
    passes, precision = trained.forward_only(), spec.precision
    if precision.narrows_products:
        return with_products_in_fp8(passes, attention=precision.attention_products is not None)
    return with_weights_in_fp8(passes) if precision.weights == "fp8" else passes


class ModelSpec(Spec):
    """Model of any family."""

    kind: str
    """Family of the model."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Published name, or family with layers and width."""

    def findings(self, spec: Any) -> Iterator[Finding]:
        """Yield contradictions between the model and its data."""
        yield from ()

    @abstractmethod
    def read(self, spec: ForwardScenario, folder: Path, watch: Watch) -> Reading:
        """Return the model for one batch of forward passes."""


class BuiltModelSpec(ModelSpec):
    """Model that podsim builds from its dimensions."""

    reference_benchmark: ClassVar[str | None] = None
    """MLPerf benchmark with reference runs of the family."""
    reference_words: ClassVar[str] = ""
    """Description of these reference runs."""
    incidental: ClassVar[frozenset[str]] = frozenset({"size"})
    """Keys that do not identify the model: shorthands of other keys, and keys that change only how it is computed."""

    widens_functions: ClassVar[bool] = False
    """True if norms and activation functions may have a format of their own in forward passes."""

    @property
    def reads_images(self) -> bool:
        """True if samples are images, which workers of a host load ahead of time."""
        return False

    def benchmark_on(self, data: Any) -> str | None:
        """Return the MLPerf benchmark that has this model and data, if any."""
        return None

    def tokens_per_sample(self, data: Any) -> int | None:
        """Return the number of tokens per sample if sequences have no padding, or else None."""
        return None

    def warnings(self, data: Any, batch_size: int) -> Iterator[str]:
        """Yield warnings about a model trained on micro-batches of `batch_size` samples."""
        yield from ()

    def shortest_sequence(self, data: Any) -> int:
        """Return the number of positions of the shortest sequence that has attention."""
        lengths = (getattr(data, key, None) for key in ("sequence_length", "source_length", "target_length"))
        return min(filter(None, lengths), default=1)

    @property
    def placed_layers(self) -> int:
        """Number of layers that a layout places; 0 where a layout names blocks."""
        return 0

    @property
    def placed_decoder_layers(self) -> int:
        """Number of placed layers that belong to the decoder of an encoder-decoder."""
        return 0

    @property
    def shares_embedding(self) -> bool:
        """True if the head shares the embedding's weights."""
        return False

    @property
    def norm_replicas(self) -> int:
        """Number of neighbouring replicas over which batch norm computes its statistics."""
        return 1

    @abstractmethod
    def workload(self, data: Any, formats: Formats, batch_size: int, shards: Shards = WHOLE) -> Workload:
        """Return the graph of one micro-batch."""

    def read(self, spec: ForwardScenario, folder: Path, watch: Watch) -> Reading:
        """Return the model without dropout, for one batch."""
        formats = Formats(spec.precision.activations, spec.precision.activations, spec.precision.functions)
        model = self.workload(spec.data.without_dropout(), formats, spec.batch_size)
        return Reading(forward_passes_of(model, spec))


class GeneratorSpec(BuiltModelSpec):
    """Model that generates text token by token."""

    @property
    @abstractmethod
    def shape(self) -> DecoderShape:
        """Dimensions, for training and for generation."""

    @abstractmethod
    def position_findings(self, token_count: int, key: KeyPath, do: str) -> Iterator[Finding]:
        """Yield a problem at `key` with the cure `do` if a model has too few learned positions for `token_count`."""


def with_preset(raw: Any, presets: Mapping[Any, Mapping[str, Any]]) -> Any:
    """Return the keys of the section `model`; keys that are missing come from the preset of its `size`."""
    size = raw.get("size") if isinstance(raw, dict) else None
    return _completed(presets[size], raw) if isinstance(size, str) and size in presets else raw


def _completed(preset: Any, given: Any) -> Any:
    if not isinstance(preset, Mapping) or not isinstance(given, Mapping):
        return given
    return {**preset, **{key: _completed(preset.get(key), value) for key, value in given.items()}}


def sized(family: str, layer_count: int, hidden_size: int) -> str:
    """Return the title of a transformer without a published name.

    >>> sized("BERT", 12, 768)
    'BERT, 12 layers, width 768'
    """
    return f"{family}, {layer_count} layers, width {hidden_size}"


def named(kind: str, size: str | None) -> str:
    """Return the name of a model in results: its family, with its `size` if that is given."""
    return f"{kind} {size}" if size else kind


def batch_of(data: Any, formats: Formats, size: int, sequence_length: int) -> Batch:
    """Return the batch of a transformer."""
    return Batch(
        size=size,
        sequence_length=sequence_length,
        dropout=data.dropout > 0,
        attention_dropout=data.attention_dropout > 0,
        dtype=formats.dtype,
        accumulator_dtype=formats.accumulator,
        functions_dtype=formats.functions,
    )
