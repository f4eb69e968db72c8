"""What a command prints and writes: one way for all answers. No file is one that it reads, and each is reported."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from shutil import get_terminal_size
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Protocol

from podsim.cli.ending import print_data, say
from podsim.errors import PodsimError
from podsim.options import Shell

if TYPE_CHECKING:
    from podsim.report.chart import Sheet
    from podsim.report.report import Report
    from podsim.scenario import LoadedScenario
    from podsim.watch import Tell

FORMAT: Final = Shell(("--format",), said="What to print.")
RunFormat = Annotated[Literal["table", "json", "markdown"], FORMAT]
Format = Annotated[Literal["table", "json", "markdown", "csv"], FORMAT]
TextFormat = Annotated[Literal["text", "json", "markdown", "csv"], FORMAT]
"""How an answer is printed."""
Plot = Annotated[Path | None, Shell(said="Write a chart (.png, .svg or .pdf).")]
Page = Annotated[Path | None, Shell(metavar="FILE.html", said="Write a page with charts to hover over and zoom.")]
Force = Annotated[bool, Shell(said="Replace the output if it exists.")]
_CHARTS: Final = ("plot", "tornado")


class Answer(Protocol):
    """Protocol of every answer: text for people, JSON for programs."""

    def report(self) -> Report:
        """Return the answer for people."""

    def to_json(self) -> str:
        """Return the answer for programs, as JSON."""


def show(
    answer: Answer,
    output_format: str = "table",
    plot: Path | None = None,
    report: Path | None = None,
    *,
    shown: Report | None = None,
    sheet: Callable[[Report], Sheet] | None = None,
    own: Mapping[str, Callable[[], str]] = MappingProxyType({}),
) -> None:
    """Write the chart and the page of an answer if they are asked for, and print it; CSV is the first table.

    Another report or sheet of charts than the usual ones is given, and texts of its own in some formats.
    """
    if output_format == "json" and plot is None and report is None:
        print_data(f"{answer.to_json()}\n")
        return
    made = shown or answer.report()
    write_chart(plot, lambda: made.sheet() if sheet is None else sheet(made), made.inputs)
    if report is not None:
        from podsim.show.html_page import write_page

        write_page(made, report)
        tell_written(report)
    from podsim.report.table import Table
    from podsim.show.markdown import report_as_markdown, to_csv
    from podsim.show.text import WIDTH, PlainConsole, print_report

    match output_format:
        case _ if output_format in own:
            print_data(own[output_format]())
        case "json":
            print_data(f"{answer.to_json()}\n")
        case "markdown":
            print_data(report_as_markdown(made))
        case "csv":
            print_data(to_csv(next((block for block in made.short() if isinstance(block, Table)), Table((), ()))))
        case _:
            console = PlainConsole()
            if not console.is_terminal:
                console.width = max(get_terminal_size((WIDTH, 1)).columns, WIDTH * (output_format == "text"))
            print_report(made, console)


def print_json(data: object) -> None:
    """Print what programs read."""
    print_data(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


# Before the work


def check_paths(given: Mapping[str, Any]) -> None:
    """Refuse outputs, by the names of their options, that cannot be written, before anything is read or simulated."""
    if (trace := given.get("trace")) is not None:
        from podsim.result.files import check_writable

        check_writable(trace)
    if charts := [given[name] for name in _CHARTS if given.get(name) is not None]:
        _load_matplotlib()
        from podsim.show.matplotlib_charts import check_plot_path

        for path in charts:
            check_plot_path(path)
    if (page := given.get("report")) is not None:
        from podsim.show.html_page import check_page_path

        check_page_path(page)
    if (folder := given.get("save")) is not None and folder.exists() and not folder.is_dir():
        raise PodsimError("this is a file, not a folder", where=str(folder), do="name a folder")


def load_asked(asked: dict[str, Any], **outputs: Path | None) -> LoadedScenario:
    """Take the scenario out of what is asked for and load it; no output may overwrite what it reads."""
    from podsim.result.files import check_outputs
    from podsim.scenario import load_scenario

    scenario = asked.pop("scenario")
    loaded = load_scenario(scenario, asked.pop("variant", None), asked.pop("overrides", ()))
    read = [("the scenario", Path(scenario))]
    read += [("the arrivals", Path(asked["arrivals"]))] if asked.get("arrivals") else []
    check_outputs(outputs, [*read, *inputs_of(loaded)])
    return loaded


def inputs_of(loaded: LoadedScenario) -> Iterator[tuple[str, Path]]:
    """Purpose and path of every file that a run of a scenario reads."""
    from podsim.result.files import files_read

    yield from files_read(loaded.inputs)
    for purpose, section in (("the model", "model"), ("the arrivals", "serving")):
        name = getattr(getattr(loaded.spec, section, None), "file", None)
        if name is not None:
            yield purpose, loaded.folder / name
            yield purpose, Path(name)


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


# During it


@contextmanager
def counted(what: str, again: str = "") -> Iterator[Tell]:
    """Show a progress bar with the time left on standard error; report earlier work and what an interruption keeps."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        last: tuple[int, int] | None = None

        def tell(done: int, total: int) -> None:
            nonlocal last
            if done and last is None:
                say(f"going on: {done:,} of {total:,} {what} are done already")
            last = done, total
            bar.update(task, completed=done, total=total)

        try:
            yield tell
        except (KeyboardInterrupt, SystemExit):  # Control-C, or a signal to terminate
            if last and again:
                say(f"stopped: {last[0]:,} of {last[1]:,} {what} are kept; {again} goes on from there")
            raise


# After it


def write_chart(path: Path | None, make: Callable[[], Sheet], inputs: Iterable[tuple[str, str]]) -> None:
    """Write the requested charts, never over an input file, with the inputs' paths and SHA-256."""
    if path is not None:
        from podsim.show.matplotlib_charts import write_sheet

        write_sheet(make, path, inputs)
        tell_written(path)


def tell_written(path: Path) -> None:
    """Report on standard error which file was written and how large it is."""
    from podsim.format import format_bytes

    say(f"wrote {path}: {format_bytes(path.stat().st_size)}" if path.is_file() else f"wrote {path}")
