"""Running a check: the cases on all cores, beside a baseline or beside what another revision gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Final

from podsim.errors import PodsimError
from podsim.git import READ, commit_of, extract, top_of
from podsim.scenario.wording import shown
from podsim.study.check.baseline import Baseline, read_baseline
from podsim.study.check.cases import Case, Measured, cases_of, file_of, measured
from podsim.study.check.verdict import Verdict, verdict_on
from podsim.study.store import Store
from podsim.watch import Tell, telling

_FEW_CASES: Final = 8
_PACKAGE: Final = "podsim"
_MEASURES: Final = ("podsim.study.check.measure", "podsim.checks.measure")
"""Modules that measure cases, by their names today and in earlier versions."""


def check(
    *paths: str | Path, baseline: str | Path | None = None, against: str | None = None, tell: Tell | None = None
) -> Verdict:
    """Compare what scenarios give with a baseline, and with what they expect.

    Args:
        paths: Scenario files, folders of them, or shipped names.
        baseline: What was agreed on; expectations of the scenarios alone are looked at if left out.
        against: A git revision to compare with instead.
        tell: Is told how many scenarios are done, and of how many; a line in a notebook shows it if left out.

    Returns:
        What has moved or is not as expected.

    Raises:
        PodsimError: A path, the baseline or the revision cannot be read, or there is no path.
    """
    if not paths:
        raise PodsimError("there is nothing to check", do="give scenario files, folders of them, or shipped names")
    for path in paths:
        if not isinstance(path, str | Path):
            what = f"what is checked is a path or the name of a scenario, not {shown(path)}"
            raise PodsimError(what, do="write a scenario into a file, and give its path")
    if baseline is not None and against is not None:
        raise PodsimError("a revision does without a baseline", do="leave `against` or `baseline` out")
    files = [file_of(Path(path)) for path in paths]
    home = Path(paths[0]).parent if baseline is None else Path(baseline).parent
    cases = list(cases_of(files, home))
    known = of_revision(against, files, home) if against else read_baseline(Path(baseline)) if baseline else None
    with telling(tell, "scenarios") as told:
        now = measure_all(cases, told)
    return verdict_on(now, known, f"revision {against}" if against else str(baseline or ""))


def measure_all(cases: Sequence[Case], tell: Tell, processes: int | None = None) -> dict[str, Measured]:
    """What each case gives, by its name."""
    with Store(what="check") as store:
        store.fill(partial(_measured, cases), range(len(cases)), tell, processes=processes, few=_FEW_CASES)
        return {case.name: row for case, row in zip(cases, store.rows(), strict=True)}


def _measured(cases: Sequence[Case], number: int) -> Measured:
    return measured(cases[number])


def of_revision(revision: str, paths: Sequence[Path], home: Path) -> Baseline:
    """What another revision of a git repository gives for the same paths, with its own code and specifications.

    Raises:
        PodsimError: The paths lie in no repository, there is no such revision, or its podsim cannot be run.
    """
    root = top_of(home, str(home), "check scenarios of a git repository, or do without `--against`")
    commit = commit_of(root, revision, revision)
    outside = next((path for path in paths if not path.resolve().is_relative_to(root)), None)
    if outside is not None:
        raise PodsimError(f"it does not lie in {root}", where=str(outside), do="check one repository at a time")
    inside = [path.resolve().relative_to(root) for path in paths]
    with tempfile.TemporaryDirectory(prefix="podsim-") as folder:
        tree = Path(folder).resolve()
        extract(root, revision, commit, tree, _is_needed)
        return Baseline(_old(tree, inside, home.resolve().relative_to(root), revision), is_revision=True)


def _is_needed(path: PurePosixPath) -> bool:
    """Whether a file of another tree is part of podsim, or may be read by a scenario."""
    return path.parts[0] == _PACKAGE or path.suffix.lower() in READ


def _old(tree: Path, paths: Sequence[Path], home: Path, revision: str) -> Mapping[str, Measured]:
    """Cases of another tree, by the code of that tree where it holds podsim, by this one otherwise."""
    theirs = next((each for each in _MEASURES if (tree / f"{each.replace('.', '/')}.py").is_file()), None)
    code = tree if theirs else Path(__file__).resolve().parents[3]
    present = [str(path) for path in paths if (tree / path).exists()]
    if not present:
        raise PodsimError("none of the files is in that revision", where=revision, do="name another revision")
    command = [sys.executable, "-m", theirs or _MEASURES[0], str(home), *present]
    given = {**os.environ, "PYTHONPATH": str(code)}
    done = subprocess.run(command, cwd=tree, env=given, capture_output=True, check=False, encoding="utf-8")
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip() and not line[0].isspace()]
        last = said[-1] if said else "it printed nothing"  # a cure follows, indented
        raise PodsimError(f"podsim of that revision fails: {last}", where=revision, do="name another revision")
    found: Mapping[str, Measured] = json.loads(done.stdout)
    return found
