"""`podsim plan`: which system reaches a goal best?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podsim.cli.counting import counted
from podsim.cli.ending import print_data, say
from podsim.cli.flags import Plot, ReportFile
from podsim.cli.outputs import check_paths, tell_written, write_chart, write_report
from podsim.cli.plan_options import (
    Budget,
    Deadline,
    DivisionRule,
    DrawCount,
    GoalName,
    JournalFile,
    Latency,
    Leased,
    Limits,
    Objective,
    OneDivision,
    OutputFormat,
    Overrides,
    PlanFormat,
    Processes,
    RackPower,
    RequestRate,
    SaveFolder,
    Second,
    Seed,
    Systems,
    Trials,
)
from podsim.errors import BadValueError, InfeasibleError, PodsimError

if TYPE_CHECKING:
    from podsim.study.plan import Goal, PlanResult
    from podsim.study.plan.goal import Limit

_DIVISIONS = {DivisionRule.GIVEN: ("as given",), DivisionRule.CHOSEN: ("chosen",)}
_KEPT_FROM = 48
"""From so many candidates on, what was found is kept until the plan is made."""


def plan(
    goal: GoalName,
    systems: Systems = None,
    objective: Objective = None,
    second: Second = None,
    limits: Limits = None,
    deadline: Deadline = None,
    budget: Budget = None,
    rack_power: RackPower = None,
    latency: Latency = None,
    rate: RequestRate = None,
    division: OneDivision = None,
    lease: Leased = None,
    overrides: Overrides = None,
    trials: Trials = None,
    draws: DrawCount = None,
    seed: Seed = None,
    processes: Processes = None,
    journal: JournalFile = None,
    output_format: OutputFormat = PlanFormat.TABLE,
    plot: Plot = None,
    save: SaveFolder = None,
    report: ReportFile = None,
) -> None:
    """Rank systems and divisions by what counts, within limits, and say what rules the others out."""
    from podsim.study.plan.goal import goal_of

    check_paths(None, report=report)
    if save is not None and save.exists() and not save.is_dir():
        raise PodsimError("this is a file, not a folder", where=str(save), do="name a folder")
    if plot is not None:
        from podsim.result.files import check_outputs

        check_paths(None, plot)
        check_outputs({"plot": plot, "report": report}, [("the goal", Path(goal))])
    if rate is not None:
        from podsim.runs.serving.arrivals import check_rate

        check_rate(rate)
    known = goal_of(goal)
    given: dict[str, Any] = {
        "objective": objective,
        "second": second,
        "systems": tuple(systems or ()) or None,
        "divisions": division and _DIVISIONS[division],
        "request_rate": rate,
        "trials": trials,
        "draws": draws,
        "seed": seed,
    }
    wanted = replace(
        known,
        limits=(*known.limits, *_limits(limits or (), deadline, budget, rack_power, latency)),
        overrides=(*known.overrides, *(overrides or ()), *([f"cost.lease={lease.value}"] if lease else [])),
        **{key: value for key, value in given.items() if value is not None},
    )
    found = _found(wanted, goal, journal, processes)
    _show(found, output_format)
    write_chart(plot, lambda: found.report().sheet(), found.inputs)
    write_report(report, found.report)
    _save(found, save)
    if not found.ranked:
        raise InfeasibleError("nothing reaches the goal", do="loosen the limit that rules most out, or add systems")


def _found(wanted: Goal, name: str, journal: Path | None, processes: int | None) -> PlanResult:
    """The answer; what a long plan has found is kept in a file of its own until it ends."""
    from podsim.study.plan import find_systems

    is_long = journal is None and wanted.candidate_count >= _KEPT_FROM
    kept = Path(f"{Path(name).stem if Path(name).is_file() else name}.journal") if is_long else journal
    with counted("candidates") as tell:
        answer = find_systems(wanted, tell, processes, journal=kept, say=say)
    if is_long and kept is not None:
        kept.unlink(missing_ok=True)
    return answer


def _show(found: PlanResult, output_format: PlanFormat) -> None:
    from podsim.show.markdown import to_csv
    from podsim.show.text import print_report
    from podsim.study.plan.report import option_table

    match output_format:
        case PlanFormat.JSON:
            print_data(json.dumps(found.to_dict(), indent=2, ensure_ascii=False) + "\n")
        case PlanFormat.CSV:
            print_data(to_csv(option_table(found, [*found.ranked, *found.ruled_out])))
        case PlanFormat.TABLE:
            print_report(found.report())


def _limits(
    given: list[str] | tuple[str, ...],
    deadline: str | None,
    budget: str | None,
    rack_power: str | None,
    latency: str | None,
) -> Iterator[Limit]:
    from podsim.study.plan.goal import at_most, limit

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


def _save(found: PlanResult, folder: Path | None) -> None:
    from podsim.result.files import check_outputs, files_read, write_atomically

    if folder is not None and found.best is not None:
        check_outputs({name: folder / name for name in found.best.files}, files_read(found.inputs))
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in found.best.files.items():
            write_atomically(folder / name, text.encode())
            tell_written(folder / name)
