"""Plain data with the place of every key, as files and mappings are read and laid over one another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from podsim.errors import Problem, SpecError

KeyPath = tuple[str | int, ...]

MAX_DEPTH = 50
VALUE = "value"
"""The key that makes a mapping one number with its source."""
NO_TEXT = ("text holds half a character, a lone surrogate", "write the whole character")


def is_text(value: str) -> bool:
    """Whether it could be written to a file."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Replaced:
    """A key that was written beside the name of a pod or stack, when another was named in its place.

    Attributes:
        key: Its key path.
        value: What was written.
        place: `file:line:column` where it was written.
        by: `file:line:column` of the other name.
        kept: Whether it is a choice of the scenario, which outlives the pod.
    """

    key: KeyPath
    value: Any
    place: str
    by: str
    kept: bool


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data with the place of every key and item.

    Attributes:
        data: Mappings, lists and scalars.
        places: `file:line:column` by key path.
        inputs: (displayed path, SHA-256) of every file it was read from.
        notices: What a reader must know of how it was read.
        replaced: Keys beside the name of a pod or stack that gave way to another name.
    """

    data: Any
    places: Mapping[KeyPath, str] = field(default_factory=dict)
    inputs: tuple[tuple[str, str], ...] = ()
    notices: tuple[str, ...] = ()
    replaced: tuple[Replaced, ...] = ()

    def at(self, path: KeyPath) -> Any:
        """The value under a key path; None if there is none."""
        data = self.data
        for part in path:
            data = data.get(part) if isinstance(data, dict) else None
        return data

    def where(self, path: KeyPath) -> str:
        """The place of a key path, or of the nearest part of it that has one."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return ""


def refusal(where: str, message: str, do: str) -> SpecError:
    """The one problem of a file: where, what is wrong and what to do."""
    return SpecError([Problem(where, "", message, do)])
