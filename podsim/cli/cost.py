"""`podsim cost`: the cost model alone."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli import completion
from podsim.cli.running import Format, echo
from podsim.cli.usage import Commands

if TYPE_CHECKING:
    from podsim.tiles.plans import SliceKind

cost_app = typer.Typer(cls=Commands, help="Look at the cost model alone.", no_args_is_help=True, rich_markup_mode=None)


class NumberFormat(StrEnum):
    """Number formats of the matrix units."""

    FP8 = "fp8"
    FP16 = "fp16"
    FP32 = "fp32"


class PartialsFormat(StrEnum):
    """Number formats of partial results."""

    FP16 = "fp16"
    FP32 = "fp32"


@cost_app.command("matmul")
def cost_matmul(
    shape: Annotated[str, typer.Argument(help="ROWSxINNERxCOLUMNS, or GROUPSxROWSxINNERxCOLUMNS.")],
    ipu: Annotated[
        str, typer.Option(help="An IPU specification: gc200, bow, or a file.", autocompletion=completion.chips)
    ] = "gc200",
    dtype: Annotated[NumberFormat, typer.Option(help="Format of the operands.")] = NumberFormat.FP16,
    partials: Annotated[PartialsFormat | None, typer.Option(help="Format of the partial results.")] = None,
    memory: Annotated[float, typer.Option(help="Available-memory proportion, above 0 and at most 1.")] = 0.6,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
) -> None:
    """Plan one matrix product and show what it costs."""
    from podsim.result.plan_view import show_matmul
    from podsim.result.scatter import table
    from podsim.scenario import load_ipu

    chip = load_ipu(ipu)
    as_json = output_format is Format.JSON
    sums = partials or (PartialsFormat.FP32 if dtype is NumberFormat.FP32 else PartialsFormat.FP16)
    sigma = table().of_product(dtype.value).sigma
    echo(show_matmul(chip, shape, dtype.value, sums.value, memory, sigma, as_json=as_json), as_json)


_Ipu = Annotated[
    str, typer.Option(help="An IPU specification: gc200, bow, or a file.", autocompletion=completion.chips)
]
_Memory = Annotated[
    float, typer.Option("--memory", "--available-memory", help="Available-memory proportion, above 0 and at most 1.")
]
_Loop = Annotated[
    int, typer.Option(min=0, help="Supersteps of the loop in which the operation is called: counter, condition, copy.")
]
_Print = Annotated[Format, typer.Option("--format", help="What to print.")]
_Rows = Annotated[int, typer.Option(help="Rows of the table.")]
_Features = Annotated[int, typer.Option(help="Elements of a row.")]


@cost_app.command("multi-slice")
def cost_multi_slice(
    rows: _Rows,
    features: _Features,
    lookups: Annotated[int, typer.Option(help="Rows to read.")],
    ipu: _Ipu = "gc200",
    dtype: Annotated[PartialsFormat, typer.Option(help="Format of the elements.")] = PartialsFormat.FP32,
    memory: _Memory = 0.6,
    loop_supersteps: _Loop = 3,
    output_format: _Print = Format.TABLE,
) -> None:
    """Plan the lookup of rows of a table (a gather) and show what it costs."""
    _slices("multi-slice", (rows, features, lookups), ipu, dtype, memory, loop_supersteps, output_format)


@cost_app.command("multi-update-add")
def cost_multi_update_add(
    rows: _Rows,
    features: _Features,
    lookups: Annotated[int, typer.Option(help="Rows to add.")],
    ipu: _Ipu = "gc200",
    dtype: Annotated[PartialsFormat, typer.Option(help="Format of the elements.")] = PartialsFormat.FP32,
    memory: _Memory = 0.6,
    loop_supersteps: _Loop = 3,
    output_format: _Print = Format.TABLE,
) -> None:
    """Plan the addition of rows to a table of zeros (a scatter-add) and show what it costs."""
    _slices("multi-update-add", (rows, features, lookups), ipu, dtype, memory, loop_supersteps, output_format)


def _slices(
    kind: SliceKind,
    extents: tuple[int, int, int],
    ipu: str,
    dtype: PartialsFormat,
    memory: float,
    loop_supersteps: int,
    output_format: Format,
) -> None:
    from podsim.result.kernel_view import show_slices
    from podsim.scenario import load_ipu
    from podsim.tiles import SliceShape

    as_json = output_format is Format.JSON
    shape = SliceShape(*extents)
    echo(show_slices(load_ipu(ipu), kind, shape, dtype.value, memory, loop_supersteps, as_json=as_json), as_json)


@cost_app.command("schnet-block")
def cost_schnet_block(
    nodes: Annotated[int, typer.Option(help="Rows of atoms.")],
    features: Annotated[int, typer.Option(help="Features of atoms, and filters of edges.")],
    edges: Annotated[int, typer.Option(help="Edges of all atoms.")],
    gaussians: Annotated[int, typer.Option(help="Functions that a distance is expanded in.")] = 50,
    ipu: _Ipu = "gc200",
    dtype: Annotated[PartialsFormat, typer.Option(help="Format of weights and activations.")] = PartialsFormat.FP32,
    backward: Annotated[bool, typer.Option("--backward", help="Count the backward pass too.")] = False,
    slow_softplus: Annotated[bool, typer.Option("--slow-softplus", help="PyTorch's own, with a threshold.")] = False,
    memory: _Memory = 0.6,
    loop_supersteps: _Loop = 3,
    output_format: _Print = Format.TABLE,
) -> None:
    """Show what an interaction block of SchNet costs: filters of edges, messages along them, dense layers of atoms."""
    from podsim.models.schnet import InteractionShape
    from podsim.result.kernel_view import show_block
    from podsim.scenario import load_ipu

    as_json = output_format is Format.JSON
    shape = InteractionShape(nodes, features, edges, gaussians, not slow_softplus)
    chip = load_ipu(ipu)
    shown = show_block(chip, shape, dtype.value, memory, loop_supersteps, backward=backward, as_json=as_json)
    echo(shown, as_json)
