"""`podsim cost` of lookups, updates and blocks of graph networks."""

from __future__ import annotations

from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.cost import AsJson, PartialsFormat, PrintedFormat, cost_app, show_cost
from podsim.cli.running import Format

__all__ = ["cost_app"]
_Ipu = Annotated[
    str, typer.Option(help="An IPU specification: gc200, bow, c600, gc2, or a file.", autocompletion=completion.chips)
]
_Memory = Annotated[
    float, typer.Option("--memory", "--available-memory", help="Available-memory proportion, above 0 and at most 1.")
]
_Loop = Annotated[
    int,
    typer.Option(min=0, help="Supersteps of a loop around the operation that carries its result on; no loop if 0."),
]
_Elements = Annotated[PartialsFormat, typer.Option(help="Format of the elements.")]
_Rows = Annotated[int, typer.Option(help="Rows of the table.")]
_Features = Annotated[int, typer.Option(help="Elements of a row.")]


@cost_app.command("multi-slice")
def cost_of_multi_slice(
    rows: _Rows,
    features: _Features,
    lookups: Annotated[int, typer.Option(help="Rows to read.")],
    ipu: _Ipu = "gc200",
    dtype: _Elements = PartialsFormat.FP32,
    memory: _Memory = 0.6,
    loop_supersteps: _Loop = 4,
    output_format: PrintedFormat = Format.TABLE,
    as_json: AsJson = False,
) -> None:
    """Plan the lookup of rows of a table (a gather) and show what it costs."""
    from podsim.result.kernel_view import cost_multi_slice

    extents = rows, features, lookups
    found = cost_multi_slice(*extents, dtype.value, memory=memory, ipu=ipu, loop_supersteps=loop_supersteps)
    show_cost(found, output_format, as_json=as_json)


@cost_app.command("multi-update-add")
def cost_of_multi_update_add(
    rows: _Rows,
    features: _Features,
    lookups: Annotated[int, typer.Option(help="Rows to add.")],
    ipu: _Ipu = "gc200",
    dtype: _Elements = PartialsFormat.FP32,
    memory: _Memory = 0.6,
    loop_supersteps: _Loop = 4,
    output_format: PrintedFormat = Format.TABLE,
    as_json: AsJson = False,
) -> None:
    """Plan the addition of rows to a table of zeros (a scatter-add) and show what it costs."""
    from podsim.result.kernel_view import cost_multi_update_add

    extents = rows, features, lookups
    found = cost_multi_update_add(*extents, dtype.value, memory=memory, ipu=ipu, loop_supersteps=loop_supersteps)
    show_cost(found, output_format, as_json=as_json)


@cost_app.command("schnet-block")
def cost_of_schnet_block(
    nodes: Annotated[int, typer.Option(help="Rows of atoms.")],
    features: Annotated[int, typer.Option(help="Features of atoms, and filters of edges.")],
    edges: Annotated[int, typer.Option(help="Edges of all atoms.")],
    gaussians: Annotated[int, typer.Option(help="Functions that a distance is expanded in.")] = 50,
    ipu: _Ipu = "gc200",
    dtype: _Elements = PartialsFormat.FP32,
    backward: Annotated[bool, typer.Option("--backward", help="Count the backward pass too.")] = False,
    fast_softplus: Annotated[bool, typer.Option("--fast-softplus", help="Without PyTorch's threshold.")] = False,
    memory: _Memory = 0.6,
    loop_supersteps: _Loop = 4,
    output_format: PrintedFormat = Format.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show what an interaction block of SchNet costs: filters of edges, messages along them, dense layers of atoms."""
    from podsim.result.kernel_view import cost_schnet_block

    found = cost_schnet_block(
        *(nodes, features, edges, gaussians, dtype.value),
        backward=backward,
        fast_softplus=fast_softplus,
        memory=memory,
        ipu=ipu,
        loop_supersteps=loop_supersteps,
    )
    show_cost(found, output_format, as_json=as_json)
