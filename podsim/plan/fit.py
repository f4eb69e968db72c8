"""The answer when a replica does not fit: what is too large, and which changes would help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeVar

from podsim.errors import DoesNotFitError
from podsim.plan.memory import IpuMemory
from podsim.plan.options import TrainingOptions
from podsim.units import format_bytes

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_STORAGE_NAMES = {"in_processor_memory": "In-Processor-Memory", "streaming_memory": "streaming memory"}
_LARGEST_TENANTS = 3
_TIGHT_PROPORTION = 0.1
_MOST_CURES = 4
_DIGITS = 4


Options = TypeVar("Options", bound="DataclassInstance")
Change = tuple[str, dict[str, Any]]
"""What to write in the scenario, and the options that it changes."""


def does_not_fit(
    memory: Sequence[IpuMemory],
    options: Options,
    changes: Iterable[Change],
    memory_of: Callable[[Options], Sequence[IpuMemory]],
    *,
    advise: bool = True,
) -> DoesNotFitError:
    """The error for the fullest IPU, with the cures that were tried and work.

    Args:
        memory: The memory plan that does not fit.
        options: The layout it belongs to.
        changes: What the scenario leaves open.
        memory_of: The memory plan of a changed layout.
        advise: Whether to try the changes.
    """
    advice = _advice(options, dict(changes), memory_of) if advise else None
    return DoesNotFitError(misfit_text(memory), do=advice)


def misfit_text(memory: Sequence[IpuMemory]) -> str:
    """What the fullest IPU needs and has, with its largest tenants."""
    worst = max(memory, key=lambda ipu: max(_overflow(ipu, storage) for storage in _STORAGE_NAMES))
    storage = max(_STORAGE_NAMES, key=lambda name: _overflow(worst, name))
    capacity = _capacity(worst, storage)
    tenants = sorted((tenant for tenant in worst.tenants if tenant.storage == storage), key=lambda t: -t.byte_count)
    largest = ", ".join(f"{t.name} {_size(t.byte_count)}" for t in tenants[:_LARGEST_TENANTS])
    return (
        f"IPU {worst.ipu} of each replica needs {_size(worst.used_bytes(storage))} of "
        f"{_STORAGE_NAMES[storage]}; it has {_size(capacity)} (largest: {largest})"
    )


def _size(byte_count: int) -> str:
    return format_bytes(byte_count, _DIGITS)


def _capacity(ipu: IpuMemory, storage: str) -> int:
    return ipu.capacity_bytes if storage == "in_processor_memory" else ipu.streaming_capacity_bytes


def _overflow(ipu: IpuMemory, storage: str) -> float:
    return ipu.used_bytes(storage) / _capacity(ipu, storage)


def _advice(
    options: Options,
    changes: Mapping[str, dict[str, Any]],
    memory_of: Callable[[Options], Sequence[IpuMemory]],
) -> str:
    for size in (1, 2, 3):
        working = []
        for names in combinations(changes, size):
            changed = options
            for name in names:
                changed = replace(changed, **changes[name])
            if all(ipu.fits for ipu in memory_of(changed)):
                working.append(" and ".join(names))
        if working:
            return "any of these makes it fit: " + "; ".join(working[:_MOST_CURES])
    return "spread the layers over more IPUs per replica; no smaller change that was tried makes it fit"


def recomputation_on(options: TrainingOptions, word: str) -> Iterator[Change]:
    """Recomputation, where it is off; `word` is how the scenario calls it."""
    if not options.recompute:
        yield f"parallelism.recomputation: {word}", {"recompute": True}


def less_state_on_chip(options: TrainingOptions) -> Iterator[Change]:
    """Optimizer state off chip, or a shard of it only."""
    if options.optimizer_storage != "streaming_memory":
        yield "memory.optimizer_state.storage: streaming_memory", {"optimizer_storage": "streaming_memory"}
    if not options.replicated_tensor_sharding and options.replication_factor > 1:
        yield "memory.optimizer_state.replicated_tensor_sharding: true", {"replicated_tensor_sharding": True}


def smaller_temporaries(options: TrainingOptions) -> Iterator[Change]:
    """Less memory for temporaries, or fewer samples at once."""
    if max(options.available_memory_proportion) > _TIGHT_PROPORTION:
        tight = (_TIGHT_PROPORTION,) * options.ipus_per_replica
        yield (
            f"memory.available_memory_proportion: {_TIGHT_PROPORTION}",
            {"available_memory_proportion": tight},
        )
    if options.micro_batch_size > 1:
        half = options.micro_batch_size // 2
        yield f"parallelism.micro_batch_size: {half}", {"micro_batch_size": half}
