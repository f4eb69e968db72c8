"""Files as they were at a revision of a git repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from podsim.errors import PodsimError

_READ: Final = (".yaml", ".yml", ".onnx", ".csv", ".json")
"""What a scenario may name, and what names it."""
_ELSEWHERE: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
"""Set in hooks of git; they would lead to another repository than that of the file."""
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
    top = Path(_git(folder, where, "rev-parse", "--show-toplevel").decode().rstrip("\n"))
    arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    try:
        commit = _git(top, where, *arguments).decode().strip()
    except PodsimError:
        what, do = f"there is no revision `{name}` in the git repository {top}", "`git log --oneline` lists revisions"
        raise PodsimError(what, where=where, do=do) from None
    held = set(_blobs(top, where, commit))
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
        blobs = _blobs(revision.top, where, revision.commit)
        wanted = {path: blob for path, blob in blobs.items() if path.suffix.lower() in _READ or path == revision.path}
        contents = _contents(revision.top, where, list(wanted.values()))
        for path, content in zip(wanted, contents, strict=True):
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        yield folder


def _inside(file: Path, top: Path) -> PurePosixPath | None:
    """A path seen from the folder of the repository; None if it leads out of it."""
    path = file.absolute().parent.resolve() / file.name
    return PurePosixPath(path.relative_to(top).as_posix()) if path.is_relative_to(top) else None


def _blobs(top: Path, where: str, commit: str) -> dict[PurePosixPath, str]:
    """Hashes of the ordinary files of a commit by their paths."""
    listed = _git(top, where, "ls-tree", "-r", "-z", "--full-tree", commit).decode(errors="surrogateescape")
    entries = (line.partition("\t") for line in listed.split("\0") if line)
    return {
        PurePosixPath(path): about.split()[2]
        for about, _, path in entries
        if about.startswith("100") and ".." not in PurePosixPath(path).parts
    }


def _contents(top: Path, where: str, blobs: Sequence[str]) -> Iterator[bytes]:
    output = _git(top, where, "cat-file", "--batch", given="".join(f"{each}\n" for each in blobs).encode())
    start = 0
    for blob in blobs:
        end = output.index(b"\n", start)
        name, *about = output[start:end].decode().split()
        if name != blob or about[0] != "blob":
            raise PodsimError(f"git does not hold the file {blob}", where=where, do="fetch the revision with its files")
        size_bytes = int(about[1])
        yield output[end + 1 : end + 1 + size_bytes]
        start = end + 1 + size_bytes + 1


def _git(folder: Path, where: str, *arguments: str, given: bytes = b"") -> bytes:
    program = shutil.which("git")
    if program is None:
        do = "install git, or give two files"
        raise PodsimError("git is not installed, which finds files at a revision", where=where, do=do)
    environment = {name: value for name, value in os.environ.items() if name not in _ELSEWHERE} | {"LC_ALL": "C"}
    done = subprocess.run(
        [program, "-C", str(folder), *arguments], input=given, capture_output=True, env=environment, check=False
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        what = f"git says: {said[0]}" if said else f"git ended with exit code {done.returncode}"
        raise PodsimError(what, where=where, do="name a file in a git repository, or one of the variants of the file")
    return done.stdout
