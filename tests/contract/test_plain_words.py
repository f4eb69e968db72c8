"""Docstrings of the package begin plainly: a function with a verb, everything else with the thing that it names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent.parent / "podsim"
HEADLESS = re.compile(
    r"(What|How|Whether|All|Of|As|In|From|To|With|Without|For|That|Where|When|Which|Who|Why|Those|None|One|Each|Every|"
    r"Both|By|At|On|If|Between|Beside|Behind|Only|It|They|Also)\b"
)
"""First words that leave out the subject or the verb of a sentence."""
IN_BRACKETS = re.compile(r"`[^`]*`|\[[^\]]*\]")


def first_lines(source: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and (
            text := ast.get_docstring(node)
        ):
            yield node.body[0].lineno, text.split("\n")[0]


def is_headless(line: str) -> bool:
    """True if a docstring begins without a subject or a verb, or has a single word besides names and units."""
    return bool(HEADLESS.match(line)) or len(IN_BRACKETS.sub("", line).strip(" .").split()) < 2


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("What of the run no compared run has.", True),
        ("Of all of them. [s]", True),
        ("The filter.", False),
        ("Bytes. [B]", True),
        ("Return the time of a collective. [s]", False),
        ("True if the point prediction lies between the quartiles.", False),
    ],
)
def test_the_rule_itself(line: str, expected: bool) -> None:
    assert is_headless(line) == expected


def test_docstrings_begin_with_a_verb_or_a_thing() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{number}: {line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in first_lines(path.read_text(encoding="utf-8"))
        if is_headless(line)
    ]
    assert found == []
