"""The plan of one matrix product or convolution, for a reader.

Parameters of its functions are options of `podsim cost`: what plans is imported when they are called.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from podsim.errors import DoesNotFitError, PodsimError
from podsim.models.op import DTYPE_BYTES, Conv, Direction, DType, result_dtype
from podsim.options import Half
from podsim.report.table import Table
from podsim.result.cost import Cost, cycles_by_kind, ranged, ranges_of
from podsim.units import format_bytes, format_significant

if TYPE_CHECKING:
    from podsim.scenario.ipu import Ipu
    from podsim.tiles import ConvPlan, MatMulPlan, MatMulShape

_SHAPE = re.compile(r"(?:(\d+)x)?(\d+)x(\d+)x(\d+)", re.IGNORECASE)
_AXES = re.compile(r"(\d{1,8})(?:x(\d{1,8}))?")
_TERA, _MICRO = 1e12, 1e-6
IN_GROUPS: Final = "convolution in groups"
"""As it is measured alone."""
_TOO_LARGE_CURE = "make the product smaller, or divide it among more IPUs"


def parse_shape(text: str) -> MatMulShape:
    """A shape from `ROWSxINNERxCOLUMNS` or `GROUPSxROWSxINNERxCOLUMNS`.

    >>> parse_shape("4096x1024x512")
    MatMulShape(rows=4096, inner=1024, columns=512, groups=1)
    """
    from podsim.tiles.plans import LARGEST_EXTENT, MatMulShape

    match = _SHAPE.fullmatch(text.strip())
    extents = [int(extent or 1) for extent in match.groups()] if match else []
    if not extents or not all(0 < extent <= LARGEST_EXTENT for extent in extents):
        raise PodsimError(
            f"`{text}` is not the shape of a matrix product",
            do=f"write ROWSxINNERxCOLUMNS, for example 4096x1024x1024, each from 1 to {LARGEST_EXTENT}",
        )
    groups, rows, inner, columns = extents
    return MatMulShape(rows, inner, columns, groups)


class _Planned(Cost):
    """A product or a convolution on one chip."""

    __slots__ = ()
    ipu: Ipu
    plan: MatMulPlan | ConvPlan
    sigma: float

    @property
    @abstractmethod
    def flop(self) -> int:
        """A multiply-add being two operations, and padding counted as work. [FLOP]"""

    @property
    def cycles(self) -> float:
        """Tile cycles. [cycles]"""
        return self.plan.account.cycles

    @property
    def time_s(self) -> float:
        """Its time. [s]"""
        return self.cycles / self.ipu.clock_hz

    @property
    def flop_per_s(self) -> float:
        """Its rate. [FLOP/s]"""
        return self.flop * self.ipu.clock_hz / self.cycles

    def _rates(self) -> dict[str, Any]:
        return {
            "cycles": self.cycles,
            "time_s": self.time_s,
            "flop_per_s": self.flop_per_s,
            "ranges": ranges_of(self.sigma, time_s=self.time_s, flop_per_s=self.flop_per_s),
            "utilization": self.flop_per_s / self.ipu.peak_flop_per_s(self.plan.dtype),
            "tiles_used": self.plan.tiles_used,
        }

    @abstractmethod
    def _split(self) -> Iterator[tuple[str, str]]:
        """How it is divided."""

    def _tiles(self) -> str:
        return f"groups {self.plan.group_parts}: {self.plan.tiles_used} of {self.ipu.tile.count} tiles"

    def _facts(self) -> Iterator[tuple[str, str]]:
        percent = 100 * self.flop_per_s / self.ipu.peak_flop_per_s(self.plan.dtype)
        of_peak = f"{f'{percent:.0f}' if percent >= 1 else format_significant(percent)}% of peak"
        yield "time", f"{ranged(self.time_s / _MICRO, self.sigma, _digits, 'us')} = {self.cycles:,.0f} cycles"
        yield "rate", f"{ranged(self.flop_per_s / _TERA, self.sigma, _digits, 'TFLOP/s')}, {of_peak}"
        yield from self._split()
        held = self.plan.temporary_bytes_per_tile
        yield "temporaries", f"{held:,} B on the fullest tile, {held / self.ipu.tile.memory_bytes:.0%} of its memory"

    def _parts(self) -> Table:
        return cycles_by_kind(self.plan.account.parts())


@dataclass(frozen=True, slots=True, repr=False)
class MatMulCost(_Planned):
    """One matrix product on one chip.

    Attributes:
        ipu: The chip.
        plan: How it is split, and its cycles by kind.
        sigma: Standard deviation of the logarithm of predicted over measured time.
    """

    ipu: Ipu
    plan: MatMulPlan
    sigma: float

    @property
    def flop(self) -> int:
        """A multiply-add being two operations. [FLOP]"""
        return self.plan.shape.flop

    def to_dict(self) -> dict[str, Any]:
        """What `podsim cost matmul --json` prints."""
        plan = self.plan
        return {
            "rows": plan.shape.rows,
            "inner": plan.shape.inner,
            "columns": plan.shape.columns,
            "groups": plan.shape.groups,
            "dtype": plan.dtype,
            "partials": plan.partials,
            **self._rates(),
            "split": {
                "groups": plan.group_parts,
                "rows": plan.row_parts,
                "inner": plan.inner_parts,
                "columns": plan.column_parts,
                "column_slices": plan.column_slices,
                "inner_slices": plan.inner_slices,
            },
            "breakdown_cycles": dict(plan.account.parts()),
            "temporary_bytes_per_tile": plan.temporary_bytes_per_tile,
        }

    def _title(self) -> str:
        plan, shape = self.plan, self.plan.shape
        groups = f"{shape.groups} x " if shape.groups > 1 else ""
        return (
            f"{groups}({shape.rows}, {shape.inner}) x ({shape.inner}, {shape.columns}) "
            f"{plan.dtype}, partials {plan.partials}, on one {self.ipu.name}"
        )

    def _split(self) -> Iterator[tuple[str, str]]:
        plan = self.plan
        yield "split", f"rows {plan.row_parts}, inner {plan.inner_parts}, columns {plan.column_parts}, " + self._tiles()
        yield "serial", f"{plan.column_slices} column slices, {plan.inner_slices} inner slices"


def cost_matmul(
    shape: str,
    *,
    ipu: str | Ipu = "gc200",
    dtype: DType = "fp16",
    partials: Half | None = None,
    memory: float = 0.6,
) -> MatMulCost:
    """Plan one matrix product and show what it costs.

    Args:
        shape: ROWSxINNERxCOLUMNS, or GROUPSxROWSxINNERxCOLUMNS.
        ipu: A chip: gc200, bow, c600, gc2, or a file.
        dtype: Format of the operands.
        partials: Format of the partial results; half where the chip gains by it if left out.
        memory: Available-memory proportion, above 0 and at most 1.

    Returns:
        Time and rate with their ranges, how it is split, and cycles by kind.

    Raises:
        PodsimError: The shape, the formats or the memory proportion are wrong.
        DoesNotFitError: The product is too large for one IPU.

    >>> round(cost_matmul("4096x1024x1024").plan.account.cycles)
    91061
    """
    from podsim.result.evidence import residuals
    from podsim.scenario import load_ipu
    from podsim.tiles import Chip, planned_matmul

    chip = load_ipu(ipu) if isinstance(ipu, str) else ipu
    sums = partials or partials_of(chip, dtype)
    _check_formats(chip, dtype, sums, memory)
    product = parse_shape(shape)
    _check_operands(chip, product, dtype, shape)
    plan = planned_matmul(Chip(chip), product, dtype, sums, memory)
    if plan.temporary_bytes_per_tile > chip.tile.memory_bytes:
        need = f"its temporaries need {plan.temporary_bytes_per_tile:,} B on a tile"
        raise DoesNotFitError(f"{need}; {chip.name} has {chip.tile.memory_bytes:,} B", where=shape, do=_TOO_LARGE_CURE)
    return MatMulCost(chip, plan, residuals().of_kernel(f"GEMM {dtype}"))


def partials_of(ipu: Ipu, dtype: str) -> str:
    """Format of partial results if none is asked for: half where the matrix unit computes more of them at once.

    Args:
        ipu: The chip.
        dtype: Format of the operands.
    """
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


def _digits(value: float) -> str:
    return f"{value:,.1f}" if value >= 1 else format_significant(value)


@dataclass(frozen=True, slots=True, repr=False)
class ConvolutionCost(_Planned):
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
    def flop(self) -> int:
        """A multiply-add being two operations, and padding counted as work. [FLOP]"""
        return self.op.flop

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of its range."""
        from podsim.result.evidence import residuals

        notes = []
        if self.op.group_count > 1:
            scatter = residuals().kernels[IN_GROUPS]
            notes.append(
                f"convolutions in groups that were measured scatter by {scatter:.0%} (one standard deviation; GC2 with "
                "SDK 1.0): whether groups are joined to fill the matrix unit differs by version of the library"
            )
        if self.op.direction != "forward":
            notes.append("no pass in this direction was measured alone: a step beyond the widest scatter")
        return tuple(notes)

    def to_dict(self) -> dict[str, Any]:
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
            **self._rates(),
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
            "breakdown_cycles": dict(plan.account.parts()),
            "temporary_bytes_per_tile": plan.temporary_bytes_per_tile,
            "notes": list(self.notes),
        }

    def _title(self) -> str:
        op, plan = self.op, self.plan
        image, kernel, stride = ("x".join(map(str, axes)) for axes in (op.input_size, op.kernel, op.stride))
        grouped = f", {op.group_count} groups" if op.group_count > 1 else ""
        return (
            f"convolution {kernel} of {op.batch} x {op.in_channels} x {image}, {op.out_channels} channels out, "
            f"stride {stride}{grouped}, {op.direction.replace('_', ' ')}, {plan.dtype}, partials {plan.partials}, "
            f"on one {self.ipu.name}"
        )

    def _split(self) -> Iterator[tuple[str, str]]:
        plan = self.plan
        field = "x".join(map(str, plan.field_parts)) or "1"
        yield "vertex", f"{plan.method.vertex}{', ' * bool(plan.method.transform)}{plan.method.transform}"
        channels = f"channels in {plan.in_parts}, out {plan.out_parts}"
        split = f"batch {plan.batch_parts}, field {field}, kernel {plan.kernel_parts}, {channels}, "
        yield "split", split + self._tiles()
        yield "serial", f"channels out in {plan.out_slices}, channels in in {plan.in_slices}"


def cost_convolution(
    image: str | int | Sequence[int],
    in_channels: int,
    out_channels: int,
    filter: str | int | Sequence[int] = 1,  # noqa: A002
    *,
    stride: str | int | Sequence[int] = 1,
    padding: str | int = "same",
    groups: int = 1,
    batch: int = 1,
    direction: Direction = "forward",
    dtype: DType = "fp16",
    partials: Half | None = None,
    memory: float = 0.6,
    ipu: str | Ipu = "gc200",
) -> ConvolutionCost:
    """Plan one pass of a convolution and show what it costs.

    Args:
        image: Height and width of the input: `56`, or `56x48`; in Python two numbers, too.
        in_channels: Input channels of all groups together.
        out_channels: Output channels of all groups together.
        filter: Height and width of the filter: `3`, or `1x7`.
        stride: From one output position to the next: `2`, or `2x1`.
        padding: `same` for as many outputs as input positions over the stride, `valid` for none, or a width of zeros.
        groups: Groups; as many as channels for a depthwise convolution.
        batch: Images.
        direction: Which pass.
        dtype: Format of the operands.
        partials: Format of the partial results; half where the chip gains by it if left out.
        memory: Available-memory proportion, above 0 and at most 1.
        ipu: A chip: gc200, bow, c600, gc2, or a file.

    Returns:
        Time and rate with their ranges, how it is split, and cycles by kind.

    Raises:
        PodsimError: A number or a format is wrong.
        DoesNotFitError: Operands and result are larger than the memory of the chip.

    >>> cost = cost_convolution(56, 64, 64, 3, batch=16, ipu="gc2")
    >>> f"{cost.op.flop / 1e9:.2f} GFLOP at {cost.flop_per_s / 1e12:.0f} TFLOP/s"
    '3.70 GFLOP at 69 TFLOP/s'
    """
    from podsim.result.evidence import residuals
    from podsim.scenario import load_ipu
    from podsim.tiles import Chip, conv_shape, planned_conv
    from podsim.tiles.plans import LARGEST_EXTENT

    chip = load_ipu(ipu) if isinstance(ipu, str) else ipu
    sums = partials or partials_of(chip, dtype)
    _check_formats(chip, dtype, sums, memory)
    zeros = _zeros(padding)
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
    output = tuple(_output(*axis, zeros) for axis in zip(sizes, kernel, steps, strict=True))
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
    measured = IN_GROUPS if groups > 1 else "convolution"
    return ConvolutionCost(chip, op, plan, residuals().of_kernel(measured if direction == "forward" else direction))


def _two(name: str, value: str | int | Sequence[int]) -> tuple[int, int]:
    """Height and width.

    >>> _two("filter", "3"), _two("filter", "1x7"), _two("filter", [1, 7])
    ((3, 3), (1, 7), (1, 7))
    """
    from podsim.tiles.plans import LARGEST_EXTENT

    if isinstance(value, str):
        match = _AXES.fullmatch(value.strip())
        if match is None:
            what = f"`{value}` is not a number, or a height and a width"
            raise PodsimError(what, where=f"--{name}", do="write for example `3` or `1x7`")
        value = [int(match[1]), int(match[2] or match[1])]
    axes = (value, value) if isinstance(value, int) else tuple(value)
    if len(axes) != 2 or not all(0 < axis <= LARGEST_EXTENT for axis in axes):
        what = f"`{'x'.join(map(str, axes))}` is not a number, or a height and a width, from 1 to {LARGEST_EXTENT}"
        raise PodsimError(what, where=f"--{name}", do="write for example `3` or `1x7`")
    return axes[0], axes[1]


def _zeros(padding: str | int) -> int | None:
    """Zeros around the input; None for as many as keep its size."""
    if padding == "same":
        return None
    if padding == "valid":
        return 0
    if isinstance(padding, str) and not padding.isdecimal():
        raise PodsimError(f"`{padding}` is no padding", where="--padding", do="use `same`, `valid`, or a number")
    return int(padding)


def _output(size: int, kernel: int, stride: int, zeros: int | None) -> int:
    """Output positions of one axis."""
    return -(-size // stride) if zeros is None else (size + 2 * zeros - kernel) // stride + 1
