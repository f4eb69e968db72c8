"""Progress bars of long work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from podsim.format import format_duration_s

_EVENTS_PER_S: Final = {True: 5_000_000, False: 100_000}
"""Simulated events per second of the compiled engine (True) and the Python engine, for announcements only."""
_LONG_S: Final = 10
_PARTS: Final = 100


def track(names: Sequence[str], what: str) -> Iterator[str]:
    """Yield names, with a transient progress bar on standard error if it is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=len(names))
        for name in names:
            bar.update(task, description=f"{what} {name}")
            yield name
            bar.advance(task)


def follow(event_count: int, say: Callable[[str], None], *, is_compiled: bool) -> Iterable[int]:
    """Return the number of events until each update of the progress bar.

    A simulation of more than ten seconds is announced by `say`; a shorter one has no bar and no updates.
    """
    seconds = event_count / _EVENTS_PER_S[is_compiled]
    if seconds <= _LONG_S:
        return ()
    # The compiled engine skips repetitions that it finds equal.
    about = "at most about" if is_compiled else "about"
    say(f"simulating about {event_count:,} events, which takes {about} {format_duration_s(seconds, 2)}")
    parts = track([f"{part} %" for part in range(_PARTS)], "simulated")
    return (event_count // _PARTS for _ in parts)
