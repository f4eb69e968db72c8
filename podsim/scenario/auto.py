"""`parallelism: auto`: a search chooses the division, apart from what is pinned."""

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
from podsim.scenario.wording import nearest, shown

if TYPE_CHECKING:
    from podsim.scenario.scenario import Finding

AUTO = "auto"
_FACTORS = ("micro_batch_size", "accumulation_factor", "replication_factor")
_CHOSEN_MEMORY = ("available_memory_proportion", "optimizer_state", "weights", "sharded_activations", "overlapped_io")
_NEVER_CHOSEN = ("updates_per_session_call", "replicas_per_process", "reduction_merge_size", "batches_in_flight")


def _true(raw: Any) -> Any:
    if raw is not True:
        cure = "write `auto: true`, or leave `auto` out and give the whole division"
        raise BadValueError(f"needs true, not {shown(raw)}", cure)
    return raw


Auto = Annotated[Literal[True], BeforeValidator(_true)]


class AutoSpec(Spec):
    """A division that is chosen; a key that is given is kept."""

    auto: Auto
    """Always true; `parallelism: auto` is short for it."""

    @abstractmethod
    def findings(self, spec: Any) -> Iterator[Finding]:
        """Problems of the pins that no choice of the rest can solve."""


class AutoTrainingSpec(AutoSpec):
    """A division of a training run that is chosen; a key that is given is kept."""

    micro_batch_size: Count | None = None
    """Samples per run of the graph."""
    replication_factor: Count | None = None
    """Data-parallel copies."""
    ipus_per_replica: Count | None = None
    """IPUs of one data-parallel copy."""
    schedule: ScheduleName | None = None
    """When stages of a pipeline run which micro-batch; not chosen, the software stack's if left out."""

    def findings(self, spec: Any) -> Iterator[Finding]:
        """A batch, a number of IPUs or of replicas that is not possible."""
        yield from batch_pins(getattr(spec, BATCH))
        yield from ipu_pins(spec.system, "ipus_per_replica", self.ipus_per_replica)
        yield from replica_pins(spec.system, self.replication_factor or 1, self.ipus_per_replica or 1)


@lru_cache
def auto_part(pins: type[AutoSpec]) -> type[BaseModel]:
    """The key of a scenario that is read before the others."""
    config = ConfigDict(extra="ignore", frozen=True)
    part: type[BaseModel] = create_model("Part", __config__=config, **{PARALLELISM: (pins, ...)})  # type: ignore[call-overload]
    return part


def is_auto(document: Document) -> bool:
    """Whether the division is to be chosen."""
    division = document.data.get(PARALLELISM) if isinstance(document.data, dict) else None
    return division == AUTO or (isinstance(division, dict) and AUTO in division)


def spelled_out(document: Document) -> Document:
    """`parallelism: auto` as a mapping, so that pins can be laid over it."""
    if is_auto(document) and document.data[PARALLELISM] == AUTO:
        return _with(document, {PARALLELISM: {AUTO: True}})
    return document


def without_given_division(base: Document, over: Document) -> Document:
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
        # I/O tiles of a pipeline fetch samples, and are not chosen.
        chosen = (*_CHOSEN_MEMORY, "io_tiles") if division.get("execution") == "phased" else _CHOSEN_MEMORY
        data["memory"] = {key: value for key, value in memory.items() if key not in chosen}
    places = {path: place for path, place in base.places.items() if path[:1] != (PARALLELISM,) or len(path) == 1}
    given = {PARALLELISM: division, "memory": memory if isinstance(memory, dict) else {}}
    return _with(replace(base, places=places, division=given), data)


def with_given_division(document: Document) -> Document | None:
    """Return the document with the division that `auto` took the place of, with the keys that are given beside it."""
    if document.division is None or not is_auto(document):
        return None
    pins = {key: value for key, value in document.data[PARALLELISM].items() if key != AUTO}
    division = document.division[PARALLELISM]
    if any(division.get(key, value) != value for key, value in pins.items()):
        return None
    memory = {**document.division["memory"], **(document.data.get("memory") or {})}
    return _with(document, {PARALLELISM: {**division, **pins}, "memory": memory})


def undivided(document: Document, division: Mapping[str, Any]) -> Document:
    """The document with a stand-in for the division."""
    return _with(document, {PARALLELISM: dict(division)})


def missing_batch(document: Document) -> list[Problem]:
    """A batch size that is missing: a division of a training run needs something to divide."""
    if document.data.get(BATCH) is not None:
        return []
    what = "key `batch_size` is missing: `parallelism: auto` divides it among micro-batches and replicas"
    do = "add `batch_size:` (sequences, packs or images per weight update), for example `batch_size: 1536`"
    return [Problem(document.where((PARALLELISM,)), PARALLELISM, what, do)]


def misspelled(document: Document) -> list[Problem]:
    """A word other than `auto` in the place of the division."""
    division = document.data.get(PARALLELISM)
    if not isinstance(division, str):
        return []
    do = f"did you mean `{AUTO}`?" if nearest(division, [AUTO]) else f"write `{AUTO}`, or `key: value` lines under it"
    what = f"{shown(division)} is not a division"
    return [Problem(document.where((PARALLELISM,)), PARALLELISM, what, do)]


def _with(document: Document, keys: Mapping[str, Any]) -> Document:
    return replace(document, data=document.data | keys)
