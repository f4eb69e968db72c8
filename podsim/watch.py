"""Watching long work: the names of its steps pass through a function that may show them.

In a notebook a line below the cell shows how far work is that takes longer than two seconds; `PODSIM_PROGRESS=off` in
the environment keeps it away.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final, TextIO, TypeVar

Watch = Callable[[Sequence[str]], Iterable[str]]
"""Passes names on, and may show how far along they are."""

Tell = Callable[[int, int], None]
"""Is told how many things are done, and of how many."""
SWITCH: Final = "PODSIM_PROGRESS"
_PATIENCE_S: Final = 2.0
"""Work that is done before is not shown."""
_BLOCKS: Final = 20

_Item = TypeVar("_Item")
PORTION = 1000
"""Items that share a name."""


def silent(names: Sequence[str]) -> Iterable[str]:
    """Pass names on without showing them."""
    return names


def untold(_done: int, _total: int) -> None:
    """Show nothing."""


def in_portions(items: Sequence[_Item], what: str, watch: Watch) -> Iterator[_Item]:
    """Pass items on, with a name for each thousand of them.

    >>> list(in_portions(["a", "b"], "letters", silent))
    ['a', 'b']
    """
    starts = {f"{what} {start + 1:,} of {len(items):,}": start for start in range(0, len(items), PORTION)}
    for name in watch(list(starts)):
        yield from items[starts[name] : starts[name] + PORTION]


def is_notebook() -> bool:
    """Whether a kernel of Jupyter runs this process; IPython in a terminal has none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel") and os.environ.get(SWITCH) != "off"


class ProgressLine:
    """A line that is written over as work goes on, from two seconds on, and is gone at the end."""

    def __init__(self, what: str, stream: TextIO | None = None, clock: Callable[[], float] = monotonic) -> None:
        """Nothing is written yet.

        Args:
            what: Things that are done, or what is done with them.
            stream: Where it is written; standard error if left out, which a notebook shows below the cell.
            clock: Tells the time. [s]
        """
        self._what, self._stream, self._clock = what, stream or sys.stderr, clock
        self._begin_s, self._shown = clock(), ""

    def tell(self, done: int, total: int, name: str = "") -> None:
        """Show how much is done, and the name of what is next."""
        passed_s = self._clock() - self._begin_s
        if passed_s < _PATIENCE_S:
            return
        full = _BLOCKS * done // total if total else 0
        left = f", {passed_s / done * (total - done):.0f} s left" if done else ""
        self._write(f"{self._what} {name} [{'#' * full}{'.' * (_BLOCKS - full)}] {done:,} of {total:,}{left}")

    def end(self) -> None:
        """Leave an empty line behind."""
        if self._shown:
            self._write("")

    def _write(self, text: str) -> None:
        self._stream.write(f"\r{text.ljust(len(self._shown))}" if text else f"\r{' ' * len(self._shown)}\r")
        self._stream.flush()
        self._shown = text


def watched(names: Sequence[str]) -> Iterable[str]:
    """Pass names on; in a notebook, a line below the cell shows how far along they are."""
    return _with_line(names) if is_notebook() else names


def _with_line(names: Sequence[str]) -> Iterator[str]:
    line = ProgressLine("podsim:")
    try:
        for number, name in enumerate(names):
            line.tell(number, len(names), name)
            yield name
    finally:
        line.end()


@contextmanager
def telling(tell: Tell | None, what: str) -> Iterator[Tell]:
    """What is to be told of progress: the function that was given, or a line where that is left out in a notebook.

    Args:
        tell: Is told, if there is one.
        what: Things that are counted.
    """
    if tell is not None or not is_notebook():
        yield tell or untold
        return
    line = ProgressLine(f"podsim: {what}")
    try:
        yield line.tell
    finally:
        line.end()
