"""Pages of the documentation as tests read them: fenced blocks, their commands, and the extras that they need."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

FENCE: Final = re.compile(r"^ *```(\w*)\s*$")
NEEDS: Final = re.compile(r"^Needs `pip install 'podsim\[(\w+)\]'`", re.MULTILINE)
"""Line that names the extra which the rest of its section needs; in front of all sections, the rest of the page."""
_HEADING: Final = re.compile(r"^(#+) ")
_FILE: Final = re.compile(r"# ([\w.]+\.(?:yaml|py))$")
_PROMPT: Final = "$ "


@dataclass(frozen=True)
class Block:
    """Fenced block of a page."""

    language: str
    text: str
    line: int
    needs: frozenset[str] = frozenset()  # extras of the package


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    language, start = None, 0
    body: list[str] = []
    sections: list[tuple[int, set[str]]] = [(0, set())]  # those around the line: level of the heading, extras
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if language is not None and fence:
            needs = frozenset(extra for _, extras in sections for extra in extras)
            yield Block(language, "\n".join(body), start, needs)
            language = None
        elif language is not None:
            body.append(line)
        elif fence:
            language, body, start = fence[1], [], number
        elif heading := _HEADING.match(line):
            level = len(heading[1])
            sections = [*(each for each in sections if each[0] < level), (level, set())]
        elif need := NEEDS.match(line):
            sections[-1][1].add(need[1])


def prose(text: str) -> str:
    """Return the page without its fenced blocks."""
    lines, inside = [], False
    for line in text.splitlines():
        if FENCE.match(line):
            inside = not inside
        elif not inside:
            lines.append(line)
    return "\n".join(lines)


def commands(block: Block) -> list[str]:
    """Return the commands of a block that shows a terminal."""
    return [line.removeprefix(_PROMPT) for line in block.text.splitlines() if line.startswith(_PROMPT)]


def commands_with_codes(block: Block) -> Iterator[tuple[str, int]]:
    """Yield the commands of a block, each with the exit code that a following `echo $?` prints, or 0."""
    lines = [*block.text.splitlines(), "", ""]
    for (line, following), (_, printed) in pairwise(pairwise(lines)):
        if line.startswith(_PROMPT) and not line.startswith(f"{_PROMPT}echo $?"):
            yield line.removeprefix(_PROMPT), int(printed) if following == f"{_PROMPT}echo $?" else 0


def file_name(text: str) -> str | None:
    """Return the name of the file that a block of YAML or Python is written to, or None."""
    name = _FILE.match(text.partition("\n")[0])
    return name[1] if name else None


def called_tests(code: str) -> list[str]:
    """Return the names of the test functions that a block of Python defines."""
    return [
        node.name
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def unprinted(expected: str, printed: str) -> str | None:
    """Return the first line of a block that is not printed behind the lines before it, or None; `…` is anything."""
    found = iter(printed.splitlines())
    for line in filter(None, (line.rstrip() for line in expected.splitlines())):
        pattern = re.compile(".*".join(map(re.escape, line.split("…"))))
        if not any(pattern.fullmatch(each.rstrip()) for each in found):
            return line
    return None
