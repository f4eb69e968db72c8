"""From a checked scenario of forward passes to a job for the planner."""

from __future__ import annotations

from podsim.models import Workload
from podsim.placement.layout import Fit, Job, Layout, Precision, longer_pipelines, smaller_temporaries
from podsim.scenario import ForwardScenario


def forward_job(spec: ForwardScenario, workload: Workload, fit: Fit = "refuse") -> Job:
    """The job that a scenario describes, and what becomes of it where it does not fit."""
    system, parallelism, stages = spec.system, spec.parallelism, spec.parallelism.pipeline_stages
    layout = Layout(
        ipus_per_replica=stages,
        replication_factor=parallelism.replication_factor,
        replicas_per_domain=system.domain_ipu_count // stages,
        accumulation_factor=spec.calls.batches_per_call,
        prefetch_depth=spec.calls.prefetch_depth,
        io_tiles=spec.memory.io_tiles,
        reserve=spec.memory.reserve,
        available_memory_proportion=(float(spec.memory.available_memory_proportion),) * stages,
    )
    return Job(
        system=system,
        software=spec.software,
        workload_of=lambda _: workload,
        layout=layout,
        precision=Precision.of(spec.precision.weights, spec.precision.matmul_partials),
        changes=(*smaller_temporaries(layout), *longer_pipelines(layout, system, len(workload.order))),
        fit=fit,
    )
