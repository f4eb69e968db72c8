"""What the passes of each pipeline stage cost on its IPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from podsim.cost.account import Account, total
from podsim.cost.model import CostModel, OpCost
from podsim.plan.placement import Stage
from podsim.workload import Workload


@dataclass(frozen=True, slots=True)
class BlockCost:
    """One block with the cost of every operation.

    Attributes:
        block: Its name.
        forward: Operations of the forward pass.
        backward: Operations of the backward pass.
        forward_account: Sum of the forward pass. [cycles]
        backward_account: Sum of the backward pass. [cycles]
    """

    block: str
    forward: tuple[OpCost, ...]
    backward: tuple[OpCost, ...]
    forward_account: Account
    backward_account: Account

    @property
    def temporary_bytes_per_tile(self) -> int:
        """Largest temporaries of any operation. [B]"""
        return max((cost.temporary_bytes_per_tile for cost in self.forward + self.backward), default=0)


@dataclass(frozen=True, slots=True)
class StageCost:
    """Cost of one pipeline stage for one micro-batch.

    Attributes:
        stage: The stage.
        blocks: Cost of each kind of block it holds.
        forward: The forward pass. [cycles]
        recompute: The forward pass again before the backward pass; empty without recomputation. [cycles]
        backward: The backward pass with gradient accumulation. [cycles]
    """

    stage: Stage
    blocks: Mapping[str, BlockCost]
    forward: Account
    recompute: Account
    backward: Account

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
) -> tuple[StageCost, ...]:
    """Cost every stage; blocks of IPUs with the same memory proportion are costed once."""
    known: dict[tuple[str, float], BlockCost] = {}
    costs = []
    for stage in stages:
        proportion = available_memory_proportion[stage.ipu]
        blocks = {}
        for name, _ in stage.blocks:
            key = (name, proportion)
            if key not in known:
                known[key] = _block_cost(name, workload, model, proportion)
            blocks[name] = known[key]
        costs.append(_stage_cost(stage, blocks, recompute=recompute))
    return tuple(costs)


def _block_cost(name: str, workload: Workload, model: CostModel, proportion: float) -> BlockCost:
    block = workload.blocks[name]
    forward = model.sequence(block.forward, proportion)
    backward = model.sequence(block.backward, proportion)
    sums = (total(cost.account for cost in costs) for costs in (forward, backward))
    return BlockCost(name, forward, backward, *sums)


def _stage_cost(stage: Stage, blocks: Mapping[str, BlockCost], *, recompute: bool) -> StageCost:
    forward = total(blocks[name].forward_account.times(count) for name, count in stage.blocks)
    backward = total(blocks[name].backward_account.times(count) for name, count in stage.blocks)
    return StageCost(stage, blocks, forward, forward if recompute else Account(), backward)
