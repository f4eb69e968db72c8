"""`parallelism: auto`: a search chooses the layout, except for pinned keys."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, create_model

from podsim.errors import BadValueError, Problem
from podsim.scenario.base import Spec
from podsim.scenario.document import Document
from podsim.scenario.pins import BATCH, PARALLELISM, batch_pins, ipu_pins, replica_pins
from podsim.scenario.quantity import Count
from podsim.scenario.schedules import ScheduleName
from podsim.scenario.wording import nearest, quoted

if TYPE_CHECKING:
    from podsim.scenario.scenario import Finding

AUTO = "auto"
_FACTORS = ("micro_batch_size", "accumulation_factor", "replication_factor")
_CHOSEN_MEMORY = ("available_memory_proportion", "optimizer_state", "weights", "sharded_activations", "overlapped_io")
_NEVER_CHOSEN = ("updates_per_session_call", "replicas_per_process", "reduction_merge_size", "batches_in_flight")


def _true(raw: Any) -> Any:
    if raw is not True:
        cure = "write `auto: true`, or leave `auto` out and give the whole division"
        raise BadValueError(f"needs true, not {quoted(raw)}", cure)
    return raw


Auto = Annotated[Literal[True], BeforeValidator(_true)]


class AutoSpec(Spec):
    """Layout that the search chooses, except for the given keys."""

    auto: Auto
    """Always true; `parallelism: auto` is short for it."""

    @abstractmethod
    def findings(self, spec: Any) -> Iterator[Finding]:
        """Yield problems of pins, the given keys, that no choice of the other keys can solve."""


class AutoTrainingSpec(AutoSpec):
    """Layout of a training run that the search chooses, except for the given keys."""

    micro_batch_size: Count | None = None
    """Samples per run of the graph."""
    replication_factor: Count | None = None
    """Data-parallel copies."""
    ipus_per_replica: Count | None = None
    """IPUs of one data-parallel copy."""
    schedule: ScheduleName | None = None
    """When stages of a pipeline run which micro-batch; not chosen, the software stack's if left out."""

    def findings(self, spec: Any) -> Iterator[Finding]:
        """Yield impossible batch sizes, numbers of IPUs and numbers of replicas."""
        yield from batch_pins(getattr(spec, BATCH))
        yield from ipu_pins(spec.system, "ipus_per_replica", self.ipus_per_replica)
        yield from replica_pins(spec.system, self.replication_factor or 1, self.ipus_per_replica or 1)


@lru_cache
def auto_part(pins: type[AutoSpec]) -> type[BaseModel]:
    """Return a class that validates only the key `parallelism` of a scenario, which is read first."""
    config = ConfigDict(extra="ignore", frozen=True)
    part: type[BaseModel] = create_model("Part", __config__=config, **{PARALLELISM: (pins, ...)})  # type: ignore[call-overload]
    return part


def is_auto(document: Document) -> bool:
    """Return True if the search is to choose the layout."""
    layout = document.data.get(PARALLELISM) if isinstance(document.data, dict) else None
    return layout == AUTO or (isinstance(layout, dict) and AUTO in layout)


def spelled_out(document: Document) -> Document:
    """Return the document with `parallelism: auto` as a mapping, so that pins can be merged into it."""
    if is_auto(document) and document.data[PARALLELISM] == AUTO:
        return _with(document, {PARALLELISM: {AUTO: True}})
    return document


def without_given_division(base: Document, over: Document) -> Document:
    """Return the base without its explicit layout if `over` writes `parallelism: auto`, or else unchanged.

    All keys that the search chooses are dropped. The batch size stays, unless `over` gives another.
    """
    layout = base.data.get(PARALLELISM) if isinstance(base.data, dict) else None
    if not is_auto(over) or is_auto(base) or not isinstance(layout, dict):
        return base
    factors = [layout.get(name) for name in _FACTORS]
    data: dict[str, Any] = {PARALLELISM: {key: layout[key] for key in _NEVER_CHOSEN if key in layout}}
    if base.data.get(BATCH) is None and all(isinstance(factor, int) for factor in factors):
        data[BATCH] = prod(factor for factor in factors if isinstance(factor, int))
    memory = base.data.get("memory")
    if isinstance(memory, dict):
        # I/O tiles of a pipeline fetch samples; the search does not choose their number.
        chosen_keys = (*_CHOSEN_MEMORY, "io_tiles") if layout.get("execution") == "phased" else _CHOSEN_MEMORY
        data["memory"] = {key: value for key, value in memory.items() if key not in chosen_keys}
    places = {path: place for path, place in base.places.items() if path[:1] != (PARALLELISM,) or len(path) == 1}
    replaced = {PARALLELISM: layout, "memory": memory if isinstance(memory, dict) else {}}
    return _with(replace(base, places=places, division=replaced), data)


def with_given_division(document: Document) -> Document | None:
    """Return the document with the layout that `auto` replaced, or None if there is none or a pin contradicts it."""
    if document.division is None or not is_auto(document):
        return None
    pins = {key: value for key, value in document.data[PARALLELISM].items() if key != AUTO}
    layout = document.division[PARALLELISM]
    if any(layout.get(key, value) != value for key, value in pins.items()):
        return None
    memory = {**document.division["memory"], **(document.data.get("memory") or {})}
    return _with(document, {PARALLELISM: {**layout, **pins}, "memory": memory})


def undivided(document: Document, division: Mapping[str, Any]) -> Document:
    """Return the document with `division`, a placeholder, in place of its layout."""
    return _with(document, {PARALLELISM: dict(division)})


def missing_batch(document: Document) -> list[Problem]:
    """Return a problem if the batch size is missing, since the search has to divide it."""
    if document.data.get(BATCH) is not None:
        return []
    what = "key `batch_size` is missing: `parallelism: auto` divides it among micro-batches and replicas"
    do = "add `batch_size:` (sequences, packs or images per weight update), for example `batch_size: 1536`"
    return [Problem(document.where((PARALLELISM,)), PARALLELISM, what, do)]


def misspelled(document: Document) -> list[Problem]:
    """Return a problem if `parallelism` is a word other than `auto`."""
    layout = document.data.get(PARALLELISM)
    if not isinstance(layout, str):
        return []
    do = f"did you mean `{AUTO}`?" if nearest(layout, [AUTO]) else f"write `{AUTO}`, or `key: value` lines under it"
    what = f"{quoted(layout)} is not a division"
    return [Problem(document.where((PARALLELISM,)), PARALLELISM, what, do)]


def _with(document: Document, keys: Mapping[str, Any]) -> Document:
    return replace(document, data=document.data | keys)
