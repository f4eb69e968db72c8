"""Reader of `config.json`: values with their origin, and a collection of problems."""

from __future__ import annotations

import hashlib
import json
import math
import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.escaped import printable
from podsim.scenario.wording import quoted
from podsim.user_file import content_of

_MAX_FILE_BYTES = 1 << 20
_MAX_DEPTH = 50
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|-?(?:NaN|Infinity)\b', re.DOTALL)
_ANOTHER_FILE = "name the config.json of a Hugging Face model"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """Contents of a `config.json`."""

    name: str  # name of the file in messages and comments
    sha256: str
    data: Mapping[str, Any]  # its keys and values
    places: Mapping[str, str]  # `file:line:column` by key

    def where(self, key: str) -> str:
        """Return the `file:line:column` of a key, or the file if it has no such key."""
        return self.places.get(key, self.name)


def read_config(path: str | Path) -> ConfigFile:
    """Read a `config.json`, or raise a `SpecError` with the place of its problem."""
    name = printable(str(Path(path)))
    folder = "name the config.json in it"
    content = content_of(Path(path), _MAX_FILE_BYTES, _ANOTHER_FILE, name=name, folder=folder)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _error(name, "the file is not text in UTF-8", _ANOTHER_FILE) from error
    if not text.strip():
        raise _error(name, "the file is empty", _ANOTHER_FILE)
    return ConfigFile(name, hashlib.sha256(content).hexdigest(), *_parse(text, name))


def _error(where: str, message: str, do: str) -> SpecError:
    return SpecError([Problem(where, "", message, do)])


def _parse(text: str, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    places = _places(text, name)
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"{name}:{error.lineno}:{error.colno}"
        raise _error(place, f"not valid JSON: {_uncapitalised(error.msg)}", _syntax_cure(text, error.pos)) from None
    except ValueError:
        raise _error(name, "a number has too many digits", "write a number of at most 12 digits") from None
    if not isinstance(data, dict):
        raise _error(name, "the file must hold one JSON object", _ANOTHER_FILE)
    return data, places


def _uncapitalised(message: str) -> str:
    return message[:1].lower() + message[1:]


def _syntax_cure(text: str, position: int) -> str:
    if position >= len(text.rstrip()):
        return "the file ends too early; fetch it again"
    return "check quotes, commas and brackets"


@dataclass(frozen=True, slots=True)
class _Lines:
    """Converter of positions in a text into places."""

    name: str
    starts: tuple[int, ...]

    def place(self, position: int) -> str:
        line = bisect_right(self.starts, position)
        return f"{self.name}:{line}:{position - self.starts[line - 1] + 1}"


def _places(text: str, name: str) -> dict[str, str]:
    """Return the places of the keys of the outermost object."""
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


Value = int | float | str | bool | tuple[int, ...] | tuple[str, ...] | dict[str, int]
_MOST = 10**9
_FLAG_CURE = "write `true` or `false`"


@dataclass(frozen=True, slots=True)
class Entry:
    """Key of a scenario with its value and the origin of the value."""

    key: str
    value: Value
    origin: str = ""  # key, option or rule that the value comes from

    @property
    def whole(self) -> int:
        """Value of an entry that is a whole number."""
        assert isinstance(self.value, int)
        return self.value


class Reader:
    """Reader of keys by the rules of the library that wrote the file: missing keys have that library's defaults."""

    def __init__(self, config: ConfigFile, family: str) -> None:
        """Start without notes and problems."""
        self.config, self.family = config, family
        self.notes: list[str] = []
        self._problems: list[Problem] = []

    def complain(self, key: str, message: str, do: str) -> None:
        """Record a problem with a key of the file."""
        inside = key if key in self.config.places else ""
        self._problems.append(Problem(self.config.where(key), inside, message, do))

    def refuse(self, key: str, needs: str, do: str) -> None:
        """Record that a key has a value of the wrong kind; `needs` describes the right kind."""
        self.complain(key, f"{needs}, not {_shown(self.config.data[key])}", do)

    def check(self) -> None:
        """Raise an error with all recorded problems."""
        if self._problems:
            raise SpecError(self._problems)

    @property
    def sound(self) -> bool:
        """True if no problem is recorded."""
        return not self._problems

    def used_name(self, *names: str) -> str | None:
        """Return the name that the file uses, of several names for the same thing."""
        used = [name for name in names if name in self.config.data]
        for duplicate in used[1:]:
            first, second = (self.config.data[name] for name in (used[0], duplicate))
            if first != second:
                what = f"{duplicate} is {_shown(second)}, {used[0]} is {_shown(first)}, and both mean the same"
                self.complain(duplicate, what, "keep one of the two")
        return used[0] if used else None

    def ignore(self, *names: str) -> None:
        """Count keys as read that do not change the scenario."""
        for name in names:
            self.config.data.get(name)

    def whole(
        self, key: str, names: Sequence[str], default: int, *, null: int | None = None, why: str = "", most: int = _MOST
    ) -> Entry:
        """Return the entry `key` with the whole number from 1 to `most` under the first of `names` in the file.

        `default` stands for a missing number and `null` for a `null`, both with the origin `why`.
        """
        name = self.used_name(*names)
        if name is None:
            return Entry(key, default, self.absent(names[0], why))
        value = self.config.data[name]
        if value is None and null is not None:
            return Entry(key, null, f"{name} is null: {why}")
        problem = _number_problem(value, most)
        if problem:
            self.complain(name, *problem)
            return Entry(key, default)
        return Entry(key, value, name)

    def flag(self, key: str, name: str, *, default: bool) -> Entry:
        """Return the entry `key` with the value true or false under `name` in the file."""
        if name not in self.config.data:
            return Entry(key, default, self.absent(name))
        value = self.config.data[name]
        if not isinstance(value, bool):
            self.refuse(name, "needs true or false", _FLAG_CURE)
            return Entry(key, default)
        return Entry(key, value, name)

    def share(self, key: str, name: str, *, default: float, one: bool = False) -> Entry:
        """Return the entry `key` with the number under `name`: from 0 to below 1, or up to 1 if `one`."""
        if name not in self.config.data:
            return Entry(key, default, self.absent(name))
        value = self.config.data[name]
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and (0 <= value < 1 or (one and value == 1)):
            return Entry(key, float(value), name)
        needs, example = ("0 to 1", default) if one else ("0 to below 1", 0.1)
        self.refuse(name, f"needs a number from {needs}", f"write for example `{example}`")
        return Entry(key, default)

    def word(self, name: str, default: str) -> str:
        """Return the text under `name` in the file, or the default."""
        value = self.config.data.get(name, default)
        if isinstance(value, str):
            return printable(value)
        self.refuse(name, "needs text", f'write for example `"{default}"`')
        return default

    def absent(self, name: str, why: str = "") -> str:
        """Return the origin of a value that the file leaves out."""
        return f"{name} is not in the file: {why or f'default of {self.family}'}"


def _number_problem(value: Any, most: int) -> tuple[str, str] | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return f"needs a whole number, not {_shown(value)}", "write for example `12`"
    if value < 1:
        return f"{_shown(value)} is too small", "write 1 or more"
    if value > most:
        return f"{_shown(value)} is too large", f"write {most} or less"
    return None


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _MOST:
        return f"`{'-' if value < 0 else ''}1e{int(math.log10(abs(value)))}`"
    return printable(quoted(value))
