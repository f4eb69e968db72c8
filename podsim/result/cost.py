"""Answers of `podsim cost` on one chip: products, convolutions, lookups and blocks of graph networks.

Parameters of the public functions are options of the command. Planners are imported on the first call.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from podsim._version import __version__
from podsim.draws import SHARE, Z
from podsim.errors import DoesNotFitError, PodsimError
from podsim.format import format_percent
from podsim.models.op import DTYPE_BYTES, Conv, Direction, DType, result_dtype
from podsim.options import IPU, MEMORY, NOT_NEGATIVE, SHAPE, Half, Shell
from podsim.report.report import Report, Section
from podsim.report.table import Cell, Column, Table, columns
from podsim.show.answers import Answered
from podsim.units import format_bytes, format_significant

if TYPE_CHECKING:
    from podsim.scenario.ipu import Ipu
    from podsim.tiles import Account, ConvPlan, MatMulPlan
    from podsim.tiles.plans import SliceKind

_IN_GROUPS: Final = "convolution in groups"  # name of the measurements in the residuals
_TOO_LARGE_CURE: Final = "make the product smaller, or divide it among more IPUs"
_STACK: Final = "pytorch_geometric_sdk_3.1"  # stack whose layout copies a block includes
_KERNELS: Final = {
    "multi-slice": ("gather", 1),
    "multi-update-add": ("scatter-add", 3),
    "schnet-block": ("SchNet block", 3),
}
"""Measured kernel (forward, FP32) by operation, and the number of copies of the result in each iteration of the
benchmark loop."""
_SHOWN: Final = {
    "time_s": ("time", "us", 1e-6),
    "flop_per_s": ("rate", "TFLOP/s", 1e12),
    "bytes_per_s": ("bandwidth", "GB/s", 1e9),
}
"""Metrics with a range: label, displayed unit, and size of the unit in SI."""
_SIZES: Final = ("temporary_bytes_per_tile", "moved_bytes", "fullest_tile_bytes")
"""Outputs in bytes."""
_PERCENT: Final = 0.01
_MOST_TOLD, _LONGEST = 10, 5  # most members of a mapping to print, and number of the largest ones if there are more


@dataclass(frozen=True, kw_only=True, repr=False)
class Cost(Answered):
    """Predicted time of one operation, transfer or collective on an idle machine.

    Attributes:
        title: Operation and chip.
        ipu: The chip.
        cycles: Tile cycles. [cycles]
        time_s: Its time. [s]
        sigma: Standard deviation of the logarithm of predicted over measured time.
        asked: Inputs, as in the JSON.
        found: Outputs, as in the JSON.
        notes: Notes for the reader.
    """

    title: str
    ipu: Ipu
    cycles: float
    time_s: float
    sigma: float
    asked: Mapping[str, Any]
    found: Mapping[str, Any]
    notes: Sequence[str] = ()

    @property
    def ends_s(self) -> tuple[float, float]:
        """The middle 80 % of what its time may be. [s]"""
        return ends_of(self.time_s, self.sigma)

    @property
    def lines(self) -> Sequence[tuple[str, str]]:
        """Label and text of each output, the time first."""
        hidden = ("ranges", "breakdown", "notes")
        shown = [key for key, value in self.found.items() if value != "" and not key.startswith(hidden)]
        return [(_SHOWN.get(key, (key.replace("_", " "),))[0], self._value_text(key, self.found[key])) for key in shown]

    def _value_text(self, key: str, value: Any) -> str:
        if key in _SHOWN:
            _, unit, scale = _SHOWN[key]
            figure, low, high = (format_significant(end / scale) for end in (value, *ends_of(value, self.sigma)))
            return f"{figure} {unit} ({format_percent(SHARE, 0)}: {low} to {high} {unit})"
        match value:
            case dict():
                largest = sorted(value, key=lambda name: -value[name])[:_LONGEST] if len(value) > _MOST_TOLD else value
                told = ", ".join(f"{name.replace('_', ' ')} {self._value_text(key, value[name])}" for name in largest)
                return told + f", and of {len(value) - _LONGEST} more" * (len(value) > _MOST_TOLD)
            case list():
                return _by(value)
            case str():
                return value
        if key == "utilization":
            return format_percent(value, 0) if value >= _PERCENT else f"{format_significant(value / _PERCENT)} %"
        return format_bytes(value) if key in _SIZES else f"{value:,.0f}"

    def to_dict(self) -> dict[str, Any]:
        """Return the content of `--json`."""
        return {**self.asked, **self.found}

    def to_json(self) -> str:
        """Return the cost as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def to_text(self) -> str:
        """Return the cost as plain text."""
        return self.text()

    def report(self) -> Report:
        """Return the cost as a report, with the breakdown of its time."""
        in_cycles = "breakdown_cycles" in self.found
        unit, scale, digits = ("cycles", 1.0, 0) if in_cycles else ("us", 1e-6, 3)
        parts = self.found["breakdown_cycles" if in_cycles else "breakdown_s"]
        shares = {kind: part / sum(parts.values()) for kind, part in parts.items()}
        rows = [
            (kind, Cell(f"{part / scale:,.{digits}f}", part), Cell(f"{shares[kind]:.0%}", shares[kind]))
            for kind, part in parts.items()
        ]
        kind, share = columns("kind", ">share")
        kinds = Table((kind, Column(unit, is_number=True, unit="" if in_cycles else "s"), share), rows)
        sections = [Section("Cost", [Table(columns("", ""), list(self.lines)), kinds], short=True)]
        return Report(self.title, [f"podsim {__version__}"], __version__, (), notes=self.notes, sections=sections)

    def _summary_lines(self) -> Iterable[str]:
        return self.title, " ".join(self.lines[0])

    def _records(self) -> Sequence[Mapping[str, Any]]:
        return [{key: value for key, value in self.to_dict().items() if not isinstance(value, (dict, list))}]


@dataclass(frozen=True, kw_only=True, repr=False)
class MatMulCost(Cost):
    """Predicted time of one matrix product on one chip.

    Attributes:
        plan: Split over the tiles, and cycles by kind.
        flop: Number of operations; a multiply-add counts as two. [FLOP]
        flop_per_s: Rate. [FLOP/s]
    """

    plan: MatMulPlan
    flop: int
    flop_per_s: float


@dataclass(frozen=True, kw_only=True, repr=False)
class ConvolutionCost(Cost):
    """Predicted time of one pass of a convolution on one chip.

    Attributes:
        op: The pass.
        plan: Split over the tiles, and cycles by kind.
        flop: Number of operations; a multiply-add counts as two, and padding is included. [FLOP]
        flop_per_s: Rate. [FLOP/s]
    """

    op: Conv
    plan: ConvPlan
    flop: int
    flop_per_s: float


@dataclass(frozen=True, kw_only=True, repr=False)
class KernelCost(Cost):
    """Predicted time of an operation or a block of operations in a loop on one chip.

    Attributes:
        account: Tile cycles by kind, the loop included.
        loop_cycles: Cycles of the loop itself. [cycles]
    """

    account: Account
    loop_cycles: float


def cost_matmul(
    shape: Annotated[str, SHAPE],
    *,
    ipu: Annotated[str | Ipu, IPU] = "gc200",
    dtype: DType = "fp16",
    partials: Half | None = None,
    memory: Annotated[float, MEMORY] = 0.6,
) -> MatMulCost:
    """Plan one matrix product and show its predicted time.

    Args:
        shape: ROWSxINNERxCOLUMNS, or GROUPSxROWSxINNERxCOLUMNS.
        ipu: A chip: gc200, bow, c600, gc2, or a file.
        dtype: Format of the operands.
        partials: Format of the partial results; by default `fp16` on chips that are faster with it.
        memory: Available-memory proportion, above 0 and at most 1.

    Returns:
        Time and rate with their ranges, the split over tiles, and cycles by kind.

    Raises:
        PodsimError: The shape, the formats or the memory proportion are wrong.
        DoesNotFitError: The product is too large for one IPU.

    >>> round(cost_matmul("4096x1024x1024").plan.account.cycles)
    91061
    """
    from podsim.tiles import Chip, MatMulShape, planned_matmul
    from podsim.tiles.plans import LARGEST_EXTENT

    chip = _chip(ipu, memory)
    sums = _partials(chip, dtype, partials)
    extents = whole_numbers(shape, "x")
    require(
        len(extents) in (3, 4) and 0 < min(extents) <= max(extents) <= LARGEST_EXTENT,
        f"`{shape}` is not the shape of a matrix product",
        do=f"write ROWSxINNERxCOLUMNS, for example 4096x1024x1024, each from 1 to {LARGEST_EXTENT}",
    )
    groups, rows, inner, outer = extents if len(extents) == 4 else (1, *extents)
    need = inner * (rows + outer) * DTYPE_BYTES[dtype] + rows * outer * DTYPE_BYTES[result_dtype(dtype)]
    _check_room(chip, "operands and result", groups * need, chip.memory_bytes, shape, _TOO_LARGE_CURE)
    product = MatMulShape(rows, inner, outer, groups)
    plan = planned_matmul(Chip(chip), product, dtype, sums, memory)
    held = plan.temporary_bytes_per_tile
    _check_room(chip, "its temporaries on a tile", held, chip.tile.memory_bytes, shape, _TOO_LARGE_CURE)
    times = f"{groups} x " if groups > 1 else ""
    asked = {"rows": rows, "inner": inner, "columns": outer, "groups": groups, "dtype": dtype, "partials": sums}
    parts = {"groups": plan.group_parts, "rows": plan.row_parts, "inner": plan.inner_parts}
    slices = {"column_slices": plan.column_slices, "inner_slices": plan.inner_slices}
    split = {**parts, "columns": plan.column_parts, **slices}
    return MatMulCost(
        title=f"{times}({rows}, {inner}) x ({inner}, {outer}) {dtype}, partials {sums}, on one {chip.name}",
        asked=asked,
        **_on_chip(chip, plan.account, f"GEMM {dtype}", plan, product.flop, split=split),
    )


def cost_convolution(
    image: str | int | Sequence[int],
    in_channels: Annotated[int, Shell(("--in",))],
    out_channels: Annotated[int, Shell(("--out",))],
    filter: str | int | Sequence[int] = 1,  # noqa: A002
    *,
    stride: str | int | Sequence[int] = 1,
    padding: str | int = "same",
    groups: int = 1,
    batch: int = 1,
    direction: Direction = "forward",
    dtype: DType = "fp16",
    partials: Half | None = None,
    memory: Annotated[float, MEMORY] = 0.6,
    ipu: Annotated[str | Ipu, IPU] = "gc200",
) -> ConvolutionCost:
    """Plan one pass of a convolution and show its predicted time.

    Args:
        image: Height and width of the input: `56`, or `56x48`.
        in_channels: Input channels of all groups together.
        out_channels: Output channels of all groups together.
        filter: Height and width of the filter: `3`, or `1x7`.
        stride: Distance between output positions: `2`, or `2x1`.
        padding: `same` for as many outputs as input positions over the stride, `valid` for none, or a width of zeros.
        groups: Groups; as many as channels for a depthwise convolution.
        batch: Images.
        direction: Pass to cost.
        dtype: Format of the operands.
        partials: Format of the partial results; by default `fp16` on chips that are faster with it.
        memory: Available-memory proportion, above 0 and at most 1.
        ipu: A chip: gc200, bow, c600, gc2, or a file.

    Note:
        In Python, `image`, `filter` and `stride` may also be two numbers.

    Returns:
        Time and rate with their ranges, the split over tiles, and cycles by kind.

    Raises:
        PodsimError: A number or a format is wrong.
        DoesNotFitError: Operands and result are larger than the memory of the chip.

    >>> cost = cost_convolution(56, 64, 64, 3, batch=16, ipu="gc2")
    >>> f"{cost.op.flop / 1e9:.2f} GFLOP at {cost.flop_per_s / 1e12:.0f} TFLOP/s"
    '3.70 GFLOP at 69 TFLOP/s'
    """
    from podsim.result.evidence import residuals
    from podsim.tiles import Chip, conv_shape, planned_conv

    chip = _chip(ipu, memory)
    sums = _partials(chip, dtype, partials)
    is_known = isinstance(padding, int) or padding in ("same", "valid") or padding.isdecimal()
    require(is_known, f"`{padding}` is no padding", "--padding", do="use `same`, `valid`, or a number")
    sizes, kernel, steps = _two("image", image), _two("filter", filter), _two("stride", stride)
    _check_extents({"in": in_channels, "out": out_channels, "groups": groups, "batch": batch})
    what = f"{groups} groups do not divide {in_channels} channels in and {out_channels} out"
    require(in_channels % groups == out_channels % groups == 0, what, "--groups", do="use a divisor of both")
    axes = list(zip(sizes, kernel, steps, strict=True))
    zeros = 0 if padding in ("same", "valid") else int(padding)
    output = tuple((size + 2 * zeros - width) // step + 1 for size, width, step in axes)
    if padding == "same":
        output = tuple(-(-size // step) for size, _, step in axes)
    what = f"a filter of {_by(kernel)} does not fit into {_by(sizes)}"
    require(min(output) > 0, what, "--filter", do="use a smaller filter, or more padding")
    shapes: dict[str, tuple[int, ...]] = {
        "forward": (batch, out_channels, *output),
        "input_grad": (batch, in_channels, *sizes),
        "weight_grad": (out_channels, in_channels // groups, *kernel),
    }
    op = Conv(
        name="convolution",
        shape=shapes[direction],
        dtype=dtype,
        batch=batch,
        in_channels=in_channels,
        out_channels=out_channels,
        group_count=groups,
        input_size=sizes,
        output_size=output,
        kernel=kernel,
        stride=steps,
        direction=direction,
    )
    need = (sum(op.operand_elements) + op.element_count) * DTYPE_BYTES[dtype]
    cure = "make the batch smaller, or divide it among more IPUs"
    _check_room(chip, "operands and result", need, chip.memory_bytes, "--batch", cure)
    plan = planned_conv(Chip(chip), conv_shape(op), dtype, sums, memory)
    grouped, measured, notes = "", "convolution", []
    if groups > 1:
        grouped, measured = f", {groups} groups", _IN_GROUPS
        notes.append(
            f"convolutions in groups that were measured scatter by {residuals().kernels[_IN_GROUPS]:.0%} (one standard "
            "deviation; GC2 with SDK 1.0): whether groups are joined to fill the matrix unit differs by version of the "
            "library"
        )
    if direction != "forward":
        measured = direction
        notes.append("no pass in this direction was measured alone: a step beyond the widest scatter")
    channels = {"in_channels": in_channels, "out_channels": out_channels, "groups": groups}
    extents = {"image": list(sizes), "filter": list(kernel), "stride": list(steps), "output": list(output)}
    parts = {"groups": plan.group_parts, "batch": plan.batch_parts, "field": list(plan.field_parts)}
    slices = {"in_slices": plan.in_slices, "out_slices": plan.out_slices}
    inner = {"kernel": plan.kernel_parts, "in_channels": plan.in_parts, "out_channels": plan.out_parts}
    split = {**parts, **inner, **slices}
    method = {"vertex": plan.method.vertex, "transform": plan.method.transform}
    return ConvolutionCost(
        title=f"convolution {_by(kernel)} of {batch} x {in_channels} x {_by(sizes)}, {out_channels} channels out, "
        f"stride {_by(steps)}{grouped}, {direction.replace('_', ' ')}, {dtype}, partials {sums}, on one {chip.name}",
        asked={"direction": direction, "batch": batch, **channels, **extents, "dtype": dtype, "partials": sums},
        op=op,
        notes=notes,
        **_on_chip(chip, plan.account, measured, plan, op.flop, **method, split=split, notes=notes),
    )


def cost_multi_slice(
    rows: int,
    features: int,
    lookups: int,
    dtype: Half = "fp32",
    *,
    memory: Annotated[float, MEMORY] = 0.6,
    ipu: Annotated[str | Ipu, IPU] = "gc200",
    loop_supersteps: Annotated[int, NOT_NEGATIVE] = 4,
) -> KernelCost:
    """Plan the lookup of rows of a table (a gather) and show its predicted time.

    Args:
        rows: Rows of the table.
        features: Elements of a row.
        lookups: Rows to read, at random places.
        dtype: Format of the elements.
        memory: Available-memory proportion, above 0 and at most 1.
        ipu: A chip: gc200, bow, c600, gc2, or a file.
        loop_supersteps: Supersteps of a loop around the operation that carries its result on; no loop if 0.

    Returns:
        Time with its range, the split over tiles, and cycles by kind, the loop included.

    Raises:
        PodsimError: A number is wrong.
        NoPlanError: Table, lookups or results are larger than the memory of the chip.
        DoesNotFitError: The temporaries need more than a tile has.

    >>> cost_multi_slice(256, 512, 32, ipu="bow", loop_supersteps=0).cycles
    1304.0
    """
    extents = {"rows": rows, "features": features, "lookups": lookups}
    return _slices("multi-slice", extents, dtype, memory, ipu, loop_supersteps)


def cost_multi_update_add(
    rows: int,
    features: int,
    lookups: int,
    dtype: Half = "fp32",
    *,
    memory: Annotated[float, MEMORY] = 0.6,
    ipu: Annotated[str | Ipu, IPU] = "gc200",
    loop_supersteps: Annotated[int, NOT_NEGATIVE] = 4,
) -> KernelCost:
    """Plan the addition of rows to a table of zeros (a scatter-add) and show its predicted time.

    Args:
        rows: Rows of the table.
        features: Elements of a row.
        lookups: Rows to add, at random places.
        dtype: Format of the elements.
        memory: Available-memory proportion, above 0 and at most 1.
        ipu: A chip: gc200, bow, c600, gc2, or a file.
        loop_supersteps: Supersteps of a loop around the operation that carries its result on; no loop if 0.

    Returns:
        Time with its range, the split over tiles, and cycles by kind, the loop included.

    Raises:
        PodsimError: A number is wrong.
        NoPlanError: Table, lookups or results are larger than the memory of the chip.
        DoesNotFitError: The temporaries need more than a tile has.
    """
    extents = {"rows": rows, "features": features, "lookups": lookups}
    return _slices("multi-update-add", extents, dtype, memory, ipu, loop_supersteps)


def cost_schnet_block(
    nodes: int,
    features: int,
    edges: int,
    gaussians: int = 50,
    dtype: Half = "fp32",
    *,
    backward: bool = False,
    fast_softplus: bool = False,
    memory: Annotated[float, MEMORY] = 0.6,
    ipu: Annotated[str | Ipu, IPU] = "gc200",
    loop_supersteps: Annotated[int, NOT_NEGATIVE] = 4,
) -> KernelCost:
    """Show the predicted time of an interaction block of SchNet: edge filters, messages and dense layers of atoms.

    Args:
        nodes: Rows of atoms.
        features: Features of atoms, and filters of edges.
        edges: Edges of all atoms.
        gaussians: Functions that a distance is expanded in.
        dtype: Format of weights and activations.
        backward: Count the backward pass too.
        fast_softplus: Write the activation without PyTorch's threshold.
        memory: Available-memory proportion, above 0 and at most 1.
        ipu: A chip: gc200, bow, c600, gc2, or a file.
        loop_supersteps: Supersteps of a loop around the operation that carries its result on; no loop if 0.

    Returns:
        Time with its range, cycles of each operation, and cycles by kind, the loop included.

    Raises:
        PodsimError: A number is wrong.
        NoPlanError: A table, its lookups or a product is larger than any memory.
    """
    from podsim.models.layers import Formats
    from podsim.models.schnet import InteractionShape, interaction_block
    from podsim.tiles import CostModel, total

    extents = {"nodes": nodes, "features": features, "edges": edges, "gaussians": gaussians}
    chip = _kernel_chip(ipu, memory, dtype, extents)
    block = interaction_block(InteractionShape(nodes, features, edges, gaussians, fast_softplus), Formats(dtype, dtype))
    model = CostModel(chip, hardware(_STACK, "software").layout_change_cycles_per_byte, dtype)
    costs = model.sequence(block.forward + (block.backward if backward else ()), memory)
    passes = "forward and backward pass" if backward else "forward pass"
    result_bytes = nodes * features * DTYPE_BYTES[dtype] / chip.tile.count
    return _looped(
        f"interaction block of {nodes:,} nodes and {edges:,} edges with {features} features and "
        f"{gaussians} Gaussians, {dtype}, {passes}",
        {"operation": "schnet-block", **extents, "dtype": dtype, "fast_softplus": fast_softplus, "backward": backward},
        (chip, total(cost.account for cost in costs), loop_supersteps, result_bytes),
        operation_cycles={cost.op.name: cost.account.cycles for cost in costs},
    )


def hardware(given: Any, kind: str) -> Any:
    """Return a chip, pod or software stack; a name is looked up, an object returned unchanged."""
    from podsim.scenario.load import hardware_named

    return hardware_named(given, kind) if isinstance(given, str) else given


def whole_numbers(given: str | int | Sequence[int], between: str) -> tuple[int, ...]:
    """Parse numbers with a sign between them, return none for other text; return given numbers unchanged.

    >>> whole_numbers("1x7", "x"), whole_numbers(3, "x"), whole_numbers("0,a", ",")
    ((1, 7), (3,), ())
    """
    if not isinstance(given, str):
        return (given,) if isinstance(given, int) else tuple(given)
    texts = [text.strip() for text in given.lower().split(between)]
    return tuple(map(int, texts)) if all(re.fullmatch(r"\d{1,9}", text) for text in texts) else ()


def require(
    holds: bool, what: str, where: str | None = None, *, do: str, error: type[PodsimError] = PodsimError
) -> None:
    """Refuse what was asked for, with its place and a cure, unless something holds."""
    if not holds:
        raise error(what, where=where, do=do)


def ranges_of(sigma: float, **figures: float) -> dict[str, Any]:
    """Return metrics, then their ranges, in the form of the JSON."""
    ends = {key: dict(zip(("low", "high"), ends_of(value, sigma), strict=True)) for key, value in figures.items()}
    return {**figures, "ranges": {"share": SHARE, **ends}}


def ends_of(value: float, sigma: float) -> tuple[float, float]:
    """Return the ends of the 80 % prediction interval of a time or rate, in its unit."""
    factor = math.exp(Z * sigma)
    return value / factor, value * factor


def _by(extents: Iterable[int]) -> str:
    return "x".join(map(str, extents))


def _two(name: str, given: str | int | Sequence[int]) -> tuple[int, int]:
    """Return height and width from one number or two."""
    axes = whole_numbers(given, "x")
    what = f"`{_by(axes) or given}` is not a number, or a height and a width"
    require(len(axes) in (1, 2), what, f"--{name}", do="write for example `3` or `1x7`")
    for axis in axes:
        _check_extents({name: axis})
    return axes[0], axes[-1]


def _check_extents(extents: Mapping[str, int]) -> None:
    from podsim.tiles.plans import LARGEST_EXTENT

    for name, extent in extents.items():
        what = f"`{extent}` is not from 1 to {LARGEST_EXTENT}"
        require(0 < extent <= LARGEST_EXTENT, what, f"--{name}", do="write for example `64`")


def _check_room(ipu: Ipu, what: str, need: int, room: int, where: str | None, do: str) -> None:
    said = f"{what} need {format_bytes(need)}; {ipu.name} has {format_bytes(room)}"
    require(need <= room, said, where, do=do, error=DoesNotFitError)


def _chip(given: str | Ipu, memory: float) -> Ipu:
    require(0 < memory <= 1, f"`{memory:g}` is not above 0 and at most 1", "--memory", do="write for example `0.6`")
    ipu: Ipu = hardware(given, "ipu")
    return ipu


def _partials(ipu: Ipu, dtype: str, partials: str | None) -> str:
    """Return the format of partial results: FP16 where the matrix unit computes more of them at once."""
    gains = ipu.amp.half_conv_units > ipu.amp.half_partials_float_conv_units
    sums = partials or ("fp32" if dtype == "fp32" or (dtype == "fp16" and not gains) else "fp16")
    what, cure = f"{dtype} operands have no {sums} partials", "leave it out, or use fp16 operands"
    require((dtype, sums) not in (("fp32", "fp16"), ("fp8", "fp32")), what, "--partials", do=cure)
    what, cure = f"the matrix unit of {ipu.name} takes no FP8", "use fp16, or a chip that does: `--ipu ipu_c600`"
    require(dtype != "fp8" or ipu.amp.fp8 is not None, what, "--dtype", do=cure)
    return sums


def _on_chip(
    ipu: Ipu, account: Account, measured_as: str, plan: Any = None, flop: int = 0, **more: Any
) -> dict[str, Any]:
    """Return the fields that all costs on one chip share, with a rate if the matrix unit is used."""
    from podsim.result.evidence import residuals

    sigma, cycles = residuals().kernel_sigma(measured_as), account.cycles
    made: dict[str, Any] = {"ipu": ipu, "cycles": cycles, "time_s": cycles / ipu.clock_hz, "sigma": sigma}
    figures, found = {"time_s": made["time_s"]}, {"cycles": cycles}
    if flop:
        figures["flop_per_s"] = flop * ipu.clock_hz / cycles
        found["utilization"] = figures["flop_per_s"] / ipu.peak_flop_per_s(plan.dtype)
        made |= {"flop": flop, "flop_per_s": figures["flop_per_s"], "plan": plan}
    if plan is not None:
        found |= {"tiles_used": plan.tiles_used, "temporary_bytes_per_tile": plan.temporary_bytes_per_tile}
    breakdown = {"breakdown_cycles": dict(account.parts())}
    return made | {"found": {**ranges_of(sigma, **figures), **found, **more, **breakdown}}


def _kernel_chip(given: str | Ipu, memory: float, dtype: str, extents: Mapping[str, int]) -> Ipu:
    _check_extents(extents)
    require(dtype in ("fp16", "fp32"), f"`{dtype}` is no format of rows", "--dtype", do="use `fp16` or `fp32`")
    return _chip(given, memory)


def _slices(
    kind: SliceKind, extents: dict[str, int], dtype: Half, memory: float, ipu: str | Ipu, loop_supersteps: int
) -> KernelCost:
    """Return the cost of lookups or updates of rows, whose loop needs no superstep for indices on one tile."""
    from podsim.tiles import Chip, SliceShape, planned_slices

    chip, shape = _kernel_chip(ipu, memory, dtype, extents), SliceShape(**extents)
    plan = planned_slices(Chip(chip), kind, shape, dtype, memory)
    held, cure = plan.temporary_bytes_per_tile, "make the table, its rows or the lookups fewer"
    _check_room(chip, "its temporaries on a tile", held, chip.tile.memory_bytes, None, cure)
    split = {"lookups": plan.lookup_parts, "rows": plan.row_parts, "features": plan.feature_parts, "turns": plan.turns}
    supersteps = max(0, loop_supersteps - plan.has_indices_on_one_tile)
    return _looped(
        f"{kind} of {shape.lookups:,} rows in a table of {shape.rows:,} x {shape.features:,} {dtype}",
        {"operation": kind, **extents, "dtype": dtype},
        (chip, plan.account, supersteps, plan.result_bytes_per_tile),
        plan,
        split=split,
    )


def _looped(
    title: str, asked: Mapping[str, Any], work: tuple[Ipu, Account, int, float], plan: Any = None, **found: Any
) -> KernelCost:
    """Return the cost of a kernel inside a benchmark loop, which adds supersteps and copies of a tile's result."""
    from podsim.tiles import Account

    ipu, account, supersteps, result_bytes = work
    measured, copies = _KERNELS[asked["operation"]]
    if asked["dtype"] != "fp32" or asked.get("backward"):
        measured += f" in {asked['dtype']}"
    loop = Account()
    if supersteps:
        word_copy = ipu.vertices.call.word_copy
        copy_cycles, copied_bytes = word_copy.found if copies == 1 else word_copy.added
        overhead = (supersteps + copies - 1) * ipu.superstep.overhead_cycles
        loop = Account(superstep=overhead, rearrange=copies * result_bytes * copy_cycles / copied_bytes)
    account += loop
    made = _on_chip(ipu, account, measured, plan, loop_cycles=loop.cycles, **found)
    title += f", on one {ipu.name}"
    return KernelCost(title=title, asked=asked, account=account, loop_cycles=loop.cycles, **made)
