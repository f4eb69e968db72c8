"""Mutation testing: which defects, put into the code one at a time, does no test detect?

    python tools/mutants.py

samples 40 places of the package with the hash of the last commit as seed, changes one after the other in a clone of
that commit, and runs the test files that name its module or what it defines, the most relevant first, until a test
fails that passes without the change. Survivors are printed with their lines. Names of packages sample from these alone,
and `--seed` repeats a sample on a later commit. `--list` only prints the places; `--only 3 7` tries some of them.

A file of tests may take `--limit` CPU seconds with a mutant, and six times as long by the clock; a mutant that takes
more is detected if the file takes less without it. `--thorough` tries survivors against all tests, for about 10 CPU
minutes each.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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
_LIMIT_S = 240
_PATIENCE = 6
"""Seconds by the clock for each CPU second that tests may take."""
_MOST_BYTES = 6 << 30
"""Address space of a process of tests, so that a mutant without an end does not fill the machine."""
_MOST_FILES = 8
_PASSED, _NO_TESTS = 0, 5  # exit codes of pytest
_ALWAYS = ("tests/golden/test_golden.py", "tests/unit/test_command_line.py")
"""Files that run most of the package, for mutants that all others leave alive."""
_WHOLE, _ALL = ("tests", "podsim"), "all tests"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+\.py(?:::.+?)?)(?: - .*)?$", re.MULTILINE)
_MOST_FAILURES = 20
"""Tests that fail without a mutant as well before a file is given up."""


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
        place = f"{self.path.as_posix().rpartition('/podsim/')[2]}:{self.line}"
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
    without_effect = set(_without_effect(tree))
    for node in ast.walk(tree):
        if node in without_effect:
            continue
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


def _without_effect(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes that change no result: options of dataclasses, `strict` of `zip`, imports for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from (inner for each in node.decorator_list for inner in ast.walk(each))
        elif isinstance(node, ast.keyword) and node.arg == "strict":
            yield from ast.walk(node.value)
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield node


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


def sample_mutants(package: Path, rooms: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Sample `count` mutants of some packages, or of all, with equal probability."""
    files = sorted(path for room in rooms or [""] for path in (package / room).rglob("*.py"))
    places = [mutant for path in files for mutant in mutants_of(path)]
    return random.Random(seed).sample(places, min(count, len(places)))


def relevant_tests(path: Path, copy: Path) -> list[str]:
    """Return test files by how often they name a module or what it defines; files that run most of the package last."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kinds = (ast.FunctionDef, ast.ClassDef)
    names = [node.name for node in tree.body if isinstance(node, kinds) and len(node.name) > 3]
    module = ".".join(path.relative_to(copy).with_suffix("").parts).removesuffix(".__init__")
    package = module.rpartition(".")[0]
    said = map(re.escape, [module, f"{package} import {path.stem}", *names])
    words = re.compile(rf"\b({'|'.join(said)})\b")
    counts = {
        test.relative_to(copy).as_posix(): len(words.findall(test.read_text(encoding="utf-8")))
        for test in (copy / "tests").rglob("test_*.py")
        if "bench" not in test.parts
    }
    ordered = sorted((name for name in counts if counts[name]), key=lambda name: (-counts[name], name))
    doctests = [path.relative_to(copy).as_posix()] if ">>>" in path.read_text(encoding="utf-8") else []
    return list(dict.fromkeys([*doctests, *ordered[:_MOST_FILES], *_ALWAYS]))


@dataclass(frozen=True)
class Outcome:
    """What became of some tests."""

    passed: bool
    failed: str = ""  # name of the first test that failed, unless none is to blame: no end, or a crash


@dataclass(frozen=True)
class Runner:
    """Runs tests in a copy of the repository, those that need CI excepted."""

    copy: Path
    limit_s: int

    def run(self, names: Sequence[str], without: Sequence[str] = ()) -> Outcome:
        """Return whether tests pass; the first that fails ends the run."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-m", "not ci", "-p", "no:cacheprovider"]
        command += [*names, *(f"--deselect={each}" for each in without)]
        environment = {key: value for key, value in os.environ.items() if key not in ("CI", "COLUMNS")}
        environment |= {"PYTHONPATH": str(self.copy), "COLUMNS": "1000", "PYTHONHASHSEED": "0"}
        limit_s = self.limit_s * (10 if names is _WHOLE else 1)
        process = subprocess.Popen(
            command, cwd=self.copy, env=environment, start_new_session=True, preexec_fn=lambda: _bound(limit_s),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        )  # fmt: skip
        try:
            output, _ = process.communicate(timeout=limit_s * _PATIENCE)
        except subprocess.TimeoutExpired:
            _kill(process)
            return Outcome(passed=False)
        _kill(process)
        if process.returncode in (_PASSED, _NO_TESTS):
            return Outcome(passed=True)
        found = _FAILED.search(output)
        return Outcome(passed=False, failed=found[1] if found else "")


def _bound(limit_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 10))
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, _MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _kill(process: subprocess.Popen[str]) -> None:
    """End the processes that tests started and left behind."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@dataclass
class Trial:
    """Mutants are put into a copy of the repository, one at a time."""

    runner: Runner
    broken: set[str] = field(default_factory=set)
    """Tests, and files of tests, that fail without a mutant as well."""
    sound: set[str] = field(default_factory=set)

    def detected_by(self, mutant: Mutant, names: Sequence[str]) -> str:
        """Return the test that fails because of a mutant, or nothing if it survives these files."""
        original = mutant.path.read_text(encoding="utf-8")
        for name in names:
            for _ in range(_MOST_FAILURES):
                if name in self.broken:
                    break
                _write(mutant.path, mutant.applied())
                try:
                    outcome = self.runner.run(_WHOLE if name == _ALL else [name], sorted(self.broken))
                finally:
                    _write(mutant.path, original)
                if outcome.passed:
                    break
                culprit = outcome.failed or name
                if self._is_sound(culprit):
                    return culprit
        return ""

    def _is_sound(self, name: str) -> bool:
        """Return True if a test, or a file of tests, passes without a mutant."""
        if name not in self.sound | self.broken:
            passed = self.runner.run(_WHOLE if name == _ALL else [name]).passed
            (self.sound if passed else self.broken).add(name)
        return name in self.sound


def _write(path: Path, text: str) -> None:
    """Write a module, and forget its byte code: Python tells versions apart by size and whole seconds."""
    path.write_text(text, encoding="utf-8")
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
        compiled.unlink()


def clone(copy: Path) -> str:
    """Clone the last commit, with the compiled engine, and return its hash."""
    shutil.rmtree(copy, ignore_errors=True)
    copy.parent.mkdir(exist_ok=True)
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(copy)], check=True)
    for engine in (ROOT / "podsim" / "engine").glob("_core.*.so"):
        shutil.copy(engine, copy / engine.relative_to(ROOT))
    return subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=copy, check=True, capture_output=True, text=True
    ).stdout.strip()


def main() -> int:
    """Sample, try, report; the exit code is 1 if more survive than `--most` allows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", help="packages of podsim, such as `study`; all by default")
    parser.add_argument("--seed", help="hexadecimal; by default the hash of the commit")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="numbers of the mutants to try")
    parser.add_argument("--limit", type=int, default=_LIMIT_S, help="CPU seconds for a file of tests")
    parser.add_argument("--most", type=int, default=3, help="survivors that are allowed")
    parser.add_argument("--thorough", action="store_true", help="try survivors against all tests")
    parser.add_argument("--list", action="store_true", help="print the places alone")
    asked = parser.parse_args()
    copy = ROOT / "build" / "mutants"
    commit = clone(copy)
    seed = asked.seed or commit
    print(f"commit {commit}, seed {seed}", flush=True)
    mutants = list(enumerate(sample_mutants(copy / "podsim", asked.rooms, asked.count, int(seed, 16)), 1))
    if asked.list:
        print(*(f"{number} {mutant}" for number, mutant in mutants), sep="\n")
        return 0
    trial, alive, tried = Trial(Runner(copy, asked.limit)), 0, 0
    for number, mutant in mutants:
        if asked.only and number not in asked.only:
            continue
        began = time.monotonic()
        names = relevant_tests(mutant.path, copy)
        test = trial.detected_by(mutant, [*names, _ALL] if asked.thorough else names)
        tried, alive = tried + 1, alive + (not test)
        outcome = f"detected by {test}" if test else "SURVIVES"
        print(f"{number} {outcome}, {time.monotonic() - began:.0f} s: {mutant}", flush=True)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{alive} of {tried} survive; {(used.ru_utime + used.ru_stime) / 60:.0f} CPU minutes")
    return int(alive > asked.most)


if __name__ == "__main__":
    sys.exit(main())
