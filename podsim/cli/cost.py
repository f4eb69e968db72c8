"""`podsim cost`: the cost model alone."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from podsim.cli import completion
from podsim.cli.running import Format, echo
from podsim.cli.usage import Commands

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
