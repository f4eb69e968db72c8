"""From a checked scenario to a job for the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import lru_cache

from podsim.plan.changes import fewer_samples, less_state_on_chip, recomputation_on, smaller_temporaries
from podsim.plan.cuts import Cuts, cuts_of_counts, cuts_of_layers
from podsim.plan.image_job import image_job
from podsim.plan.layout import WEIGHT_BITS, Job, Layout, Optimizer, Precision
from podsim.plan.models import transformer_workload
from podsim.specs import ImageScenarioSpec, TrainingScenario
from podsim.specs.division import StageSpec
from podsim.specs.scenario import OptimizerSpec, TransformerScenarioSpec
from podsim.system import build_software, build_system
from podsim.workload import Workload
from podsim.workload.op import DTYPE_BYTES
from podsim.workload.transformer import DECODER, EMBEDDING, ENCODER, HEAD


def training_job(spec: TrainingScenario, workload_of: Callable[[int], Workload] | None = None) -> Job:
    """The job that a scenario describes.

    Args:
        spec: The scenario.
        workload_of: Its model, where another job has it already.

    Raises:
        ModelError: The network cannot be built, or the scenario names a block that it does not have.
    """
    if isinstance(spec, ImageScenarioSpec):
        return image_job(spec, workload_of)
    assert isinstance(spec, TransformerScenarioSpec)
    return _transformer_job(spec, workload_of or _workloads(spec))


def _workloads(spec: TransformerScenarioSpec) -> Callable[[int], Workload]:
    return lru_cache(lambda micro_batch_size: transformer_workload(spec, micro_batch_size))


def _transformer_job(spec: TransformerScenarioSpec, workload_of: Callable[[int], Workload]) -> Job:
    system, precision = build_system(spec.system), spec.precision
    cuts = _cuts(spec, workload_of(spec.parallelism.micro_batch_size))
    layout = _layout(spec, cuts, system.domain_ipu_count)
    return Job(
        system=system,
        software=build_software(spec.software),
        workload_of=workload_of,
        layout=layout,
        precision=Precision(
            WEIGHT_BITS[precision.weights],
            DTYPE_BYTES[precision.gradient_accumulation],
            precision.matmul_partials,
        ),
        optimizer=_optimizer(spec.optimizer),
        changes=(
            *recomputation_on(layout, "layer"),
            *less_state_on_chip(layout),
            *smaller_temporaries(layout),
            *fewer_samples(layout, "parallelism.micro_batch_size"),
        ),
    )


def _cuts(spec: TransformerScenarioSpec, workload: Workload) -> Cuts:
    if spec.parallelism.layers_per_ipu is not None:
        return cuts_of_layers(workload, spec.parallelism.layers_per_ipu, head_apart=spec.head_on_first_ipu)
    stages = spec.parallelism.stages or ()
    return cuts_of_counts(workload, [_held(stage) for stage in stages], [stage.ipu for stage in stages])


def _held(stage: StageSpec) -> Counter[str]:
    """Blocks of a stage as it is written."""
    attention, feed_forward = ENCODER
    counts = {
        EMBEDDING: int(stage.embedding),
        attention: stage.attention_count,
        feed_forward: stage.feed_forward_count,
        DECODER[0]: stage.decoder_layers,
        HEAD: int(stage.head),
    }
    return +Counter(counts)


def _layout(spec: TransformerScenarioSpec, cuts: Cuts, domain_ipu_count: int) -> Layout:
    parallelism, state = spec.parallelism, spec.memory.optimizer_state
    ipus, proportion = cuts.ipus_per_replica, spec.memory.available_memory_proportion
    return Layout(
        ipus_per_replica=ipus,
        replication_factor=parallelism.replication_factor,
        replicas_per_domain=domain_ipu_count // ipus,
        cuts=cuts,
        micro_batch_size=parallelism.micro_batch_size,
        accumulation_factor=parallelism.accumulation_factor,
        recompute=parallelism.recomputation == "layer",
        optimizer_storage=state.storage,
        replicated_tensor_sharding=state.replicated_tensor_sharding,
        updates_per_session_call=parallelism.updates_per_session_call,
        available_memory_proportion=(proportion,) * ipus if isinstance(proportion, float) else tuple(proportion),
    )


def _optimizer(spec: OptimizerSpec) -> Optimizer:
    moments = (spec.first_moment, spec.second_moment)[: 1 if spec.kind == "sgd" else 2]
    kept = (*moments, "fp32") if spec.master_weights else moments
    return Optimizer(spec.kind, "fp32", sum(DTYPE_BYTES[each] for each in kept), spec.gradient_clipping)
