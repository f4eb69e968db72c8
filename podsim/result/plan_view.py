"""The plan of one matrix product or convolution, for a reader."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from podsim.errors import DoesNotFitError, PodsimError
from podsim.models.op import DTYPE_BYTES, Conv, Direction, DType, result_dtype
from podsim.report.report import Tile
from podsim.report.table import Table
from podsim.result.cost import Costed, cycles_by_kind, off_by
from podsim.result.evidence import residuals
from podsim.scenario import load_ipu
from podsim.scenario.ipu import Ipu
from podsim.tiles import Chip, ConvPlan, MatMulPlan, MatMulShape, conv_shape, planned_conv, planned_matmul
from podsim.tiles.plans import LARGEST_EXTENT
from podsim.units import format_bytes, format_significant

_SHAPE = re.compile(r"(?:(\d+)x)?(\d+)x(\d+)x(\d+)", re.IGNORECASE)
_TERA = 1e12
_TOO_LARGE_CURE = "make the product smaller, or divide it among more IPUs"


def parse_shape(text: str) -> MatMulShape:
    """A shape from `ROWSxINNERxCOLUMNS` or `GROUPSxROWSxINNERxCOLUMNS`.

    >>> parse_shape("4096x1024x512")
    MatMulShape(rows=4096, inner=1024, columns=512, groups=1)
    """
    match = _SHAPE.fullmatch(text.strip())
    extents = [int(extent or 1) for extent in match.groups()] if match else []
    if not extents or not all(0 < extent <= LARGEST_EXTENT for extent in extents):
        raise PodsimError(
            f"`{text}` is not the shape of a matrix product",
            do=f"write ROWSxINNERxCOLUMNS, for example 4096x1024x1024, each from 1 to {LARGEST_EXTENT}",
        )
    groups, rows, inner, columns = extents
    return MatMulShape(rows, inner, columns, groups)


def cost_matmul(ipu: Ipu, shape: str, dtype: str, partials: str, memory: float) -> MatMulCost:
    """What a matrix product costs on one chip.

    Raises:
        PodsimError: The shape, the formats or the memory proportion are wrong.
        DoesNotFitError: The product is too large for one IPU.
    """
    _check_formats(ipu, dtype, partials, memory)
    product = parse_shape(shape)
    _check_operands(ipu, product, dtype, shape)
    plan = planned_matmul(Chip(ipu), product, dtype, partials, memory)
    if plan.temporary_bytes_per_tile > ipu.tile.memory_bytes:
        need = f"its temporaries need {plan.temporary_bytes_per_tile:,} B on a tile"
        raise DoesNotFitError(f"{need}; {ipu.name} has {ipu.tile.memory_bytes:,} B", where=shape, do=_TOO_LARGE_CURE)
    return MatMulCost(ipu, plan, residuals().of_kernel(f"GEMM {dtype}"))


def partials_of(ipu: Ipu, dtype: str) -> str:
    """Format of partial results if none is asked for: half where the matrix unit computes more of them at once."""
    gains = ipu.amp.half_conv_units > ipu.amp.half_partials_float_conv_units
    return "fp32" if dtype == "fp32" or (dtype == "fp16" and not gains) else "fp16"


def _check_formats(ipu: Ipu, dtype: str, partials: str, memory: float) -> None:
    if not 0 < memory <= 1:
        raise PodsimError(f"`{memory:g}` is not above 0 and at most 1", where="--memory", do="write for example `0.6`")
    if (dtype, partials) == ("fp32", "fp16"):
        raise PodsimError(
            "fp32 operands have no fp16 partials", where="--partials", do="leave it out, or use fp16 operands"
        )
    if (dtype, partials) == ("fp8", "fp32"):
        raise PodsimError("fp8 operands have no fp32 partials", where="--partials", do="leave it out")
    if dtype == "fp8" and ipu.amp.fp8 is None:
        what, do = f"the matrix unit of {ipu.name} takes no FP8", "use fp16, or a chip that does: `--ipu ipu_c600`"
        raise PodsimError(what, where="--dtype", do=do)


def _check_operands(ipu: Ipu, shape: MatMulShape, dtype: str, written: str) -> None:
    operands = shape.inner * (shape.rows + shape.columns) * DTYPE_BYTES[dtype]
    need = shape.groups * (operands + shape.rows * shape.columns * DTYPE_BYTES[result_dtype(dtype)])
    if need > ipu.memory_bytes:
        what = f"operands and result need {format_bytes(need)}; {ipu.name} has {format_bytes(ipu.memory_bytes)}"
        raise DoesNotFitError(what, where=written, do=_TOO_LARGE_CURE)


class Planned(Costed):
    """A plan of one operation on one chip, whose cycles are known by kind."""

    __slots__ = ()
    ipu: Ipu
    sigma: float
    """Standard deviation of the logarithm of predicted over measured time."""

    @property
    @abstractmethod
    def the_plan(self) -> MatMulPlan | ConvPlan:
        """How it is split, and its cycles by kind."""

    @property
    @abstractmethod
    def flop(self) -> int:
        """Its work, a multiply-add being two operations and padding counted as work. [FLOP]"""

    @property
    def cycles(self) -> float:
        """Tile cycles. [cycles]"""
        return self.the_plan.account.cycles

    @property
    def time_s(self) -> float:
        """Its time. [s]"""
        return self.cycles / self.ipu.clock_hz

    @property
    def factor(self) -> float:
        """How far its time may be off."""
        return off_by(self.sigma)

    @property
    def flop_per_s(self) -> float:
        """Its rate. [FLOP/s]"""
        return self.flop * self.ipu.clock_hz / self.cycles

    def where(self) -> str:
        """Formats and chip."""
        return f"{self.the_plan.dtype}, partials {self.the_plan.partials}, on one {self.ipu.name}"

    def figures(self) -> Iterable[Tile]:
        """Cycles, rate, how it is split, and its memory."""
        plan, share = self.the_plan, 100 * self.flop_per_s / self.ipu.peak_flop_per_s(self.the_plan.dtype)
        peak = f"{f'{share:.0f}' if share >= 1 else format_significant(share)} % of peak"
        yield Tile("Cycles", f"{self.cycles:,.0f}")
        yield self.figure("Rate", self.flop_per_s / _TERA, "TFLOP/s", peak)
        yield from self.split()
        held = plan.temporary_bytes_per_tile
        share_held = f"{held / self.ipu.tile.memory_bytes:.0%} of its memory"
        yield Tile("Temporaries", f"{held:,} B on the fullest tile, {share_held}")

    @abstractmethod
    def split(self) -> Iterable[Tile]:
        """How it is split."""

    def parts(self) -> Table:
        """Tile cycles by kind."""
        return cycles_by_kind(self.the_plan.account.parts(), self.cycles)

    def rates(self) -> dict[str, object]:
        """Times and rates, as `--json` prints them."""
        return {
            "cycles": self.cycles,
            "time_s": self.time_s,
            "flop_per_s": self.flop_per_s,
            "ranges": self.ranges(time_s=self.time_s, flop_per_s=self.flop_per_s),
            "utilization": self.flop_per_s / self.ipu.peak_flop_per_s(self.the_plan.dtype),
            "tiles_used": self.the_plan.tiles_used,
        }

    def held(self) -> dict[str, object]:
        """Cycles by kind, and memory, as `--json` prints them."""
        plan = self.the_plan
        breakdown = dict(plan.account.parts())
        return {"breakdown_cycles": breakdown, "temporary_bytes_per_tile": plan.temporary_bytes_per_tile}


@dataclass(frozen=True, slots=True, repr=False)
class MatMulCost(Planned):
    """A matrix product on one chip."""

    ipu: Ipu
    plan: MatMulPlan
    sigma: float

    @property
    def the_plan(self) -> MatMulPlan:
        """How it is split, and its cycles by kind."""
        return self.plan

    @property
    def flop(self) -> int:
        """Its work. [FLOP]"""
        return self.plan.shape.flop

    def heading(self) -> str:
        """Its shape."""
        shape = self.plan.shape
        groups = f"{shape.groups} x " if shape.groups > 1 else ""
        return f"{groups}({shape.rows}, {shape.inner}) x ({shape.inner}, {shape.columns})"

    def split(self) -> Iterable[Tile]:
        """Among tiles, and one after the other."""
        plan = self.plan
        parts = f"rows {plan.row_parts}, inner {plan.inner_parts}, columns {plan.column_parts}, groups"
        yield Tile("Split", f"{parts} {plan.group_parts}: {plan.tiles_used} of {self.ipu.tile.count} tiles")
        yield Tile("Serial", f"{plan.column_slices} column slices, {plan.inner_slices} inner slices")

    def to_dict(self) -> dict[str, object]:
        """What `podsim cost matmul --json` prints."""
        plan = self.plan
        return {
            "rows": plan.shape.rows,
            "inner": plan.shape.inner,
            "columns": plan.shape.columns,
            "groups": plan.shape.groups,
            "dtype": plan.dtype,
            "partials": plan.partials,
            **self.rates(),
            "split": {
                "groups": plan.group_parts,
                "rows": plan.row_parts,
                "inner": plan.inner_parts,
                "columns": plan.column_parts,
                "column_slices": plan.column_slices,
                "inner_slices": plan.inner_slices,
            },
            **self.held(),
        }


@dataclass(frozen=True, slots=True, repr=False)
class ConvolutionCost(Planned):
    """One pass of a convolution on one chip.

    Attributes:
        ipu: The chip.
        op: The pass.
        plan: How it is split, and its cycles by kind.
        sigma: Standard deviation of the logarithm of predicted over measured time.
    """

    ipu: Ipu
    op: Conv
    plan: ConvPlan
    sigma: float

    @property
    def the_plan(self) -> ConvPlan:
        """How it is split, and its cycles by kind."""
        return self.plan

    @property
    def flop(self) -> int:
        """Its work. [FLOP]"""
        return self.op.flop

    def heading(self) -> str:
        """Its shape, and which pass it is."""
        op = self.op
        image, kernel, stride = ("x".join(map(str, axes)) for axes in (op.input_size, op.kernel, op.stride))
        grouped = f", {op.group_count} groups" if op.group_count > 1 else ""
        shape = f"convolution {kernel} of {op.batch} x {op.in_channels} x {image}, {op.out_channels} channels out"
        return f"{shape}, stride {stride}{grouped}, {op.direction.replace('_', ' ')}"

    def split(self) -> Iterable[Tile]:
        """The vertex, parts among tiles, and one after the other."""
        plan = self.plan
        field = "x".join(map(str, plan.field_parts)) or "1"
        yield Tile("Vertex", f"{plan.method.vertex}{', ' * bool(plan.method.transform)}{plan.method.transform}")
        parts = f"batch {plan.batch_parts}, field {field}, kernel {plan.kernel_parts}, channels in {plan.in_parts}, out"
        tiles = f"{plan.tiles_used} of {self.ipu.tile.count} tiles"
        yield Tile("Split", f"{parts} {plan.out_parts}, groups {plan.group_parts}: {tiles}")
        yield Tile("Serial", f"channels out in {plan.out_slices}, channels in in {plan.in_slices}")

    def to_dict(self) -> dict[str, object]:
        """What `podsim cost convolution --json` prints."""
        op, plan = self.op, self.plan
        return {
            "direction": op.direction,
            "batch": op.batch,
            "in_channels": op.in_channels,
            "out_channels": op.out_channels,
            "groups": op.group_count,
            "image": list(op.input_size),
            "filter": list(op.kernel),
            "stride": list(op.stride),
            "output": list(op.output_size),
            "dtype": plan.dtype,
            "partials": plan.partials,
            **self.rates(),
            "vertex": plan.method.vertex,
            "transform": plan.method.transform,
            "split": {
                "groups": plan.group_parts,
                "batch": plan.batch_parts,
                "field": list(plan.field_parts),
                "kernel": plan.kernel_parts,
                "in_channels": plan.in_parts,
                "out_channels": plan.out_parts,
                "in_slices": plan.in_slices,
                "out_slices": plan.out_slices,
            },
            **self.held(),
        }


def cost_convolution(
    image: int | Sequence[int],
    in_channels: int,
    out_channels: int,
    filter: int | Sequence[int] = 1,  # noqa: A002
    *,
    stride: int | Sequence[int] = 1,
    padding: int | str = "same",
    groups: int = 1,
    batch: int = 1,
    direction: Direction = "forward",
    dtype: DType = "fp16",
    partials: str | None = None,
    memory: float = 0.6,
    ipu: str | Ipu = "gc200",
) -> ConvolutionCost:
    """What one pass of a convolution costs on one chip.

    Args:
        image: Height and width of the input, or one number for both.
        in_channels: Input channels of all groups together.
        out_channels: Output channels of all groups together.
        filter: Height and width of the filter, or one number for both.
        stride: Steps between output positions, or one number for both axes.
        padding: `same` for as many outputs as input positions over the stride, `valid` for none, or a width of zeros.
        groups: Convolution groups; as many as channels for a depthwise one.
        batch: Images.
        direction: `forward`, `input_grad` or `weight_grad`.
        dtype: Format of the operands.
        partials: Format of partial results; half where the chip gains by it if None.
        memory: Available-memory proportion, above 0 and at most 1.
        ipu: A chip, or the name or path of one.

    Raises:
        PodsimError: A number or a format is wrong.
        DoesNotFitError: Operands and result are larger than the memory of the chip.

    >>> cost = cost_convolution(56, 64, 64, 3, batch=16, ipu="gc2")
    >>> f"{cost.op.flop / 1e9:.2f} GFLOP at {cost.flop_per_s / 1e12:.0f} TFLOP/s"
    '3.70 GFLOP at 69 TFLOP/s'
    """
    chip = load_ipu(ipu) if isinstance(ipu, str) else ipu
    sums = partials or partials_of(chip, dtype)
    _check_formats(chip, dtype, sums, memory)
    sizes, kernel, steps = (
        _two(name, value) for name, value in (("image", image), ("filter", filter), ("stride", stride))
    )
    for name, number in (("in", in_channels), ("out", out_channels), ("groups", groups), ("batch", batch)):
        if not 0 < number <= LARGEST_EXTENT:
            what = f"`{number}` is not from 1 to {LARGEST_EXTENT}"
            raise PodsimError(what, where=f"--{name}", do="write for example `64`")
    if in_channels % groups or out_channels % groups:
        what = f"{groups} groups do not divide {in_channels} channels in and {out_channels} out"
        raise PodsimError(what, where="--groups", do="use a divisor of both")
    output = tuple(_output(*axis, padding) for axis in zip(sizes, kernel, steps, strict=True))
    if min(output) < 1:
        what = f"a filter of {'x'.join(map(str, kernel))} does not fit into {'x'.join(map(str, sizes))}"
        raise PodsimError(what, where="--filter", do="use a smaller filter, or more padding")
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
    if need > chip.memory_bytes:
        what = f"operands and result need {format_bytes(need)}; {chip.name} has {format_bytes(chip.memory_bytes)}"
        raise DoesNotFitError(what, where="--batch", do="make the batch smaller, or divide it among more IPUs")
    plan = planned_conv(Chip(chip), conv_shape(op), dtype, sums, memory)
    compared = groups == 1 and direction == "forward"
    sigma = residuals().of_kernel("convolution" if compared else f"{direction} of a convolution in {groups} groups")
    return ConvolutionCost(chip, op, plan, sigma)


def _two(name: str, value: int | Sequence[int]) -> tuple[int, int]:
    """Height and width."""
    axes = (value, value) if isinstance(value, int) else tuple(value)
    if len(axes) != 2 or not all(0 < axis <= LARGEST_EXTENT for axis in axes):
        what = f"`{'x'.join(map(str, axes))}` is not a number, or a height and a width, from 1 to {LARGEST_EXTENT}"
        raise PodsimError(what, where=f"--{name}", do="write for example `3` or `1x7`")
    return axes[0], axes[1]


def _output(size: int, kernel: int, stride: int, padding: int | str) -> int:
    """Output positions of one axis."""
    if padding == "same":
        return -(-size // stride)
    zeros = 0 if padding == "valid" else int(padding)
    return (size + 2 * zeros - kernel) // stride + 1
