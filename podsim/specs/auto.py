"""`parallelism: auto`: the division is left to a search, but for what is pinned."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from podsim.errors import BadValueError, Problem
from podsim.specs.base import Spec
from podsim.specs.division import SessionCall
from podsim.specs.document import Document
from podsim.specs.families import DecoderTrainingSpec, Seq2SeqScenarioSpec, VisionScenarioSpec
from podsim.specs.image import ImageScenarioSpec
from podsim.specs.inference import InferenceScenarioSpec
from podsim.specs.quantity import Count, SourcedBytes
from podsim.specs.scenario import ScenarioSpec
from podsim.specs.wording import shown

AUTO, PARALLELISM, BATCH = "auto", "parallelism", "batch_size"
_FACTORS = ("micro_batch_size", "accumulation_factor", "replication_factor")
_CHOSEN_MEMORY = ("available_memory_proportion", "optimizer_state", "weights")
_NEVER_CHOSEN = ("updates_per_session_call", "replicas_per_process", "reduction_merge_size", "batches_in_flight")


def _true(raw: Any) -> Any:
    if raw is not True:
        cure = "write `auto: true`, or leave `auto` out and give the whole division"
        raise BadValueError(f"needs true, not {shown(raw)}", cure)
    return raw


Auto = Annotated[Literal[True], BeforeValidator(_true)]


class AutoTrainingSpec(Spec):
    """A division of a training run that is chosen; a key that is given is kept."""

    auto: Auto
    """Always true; `parallelism: auto` is short for it."""
    micro_batch_size: Count | None = None
    """Samples per run of the graph."""
    replication_factor: Count | None = None
    """Data-parallel copies."""
    ipus_per_replica: Count | None = None
    """IPUs of one data-parallel copy."""


class AutoTextSpec(AutoTrainingSpec):
    """A division that is chosen; a key that is given is kept."""

    recomputation: Literal["none", "layer"] | None = None
    """`layer` keeps the inputs of layers only and redoes the forward pass."""
    updates_per_session_call: SessionCall | None = None
    """Weight updates that one call from the host runs (device iterations); not chosen, one if left out."""


class AutoImageSpec(AutoTrainingSpec):
    """A division that is chosen; a key that is given is kept."""

    recomputation: Literal["none", "segment"] | None = None
    """`segment` keeps the inputs of segments only and redoes their forward pass."""
    replicas_per_process: Count = 2
    """Replicas that one process on a host serves; not chosen."""
    reduction_merge_size: SourcedBytes | None = None
    """Gradients are reduced together up to this size; not chosen, the software stack's if left out."""


class AutoInferenceSpec(Spec):
    """A division that is chosen; a key that is given is kept."""

    auto: Auto
    """Always true; `parallelism: auto` is short for it."""
    tensor_parallel: Count | None = None
    """IPUs that share every layer."""
    pipeline_stages: Count | None = None
    """Groups of such IPUs that hold the layers in turn."""
    batches_in_flight: Count = 1
    """Batches that go through the stages one behind the other; not chosen."""


AutoSpec = AutoTextSpec | AutoImageSpec | AutoInferenceSpec
_TRANSFORMERS: tuple[type[BaseModel], ...] = (
    ScenarioSpec,
    DecoderTrainingSpec,
    VisionScenarioSpec,
    Seq2SeqScenarioSpec,
)
_ONE: dict[str, Any] = dict.fromkeys(_FACTORS, 1)
_UNDIVIDED: dict[type[BaseModel], dict[str, Any]] = {
    **dict.fromkeys(_TRANSFORMERS, _ONE | {"layers_per_ipu": [1]}),
    ImageScenarioSpec: _ONE,
    InferenceScenarioSpec: {},
}
"""What stands in the place of the division until it is chosen."""


class _Whole(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class TextPart(_Whole):
    """The key of a text scenario that is read before the others."""

    parallelism: AutoTextSpec


class ImagePart(_Whole):
    """The key of an image scenario that is read before the others."""

    parallelism: AutoImageSpec


class InferencePart(_Whole):
    """The key of a scenario of text generation that is read before the others."""

    parallelism: AutoInferenceSpec


AUTO_PARTS: dict[type[BaseModel], type[TextPart | ImagePart | InferencePart]] = {
    **dict.fromkeys(_TRANSFORMERS, TextPart),
    ImageScenarioSpec: ImagePart,
    InferenceScenarioSpec: InferencePart,
}


def is_auto(document: Document) -> bool:
    """Whether the division is to be chosen."""
    division = document.data.get(PARALLELISM) if isinstance(document.data, dict) else None
    return division == AUTO or (isinstance(division, dict) and AUTO in division)


def spelled_out(document: Document) -> Document:
    """`parallelism: auto` as a mapping, so that pins can be laid over it."""
    if is_auto(document) and document.data[PARALLELISM] == AUTO:
        return _with(document, {PARALLELISM: {AUTO: True}})
    return document


def give_way(base: Document, over: Document) -> Document:
    """The base without its division, if a division that is to be chosen is laid over a given one.

    What the search chooses is dropped with it; its batch size stays, unless another was written.
    """
    division = base.data.get(PARALLELISM) if isinstance(base.data, dict) else None
    if not is_auto(over) or is_auto(base) or not isinstance(division, dict):
        return base
    factors = [division.get(name) for name in _FACTORS]
    data: dict[str, Any] = {PARALLELISM: {key: division[key] for key in _NEVER_CHOSEN if key in division}}
    if base.data.get(BATCH) is None and all(isinstance(factor, int) for factor in factors):
        data[BATCH] = prod(factor for factor in factors if isinstance(factor, int))
    memory = base.data.get("memory")
    if isinstance(memory, dict):
        data["memory"] = {key: value for key, value in memory.items() if key not in _CHOSEN_MEMORY}
    places = {path: place for path, place in base.places.items() if path[:1] != (PARALLELISM,) or len(path) == 1}
    return _with(replace(base, places=places), data)


def undivided(document: Document, family: type[BaseModel]) -> Document:
    """The same with a stand-in for the division."""
    return _with(document, {PARALLELISM: _UNDIVIDED[family]})


def missing_batch(document: Document, family: type[BaseModel]) -> list[Problem]:
    """A division of a training run needs something to divide."""
    if family is InferenceScenarioSpec or document.data.get(BATCH) is not None:
        return []
    what = "key `batch_size` is missing: `parallelism: auto` divides it among micro-batches and replicas"
    do = "add `batch_size:` (sequences, packs or images per weight update), for example `batch_size: 1536`"
    return [Problem(document.where((PARALLELISM,)), PARALLELISM, what, do)]


def misspelled(document: Document) -> list[Problem]:
    """A word other than `auto` in the place of the division."""
    division = document.data.get(PARALLELISM)
    if not isinstance(division, str):
        return []
    close = difflib.get_close_matches(division.lower(), [AUTO], n=1)
    do = f"did you mean `{AUTO}`?" if close else f"write `{AUTO}`, or `key: value` lines under it"
    what = f"{shown(division)} is not a division"
    return [Problem(document.where((PARALLELISM,)), PARALLELISM, what, do)]


def _with(document: Document, keys: Mapping[str, Any]) -> Document:
    return replace(document, data=document.data | keys)
