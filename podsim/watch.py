"""Watching long work: the names of its steps pass through a function that may show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

Watch = Callable[[Sequence[str]], Iterable[str]]
"""Passes names on, and may show how far along they are."""

_Item = TypeVar("_Item")
PORTION = 1000
"""Items that share a name."""


def silent(names: Sequence[str]) -> Iterable[str]:
    """Pass names on without showing them."""
    return names


def in_portions(items: Sequence[_Item], what: str, watch: Watch) -> Iterator[_Item]:
    """Pass items on, with a name for each thousand of them.

    >>> list(in_portions(["a", "b"], "letters", silent))
    ['a', 'b']
    """
    starts = {f"{what} {start + 1:,} of {len(items):,}": start for start in range(0, len(items), PORTION)}
    for name in watch(list(starts)):
        yield from items[starts[name] : starts[name] + PORTION]
