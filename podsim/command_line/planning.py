"""`podsim plan`: which system reaches a goal best?"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.command_line.counting import counted
from podsim.command_line.ending import print_data
from podsim.command_line.outputs import tell_written
from podsim.command_line.running import Format
from podsim.errors import BadValueError, InfeasibleError, PodsimError

if TYPE_CHECKING:
    from podsim.capacity import Answer, Goal
    from podsim.specs.expectations import Expectation


def plan(
    goal: Annotated[
        str,
        typer.Argument(metavar="GOAL", help="A goal file, the name of a shipped one, or the scenario that is to run."),
    ],
    systems: Annotated[
        list[str] | None, typer.Option("--system", help="A pod to look at; repeat. All that are shipped otherwise.")
    ] = None,
    objective: Annotated[
        str | None, typer.Option(metavar="FIGURE", help="What counts, e.g. throughput_samples_per_s.")
    ] = None,
    limits: Annotated[
        list[str] | None, typer.Option("--limit", metavar="FIGURE=BOUND", help="E.g. 'mfu=> 10 %'; repeat.")
    ] = None,
    deadline: Annotated[str | None, typer.Option(metavar="TIME", help="The same for the time to train: 12h.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key on all systems.")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    save: Annotated[
        Path | None, typer.Option("--save-dir", metavar="DIR", help="Write the best scenario there, ready to run.")
    ] = None,
) -> None:
    """Rank systems and divisions by what counts, within limits, and say what rules the others out."""
    from podsim.capacity import find_systems
    from podsim.capacity.show import answer_tables
    from podsim.command_line.console import TableConsole

    wanted = _wanted(goal, tuple(systems or ()), objective, tuple(overrides or ()))
    given = [*(limits or ()), *([f"time_to_train_s=<= {deadline}"] if deadline else ())]
    wanted = replace(wanted, limits=(*wanted.limits, *map(_limit, given)))
    if save is not None and save.exists() and not save.is_dir():
        raise PodsimError("this is a file, not a folder", where=str(save), do="name a folder")
    with counted("options") as tell:
        answer = find_systems(wanted, tell)
    if output_format is Format.JSON:
        print_data(json.dumps(answer.to_dict(), indent=2, ensure_ascii=False) + "\n")
    else:
        for table in answer_tables(answer):
            TableConsole().print(table)
    if save is not None:
        _save(answer, save)
    if not answer.ranked:
        raise InfeasibleError("nothing reaches the goal", do="loosen the limit that rules most out, or add systems")


def _wanted(goal: str, systems: tuple[str, ...], objective: str | None, overrides: tuple[str, ...]) -> Goal:
    from podsim.capacity.goal import Goal, is_goal, read_goal
    from podsim.specs.library import shipped_study

    file = shipped_study(goal) or Path(goal)
    read = read_goal(file) if is_goal(file) else Goal(goal)
    return replace(
        read,
        systems=systems or read.systems,
        objective=objective or read.objective,
        overrides=(*read.overrides, *overrides),
    )


def _limit(text: str) -> Expectation:
    from podsim.specs.expectations import expectation

    metric, sign, bound = text.partition("=")
    if not sign or not metric.strip():
        raise PodsimError("this is not FIGURE=BOUND", where=f"--limit {text}", do="write --limit 'mfu=> 10 %'")
    try:
        return expectation(metric.strip(), bound)
    except BadValueError as error:
        raise PodsimError(str(error), where=f"--limit {text}", do=error.do) from None


def _save(answer: Answer, folder: Path) -> None:
    from podsim.report.files import write_atomically

    if answer.ranked:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{answer.ranked[0].name}.yaml"
        write_atomically(path, answer.ranked[0].written.encode())
        tell_written(path)
