"""Running a scenario: what is checked before, and what is written, told and printed after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from podsim.command_line.ending import print_data, say
from podsim.command_line.outputs import inputs_of, tell_written

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from podsim.report.forward import ForwardResult
    from podsim.report.generation import GenerationResult
    from podsim.report.result import RunResult
    from podsim.specs import LoadedScenario
    from podsim.specs.activity import Activity


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


class Misfit(StrEnum):
    """What becomes of a division that does not fit."""

    REFUSE = "refuse"
    WARN = "warn"


def check_paths(trace: Path | None, plot: Path | None) -> None:
    """Before anything is read or simulated."""
    if trace is not None:
        from podsim.report.files import check_writable

        check_writable(trace)
    if plot is not None:
        from podsim.command_line.charts import load_matplotlib

        load_matplotlib()
        from podsim.report.chart_frame import check_plot_path

        check_plot_path(plot)


def check_not_inputs(
    scenario: str, loaded: LoadedScenario, arrivals: Path | None = None, **outputs: Path | None
) -> None:
    """Once it is known what is read, and before anything is simulated."""
    from podsim.report.files import check_outputs

    given = {"the scenario": scenario, "the arrivals": arrivals}
    read = [(purpose, path) for purpose, path in given.items() if path is not None]
    check_outputs(outputs, (*read, *inputs_of(loaded)))


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a run is asked for.

    Attributes:
        output_format: How the result is printed.
        explicit: Whether every IPU of every replica is simulated.
        trace: Where the timeline goes.
        plot: Where the chart goes.
        influence: Whether all that the result stands on is measured.
        fit: What becomes of a division that does not fit.
    """

    output_format: Format
    explicit: bool
    trace: Path | None
    plot: Path | None
    influence: bool
    fit: Misfit = Misfit.REFUSE


@dataclass(frozen=True, slots=True)
class _Shown:
    """How results of an activity are shown.

    Attributes:
        watched: What is watched while it runs, in front of the names of steps.
        show: Prints the table.
        draw: Writes the chart.
    """

    watched: str
    show: Callable[[Any, Console], None]
    draw: Callable[[Any, Path], object]


def run_scenario(loaded: LoadedScenario, wishes: Wishes) -> None:
    """Simulate a scenario, write what is asked for, tell of it, and print."""
    from podsim.activity import run
    from podsim.report.progress import follow, track

    shown = _shown(loaded.spec.activity)
    result = run(
        loaded,
        explicit=wishes.explicit,
        influence=wishes.influence,
        record=wishes.trace is not None or wishes.plot is not None,
        watch=lambda names: track(names, shown.watched),
        follow=lambda count: follow(count, say),
        fit=wishes.fit.value,
    )
    if wishes.plot is not None:
        shown.draw(result, wishes.plot)
        tell_written(wishes.plot)
    if wishes.trace is not None:
        from podsim.report.perfetto import write_trace

        write_trace(result, wishes.trace)
        tell_written(wishes.trace)
    print_result(result.to_json, wishes.output_format, partial(shown.show, result))


def _shown(activity: Activity) -> _Shown:
    """Tables and charts of an activity, of which only these are imported."""
    from podsim.specs.activity import Activity

    match activity:
        case Activity.TRAINING:
            from podsim.report.table import print_result

            return _Shown("choosing: trying", print_result, _draw)
        case Activity.GENERATION:
            from podsim.report.generation_table import print_generation

            return _Shown("choosing: trying", print_generation, _draw_generation)
        case Activity.FORWARD:
            from podsim.report.forward_table import print_forward

            return _Shown("reading:", print_forward, _draw)


def _draw(result: RunResult | ForwardResult, path: Path) -> None:
    from podsim.report.plot import write_plot

    write_plot(result, path)


def _draw_generation(result: GenerationResult, path: Path) -> None:
    from podsim.report.generation_plot import write_generation_plot

    write_generation_plot(result, path)


def print_result(to_json: Callable[[], str], output_format: Format, show: Callable[[Console], None]) -> None:
    """Print a result as a table or as JSON."""
    if output_format is Format.JSON:
        print_data(f"{to_json()}\n")
    else:
        from podsim.command_line.console import TableConsole

        show(TableConsole())


def echo(text: str, for_programs: bool) -> None:
    """Print a text that ends its own lines."""
    if for_programs:
        print_data(text)
    else:
        typer.echo(text, nl=False)
