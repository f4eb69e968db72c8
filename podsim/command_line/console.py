"""The console that tables are printed on."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class TableConsole(Console):
    """A console that raises an error when the reader of its output has gone; `run_to_the_end` decides what follows."""

    def __init__(self) -> None:
        """Names are printed as they are: what looks like the code of an emoji is none, and their table is long."""
        super().__init__(emoji=False)

    def on_broken_pipe(self) -> NoReturn:
        """Pass the error on instead of ending the process."""
        raise BrokenPipeError
