"""What a command prints and writes: one way for all answers. No file is one that it reads, and each is reported."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Protocol

from podsim.cli.ending import print_data, say
from podsim.errors import PodsimError
from podsim.harmless import terminal

if TYPE_CHECKING:
    from podsim.report.chart import Sheet
    from podsim.report.report import Report
    from podsim.report.table import Table
    from podsim.scenario import LoadedScenario


class Format(StrEnum):
    """How an answer is printed."""

    TABLE = "table"
    JSON = "json"


class LongFormat(StrEnum):
    """How an answer of many rows is printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"
    CSV = "csv"


class Answer(Protocol):
    """What every answer says of itself."""

    def report(self) -> Report:
        """For people."""

    def to_json(self) -> str:
        """For programs."""


def show(
    found: Answer,
    output_format: str,
    plot: Path | None = None,
    report: Path | None = None,
    *,
    rows: Table | None = None,
) -> None:
    """Write charts and page of an answer if they are asked for, and print it; CSV has `rows`, or its first table."""
    if output_format == "json" and plot is None and report is None:
        print_data(f"{found.to_json()}\n")
        return
    made = found.report()
    write_chart(plot, made.sheet, made.inputs)
    write_report(report, lambda: made)
    from podsim.report.table import Table
    from podsim.show.markdown import report_as_markdown, to_csv
    from podsim.show.text import WIDTH, print_report, report_as_text

    match output_format:
        case "json":
            print_data(f"{found.to_json()}\n")
        case "markdown":
            print_data(report_as_markdown(made))
        case "csv":
            print_data(to_csv(rows or next(block for block in made.short() if isinstance(block, Table))))
        case _ if sys.stdout.isatty():
            print_report(made)
        case _:
            echo(report_as_text(made, get_terminal_size((WIDTH, 1)).columns))


def print_json(data: object) -> None:
    """Print what programs read."""
    print_data(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def echo(text: str) -> None:
    """Print a text that brings its own line ends, for a terminal."""
    sys.stdout.write(terminal(text))


# Before the work


def check_paths(trace: Path | None, *plots: Path | None, report: Path | None = None) -> None:
    """Refuse paths that cannot be written, before anything is read or simulated."""
    if trace is not None:
        from podsim.result.files import check_writable

        check_writable(trace)
    if charts := [path for path in plots if path is not None]:
        _load_matplotlib()
        from podsim.show.matplotlib_charts import check_plot_path

        for path in charts:
            check_plot_path(path)
    if report is not None:
        from podsim.show.html_page import check_page_path

        check_page_path(report)


def check_not_inputs(
    scenario: str, loaded: LoadedScenario, arrivals: Path | None = None, **outputs: Path | None
) -> None:
    """Refuse outputs that would overwrite what a run reads, before anything is simulated."""
    from podsim.result.files import check_outputs

    given = {"the scenario": scenario, "the arrivals": arrivals}
    read = [(purpose, path) for purpose, path in given.items() if path is not None]
    check_outputs(outputs, (*read, *inputs_of(loaded)))


def inputs_of(loaded: LoadedScenario) -> Iterator[tuple[str, Path]]:
    """Purpose and path of every file that a run of a scenario reads."""
    from podsim.result.files import files_read

    yield from files_read(loaded.inputs)
    for purpose, section in (("the model", "model"), ("the arrivals", "serving")):
        name = getattr(getattr(loaded.spec, section, None), "file", None)
        if name is not None:
            yield purpose, loaded.folder / name
            yield purpose, Path(name)


def inputs_of_import(model: str, system: str, output: Path) -> Iterator[tuple[str, Path]]:
    """Purpose and path of every file that an import reads and that its output could overwrite."""
    from podsim.result.files import files_read
    from podsim.scenario import load_hardware

    yield "the input", Path(model)
    if output.exists():
        with suppress(PodsimError):  # the import says what is wrong with the pod
            yield from files_read(load_hardware(system, "pod")[1].inputs)


def _load_matplotlib() -> None:
    """Import matplotlib without a backend of the environment; its complaints about folders do not matter here."""
    os.environ.pop("MPLBACKEND", None)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        import_module("matplotlib")
    except (OSError, ValueError, RuntimeError) as error:
        what = f"matplotlib, which draws charts, cannot be loaded: {' '.join(str(error).split())}"
        cure = "mend or remove the file `matplotlibrc` in this folder, or the one that MATPLOTLIBRC names"
        raise PodsimError(what, do=cure) from error


# After it


def write_chart(path: Path | None, make: Callable[[], Sheet], inputs: Iterable[tuple[str, str]]) -> None:
    """Write the charts that are asked for over none of the files they stand on, by path and SHA-256, and report it."""
    if path is not None:
        from podsim.show.matplotlib_charts import write_sheet

        write_sheet(make, path, inputs)
        tell_written(path)


def write_report(path: Path | None, make: Callable[[], Report]) -> None:
    """Write the page that is asked for, and report it."""
    if path is not None:
        from podsim.show.html_page import write_page

        write_page(make(), path)
        tell_written(path)


def tell_written(path: Path | None) -> None:
    """Report on standard error which file was written and how large it is."""
    from podsim.format import format_bytes

    if path is not None and path.is_file():
        say(f"wrote {path}: {format_bytes(path.stat().st_size)}")
    elif path is not None:
        say(f"wrote {path}")
