"""`podsim plan`: which system reaches a goal best?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.command_line.counting import counted
from podsim.command_line.ending import print_data, say
from podsim.command_line.outputs import tell_written
from podsim.command_line.running import Format, check_paths
from podsim.errors import BadValueError, InfeasibleError, PodsimError

if TYPE_CHECKING:
    from podsim.capacity import Answer, Goal
    from podsim.capacity.limits import Limit

_KEPT_FROM = 48
"""From so many candidates on, what was found is kept until the plan is made."""


class Lease(StrEnum):
    """What cost counts."""

    MACHINES = "machines"
    POD = "pod"


class Division(StrEnum):
    """Divisions to look at."""

    GIVEN = "given"
    CHOSEN = "chosen"


def plan(
    goal: Annotated[str, typer.Argument(metavar="GOAL", help="A goal file, or the scenario that is to run.")],
    systems: Annotated[
        list[str] | None,
        typer.Option("--system", help="A pod, or '32 of ipu_pod64'; repeat. All shipped pods otherwise."),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(metavar="FIGURE", help="What counts: time, cost, energy, or a key of results.")
    ] = None,
    second: Annotated[
        str | None, typer.Option(metavar="FIGURE", help="What it is weighed against in the chart.")
    ] = None,
    limits: Annotated[
        list[str] | None, typer.Option("--limit", metavar="FIGURE=BOUND", help="E.g. 'mfu=> 10 %'; repeat.")
    ] = None,
    deadline: Annotated[str | None, typer.Option(metavar="TIME", help="Most time to train: 12h.")] = None,
    budget: Annotated[str | None, typer.Option(metavar="PRICE", help="Most cost of a run: '500 USD'.")] = None,
    rack_power: Annotated[str | None, typer.Option(metavar="POWER", help="Most power of a rack: '20 kW'.")] = None,
    latency: Annotated[str | None, typer.Option(metavar="TIME", help="Most P99 latency of requests: 2s.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Requests per second to serve; those of the scenario otherwise.")
    ] = None,
    division: Annotated[Division | None, typer.Option(help="Look at one division alone.")] = None,
    lease: Annotated[Lease | None, typer.Option(help="Whether cost counts machines in use or the pod.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Replace a key on all systems.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, show_default="200", help="Most candidates to look at; a search picks them.")
    ] = None,
    draws: Annotated[
        int | None, typer.Option(min=0, show_default="50", help="Draws of uncertain inputs, to see how sure it is.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, show_default="0", help="Of search and draws.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, show_default="all cores", help="Candidates looked at at a time.")
    ] = None,
    journal: Annotated[Path | None, typer.Option(help="Keep what was found in this file, and go on from it.")] = None,
    output_format: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.TABLE,
    plot: Annotated[Path | None, typer.Option(help="Write a chart (.png, .svg or .pdf).")] = None,
    save: Annotated[
        Path | None, typer.Option("--save-dir", metavar="DIR", help="Write the best scenario there, ready to run.")
    ] = None,
) -> None:
    """Rank systems and divisions by what counts, within limits, and say what rules the others out."""
    wanted = _read(goal)
    given: dict[str, object] = {
        "objective": objective,
        "second": second,
        "request_rate": rate,
        "trials": trials,
        "draws": draws,
    }
    given |= {"seed": seed, "systems": tuple(systems or ()) or None, "divisions": _divisions(division)}
    wanted = replace(wanted, **{key: value for key, value in given.items() if value is not None})  # type: ignore[arg-type]
    leased = [f"cost.lease={lease.value}"] if lease else []
    wanted = replace(
        wanted,
        overrides=(*wanted.overrides, *(overrides or ()), *leased),
        limits=(*wanted.limits, *_limits(limits or (), deadline, budget, rack_power, latency)),
    )
    if save is not None and save.exists() and not save.is_dir():
        raise PodsimError("this is a file, not a folder", where=str(save), do="name a folder")
    _check_plot(plot, goal)
    answer = _found(wanted, goal, journal, processes)
    _show(answer, output_format)
    if plot is not None:
        from podsim.capacity.plot import plot_answer

        plot_answer(answer, plot)
        tell_written(plot)
    if save is not None:
        _save(answer, save)
    if not answer.ranked:
        raise InfeasibleError("nothing reaches the goal", do="loosen the limit that rules most out, or add systems")


def _read(goal: str) -> Goal:
    from podsim.capacity.goal import Goal, is_goal, read_goal

    return read_goal(Path(goal)) if is_goal(Path(goal)) else Goal(goal)


def _divisions(division: Division | None) -> tuple[str, ...] | None:
    from podsim.capacity.spec import CHOSEN, GIVEN

    return None if division is None else (GIVEN,) if division is Division.GIVEN else (CHOSEN,)


def _found(wanted: Goal, name: str, journal: Path | None, processes: int | None) -> Answer:
    """The answer; what a long plan has found is kept in a file of its own until it ends."""
    from podsim.capacity import find_systems
    from podsim.capacity.candidates import Candidates

    is_long = journal is None and min(len(Candidates(wanted)), wanted.trials) >= _KEPT_FROM
    kept = Path(f"{Path(name).stem if Path(name).is_file() else name}.journal") if is_long else journal
    with counted("candidates") as tell:
        answer = find_systems(wanted, tell, processes, journal=kept, say=say)
    if is_long and kept is not None:
        kept.unlink(missing_ok=True)
    return answer


def _show(answer: Answer, output_format: Format) -> None:
    from podsim.capacity.show import answer_tables
    from podsim.command_line.console import TableConsole

    if output_format is Format.JSON:
        print_data(json.dumps(answer.to_dict(), indent=2, ensure_ascii=False) + "\n")
        return
    for table in answer_tables(answer):
        TableConsole().print(table)


def _check_plot(plot: Path | None, goal: str) -> None:
    if plot is None:
        return
    from podsim.report.files import check_outputs

    check_paths(None, plot)
    check_outputs({"plot": plot}, [("the goal", Path(goal))])


def _limits(
    given: list[str] | tuple[str, ...],
    deadline: str | None,
    budget: str | None,
    rack_power: str | None,
    latency: str | None,
) -> Iterator[Limit]:
    from podsim.capacity.limits import at_most, limit

    for text in given:
        metric, sign, bound = text.partition("=")
        if not sign or not metric.strip():
            raise PodsimError("this is not FIGURE=BOUND", where=f"--limit {text}", do="write --limit 'mfu=> 10 %'")
        with _option(f"--limit {text}"):
            yield limit(metric, bound)
    named = {"deadline": deadline, "budget": budget, "rack_power": rack_power, "p99_latency": latency}
    for metric, most in named.items():
        if most is not None:
            flag = "--latency" if metric == "p99_latency" else f"--{metric.replace('_', '-')}"
            with _option(f"{flag} {most}"):
                yield at_most(metric, most)


@contextmanager
def _option(text: str) -> Iterator[None]:
    """Give what is wrong with an option its place."""
    try:
        yield
    except BadValueError as error:
        raise PodsimError(str(error), where=text, do=error.do) from None


def _save(answer: Answer, folder: Path) -> None:
    from podsim.report.files import write_atomically

    if answer.best is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in answer.best.files.items():
            write_atomically(folder / name, text.encode())
            tell_written(folder / name)
