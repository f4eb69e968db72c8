"""Costs of the passes of each pipeline stage on its IPU, and of its weight update, without communication."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from podsim.models import Workload
from podsim.models.block import Parameter
from podsim.models.op import Conv, Elementwise, MatMul, Op, Reduce, ReplicaSum
from podsim.placement.alive import Needs, needs, tasks
from podsim.placement.cuts import Segment, Stage, kept_elements
from podsim.placement.layout import Optimizer, PlanInput
from podsim.tiles.account import Account, total
from podsim.tiles.model import CostModel, OpCost
from podsim.tiles.plans import ConvPlan, MatMulPlan


@dataclass(frozen=True, slots=True)
class BlockCost:
    """Cost of a block, with the cost of every operation."""

    block: str
    forward: tuple[OpCost, ...]
    backward: tuple[OpCost, ...]
    forward_account: Account  # sum of the forward pass [cycles]
    redone_account: Account  # recomputation of the block at the end of a segment [cycles]
    backward_account: Account  # sum of the backward pass [cycles]
    temporary_bytes_per_tile: int  # largest temporaries of any operation [B]
    needs: Needs  # memory while it runs
    # names of operations that are not recomputed if the block is at the end of a segment
    unread_results: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StageCost:
    """Cost of one pipeline stage for one micro-batch."""

    stage: Stage
    blocks: Mapping[str, BlockCost]  # cost of each kind of block
    forward: Account  # forward pass [cycles]
    recompute: Account  # recomputation before the backward pass [cycles]
    backward: Account  # backward pass with gradient accumulation [cycles]
    recomputed: tuple[Segment, ...]
    redoes_all: bool = False  # True if whole segments are recomputed; otherwise up to the last result that is read

    def redone(self, segment: Segment) -> tuple[tuple[str, OpCost], ...]:
        """Return (block, operation with its cost) for the recomputed operations of a segment, in order."""
        last = self.blocks[segment.blocks[-1]]
        unread = frozenset[str]() if self.redoes_all else last.unread_results
        ops = ((name, cost) for name in segment.blocks for cost in self.blocks[name].forward)
        return tuple((name, cost) for name, cost in ops if name != last.block or cost.op.name not in unread)

    @property
    def cycles(self) -> float:
        """Cycles of all passes of one micro-batch. [cycles]"""
        return self.forward.cycles + self.recompute.cycles + self.backward.cycles


def stage_costs(
    stages: Sequence[Stage],
    workload: Workload,
    model: CostModel,
    available_memory_proportion: Sequence[float],  # share of tile memory for temporaries of a product, per IPU
    *,
    recompute: bool,  # True if the forward pass is recomputed before the backward pass
    recompute_last: bool = True,  # True if this includes the last segment, whose backward pass follows immediately
    redoes_all: bool = False,
) -> tuple[StageCost, ...]:
    """Cost every stage; `redoes_all`: whole segments are recomputed [popxl_addons]."""
    known: dict[tuple[str, float], BlockCost] = {}
    costs = []
    for stage in stages:
        proportion = available_memory_proportion[stage.ipus.start]
        blocks = {}
        for name, _ in stage.blocks:
            key = (name, proportion)
            if key not in known:
                known[key] = block_cost(name, workload, model, proportion)
            blocks[name] = known[key]
        spared = stage is stages[-1] and not recompute_last
        redone = (stage.segments[:-1] if spared else stage.segments) if recompute else ()
        cost = stage_cost(stage, blocks, redone, redoes_all=redoes_all)
        if workload.stash_dtype not in (None, workload.activation_dtype):
            casts = _stash_casts(stage, workload, model, recompute=recompute)
            cost = replace(cost, forward=cost.forward + casts, backward=cost.backward + casts)
        costs.append(cost)
    return tuple(costs)


def _stash_casts(stage: Stage, workload: Workload, model: CostModel, *, recompute: bool) -> Account:
    """Return the cost of casting what each segment keeps into the narrower format, or back."""

    def cast(segment: Segment) -> Account:
        kept = kept_elements(replace(segment, count=1), workload, recompute=recompute)
        return model.op(Elementwise(name="stash", shape=(kept,), function="cast"), 1.0).account.times(segment.count)

    return total(cast(segment) for segment in stage.segments if workload.input_elements(segment.blocks[0]))


def block_cost(name: str, workload: Workload, model: CostModel, proportion: float) -> BlockCost:
    """Cost every operation of a block, with a share of tile memory for its temporaries.

    Costs that do not depend on links are cached for all pods with the same chip. Memory is cached separately, since it
    does not depend on the times of supersteps and copies.
    """
    block = workload.blocks[name]

    def needed(forward: Sequence[OpCost], backward: Sequence[OpCost]) -> Needs:
        return needs(workload, name, *(tasks(costs, model.ipu.tile.count) for costs in (forward, backward)))

    def alone() -> BlockCost:
        forward = model.without_neighbours.sequence(block.forward, proportion)
        backward = model.without_neighbours.sequence(block.backward, proportion)
        return BlockCost(
            name,
            forward,
            backward,
            forward_account=total(cost.account for cost in forward),
            redone_account=total(cost.account for cost in forward if cost.op.name not in block.unread_results),
            backward_account=total(cost.account for cost in backward),
            temporary_bytes_per_tile=max((cost.temporary_bytes_per_tile for cost in forward + backward), default=0),
            needs=model.splits.memoize(workload, ("needs", name, proportion), lambda: needed(forward, backward)),
            unread_results=block.unread_results,
        )

    cost = model.without_neighbours.memoize(workload, ("block", name, proportion), alone)
    if model.without_neighbours is model or not any(
        isinstance(each.op, ReplicaSum) for each in cost.forward + cost.backward
    ):
        return cost
    forward, backward = (
        tuple(model.op(each.op, proportion) if isinstance(each.op, ReplicaSum) else each for each in costs)
        for costs in (cost.forward, cost.backward)
    )
    summed = sum(each.account.all_reduce for each in forward)
    return replace(
        cost,
        forward=forward,
        backward=backward,
        forward_account=replace(cost.forward_account, all_reduce=summed),
        redone_account=replace(cost.redone_account, all_reduce=summed),
        backward_account=replace(cost.backward_account, all_reduce=sum(each.account.all_reduce for each in backward)),
    )


def product_rates(costs: Iterable[StageCost], clock_hz: float) -> dict[str, float]:
    """Return the rate of matrix products and convolutions, by their name in the chip's energy table. [FLOP/s]"""
    flop, cycles = Counter[str](), 0.0
    for cost in costs:
        for name, count in cost.stage.blocks:
            for each in (*cost.blocks[name].forward, *cost.blocks[name].backward):
                cycles += count * each.account.matmul
                if each.plan is not None and isinstance(each.op, Conv | MatMul):
                    flop[_flop_name(each.plan)] += count * each.op.flop
    return {name: done / cycles * clock_hz for name, done in flop.items()}


def _flop_name(plan: MatMulPlan | ConvPlan) -> str:
    if plan.dtype == "fp16":
        return "half_partials_float_flop" if plan.partials == "fp32" else "half_flop"
    return "fp8_flop" if plan.dtype == "fp8" else "single_flop"


def stage_cost(
    stage: Stage,
    blocks: Mapping[str, BlockCost],
    recomputed: tuple[Segment, ...] = (),
    *,
    redoes_all: bool = False,
) -> StageCost:
    """Return the cost of a stage from the costs of its blocks; `recomputed` segments are redone."""
    backward = total(blocks[name].backward_account.times(count) for name, count in stage.blocks)
    again = _forward(recomputed, blocks) if redoes_all else _redone(recomputed, blocks)
    return StageCost(stage, blocks, _forward(stage.segments, blocks), again, backward, recomputed, redoes_all)


def _forward(segments: Sequence[Segment], blocks: Mapping[str, BlockCost]) -> Account:
    return total(blocks[name].forward_account.times(segment.count) for segment in segments for name in segment.blocks)


def _redone(segments: Sequence[Segment], blocks: Mapping[str, BlockCost]) -> Account:
    """Return the cost of recomputing segments up to the last result that a backward pass reads."""
    inner = (replace(segment, blocks=segment.blocks[:-1]) for segment in segments)
    ends = (blocks[segment.blocks[-1]].redone_account.times(segment.count) for segment in segments)
    return _forward(tuple(inner), blocks) + total(ends)


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
# Tensors whose norms form the trust ratio.
_TRUST_NORMS: dict[str, tuple[str, ...]] = {"lamb": ("weight", "update"), "lars": ("weight", "gradient")}


@dataclass(frozen=True, slots=True)
class UpdateCost:
    """Cost of the weight update on one IPU of a replica."""

    ipu: int  # position in the replica
    parameter_count: int  # number of trained elements on the IPU
    collective_count: int  # collectives at full bandwidth: one per large tensor, or per merged buffer
    # (elements, number of collectives) of gradients; merged collectives count as one
    collective_sizes: tuple[tuple[int, int], ...]
    small_tensor_count: int  # all-reduces of tensors too small to be sharded
    broadcast_count: int  # those of them that are small enough for a broadcast
    # collectives of norms between replicas with shards of the state, for trust ratios and clipping
    norm_count: int
    shard_norm_count: int  # collectives of norms between the IPUs that share a layer
    gather: Account  # rearrangement of the gradients into the layout of the collective [cycles]
    optimizer: Account  # the update of this IPU's shard [cycles]
    scatter: Account  # rearrangement of the new weights and clearing of the accumulators [cycles]
    state_bytes: int  # optimizer state that this IPU reads and writes [B]
    state_tensor_count: int  # tensors of optimizer state, each read and written separately
    weight_bytes: int  # weights of this IPU's shard [B]
    handed_out_bytes: int  # all weights, which replicas gather after the update [B]
    gradient_bytes: int  # gradients of this IPU's shard [B]
    tensor_count: int  # tensors of weights, and of gradients


def update_costs(
    stages: Sequence[Stage], workload: Workload, model: CostModel, job: PlanInput
) -> tuple[UpdateCost, ...]:
    """Cost the weight update of every IPU of a replica."""
    held: tuple[list[Parameter], ...] = tuple([] for _ in range(job.layout.ipus_per_replica))
    for stage in stages:
        for ipu in stage.ipus:
            held[ipu].extend(updated_parameters(stage, workload))
    return tuple(update_cost(ipu, tensors, model, job) for ipu, tensors in enumerate(held))


def updated_parameters(stage: Stage, workload: Workload) -> list[Parameter]:
    """Return all tensors that a stage updates; a tied tensor is updated by its owner."""
    return [
        parameter
        for name, repeats in stage.blocks
        for parameter in workload.blocks[name].parameters
        if parameter.tied_to is None
        for _ in range(repeats)
    ]


def update_cost(ipu: int, tensors: Sequence[Parameter], model: CostModel, job: PlanInput) -> UpdateCost:
    """Return the cost of updating some tensors on one IPU."""
    layout, optimizer, sizes = job.layout, _trained_by(job), [tensor.element_count for tensor in tensors]
    merged = layout.reduction_merge_bytes
    large = [tensor for tensor in tensors if merged or tensor.element_count >= job.software.sharding_threshold]
    small = [] if merged else [size for size in sizes if size < job.software.sharding_threshold]
    shards = layout.shard_count if layout.replicated_tensor_sharding else 1
    shares = Counter((_share(tensor.element_count, job), tensor.dtype) for tensor in tensors)
    weights, shard = sum(sizes), sum(share * count for (share, _), count in shares.items())
    clear = model.op(Elementwise(name="clear", shape=(weights,), function="fill"), 1.0).account
    gathered = [job.precision.weight_bytes(each.element_count) for each in large]
    scattered = [job.precision.stored_bytes([each]) for each in large]
    buffers = -(-weights * job.precision.accumulator_bytes // merged) if merged else len(large)
    with_norms, sharded = len(large) if shards > 1 else 0, len(large) if layout.tensor_parallel > 1 else 0
    together = [sum(small)] if job.software.collectives_merged else small
    broadcast = sum(
        0 < each * job.precision.accumulator_bytes <= (job.software.broadcast_bytes or 0) for each in together
    )
    counts = buffers, len(small), with_norms, sharded
    large_count, small_count, normed, shard_normed = (
        min(1, each) if job.software.collectives_merged else each for each in counts
    )
    return UpdateCost(
        ipu=ipu,
        parameter_count=weights,
        collective_count=large_count,
        collective_sizes=tuple(_collectives(sizes, job).items()),
        small_tensor_count=small_count,
        broadcast_count=broadcast,
        norm_count=len(_norms(optimizer)) * normed,
        shard_norm_count=len(_norms(optimizer)) * shard_normed,
        gather=_laid_out(gathered, model),
        optimizer=total(
            _tensor_cost(share, dtype, model, optimizer).times(count) for (share, dtype), count in shares.items()
        ),
        scatter=_laid_out(scattered, model) + clear,
        state_bytes=shard * optimizer.state_bytes_per_parameter,
        state_tensor_count=optimizer.state_count * len(sizes),
        weight_bytes=job.precision.stored_bytes(
            Parameter("shard", (share * count,), dtype=dtype) for (share, dtype), count in shares.items()
        ),
        handed_out_bytes=job.precision.stored_bytes(tensors),
        gradient_bytes=shard * job.precision.accumulator_bytes,
        tensor_count=len(sizes),
    )


def _collectives(sizes: Sequence[int], job: PlanInput) -> Mapping[int, int]:
    """Return the number of collectives of gradients of tensors with these sizes, by their elements."""
    if job.software.collectives_merged:
        return {sum(sizes): 1}
    if merged := job.layout.reduction_merge_bytes:
        full = merged // job.precision.accumulator_bytes
        count, rest = divmod(sum(sizes), full)
        return Counter({full: count}) + Counter({rest: int(rest > 0)})
    return Counter(sizes)


def _laid_out(sizes: Iterable[int], model: CostModel) -> Account:
    """Return the cost of changing the layout of tensors with these sizes. [B]"""
    return total(model.layout_change(size).times(count) for size, count in Counter(sizes).items())


def _trained_by(job: PlanInput) -> Optimizer:
    assert job.optimizer is not None, "nothing is trained"
    return job.optimizer


def _share(size: int, job: PlanInput) -> int:
    """Return the number of elements of a tensor that one replica updates."""
    sharded = job.layout.replicated_tensor_sharding and size >= job.software.sharding_threshold
    return -(-size // (job.layout.shard_count if sharded else 1))


def state_bytes(sizes: Iterable[int], job: PlanInput) -> int:
    """Return the bytes of optimizer state on one IPU for tensors with these numbers of elements. [B]"""
    return _trained_by(job).state_bytes_per_parameter * sum(_share(size, job) for size in sizes)


def _norms(optimizer: Optimizer) -> tuple[str, ...]:
    trust = _TRUST_NORMS.get(optimizer.kind, ())
    return (*trust, "clipping") if optimizer.gradient_clipping else trust


def _tensor_cost(elements: int, stored: str | None, model: CostModel, optimizer: Optimizer) -> Account:
    """Return the cached cost of updating a shard; IPUs hold many equal shards."""
    return model.memoize(
        optimizer,
        (elements, stored),
        lambda: total(cost.account for cost in model.sequence(_passes(elements, stored, optimizer), 1.0)),
    )


def _passes(elements: int, stored: str | None, optimizer: Optimizer) -> Iterator[Op]:
    """Yield the elementwise passes and norms of the update of a tensor's shard; FP8 also needs the largest element."""
    dtype = optimizer.dtype
    for number, function in enumerate(_PASSES[optimizer.kind]):
        if function == "cast" and not optimizer.casts:
            continue
        yield Elementwise(name=f"{number}/{function}", shape=(elements,), dtype=dtype, function=function)
    if stored == "fp8":
        yield Reduce(name="largest", shape=(1,), dtype=dtype, input_count=elements)
    for norm in _norms(optimizer):
        yield Elementwise(name=f"{norm}/square", shape=(elements,), dtype=dtype, function="square")
        yield Reduce(name=f"{norm}/norm", shape=(1,), dtype="fp32", input_count=elements)
