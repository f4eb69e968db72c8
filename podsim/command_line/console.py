"""The console that tables are printed on."""

from __future__ import annotations

from typing import NoReturn

from rich.console import Console


class TableConsole(Console):
    """Leaves it to the end of the command what becomes of it when whoever read its output has gone."""

    def on_broken_pipe(self) -> NoReturn:
        """Pass the error on instead of ending the process."""
        raise BrokenPipeError
