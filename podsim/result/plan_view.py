"""The plan of one matrix product, for a reader."""

from __future__ import annotations

import json
import math
import re

from podsim.draws import SHARE
from podsim.errors import DoesNotFitError, PodsimError
from podsim.models.op import DTYPE_BYTES, result_dtype
from podsim.result.ranges import NORMAL_P90
from podsim.scenario.ipu import Ipu
from podsim.tiles import Chip, MatMulPlan, MatMulShape, planned_matmul
from podsim.tiles.plans import LARGEST_EXTENT
from podsim.units import format_bytes

_SHAPE = re.compile(r"(?:(\d+)x)?(\d+)x(\d+)x(\d+)", re.IGNORECASE)
_TERA, _MICRO = 1e12, 1e-6
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
    product = parse_shape(shape)
    _check_operands(ipu, product, dtype, shape)
    plan = planned_matmul(Chip(ipu), product, dtype, partials, memory)
    if plan.temporary_bytes_per_tile > ipu.tile.memory_bytes:
        need = f"its temporaries need {plan.temporary_bytes_per_tile:,} B on a tile"
        raise DoesNotFitError(f"{need}; {ipu.name} has {ipu.tile.memory_bytes:,} B", where=shape, do=_TOO_LARGE_CURE)
    return json.dumps(_to_dict(ipu, plan, sigma), indent=2) + "\n" if as_json else _to_text(ipu, plan, sigma)


def _check_operands(ipu: Ipu, shape: MatMulShape, dtype: str, written: str) -> None:
    operands = shape.inner * (shape.rows + shape.columns) * DTYPE_BYTES[dtype]
    need = shape.groups * (operands + shape.rows * shape.columns * DTYPE_BYTES[result_dtype(dtype)])
    if need > ipu.memory_bytes:
        what = f"operands and result need {format_bytes(need)}; {ipu.name} has {format_bytes(ipu.memory_bytes)}"
        raise DoesNotFitError(what, where=written, do=_TOO_LARGE_CURE)


def _to_dict(ipu: Ipu, plan: MatMulPlan, sigma: float) -> dict[str, object]:
    cycles, long = plan.account.cycles, math.exp(NORMAL_P90 * sigma)
    time_s, rate = cycles / ipu.clock_hz, plan.shape.flop * ipu.clock_hz / cycles
    return {
        "rows": plan.shape.rows,
        "inner": plan.shape.inner,
        "columns": plan.shape.columns,
        "groups": plan.shape.groups,
        "dtype": plan.dtype,
        "partials": plan.partials,
        "cycles": cycles,
        "time_s": time_s,
        "flop_per_s": rate,
        "ranges": {
            "share": SHARE,
            "time_s": {"low": time_s / long, "high": time_s * long},
            "flop_per_s": {"low": rate / long, "high": rate * long},
        },
        "utilization": plan.utilization(ipu),
        "tiles_used": plan.tiles_used,
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


def _to_text(ipu: Ipu, plan: MatMulPlan, sigma: float) -> str:
    shape, cycles = plan.shape, plan.account.cycles
    groups = f"{shape.groups} x " if shape.groups > 1 else ""
    long, time_us = math.exp(NORMAL_P90 * sigma), cycles / ipu.clock_hz / _MICRO
    rate = shape.flop * ipu.clock_hz / cycles / _TERA
    lines = [
        f"{groups}({shape.rows}, {shape.inner}) x ({shape.inner}, {shape.columns}) "
        f"{plan.dtype}, partials {plan.partials}, on one {ipu.name}",
        f"  time         {time_us:,.1f} us  ({SHARE * 100:.0f} %: {time_us / long:,.1f} to {time_us * long:,.1f} us)"
        f" = {cycles:,.0f} cycles",
        f"  rate         {rate:,.1f} TFLOP/s  ({SHARE * 100:.0f} %: {rate / long:,.1f} to {rate * long:,.1f}), "
        f"{plan.utilization(ipu):.0%} of peak",
        f"  split        rows {plan.row_parts}, inner {plan.inner_parts}, columns {plan.column_parts}, "
        f"groups {plan.group_parts}: {plan.tiles_used} of {ipu.tile.count} tiles",
        f"  serial       {plan.column_slices} column slices, {plan.inner_slices} inner slices",
        f"  temporaries  {plan.temporary_bytes_per_tile:,} B on the fullest tile, "
        f"{plan.temporary_bytes_per_tile / ipu.tile.memory_bytes:.0%} of its memory",
        "  cycles by kind",
    ]
    lines += [f"    {kind:<10} {value:>12,.0f}  {value / cycles:>4.0%}" for kind, value in plan.account.parts()]
    return "\n".join(lines) + "\n"
