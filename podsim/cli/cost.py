"""`podsim cost`: the cost model alone."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli import completion
from podsim.cli.running import Format, echo
from podsim.cli.usage import Commands
from podsim.errors import BadValueError, PodsimError
from podsim.units import parse_quantity

if TYPE_CHECKING:
    from podsim.models.op import Direction, DType
    from podsim.program.movement import Collective
    from podsim.result.cost import Costed

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


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as `--format json` does.")]
PrintedFormat = Annotated[Format, typer.Option("--format", help="What to print.")]
_Bytes = Annotated[str, typer.Option("--bytes", help="Of each tile: `4`, or `40 kB`.")]
_Ipus = Annotated[int, typer.Option(help="Chips that take part, the first ones of the pod.")]
_System = Annotated[str, typer.Option(help="A pod: ipu_pod16, dss8440, or a file.", autocompletion=completion.systems)]


@cost_app.command("matmul")
def cost_matmul(
    shape: Annotated[str, typer.Argument(help="ROWSxINNERxCOLUMNS, or GROUPSxROWSxINNERxCOLUMNS.")],
    ipu: Annotated[
        str,
        typer.Option(help="An IPU specification: gc200, bow, c600, gc2, or a file.", autocompletion=completion.chips),
    ] = "gc200",
    dtype: Annotated[NumberFormat, typer.Option(help="Format of the operands.")] = NumberFormat.FP16,
    partials: Annotated[PartialsFormat | None, typer.Option(help="Format of the partial results.")] = None,
    memory: Annotated[float, typer.Option(help="Available-memory proportion, above 0 and at most 1.")] = 0.6,
    output_format: PrintedFormat = Format.TABLE,
    as_json: AsJson = False,
) -> None:
    """Plan one matrix product and show what it costs."""
    from podsim.result.plan_view import cost_matmul, partials_of
    from podsim.scenario import load_ipu

    chip = load_ipu(ipu)
    sums = partials.value if partials else partials_of(chip, dtype.value)
    show_cost(cost_matmul(chip, shape, dtype.value, sums, memory), output_format, as_json=as_json)


_AXES = re.compile(r"(\d{1,8})(?:x(\d{1,8}))?")


class Pass(StrEnum):
    """Passes of a convolution."""

    FORWARD = "forward"
    INPUT_GRAD = "input-grad"
    WEIGHT_GRAD = "weight-grad"


class SumFormat(StrEnum):
    """Number formats of what a collective sums."""

    FP16 = "fp16"
    FP32 = "fp32"


class JoinedTiles(StrEnum):
    """What takes part in a collective."""

    TILES = "tiles"
    IPUS = "ipus"


@cost_app.command("convolution")
def cost_of_convolution(
    image: Annotated[str, typer.Option(help="Height and width of the input: `56`, or `56x48`.")],
    in_channels: Annotated[int, typer.Option("--in", help="Input channels of all groups together.")],
    out_channels: Annotated[int, typer.Option("--out", help="Output channels of all groups together.")],
    kernel: Annotated[str, typer.Option("--filter", help="Height and width of the filter: `3`, or `1x7`.")] = "1",
    stride: Annotated[str, typer.Option(help="From one output position to the next: `2`, or `2x1`.")] = "1",
    padding: Annotated[str, typer.Option(help="`same`, `valid`, or a width of zeros.")] = "same",
    groups: Annotated[int, typer.Option(help="Groups; as many as channels for a depthwise convolution.")] = 1,
    batch: Annotated[int, typer.Option(help="Images.")] = 1,
    direction: Annotated[Pass, typer.Option(help="Which pass.")] = Pass.FORWARD,
    ipu: Annotated[
        str,
        typer.Option(help="An IPU specification: gc200, bow, c600, gc2, or a file.", autocompletion=completion.chips),
    ] = "gc200",
    dtype: Annotated[NumberFormat, typer.Option(help="Format of the operands.")] = NumberFormat.FP16,
    partials: Annotated[PartialsFormat | None, typer.Option(help="Format of the partial results.")] = None,
    memory: Annotated[float, typer.Option(help="Available-memory proportion, above 0 and at most 1.")] = 0.6,
    output_format: PrintedFormat = Format.TABLE,
    as_json: AsJson = False,
) -> None:
    """Plan one pass of a convolution and show what it costs."""
    from podsim.result.plan_view import cost_convolution

    found = cost_convolution(
        *(_axes("image", image), in_channels, out_channels, _axes("filter", kernel)),
        stride=_axes("stride", stride),
        padding=_padding(padding),
        groups=groups,
        batch=batch,
        direction=_DIRECTIONS[direction],
        dtype=_DTYPES[dtype],
        partials=partials.value if partials else None,
        memory=memory,
        ipu=ipu,
    )
    show_cost(found, output_format, as_json=as_json)


_DIRECTIONS: dict[Pass, Direction] = {
    Pass.FORWARD: "forward",
    Pass.INPUT_GRAD: "input_grad",
    Pass.WEIGHT_GRAD: "weight_grad",
}
_DTYPES: dict[NumberFormat, DType] = {
    NumberFormat.FP8: "fp8",
    NumberFormat.FP16: "fp16",
    NumberFormat.FP32: "fp32",
}


def _axes(name: str, text: str) -> tuple[int, int]:
    """Height and width.

    >>> _axes("filter", "3"), _axes("filter", "1x7")
    ((3, 3), (1, 7))
    """
    match = _AXES.fullmatch(text.strip())
    if match is None:
        what = f"`{text}` is not a number, or a height and a width"
        raise PodsimError(what, where=f"--{name}", do="write for example `3` or `1x7`")
    return int(match[1]), int(match[2] or match[1])


def _padding(text: str) -> int | str:
    if text in ("same", "valid"):
        return text
    if not text.isdecimal():
        raise PodsimError(f"`{text}` is no padding", where="--padding", do="use `same`, `valid`, or a number")
    return int(text)


@cost_app.command("transfer")
def cost_of_transfer(
    byte_count: _Bytes = "4",
    source: Annotated[
        str, typer.Option("--from", help="`tile`, `ipu0` and the like, `ipus`, `host`, `memory` or `local`.")
    ] = "tile",
    target: Annotated[str, typer.Option("--to", help="The same; `random` for a tile of the other half.")] = "tile",
    ipus: _Ipus = 1,
    tiles: Annotated[int | None, typer.Option(help="Tiles of each; one between tiles, else all.")] = None,
    both_ways: Annotated[bool, typer.Option("--both-ways", help="As much goes back at the same time.")] = False,
    load_bytes: Annotated[int, typer.Option("--load", help="Width of a load in bytes, for `local`.")] = 16,
    system: _System = "ipu_pod16",
    output_format: PrintedFormat = Format.TABLE,
    as_json: AsJson = False,
) -> None:
    """Show what a transfer costs: between tiles, chips, host and chips, or with streaming memory."""
    from podsim.result.movement_view import cost_transfer

    found = cost_transfer(
        *(_bytes(byte_count), source, target),
        ipus=ipus,
        tiles=tiles,
        both_ways=both_ways,
        load_bytes=load_bytes,
        system=system,
    )
    show_cost(found, output_format, as_json=as_json)


_OF_COLLECTIVES: dict[Collective, str] = {
    "all-reduce": "all tiles get the sum of what each holds",
    "all-gather": "all tiles get what each holds",
    "reduce-scatter": "each tile gets its share of the sum",
    "all-to-all": "each tile sends something else to every other",
    "broadcast": "one tile sends the same to all",
    "gather": "one tile receives from all",
    "scatter": "one tile sends something else to each",
    "reduce": "one tile gets the sum of what each holds",
}


def _add_collective(name: Collective, meaning: str) -> None:
    @cost_app.command(name, help=f"Show what {'an' if name[0] == 'a' else 'a'} {name} costs: {meaning}.")
    def cost_of_collective(
        byte_count: _Bytes = "4",
        ipus: _Ipus = 1,
        tiles: Annotated[int | None, typer.Option(help="Tiles of each chip; all if left out.")] = None,
        over: Annotated[
            JoinedTiles | None, typer.Option(help="All tiles with all, or with those of their number on other chips.")
        ] = None,
        between: Annotated[
            str | None, typer.Option(help="Numbers of the chips that take part, in place of --ipus: `0,5`.")
        ] = None,
        others: Annotated[
            bool, typer.Option("--others", help="Of the chip of a root, only the root takes part.")
        ] = False,
        dtype: Annotated[SumFormat, typer.Option(help="Format of what is summed.")] = SumFormat.FP32,
        system: _System = "ipu_pod16",
        software: Annotated[str, typer.Option(help="The software stack, whose rings join chips.")] = "popart_sdk_2.5",
        output_format: PrintedFormat = Format.TABLE,
        as_json: AsJson = False,
    ) -> None:
        from podsim.result.movement_view import cost_collective

        found = cost_collective(
            *(name, _bytes(byte_count)),
            ipus=ipus,
            tiles=tiles,
            system=system,
            dtype=dtype.value,
            over=over.value if over else None,
            between=_numbers(between) if between is not None else None,
            others=others,
            software=software,
        )
        show_cost(found, output_format, as_json=as_json)


for _name, _meaning in _OF_COLLECTIVES.items():
    _add_collective(_name, _meaning)


def _numbers(text: str) -> list[int]:
    """Numbers of chips.

    >>> _numbers("0,5")
    [0, 5]
    """
    numbers = [each.strip() for each in text.split(",")]
    if not all(each.isdecimal() for each in numbers):
        raise PodsimError(f"`{text}` are no numbers of chips", where="--between", do="write for example `0,5`")
    return list(map(int, numbers))


def _bytes(text: str) -> int:
    """A number of bytes, with a unit or without.

    >>> _bytes("4"), _bytes("40 kB")
    (4, 40000)
    """
    try:
        return int(text) if text.isdecimal() else int(parse_quantity(text, "bytes"))
    except BadValueError as error:
        raise PodsimError(str(error), where="--bytes", do="write for example `4` or `40 kB`") from None


def show_cost(found: Costed, output_format: Format, *, as_json: bool) -> None:
    """Print what something costs, as tables or as JSON."""
    if as_json or output_format is Format.JSON:
        echo(json.dumps(found.to_dict(), indent=2) + "\n", True)
    else:
        from podsim.show.text import print_report

        print_report(found.report())
