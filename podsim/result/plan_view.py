"""The plan of one matrix product or convolution, for a reader."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from podsim.draws import SHARE
from podsim.errors import DoesNotFitError, PodsimError
from podsim.models.op import DTYPE_BYTES, Conv, Direction, DType, result_dtype
from podsim.result.evidence import residuals
from podsim.result.ranges import NORMAL_P90
from podsim.scenario import load_ipu
from podsim.scenario.ipu import Ipu
from podsim.tiles import Chip, ConvPlan, MatMulPlan, MatMulShape, conv_shape, planned_conv, planned_matmul
from podsim.tiles.plans import LARGEST_EXTENT
from podsim.units import format_bytes, format_significant

_SHAPE = re.compile(r"(?:(\d+)x)?(\d+)x(\d+)x(\d+)", re.IGNORECASE)
_TERA, _MICRO = 1e12, 1e-6
IN_GROUPS: Final = "convolution in groups"
"""As it is measured alone."""
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


def show_matmul(ipu: Ipu, shape: str, dtype: str, partials: str, memory: float, sigma: float, *, as_json: bool) -> str:
    """Plan a product and describe the plan as text or JSON.

    Args:
        ipu: The chip.
        shape: The product as it was written.
        dtype: Format of its operands.
        partials: Format of partial results.
        memory: Available-memory proportion.
        sigma: Standard deviation of the logarithm of predicted over measured time.
        as_json: Whether to print JSON.

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
    return json.dumps(_to_dict(ipu, plan, sigma), indent=2) + "\n" if as_json else _to_text(ipu, plan, sigma)


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


def _to_dict(ipu: Ipu, plan: MatMulPlan, sigma: float) -> dict[str, object]:
    return {
        "rows": plan.shape.rows,
        "inner": plan.shape.inner,
        "columns": plan.shape.columns,
        "groups": plan.shape.groups,
        "dtype": plan.dtype,
        "partials": plan.partials,
        **_rates(ipu, plan, plan.shape.flop, sigma),
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


def _rates(ipu: Ipu, plan: MatMulPlan | ConvPlan, flop: int, sigma: float) -> dict[str, object]:
    cycles, long = plan.account.cycles, math.exp(NORMAL_P90 * sigma)
    time_s, rate = cycles / ipu.clock_hz, flop * ipu.clock_hz / cycles
    return {
        "cycles": cycles,
        "time_s": time_s,
        "flop_per_s": rate,
        "ranges": {
            "share": SHARE,
            "time_s": {"low": time_s / long, "high": time_s * long},
            "flop_per_s": {"low": rate / long, "high": rate * long},
        },
        "utilization": rate / ipu.peak_flop_per_s(plan.dtype),
        "tiles_used": plan.tiles_used,
    }


def _to_text(ipu: Ipu, plan: MatMulPlan, sigma: float) -> str:
    shape = plan.shape
    groups = f"{shape.groups} x " if shape.groups > 1 else ""
    title = (
        f"{groups}({shape.rows}, {shape.inner}) x ({shape.inner}, {shape.columns}) "
        f"{plan.dtype}, partials {plan.partials}, on one {ipu.name}"
    )
    split = (
        f"  split        rows {plan.row_parts}, inner {plan.inner_parts}, columns {plan.column_parts}, "
        f"groups {plan.group_parts}: {plan.tiles_used} of {ipu.tile.count} tiles",
        f"  serial       {plan.column_slices} column slices, {plan.inner_slices} inner slices",
    )
    return _described(ipu, plan, title, split, _rates(ipu, plan, shape.flop, sigma))


def _described(
    ipu: Ipu, plan: MatMulPlan | ConvPlan, title: str, split: Iterable[str], rates: Mapping[str, Any]
) -> str:
    """A plan as text: its title, time and rate, how it is split, its memory and cycles."""
    cycles, ranges, percent = plan.account.cycles, rates["ranges"], rates["utilization"] * 100
    time_us, rate = rates["time_s"] / _MICRO, rates["flop_per_s"] / _TERA
    low_us, high_us = (ranges["time_s"][end] / _MICRO for end in ("low", "high"))
    low, high = (ranges["flop_per_s"][end] / _TERA for end in ("low", "high"))
    lines = [
        title,
        f"  time         {_digits(time_us)} us  ({SHARE * 100:.0f} %: {_digits(low_us)} to {_digits(high_us)} us)"
        f" = {cycles:,.0f} cycles",
        f"  rate         {_digits(rate)} TFLOP/s  ({SHARE * 100:.0f} %: {_digits(low)} to {_digits(high)}), "
        f"{f'{percent:.0f}' if percent >= 1 else format_significant(percent)}% of peak",
        *split,
        f"  temporaries  {plan.temporary_bytes_per_tile:,} B on the fullest tile, "
        f"{plan.temporary_bytes_per_tile / ipu.tile.memory_bytes:.0%} of its memory",
        "  cycles by kind",
    ]
    lines += [f"    {kind:<10} {value:>12,.0f}  {value / cycles:>4.0%}" for kind, value in plan.account.parts()]
    return "\n".join(lines) + "\n"


def _digits(value: float) -> str:
    return f"{value:,.1f}" if value >= 1 else format_significant(value)


@dataclass(frozen=True, slots=True)
class ConvolutionCost:
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
    def cycles(self) -> float:
        """Tile cycles. [cycles]"""
        return self.plan.account.cycles

    @property
    def time_s(self) -> float:
        """Its time. [s]"""
        return self.cycles / self.ipu.clock_hz

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of its range."""
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

    @property
    def flop_per_s(self) -> float:
        """Its rate, a multiply-add being two operations and padding counted as work. [FLOP/s]"""
        return self.op.flop / self.time_s

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
            **_rates(self.ipu, plan, op.flop, self.sigma),
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

    def to_text(self) -> str:
        """What `podsim cost convolution` prints."""
        op, plan = self.op, self.plan
        image, kernel, stride = ("x".join(map(str, axes)) for axes in (op.input_size, op.kernel, op.stride))
        grouped = f", {op.group_count} groups" if op.group_count > 1 else ""
        title = (
            f"convolution {kernel} of {op.batch} x {op.in_channels} x {image}, {op.out_channels} channels out, "
            f"stride {stride}{grouped}, {op.direction.replace('_', ' ')}, {plan.dtype}, partials {plan.partials}, "
            f"on one {self.ipu.name}"
        )
        field = "x".join(map(str, plan.field_parts)) or "1"
        split = (
            f"  vertex       {plan.method.vertex}{', ' * bool(plan.method.transform)}{plan.method.transform}",
            f"  split        batch {plan.batch_parts}, field {field}, kernel {plan.kernel_parts}, channels in "
            f"{plan.in_parts}, out {plan.out_parts}, groups {plan.group_parts}: {plan.tiles_used} of "
            f"{self.ipu.tile.count} tiles",
            f"  serial       channels out in {plan.out_slices}, channels in in {plan.in_slices}",
        )
        described = _described(self.ipu, plan, title, split, _rates(self.ipu, plan, op.flop, self.sigma))
        return described + "".join(f"  note: {each}\n" for each in self.notes)


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
    measured = IN_GROUPS if groups > 1 else "convolution"
    return ConvolutionCost(chip, op, plan, residuals().of_kernel(measured if direction == "forward" else direction))


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
