"""`podsim cost`: the cost model alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import typer

from podsim.cli.asking import Ask, asks
from podsim.cli.flags import OutputFormat
from podsim.cli.outputs import Format, show
from podsim.cli.usage import Commands
from podsim.result.cost import cost_convolution, cost_matmul, cost_multi_slice, cost_multi_update_add, cost_schnet_block
from podsim.result.cost_movement import cost_collective, cost_transfer

_Functions = dict[str, Callable[..., object]]
cost_app = typer.Typer(cls=Commands, help="Look at the cost model alone.", no_args_is_help=True, rich_markup_mode=None)
_FUNCTIONS: Final[_Functions] = {"matmul": cost_matmul, "convolution": cost_convolution, "transfer": cost_transfer}
_COLLECTIVES: Final = {
    "all-reduce": "all tiles get the sum of what each holds",
    "all-gather": "all tiles get what each holds",
    "reduce-scatter": "each tile gets its share of the sum",
    "all-to-all": "each tile sends something else to every other",
    "broadcast": "one tile sends the same to all",
    "gather": "one tile receives from all",
    "scatter": "one tile sends something else to each",
    "reduce": "one tile gets the sum of what each holds",
}
_OF_GRAPHS: Final[_Functions] = {
    "multi-slice": cost_multi_slice,
    "multi-update-add": cost_multi_update_add,
    "schnet-block": cost_schnet_block,
}


def _show(
    ask: Ask,
    output_format: OutputFormat = Format.TABLE,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as `--format json` does.")] = False,
) -> None:
    show(ask(), Format.JSON if as_json else output_format)


for _name, _function in _FUNCTIONS.items():
    cost_app.command(_name)(asks(_function)(_show))
for _name, _meaning in _COLLECTIVES.items():
    _help = f"Show what {'an' if _name[0] == 'a' else 'a'} {_name} costs: {_meaning}."
    cost_app.command(_name, help=_help)(asks(cost_collective, name=_name)(_show))
for _name, _function in _OF_GRAPHS.items():
    cost_app.command(_name)(asks(_function)(_show))
