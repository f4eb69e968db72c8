"""`./dev installations`: run pages of the documentation with only the packages that they name.

Each extra of pyproject.toml, and none, gets an environment with the built wheel and the versions of the lock file. The
commands and blocks of Python of README, the tutorial and the guides run there in an empty folder, the imports of each
notebook in its own. A line of a page names the extra that it needs, in the form of `pages.NEEDS`; all else is tried
without extras. Commands of a checkout are left out: `./dev`, `python tools/…` and `source .venv/bin/activate`.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Final
from urllib.request import ProxyHandler, build_opener

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.pages import NEEDS, Block, blocks, called_tests, commands_with_codes, file_name, unprinted  # noqa: E402

DEVELOPERS: Final = frozenset({"dev", "docs"})
"""Extras that no reader of the pages installs."""
NOTEBOOKS: Final = ROOT / "notebooks"
_LOCK: Final = ROOT / "requirements-dev.lock"
_PIN: Final = re.compile(r"^([\w.-]+)==([^\s;]+)( ; [^\n\\]+)?", re.MULTILINE)
_SECONDS: Final = 300
_SECONDS_TO_END: Final = 30
_LOOPBACK: Final = "127.0.0.1"
_TITLE: Final = "<title>podsim</title>"
_TRACEBACK: Final = "Traceback (most recent call last)"
_PIP: Final = ("--quiet", "--quiet", "--disable-pip-version-check", "--no-input", "--no-compile")
_NO_PROXY: Final = build_opener(ProxyHandler({}))
_INTERPRETER: Final = """
import contextlib, io, json, sys, traceback
names = {"__name__": "__main__"}
for line in sys.stdin:
    out, failed = io.StringIO(), ""
    with contextlib.redirect_stdout(out):
        try:
            exec(compile(json.loads(line), "block", "exec"), names)
        except BaseException:
            failed = traceback.format_exc()
    print(json.dumps([out.getvalue(), failed]), flush=True)
"""


class InstallationError(Exception):
    """An environment that cannot be made."""


def read_extras() -> set[str]:
    """Return the extras that readers install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"]) - DEVELOPERS


def read_pages() -> list[Path]:
    """Return the pages that are followed."""
    return [ROOT / "README.md", ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]


# Environments


def _called(command: Sequence[str | Path]) -> None:
    ended = subprocess.run([str(each) for each in command], cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise InstallationError(f"`{shlex.join(map(str, command))}` failed:\n{ended.stderr.strip()}")


def _install(environment: Path, *arguments: str | Path) -> None:
    python = environment / "bin" / "python"
    _called((sys.executable, "-m", "pip", "--python", python, "install", *_PIP, *arguments))


def _packages(environment: Path) -> Path:
    (found,) = environment.glob("[Ll]ib/**/site-packages")
    return found


@dataclass
class Environments:
    """Environments by installed extras; each is created on first use.

    They share a folder with the packages that podsim always needs, so that these are installed once.
    """

    folder: Path
    wheel: Path
    _made: dict[frozenset[str], Path] = field(default_factory=dict)
    _locks: dict[frozenset[str], Lock] = field(default_factory=dict)

    def prepare(self) -> None:
        """Install the packages that podsim always needs."""
        pins = (f"{name}=={version}{marker or ''}" for name, version, marker in _PIN.findall(_LOCK.read_text("utf-8")))
        (self.folder / "versions.txt").write_text("\n".join(pins), encoding="utf-8")
        _called((sys.executable, "-m", "venv", "--without-pip", self.folder / "common"))
        _install(self.folder / "common", "--no-deps", "--requirement", "requirements.lock")

    def programs_of(self, extras: frozenset[str]) -> Path:
        """Return the folder of programs of the environment with these extras."""
        with self._locks.setdefault(extras, Lock()):
            if extras not in self._made:
                self._made[extras] = self._make(extras)
        return self._made[extras]

    def _make(self, extras: frozenset[str]) -> Path:
        environment = self.folder / ("-".join(["with", *sorted(extras)]) if extras else "bare")
        _called((sys.executable, "-m", "venv", "--without-pip", environment))
        shared = f"{_packages(self.folder / 'common')}\n"
        (_packages(environment) / "common.pth").write_text(shared, encoding="utf-8")
        asked = f"{self.wheel}[{','.join(sorted(extras))}]" if extras else str(self.wheel)
        _install(environment, "--constraint", self.folder / "versions.txt", asked)
        locked = {_normal(name) for name, _, _ in _PIN.findall(_LOCK.read_text("utf-8"))} | {"podsim"}
        names = {_normal(each.name) for each in distributions(path=[str(_packages(environment))])}
        if names - locked:
            raise InstallationError(f"{_LOCK.name} has no {', '.join(sorted(names - locked))}; run `./dev lock`")
        return environment / "bin"

    def variables_for(self, extras: frozenset[str]) -> dict[str, str]:
        """Return the environment variables of a reader with these extras."""
        programs = self.programs_of(extras)
        home = programs.parent / "home"
        home.mkdir(exist_ok=True)
        path = os.pathsep.join([str(programs), "/usr/bin", "/bin"])
        return {"PATH": path, "HOME": str(home), "COLUMNS": "80", "LANG": "C.UTF-8"}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# A reader


@dataclass(frozen=True)
class Problem:
    """A command, block or import that does not work."""

    place: str
    extras: frozenset[str]
    shown: str
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {describe(self.extras)}: {self.shown}\n    " + self.reason.replace("\n", "\n    ")


def describe(extras: Iterable[str]) -> str:
    """Return what a reader with these extras installed.

    >>> describe({"ui"}), describe(())
    ('podsim[ui]', 'podsim')
    """
    return f"podsim[{','.join(sorted(extras))}]" if extras else "podsim"


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-3:]) or "no reason given"


class Interpreter:
    """Python of an environment that runs one block after the other, all in one namespace."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            ["python", "-c", _INTERPRETER], cwd=folder, env=dict(variables),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, code: str) -> tuple[str, str]:
        """Return what a block prints, and the traceback if it fails."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(code) + "\n")
        self._process.stdin.flush()
        printed, failed = json.loads(self._process.stdout.readline() or '["", "the interpreter ended"]')
        return printed, failed


class Reader:
    """Follows a page from top to bottom in an empty folder."""

    def __init__(self, folder: Path, environments: Environments, interpreters: ExitStack) -> None:
        self._folder, self._environments, self._stack = folder, environments, interpreters
        self._interpreters: dict[frozenset[str], Interpreter] = {}
        self._printed = ""
        self.counts: Counter[frozenset[str]] = Counter()
        """Number of commands and blocks of Python that ran, by extras."""

    def follow(self, block: Block) -> Iterator[tuple[str, str]]:
        """Do what a block says; yield each part that does not work, with the reason."""
        if (name := file_name(block.text)) or block.language == "yaml":
            if name:
                (self._folder / name).write_text(block.text + "\n", encoding="utf-8")
        elif block.language == "console":
            self._printed = ""
            for command, code in commands_with_codes(block):
                if words := shlex.split(command, comments=True):
                    yield from ((f"$ {command}", reason) for reason in self._command(words, command, code, block.needs))
        elif block.language == "python":
            yield from ((block.language, reason) for reason in self._python(block))
        elif block.language == "text" and self._printed:
            line = unprinted(block.text, self._printed)
            yield from [("text", f"not printed, or not here: {line}")] if line else []

    def _command(self, words: list[str], command: str, code: int, extras: frozenset[str]) -> Iterator[str]:
        if words[0] != "podsim":
            return
        self.counts[extras] += 1
        variables = self._environments.variables_for(extras)
        if words[1] == "ui":
            if problems := served(words, self._folder, variables):
                yield "\n".join(problems)
            return
        try:
            ended = subprocess.run(
                command, shell=True, cwd=self._folder, env=variables, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            yield f"it has not ended after {_SECONDS} s"
            return
        self._printed += ended.stdout + ended.stderr
        if ended.returncode != code or _TRACEBACK in ended.stderr:
            self._printed = ""
            yield f"exit code {ended.returncode}, expected {code}\n{_last_lines(ended.stderr)}"

    def _python(self, block: Block) -> Iterator[str]:
        self.counts[block.needs] += 1
        if block.needs not in self._interpreters:
            made = Interpreter(self._folder, self._environments.variables_for(block.needs))
            self._interpreters[block.needs] = self._stack.enter_context(made)
        tests = "".join(f"\n{name}()" for name in called_tests(block.text))
        self._printed, failed = self._interpreters[block.needs].run(block.text + tests)
        if failed:
            yield _last_lines(failed)


def served(words: Sequence[str], folder: Path, variables: Mapping[str, str]) -> list[str]:
    """Return why a server does not answer with its first page and all that this names, or does not end."""
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port = probe.getsockname()[1]
    log = folder / "served.txt"
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            [*words, "--no-open", "--port", str(port)], cwd=folder, env=dict(variables),
            stdin=subprocess.DEVNULL, stdout=file, stderr=file,
        )  # fmt: skip
        try:
            problems = list(_unanswered(process, f"http://{_LOOPBACK}:{port}"))
            process.send_signal(signal.SIGINT)
            process.wait(timeout=_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            problems.append(f"it did not end within {_SECONDS_TO_END} s of Control-C")
        finally:
            process.kill()
            process.wait()
    output = log.read_text(encoding="utf-8")
    return [*problems, _last_lines(output)] if problems or _TRACEBACK in output else []


def _unanswered(process: subprocess.Popen[bytes], address: str) -> Iterator[str]:
    until = time.monotonic() + _SECONDS
    while (page := _fetched(f"{address}/")) is None:
        if process.poll() is not None:
            yield "it ended before it answered"
            return
        if time.monotonic() > until:
            yield f"it did not answer within {_SECONDS} s"
            return
        time.sleep(0.2)
    if _TITLE not in page:
        yield f"{_TITLE} is not on its first page"
    for name in sorted(set(re.findall(r'(?:src|href)="(/[^"]+)"', page))):
        if _fetched(f"{address}{name}") is None:
            yield f"its first page names {name}, which it does not send"


def _fetched(address: str) -> str | None:
    try:
        with _NO_PROXY.open(address, timeout=_SECONDS) as answer:
            return str(answer.read().decode(errors="replace"))
    except OSError:  # refused, reset, or answered with an error
        return None


# All pages


def follow_page(page: Path, environments: Environments) -> tuple[list[Problem], Counter[frozenset[str]]]:
    """Return what of a page does not work, and the number of commands that ran."""
    place, found = page.relative_to(ROOT).as_posix(), []
    folder = environments.folder / "pages" / place.replace("/", "-")
    folder.mkdir(parents=True)
    with ExitStack() as interpreters:
        reader = Reader(folder, environments, interpreters)
        for block in blocks(page.read_text(encoding="utf-8")):
            for shown, reason in reader.follow(block):
                found.append(Problem(f"{place}:{block.line}", block.needs, shown, reason))
    return found, reader.counts


def imports_of(notebook: Mapping[str, Any]) -> str:
    r"""Return the first statements of each code cell, up to its last import.

    >>> cell = {"cell_type": "code", "source": ["import math\n", "import json\n", "json.loads(slow())"]}
    >>> imports_of({"cells": [cell]})
    'import math\nimport json'
    """
    taken = []
    for cell in notebook["cells"]:
        statements = ast.parse("".join(cell["source"])).body if cell["cell_type"] == "code" else []
        last = max(
            (place for place, each in enumerate(statements) if isinstance(each, ast.Import | ast.ImportFrom)),
            default=-1,
        )
        taken += [ast.unparse(each) for each in statements[: last + 1]]
    return "\n".join(taken)


def follow_notebook(path: Path, environments: Environments) -> tuple[list[Problem], Counter[frozenset[str]]]:
    """Return whether a notebook that is opened in its folder cannot import what it uses."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    texts = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    extras = frozenset(NEEDS.findall("\n".join(texts)))
    variables = {**environments.variables_for(extras), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        ["python", "-c", imports_of(notebook)], cwd=path.parent, env=variables,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    place = path.relative_to(ROOT).as_posix()
    failed = [Problem(place, extras, "imports", _last_lines(ended.stderr))] if ended.returncode else []
    return failed, Counter({extras: 1})


def main(arguments: Sequence[str]) -> int:
    """Run the named pages and notebooks, or all, with the wheel named first."""
    wheel, *names = arguments
    known = {path.relative_to(ROOT).as_posix(): path for path in (*read_pages(), *sorted(NOTEBOOKS.glob("*.ipynb")))}
    if unknown := set(names) - set(known):
        print(
            f"installations: no page is named {', '.join(sorted(unknown))}; there are {', '.join(known)}",
            file=sys.stderr,
        )
        return 2
    chosen = [path for name, path in known.items() if not names or name in names]
    counts: Counter[frozenset[str]] = Counter()
    problems: list[Problem] = []
    with TemporaryDirectory() as scratch, ThreadPoolExecutor(os.cpu_count()) as threads:
        environments = Environments(Path(scratch), Path(wheel).resolve())
        try:
            environments.prepare()
            jobs = [
                threads.submit(follow_page if path.suffix == ".md" else follow_notebook, path, environments)
                for path in chosen
            ]
            for found, more in (job.result() for job in as_completed(jobs)):
                counts += more
                problems += found
                for problem in found:
                    print(problem, file=sys.stderr, flush=True)
        except InstallationError as error:
            print(f"installations: {error}", file=sys.stderr)
            return 1
    for extras, count in sorted(counts.items(), key=lambda each: sorted(each[0])):
        print(f"{describe(extras)}: {count} commands, blocks of Python and notebooks")
    print(f"{len(problems)} of {counts.total()} do not work" if problems else f"all {counts.total()} work")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
