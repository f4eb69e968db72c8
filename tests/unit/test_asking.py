"""Options from signatures: what a shell can say of a parameter, and that Python and the shell have the same words."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pytest
import typer.main

from podsim.cli.app import app
from podsim.cli.asking import Ask, asks
from podsim.result.cost import cost_convolution, cost_matmul, cost_multi_slice, cost_multi_update_add, cost_schnet_block
from podsim.result.cost_movement import cost_collective, cost_transfer
from podsim.runs import run
from podsim.runs.serve import serve
from tests.cases import every_case

if TYPE_CHECKING:
    from podsim.draws import Draws as OnlyForCheckers


def function(
    scenario: str,
    *,
    mode: Literal["quick", "very_slow"] = "quick",
    sizes: Sequence[float] = (),
    draws: int | OnlyForCheckers | None = None,
    width: str | float = 4,
    hidden: OnlyForCheckers | None = None,
    watch: Callable[[str], None] = print,
    verbose: bool = False,
) -> dict[str, Any]:
    """Answer.

    Args:
        scenario: What it is about, in a
            long line.
        mode: How. [s]
        sizes: Of something; in Python any sequence.
        draws: How often.
        width: `4`, or `4 B`.
        hidden: Not for a shell.
        watch: Nor this.
        verbose: Say more.

    Returns:
        What was asked.
    """
    return locals()


def made(command: Callable[..., None]) -> Any:
    """The command that Typer makes of a function."""
    alone = typer.Typer()
    alone.command()(asks(function)(command))
    return typer.main.get_command(alone)


@every_case(
    "line, asked",
    lambda: [
        (["a"], {"scenario": "a", "mode": "quick", "width": "4", "verbose": False}),
        (["a", "--mode", "very-slow"], {"mode": "very_slow"}),
        (["a", "--sizes", "1", "--sizes", "2.5"], {"sizes": [1.0, 2.5]}),
        (["a", "--draws", "3", "--verbose"], {"draws": 3, "verbose": True}),
        (["a", "--width", "4 B"], {"width": "4 B"}),
    ],
)
def test_a_line_is_asked_in_words_of_python(line: list[str], asked: dict[str, object]) -> None:
    found: list[Ask] = []
    made(lambda ask: found.append(ask)).main(line, standalone_mode=False)
    assert found[0].func is function
    assert asked.items() <= found[0].keywords.items()
    assert {"hidden", "watch"}.isdisjoint(found[0].keywords)
    assert found[0]()["scenario"] == "a"


def test_help_is_what_the_docstring_says() -> None:
    helps = {each.name: each.help for each in made(lambda ask: None).params if each.name != "help"}
    assert helps["scenario"] == "What it is about, in a long line."
    assert helps["mode"] == "How."
    assert helps["sizes"] == "Of something; repeat for more."
    assert "watch" not in helps


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "run": run,
    "serve": serve,
    "cost matmul": cost_matmul,
    "cost convolution": cost_convolution,
    "cost transfer": cost_transfer,
    "cost all-reduce": cost_collective,
    "cost multi-slice": cost_multi_slice,
    "cost multi-update-add": cost_multi_update_add,
    "cost schnet-block": cost_schnet_block,
}
PYTHON_ALONE = {"record", "watch", "follow", "tell", "name"}


@pytest.mark.parametrize("path", FUNCTIONS)
def test_a_command_has_the_parameters_of_its_function(path: str) -> None:
    command: Any = typer.main.get_command(app)
    for name in path.split():
        command = command.commands[name]
    options = {each.name: each for each in command.params}
    parameters = inspect.signature(FUNCTIONS[path]).parameters
    left_out = {*PYTHON_ALONE, *(["uncertainty"] if path == "serve" else [])}  # draws of a service are always few
    assert {*parameters} - {*options} == left_out & {*parameters}
    for name in {*parameters} & {*options}:
        assert options[name].help, name
        default = parameters[name].default
        assert options[name].required == (default is inspect.Parameter.empty), name
        if default not in (inspect.Parameter.empty, None, ()):
            assert str(options[name].default).replace("-", "_") == str(default).replace("-", "_"), name


def test_signatures_are_read_without_parser_and_simulation() -> None:
    homes = ("runs.serve", "result.cost", "result.cost_movement", "result.cost")
    heavy = ("typer", "pydantic", "simpy", "podsim.engine", "podsim.tiles", "podsim.scenario.load")
    imports = ", ".join(f"podsim.{home}" for home in homes)
    code = f"import sys, {imports}; print({{*{heavy}}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
