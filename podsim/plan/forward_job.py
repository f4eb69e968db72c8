"""From a checked scenario of forward passes to a job for the planner."""

from __future__ import annotations

from dataclasses import replace

from podsim.plan.forward import ForwardJob, ForwardOptions
from podsim.specs import ForwardScenarioSpec
from podsim.specs.forward import GraphScenarioSpec
from podsim.workload import Workload
from podsim.workload.op import DTYPE_BYTES


def forward_job(spec: ForwardScenarioSpec, workload: Workload) -> ForwardJob:
    """The job that a scenario describes.

    Args:
        spec: The scenario.
        workload: Its model, for one batch.
    """
    system, parallelism = spec.system, spec.parallelism
    given = spec.data.samples_per_batch if isinstance(spec, GraphScenarioSpec) else None
    samples = given or workload.samples_per_micro_batch
    return ForwardJob(
        system=system,
        software=spec.software,
        workload=replace(workload, samples_per_micro_batch=samples),
        options=ForwardOptions(
            pipeline_stages=parallelism.pipeline_stages,
            replication_factor=parallelism.replication_factor,
            replicas_per_domain=system.domain_ipu_count // parallelism.pipeline_stages,
            batches_per_call=spec.batches_per_call,
            prefetch_depth=spec.prefetch_depth,
            weight_bytes=DTYPE_BYTES[spec.precision.weights],
            partials=spec.precision.matmul_partials,
            available_memory_proportion=float(spec.memory.available_memory_proportion),
        ),
    )
