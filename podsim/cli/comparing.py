"""`podsim compare`: results beside one another, as text, Markdown, JSON and a chart."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from podsim.cli import completion
from podsim.cli.ending import BEYOND_LIMITS, print_data
from podsim.cli.outputs import tell_written
from podsim.cli.pages import Report, check_report, write_report
from podsim.cli.running import check_paths
from podsim.harmless import terminal

if TYPE_CHECKING:
    from podsim.draws import Draws
    from podsim.many.compare import Comparison


class ComparisonFormat(StrEnum):
    """How a comparison is printed."""

    TEXT = "text"
    MARKDOWN = "markdown"
    JSON = "json"


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
    output_format: Annotated[ComparisonFormat, typer.Option("--format", help="What to print.")] = ComparisonFormat.TEXT,
    unchanged: Annotated[bool, typer.Option("--all", help="Show what is the same, too.")] = False,
    precision: Annotated[int, typer.Option(min=2, max=15, help="Significant digits.")] = 4,
    plot: Annotated[Path | None, typer.Option(help="Write a chart (.png, .svg or .pdf).")] = None,
    draw_count: Annotated[
        int | None, typer.Option("--uncertainty", help="Repeat each so often with inputs drawn from their ranges.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of these draws.")] = 0,
    report: Report = None,
    fail_on: Annotated[
        FailOn | None, typer.Option(help="Exit with 4 if a metric is worse than that of A, beyond their ranges.")
    ] = None,
) -> None:
    """Compare results with the first: what changed and why, time by kind, and what differs in the inputs."""
    from podsim.many.compare import compare as compare_sides
    from podsim.show.progress import track

    check_paths(None, plot)
    check_report(report)
    found = compare_sides(*sides, uncertainty=_draws(draw_count, seed), watch=lambda names: track(names, "comparing:"))
    if plot is not None:
        from podsim.many.compare.plot import comparison_sheet
        from podsim.show.matplotlib_charts import write_sheet

        write_sheet(lambda: comparison_sheet(found), plot, found.inputs)
        tell_written(plot)
    if report is not None:
        from podsim.pages.comparison_page import comparison_page

        write_report(report, lambda: comparison_page(found))
    _print(found, output_format, unchanged=unchanged, precision=precision)
    if fail_on is FailOn.WORSE and found.is_worse:
        raise typer.Exit(BEYOND_LIMITS)


def _draws(count: int | None, seed: int) -> Draws | None:
    if count is None:
        return None
    from podsim.draws import Draws

    return Draws(count, seed)


def _print(found: Comparison, output_format: ComparisonFormat, *, unchanged: bool, precision: int) -> None:
    match output_format:
        case ComparisonFormat.TEXT:
            typer.echo(terminal(found.text(unchanged=unchanged, precision=precision)), nl=False)
        case ComparisonFormat.MARKDOWN:
            print_data(found.markdown(unchanged=unchanged, precision=precision))
        case ComparisonFormat.JSON:
            print_data(f"{found.to_json()}\n")
