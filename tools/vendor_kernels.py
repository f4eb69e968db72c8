"""Compares kernels on the vendor's model of a chip of Mk2 with their predicted cycles [poplibs_benchmarks].

The vendor's IPU Model estimates a chip and is no measurement. No constant is fitted to these rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from podsim.models.layers import GraphBuilder, linear, linear_backward
from podsim.models.op import Conv, Direction, DType, Elementwise, MatMul, Op
from podsim.report.report import Report
from podsim.report.table import Table, columns
from podsim.result.reference_data import rows
from podsim.scenario import load_hardware, load_ipu
from podsim.scenario.software import Software
from podsim.tiles import CostModel, total
from podsim.validation.comparison import sizes_of
from podsim.validation.show import report_of

_CHIP, _STACK = "gc200", "popart_sdk_2.3"
_MEMORY: Final = 0.6
_PARTIALS: Final = "fp32"
_DIRECTIONS: Final[tuple[Direction, ...]] = ("forward", "input_grad", "weight_grad")
_KINDS: Final = ("product", "dense", "dense in groups", "convolution", "depthwise")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the vendor's benchmark with both numbers of cycles."""

    id: str
    kind: str
    name: str
    vendor_cycles: float  # cycles on the vendor's model [cycles]
    cycles: float  # predicted cycles [cycles]

    @property
    def error(self) -> float:
        """Relative error of the prediction."""
        return self.cycles / self.vendor_cycles - 1


def compared() -> tuple[Kernel, ...]:
    """Return all kernels with their predictions."""
    stack, _ = load_hardware(_STACK, "software")
    assert isinstance(stack, Software)
    model = CostModel(load_ipu(_CHIP), stack.layout_change_cycles_per_byte, _PARTIALS)
    return tuple(
        Kernel(
            *(row["id"], row["kind"], row["name"], float(row["cycles"])),
            total(cost.account for cost in model.sequence(tuple(_operations(row)), _MEMORY)).cycles,
        )
        for row in rows("vendor_kernels")
    )


def _operations(row: Mapping[str, str]) -> Iterator[Op]:
    """Yield the operations of a kernel, as the vendor's tools run them."""
    given = {key: _numbers(value) for key, _, value in (each.partition("=") for each in row["arguments"].split())}
    dtype: DType = "fp32" if row["dtype"] == "fp32" else "fp16"
    match row["kind"]:
        case "product":
            yield from _product(given, dtype)
        case "dense" | "dense in groups":
            yield from _dense(given, dtype)
        case _:
            yield from _convolutions(given, dtype)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split("x")))


def _product(given: Mapping[str, tuple[int, ...]], dtype: DType) -> Iterator[Op]:
    """Yield a product and the addition of its result to a third matrix."""
    (rows_,), (inner,), (columns_,) = given["rows"], given["inner"], given["columns"]
    shape = (1, rows_, columns_)
    yield MatMul(name="product", shape=shape, dtype=dtype, inner=inner, left_arranged=True, right_arranged=True)
    yield Elementwise(name="sum", shape=shape, dtype=dtype, function="scaled_add")


def _dense(given: Mapping[str, tuple[int, ...]], dtype: DType) -> Iterator[Op]:
    """Yield a dense layer forward and backward with the addition of the gradient to the weights."""
    (groups,), (batch,), (width_in,), (width_out,) = given["groups"], given["batch"], given["in"], given["out"]
    builder = GraphBuilder("dense", dtype, dtype)
    sizes = ("layer", batch, width_in, width_out)
    linear(builder, *sizes, "@input", bias=False, groups=groups)
    linear_backward(builder, *sizes, "@gradient", bias=False, groups=groups)
    yield from builder.ops()


def _convolutions(given: Mapping[str, tuple[int, ...]], dtype: DType) -> Iterator[Op]:
    """Yield a convolution and its two gradients."""
    (width_in,), (width_out,), (groups,), (batch,) = given["in"], given["out"], given["groups"], given["batch"]
    image, kernel, stride = given["image"], given["filter"], given["stride"]
    sides = zip(image, kernel, stride, given["padding"], given["padding_lower"], strict=True)
    output = tuple((size + 2 * both + lower - width) // step + 1 for size, width, step, both, lower in sides)
    shapes = ((batch, width_out, *output), (batch, width_in, *image), (width_out, width_in // groups, *kernel))
    for direction, shape in zip(_DIRECTIONS, shapes, strict=True):
        yield Conv(
            name=direction,
            shape=shape,
            dtype=dtype,
            batch=batch,
            in_channels=width_in,
            out_channels=width_out,
            group_count=groups,
            input_size=image,
            output_size=output,
            kernel=kernel,
            stride=stride,
            direction=direction,
        )


def summary(kernels: Sequence[Kernel]) -> Table:
    """Return errors by kind."""
    groups = {kind: [kernel for kernel in kernels if kernel.kind == kind] for kind in _KINDS} | {"all": [*kernels]}
    lines = []
    for kind, found in groups.items():
        sizes = sizes_of([kernel.error for kernel in found])
        shown = (f"{sizes.bias:+.1%}", f"{sizes.mean:.1%}", f"{sizes.rms:.1%}", f"{sizes.worst:+.1%}")
        lines.append((kind, str(len(found)), *shown))
    return Table(columns("kind", ">kernels", ">bias", ">mean error", ">RMS", ">worst"), lines, "")


def table(kernels: Sequence[Kernel]) -> Table:
    """Return one line per kernel."""
    lines = [
        (each.id, each.kind, each.name, f"{each.cycles:,.0f}", f"{each.vendor_cycles:,.0f}", f"{each.error:+.1%}")
        for each in kernels
    ]
    return Table(columns("row", "kind", "kernel", ">predicted", ">IPU Model", ">error"), lines, "")


@dataclass(frozen=True, slots=True)
class VendorKernels:
    """Kernels of the vendor's benchmark, to print."""

    kernels: Sequence[Kernel]

    def report(self) -> Report:
        """Return a report with errors by kind and a line per kernel."""
        return report_of("Kernels on the vendor's model of Mk2", [summary(self.kernels), table(self.kernels)])

    def to_json(self) -> str:
        """Return the kernels as JSON text."""
        return json.dumps([asdict(kernel) | {"error": kernel.error} for kernel in self.kernels], indent=2)
