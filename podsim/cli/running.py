"""Running a scenario: checks before it, and what is written, reported and printed after it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from podsim.cli.ending import print_data, say
from podsim.cli.outputs import inputs_of, tell_written
from podsim.harmless import terminal

if TYPE_CHECKING:
    from collections.abc import Callable

    from podsim.result.base import Result
    from podsim.runs.settings import Settings
    from podsim.scenario import LoadedScenario
    from podsim.scenario.activity import Activity
    from podsim.show.tables import Tables


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"


class Misfit(StrEnum):
    """The treatment of a division that does not fit."""

    REFUSE = "refuse"
    WARN = "warn"


class EngineChoice(StrEnum):
    """Which engine runs programs."""

    AUTO = "auto"
    SIMPY = "simpy"
    COMPILED = "compiled"


def check_paths(trace: Path | None, *plots: Path | None) -> None:
    """Refuse paths that cannot be written, before anything is read or simulated."""
    if trace is not None:
        from podsim.result.files import check_writable

        check_writable(trace)
    if charts := [path for path in plots if path is not None]:
        from podsim.cli.charts import load_matplotlib

        load_matplotlib()
        from podsim.show.matplotlib_charts import check_plot_path

        for path in charts:
            check_plot_path(path)


def check_not_inputs(
    scenario: str, loaded: LoadedScenario, arrivals: Path | None = None, **outputs: Path | None
) -> None:
    """Refuse outputs that would overwrite what a run reads, before anything is simulated."""
    from podsim.result.files import check_outputs

    given = {"the scenario": scenario, "the arrivals": arrivals}
    read = [(purpose, path) for purpose, path in given.items() if path is not None]
    check_outputs(outputs, (*read, *inputs_of(loaded)))


def run_plainly(scenario: str) -> None:
    """Simulate a scenario as the command does without options."""
    from podsim.runs.settings import Settings
    from podsim.scenario import load_scenario

    loaded = load_scenario(scenario)
    run_scenario(loaded, Settings(), Format.TABLE, OutputFiles())


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """What a run writes; None for what is not asked for.

    Attributes:
        trace: The timeline.
        chakra: The folder of Chakra execution traces.
        plot: The chart.
        tornado: The chart of what moves the result most.
        report: The page.
    """

    trace: Path | None = None
    chakra: Path | None = None
    plot: Path | None = None
    tornado: Path | None = None
    report: Path | None = None


@dataclass(frozen=True, slots=True)
class _Shown:
    """How results of an activity are shown.

    Attributes:
        watched: What is watched while it runs, in front of the names of steps.
        tables: Makes the tables.
    """

    watched: str
    tables: Callable[..., Tables]


def run_scenario(
    loaded: LoadedScenario,
    settings: Settings,
    output_format: Format,
    files: OutputFiles,
) -> None:
    """Simulate a scenario, write the files that are asked for, report them, and print the result.

    Args:
        loaded: The scenario.
        settings: How it is simulated; what follows the run is set here.
        output_format: How the result is printed.
        files: What is written.
    """
    from podsim.engine.compiled import is_available
    from podsim.runs import run_loaded
    from podsim.show.progress import follow, track

    shown = _shown(loaded.spec.activity)
    is_compiled = settings.engine != "simpy" and not settings.record and is_available()
    watched = replace(
        settings,
        watch=lambda names: track(names, shown.watched),
        follow=lambda count: follow(count, say, is_compiled=is_compiled),
    )
    result = run_loaded(loaded, watched)
    if files.plot is not None or files.tornado is not None:
        from podsim.cli.charts import write_chart
        from podsim.show.answers import sheet_of
        from podsim.show.run_charts import tornado_sheet

        write_chart(files.plot, lambda: sheet_of(result), result.inputs)
        write_chart(files.tornado, lambda: tornado_sheet(result), result.inputs)
    if files.trace is not None:
        from podsim.show.perfetto import write_trace

        write_trace(result, files.trace)
        tell_written(files.trace)
    if files.chakra is not None:
        from podsim.chakra.write import write_chakra

        write_chakra(result, files.chakra)
        tell_written(files.chakra)
    if files.report is not None:
        from podsim.cli.pages import write_result

        write_result(files.report, result)
    show_result(result, shown.tables, output_format)


def _shown(activity: Activity) -> _Shown:
    """How results of an activity are shown; modules of other activities are not imported."""
    from podsim.scenario.activity import Activity

    match activity:
        case Activity.TRAINING:
            from podsim.show.tables import training_tables

            return _Shown("choosing: trying", training_tables)
        case Activity.GENERATION:
            from podsim.show.tables import generation_tables

            return _Shown("choosing: trying", generation_tables)
        case Activity.FORWARD:
            from podsim.show.tables import forward_tables

            return _Shown("reading:", forward_tables)


def show_result(result: Result, tables: Callable[..., Tables], output_format: Format) -> None:
    """Print a result as tables or as JSON."""
    if output_format is Format.JSON:
        print_data(f"{result.to_json()}\n")
    else:
        from podsim.show.page import print_result

        print_result(result, tables)


def echo(text: str, for_programs: bool) -> None:
    """Print a text that brings its own line ends."""
    if for_programs:
        print_data(text)
    else:
        import typer

        typer.echo(terminal(text), nl=False)
