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
    from podsim.cli.mlperf import LogRequest
    from podsim.result.base import Result
    from podsim.runs.settings import Settings
    from podsim.scenario import LoadedScenario


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


def run_scenario(
    loaded: LoadedScenario,
    settings: Settings,
    output_format: Format,
    files: OutputFiles,
    log: LogRequest | None = None,
) -> None:
    """Simulate a scenario, write the files that are asked for, report them, and print the result.

    Args:
        loaded: The scenario.
        settings: How it is simulated; what follows the run is set here.
        output_format: How the result is printed.
        files: What is written.
        log: What is asked of result files of MLPerf, if any are.
    """
    from podsim.engine.compiled import is_available
    from podsim.runs import run_loaded
    from podsim.show.progress import follow, track

    what = "reading:" if loaded.spec.activity == "forward" else "choosing: trying"
    is_compiled = settings.engine != "simpy" and not settings.record and is_available()
    watched = replace(
        settings,
        watch=lambda names: track(names, what),
        follow=lambda count: follow(count, say, is_compiled=is_compiled),
    )
    result = run_loaded(loaded, watched)
    if files.trace is not None:
        from podsim.result.perfetto import write_trace

        write_trace(result, files.trace)
        tell_written(files.trace)
    if files.chakra is not None:
        from podsim.chakra.write import write_chakra

        write_chakra(result, files.chakra)
        tell_written(files.chakra)
    if log is not None:
        from podsim.cli.mlperf import write_log

        write_log(result, log)
    show_result(result, output_format, files)


def show_result(result: Result, output_format: Format, files: OutputFiles) -> None:
    """Write the charts and the page that are asked for, and print a result as tables or as JSON."""
    drawn = any(path is not None for path in (files.plot, files.tornado, files.report))
    report = result.report() if drawn or output_format is not Format.JSON else None
    if report is not None and drawn:
        from podsim.cli.charts import write_chart
        from podsim.cli.pages import write_report
        from podsim.result.base import tornado_sheet

        write_chart(files.plot, report.sheet, result.inputs)
        write_chart(files.tornado, lambda: tornado_sheet(result), result.inputs)
        write_report(files.report, lambda: report)
    if report is None or output_format is Format.JSON:
        print_data(f"{result.to_json()}\n")
    else:
        from podsim.show.text import print_report

        print_report(report)


def echo(text: str, for_programs: bool) -> None:
    """Print a text that brings its own line ends."""
    if for_programs:
        print_data(text)
    else:
        import typer

        typer.echo(terminal(text), nl=False)
