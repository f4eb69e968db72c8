"""The answer when a replica does not fit: what is too large, and which changes would help."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

from podsim.errors import DoesNotFitError
from podsim.placement.memory import IpuMemory
from podsim.units import format_bytes

HELPS = "any of these makes it fit: "
"""How cures begin that were tried and work."""
_STORAGE_NAMES = {"in_processor_memory": "In-Processor-Memory", "streaming_memory": "streaming memory"}
_LARGEST_TENANTS = 3
_MOST_CURES = 4
_DIGITS = 4

Given = TypeVar("Given")


def does_not_fit(
    memory: Sequence[IpuMemory],
    given: Given,
    changes: Iterable[tuple[str, Callable[[Given], Given]]],
    memory_of: Callable[[Given], Sequence[IpuMemory]],
    *,
    advise: bool = True,
) -> DoesNotFitError:
    """The error for the fullest IPU, with the cures that were tried and work.

    Args:
        memory: The memory plan that does not fit.
        given: What it belongs to: a layout, or more.
        changes: What the scenario leaves open.
        memory_of: The memory plan of a changed one.
        advise: Whether to try the changes.
    """
    return DoesNotFitError(misfit_text(memory), do=_advice(given, dict(changes), memory_of) if advise else None)


def misfit_text(memory: Sequence[IpuMemory]) -> str:
    """The memory that the fullest IPU needs and has, with its largest tenants."""
    worst = max(memory, key=lambda ipu: max(_overflow(ipu, storage) for storage in _STORAGE_NAMES))
    storage = max(_STORAGE_NAMES, key=lambda name: _overflow(worst, name))
    capacity = _capacity(worst, storage)
    tenants = sorted((tenant for tenant in worst.tenants if tenant.storage == storage), key=lambda t: -t.byte_count)
    largest = ", ".join(f"{t.name} {_size(t.byte_count)}" for t in tenants[:_LARGEST_TENANTS])
    return (
        f"IPU {worst.ipu} of each replica needs {_size(worst.used_bytes(storage))} of "
        f"{_STORAGE_NAMES[storage]}; it has {_size(capacity)} (largest: {largest})"
    )


def overflow(memory: Sequence[IpuMemory]) -> float:
    """What the fullest memory needs over what it has."""
    return max(_overflow(ipu, storage) for ipu in memory for storage in _STORAGE_NAMES)


def _size(byte_count: int) -> str:
    return format_bytes(byte_count, _DIGITS)


def _capacity(ipu: IpuMemory, storage: str) -> int:
    return ipu.capacity_bytes if storage == "in_processor_memory" else ipu.streaming_capacity_bytes


def _overflow(ipu: IpuMemory, storage: str) -> float:
    return ipu.used_bytes(storage) / _capacity(ipu, storage)


def _advice(
    given: Given, changes: Mapping[str, Callable[[Given], Given]], memory_of: Callable[[Given], Sequence[IpuMemory]]
) -> str:
    for size in (1, 2, 3):
        working = []
        for names in combinations(changes, size):
            changed = given
            for name in names:
                changed = changes[name](changed)
            if all(ipu.fits for ipu in memory_of(changed)):
                working.append(" and ".join(names))
        if working:
            return HELPS + "; ".join(working[:_MOST_CURES])
    return "spread the layers over more IPUs per replica; no smaller change that was tried makes it fit"
