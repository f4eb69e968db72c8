"""Progress of long work.

In a notebook, a line below the cell shows the progress of work that takes longer than two seconds;
`PODSIM_PROGRESS=off` in the environment switches it off.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Final, TextIO, TypeVar

Watch = Callable[[Sequence[str]], Iterable[str]]  # passes on the names of steps, and may show progress
Tell = Callable[[int, int], None]  # progress callback, called with the number done and the total
SWITCH: Final = "PODSIM_PROGRESS"
PORTION: Final = 1000  # items that share a name
_PATIENCE_S: Final = 2.0  # shorter work is not shown
_BLOCKS: Final = 20
_Item = TypeVar("_Item")


def silent(names: Sequence[str]) -> Iterable[str]:
    """Pass names on without showing them."""
    return names


def no_progress(_done: int, _total: int) -> None:
    """Show nothing."""


def in_portions(items: Sequence[_Item], what: str, watch: Watch) -> Iterator[_Item]:
    """Pass items on, with a name for each thousand of them.

    >>> list(in_portions(["a", "b"], "letters", silent))
    ['a', 'b']
    """
    starts = {f"{what} {start + 1:,} of {len(items):,}": start for start in range(0, len(items), PORTION)}
    for name in watch(list(starts)):
        yield from items[starts[name] : starts[name] + PORTION]


@contextmanager
def progress_line(
    what: str, stream: TextIO | None = None, clock: Callable[[], float] = monotonic
) -> Iterator[Callable[..., None]]:
    """Show a progress line on standard error or another stream, from two seconds on until the end.

    Yield a callback that takes the number done, the total, and optionally the name of the next item.
    """
    output, begin_s, shown = stream or sys.stderr, clock(), ""

    def tell(done: int, total: int, name: str = "") -> None:
        nonlocal shown
        passed_s = clock() - begin_s
        if passed_s < _PATIENCE_S:
            return
        full = _BLOCKS * done // total if total else 0
        left = f", {passed_s / done * (total - done):.0f} s left" if done else ""
        text = f"{what} {name} [{'#' * full}{'.' * (_BLOCKS - full)}] {done:,} of {total:,}{left}"
        print(f"\r{text.ljust(len(shown))}", end="", file=output, flush=True)
        shown = text

    try:
        yield tell
    finally:
        if shown:
            print(f"\r{' ' * len(shown)}\r", end="", file=output, flush=True)


def is_notebook() -> bool:
    """Return True if a kernel of Jupyter runs this process; IPython in a terminal has none."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return hasattr(shell, "kernel") and os.environ.get(SWITCH) != "off"


def watched(names: Sequence[str]) -> Iterator[str]:
    """Pass names on; in a notebook, a line below the cell shows how far along they are."""
    if not is_notebook():
        yield from names
        return
    with progress_line("podsim:") as tell:
        for number, name in enumerate(names):
            tell(number, len(names), name)
            yield name


@contextmanager
def telling(tell: Tell | None, what: str) -> Iterator[Tell]:
    """Yield the progress callback; by default a progress line in a notebook and nothing elsewhere."""
    if tell is not None or not is_notebook():
        yield tell or no_progress
    else:
        with progress_line(f"podsim: {what}") as line:
            yield line
