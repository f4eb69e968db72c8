"""The cost of lookups, updates and blocks of graph networks, for a reader."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import cast

from podsim.draws import SHARE
from podsim.errors import DoesNotFitError, PodsimError
from podsim.format import format_significant
from podsim.models.layers import Formats
from podsim.models.op import DTYPE_BYTES, DType
from podsim.models.schnet import InteractionShape, interaction_block
from podsim.result.evidence import residuals
from podsim.result.ranges import NORMAL_P90
from podsim.scenario import load_hardware, load_ipu
from podsim.scenario.ipu import Ipu
from podsim.scenario.software import Software
from podsim.tiles import Account, Chip, CostModel, OpCost, SlicePlan, SliceShape, planned_slices, total
from podsim.tiles.plans import LARGEST_EXTENT, SliceKind

_MICRO = 1e-6
_STACK = "pytorch_geometric_sdk_3.1"
"""The software stack whose copies between layouts a block pays."""
_LONGEST = 5
"""Operations of a block that people are shown."""
_MEASURED = {"multi-slice": "gather", "multi-update-add": "scatter-add", "schnet-block": "SchNet block"}
"""What was measured of each operation: in single precision, forwards."""
_COPIES = {"multi-slice": 1, "multi-update-add": 3, "schnet-block": 3}
"""Copies of the result that a turn of the loop makes: out of it and, of a sum, into the next and onto its zeros."""


@dataclass(frozen=True, slots=True)
class KernelCost:
    """An operation, or a block of them, called in a loop on one chip.

    Attributes:
        ipu: The chip.
        title: What it is, for people.
        asked: What it is, for programs.
        account: Tile cycles by kind, the loop included.
        loop_cycles: Those of the loop around it. [cycles]
        found: What else is known, for programs.
        lines: The same for people, as pairs.
    """

    ipu: Ipu
    title: str
    asked: dict[str, object]
    account: Account
    loop_cycles: float
    found: dict[str, object]
    lines: tuple[tuple[str, str], ...]

    @property
    def cycles(self) -> float:
        """Tile cycles, the loop included. [cycles]"""
        return self.account.cycles

    @property
    def time_s(self) -> float:
        """Its time. [s]"""
        return self.cycles / self.ipu.clock_hz

    @property
    def ends_s(self) -> tuple[float, float]:
        """The middle 80 % of what its time may be, by those kernels that were measured. [s]"""
        kind, dtype = _MEASURED[str(self.asked["operation"])], self.asked["dtype"]
        is_measured = dtype == "fp32" and not self.asked.get("backward")
        factor = math.exp(NORMAL_P90 * residuals().of_kernel(kind if is_measured else f"{kind} in {dtype}"))
        return self.time_s / factor, self.time_s * factor

    def to_dict(self) -> dict[str, object]:
        """The fields that `podsim cost … --json` prints."""
        low_s, high_s = self.ends_s
        times = {"cycles": self.cycles, "time_s": self.time_s, "loop_cycles": self.loop_cycles}
        ranges = {"ranges": {"share": SHARE, "time_s": {"low": low_s, "high": high_s}}}
        return self.asked | times | ranges | {"breakdown_cycles": dict(self.account.parts())} | self.found

    def to_text(self) -> str:
        """Lines for people: time, what else is known, cycles by kind."""
        ends = " to ".join(format_significant(end_s / _MICRO) for end_s in self.ends_s)
        time = f"{self.time_s / _MICRO:,.2f} us  ({SHARE:.0%}: {ends} us)".replace("%", " %")
        rows = [f"{self.title}, on one {self.ipu.name}", f"  {'time':<12} {time}"]
        rows.append(f"  {'cycles':<12} {self.cycles:,.0f}, {self.loop_cycles:,.0f} of them of the loop around it")
        rows += [f"  {name:<12} {value}" for name, value in self.lines]
        rows.append("  cycles by kind")
        rows += [f"    {kind:<10} {value:>12,.0f}  {value / self.cycles:>4.0%}" for kind, value in self.account.parts()]
        return "\n".join(rows) + "\n"


def cost_multi_slice(
    rows: int,
    features: int,
    lookups: int,
    dtype: str = "fp32",
    *,
    memory: float = 0.6,
    ipu: str | Ipu = "gc200",
    loop_supersteps: int = 4,
) -> KernelCost:
    """What it costs to read rows of a table.

    Args:
        rows: Of the table.
        features: Elements of a row.
        lookups: Rows to read, at random.
        dtype: Format of the elements: `fp16` or `fp32`.
        memory: Available-memory proportion, above 0 and at most 1.
        ipu: A chip, or the name or path of one.
        loop_supersteps: Supersteps of a loop around it that carries its result on; no loop if 0.

    Raises:
        PodsimError: A number is wrong.
        NoPlanError: Table, lookups or results are larger than the memory of the chip.
        DoesNotFitError: The temporaries need more than a tile has.

    >>> cost_multi_slice(256, 512, 32, ipu="bow", loop_supersteps=0).cycles
    1304.0
    """
    return _slices("multi-slice", SliceShape(rows, features, lookups), dtype, memory, ipu, loop_supersteps)


def cost_multi_update_add(
    rows: int,
    features: int,
    lookups: int,
    dtype: str = "fp32",
    *,
    memory: float = 0.6,
    ipu: str | Ipu = "gc200",
    loop_supersteps: int = 4,
) -> KernelCost:
    """What it costs to add rows to a table of zeros.

    Args:
        rows: Of the table.
        features: Elements of a row.
        lookups: Rows to add, at random places.
        dtype: Format of the elements: `fp16` or `fp32`.
        memory: Available-memory proportion, above 0 and at most 1.
        ipu: A chip, or the name or path of one.
        loop_supersteps: Supersteps of a loop around it that carries its result on; no loop if 0.

    Raises:
        PodsimError: A number is wrong.
        NoPlanError: Table, lookups or results are larger than the memory of the chip.
        DoesNotFitError: The temporaries need more than a tile has.
    """
    return _slices("multi-update-add", SliceShape(rows, features, lookups), dtype, memory, ipu, loop_supersteps)


def cost_schnet_block(
    nodes: int,
    features: int,
    edges: int,
    gaussians: int = 50,
    dtype: str = "fp32",
    *,
    backward: bool = False,
    fast_softplus: bool = False,
    memory: float = 0.6,
    ipu: str | Ipu = "gc200",
    loop_supersteps: int = 4,
) -> KernelCost:
    """What an interaction block of SchNet costs.

    Args:
        nodes: Rows of atoms.
        features: Features of atoms, and filters of edges.
        edges: Edges of all atoms.
        gaussians: Functions that a distance is expanded in.
        dtype: Format of weights and activations: `fp16` or `fp32`.
        backward: Whether the backward pass is counted too.
        fast_softplus: Whether the activation is written without PyTorch's threshold.
        memory: Available-memory proportion, above 0 and at most 1.
        ipu: A chip, or the name or path of one.
        loop_supersteps: Supersteps of a loop around it that carries its result on; no loop if 0.

    Raises:
        PodsimError: A number is wrong.
        NoPlanError: A table, its lookups or a product is larger than any memory.
    """
    _check({"nodes": nodes, "features": features, "edges": edges, "gaussians": gaussians}, dtype, memory)
    chip = load_ipu(ipu) if isinstance(ipu, str) else ipu
    format_ = cast("DType", dtype)
    shape = InteractionShape(nodes, features, edges, gaussians, fast_softplus)
    block = interaction_block(shape, Formats(format_, format_))
    stack, _ = load_hardware(_STACK, "software")
    assert isinstance(stack, Software)
    model = CostModel(chip, stack.layout_change_cycles_per_byte, dtype)
    costs = model.sequence(block.forward + (block.backward if backward else ()), memory)
    passes = "forward and backward pass" if backward else "forward pass"
    asked = {"operation": "schnet-block", "nodes": nodes, "features": features, "edges": edges, "gaussians": gaussians}
    result_bytes = nodes * features * DTYPE_BYTES[dtype] / chip.tile.count
    loop = _loop(chip, loop_supersteps, _COPIES["schnet-block"], chip.vertices.call.word_copy.added, result_bytes)
    return KernelCost(
        ipu=chip,
        title=f"interaction block of {nodes:,} nodes and {edges:,} edges with {features} features and "
        f"{gaussians} Gaussians, {dtype}, {passes}",
        asked=asked | {"dtype": dtype, "fast_softplus": fast_softplus, "backward": backward},
        account=total(cost.account for cost in costs) + loop,
        loop_cycles=loop.cycles,
        found={"operation_cycles": {cost.op.name: cost.account.cycles for cost in costs}},
        lines=_longest(costs),
    )


def _slices(
    kind: SliceKind, shape: SliceShape, dtype: str, memory: float, ipu: str | Ipu, loop_supersteps: int
) -> KernelCost:
    _check(asdict(shape), dtype, memory)
    chip = load_ipu(ipu) if isinstance(ipu, str) else ipu
    plan = planned_slices(Chip(chip), kind, shape, dtype, memory)
    held, most = plan.temporary_bytes_per_tile, chip.tile.memory_bytes
    if held > most:
        what = f"its temporaries need {held:,} B on a tile; {chip.name} has {most:,} B"
        raise DoesNotFitError(what, do="make the table, its rows or the lookups fewer")
    supersteps = max(0, loop_supersteps - plan.has_indices_on_one_tile)
    copied = chip.vertices.call.word_copy
    rate = copied.found if kind == "multi-slice" else copied.added
    loop = _loop(chip, supersteps, _COPIES[kind], rate, plan.result_bytes_per_tile)
    return KernelCost(
        ipu=chip,
        title=f"{kind} of {shape.lookups:,} rows in a table of {shape.rows:,} x {shape.features:,} {dtype}",
        asked={"operation": kind, **asdict(shape), "dtype": dtype},
        account=plan.account + loop,
        loop_cycles=loop.cycles,
        found={"tiles_used": plan.tiles_used, "split": _split(plan), "temporary_bytes_per_tile": held},
        lines=(
            ("split", ", ".join(f"{name} {parts}" for name, parts in _split(plan).items())),
            ("tiles", f"{plan.tiles_used} of {chip.tile.count}"),
            ("temporaries", f"{held:,} B on the fullest tile, {held / most:.0%} of its memory"),
        ),
    )


def _split(plan: SlicePlan) -> dict[str, int]:
    parts = {"lookups": plan.lookup_parts, "rows": plan.row_parts, "features": plan.feature_parts}
    return parts | {"turns": plan.turns}


def _longest(costs: tuple[OpCost, ...]) -> tuple[tuple[str, str], ...]:
    longest = sorted(costs, key=lambda cost: -cost.account.cycles)[:_LONGEST]
    shown = (f"{cost.account.cycles:>12,.0f} cycles  {cost.op.name}" for cost in longest)
    return (("operations", f"{len(costs)}; the longest are"), *(("", line) for line in shown))


def _loop(ipu: Ipu, supersteps: int, copies: int, rate: tuple[int, ...], result_bytes: float) -> Account:
    """What an iteration of a loop on the device adds to the operation in it.

    Args:
        ipu: The chip.
        supersteps: With one copy of the result; no loop if 0.
        copies: Of the result.
        rate: Of a copy. [cycles, B]
        result_bytes: On a tile. [B]
    """
    if not supersteps:
        return Account()
    cycles, copied = rate
    return Account(
        superstep=(supersteps + copies - 1) * ipu.superstep.overhead_cycles,
        rearrange=copies * result_bytes * cycles / copied,
    )


def _check(extents: dict[str, int], dtype: str, memory: float) -> None:
    for name, extent in extents.items():
        if not 0 < extent <= LARGEST_EXTENT:
            do = f"write a number from 1 to {LARGEST_EXTENT}"
            raise PodsimError(f"`{extent}` is out of range", where=f"--{name}", do=do)
    if dtype not in ("fp16", "fp32"):
        raise PodsimError(f"`{dtype}` is no format of rows", where="--dtype", do="use `fp16` or `fp32`")
    if not 0 < memory <= 1:
        raise PodsimError(f"`{memory:g}` is not above 0 and at most 1", where="--memory", do="write for example `0.6`")
