"""Plain data with the place of every key, as files and mappings are read and laid over one another.

Files are YAML 1.2: text becomes plain data, or every problem at once. Mappings that a program gives become the plain
data that a file would hold. A file that was parsed before, here or by another process, is not parsed again as long as
its content is the same.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from podsim import disk, memo
from podsim.errors import Problem, SpecError
from podsim.scenario.wording import dotted, shown
from podsim.units import format_bytes

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
    """A key that was written beside the name of a pod or stack, when another was named in its place."""

    key: KeyPath
    value: Any
    place: str  # `file:line:column` where it was written
    by: str  # `file:line:column` of the other name
    kept: bool  # whether it is a choice of the scenario, which outlives the pod


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data with the place of every key and item."""

    data: Any  # mappings, lists and scalars
    places: Mapping[KeyPath, str] = field(default_factory=dict)  # `file:line:column` by key path
    inputs: tuple[tuple[str, str], ...] = ()  # (displayed path, SHA-256) of every file it was read from
    notices: tuple[str, ...] = ()  # what a reader must know of how it was read
    replaced: tuple[Replaced, ...] = ()  # keys beside the name of a pod or stack that gave way to another name

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


MAX_FILE_BYTES = 1 << 18


def read_yaml(path: Path, display: str | None = None) -> Document:
    """Read a file."""
    name = display or str(path)
    content = _content(path, name)
    digest = hashlib.sha256(content).hexdigest()
    return memo.DOCUMENTS.get((name, digest), lambda: _read(content, name, digest))


def _read(content: bytes, name: str, digest: str) -> Document:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise refusal(name, "the file is not text in UTF-8", "name a YAML file") from error
    key = disk.digest(
        [b"document", memo.SOURCES.get(__name__, _parser), digest.encode(), name.encode(errors="surrogatepass")]
    )
    document = disk.kept(key, lambda: parse_yaml(text, name), _to_json, _from_json)
    return Document(document.data, document.places, ((name, digest),))


def _parser() -> bytes:
    """A hash of the code that parses; the first file of the library names its version."""
    ours = (Path(__file__).with_name(f"{each}.py") for each in ("document", "yaml_text"))
    return disk.source([disk.library("ruamel.yaml"), *ours])


def _to_json(document: Document) -> dict[str, Any]:
    return {"data": document.data, "places": [[list(path), place] for path, place in document.places.items()]}


def _from_json(written: Mapping[str, Any]) -> Document:
    places = {tuple(path): place for path, place in written["places"]}
    if not isinstance(written["data"], dict) or not all(isinstance(place, str) for place in places.values()):
        raise TypeError(written)
    return Document(written["data"], places)


def _content(path: Path, name: str) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            limit = f"the limit is {format_bytes(MAX_FILE_BYTES)}"
            raise refusal(name, f"the file has {format_bytes(size)}; {limit}", "name a smaller YAML file")
        return path.read_bytes()
    except IsADirectoryError as error:
        raise refusal(name, "this is a folder, not a file", "name a file in it") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise refusal(name, f"the file cannot be read: {reason}", "check the path and its permissions") from error


def parse_yaml(text: str, name: str) -> Document:
    """Parse a text; `name` stands for the file in messages."""
    from podsim.scenario.yaml_text import parsed  # the library takes its time to be imported

    return parsed(text, name)


_COUNT = re.compile("[1-9][0-9]{0,17}")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)? [A-Za-z]+(/[A-Za-z]+)?")
"""Such as `17 GB/s`: to YAML a text, which needs no parser to be taken for one."""


def parse_value(text: str) -> Any:
    """A single value as it would be read in a file; text that is not YAML is taken as it stands."""
    if _COUNT.fullmatch(text):
        return int(text)
    if _QUANTITY.fullmatch(text):
        return text
    from podsim.scenario.yaml_text import parsed_value

    return memo.VALUES.get(text, lambda: parsed_value(text))


_MOST_DIGITS = 50


def plain_data(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    """Mappings, lists and scalars, copied."""
    data = _plain(mapping, ())
    assert isinstance(data, dict)
    return data


def _plain(value: Any, path: KeyPath) -> Any:
    if len(path) > MAX_DEPTH:
        raise _problem(path[:2], f"values are nested in more than {MAX_DEPTH} levels", "give a mapping of few levels")
    if isinstance(value, Mapping):
        return {_key(key, path): _plain(each, (*path, key)) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, (*path, place)) for place, each in enumerate(value)]
    return _scalar(value, path)


def _key(key: Any, path: KeyPath) -> str:
    if isinstance(key, str) and not is_text(key):
        raise _problem(path, *NO_TEXT)
    if not isinstance(key, str) or not key:
        raise _problem(path, f"a key must be text, not {shown(key)}", 'write for example `{"data": {"dropout": 0.1}}`')
    return key


def _scalar(value: Any, path: KeyPath) -> Any:
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(value, str) and not is_text(value):
        raise _problem(path, *NO_TEXT)
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
