"""YAML 1.2 with the place of every key: text to plain data, or every problem at once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from podsim.errors import Problem, SpecError

KeyPath = tuple[str | int, ...]

MAX_FILE_BYTES = 1 << 20
_MAX_NODES = 20_000
_MAX_DEPTH = 50

_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Document:
    """Plain data with the place of every key and item.

    Attributes:
        data: Mappings, lists and scalars.
        places: `file:line:column` by key path.
        inputs: (displayed path, SHA-256) of every file it was read from.
    """

    data: Any
    places: Mapping[KeyPath, str] = field(default_factory=dict)
    inputs: tuple[tuple[str, str], ...] = ()

    def where(self, path: KeyPath) -> str:
        """The place of a key path, or of the nearest part of it that has one."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.places:
                return self.places[path[:length]]
        return ""


def read_yaml(path: Path, display: str | None = None) -> Document:
    """Read a file.

    Args:
        path: The file.
        display: How messages name it; the path itself by default.

    Raises:
        SpecError: It cannot be read, is not YAML, or is built to be too large.
    """
    name = display or str(path)
    content = _content(path, name)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _error(name, "is not a text file in UTF-8", "give a YAML file") from error
    document = parse_yaml(text, name)
    return Document(document.data, document.places, ((name, hashlib.sha256(content).hexdigest()),))


def _content(path: Path, name: str) -> bytes:
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise _error(
                name, f"is {size / 1e6:,.1f} MB large; the limit is {MAX_FILE_BYTES / 1e6:.1f} MB", "give a YAML file"
            )
        return path.read_bytes()
    except IsADirectoryError as error:
        raise _error(name, "is a folder", "name a file in it") from error
    except OSError as error:
        raise _error(name, f"cannot be read: {error.strerror}", "check the path and its permissions") from error


def _error(where: str, message: str, do: str) -> SpecError:
    return SpecError([Problem(where, "", message, do)])


def parse_yaml(text: str, name: str) -> Document:
    """Parse a text; `name` stands for the file in messages.

    Raises:
        SpecError: It is not YAML, empty, repeats a key, or expands beyond reason.
    """
    if "\0" in text:
        raise _error(name, "is a binary file", "give a YAML file")
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        raise _error(
            place, f"is not valid YAML: {error.problem or error.context}", "check quotes and indentation"
        ) from error
    except (YAMLError, RecursionError, ValueError) as error:
        raise _error(name, f"is not valid YAML: {str(error).splitlines()[0]}", "give a YAML text file") from error
    if node is None:
        raise _error(name, "is empty", "start from `scenarios/template.yaml`")
    if not isinstance(node, MappingNode):
        raise _error(_place(name, node), "must hold a mapping of keys to values", "write `key: value` lines")
    reader = _Reader(name)
    data = reader.value(node, ())
    if reader.problems:
        raise SpecError(reader.problems)
    return Document(data, reader.places)


def parse_value(text: str) -> Any:
    """A single value as it would be read in a file; text that is not YAML is taken as it stands."""
    try:
        node = YAML(typ="safe", pure=True).compose(text)
    except YAMLError:
        return text
    return None if node is None else _Reader("").value(node, ())


def _place(name: str, node: Node) -> str:
    return f"{name}:{node.start_mark.line + 1}:{node.start_mark.column + 1}"


class _Reader:
    """Turns nodes into data, noting places and problems."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self.places: dict[KeyPath, str] = {}
        self.problems: list[Problem] = []

    def value(self, node: Node, path: KeyPath) -> Any:
        self._count += 1
        if self._count > _MAX_NODES or len(path) > _MAX_DEPTH:
            raise _error(
                _place(self._name, node),
                f"expands to more than {_MAX_NODES:,} values or {_MAX_DEPTH} levels",
                "remove anchors and aliases that multiply one another",
            )
        self.places.setdefault(path, _place(self._name, node))
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return _scalar(node)

    def _mapping(self, node: MappingNode, path: KeyPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value) if isinstance(key_node, ScalarNode) else "?"
            place = _place(self._name, key_node)
            if key in result:
                first = self.places[(*path, key)]
                dotted = ".".join(map(str, (*path, key)))
                self.problems.append(
                    Problem(place, dotted, f"key `{key}` appears twice, first at {first}", "keep one of the two")
                )
                continue
            self.places[(*path, key)] = place
            result[key] = self.value(value_node, (*path, key))
        return result


def _scalar(node: ScalarNode) -> Any:
    """A scalar by YAML 1.2's core schema; quoted text stays text."""
    text: str = node.value
    if node.style is not None:
        return text
    if _NULL.fullmatch(text):
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text) and len(text) < _MAX_DEPTH:
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL_FLOAT.fullmatch(text):
        return float(text.replace(".", "", 1))
    return text
