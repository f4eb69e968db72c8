"""A model as a chain of blocks with what each costs and holds, for one micro-batch size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from podsim.models import Workload
from podsim.placement.alive import Needs, Task, needs
from podsim.placement.layout import ON_CHIP, Job
from podsim.placement.search.split import Costs
from podsim.placement.stage_cost import BlockCost, block_cost, state_bytes
from podsim.tiles.model import CostModel


@dataclass(frozen=True, slots=True)
class Chain:
    """Blocks in order, costed for several shares of memory for temporaries.

    Attributes:
        workload: The model.
        proportions: The shares, smallest first.
        forward: Forward pass by share and block. [cycles]
        backward: Backward pass by share and block. [cycles]
        needs: For each share, memory that each block needs while it runs.
    """

    workload: Workload
    proportions: tuple[float, ...]
    forward: Costs
    backward: Costs
    needs: tuple[dict[str, Needs], ...]

    def share_of(self, proportion: float) -> int:
        """Index of the costs with a share of memory; one that is left out costs as much as the next smaller one."""
        return max(index for index, each in enumerate(self.proportions) if each <= proportion)

    @property
    def order(self) -> tuple[str, ...]:
        """Names of the blocks."""
        return self.workload.order

    def per_block(self, value: Callable[[str], float]) -> Costs:
        """A value of every block in order."""
        values = {name: value(name) for name in self.workload.blocks}
        return np.array([values[name] for name in self.order], dtype=float)

    @property
    def input_bytes(self) -> Costs:
        """What each block reads from the one before it. [B]"""
        return self.per_block(self.workload.input_elements) * self.workload.activation_bytes

    @property
    def stashed_bytes(self) -> Costs:
        """What is kept of that for the backward pass. [B]"""
        return self.per_block(self.workload.input_elements) * self.workload.stash_bytes

    def held_bytes(self, job: Job) -> Costs:
        """Weights, accumulators and optimizer state on chip of every range of blocks. [B]"""
        one = job.precision.weight_bytes(1) + job.precision.accumulator_bytes

        def held(name: str) -> float:
            sizes = [each.element_count for each in self.workload.blocks[name].parameters if each.tied_to is None]
            on_chip = job.layout.optimizer_storage == ON_CHIP
            return sum(sizes) * one + (state_bytes(sizes, job) if on_chip else 0)

        return ranges(self.per_block(held))

    def least_cycles(self, *, recompute: bool) -> tuple[float, float]:
        """Cycles of all blocks, and of the longest, with unlimited memory. [cycles]"""
        cycles = self.forward[-1] * (2 if recompute else 1) + self.backward[-1]
        return float(cycles.sum()), float(cycles.max())


def is_tied(workload: Workload) -> bool:
    """Whether the last block shares weights with the first, so that both belong on one IPU."""
    first, last = workload.order[0], workload.blocks[workload.order[-1]]
    owners = [parameter.tied_to.split("/")[0] for parameter in last.parameters if parameter.tied_to is not None]
    return first in owners


def ranges(values: Costs) -> Costs:
    """Sums over blocks `i` up to `j` at `[…, i, j]`.

    >>> ranges(np.array([1.0, 10.0]))[0]
    array([ 0.,  1., 11.])
    """
    total = np.concatenate([np.zeros((*values.shape[:-1], 1)), values.cumsum(axis=-1)], axis=-1)
    return np.asarray(total[..., None, :] - total[..., :, None])


def chain_of(workload: Workload, model: CostModel, proportions: Sequence[float]) -> Chain:
    """Cost every block with every share of memory.

    A share that the fastest plans do not use up costs what the next larger one does, and is left out.
    """
    costed: list[tuple[float, dict[str, BlockCost]]] = []
    for proportion in sorted(proportions, reverse=True):
        if costed and _largest(costed[-1][1]) <= proportion * model.ipu.tile.memory_bytes:
            costed[-1] = (proportion, costed[-1][1])
            continue
        costed.append((proportion, {name: block_cost(name, workload, model, proportion) for name in workload.blocks}))
    costed.reverse()
    return Chain(
        workload=workload,
        proportions=tuple(proportion for proportion, _ in costed),
        forward=np.array([[costs[name].forward_account.cycles for name in workload.order] for _, costs in costed]),
        backward=np.array([[costs[name].backward_account.cycles for name in workload.order] for _, costs in costed]),
        needs=tuple({name: cost.needs for name, cost in costs.items()} for _, costs in costed),
    )


def bare_chain(workload: Workload) -> Chain:
    """Blocks whose operations take no time and need no temporaries."""
    nothing = np.zeros((1, len(workload.order)))
    bare = {
        name: needs(workload, name, *([Task(op) for op in ops] for ops in (block.forward, block.backward)))
        for name, block in workload.blocks.items()
    }
    return Chain(workload, (1.0,), nothing, nothing, (bare,))


def _largest(costs: dict[str, BlockCost]) -> int:
    """Temporaries on the fullest tile. [B]"""
    return max(cost.temporary_bytes_per_tile for cost in costs.values())
