"""What a weight update costs on each IPU, communication apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from podsim.models import Workload
from podsim.models.op import Elementwise, Op, Reduce
from podsim.placement.layout import Job, Optimizer
from podsim.placement.stage import Stage
from podsim.tiles.account import Account, total
from podsim.tiles.model import CostModel

# Passes over the shard of one tensor: moments, root and quotient, weight decay, step, with the casts
# between half weights and single-precision arithmetic.
_ADAM_PASSES = (
    *("cast", "scale", "scaled_add", "square", "scale", "scaled_add"),
    *("sqrt", "add", "divide", "cast", "scaled_add"),
    *("scaled_add", "cast"),
)
# Weight decay, momentum, step.
_SGD_PASSES = ("scaled_add", "scaled_add", "scaled_add")
_PLAIN_ADAM_PASSES = ("scale", "scaled_add", "square", "scale", "scaled_add", "sqrt", "add", "divide", "scaled_add")
_PASSES: dict[str, tuple[str, ...]] = {
    "lamb": _ADAM_PASSES,  # [you2020]
    "adam": _PLAIN_ADAM_PASSES,  # [kingma2015], weights and state in one format
    "adamw": _ADAM_PASSES,  # [loshchilov2019]
    "sgd": _SGD_PASSES,
    "lars": _SGD_PASSES,  # [you2017]
    "rmsprop": ("square", "scale", "scaled_add", "sqrt", "divide", *_SGD_PASSES),  # [tan2019]
}
# Whose norms per tensor make the trust ratio.
_TRUST_NORMS: dict[str, tuple[str, ...]] = {"lamb": ("weight", "update"), "lars": ("weight", "gradient")}


@dataclass(frozen=True, slots=True)
class UpdateCost:
    """The weight update on one IPU of a replica.

    Attributes:
        ipu: Position in the replica.
        parameter_count: Trained elements on it.
        collective_count: Collectives at full bandwidth: one per large tensor, or per merged buffer.
        small_tensor_count: Tensors that are all-reduced whole.
        norm_count: Scalars that shards exchange for trust ratios and clipping.
        gather: Rearrangement of the gradients into the layout of the collective. [cycles]
        optimizer: The update of this IPU's shard. [cycles]
        scatter: Rearrangement of the new weights and clearing of the accumulators. [cycles]
        state_bytes: Optimizer state that this IPU reads and writes. [B]
    """

    ipu: int
    parameter_count: int
    collective_count: int
    small_tensor_count: int
    norm_count: int
    gather: Account
    optimizer: Account
    scatter: Account
    state_bytes: int


def update_costs(stages: Sequence[Stage], workload: Workload, model: CostModel, job: Job) -> tuple[UpdateCost, ...]:
    """Cost the weight update of every IPU of a replica.

    Args:
        stages: The pipeline.
        workload: The model.
        model: Costs of single operations.
        job: What trains it, and how that is laid out.
    """
    held: tuple[list[int], ...] = tuple([] for _ in range(job.layout.ipus_per_replica))
    for stage in stages:
        for ipu in stage.ipus:
            held[ipu].extend(updated_sizes(stage, workload))
    return tuple(_ipu_cost(ipu, sizes, model, job) for ipu, sizes in enumerate(held))


def updated_sizes(stage: Stage, workload: Workload) -> list[int]:
    """Elements of every tensor a stage updates; tied tensors are updated by their owner."""
    return [
        parameter.element_count
        for name, repeats in stage.blocks
        for parameter in workload.blocks[name].parameters
        if parameter.tied_to is None
        for _ in range(repeats)
    ]


def _ipu_cost(ipu: int, sizes: Sequence[int], model: CostModel, job: Job) -> UpdateCost:
    layout, optimizer = job.layout, _trained_by(job)
    merged = layout.reduction_merge_bytes
    large = [size for size in sizes if merged or size >= job.software.sharding_threshold]
    shards = layout.shard_count if layout.replicated_tensor_sharding else 1
    shares = Counter(_share(size, job) for size in sizes)
    weights = sum(sizes)
    clear = model.op(Elementwise(name="clear", shape=(weights,), function="fill"), 1.0).account
    moved = total(
        model.layout_change(job.precision.weight_bytes(size)).times(count) for size, count in Counter(large).items()
    )
    buffers = -(-weights * job.precision.accumulator_bytes // merged) if merged else len(large)
    return UpdateCost(
        ipu=ipu,
        parameter_count=weights,
        collective_count=buffers,
        small_tensor_count=len(sizes) - len(large),
        norm_count=len(_norms(optimizer)) * len(large) if shards > 1 else 0,
        gather=moved,
        optimizer=total(_tensor_cost(share, model, optimizer).times(count) for share, count in shares.items()),
        scatter=moved + clear,
        state_bytes=state_bytes(sizes, job),
    )


def _trained_by(job: Job) -> Optimizer:
    assert job.optimizer is not None, "nothing is trained"
    return job.optimizer


def _share(size: int, job: Job) -> int:
    """Elements of a tensor that one replica updates."""
    sharded = job.layout.replicated_tensor_sharding and size >= job.software.sharding_threshold
    return -(-size // (job.layout.shard_count if sharded else 1))


def state_bytes(sizes: Iterable[int], job: Job) -> int:
    """Optimizer state of tensors of these sizes on one IPU. [B]"""
    return _trained_by(job).state_bytes_per_parameter * sum(_share(size, job) for size in sizes)


def _norms(optimizer: Optimizer) -> tuple[str, ...]:
    trust = _TRUST_NORMS.get(optimizer.kind, ())
    return (*trust, "clipping") if optimizer.gradient_clipping else trust


def _tensor_cost(elements: int, model: CostModel, optimizer: Optimizer) -> Account:
    """The update of a shard; IPUs hold many that are equal."""
    return model.once(
        optimizer,
        (elements,),
        lambda: total(cost.account for cost in model.sequence(_passes(elements, optimizer), 1.0)),
    )


def _passes(elements: int, optimizer: Optimizer) -> Iterator[Op]:
    """Elementwise passes and norms of the update of one tensor's shard."""
    dtype = optimizer.dtype
    for number, function in enumerate(_PASSES[optimizer.kind]):
        yield Elementwise(name=f"{number}/{function}", shape=(elements,), dtype=dtype, function=function)
    for norm in _norms(optimizer):
        yield Elementwise(name=f"{norm}/square", shape=(elements,), dtype=dtype, function="square")
        yield Reduce(name=f"{norm}/norm", shape=(1,), dtype="fp32", input_count=elements)
