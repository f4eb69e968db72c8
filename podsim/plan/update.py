"""What a weight update costs on each IPU, communication apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from podsim.cost.account import Account, total
from podsim.cost.model import CostModel
from podsim.plan.options import TrainingOptions
from podsim.plan.stage import Stage
from podsim.workload import Workload
from podsim.workload.op import Elementwise, Op, Reduce

# Passes over the shard of one tensor: moments, root and quotient, weight decay, step, with the casts
# between half weights and single-precision arithmetic.
_ADAM_PASSES = (
    *("cast", "scale", "scaled_add", "square", "scale", "scaled_add"),
    *("sqrt", "add", "divide", "cast", "scaled_add"),
    *("scaled_add", "cast"),
)
# Weight decay, momentum, step.
_SGD_PASSES = ("scaled_add", "scaled_add", "scaled_add")
_PASSES: dict[str, tuple[str, ...]] = {
    "lamb": _ADAM_PASSES,  # [you2020]
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


def update_costs(
    stages: Sequence[Stage],
    workload: Workload,
    model: CostModel,
    options: TrainingOptions,
    sharding_threshold: int,
) -> tuple[UpdateCost, ...]:
    """Cost the weight update of every IPU of a replica.

    Args:
        stages: The pipeline.
        workload: The model.
        model: Costs of single operations.
        options: Optimizer and its sharding.
        sharding_threshold: Tensors with fewer elements are not sharded.
    """
    held = updated_sizes(stages, workload, options.ipus_per_replica)
    return tuple(_ipu_cost(ipu, sizes, model, options, sharding_threshold) for ipu, sizes in enumerate(held))


def updated_sizes(stages: Sequence[Stage], workload: Workload, ipu_count: int) -> tuple[list[int], ...]:
    """Elements of every tensor that each IPU of a replica updates."""
    held: tuple[list[int], ...] = tuple([] for _ in range(ipu_count))
    for stage in stages:
        for ipu in stage.ipus:
            held[ipu].extend(_tensor_sizes(stage, workload))
    return held


def _tensor_sizes(stage: Stage, workload: Workload) -> list[int]:
    """Elements of every tensor a stage updates; tied tensors are updated by their owner."""
    return [
        parameter.element_count
        for name, repeats in stage.blocks
        for parameter in workload.blocks[name].parameters
        if parameter.tied_to is None
        for _ in range(repeats)
    ]


def _ipu_cost(ipu: int, sizes: Sequence[int], model: CostModel, options: TrainingOptions, threshold: int) -> UpdateCost:
    merged = options.reduction_merge_bytes
    large = [size for size in sizes if merged or size >= threshold]
    shards = options.shard_count if options.replicated_tensor_sharding else 1
    shares = Counter(_share(size, options, threshold) for size in sizes)
    weights = sum(sizes)
    clear = model.op(Elementwise(name="clear", shape=(weights,), function="fill"), 1.0).account
    moved = total(
        model.layout_change(size * options.weight_bytes).times(count) for size, count in Counter(large).items()
    )
    buffers = -(-weights * options.accumulator_bytes // merged) if merged else len(large)
    return UpdateCost(
        ipu=ipu,
        parameter_count=weights,
        collective_count=buffers,
        small_tensor_count=len(sizes) - len(large),
        norm_count=len(_norms(options)) * len(large) if shards > 1 else 0,
        gather=moved,
        optimizer=total(_tensor_cost(share, model, options).times(count) for share, count in shares.items()),
        scatter=moved + clear,
        state_bytes=state_bytes(sizes, options, threshold),
    )


def _share(size: int, options: TrainingOptions, threshold: int) -> int:
    """Elements of a tensor that one replica updates."""
    shards = options.shard_count if options.replicated_tensor_sharding and size >= threshold else 1
    return -(-size // shards)


def state_bytes(sizes: Iterable[int], options: TrainingOptions, threshold: int) -> int:
    """Optimizer state of tensors of these sizes on one IPU. [B]"""
    return options.state_bytes_per_parameter * sum(_share(size, options, threshold) for size in sizes)


def _norms(options: TrainingOptions) -> tuple[str, ...]:
    trust = _TRUST_NORMS.get(options.optimizer_kind, ())
    return (*trust, "clipping") if options.gradient_clipping else trust


def _tensor_cost(elements: int, model: CostModel, options: TrainingOptions) -> Account:
    return total(cost.account for cost in model.sequence(_passes(elements, options), 1.0))


def _passes(elements: int, options: TrainingOptions) -> Iterator[Op]:
    """Elementwise passes and norms of the update of one tensor's shard."""
    dtype = options.optimizer_dtype
    for number, function in enumerate(_PASSES[options.optimizer_kind]):
        yield Elementwise(name=f"{number}/{function}", shape=(elements,), dtype=dtype, function=function)
    for norm in _norms(options):
        yield Elementwise(name=f"{norm}/square", shape=(elements,), dtype=dtype, function="square")
        yield Reduce(name=f"{norm}/norm", shape=(1,), dtype="fp32", input_count=elements)
