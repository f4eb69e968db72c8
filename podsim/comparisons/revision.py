"""Files as they were at a revision of a git repository."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from podsim.errors import PodsimError
from podsim.git import READ, blobs, commit_of, extract, top_of

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
