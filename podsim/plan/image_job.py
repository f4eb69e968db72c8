"""From a checked scenario of a convolutional network to a job for the planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from podsim.errors import ModelError
from podsim.plan.changes import fewer_samples, recomputation_on, smaller_temporaries
from podsim.plan.cuts import Cuts, cuts_before
from podsim.plan.layout import WEIGHT_BITS, Job, Layout, Optimizer, Precision
from podsim.specs import ImageScenarioSpec
from podsim.specs.image import EfficientNetSpec, ImageOptimizerSpec, NormSpec, ResNetSpec
from podsim.specs.wording import known_here
from podsim.system import Software, System, build_software, build_system
from podsim.workload import Block, Workload
from podsim.workload.convnet import (
    ConductivityShape,
    EfficientNetShape,
    Formats,
    NormStyle,
    ResNetShape,
    conductivity_cnn,
    efficientnet,
    resnet,
)
from podsim.workload.convnet.features import Features
from podsim.workload.op import DTYPE_BYTES


def image_job(spec: ImageScenarioSpec, workload_of: Callable[[int], Workload] | None = None) -> Job:
    """The job that a scenario describes.

    Args:
        spec: The scenario.
        workload_of: Its network, where another job has it already.

    Raises:
        ModelError: The network cannot be built, or the scenario names a block that it does not have.
    """
    system, software = build_system(spec.system), build_software(spec.software)

    workload_of = workload_of or lru_cache(lambda micro_batch_size: _workload(spec, micro_batch_size))
    order, precision = workload_of(spec.parallelism.micro_batch_size).order, spec.precision
    splits = _known(spec.parallelism.pipeline_splits, order, "pipeline_splits")
    checkpoints = _known(spec.parallelism.checkpoints, order, "checkpoints")
    layout = _layout(spec, cuts_before(order, splits, checkpoints), system, software)
    return Job(
        system=system,
        software=software,
        workload_of=workload_of,
        layout=layout,
        precision=Precision(
            WEIGHT_BITS[precision.weights],
            DTYPE_BYTES[precision.gradient_accumulation],
            precision.matmul_partials,
        ),
        optimizer=_optimizer(spec.optimizer),
        changes=(
            *recomputation_on(layout, "segment"),
            *smaller_temporaries(layout),
            *fewer_samples(layout, "parallelism.micro_batch_size"),
        ),
    )


def updates_per_call(samples_per_epoch: int, samples_per_update: float, calls_per_epoch: int) -> int:
    """Weight updates of one session call when an epoch is divided into equal calls.

    >>> updates_per_call(1_281_167, 3200, 5), updates_per_call(1_281_167, 10240, 5)
    (80, 25)
    """
    return max(1, int(samples_per_epoch // samples_per_update) // calls_per_epoch)


def mean_updates_per_call(samples_per_epoch: int, samples_per_update: float, calls_per_epoch: int) -> float:
    """The same without rounding, so that a sample bears the same part of a call whatever the batch.

    >>> mean_updates_per_call(1000, 64, 4), mean_updates_per_call(10, 64, 1)
    (3.90625, 1.0)
    """
    return max(1.0, samples_per_epoch / samples_per_update / calls_per_epoch)


def _known(names: Sequence[str], order: Sequence[str], key: str) -> Sequence[str]:
    """Names of blocks behind the first, which a split or checkpoint cannot precede."""
    for name in names:
        if name not in order[1:]:
            what = f"`{name}` is not a block of the network behind its first"
            raise ModelError(what, key=f"parallelism.{key}", do=known_here(name, order[1:], "use one of its blocks"))
    return names


def _workload(spec: ImageScenarioSpec, batch: int) -> Workload:
    images, blocks = _network(spec, batch)
    return Workload(
        name=spec.model.kind,
        blocks={block.name: block for block in blocks},
        order=tuple(block.name for block in blocks),
        samples_per_micro_batch=batch,
        # Images travel with a byte per value.
        host_input_bytes=images.element_count,
        host_decode_count=batch if spec.data.decoded_by_host else 0,
        activation_dtype=spec.precision.activations,
    )


def _network(spec: ImageScenarioSpec, batch: int) -> tuple[Features, tuple[Block, ...]]:
    """What the network reads, and its blocks."""
    model = spec.model
    formats = Formats(spec.precision.activations, spec.precision.gradient_accumulation)
    if isinstance(model, ResNetSpec):
        size, classes, norm = model.image_size, model.class_count, _norm(model.norm)
        shape = ResNetShape(model.depth, model.groups, model.width_per_group, size, classes, norm)
        return shape.images(batch), resnet(shape, batch, formats)
    if isinstance(model, EfficientNetSpec):
        largest, classes, norm = model.image_size, model.class_count, _norm(model.norm)
        scaled = EfficientNetShape(model.size, model.group_size, model.expand_ratio, largest, classes, norm)
        return scaled.images(batch), efficientnet(scaled, batch, formats)
    plain = ConductivityShape(
        model.image_size, model.dimension_count, model.input_channels, model.channels, model.dense_widths
    )
    return plain.images(batch), conductivity_cnn(plain, batch, formats)


def _norm(spec: NormSpec) -> NormStyle:
    return NormStyle(spec.replicas, spec.groups if spec.kind == "group" else 0)


def _layout(spec: ImageScenarioSpec, cuts: Cuts, system: System, software: Software) -> Layout:
    parallelism, memory = spec.parallelism, spec.memory
    ipus, proportion = parallelism.ipus_per_replica, memory.available_memory_proportion
    batch = parallelism.micro_batch_size * parallelism.accumulation_factor * parallelism.replication_factor
    merged = parallelism.reduction_merge_size
    calls = spec.run.session_calls_per_epoch if spec.run else 1
    return Layout(
        ipus_per_replica=ipus,
        replication_factor=parallelism.replication_factor,
        replicas_per_domain=system.domain_ipu_count // ipus,
        cuts=cuts,
        micro_batch_size=parallelism.micro_batch_size,
        accumulation_factor=parallelism.accumulation_factor,
        recompute=parallelism.recomputation == "segment",
        reduction_merge_bytes=int(merged) if merged else software.reduction_merge_bytes,
        updates_per_session_call=mean_updates_per_call(spec.data.samples_per_epoch, batch, calls),
        io_tiles=memory.io_tiles,
        prefetch_depth=spec.data.prefetch_depth,
        available_memory_proportion=(proportion,) * ipus if isinstance(proportion, float) else tuple(proportion),
    )


def _optimizer(spec: ImageOptimizerSpec) -> Optimizer:
    state_count = 2 if spec.kind == "rmsprop" else 1
    return Optimizer(spec.kind, spec.state, state_count * DTYPE_BYTES[spec.state])
