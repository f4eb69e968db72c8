"""CSV files that users write, read by the standard library: rows with their places, or all problems of the rows.

A message has the form `file:line:column [name]: needs …, not …`, and a cure; columns are counted in values.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from podsim.errors import Problem, SpecError
from podsim.scenario.wording import known_here, quoted
from podsim.user_file import content_of

MAX_FILE_BYTES: Final = 1 << 26
_MOST_PROBLEMS: Final = 20
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """A row with its `file:line`, and the texts of its columns."""

    where: str
    texts: Mapping[str, str]

    def place(self, column: str) -> str:
        """Return the `file:line:column` of a value."""
        return f"{self.where}:{[*self.texts].index(column) + 1}"

    def wrong(self, column: str, message: str, do: str) -> SpecError:
        """Return the error for a value of this row."""
        return SpecError([Problem(self.place(column), column, message, do)])

    def number(self, column: str, needs: str, allowed: Callable[[float], bool], example: str) -> float:
        """Return the number in a column, or raise an error if it is not allowed."""
        text = self.texts[column]
        value = float(text) if _NUMBER.fullmatch(text) else float("nan")
        if not allowed(value):
            raise self.wrong(column, f"needs {needs}, not {quoted(text or None)}", f"write for example `{example}`")
        return value


def text_of(path: Path) -> str:
    """Return the text of a file."""
    content = content_of(path, MAX_FILE_BYTES, "name a CSV file", name=f"{path}:1:1", smaller="cut it into parts")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise _line_error(path, line, "the file is not text in UTF-8", "save it as UTF-8") from None


def rows_of(
    text: str,
    name: str,
    make: Callable[[Row], T],
    needed: Sequence[str],
    optional: Sequence[str] | None = None,
    *,
    most: int,
) -> list[T]:
    r"""Return the result of `make` for every row below the header line, without blank rows.

    >>> rows_of("who, what\n\n1, 'a'\n", "x.csv", lambda row: row.number("who", "1", bool, "1"), ["who"], most=9)
    [1.0]
    """
    lines = _lines(text, name)
    number, columns = next(lines, (1, []))
    _check_columns(f"{name}:{number}", columns, needed, optional)
    results, problems = list[T](), list[Problem]()
    for number, values in lines:
        if len(results) == most:
            raise _line_error(name, number, f"there are more than {most:,} rows", "cut the file into parts")
        try:
            if len(values) != len(columns):
                do = "give one value for every column; quote those with commas"
                raise _line_error(name, number, f"has {len(values)} values, not {len(columns)}", do)
            results.append(make(Row(f"{name}:{number}", dict(zip(columns, values, strict=True)))))
        except SpecError as error:
            problems += error.problems
        if len(problems) >= _MOST_PROBLEMS:
            problems += _line_error(name, number, "the rest was not read", "mend what is above first").problems
            break
    if problems:
        raise SpecError(problems)
    if not results:
        raise _line_error(name, number, "there are no rows", "add a line for each")
    return results


def _lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and values of each line that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, skipinitialspace=True)
    number = 1
    try:
        for values in reader:
            if any(stripped := [value.strip() for value in values]):
                yield number, stripped
            number = reader.line_num + 1
    except csv.Error as error:
        raise _line_error(name, number, f"cannot be read: {error}", "close quotes, or save it as CSV") from None


def _check_columns(where: str, names: Sequence[str], needed: Sequence[str], optional: Sequence[str] | None) -> None:
    """Raise an error if the header lacks a needed column, or has an unknown or a repeated one."""
    problems, columns = list[Problem](), (*needed, *(optional or ()))
    if missing := [f"`{name}`" for name in needed if name not in names]:
        what = f"column{'s' * (len(missing) > 1)} {', '.join(missing)} not found"
        problems.append(Problem(f"{where}:1", "", what, f"let the first line be {','.join(needed)}"))
    for column, name in enumerate(names, 1):
        if name in names[: column - 1] and name in columns:
            problems.append(Problem(f"{where}:{column}", name, "this column is there twice", "remove one of them"))
        elif optional is not None and name not in columns:
            what = f"column {quoted(name or None)} is not known"
            problems.append(Problem(f"{where}:{column}", "", what, known_here(name, columns, "remove the column")))
    if problems:
        raise SpecError(problems)


def _line_error(name: object, number: int, message: str, do: str) -> SpecError:
    return SpecError([Problem(f"{name}:{number}:1", "", message, do)])
