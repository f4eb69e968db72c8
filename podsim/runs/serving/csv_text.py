"""CSV files that users write: lines and values with their places."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from podsim.errors import Problem, SpecError

MAX_FILE_BYTES: Final = 1 << 26
_LONGEST_LINE: Final = 10_000
_FIELD: Final = re.compile(r'(\s*"[^"]*"\s*|[^",]*)(,|\Z)')
Field = tuple[int, str]
"""The column, from 1 on, and the text."""


def lines_of(text: str) -> list[tuple[int, str]]:
    r"""Lines that hold something, with their numbers from 1 on.

    >>> lines_of("a\r\n\nb")
    [(1, 'a'), (3, 'b')]
    """
    numbered = enumerate(text.split("\n"), start=1)
    return [(number, line.rstrip("\r")) for number, line in numbered if not line.isspace() and line]


def fields_of(line: str, where: str) -> list[Field] | Problem:
    """Values of a line with their columns, or why it cannot be read.

    Args:
        line: The line.
        where: `file:line`.

    >>> fields_of('1, "a, b"', "x.csv:1")
    [(1, '1'), (4, 'a, b')]
    """
    if len(line) > _LONGEST_LINE:
        return Problem(f"{where}:1", "", f"has {len(line):,} characters", f"keep lines to {_LONGEST_LINE:,}")
    fields: list[Field] = []
    start = 0
    while match := _FIELD.match(line, start):
        blanks = len(match[1]) - len(match[1].lstrip())
        fields.append((start + blanks + 1, match[1].strip().strip('"').strip()))
        if not match[2]:
            return fields
        start = match.end()
    return Problem(f"{where}:{start + 1}", "", "this is not a value", "separate values by commas, without quotes")


def text_of(path: Path) -> str:
    """What is in a file.

    Raises:
        SpecError: It is no file of text, too long, or cannot be read.
    """
    where = f"{path}:1:1"
    try:
        if path.exists() and not path.is_file():
            raise _unreadable(where, "this is not a file", "name a CSV file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise _unreadable(where, f"the file cannot be read: {reason}", "check the path and its permissions") from error
    if len(content) > MAX_FILE_BYTES:
        raise _unreadable(where, f"the file has more than {MAX_FILE_BYTES >> 20} MiB", "cut it into parts")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        raise _unreadable(f"{path}:{line}:{column}", "the file is not text in UTF-8", "save it as UTF-8") from error


def _unreadable(where: str, message: str, do: str) -> SpecError:
    return SpecError([Problem(where, "", message, do)])
