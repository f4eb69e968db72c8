"""Plain data with the place of every key, as files and mappings are read and merged.

Mappings that a program gives become the plain data that a file would contain.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.scenario.wording import dotted, quoted

KeyPath = tuple[str | int, ...]

MAX_DEPTH = 50
VALUE = "value"
"""Key of the number in a mapping that also has its source."""
LONE_SURROGATE = ("text holds half a character, a lone surrogate", "write the whole character")
"""Message and cure for text that cannot be encoded in UTF-8."""


def is_text(value: str) -> bool:
    """Return True if the text can be encoded in UTF-8."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Replaced:
    """Key that a scenario wrote next to the name of a pod or stack, before an override named another one."""

    key: KeyPath
    value: Any
    place: str  # `file:line:column` where it was written
    by: str  # `file:line:column` of the other name
    kept: bool  # True for a choice of the scenario, which stays with another pod


@dataclass(frozen=True, slots=True)
class Namesake:
    """File with the name of a shipped file but other content, which was not read."""

    name: str  # the shipped name
    kind: str  # kind of the shipped file, in words
    path: str  # the file

    @property
    def path_to_write(self) -> str:
        """Path that names this file rather than the shipped one."""
        return self.path if len(Path(self.path).parts) > 1 else f"./{self.path}"


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data with the place of every key and item."""

    data: Any  # mappings, lists and scalars
    places: Mapping[KeyPath, str] = field(default_factory=dict)  # `file:line:column` by key path
    inputs: tuple[tuple[str, str], ...] = ()  # (displayed path, SHA-256) of every file that was read
    notices: tuple[str, ...] = ()  # remarks for the user on how the file was read
    namesakes: tuple[Namesake, ...] = ()  # files nearby with the name of a shipped file
    replaced: tuple[Replaced, ...] = ()  # keys next to the name of a pod or stack that another name replaced
    division: Mapping[str, Any] | None = None  # sections of a layout that `parallelism: auto` replaced

    def value_at(self, path: KeyPath) -> Any:
        """Return the value under a key path, or None."""
        data = self.data
        for part in path:
            data = data.get(part) if isinstance(data, dict) else None
        return data

    def where(self, path: KeyPath) -> str:
        """Return the place of a key path, or of its longest prefix with a place."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return ""


def refusal(where: str, message: str, do: str) -> SpecError:
    """Return an error with one problem of a file."""
    return SpecError([Problem(where, "", message, do)])


_MOST_DIGITS = 50


def plain_data(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    """Return a copy that consists of mappings, lists and scalars."""
    data = _plain(mapping, ())
    assert isinstance(data, dict)
    return data


def _plain(value: Any, path: KeyPath) -> Any:
    if len(path) > MAX_DEPTH:
        raise _problem(path[:2], f"values are nested in more than {MAX_DEPTH} levels", "give a mapping of few levels")
    if isinstance(value, Mapping):
        return {_key(key, path): _plain(part, (*path, key)) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part, (*path, place)) for place, part in enumerate(value)]
    return _scalar(value, path)


def _key(key: Any, path: KeyPath) -> str:
    if isinstance(key, str) and not is_text(key):
        raise _problem(path, *LONE_SURROGATE)
    if not isinstance(key, str) or not key:
        raise _problem(path, f"a key must be text, not {quoted(key)}", 'write for example `{"data": {"dropout": 0.1}}`')
    return key


def _scalar(value: Any, path: KeyPath) -> Any:
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(value, str) and not is_text(value):
        raise _problem(path, *LONE_SURROGATE)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        if abs(int(value)) >= 10**_MOST_DIGITS:
            what = f"a number of more than {_MOST_DIGITS} digits"
            raise _problem(path, what, "give a smaller one")
        return int(value)
    if isinstance(value, Real):
        if not math.isfinite(value):
            raise _problem(path, f"`{value}` is not a finite number", "give a finite one")
        return float(value)
    raise _problem(
        path, f"needs text, a number, a list or a mapping, not {type(value).__name__}", "give what a file could hold"
    )


def _problem(path: KeyPath, message: str, do: str) -> SpecError:
    return SpecError([Problem("", dotted(path) or "scenario", message, do)])
