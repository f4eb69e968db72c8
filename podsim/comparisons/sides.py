"""The sides of a comparison: whatever is given is read, or simulated."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from podsim.activity import run
from podsim.comparisons.named import Named, named
from podsim.comparisons.record import subject_of
from podsim.comparisons.result_file import read_result
from podsim.comparisons.revision import Revision, extracted
from podsim.comparisons.subject import Subject
from podsim.draws import Draws
from podsim.errors import PodsimError, SpecError
from podsim.report.base import Result, plain
from podsim.specs import LoadedScenario
from podsim.specs.library import data_root
from podsim.watch import Watch, silent

Side = str | Path | Mapping[str, Any] | LoadedScenario | Result
"""A name or path with or without `@VARIANT` or `@REVISION`, a scenario, a result, or one as plain data."""
_OF_A_RESULT: Final = "simulated"


@dataclass(frozen=True, slots=True)
class _Run:
    """How a side is simulated."""

    draws: Draws | None
    watch: Watch


def side(given: Side, letter: str, draws: Draws | None, watch: Watch) -> Subject:
    """One side of a comparison.

    Args:
        given: What to compare.
        letter: What it is called where it has no name.
        draws: How often the run of a scenario is repeated with inputs drawn from their ranges.
        watch: Passes on the names of the steps in which it is simulated.

    Raises:
        PodsimError: It is nothing that can be compared, or cannot be simulated.
    """
    how = _Run(draws, watch)
    if isinstance(given, Result):
        return of_result(given, given.name, f"result, podsim {given.version}")
    if isinstance(given, Mapping) and _OF_A_RESULT in given:
        return subject_of(given, letter, "result as plain data")
    if isinstance(given, Mapping):
        return _simulated(given, letter, "scenario as plain data", how)
    if isinstance(given, LoadedScenario):
        return _simulated(given, given.name, "loaded scenario", how)
    if not isinstance(given, (str, os.PathLike)):
        do = "give names, paths, scenarios or results"
        raise PodsimError(f"{type(given).__name__} is nothing that can be compared", where=letter, do=do)
    return _of_name(named(os.fspath(given)), how)


def of_result(result: Result, label: str, taken: str) -> Subject:
    """One side of a comparison, from a result.

    Args:
        result: The result.
        label: What was given.
        taken: What that was taken for.
    """
    data = replace(result, assumptions=()).to_dict()  # of what they move, the ranges alone are compared
    return subject_of({**data, "ranges": plain(result.ranges)}, label, taken)


def _of_name(what: Named, how: _Run) -> Subject:
    if what.revision is None:
        return replace(_of_path(what.path, what, how), notes=what.notes)
    with extracted(what.revision) as folder:
        return _at_revision(what, what.revision, folder, how)


def _of_path(path: str, what: Named, how: _Run) -> Subject:
    if what.is_result:
        return read_result(Path(path), what.label)
    return _simulated(path, what.label, what.taken, how, what.variant)


def _simulated(
    scenario: str | Mapping[str, Any] | LoadedScenario, label: str, taken: str, how: _Run, variant: str | None = None
) -> Subject:
    try:
        result = run(scenario, variant=variant, uncertainty=how.draws, watch=how.watch)
    except SpecError:
        raise  # it names its files
    except PodsimError as error:
        error.where = f"{label}: {error.where}" if error.where else label
        raise
    return of_result(result, label, taken)


def _at_revision(what: Named, revision: Revision, folder: Path, how: _Run) -> Subject:
    """A side whose files lie in a folder that is laid out like the repository."""
    here = _working_folder(revision, folder)
    prefix = f"{here if here.is_relative_to(folder) else folder}/"
    path, quiet = str(folder / revision.path), replace(how, watch=silent)
    try:
        subject = _elsewhere(here, _of_path, path, what, quiet)
    except PodsimError as error:
        texts = [text and text.replace(prefix, "").replace(f"{folder}/", "") for text in _texts(error)]
        error.message, error.where, error.do = texts[0] or "", *texts[1:]
        raise error.at(what.label) from None
    files = tuple((name.removeprefix(prefix).removeprefix(f"{folder}/"), digest) for name, digest in subject.files)
    taken = what.taken if not what.is_result else f"{subject.taken}, at {revision.text}"
    return replace(subject, taken=taken, files=files, notes=tuple(_of_today(what, revision, folder, files)))


def _texts(error: PodsimError) -> tuple[str | None, ...]:
    return error.message, error.where, error.do


def _working_folder(revision: Revision, folder: Path) -> Path:
    """The folder that stands for the working folder, where names are looked up."""
    now = Path.cwd().resolve()
    if not now.is_relative_to(revision.top):
        return now
    then = folder / now.relative_to(revision.top)
    then.mkdir(parents=True, exist_ok=True)
    return then


def _elsewhere(folder: Path, function: Callable[..., Subject], *arguments: Any) -> Subject:
    """Value of a function in another working folder, which only a process of its own may have."""
    with ProcessPoolExecutor(1, initializer=os.chdir, initargs=(folder,)) as pool:
        return pool.submit(function, *arguments).result()


def _of_today(what: Named, revision: Revision, folder: Path, files: tuple[tuple[str, str], ...]) -> list[str]:
    """A note on shipped files that were another at the revision and are read as they are now."""
    root, top = data_root().resolve(), revision.top
    if not root.is_relative_to(top):
        return []
    then = folder / root.relative_to(top)
    other = [
        name
        for name, digest in files
        if (root / name).is_file() and _digest(then / name) not in (None, digest)
        if _digest(root / name) == digest
    ]
    if not other:
        return []
    return [f"{what.label}: shipped files are read as they are now; these were others then: {', '.join(other)}"]


def _digest(path: Path) -> str | None:
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else None
