"""Pipeline stages of a graph that fit: few IPUs first, then as many replicas as the pod holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from podsim.errors import DoesNotFitError, InfeasibleError
from podsim.plan.forward import ForwardJob, forward_memory, plan_forward, with_stages
from podsim.plan.memory import IpuMemory
from podsim.plan.stage_cost import BlockCost
from podsim.specs.wording import counted
from podsim.units import format_bytes

Known = dict[float, Mapping[str, BlockCost]]
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class GraphFit:
    """The first pipeline that fits, with those tried before it.

    Attributes:
        stages: IPUs of one replica.
        replicas: Copies of the model.
        tried: A line for each number of stages.
    """

    stages: int
    replicas: int
    tried: tuple[str, ...]


def fit_graph(job: ForwardJob, known: Known) -> GraphFit | None:
    """Try 1, 2, 4, … pipeline stages.

    Args:
        job: What is to be divided.
        known: Costs of blocks by memory proportion, shared by all that is tried on one chip.

    Returns:
        The first pipeline that fits, or None.
    """
    tried: list[str] = []
    for divided in _pipelines(job):
        stages = divided.options.pipeline_stages
        try:
            memory = forward_memory(divided, known)
        except InfeasibleError:
            return None
        fits = all(ipu.fits for ipu in memory)
        outcome = "fits" if fits else "too little memory"
        tried.append(f"{counted(stages, 'stage')}: {outcome} ({_fullest(memory)})")
        if fits:
            return GraphFit(stages, divided.options.replication_factor, tuple(tried))
    return None


def longest_failure(job: ForwardJob) -> InfeasibleError:
    """Why the pipeline over the most IPUs does not fit either."""
    *_, most = _pipelines(job)
    try:
        plan_forward(most)
    except InfeasibleError as error:
        return error
    return DoesNotFitError("the pipelines that were tried do not fit")


def _pipelines(job: ForwardJob) -> Iterator[ForwardJob]:
    stages, most = 1, min(job.system.domain_ipu_count, len(job.workload.order))
    while stages <= most:
        yield with_stages(job, stages, job.system.ipu_count // stages)
        stages *= 2


def _fullest(memory: Sequence[IpuMemory]) -> str:
    ipu = max(memory, key=lambda each: each.used_bytes())
    return f"{format_bytes(ipu.used_bytes(), _DIGITS)} of {format_bytes(ipu.capacity_bytes, _DIGITS)}"
