"""A bar for work of which it is known how much there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from podsim.cli.ending import say


@contextmanager
def counted(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar with rate and time left on standard error; how much was done before is said in a line.

    Args:
        what: Things that are counted.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
    from rich.text import Text

    class _Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:.0f}/s")

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), _Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        begun = False

        def tell(done: int, total: int) -> None:
            nonlocal begun
            if done and not begun:
                say(f"going on: {done:,} of {total:,} {what} are done already")
            begun = True
            bar.update(task, completed=done, total=total)

        yield tell
