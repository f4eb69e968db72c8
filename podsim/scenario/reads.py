"""Which numbers of a scenario a computation reads: what it does not read cannot move what comes of it.

The parts of a scenario are copied, and the copies note each key that somebody asks them for. A part that is compared,
copied or written out as a whole counts as read, with all of its numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel

from podsim.scenario.base import keys_of

_Part = TypeVar("_Part", bound=BaseModel)
_Made = TypeVar("_Made")
_NOTED = "_podsim_noted"


def watched(part: _Part, path: str = "") -> tuple[_Part, set[str]]:
    """A copy of a scenario or of a part of one, and the keys that have been read of it, which grow as it is used.

    Args:
        part: The scenario.
        path: Its key, if it is a part.
    """
    read: set[str] = set()
    return _watched(part, path, read), read


def _watched(part: _Part, path: str, read: set[str]) -> _Part:
    kind = type(part)
    keys = {name: f"{path}.{key}".lstrip(".") for key, name in keys_of(kind).items()}

    def note(self: _Part, name: str) -> Any:
        if name in keys:
            read.add(keys[name])
        elif name == "__dict__":
            read.update(keys.values())
        elif name == "__class__":
            return kind  # so that it equals what it is a copy of
        return object.__getattribute__(self, name)

    inner = {name: getattr(part, name) for name in keys}
    copy = part.model_copy(
        update={name: _watched(each, keys[name], read) for name, each in inner.items() if isinstance(each, BaseModel)}
    )
    # Of the class itself but for the one method, without what pydantic does for a class of its own.
    members = {"__slots__": (), "__getattribute__": note, _NOTED: (part, read)}
    noting = type.__new__(type(kind), kind.__name__, (kind,), members)
    object.__setattr__(copy, "__class__", noting)
    return copy


def differing(one: BaseModel, other: BaseModel, path: str = "") -> Iterator[str]:
    """Keys at which two scenarios differ; a part that only one of them has, or that is of another kind, is a key."""
    for key, name in keys_of(type(one)).items():
        mine, others = getattr(one, name), getattr(other, name)
        if mine is others:
            continue
        inner = f"{path}.{key}".lstrip(".")
        if isinstance(mine, BaseModel) and type(mine) is type(others):
            yield from differing(mine, others, inner)
        elif mine != others:
            yield inner


class Parts:
    """What a run is made of, part by part: one that has read nothing that differs is that of the first run.

    The first run is that of a watched scenario. What a part returns must be plain data: it may not read the scenario
    later, and may take of other parts only what it names.
    """

    def __init__(self) -> None:
        """No run is known yet."""
        self._first: tuple[BaseModel, set[str]] | None = None
        self._known: dict[str, Any] = {}
        self._read: dict[str, set[str]] = {}
        self._changed: set[str] = set()
        self._is_first = False

    def begin(self, spec: BaseModel) -> None:
        """A run of a scenario begins."""
        noted: tuple[BaseModel, set[str]] | None = type(spec).__dict__.get(_NOTED)
        self._is_first = self._first is None and noted is not None
        if self._is_first:
            self._first = noted
        elif self._first is not None:
            self._changed = set(differing(self._first[0], spec if noted is None else noted[0]))

    def stands(self, name: str, *made_of: str) -> bool:
        """Whether a part is that of the first run: it has read nothing that differs, and what it is made of stands."""
        known = not self._is_first and name in self._known
        return known and not (self._changed & self._read[name]) and self._changed.isdisjoint(made_of)

    def of(self, name: str, make: Callable[[], _Made], *made_of: str) -> _Made:
        """A part, made if it does not stand.

        Args:
            name: Of the part.
            make: Makes it.
            made_of: Names of the parts that it takes something of.
        """
        if self.stands(name, *made_of):
            found: _Made = self._known[name]
            return found
        if not self._is_first or self._first is None:
            self._changed.add(name)
            return make()
        read = self._first[1]
        before = set(read)
        read.clear()
        try:
            self._known[name] = made = make()
            self._read[name] = set(read)
        finally:
            read |= before
        return made

    def is_now(self, name: str, value: _Made) -> _Made:
        """A part that is made each time; what is made of it stands if it equals that of the first run."""
        if self._is_first:
            self._known[name] = value
        elif name in self._known and self._known[name] == value:
            self._changed.discard(name)
            return self._known[name]  # type: ignore[no-any-return]
        else:
            self._changed.add(name)
        return value
