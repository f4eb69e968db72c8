"""Conversion of a validated scenario of forward passes into a job for the planner."""

from __future__ import annotations

from podsim.models import Workload
from podsim.options import Fit
from podsim.placement.layout import (
    Layout,
    PlanInput,
    Precision,
    fewer_io_tiles,
    longer_pipelines,
    smaller_temporaries,
)
from podsim.scenario import ForwardScenario


def forward_job(spec: ForwardScenario, workload: Workload, fit: Fit = "refuse") -> PlanInput:
    """Return the planner's input for a scenario of forward passes."""
    system, parallelism, stages = spec.system, spec.parallelism, spec.parallelism.pipeline_stages
    replicas = parallelism.replication_factor
    layout = Layout(
        ipus_per_replica=stages,
        replication_factor=replicas,
        replicas_per_domain=system.domain_ipu_count // stages,
        accumulation_factor=spec.calls.batches_per_call,
        replicas_per_process=parallelism.replicas_per_process or max(1, system.domain_ipu_count // stages),
        prefetch_depth=spec.calls.prefetch_depth,
        io_tiles=spec.memory.io_tiles,
        # In a call of one batch, its transfers cannot overlap with computation.
        overlapped_io=spec.calls.batches_per_call > 1,
        numbers_converted=spec.calls.numbers_converted,
        synthetic=spec.calls.synthetic,
        wide_weight_loads=spec.memory.wide_weight_loads,
        reserve=spec.memory.reserve,
        available_memory_proportion=(float(spec.memory.available_memory_proportion),) * stages,
    )
    return PlanInput(
        system=system,
        software=spec.software,
        workload_of=lambda _: workload,
        layout=layout,
        precision=Precision.from_formats(spec.precision.activations, spec.precision.matmul_partials),
        changes=(
            *fewer_io_tiles(layout),
            *smaller_temporaries(layout),
            *longer_pipelines(layout, system, len(workload.order)),
        ),
        fit=fit,
    )
