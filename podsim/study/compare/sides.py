"""The sides of a comparison: whatever is given is read, or simulated.

A word stands for a scenario, a variant of one, a result in a file, or either at a revision of a git repository.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from podsim.draws import Draws
from podsim.errors import PodsimError, SpecError
from podsim.format import format_bytes
from podsim.git import READ, blobs, commit_of, extract, top_of
from podsim.result.base import Result, plain
from podsim.result.influence import StandsOn
from podsim.runs import run
from podsim.scenario import LoadedScenario, variant_names
from podsim.scenario.library import data_root, find
from podsim.scenario.wording import known_here
from podsim.study.compare.record import subject_of
from podsim.study.compare.subject import Subject
from podsim.watch import Watch, silent

Side = str | Path | Mapping[str, Any] | LoadedScenario | Result
"""A name or path with or without `@VARIANT` or `@REVISION`, a scenario, a result, or one as plain data."""
_OF_A_RESULT: Final = "simulated"
_RESULT: Final = ".json"
_YAML: Final = ("", ".yaml", ".yml")
_AT: Final = re.compile(r"@(?!\{)")
"""Between parts of a name; `HEAD@{1}` is one part."""
_SHORT: Final = 10
_MOST_PARTS: Final = 3
_MOST_BYTES: Final = 1 << 28
_WRITE: Final = "write one with `podsim run NAME --format json > FILE`"


def side(given: Side, letter: str, draws: Draws | None, watch: Watch) -> Subject:
    """One side of a comparison, called by a letter where it has no name.

    Raises:
        PodsimError: It is nothing that can be compared, or cannot be simulated.
    """
    if isinstance(given, Result):
        return of_result(given, given.name, f"result, podsim {given.version}")
    if isinstance(given, Mapping) and _OF_A_RESULT in given:
        return subject_of(given, letter, "result as plain data")
    if isinstance(given, Mapping):
        return _simulated(given, Named(letter, "scenario as plain data", ""), draws, watch)
    if isinstance(given, LoadedScenario):
        return _simulated(given, Named(given.name, "loaded scenario", ""), draws, watch)
    if not isinstance(given, (str, os.PathLike)):
        do = "give names, paths, scenarios or results"
        raise PodsimError(f"{type(given).__name__} is nothing that can be compared", where=letter, do=do)
    what = named(os.fspath(given))
    if what.revision is None:
        return _of_path(what.path, what, draws, watch)
    return _at_revision(what, what.revision, draws)


def of_result(result: Result, label: str, taken: str, *, ranged: bool = True) -> Subject:
    """One side of a comparison, from a result; its ranges and those of changes take longer than all the rest."""
    data = replace(result, assumptions=()).to_dict()
    found = subject_of({**data, "ranges": plain(result.ranges) if ranged else {}}, label, taken)
    return (
        replace(found, stands_on=result.assumptions) if ranged and isinstance(result.assumptions, StandsOn) else found
    )


def _of_path(path: str, what: Named, draws: Draws | None, watch: Watch) -> Subject:
    return _in_file(Path(path), what.label) if what.is_result else _simulated(path, what, draws, watch)


def _simulated(
    scenario: str | Mapping[str, Any] | LoadedScenario, what: Named, draws: Draws | None, watch: Watch
) -> Subject:
    try:
        return of_result(run(scenario, variant=what.variant, uncertainty=draws, watch=watch), what.label, what.taken)
    except SpecError:
        raise  # it names its files
    except PodsimError as error:
        error.where = f"{what.label}: {error.where}" if error.where else what.label
        raise


# Names


@dataclass(frozen=True, slots=True)
class Revision:
    """A file, seen from the folder of its repository, at a revision by its name and its full hash."""

    name: str
    commit: str
    top: Path
    path: PurePosixPath

    @property
    def text(self) -> str:
        """The revision in words."""
        full = self.commit.startswith(self.name)
        return f"revision {self.name}" if full else f"revision {self.name} ({self.commit[:_SHORT]})"


@dataclass(frozen=True, slots=True)
class Named:
    """A word of the command line: what it is taken for, and its file or shipped name."""

    label: str
    taken: str
    path: str
    variant: str | None = None
    revision: Revision | None = None

    @property
    def is_result(self) -> bool:
        """True for a result in a file, rather than something to simulate."""
        return Path(self.path).suffix.lower() == _RESULT


def named(word: str) -> Named:
    """The meaning of a word; nothing of it is simulated or read yet.

    A file of this name comes first, then a variant, then a revision.

    Raises:
        PodsimError: It stands for nothing.
    """
    path, *others = _AT.split(word)
    found = _found(word)
    if not others or found is not None:
        shipped = found is not None and found.resolve().is_relative_to(data_root().resolve())
        return Named(word, "shipped scenario" if shipped else "scenario in a file", word)
    if len(others) >= _MOST_PARTS or not all((path, *others)):
        do = "write `NAME@VARIANT`, `NAME@REVISION` or `NAME@VARIANT@REVISION`"
        raise PodsimError("this is no name with a variant or a revision", where=word, do=do)
    *variant, name = others
    if variant:
        revision = _revision(path, name)
        return Named(word, f"variant {variant[0]} of {path} at {revision.text}", path, variant[0], revision)
    file = _found(path)
    variants = () if file is None or Path(path).suffix.lower() == _RESULT else variant_names(path)
    if name in variants:
        return Named(word, f"variant {name} of {path}", path, name)
    try:
        revision = _revision(path, name)
    except PodsimError as error:
        known = f"{path} has no variant `{name}`" if file else f"no scenario `{path}` was found"
        cure = known_here(name, variants, error.do or "name a revision") if variants else error.do
        raise PodsimError(f"{known}; as a revision: {error.message}", where=word, do=cure) from None
    return Named(word, f"{path} at {revision.text}", path, revision=revision)


def _found(word: str) -> Path | None:
    try:
        return find(word, "scenario", ())
    except SpecError:
        return None


def _revision(path: str, name: str) -> Revision:
    """What a name stands for at a revision: the first file that this holds, which need not exist any more."""
    found = _found(path)
    files = [found] if found is not None else [Path(f"{path}{suffix}") for suffix in _YAML]
    where = f"{files[0]}@{name}"
    folder = next(each for each in files[0].absolute().parents if each.is_dir())
    top = top_of(folder, where, "name a file in a git repository, or one of the variants of the file")
    commit = commit_of(top, where, name)
    held = blobs(top, where, commit)
    for file in files:
        full = file.absolute().parent.resolve() / file.name
        inside = PurePosixPath(full.relative_to(top).as_posix()) if full.is_relative_to(top) else None
        if inside in held:
            return Revision(name, commit, top, inside)
    do = f"`git log --oneline -- {files[0]}` lists revisions that have it"
    raise PodsimError(f"`{files[0]}` is not in revision `{name}`", where=where, do=do)


# Revisions


def _at_revision(what: Named, revision: Revision, draws: Draws | None) -> Subject:
    """A side with the files of a revision, in a folder that is laid out like the repository and gone afterwards."""

    def is_wanted(path: PurePosixPath) -> bool:
        return path.suffix.lower() in READ or path == revision.path

    with tempfile.TemporaryDirectory(prefix="podsim-") as name:
        folder, now = Path(name).resolve(), Path.cwd().resolve()
        extract(revision.top, f"{revision.path}@{revision.name}", revision.commit, folder, is_wanted)
        here = folder / now.relative_to(revision.top) if now.is_relative_to(revision.top) else now
        here.mkdir(parents=True, exist_ok=True)

        def inside(text: str | None) -> str:
            near = f"{here}/" if here.is_relative_to(folder) else f"{folder}/"
            return (text or "").replace(near, "").replace(f"{folder}/", "")

        try:
            with ProcessPoolExecutor(1, initializer=os.chdir, initargs=(here,)) as pool:  # which may work elsewhere
                found = pool.submit(_of_path, str(folder / revision.path), what, draws, silent).result()
        except PodsimError as error:
            error.message, error.where, error.do = map(inside, (error.message, error.where, error.do))
            raise error.at(what.label) from None
    taken = f"{found.taken}, at {revision.text}" if what.is_result else what.taken
    return replace(found, taken=taken, files=tuple((inside(path), digest) for path, digest in found.files))


# Results in files


def _in_file(path: Path, label: str) -> Subject:
    """A result that was written to a file."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            what = f"this file is larger than {format_bytes(_MOST_BYTES)}, which no result is"
            raise PodsimError(what, where=label, do=_WRITE)
        data = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except UnicodeDecodeError as error:
        raise PodsimError("this file is not text in UTF-8", where=label, do=_WRITE) from error
    except OSError as error:
        what = f"this file cannot be read: {error.strerror or type(error).__name__}"
        raise PodsimError(what, where=label, do="check the path and its permissions") from error
    except (ValueError, RecursionError) as error:
        what = f"this is not JSON: {error}" if isinstance(error, ValueError) else "this is nested too deeply"
        raise PodsimError(what, where=label, do=_WRITE) from error
    if not isinstance(data, dict):
        raise PodsimError("this is JSON, but no result of podsim", where=label, do=_WRITE)
    of = f" of {data['name']}" if isinstance(data.get("name"), str) else ""
    return subject_of(data, label, f"result{of} in a file, podsim {data.get('version')}")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
