"""Pipeline stages of a graph that fit: few IPUs first, then as many replicas as the pod holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from podsim.errors import DoesNotFitError, InfeasibleError
from podsim.plan import Job, make_plan
from podsim.plan.changes import with_stages
from podsim.plan.memory import IpuMemory
from podsim.plan.plan import cost_model, job_memory
from podsim.specs.wording import counted
from podsim.units import format_bytes

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


def fit_graph(job: Job) -> GraphFit | None:
    """Try 1, 2, 4, … pipeline stages.

    Args:
        job: What is to be divided.

    Returns:
        The first pipeline that fits, or None.
    """
    tried, model = list[str](), cost_model(job)
    for divided in _pipelines(job):
        stages = divided.layout.ipus_per_replica
        try:
            memory = job_memory(divided, model)
        except InfeasibleError:
            return None
        fits = all(ipu.fits for ipu in memory)
        outcome = "fits" if fits else "too little memory"
        tried.append(f"{counted(stages, 'stage')}: {outcome} ({_fullest(memory)})")
        if fits:
            return GraphFit(stages, divided.layout.replication_factor, tuple(tried))
    return None


def longest_failure(job: Job) -> InfeasibleError:
    """Why the pipeline over the most IPUs does not fit either."""
    *_, most = _pipelines(job)
    try:
        make_plan(most)
    except InfeasibleError as error:
        return error
    return DoesNotFitError("the pipelines that were tried do not fit", do="use a smaller model, or a larger pod")


def _pipelines(job: Job) -> Iterator[Job]:
    stages, most = 1, min(job.system.domain_ipu_count, len(job.workload.order))
    while stages <= most:
        layout = with_stages(job.layout, job.system, stages, job.system.ipu_count // stages)
        yield replace(job, layout=layout)
        stages *= 2


def _fullest(memory: Sequence[IpuMemory]) -> str:
    ipu = max(memory, key=lambda each: each.used_bytes())
    return f"{format_bytes(ipu.used_bytes(), _DIGITS)} of {format_bytes(ipu.capacity_bytes, _DIGITS)}"
