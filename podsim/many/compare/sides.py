"""The sides of a comparison: whatever is given is read, or simulated.

A word stands for a scenario, a variant of one, a result in a file, or either at a revision of a git repository.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, Final, NoReturn

from podsim.draws import Draws
from podsim.errors import PodsimError, SpecError
from podsim.format import format_bytes
from podsim.git import READ, blobs, commit_of, extract, top_of
from podsim.many.compare.record import subject_of
from podsim.many.compare.subject import Subject
from podsim.result.base import Result, plain
from podsim.result.influence import StandsOn
from podsim.runs import run
from podsim.scenario import LoadedScenario, variant_names
from podsim.scenario.library import data_root, find
from podsim.scenario.wording import known_here
from podsim.watch import Watch, silent

_SHORT: Final = 10


@dataclass(frozen=True, slots=True)
class Revision:
    """A file at a revision.

    Attributes:
        name: The revision as it was given.
        commit: Its full hash.
        top: The folder of the repository.
        path: The file, seen from there.
    """

    name: str
    commit: str
    top: Path
    path: PurePosixPath

    @property
    def text(self) -> str:
        """The revision in words."""
        short = self.commit[:_SHORT]
        return f"revision {self.name}" if self.commit.startswith(self.name) else f"revision {self.name} ({short})"


def revision_of(files: Sequence[Path], name: str) -> Revision:
    """The first of some files that a revision holds.

    Args:
        files: Paths that may be meant; they need not exist any more.
        name: The revision: a branch, a tag, a hash, `HEAD~3`.

    Raises:
        PodsimError: There is no git, no repository, no such revision, or none of the files in it.
    """
    folder = next(each for each in files[0].absolute().parents if each.is_dir())
    where = f"{files[0]}@{name}"
    top = top_of(folder, where, "name a file in a git repository, or one of the variants of the file")
    commit = commit_of(top, where, name)
    held = blobs(top, where, commit)
    for file in files:
        path = _inside(file, top)
        if path is not None and path in held:
            return Revision(name, commit, top, path)
    do = f"`git log --oneline -- {files[0]}` lists revisions that have it"
    raise PodsimError(f"`{files[0]}` is not in revision `{name}`", where=where, do=do)


@contextmanager
def extracted(revision: Revision) -> Iterator[Path]:
    """A folder with the files of a repository at a revision that a scenario may name; it is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="podsim-") as name:
        folder = Path(name).resolve()
        where = f"{revision.path}@{revision.name}"

        def is_wanted(path: PurePosixPath) -> bool:
            return path.suffix.lower() in READ or path == revision.path

        extract(revision.top, where, revision.commit, folder, is_wanted)
        yield folder


def _inside(file: Path, top: Path) -> PurePosixPath | None:
    """A path seen from the folder of the repository; None if it leads out of it."""
    path = file.absolute().parent.resolve() / file.name
    return PurePosixPath(path.relative_to(top).as_posix()) if path.is_relative_to(top) else None


_AT: Final = re.compile(r"@(?!\{)")
"""Between parts of a name; `HEAD@{1}` is one part."""
_KIND: Final = "scenario"
_YAML: Final = ("", ".yaml", ".yml")
_MOST_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class Named:
    """A word of the command line, and its meaning.

    Attributes:
        label: The word.
        taken: What it is taken for.
        path: A file, or the name of a shipped scenario.
        variant: One of its variants.
        revision: The revision at which it is meant; as it is now if left out.
        notes: What else it could have meant.
    """

    label: str
    taken: str
    path: str
    variant: str | None = None
    revision: Revision | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_result(self) -> bool:
        """True for a result in a file, rather than something to simulate."""
        return Path(self.path).suffix.lower() == SUFFIX


def named(word: str) -> Named:
    """The meaning of a word; nothing of it is simulated or read yet.

    A file of this name comes first, then a variant, then a revision.

    Raises:
        PodsimError: It stands for nothing.
    """
    parts = _AT.split(word)
    if len(parts) == 1 or _is_file(word):
        return Named(word, _scenario(word), word)
    if len(parts) > _MOST_PARTS or not all(parts):
        do = "write `NAME@VARIANT`, `NAME@REVISION` or `NAME@VARIANT@REVISION`"
        raise PodsimError("this is no name with a variant or a revision", where=word, do=do)
    if len(parts) == _MOST_PARTS:
        path, variant, name = parts
        revision = revision_of(_files(path), name)
        return Named(word, f"variant {variant} of {path} at {revision.text}", path, variant, revision)
    path, name = parts
    variants = _variants(path)
    if name in variants:
        return Named(word, f"variant {name} of {path}", path, name, notes=_also(path, name))
    try:
        revision = revision_of(_files(path), name)
    except PodsimError as error:
        raise _neither(path, name, variants, error) from None
    return Named(word, f"{path} at {revision.text}", path, revision=revision)


def _is_file(word: str) -> bool:
    return _found(word) is not None


def _found(word: str) -> Path | None:
    try:
        return find(word, _KIND, ())
    except SpecError:
        return None


def _scenario(word: str) -> str:
    found = _found(word)
    shipped = found is not None and found.resolve().is_relative_to(data_root().resolve())
    return "shipped scenario" if shipped else "scenario in a file"


def _variants(path: str) -> Sequence[str]:
    """The variants of a scenario; none of a result, or of a file that is gone."""
    return variant_names(path) if _is_file(path) and Path(path).suffix.lower() != SUFFIX else ()


def _files(path: str) -> list[Path]:
    """Files that a name may mean; they need not exist any more."""
    found = _found(path)
    return [found] if found is not None else [Path(f"{path}{suffix}") for suffix in _YAML]


def _also(path: str, name: str) -> tuple[str, ...]:
    """A note if the name of a variant is that of a revision too."""
    try:
        revision_of(_files(path), name)
    except PodsimError:
        return ()
    return (f"{name} is a variant of {path} and a revision of its repository; the variant is taken",)


def _neither(path: str, name: str, variants: Sequence[str], error: PodsimError) -> PodsimError:
    """The error of what is neither a variant nor a revision."""
    known = f"{path} has no variant `{name}`" if _is_file(path) else f"no scenario `{path}` was found"
    what = f"{known}; as a revision: {error.message}"
    do = known_here(name, variants, error.do or "name a revision") if variants else error.do
    return PodsimError(what, where=f"{path}@{name}", do=do)


SUFFIX: Final = ".json"
_MOST_BYTES: Final = 1 << 28
_WRITE: Final = "write one with `podsim run NAME --format json > FILE`"


def read_result(path: Path, label: str) -> Subject:
    """A result that was written to a file.

    Args:
        path: The file.
        label: What it is called in messages.

    Raises:
        PodsimError: It cannot be read, or holds no result.
    """
    data = _parsed(_text_of_file(path, label), label)
    if not isinstance(data, dict):
        raise PodsimError("this is JSON, but no result of podsim", where=label, do=_WRITE)
    name = data.get("name")
    of = f" of {name}" if isinstance(name, str) else ""
    return subject_of(data, label, f"result{of} in a file, podsim {data.get('version')}")


def _text_of_file(path: Path, label: str) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            what = f"this file is larger than {format_bytes(_MOST_BYTES)}, which no result is"
            raise PodsimError(what, where=label, do=_WRITE)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PodsimError("this file is not text in UTF-8", where=label, do=_WRITE) from error
    except OSError as error:
        what = f"this file cannot be read: {error.strerror or type(error).__name__}"
        raise PodsimError(what, where=label, do="check the path and its permissions") from error


def _parsed(text: str, label: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        what = f"this is not JSON: {error}" if isinstance(error, ValueError) else "this is nested too deeply"
        raise PodsimError(what, where=label, do=_WRITE) from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


Side = str | Path | Mapping[str, Any] | LoadedScenario | Result
"""A name or path with or without `@VARIANT` or `@REVISION`, a scenario, a result, or one as plain data."""
_OF_A_RESULT: Final = "simulated"


@dataclass(frozen=True, slots=True)
class _Simulation:
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
    how = _Simulation(draws, watch)
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


def of_result(result: Result, label: str, taken: str, *, ranged: bool = True) -> Subject:
    """One side of a comparison, from a result.

    Args:
        result: The result.
        label: What was given.
        taken: What that was taken for.
        ranged: Whether its ranges count, which take longer to find than all the rest.
    """
    data = replace(result, assumptions=()).to_dict()
    found = subject_of({**data, "ranges": plain(result.ranges) if ranged else {}}, label, taken)
    return (
        replace(found, stands_on=result.assumptions) if ranged and isinstance(result.assumptions, StandsOn) else found
    )


def _of_name(what: Named, how: _Simulation) -> Subject:
    if what.revision is None:
        return replace(_of_path(what.path, what, how), notes=what.notes)
    with extracted(what.revision) as folder:
        return _at_revision(what, what.revision, folder, how)


def _of_path(path: str, what: Named, how: _Simulation) -> Subject:
    if what.is_result:
        return read_result(Path(path), what.label)
    return _simulated(path, what.label, what.taken, how, what.variant)


def _simulated(
    scenario: str | Mapping[str, Any] | LoadedScenario,
    label: str,
    taken: str,
    how: _Simulation,
    variant: str | None = None,
) -> Subject:
    try:
        result = run(scenario, variant=variant, uncertainty=how.draws, watch=how.watch)
    except SpecError:
        raise  # it names its files
    except PodsimError as error:
        error.where = f"{label}: {error.where}" if error.where else label
        raise
    return of_result(result, label, taken)


def _at_revision(what: Named, revision: Revision, folder: Path, how: _Simulation) -> Subject:
    """A side whose files lie in a folder that is laid out like the repository."""
    here = _working_folder(revision, folder)
    prefix = f"{here if here.is_relative_to(folder) else folder}/"
    path, quiet = str(folder / revision.path), replace(how, watch=silent)
    try:
        subject = _elsewhere(here, _of_path, path, what, quiet)
    except PodsimError as error:
        texts = [
            text and text.replace(prefix, "").replace(f"{folder}/", "")
            for text in (error.message, error.where, error.do)
        ]
        error.message, error.where, error.do = texts[0] or "", *texts[1:]
        raise error.at(what.label) from None
    files = tuple((name.removeprefix(prefix).removeprefix(f"{folder}/"), digest) for name, digest in subject.files)
    taken = what.taken if not what.is_result else f"{subject.taken}, at {revision.text}"
    return replace(subject, taken=taken, files=files, notes=tuple(_of_today(what, revision, folder, files)))


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
