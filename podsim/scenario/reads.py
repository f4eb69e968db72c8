"""Which numbers of a scenario a computation reads: what it does not read cannot move what comes of it.

The parts of a scenario are copied, and the copies note each key that somebody asks them for. A part that is compared,
copied or written out as a whole counts as read, with all of its numbers.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from podsim.scenario.base import keys_of

_Part = TypeVar("_Part", bound=BaseModel)


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
    noting = type.__new__(type(kind), kind.__name__, (kind,), {"__slots__": (), "__getattribute__": note})
    object.__setattr__(copy, "__class__", noting)
    return copy
