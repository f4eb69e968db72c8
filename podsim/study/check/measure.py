"""Regression checks: metrics of scenarios compared with a baseline or with another revision.

`python -m podsim.study.check.measure HOME PATH...` prints the metrics as JSON. Another revision is run in this way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from podsim._version import __version__
from podsim.errors import BadValueError, OutputError, PodsimError, SpecError
from podsim.git import READ, commit_of, extract, top_of
from podsim.options import Shell
from podsim.result.files import write_atomically
from podsim.runs import run
from podsim.scenario import LoadedScenario, load_scenario, variant_names
from podsim.scenario.library import display_path, is_as_shipped, shipped
from podsim.scenario.wording import nearest, quoted
from podsim.scenario.yaml_file import read_yaml
from podsim.study.check.verdict import NOT_READ, Baseline, Measured, Verdict, uses, verdict_on
from podsim.study.store import DONE, Store, figures_of, status_of
from podsim.units import parse_quantity
from podsim.user_file import MOST_BYTES, content_of
from podsim.watch import Tell, no_progress, telling

if TYPE_CHECKING:
    from podsim.runs import Result

SCHEMA: Final = 1
BASELINE: Final = "podsim-baseline.json"
SCENARIOS_FOLDER: Final = Path("scenarios")
DIGITS: Final = 9
_SUFFIXES: Final = {".yaml", ".yml"}
_FIGURES: Final = ("breakdown.", "run_breakdown.")
_FEW_CASES: Final = 8
_MEASURES: Final = ("podsim.study.check.measure", "podsim.checks.measure")
"""Modules that run cases, by their names now and in earlier versions."""


def check(
    *paths: Annotated[str | Path, Shell((), "PATH...", may_be_left_out=True)],
    baseline: str | Path | None = None,
    against: Annotated[str | None, Shell(metavar="REVISION")] = None,
    tell: Tell | None = None,
) -> Verdict:
    """Compare the metrics of scenarios with a baseline, and with the expectations in the scenarios.

    Args:
        paths: Scenario files, folders of them, or shipped names. The command takes the scenarios of
            podsim-baseline.json in the working folder by default, or those of its folder `scenarios`.
        baseline: File with the agreed metrics; without it, only expectations of the scenarios are checked. The command
            uses podsim-baseline.json next to the first path if it exists.
        against: Compare with the metrics of this git revision instead.
        tell: Progress callback, called as `tell(done, total)`; by default a progress line in a notebook.

    Returns:
        The verdict, with all changes and unmet expectations.

    Raises:
        PodsimError: A path, the baseline or the revision cannot be read, or there is no path.
    """
    if not paths:
        raise PodsimError("there is nothing to check", do="give scenario files, folders of them, or shipped names")
    for path in paths:
        if not isinstance(path, str | Path):
            what = f"what is checked is a path or the name of a scenario, not {quoted(path)}"
            raise PodsimError(what, do="write a scenario into a file, and give its path")
    if baseline is not None and against is not None:
        raise PodsimError("a revision does without a baseline", do="leave `against` or `baseline` out")
    files = [_file_of(Path(path)) for path in paths]
    home = folder_of(paths[0]) if baseline is None else Path(baseline).parent
    cases = list(cases_of(files, home))
    agreed = _at_revision(against, files, home) if against else read_baseline(Path(baseline)) if baseline else None
    with telling(tell, "scenarios") as told:
        now = _measure_all(cases, told)
    compared_with = f"revision {against}" if against else str(baseline or "")
    return verdict_on(now, agreed, compared_with, {case.name: case.path for case in cases}, home)


def accept(paths: Sequence[str | Path], file: Path, reason: str, tell: Tell) -> tuple[int, list[str]]:
    """Accept the current metrics of scenarios; return their number and the tolerances that no longer apply."""
    now = _measure_all(list(cases_of([_file_of(Path(path)) for path in paths], file.parent)), tell)
    wrong = next((each["reason"] for each in now.values() if each["status"] == NOT_READ), None)
    if wrong is not None:
        raise PodsimError(f"this is not accepted as it cannot be read: {wrong}", do="mend the file, then accept")
    before = read_baseline(file) if file.exists() else Baseline()
    after = before.with_measured(now, reason)
    write_baseline(file, after)
    return len(now), sorted({*before.tolerances} - {*after.tolerances})


# Cases


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario with one of its variants, by the name by which a baseline in a folder, its home, knows it."""

    path: Path
    name: str
    variant: str | None = None
    home: Path = Path()


def paths_left_out(baseline: str | Path | None) -> tuple[list[Path], Path | None]:
    """Return the default paths to check, and their baseline; None for a baseline in their folder.

    Args:
        baseline: Requested baseline; None is `BASELINE` in the working folder.
    """
    file = Path(baseline or BASELINE)
    if baseline or file.is_file():
        names = dict.fromkeys(name.partition("@")[0] for name in read_baseline(file).scenarios)
        found = [path for name in names if (path := _file_of_name(name, file.parent))]
        if not found:
            what = "none of the scenarios of this baseline is there"
            raise PodsimError(what, where=str(file), do="give the paths of scenarios")
        return found, file
    if SCENARIOS_FOLDER.is_dir():
        return [SCENARIOS_FOLDER], None
    what = f"there is nothing to check: the working folder has no {BASELINE} and no folder `{SCENARIOS_FOLDER}`"
    raise PodsimError(what, do="give scenario files, folders of them, or shipped names")


def _file_of_name(name: str, home: Path) -> Path | None:
    """Return the file of a scenario of a baseline, or None if it is no longer there."""
    near = (home / f"{name}{suffix}" for suffix in sorted(_SUFFIXES))
    return next((path for path in near if path.is_file()), None) or shipped(Path(name).name, "scenario")


def folder_of(path: str | Path) -> Path:
    """Return the folder in which a baseline is looked for: the path itself, or the folder of a file."""
    return Path(path) if Path(path).is_dir() else Path(path).parent


def _file_of(path: Path) -> Path:
    """Return the path, or the file of the shipped study or scenario with that name."""
    return path if path.exists() else shipped(str(path), "study") or shipped(str(path), "scenario") or path


def cases_of(paths: Sequence[Path], home: Path) -> Iterator[Case]:
    """Yield every scenario and variant in files and folders, named relative to a folder."""
    files: dict[str, Path] = {}
    for path in paths:
        if not path.exists():
            what, do = "there is no such file or folder", "name scenario files or their folder"
            raise OutputError(what, where=str(path), do=do)
        there = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES) if path.is_dir() else [path]
        scenarios = [each for each in there if is_scenario(each)]
        if not scenarios:
            what = "the folder holds no scenario" if path.is_dir() else "this is no scenario, by its key `kind`"
            raise OutputError(what, where=str(path), do="name another")
        for file in scenarios:
            full, top = file.resolve(), home.resolve()
            near = full.relative_to(top) if full.is_relative_to(top) else Path(display_path(full))
            name = near.with_suffix("").as_posix()
            if name not in files:
                files[name] = file
                yield Case(file, name, home=home)
                with suppress(SpecError):  # reported when the file itself is run
                    yield from (
                        Case(file, f"{name}@{variant_name}", variant_name, home) for variant_name in variant_names(file)
                    )
            elif files[name].resolve() != full:
                raise OutputError(f"goes by the same name as {files[name]}", where=str(file), do="rename one of them")


def is_scenario(path: Path) -> bool:
    """Return True if a file contains a scenario; files of other kinds have the key `kind`, broken files count."""
    try:
        return "kind" not in read_yaml(path).data
    except SpecError:
        return True


def measured(case: Case, simulate: Callable[[LoadedScenario], Result] = run) -> Measured:
    """Run a case and return its metrics; an impossible case has a reason and no metrics."""
    given: dict[str, Any] = {"inputs": {}, "expect": {}, "metrics": {}, "breakdown_ps": {}}
    try:
        loaded = load_scenario(case.path, case.variant)
        for path, digest in loaded.inputs:  # shipped data by name, other files relative to the baseline's folder
            near = PurePath(os.path.relpath(Path(path).resolve(), case.home.resolve())).as_posix()
            given["inputs"][path if is_as_shipped((path, digest)) else near] = digest
        given["expect"] = dict(loaded.spec.expect or {})
    except SpecError as error:
        return given | {"status": NOT_READ, "reason": str(error)}
    try:
        result = simulate(loaded)
    except PodsimError as error:
        return given | {"status": status_of(error), "reason": str(error)}
    numbers = ((name, value) for name, value in figures_of(result) if isinstance(value, (int, float)))
    metrics = {name: value for name, value in numbers if not name.startswith(_FIGURES)}
    return given | {"status": DONE, "reason": None, "metrics": metrics, "breakdown_ps": dict(result.breakdown_ps)}


def _measure_all(cases: Sequence[Case], tell: Tell) -> dict[str, Measured]:
    with Store(what="check") as store:
        store.fill(partial(_numbered, cases), range(len(cases)), tell, few=_FEW_CASES)
        return {case.name: row for case, row in zip(cases, store.rows(), strict=True)}


def _numbered(cases: Sequence[Case], number: int) -> Measured:
    return measured(cases[number])


# Another revision


def _at_revision(revision: str, paths: Sequence[Path], home: Path) -> Baseline:
    """Return the metrics of the same paths in another git revision, computed with that revision's own code."""
    root = top_of(home, str(home), "check scenarios of a git repository, or do without `--against`")
    commit = commit_of(root, revision, revision)
    outside = next((path for path in paths if not path.resolve().is_relative_to(root)), None)
    if outside is not None:
        raise PodsimError(f"it does not lie in {root}", where=str(outside), do="check one repository at a time")
    inside = [path.resolve().relative_to(root) for path in paths]
    with tempfile.TemporaryDirectory(prefix="podsim-") as folder:
        tree = Path(folder).resolve()
        extract(root, revision, commit, tree, lambda path: path.parts[0] == "podsim" or path.suffix.lower() in READ)
        return Baseline(_revision_cases(tree, inside, home.resolve().relative_to(root), revision), is_revision=True)


def _revision_cases(tree: Path, paths: Sequence[Path], home: Path, revision: str) -> Mapping[str, Measured]:
    """Return the cases of another tree, run by the code of that tree if it contains podsim, or else by this code."""
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
        last = said[-1] if said else "it printed nothing"  # an indented cure may follow
        raise PodsimError(f"podsim of that revision fails: {last}", where=revision, do="name another revision")
    figures: Mapping[str, Measured] = json.loads(done.stdout)
    return figures


def main(home: str, *paths: str) -> None:
    """Print what every case below the paths gives, named from a folder."""
    sys.stdout.write(json.dumps(_measure_all(list(cases_of([Path(path) for path in paths], Path(home))), no_progress)))


# The file of a baseline


class _Measured(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    status: str
    metrics: dict[str, float]
    breakdown_ps: dict[str, float]
    inputs: dict[str, str]


def _share(text: str) -> str:
    if parse_quantity(text, "ratio") < 0:
        raise BadValueError(f"{text} is below 0", "write for example `1 %`")
    return text


class _File(BaseModel):
    model_config = ConfigDict(strict=True)

    version: str
    reason: str
    tolerance: Annotated[str, AfterValidator(_share)]
    tolerances: dict[str, Annotated[str, AfterValidator(_share)]]
    scenarios: dict[str, _Measured]


def read_baseline(path: Path) -> Baseline:
    """Read a baseline; a PodsimError if it is not there, is none, or has another schema."""
    do = 'write one with `podsim check … --accept --reason "first baseline"`'
    again = f"restore it from git, or remove it and {do}"

    def no_baseline(what: object) -> PodsimError:
        return PodsimError(f"this is no baseline: {what}", where=str(path), do=again)

    if not path.exists():
        raise PodsimError("there is no baseline", where=str(path), do=do)
    content = content_of(path, MOST_BYTES, again)
    try:
        data = json.loads(content.decode("utf-8"), object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise no_baseline(error) from None
    if not isinstance(data, dict) or "schema" not in data:
        raise no_baseline("it names no `schema`")
    if data["schema"] != SCHEMA:
        what = f"schema {data['schema']} is not the {SCHEMA} that this version of podsim reads"
        raise PodsimError(what, where=str(path), do=f"use the version that wrote it, or remove it and {do}")
    try:
        _File.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = str(first.get("ctx", {}).get("error") or first["msg"])
        raise no_baseline(f"`{'.'.join(map(str, first['loc']))}`: {said[0].lower()}{said[1:]}") from None
    known = uses(data["scenarios"])
    for key in data["tolerances"]:
        if key not in known:
            close = nearest(key, known)
            cure = f"write `{close}`" if close else "name a scenario, a figure, or both with a space between"
            what = f"`tolerances.{key}` is for no scenario and no figure of this baseline"
            raise PodsimError(what, where=str(path), do=f"take it out, or {cure}")
    return Baseline(**{name: data[name] for name in _File.model_fields})


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a mapping; raise `ValueError` if a key appears twice."""
    if double := next((key for key, count in Counter(key for key, _ in pairs).items() if count > 1), None):
        raise ValueError(f"the key `{double}` appears twice")
    return dict(pairs)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write it, one figure a line, so that a change is seen in review."""
    data: dict[str, Any] = {"schema": SCHEMA} | {name: getattr(baseline, name) for name in _File.model_fields}
    data |= {"version": __version__, "scenarios": {}}
    for name, given in sorted(baseline.scenarios.items()):
        metrics = {metric: float(f"{value:.{DIGITS}g}") for metric, value in given["metrics"].items()}
        data["scenarios"][name] = {key: given[key] for key in _Measured.model_fields} | {"metrics": metrics}
    write_atomically(path, (json.dumps(data, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    import_module(_MEASURES[0]).main(*sys.argv[1:])  # other processes find functions by the module's name
