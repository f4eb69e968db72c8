"""`podsim compare`: results beside one another, as text, Markdown, JSON and a chart."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli import completion
from podsim.cli.ending import BEYOND_LIMITS, print_data
from podsim.cli.flags import Plot, ReportFile
from podsim.cli.outputs import check_paths, write_chart, write_report

if TYPE_CHECKING:
    from podsim.draws import Draws
    from podsim.report.report import Report


class AnswerFormat(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


OutputFormat = Annotated[AnswerFormat, typer.Option("--format", help="What to print.")]


class FailOn(StrEnum):
    """What a comparison fails on."""

    WORSE = "worse"


def compare(
    sides: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Scenarios by file or name, NAME@VARIANT, NAME@REVISION of a git repository, or JSON of podsim run.",
            autocompletion=completion.scenarios,
        ),
    ],
    output_format: OutputFormat = AnswerFormat.TEXT,
    unchanged: Annotated[bool, typer.Option("--all", help="Show what is the same, too.")] = False,
    precision: Annotated[int, typer.Option(min=2, max=15, help="Significant digits.")] = 4,
    plot: Plot = None,
    draw_count: Annotated[
        int | None, typer.Option("--uncertainty", help="Repeat each so often with inputs drawn from their ranges.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of these draws.")] = 0,
    report: ReportFile = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help="Exit with 4 if a metric is worse than that of A, beyond their ranges.")
    ] = None,
) -> None:
    """Compare results with the first: what changed and why, time by kind, and what differs in the inputs."""
    from podsim.show.progress import track
    from podsim.study.compare import compare as compare_sides

    check_paths(None, plot)
    check_paths(None, report=report)
    found = compare_sides(*sides, uncertainty=_draws(draw_count, seed), watch=lambda names: track(names, "comparing:"))
    shown = found.report(unchanged=unchanged, precision=precision)
    write_chart(plot, shown.sheet, shown.inputs)
    write_report(report, lambda: shown)
    print_answer(shown, output_format, found.to_json)
    if fail_on is FailOn.WORSE and found.is_worse:
        raise typer.Exit(BEYOND_LIMITS)


def _draws(count: int | None, seed: int) -> Draws | None:
    if count is None:
        return None
    from podsim.draws import Draws

    return Draws(count, seed)


def print_wide(shown: Report) -> None:
    """Print the short answer, as wide as the screen, and elsewhere as wide as its tables are made for."""
    from podsim.show.text import WIDTH, PlainConsole, print_report

    console = PlainConsole()
    if not console.is_terminal:
        console.width = max(console.width, WIDTH)
    print_report(shown, console)


def print_answer(shown: Report, output_format: AnswerFormat, to_json: Callable[[], str]) -> None:
    """Print an answer as it is asked for."""
    match output_format:
        case AnswerFormat.TEXT:
            print_wide(shown)
        case AnswerFormat.MARKDOWN:
            from podsim.show.markdown import report_as_markdown

            print_data(report_as_markdown(shown))
        case AnswerFormat.JSON:
            print_data(f"{to_json()}\n")
