"""The cost of lookups, updates and blocks of graph networks, for a reader."""

from __future__ import annotations

import json
from dataclasses import asdict

from podsim.errors import DoesNotFitError, PodsimError
from podsim.models.layers import Formats
from podsim.models.op import DType
from podsim.models.schnet import InteractionShape, interaction_block
from podsim.scenario import load_hardware
from podsim.scenario.ipu import Ipu
from podsim.scenario.software import Software
from podsim.tiles import Account, Chip, CostModel, SlicePlan, SliceShape, planned_slices, total
from podsim.tiles.plans import LARGEST_EXTENT, SliceKind

_MICRO = 1e-6
_STACK = "pytorch_sdk_3.1"
"""The software stack whose copies between layouts a block pays."""
_LONGEST = 5
"""Operations of a block that people are shown."""


def loop_account(ipu: Ipu, supersteps: int) -> Account:
    """What an iteration of a loop on the device adds to the operation in it."""
    return Account(superstep=supersteps * ipu.superstep.overhead_cycles)


def show_slices(
    ipu: Ipu, kind: SliceKind, shape: SliceShape, dtype: str, memory: float, loop_supersteps: int, *, as_json: bool
) -> str:
    """Plan lookups or updates and describe the plan as text or JSON.

    Args:
        ipu: The chip.
        kind: Whether rows are read or added to.
        shape: The table and its lookups.
        dtype: Format of the elements.
        memory: Available-memory proportion.
        loop_supersteps: Supersteps that the loop around the operation adds.
        as_json: Whether to print JSON.

    Raises:
        PodsimError: An extent or the memory proportion is wrong.
        DoesNotFitError: The temporaries need more than a tile has.
    """
    check_extents(asdict(shape))
    check_memory(memory)
    plan = planned_slices(Chip(ipu), kind, shape, dtype, memory)
    if plan.temporary_bytes_per_tile > ipu.tile.memory_bytes:
        need = f"its temporaries need {plan.temporary_bytes_per_tile:,} B on a tile"
        what = f"{need}; {ipu.name} has {ipu.tile.memory_bytes:,} B"
        raise DoesNotFitError(what, do="make the table, its rows or the lookups fewer")
    account = plan.account + loop_account(ipu, loop_supersteps)
    if as_json:
        return _json(ipu, account, loop_supersteps, _slice_dict(plan))
    split = (
        f"lookups {plan.lookup_parts}, rows {plan.row_parts}, features {plan.feature_parts}: "
        f"{plan.tiles_used} of {ipu.tile.count} tiles, {plan.turns} turns"
    )
    title = f"{kind} of {shape.lookups:,} rows in a table of {shape.rows:,} x {shape.features:,} {dtype}"
    share = plan.temporary_bytes_per_tile / ipu.tile.memory_bytes
    temporaries = f"{plan.temporary_bytes_per_tile:,} B on the fullest tile, {share:.0%} of its memory"
    lines = [("split", split), ("temporaries", temporaries)]
    return text(ipu, title, account, loop_supersteps, lines)


def show_block(
    ipu: Ipu,
    shape: InteractionShape,
    dtype: DType,
    memory: float,
    loop_supersteps: int,
    *,
    backward: bool,
    as_json: bool,
) -> str:
    """Cost an interaction block of SchNet and describe it as text or JSON.

    Args:
        ipu: The chip.
        shape: The block.
        dtype: Format of weights and activations.
        memory: Available-memory proportion.
        loop_supersteps: Supersteps that the loop around the block adds.
        backward: Whether the backward pass is counted too.
        as_json: Whether to print JSON.

    Raises:
        PodsimError: An extent or the memory proportion is wrong.
        NoPlanError: A table, its lookups or a product is larger than any memory.
    """
    check_extents({name: extent for name, extent in asdict(shape).items() if name != "fast_softplus"})
    check_memory(memory)
    block = interaction_block(shape, Formats(dtype, dtype))
    stack, _ = load_hardware(_STACK, "software")
    assert isinstance(stack, Software)
    model = CostModel(ipu, stack.layout_change_cycles_per_byte, dtype)
    costs = model.sequence(block.forward + (block.backward if backward else ()), memory)
    account = total(cost.account for cost in costs) + loop_account(ipu, loop_supersteps)
    if as_json:
        parts = {cost.op.name: cost.account.cycles for cost in costs}
        passes = "forward and backward" if backward else "forward"
        return _json(
            ipu,
            account,
            loop_supersteps,
            {"operation": "schnet-block", **asdict(shape), "dtype": dtype, "passes": passes, "operation_cycles": parts},
        )
    title = (
        f"interaction block of {shape.atoms:,} nodes and {shape.edges:,} edges with {shape.features} features and "
        f"{shape.gaussians} Gaussians, {dtype}, {'forward and backward pass' if backward else 'forward pass'}"
    )
    longest = sorted(costs, key=lambda cost: -cost.account.cycles)[:_LONGEST]
    lines = [("operations", str(len(costs)))]
    lines += [("", f"{cost.account.cycles:>12,.0f} cycles  {cost.op.name}") for cost in longest]
    return text(ipu, title, account, loop_supersteps, lines)


def check_extents(extents: dict[str, int]) -> None:
    """Refuse extents that are too small or beyond reason.

    Raises:
        PodsimError: One is.
    """
    for name, extent in extents.items():
        if not 0 < extent <= LARGEST_EXTENT:
            do = f"write a number from 1 to {LARGEST_EXTENT}"
            raise PodsimError(f"`{extent}` is out of range", where=f"--{name}", do=do)


def check_memory(memory: float) -> None:
    """Refuse a share of memory that is none.

    Raises:
        PodsimError: It is not above 0 and at most 1.
    """
    if not 0 < memory <= 1:
        raise PodsimError(f"`{memory:g}` is not above 0 and at most 1", where="--memory", do="write for example `0.6`")


def _slice_dict(plan: SlicePlan) -> dict[str, object]:
    return {
        "operation": plan.kind,
        **asdict(plan.shape),
        "dtype": plan.dtype,
        "tiles_used": plan.tiles_used,
        "split": {
            "lookups": plan.lookup_parts,
            "rows": plan.row_parts,
            "features": plan.feature_parts,
            "turns": plan.turns,
        },
        "temporary_bytes_per_tile": plan.temporary_bytes_per_tile,
    }


def _json(ipu: Ipu, account: Account, loop_supersteps: int, more: dict[str, object]) -> str:
    cost = {
        "cycles": account.cycles,
        "time_s": account.cycles / ipu.clock_hz,
        "loop_cycles": loop_account(ipu, loop_supersteps).cycles,
        "breakdown_cycles": dict(account.parts()),
    }
    return json.dumps(more | cost, indent=2) + "\n"


def text(ipu: Ipu, title: str, account: Account, loop_supersteps: int, lines: list[tuple[str, str]]) -> str:
    """Lines for people: time, what else is known, cycles by kind."""
    cycles, loop = account.cycles, loop_account(ipu, loop_supersteps).cycles
    time = f"{cycles / ipu.clock_hz / _MICRO:,.2f} us = {cycles:,.0f} cycles, {loop:,.0f} of them of the loop around it"
    rows = [f"{title}, on one {ipu.name}"]
    rows += [f"  {name:<12} {value}" for name, value in (("time", time), *lines)]
    rows.append("  cycles by kind")
    rows += [f"    {kind:<10} {value:>12,.0f}  {value / cycles:>4.0%}" for kind, value in account.parts()]
    return "\n".join(rows) + "\n"
