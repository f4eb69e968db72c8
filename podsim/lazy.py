"""Lazy sequences: most users of a result need only a few of its metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TypeVar, overload

_Item = TypeVar("_Item", covariant=True)


class LazySequence(Sequence[_Item]):
    """Sequence whose items a function returns on first use; equal to a tuple of the same items."""

    def __init__(self, make: Callable[[], Iterable[_Item]]) -> None:
        """Store `make`, which returns the items and is called at most once."""
        self._make = make

    @cached_property
    def _items(self) -> tuple[_Item, ...]:
        return tuple(self._make())

    @overload
    def __getitem__(self, index: int) -> _Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_Item]: ...
    def __getitem__(self, index: int | slice) -> _Item | Sequence[_Item]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[_Item]:
        return iter(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._items == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a tuple, because a function cannot be pickled."""
        return tuple, (self._items,)
