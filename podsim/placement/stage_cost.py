"""Costs of the passes of each pipeline stage on its IPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from podsim.models import Workload
from podsim.models.op import Elementwise, ReplicaSum
from podsim.placement.alive import Needs, needs, tasks
from podsim.placement.stage import Segment, Stage, kept_elements
from podsim.tiles.account import Account, total
from podsim.tiles.model import CostModel, OpCost


@dataclass(frozen=True, slots=True)
class BlockCost:
    """One block with the cost of every operation.

    Attributes:
        block: Its name.
        forward: Operations of the forward pass.
        backward: Operations of the backward pass.
        forward_account: Sum of the forward pass. [cycles]
        backward_account: Sum of the backward pass. [cycles]
        temporary_bytes_per_tile: Largest temporaries of any operation. [B]
        needs: Memory while it runs.
    """

    block: str
    forward: tuple[OpCost, ...]
    backward: tuple[OpCost, ...]
    forward_account: Account
    backward_account: Account
    temporary_bytes_per_tile: int
    needs: Needs


@dataclass(frozen=True, slots=True)
class StageCost:
    """Cost of one pipeline stage for one micro-batch.

    Attributes:
        stage: The stage.
        blocks: Cost of each kind of block it holds.
        forward: The forward pass. [cycles]
        recompute: What is redone of the forward pass before the backward pass. [cycles]
        recomputed: Segments that are redone.
        backward: The backward pass with gradient accumulation. [cycles]
    """

    stage: Stage
    blocks: Mapping[str, BlockCost]
    forward: Account
    recompute: Account
    backward: Account
    recomputed: tuple[Segment, ...]

    @property
    def cycles(self) -> float:
        """All passes of one micro-batch. [cycles]"""
        return self.forward.cycles + self.recompute.cycles + self.backward.cycles


def stage_costs(
    stages: Sequence[Stage],
    workload: Workload,
    model: CostModel,
    available_memory_proportion: Sequence[float],
    *,
    recompute: bool,
    recompute_last: bool = True,
) -> tuple[StageCost, ...]:
    """Cost every stage; blocks of IPUs with the same memory proportion are costed once.

    Args:
        stages: The pipeline.
        workload: The model.
        model: Costs of single operations.
        available_memory_proportion: Share of tile memory for temporaries of a product, per IPU.
        recompute: Whether the forward pass is redone before the backward pass.
        recompute_last: Whether that holds for the last segment of all, whose backward pass follows at once.
    """
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
        cost = stage_cost(stage, blocks, redone)
        if workload.stash_dtype not in (None, workload.activation_dtype):
            casts = _stash_casts(stage, workload, model, recompute=recompute)
            cost = replace(cost, forward=cost.forward + casts, backward=cost.backward + casts)
        costs.append(cost)
    return tuple(costs)


def _stash_casts(stage: Stage, workload: Workload, model: CostModel, *, recompute: bool) -> Account:
    """One pass over what each segment keeps, into the narrower format or back."""

    def cast(segment: Segment) -> Account:
        kept = kept_elements(replace(segment, count=1), workload, recompute=recompute)
        return model.op(Elementwise(name="stash", shape=(kept,), function="cast"), 1.0).account.times(segment.count)

    return total(cast(segment) for segment in stage.segments if workload.input_elements(segment.blocks[0]))


def block_cost(name: str, workload: Workload, model: CostModel, proportion: float) -> BlockCost:
    """Cost every operation of a block, with a share of tile memory for temporaries of each.

    All that takes no time on links is costed once, whatever the links are; so is what does not depend on the times of
    supersteps and copies, the memory that it needs.
    """
    block = workload.blocks[name]

    def needed(forward: Sequence[OpCost], backward: Sequence[OpCost]) -> Needs:
        return needs(workload, name, *(tasks(costs, model.ipu.tile.count) for costs in (forward, backward)))

    def alone() -> BlockCost:
        forward = model.alone.sequence(block.forward, proportion)
        backward = model.alone.sequence(block.backward, proportion)
        return BlockCost(
            name,
            forward,
            backward,
            forward_account=total(cost.account for cost in forward),
            backward_account=total(cost.account for cost in backward),
            temporary_bytes_per_tile=max((cost.temporary_bytes_per_tile for cost in forward + backward), default=0),
            needs=model.splits.once(workload, ("needs", name, proportion), lambda: needed(forward, backward)),
        )

    cost = model.alone.once(workload, ("block", name, proportion), alone)
    if model.alone is model or not any(isinstance(each.op, ReplicaSum) for each in cost.forward + cost.backward):
        return cost
    forward, backward = (
        tuple(model.op(each.op, proportion) if isinstance(each.op, ReplicaSum) else each for each in costs)
        for costs in (cost.forward, cost.backward)
    )
    return replace(
        cost,
        forward=forward,
        backward=backward,
        forward_account=replace(cost.forward_account, all_reduce=sum(each.account.all_reduce for each in forward)),
        backward_account=replace(cost.backward_account, all_reduce=sum(each.account.all_reduce for each in backward)),
    )


def stage_cost(stage: Stage, blocks: Mapping[str, BlockCost], recomputed: tuple[Segment, ...] = ()) -> StageCost:
    """The cost of a stage from those of its blocks, some segments of it being redone."""
    backward = total(blocks[name].backward_account.times(count) for name, count in stage.blocks)
    return StageCost(
        stage, blocks, _forward(stage.segments, blocks), _forward(recomputed, blocks), backward, recomputed
    )


def _forward(segments: Sequence[Segment], blocks: Mapping[str, BlockCost]) -> Account:
    return total(blocks[name].forward_account.times(each.count) for each in segments for name in each.blocks)
