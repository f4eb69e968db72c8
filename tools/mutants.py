"""Mutation testing: which defects, put into the code one at a time, does no test detect?

    python tools/mutants.py show report study cli ui result --seed 20261123

draws 40 places by a seed, changes each in a copy of the tree, and runs the test files that name its module or what it
defines until one fails. Survivors are printed with their lines. Choose the seed before the work to be judged, and
commit it. `--list` only prints the places.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_COPIED = ("podsim", "tests", "tools", "hardware_specs", "scenarios", "studies", "reference_data", "docs", "notebooks")
_OTHERS: dict[type[ast.AST], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.And: "or",
    ast.Or: "and",
}
_SIGNS = re.compile(r"<=|>=|==|!=|<|>|\bis\s+not\b|\bis\b|\bnot\s+in\b|\bin\b|//|\+|-|\*|/|%|\band\b|\bor\b")
_LIMIT_S = 600


@dataclass(frozen=True)
class Mutant:
    """A part of a line that is written otherwise."""

    path: Path
    line: int
    start: int
    end: int
    text: str

    def __str__(self) -> str:
        before = self.path.read_text(encoding="utf-8").split("\n")[self.line - 1]
        place = f"{self.path.relative_to(ROOT)}:{self.line}"
        return f"{place}: `{before[self.start : self.end]}` -> `{self.text}`: {before.strip()}"

    def applied(self) -> str:
        """Return the text of the file with the mutant."""
        lines = self.path.read_text(encoding="utf-8").split("\n")
        before = lines[self.line - 1]
        lines[self.line - 1] = before[: self.start] + self.text + before[self.end :]
        return "\n".join(lines)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield every possible mutant of a file: signs, conditions, numbers, truth values."""
    source = path.read_text(encoding="utf-8")
    lines, tree = source.split("\n"), ast.parse(source)
    for node in ast.walk(tree):
        pairs: list[tuple[ast.AST, ast.AST, ast.AST]] = []
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            pairs = list(zip(operands, node.ops, operands[1:], strict=False))
        elif isinstance(node, ast.BinOp):
            pairs = [(node.left, node.op, node.right)]
        elif isinstance(node, ast.BoolOp):
            pairs = [(left, node.op, right) for left, right in zip(node.values, node.values[1:], strict=False)]
        for left, sign, right in pairs:
            yield from _between(path, lines, left, sign, right)
        if isinstance(node, (ast.If, ast.IfExp)):
            yield from _around(path, lines, node.test, "not ({})")
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and node.lineno == node.end_lineno:
            other = str(not node.value) if isinstance(node.value, bool) else f"{node.value + 1!r}"
            yield Mutant(path, node.lineno, *_columns(lines, node), other)


def _columns(lines: list[str], node: ast.expr) -> tuple[int, int]:
    """Return the first and last column of a one-line node in characters; `ast` counts bytes."""
    line = lines[node.lineno - 1].encode()
    return len(line[: node.col_offset].decode()), len(line[: node.end_col_offset].decode())


def _between(path: Path, lines: list[str], left: ast.AST, sign: ast.AST, right: ast.AST) -> Iterator[Mutant]:
    assert isinstance(left, ast.expr)
    assert isinstance(right, ast.expr)
    if type(sign) not in _OTHERS or left.end_lineno != right.lineno:
        return
    start, end = _columns(lines, left)[1] if left.lineno == left.end_lineno else 0, _columns(lines, right)[0]
    found = _SIGNS.search(lines[right.lineno - 1], start, end)
    if found is not None:
        yield Mutant(path, right.lineno, found.start(), found.end(), _OTHERS[type(sign)])


def _around(path: Path, lines: list[str], node: ast.expr, form: str) -> Iterator[Mutant]:
    if node.lineno == node.end_lineno:
        start, end = _columns(lines, node)
        yield Mutant(path, node.lineno, start, end, form.format(lines[node.lineno - 1][start:end]))


def sample_mutants(rooms: list[str], count: int, seed: int) -> list[Mutant]:
    """Sample `count` mutants of packages with equal probability."""
    files = sorted(path for room in rooms for path in (ROOT / "podsim" / room).rglob("*.py"))
    return random.Random(seed).sample([mutant for path in files for mutant in mutants_of(path)], count)


def tests_for(path: Path) -> list[str]:
    """Test files by how often they name a module or what it defines; the golden files last."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = [node.name for node in tree.body if isinstance(node, kinds) and len(node.name) > 3]
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    package = module.rpartition(".")[0]
    said = map(re.escape, [module, f"{package} import {path.stem}", *names])
    words = re.compile(rf"\b({'|'.join(said)})\b")
    counts = {
        str(test.relative_to(ROOT)): len(words.findall(test.read_text(encoding="utf-8")))
        for test in (ROOT / "tests").rglob("test_*.py")
    }
    ordered = sorted((name for name in counts if counts[name]), key=lambda name: -counts[name])
    return [*ordered[:8], *(name for name in ("tests/unit/test_command_line.py",) if name not in ordered[:8])]


def passes(tests: list[str], copy: Path) -> bool:
    """Return True if all tests of these files pass in a copy of the tree; a timeout counts as a failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {"PYTHONPATH": str(copy), "PODSIM_CACHE": str(copy / ".cache")}
    try:
        ended = subprocess.run(command, cwd=copy, env=environment, capture_output=True, timeout=_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0


@cache
def _passes_alone(test: str, copy: Path) -> bool:
    """Return True if a test file passes without a mutant; the result is cached."""
    return passes([test], copy)


def survives(mutant: Mutant, copy: Path) -> bool:
    """Return True if no test that passes without a mutant fails with it; the file is restored afterwards."""
    target = copy / mutant.path.relative_to(ROOT)
    tests = [test for test in tests_for(mutant.path) if _passes_alone(test, copy)]
    target.write_text(mutant.applied(), encoding="utf-8")
    try:
        return passes(tests, copy)
    finally:
        target.write_text(mutant.path.read_text(encoding="utf-8"), encoding="utf-8")


def main() -> None:
    """Draw, try, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="+", help="packages of podsim, such as `study`")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--list", action="store_true", help="print the places alone")
    asked = parser.parse_args()
    mutants = sample_mutants(asked.rooms, asked.count, asked.seed)
    if asked.list:
        print(*mutants, sep="\n")
        return
    copy = ROOT / "build" / "mutants"
    shutil.rmtree(copy, ignore_errors=True)
    for name in _COPIED:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, copy)
    alive = 0
    for number, mutant in enumerate(mutants, 1):
        if survives(mutant, copy):
            alive += 1
            print(f"{number} of {len(mutants)} survives: {mutant}", flush=True)
    print(f"{alive} of {len(mutants)} survive")


if __name__ == "__main__":
    main()
