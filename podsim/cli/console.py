"""The console that tables are printed on."""

from __future__ import annotations

from typing import NoReturn

from podsim.show.page import PlainConsole


class TableConsole(PlainConsole):
    """A console that raises an error when the reader of its output has gone; `run_to_the_end` decides what follows."""

    def on_broken_pipe(self) -> NoReturn:
        """Pass the error on instead of ending the process."""
        raise BrokenPipeError
