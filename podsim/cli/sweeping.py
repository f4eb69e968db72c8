"""`podsim sweep`: a study from its file to its table, with progress and a summary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli import completion
from podsim.cli.counting import counted
from podsim.cli.ending import say
from podsim.cli.flags import Plot, ReportFile
from podsim.cli.outputs import check_paths, tell_written, write_chart, write_report

if TYPE_CHECKING:
    from podsim.watch import Tell

Study = Annotated[
    str,
    typer.Argument(
        help="A study file, a scenario and the keys that vary; or the name of a shipped study.",
        autocompletion=completion.studies,
    ),
]
VariedScenario = Annotated[
    str | None,
    typer.Option(
        "--scenario", help="Vary this scenario, instead of that of the study.", autocompletion=completion.scenarios
    ),
]


def sweep(
    study: Study,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Table to write, .parquet or .csv; STUDY.parquet if left out.")
    ] = None,
    scenario: VariedScenario = None,
    processes: Annotated[
        int | None, typer.Option(min=1, show_default="all cores", help="Points that are simulated at a time.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Simulate on the workers of this Dask scheduler.")
    ] = None,
    restart: Annotated[bool, typer.Option("--restart", help="Drop what was found before, and its table.")] = False,
    ranges: Annotated[
        bool, typer.Option("--ranges", help="Add the ends of ranges, FIGURE_low and _high; ten times slower.")
    ] = False,
    plot: Plot = None,
    metric: Annotated[
        str | None,
        typer.Option(help="Column that points are compared by, and that the chart shows; throughput if left out."),
    ] = None,
    report: ReportFile = None,
) -> None:
    """Simulate every point of a study, and go on where it was stopped."""
    from podsim.result.files import check_outputs
    from podsim.scenario.library import find
    from podsim.show.text import print_report
    from podsim.study.sweep import sheet_of
    from podsim.study.sweep import sweep as sweep_study
    from podsim.study.sweep_report import check_metric

    check_paths(None, plot)
    check_paths(None, report=report)
    if metric is not None:
        check_metric(metric)
    file = find(study, "study", ())
    table = output or Path(f"{file.stem}.parquet")
    check_outputs({"table": table, "plot": plot, "report": report}, [("the study", file)])
    with counted("points") as show, _stops_told(show, restart=restart) as tell:
        swept = sweep_study(
            *(study, table),
            scenario=scenario,
            processes=processes,
            scheduler=scheduler,
            restart=restart,
            ranges=ranges,
            tell=tell,
            look=lambda count: say(f"looking for those of {count:,} combinations that `where` lets through"),
        )
    if swept.simulated:
        tell_written(table)
    else:
        say(f"{table} holds this study already")
    found = swept.report(metric)
    print_report(found)
    write_chart(plot, lambda: sheet_of(swept, found), swept.inputs)
    write_report(report, lambda: found)
    if "failed" in swept.by_status:
        raise typer.Exit(1)


@contextmanager
def _stops_told(show: Tell, *, restart: bool) -> Iterator[Tell]:
    """Passes on progress, and says of a study that is interrupted how much of it stands."""
    done, total = 0, 0

    def tell(now: int, of: int) -> None:
        nonlocal done, total
        done, total = now, of
        show(now, of)

    try:
        yield tell
    except (KeyboardInterrupt, SystemExit):  # Control-C, or a signal to terminate
        again = "the same command without --restart" if restart else "the same command"
        if total:
            say(f"stopped: {done:,} of {total:,} points are kept; {again} goes on from there")
        raise
