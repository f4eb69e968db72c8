"""Headlines as tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from podsim.pages.parts import Tile
from podsim.result.base import Result
from podsim.result.ranges import range_text
from podsim.show.tables import compared


def tiles_of(result: Result, rows: Iterable[tuple[str, str, str]]) -> Iterator[Tile]:
    """Rows of a headline as tiles; a row whose label is empty or begins with a blank belongs to the one before."""
    label, value, notes = "", "", list[str]()
    for name, quantity, text in rows:
        if not name or name.startswith(" "):
            notes.append(f"{name.strip()} {text}".strip())
            continue
        if label:
            yield Tile(label, value, tuple(notes))
        label, value = name, text
        notes = [*filter(None, [range_text(result, quantity)]), *compared(result, quantity).splitlines()]
    if label:
        yield Tile(label, value, tuple(notes))
