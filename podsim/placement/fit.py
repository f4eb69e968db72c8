"""Error for a replica that does not fit.

The error names what is too large and the changes that help. It also says if a pipeline, which keeps the weights and
gradients of a stage on its IPUs, cannot train a model that the memory of the pod could hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

from podsim.errors import DoesNotFitError, MissingMethodError
from podsim.models import Workload
from podsim.placement.layout import PlanInput
from podsim.placement.memory import IpuMemory
from podsim.units import format_bytes

HELPS = "any of these makes it fit: "
"""Beginning of suggestions that were tried and work."""
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
    others: Iterable[tuple[str, Callable[[Given], Given]]] = (),
    *,
    advise: bool = True,
) -> DoesNotFitError:
    """Return the error for the fullest IPU, with changes that help; `others` are tried if no `changes` help."""
    do = _advice(given, dict(changes), dict(others), memory_of) if advise else None
    return DoesNotFitError(misfit_text(memory), do=do)


def misfit_text(memory: Sequence[IpuMemory]) -> str:
    """Return a text with the memory that the fullest IPU needs and has, and its largest tenants."""
    worst = max(memory, key=lambda ipu: max(_overflow(ipu, storage) for storage in _STORAGE_NAMES))
    storage = max(_STORAGE_NAMES, key=lambda name: _overflow(worst, name))
    capacity = _capacity_bytes(worst, storage)
    tenants = sorted((tenant for tenant in worst.tenants if tenant.storage == storage), key=lambda t: -t.byte_count)
    largest = ", ".join(f"{t.name} {_size(t.byte_count)}" for t in tenants[:_LARGEST_TENANTS])
    return (
        f"IPU {worst.ipu} of each replica needs {_size(worst.used_bytes(storage))} of "
        f"{_STORAGE_NAMES[storage]}; it has {_size(capacity)} (largest: {largest})"
    )


def overflow(memory: Sequence[IpuMemory]) -> float:
    """Return the used share of the fullest memory, above 1 if it does not fit."""
    return max(_overflow(ipu, storage) for ipu in memory for storage in _STORAGE_NAMES)


def _size(byte_count: int) -> str:
    return format_bytes(byte_count, _DIGITS)


def _capacity_bytes(ipu: IpuMemory, storage: str) -> int:
    return ipu.capacity_bytes if storage == "in_processor_memory" else ipu.streaming_capacity_bytes


def _overflow(ipu: IpuMemory, storage: str) -> float:
    """Return the used share of a storage, above 1 if it does not fit."""
    return ipu.used_bytes(storage) / _capacity_bytes(ipu, storage)


def _advice(
    given: Given,
    changes: Mapping[str, Callable[[Given], Given]],
    others: Mapping[str, Callable[[Given], Given]],
    memory_of: Callable[[Given], Sequence[IpuMemory]],
) -> str:
    for size, known in ((1, changes), (2, changes), (3, changes), (1, others)):
        working = []
        for names in combinations(known, size):
            changed = given
            for name in names:
                changed = known[name](changed)
            if all(ipu.fits for ipu in memory_of(changed)):
                working.append(" and ".join(names))
        if working:
            return HELPS + "; ".join(working[:_MOST_CURES])
    return "spread the layers over more IPUs per replica; no smaller change that was tried makes it fit"


CURE = (
    "write `parallelism: auto`, which tries them all, or under `parallelism` share its layers among IPUs with "
    "`tensor_parallel: 4`, or more, and either `pipeline_stages` or `execution: phased`"
)


def missing_method(job: PlanInput) -> str | None:
    """Return why no pipeline can train a model that the pod could hold; None if one can, or the pod is too small."""
    if job.optimizer is None or not job.workload.layers or job.workload.whole or job.layout.phased:
        return None
    workload, system = job.workload, job.system
    ipu, domain = system.machine.ipu, system.domain_ipu_count
    sizes = _held_bytes(job, workload)
    code_bytes = job.code_bytes_per_tile * ipu.tile.count
    fullest = least_fullest(sizes, domain) + code_bytes
    if fullest <= ipu.memory_bytes:
        return None
    pod_bytes = system.ipu_count * (ipu.memory_bytes + system.machine.streaming_memory.capacity_per_ipu_bytes)
    kept = sum(workload.blocks[name].output_elements for name in workload.order) * workload.activation_bytes
    needed = sum(sizes) + workload.parameter_count * job.optimizer.state_bytes_per_parameter + kept
    if needed > pod_bytes:
        return None
    least, has, both, all_of_it = (
        format_bytes(size, _DIGITS) for size in (fullest, ipu.memory_bytes, pod_bytes, needed)
    )
    return (
        f"a pipeline lacks the room, not {system.name} the memory: cut into {domain} stages or fewer, one IPU still "
        f"needs {least} of {has} for weights, accumulators and code alone, while all memory of the pod, {both} with "
        f"streaming memory, would hold the {all_of_it} of the training; such models were trained with layers shared "
        "among IPUs (tensor parallelism) or weights loaded from streaming memory layer by layer (phased execution)"
    )


def with_missing_method(refused: DoesNotFitError, lacks: str) -> MissingMethodError:
    """Return the refusal with the missing method added; suggestions that do not help there are dropped."""
    cure = f"{refused.do}; or {CURE}" if refused.do and refused.do.startswith(HELPS) else CURE
    return MissingMethodError(f"{refused.message}; {lacks}", where=refused.where, do=cure)


def _held_bytes(job: PlanInput, workload: Workload) -> list[int]:
    """Return the bytes of weights and accumulators of each block in order; tied tensors count once. [B]"""

    def block_bytes(name: str) -> int:
        """Return the bytes of weights and accumulators of one block. [B]"""
        own = [parameter for parameter in workload.blocks[name].parameters if parameter.tied_to is None]
        elements = sum(each.element_count for each in own)
        return job.precision.stored_bytes(own) + elements * job.precision.accumulator_bytes

    known = {name: block_bytes(name) for name in workload.blocks}
    return [known[name] for name in workload.order]


def least_fullest(sizes: Sequence[int], parts: int) -> int:
    """Return the size of the largest part, for the most even division of a sequence into at most `parts` parts.

    >>> least_fullest([3, 1, 1, 3], 2), least_fullest([3, 1, 1, 3], 3), least_fullest([3, 1, 1, 3], 9)
    (4, 3, 3)
    """
    low, high = max(sizes, default=0), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _parts(sizes, middle) <= parts else (middle + 1, high)
    return low


def _parts(sizes: Sequence[int], most: int) -> int:
    """Return the number of parts with at most `most` each."""
    count, filled = 1, 0
    for size in sizes:
        if filled + size > most:
            count, filled = count + 1, 0
        filled += size
    return count
