"""Operations of each pass, in execution order: a timeline shows them inside a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from podsim.placement.cuts import Segment
from podsim.placement.plan import Plan
from podsim.placement.stage_cost import StageCost
from podsim.tiles.model import OpCost


@dataclass(frozen=True, slots=True)
class Repeat:
    """Sequence of operations that is repeated."""

    count: int  # number of repetitions, 1 or more
    operations: tuple[tuple[str, OpCost], ...]  # (block, operation with its cost), in order


Passes = Mapping[str, tuple[Repeat, ...]]
"""Operations of each task, by name of the task."""


def training_passes(plan: Plan) -> Passes:
    """Return the operations of the forward, recomputed and backward passes of every stage or phase."""
    stages = {str(cost.stage.index): cost for cost in plan.stages}
    return {
        f"{name} {title}": repeats
        for title, cost in ({phase.title: phase.cost for phase in plan.phases} or stages).items()
        for name, repeats in (
            ("forward", tuple(_ahead(cost, cost.stage.segments))),
            ("recompute", tuple(Repeat(each.count, cost.redone(each)) for each in cost.recomputed)),
            ("backward", tuple(_back(cost))),
        )
    }


def forward_passes(plan: Plan) -> Passes:
    """Return the operations of the forward pass of every stage."""
    return {f"stage {cost.stage.index}": tuple(_ahead(cost, cost.stage.segments)) for cost in plan.stages}


def step_passes(plan: Plan) -> Passes:
    """Return the operations of a step of text generation, by block."""
    blocks = {name: block for cost in plan.stages for name, block in cost.blocks.items()}
    return {
        name.replace("_", "-"): (Repeat(1, tuple((name, cost) for cost in block.forward)),)
        for name, block in blocks.items()
    }


def _ahead(cost: StageCost, segments: Iterable[Segment]) -> Iterator[Repeat]:
    for segment in segments:
        yield Repeat(segment.count, tuple((name, op) for name in segment.blocks for op in cost.blocks[name].forward))


def _back(cost: StageCost) -> Iterator[Repeat]:
    for segment in reversed(cost.stage.segments):
        blocks = reversed(segment.blocks)
        yield Repeat(segment.count, tuple((name, op) for name in blocks for op in cost.blocks[name].backward))
