"""`podsim sweep`: a study from its file to its table, with progress and a summary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from podsim.command_line.ending import say
from podsim.command_line.outputs import tell_written
from podsim.command_line.running import check_paths

if TYPE_CHECKING:
    from podsim.sweep.run import Swept, Tell


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks of a study.

    Attributes:
        study: The file.
        output: The table; that of the study with `.parquet` if left out.
        processes: How many points are simulated at a time.
        scheduler: Address of a Dask scheduler.
        restart: Whether rows of an earlier attempt are dropped.
        plot: A chart to write.
        metric: The column that it shows.
    """

    study: Path
    output: Path | None
    processes: int | None
    scheduler: str | None
    restart: bool
    plot: Path | None
    metric: str | None


def sweep_as_asked(asked: Asked) -> bool:
    """Simulate a study and print what became of it.

    Returns:
        Whether no point met a bug of podsim.
    """
    from podsim.sweep import sweep

    check_paths(None, asked.plot)
    output = asked.output or Path(asked.study.with_suffix(".parquet").name)
    with _progress() as tell:
        swept = sweep(
            asked.study,
            output,
            processes=asked.processes,
            scheduler=asked.scheduler,
            restart=asked.restart,
            tell=tell,
        )
    if asked.plot is not None:
        from podsim.sweep.plot import plot_study

        plot_study(swept, asked.plot, asked.metric)
    tell_written(output)
    tell_written(asked.plot)
    typer.echo(_summary(swept))
    return "failed" not in swept.by_status


def _summary(swept: Swept) -> str:
    parts = ", ".join(f"{count:,} {status}" for status, count in swept.by_status.items())
    return f"{swept.count:,} points: {parts}"


@contextmanager
def _progress() -> Iterator[Tell]:
    """A bar with rate and time left on standard error; how much was found from before is said in a line."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
    from rich.text import Text

    class _Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:.0f}/s")

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("points", total=None)
        begun = False

        def tell(done: int, total: int) -> None:
            nonlocal begun
            if done and not begun:
                say(f"going on: {done:,} of {total:,} points are done already")
            begun = True
            bar.update(task, completed=done, total=total)

        yield tell
