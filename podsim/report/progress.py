"""Progress of work that takes longer than a reader likes to wait."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def track(names: Sequence[str], what: str) -> Iterator[str]:
    """Pass names on, with a bar on standard error that is gone at the end; silent when nobody watches."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=len(names))
        for name in names:
            bar.update(task, description=f"{what} {name}")
            yield name
            bar.advance(task)
