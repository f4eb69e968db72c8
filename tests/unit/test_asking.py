"""Options from signatures: what a shell can say of a parameter, and that Python and the shell have the same words."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import pytest
import typer.main

import podsim
from podsim.cli.app import app
from podsim.cli.asking import Ask, asks
from podsim.options import SCENARIO_NAME, SCENARIOS
from tests.cases import every_case

if TYPE_CHECKING:
    from podsim.draws import Draws as OnlyForCheckers


def function(
    scenario: Annotated[str, SCENARIO_NAME],
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
        sizes: Of something.
        draws: How often.
        width: `4`, or `4 B`.
        hidden: Not for a shell.
        watch: Nor this.
        verbose: Say more.

    Returns:
        What was asked.
    """
    return locals()


def many(*scenarios: Annotated[str, SCENARIOS], scale: float = 1.5) -> tuple[tuple[str, ...], float]:
    """Answer several.

    Args:
        scenarios: What it is about.
        scale: By how much.
    """
    return scenarios, scale


def made(command: Callable[..., None], name: str = "function") -> Any:
    """The command that Typer makes of a function."""
    alone = typer.Typer()
    asks(f"tests.unit.test_asking.{name}")(command).register(alone, "answer")
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
    assert asked.items() <= found[0].keywords.items()
    assert {"hidden", "watch"}.isdisjoint(found[0].keywords)
    assert found[0]()["scenario"] == "a"


def test_words_that_any_number_is_of_are_asked_as_such() -> None:
    found: list[Ask] = []
    command = made(lambda ask: found.append(ask), "many")
    command.main(["a", "b", "--scale", "2"], standalone_mode=False)
    assert found[0]() == (("a", "b"), 2.0)
    with pytest.raises(Exception, match=r"[Mm]issing"):
        command.main([], standalone_mode=False)


def test_help_is_what_the_docstring_says() -> None:
    command = made(lambda ask: None)
    helps = {param.name: param.help for param in command.params if param.name != "help"}
    assert command.help == "Answer."
    assert helps["scenario"] == "What it is about, in a long line."
    assert helps["mode"] == "How."
    assert helps["sizes"] == "Of something; repeat for more."
    assert "watch" not in helps


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(podsim, name)
        for name in ("run", "serve", "whatif", "sweep", "plan", "compare", "check", "replay")
    },
    "cost matmul": podsim.cost_matmul,
    "cost convolution": podsim.cost_convolution,
    "cost transfer": podsim.cost_transfer,
    "cost all-reduce": podsim.cost_collective,
    "cost multi-slice": podsim.cost_multi_slice,
    "cost multi-update-add": podsim.cost_multi_update_add,
    "cost schnet-block": podsim.cost_schnet_block,
}
PYTHON_ALONE = {"record", "watch", "follow", "tell", "name", "look", "say", "aside", "wanted"}


MAY_BE_EMPTY = {"paths"}
"""Lists that a command completes by itself: `podsim check` takes the scenarios of its baseline."""


@pytest.mark.parametrize("path", FUNCTIONS)
def test_a_command_has_the_parameters_of_its_function(path: str) -> None:
    command: Any = typer.main.get_command(app)
    for name in path.split():
        command = command.commands[name]
    options = {param.name: param for param in command.params}
    parameters = inspect.signature(FUNCTIONS[path]).parameters
    left_out = {*PYTHON_ALONE, *(["uncertainty"] if path == "serve" else [])}  # draws of a service are always few
    assert {*parameters} - {*options} == left_out & {*parameters}
    for name in {*parameters} & {*options}:
        assert options[name].help, name
        parameter = parameters[name]
        default = parameter.default
        assert options[name].required == (default is parameter.empty and name not in MAY_BE_EMPTY), name
        if default not in (parameter.empty, None, ()) and isinstance(default, str | int | float):
            assert str(options[name].default).replace("-", "_") == str(default).replace("-", "_"), name


def test_every_option_has_help() -> None:
    """Those too that belong to a command alone."""

    def parameters(command: Any) -> list[Any]:
        return [
            *command.params,
            *(parameter for inner in getattr(command, "commands", {}).values() for parameter in parameters(inner)),
        ]

    assert [parameter.name for parameter in parameters(typer.main.get_command(app)) if not parameter.help] == []


def test_signatures_are_read_without_the_simulation() -> None:
    heavy = ("pydantic", "simpy", "numpy", "podsim.engine", "podsim.tiles", "podsim.scenario.load", "podsim.study.plan")
    code = f"import sys, podsim.cli.app; print({{*{heavy}}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
