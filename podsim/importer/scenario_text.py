"""YAML text of an imported scenario, with the origin of every value."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from podsim.importer.reader import Entry

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.,/-]*( [A-Za-z0-9_.,/-]+)*")
_WORDS_OF_YAML = {"true", "false", "null", "yes", "no", "on", "off"}
_COMMENT_COLUMN = 36
_WIDTH = 110


@dataclass(frozen=True, slots=True)
class ScenarioSection:
    """Part of a scenario."""

    key: str  # key of the scenario, empty for keys of the scenario itself
    entries: Sequence[Entry]
    comments: Sequence[str] = ()


def scenario_text(header: Iterable[str], sections: Iterable[ScenarioSection], more: Iterable[str] = ()) -> str:
    """Return the text of the file: a header of comments, the sections, then more lines."""
    lines = [line for text in header for line in comment_lines(text)]
    for section in sections:
        lines += ["", *_section(section)]
    return "\n".join([*lines, *more]) + "\n"


def as_mapping(sections: Iterable[ScenarioSection]) -> dict[str, object]:
    """Return the sections as plain data."""
    data: dict[str, object] = {}
    for section in sections:
        values = _nested(section.entries)
        data.update({section.key: values} if section.key else values)
    return data


def _nested(entries: Iterable[Entry]) -> dict[str, object]:
    data: dict[str, object] = {}
    for entry in entries:
        outer, _, inner = entry.key.partition(".")
        if inner:
            part = data.setdefault(outer, {})
            assert isinstance(part, dict)
            part[inner] = entry.value
        else:
            data[outer] = list(entry.value) if isinstance(entry.value, tuple) else entry.value
    return data


def _section(section: ScenarioSection) -> Iterator[str]:
    for comment in section.comments:
        yield from comment_lines(comment)
    if section.key:
        yield f"{section.key}:"
    indent, outer = "  " if section.key else "", ""
    for entry in section.entries:
        parent, _, inner = entry.key.rpartition(".")
        if parent and parent != outer:
            yield f"{indent}{parent}:"
        outer = parent
        deeper = indent + ("  " if parent else "")
        line = f"{deeper}{inner}: {yaml_value(entry.value)}"
        yield f"{line.ljust(_COMMENT_COLUMN)} # {entry.origin}" if entry.origin else line


def comment_lines(text: str) -> list[str]:
    """Return a comment, folded to lines."""
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)


def yaml_value(value: object) -> str:
    """Return a value as YAML reads it back.

    >>> yaml_value(True), yaml_value([3, 4]), yaml_value("a: b")
    ('true', '[3, 4]', '"a: b"')
    """
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML:
        return value
    return json.dumps(list(value) if isinstance(value, tuple) else value)
