"""Whether a model does not fit because podsim lacks a method of training, rather than the pod memory.

Pipelines keep the weights and accumulated gradients of a stage on its IPUs. Large models were trained in other ways:
a layer is shared among IPUs (tensor parallelism), or its weights are loaded from streaming memory while it runs
(phased execution). podsim has both for text generation, and neither for training.
"""

from __future__ import annotations

from collections.abc import Sequence

from podsim.errors import DoesNotFitError, MissingMethodError
from podsim.models import Workload
from podsim.placement.fit import HELPS
from podsim.placement.layout import Job
from podsim.units import format_bytes

_DIGITS = 4
CURE = (
    "train a model with smaller layers, or simulate its text generation or forward passes; a published time of such a "
    "training says more than podsim can"
)


def missing_method(job: Job) -> str | None:
    """What podsim lacks to train a model that the pod could hold; None if a pipeline has room or the pod has not.

    Args:
        job: What is to be trained, however it is divided.
    """
    if job.optimizer is None:
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
        f"podsim lacks the method, not {system.name} the memory: cut into {domain} stages or fewer, one IPU still "
        f"needs {least} of {has} for weights, accumulators and code alone, while all memory of the pod, {both} with "
        f"streaming memory, would hold the {all_of_it} of the training; such models were trained with layers shared "
        "among IPUs (tensor parallelism) or weights loaded from streaming memory layer by layer (phased execution), "
        "and podsim trains with pipelines only"
    )


def lacking(refused: DoesNotFitError, lacks: str) -> MissingMethodError:
    """The same refusal with what podsim lacks; cures that do not help there give way.

    Args:
        refused: What does not fit, and what would help.
        lacks: The text of `missing_method`.
    """
    cure = f"{refused.do}; or {CURE}" if refused.do and refused.do.startswith(HELPS) else CURE
    return MissingMethodError(f"{refused.message}; {lacks}", where=refused.where, do=cure)


def _held_bytes(job: Job, workload: Workload) -> list[int]:
    """Weights and accumulators of each block in the order of the model; tied ones count once. [B]"""

    def of(name: str) -> int:
        own = [each for each in workload.blocks[name].parameters if each.tied_to is None]
        elements = sum(each.element_count for each in own)
        return job.precision.stored_bytes(own) + elements * job.precision.accumulator_bytes

    known = {name: of(name) for name in workload.blocks}
    return [known[name] for name in workload.order]


def least_fullest(sizes: Sequence[int], parts: int) -> int:
    """The fullest part of the most even way to cut a sequence into so many parts, or fewer.

    >>> least_fullest([3, 1, 1, 3], 2), least_fullest([3, 1, 1, 3], 3), least_fullest([3, 1, 1, 3], 9)
    (4, 3, 3)
    """
    low, high = max(sizes, default=0), sum(sizes)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _parts(sizes, middle) <= parts else (middle + 1, high)
    return low


def _parts(sizes: Sequence[int], most: int) -> int:
    """Parts that hold no more than so much each."""
    count, filled = 1, 0
    for size in sizes:
        if filled + size > most:
            count, filled = count + 1, 0
        filled += size
    return count
