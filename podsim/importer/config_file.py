"""A `config.json` with the place of every key: text to plain data, or every problem at once."""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.units import format_bytes

_MAX_FILE_BYTES = 1 << 20
_MAX_DEPTH = 50
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|-?(?:NaN|Infinity)\b', re.DOTALL)
_ANOTHER_FILE = "name the config.json of a Hugging Face model"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The object that a file holds.

    Attributes:
        name: How messages and comments name the file.
        sha256: Of its bytes.
        data: Its keys and values.
        places: `file:line:column` by key.
    """

    name: str
    sha256: str
    data: Mapping[str, Any]
    places: Mapping[str, str]

    def where(self, key: str) -> str:
        """The place of a key, or the file if it is not there."""
        return self.places.get(key, self.name)


def read_config(path: str | Path) -> ConfigFile:
    """Read a file.

    Args:
        path: The file.

    Raises:
        SpecError: It cannot be read, is not JSON, is not an object, or is too large.
    """
    name = printable(str(Path(path)))
    content = _content(Path(path), name)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(name, "the file is not text in UTF-8", _ANOTHER_FILE) from error
    if not text.strip():
        raise _error(name, "the file is empty", _ANOTHER_FILE)
    return ConfigFile(name, hashlib.sha256(content).hexdigest(), *_parse(text, name))


def printable(text: str) -> str:
    r"""Text that fits on one line of a message or a comment.

    >>> printable("a\nb")
    'a?b'
    """
    return "".join(each if each.isprintable() else "?" for each in text)


def _content(path: Path, name: str) -> bytes:
    try:
        if path.is_dir():
            raise _error(name, "this is a folder, not a file", "name the config.json in it")
        if path.exists() and not path.is_file():
            raise _error(name, "this is not a file but a device or a pipe", _ANOTHER_FILE)
        size = path.stat().st_size
        if size > _MAX_FILE_BYTES:
            what = f"the file has {format_bytes(size)}; the limit is {format_bytes(_MAX_FILE_BYTES)}"
            raise _error(name, what, _ANOTHER_FILE)
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "the path is not valid"
        raise _error(name, f"the file cannot be read: {reason}", "check the path and its permissions") from error


def _error(where: str, message: str, do: str) -> SpecError:
    return SpecError([Problem(where, "", message, do)])


def _parse(text: str, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    places = _places(text, name)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}:{error.colno}"
        raise _error(place, f"not valid JSON: {_small(error.msg)}", _syntax_cure(text, error.pos)) from None
    except ValueError:
        raise _error(name, "a number has too many digits", "write a number of at most 12 digits") from None
    if not isinstance(data, dict):
        raise _error(name, "the file must hold one JSON object", _ANOTHER_FILE)
    return data, places


def _small(message: str) -> str:
    return message[:1].lower() + message[1:]


def _syntax_cure(text: str, position: int) -> str:
    if position >= len(text.rstrip()):
        return "the file ends too early; fetch it again"
    return "check quotes, commas and brackets"


@dataclass(frozen=True, slots=True)
class _Lines:
    """Turns positions into places."""

    name: str
    starts: tuple[int, ...]

    def place(self, position: int) -> str:
        line = bisect_right(self.starts, position)
        return f"{self.name}:{line}:{position - self.starts[line - 1] + 1}"


def _places(text: str, name: str) -> dict[str, str]:
    """Where the keys of the outermost object are.

    Raises:
        SpecError: What Python reads but JSON does not allow, or what is nested too deeply.
    """
    lines = _Lines(name, (0, *(match.end() for match in re.finditer("\n", text))))
    places: dict[str, str] = {}
    depth, last = 0, None
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{" | "[":
                depth += 1
                if depth > _MAX_DEPTH:
                    where = lines.place(token.start())
                    raise _error(where, f"values are nested in more than {_MAX_DEPTH} levels", "remove brackets")
            case "}" | "]":
                depth -= 1
            case ":" if depth == 1 and last is not None:
                _note_key(last, places, lines)
            case "NaN" | "Infinity" | "-Infinity":
                what = f"not valid JSON: `{token[0]}` is not a number"
                raise _error(lines.place(token.start()), what, "write a number, or `null`")
        last = token if token[0].startswith('"') else None
    return places


def _note_key(token: re.Match[str], places: dict[str, str], lines: _Lines) -> None:
    try:
        key = json.loads(token[0])
    except json.JSONDecodeError:
        return
    where = lines.place(token.start())
    if key in places:
        what = f"key `{printable(key)}` appears twice, first at {places[key]}"
        raise _error(where, what, "keep one of the two")
    places[key] = where
