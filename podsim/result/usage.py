"""IPUs in use, and advice on idle IPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from podsim.format import format_count
from podsim.scenario.activity import Activity
from podsim.scenario.scenario import Scenario

_REPLICAS, _FACTOR, _BATCH = "parallelism.replication_factor", "parallelism.accumulation_factor", "batch_size"
_SERVED: Final = "serving.replicas"


@dataclass(frozen=True, slots=True)
class Usage:
    """IPUs that the figures of a result stand for, and the key that says how many copies there are, if any does."""

    ipus_per_copy: int
    copies: int
    key: str | None = None

    @property
    def ipus_used(self) -> int:
        """IPUs of all replicas."""
        return self.ipus_per_copy * self.copies


def replicas_in_use(spec: Any) -> Usage:
    """Return the data-parallel replicas of a scenario."""
    division = spec.parallelism
    return Usage(division.ipus_per_replica, division.replication_factor, _REPLICAS)


def one_copy(spec: Any) -> Usage:
    """Return the one copy of a model that generates text."""
    return Usage(spec.parallelism.ipu_count, 1)


def copies_in_use(spec: Any, copies: int) -> Usage:
    """Return the copies of a model that serve requests."""
    return Usage(spec.parallelism.ipu_count, copies, _SERVED)


def unused_ipus(spec: Scenario, usage: Usage, *, chosen: bool) -> Iterator[str]:
    """Yield a warning if the pod has room for more copies of the model."""
    system = spec.system
    room = system.room_for(usage.ipus_per_copy)
    if usage.copies < room:
        used = f"uses {format_count(usage.ipus_used)} of {format_count(system.ipu_count)} IPUs"
        yield f"{used}: {_cure(spec, usage, room, chosen=chosen)}"


def unusual_size(usage: Usage) -> Iterator[str]:
    """Yield a warning if a copy of the model does not fill a partition of a pod."""
    if (size := usage.ipus_per_copy) & (size - 1):
        yield (
            f"no published run has {size} IPUs for a copy of its model: partitions of pods have a power of two of "
            "IPUs, of which these leave some idle"
        )


def refused_elsewhere(spec: Any) -> Iterator[str]:
    """Yield a warning about a number of micro-batches that the stack's framework would refuse."""
    division = spec.parallelism
    rule, given = division.micro_batches(spec, strict=True), division.accumulation_factor
    if not rule.allow(given):
        what, nearest = rule.objection(given)
        yield f"{spec.software.framework} would refuse this accumulation_factor: {what}; it takes {nearest}"


def _cure(spec: Any, usage: Usage, room: int, *, chosen: bool) -> str:
    """Return how to use the idle IPUs."""
    if usage.key is None:
        return f"the figures are of one copy of the model; {spec.system.name} has room for {format_count(room)}"
    if usage.key == _SERVED or spec.activity is not Activity.TRAINING:
        return f"`--set {usage.key}={room}` would use {_ipus(spec, usage, room)}"
    if chosen:
        return "of all divisions of this batch the one shown is fastest; a larger batch has work for more replicas"
    factor, micro = spec.parallelism.accumulation_factor, spec.parallelism.micro_batch_size
    batch = micro * factor * usage.copies
    halves = (room >> power for power in range(room.bit_length()) if room >> power > usage.copies)
    replicas = next((count for count in halves if _is_valid(spec, count, factor)), None)
    if replicas is None:
        return "this model cannot be given more replicas here; a smaller pod does the same"
    grown = micro * factor * replicas
    same, rest = divmod(batch, micro * replicas)
    more, used = f"--set {_REPLICAS}={replicas}", _ipus(spec, usage, replicas)
    if not rest and _is_valid(spec, replicas, same):
        kept = f"`{more} --set {_FACTOR}={same}` would use {used} with the same batch of {format_count(batch)}"
        return f"{kept}; the first alone makes it {format_count(grown)}"
    if spec.batch_size is not None:
        more = f"{more} --set {_BATCH}={grown}"
    return f"`{more}` would use {used}, with a batch of {format_count(grown)} rather than {format_count(batch)}"


def _ipus(spec: Scenario, usage: Usage, copies: int) -> str:
    used = copies * usage.ipus_per_copy
    return "all" if used == spec.system.ipu_count else format_count(used)


def _is_valid(spec: Any, replicas: int, factor: int) -> bool:
    """Return True if the scenario allows this number of replicas and accumulation factor."""
    division = spec.parallelism.model_copy(update={"replication_factor": replicas, "accumulation_factor": factor})
    return not any(spec.model_copy(update={"parallelism": division, "batch_size": None}).findings())
