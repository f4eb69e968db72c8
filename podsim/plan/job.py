"""From a checked scenario to a job for the planner."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from podsim.plan.fit import less_state_on_chip, recomputation_on, smaller_temporaries
from podsim.plan.image_job import image_job
from podsim.plan.models import transformer_workload
from podsim.plan.options import TrainingOptions
from podsim.plan.placement import Stage, make_stage, stages_of_layers
from podsim.plan.plan import TrainingJob
from podsim.specs import ImageScenarioSpec, TrainingScenario
from podsim.specs.families import Seq2SeqScenarioSpec
from podsim.specs.scenario import TransformerScenarioSpec
from podsim.system import build_software, build_system
from podsim.workload import Workload
from podsim.workload.op import DTYPE_BYTES


def training_job(spec: TrainingScenario, workload_of: Callable[[int], Workload] | None = None) -> TrainingJob:
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


def _transformer_job(spec: TransformerScenarioSpec, workload_of: Callable[[int], Workload]) -> TrainingJob:
    system = build_system(spec.system)
    stages = _stages(spec)
    options = _options(spec, stages, system.domain_ipu_count)

    return TrainingJob(
        system=system,
        software=build_software(spec.software),
        workload_of=workload_of,
        stages=stages,
        options=options,
        changes=(*recomputation_on(options, "layer"), *less_state_on_chip(options), *smaller_temporaries(options)),
    )


def _stages(spec: TransformerScenarioSpec) -> tuple[Stage, ...]:
    if spec.parallelism.layers_per_ipu is not None:
        decoder = spec.decoder_layer_count if isinstance(spec, Seq2SeqScenarioSpec) else 0
        return stages_of_layers(spec.parallelism.layers_per_ipu, decoder, head_on_first_ipu=spec.head_on_first_ipu)
    return tuple(
        make_stage(
            index,
            stage.ipu,
            stage.attention_count,
            stage.feed_forward_count,
            decoder=stage.decoder_layers,
            embedding=stage.embedding,
            head=stage.head,
        )
        for index, stage in enumerate(spec.parallelism.stages or ())
    )


def _options(spec: TransformerScenarioSpec, stages: tuple[Stage, ...], domain_ipu_count: int) -> TrainingOptions:
    parallelism, optimizer, precision = spec.parallelism, spec.optimizer, spec.precision
    ipus_per_replica = len({stage.ipu for stage in stages})
    proportion = spec.memory.available_memory_proportion
    state = spec.memory.optimizer_state
    moments = (optimizer.first_moment, optimizer.second_moment)[: 1 if optimizer.kind == "sgd" else 2]
    return TrainingOptions(
        micro_batch_size=parallelism.micro_batch_size,
        accumulation_factor=parallelism.accumulation_factor,
        replication_factor=parallelism.replication_factor,
        ipus_per_replica=ipus_per_replica,
        replicas_per_domain=domain_ipu_count // ipus_per_replica,
        recompute=parallelism.recomputation == "layer",
        weight_bytes=DTYPE_BYTES[precision.weights],
        accumulator_bytes=DTYPE_BYTES[precision.gradient_accumulation],
        state_bytes_per_parameter=sum(DTYPE_BYTES[moment] for moment in moments)
        + (DTYPE_BYTES["fp32"] if optimizer.master_weights else 0),
        optimizer_kind=optimizer.kind,
        optimizer_dtype="fp32",
        optimizer_storage=state.storage,
        replicated_tensor_sharding=state.replicated_tensor_sharding,
        gradient_clipping=optimizer.gradient_clipping,
        reduction_merge_bytes=0,
        io_tiles=0,
        prefetch_depth=3,
        updates_per_session_call=parallelism.updates_per_session_call,
        partials=precision.matmul_partials,
        available_memory_proportion=(
            (proportion,) * ipus_per_replica if isinstance(proportion, float) else tuple(proportion)
        ),
    )
