"""Pipeline stages of forward passes that fit: few IPUs first, then as many replicas as the pod holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from podsim.errors import DoesNotFitError, InfeasibleError
from podsim.importer.other_pods import fits_elsewhere
from podsim.importer.reader import Entry
from podsim.importer.scenario_text import Section
from podsim.plan import Job, make_plan
from podsim.plan.changes import with_stages
from podsim.plan.forward_job import forward_job
from podsim.plan.memory import IpuMemory
from podsim.plan.plan import cost_model, job_memory
from podsim.specs import ForwardScenario, System
from podsim.specs.wording import counted
from podsim.units import format_bytes
from podsim.workload import Workload

_DIGITS = 4


@dataclass(frozen=True, slots=True)
class ForwardFit:
    """The first pipeline that fits, with those tried before it.

    Attributes:
        stages: IPUs of one replica.
        replicas: Copies of the model.
        tried: A line for each number of stages.
    """

    stages: int
    replicas: int
    tried: tuple[str, ...]


def fitted(spec: ForwardScenario, workload: Workload, name: str, smaller: str) -> ForwardFit:
    """The first of 1, 2, 4, … pipeline stages that fit.

    Args:
        spec: The scenario, whatever its division.
        workload: Its model, for one batch.
        name: The file that it comes from.
        smaller: What to do if it fits no pod.

    Raises:
        DoesNotFitError: It does not fit; names the smallest shipped pod on which it does.
    """

    def job_on(pod: System) -> Job:
        return forward_job(spec.model_copy(update={"system": pod}), workload)

    fit = _fit(job_on(spec.system))
    if fit is None:
        error = fits_elsewhere(
            spec.system,
            f"cut into up to {counted(len(workload.order), 'part')}",
            lambda pod: _fit(job_on(pod)) is not None,
            lambda pod: _longest_failure(job_on(pod)),
            smaller,
        )
        raise error.at(name)
    return fit


def division(fit: ForwardFit) -> Section:
    """The keys of the division, under what was tried."""
    entries = (
        Entry("pipeline_stages", fit.stages, "IPUs of one copy of the model"),
        Entry("replication_factor", fit.replicas, "as many as the pod holds"),
    )
    return Section("parallelism", entries, ("Tried in this order; the first that fits is taken.", *fit.tried))


def _fit(job: Job) -> ForwardFit | None:
    """Try 1, 2, 4, … pipeline stages; None if none of them fits."""
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
            return ForwardFit(stages, divided.layout.replication_factor, tuple(tried))
    return None


def _longest_failure(job: Job) -> InfeasibleError:
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
