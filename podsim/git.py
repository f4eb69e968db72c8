"""Git commands in the repository of a file.

Hooks, aliases and `git rebase --exec` set variables that name a repository, an index or an object store. These belong
to the caller's repository, which may not be that of the file, and git would damage a commit in progress. So they are
removed from the environment.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Final

from podsim.errors import PodsimError
from podsim.user_file import MOST_BYTES, read_at_most

READ: Final = (".yaml", ".yml", ".onnx", ".csv", ".json")
"""Suffixes of scenarios and of files that scenarios name."""
_NO_PLACE: Final = (
    *("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM"),
    *("GIT_SSL_", "GIT_TRACE", "GIT_CONFIG_", "GIT_EXEC_PATH"),
    *("GIT_ASKPASS", "GIT_SSH", "GIT_TERMINAL_PROMPT", "GIT_HTTP_", "GIT_PROXY_", "GIT_ALLOW_PROTOCOL", "GIT_PROTOCOL"),
)
"""Prefixes of the `GIT_*` variables to keep: settings and connections, but no repository."""
_LINK, _FILE = "120000", "100"
"""Mode of symbolic links, and prefix of the modes of ordinary files."""
_FETCH: Final = "fetch the revision with its files"
_LOOKED_BACK: Final = 50
"""Number of commits of a file to search."""


def git(folder: Path, where: str, do: str, *arguments: str, given: bytes = b"") -> bytes:
    """Run git in the repository of a folder and return its output; `where` and `do` belong to its errors."""
    program = shutil.which("git")
    if program is None:
        what = "git is not installed, which finds files at a revision"
        raise PodsimError(what, where=where, do="install git, or do without the revision")
    kept = {key: text for key, text in os.environ.items() if not key.startswith("GIT_") or key.startswith(_NO_PLACE)}
    done = subprocess.run(
        [program, "-C", str(folder), *arguments],
        input=given,
        capture_output=True,
        env=kept | {"LC_ALL": "C"},
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        what = f"git says: {said[0]}" if said else f"git ended with exit code {done.returncode}"
        raise PodsimError(what, where=where, do=do)
    return done.stdout


def top_of(folder: Path, where: str, do: str) -> Path:
    """Return the top folder of the repository that contains a folder."""
    return Path(os.fsdecode(git(folder, where, do, "rev-parse", "--show-toplevel")).rstrip("\n"))


def commit_of(top: Path, where: str, name: str) -> str:
    """Return the full hash of a revision: a branch, a tag, a hash, `HEAD~3`."""
    do = "`git log --oneline` lists revisions"
    try:
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return git(top, where, do, *asked).decode().strip()
    except PodsimError:
        what = f"there is no revision `{name}` in the git repository {top}"
        raise PodsimError(what, where=where, do=do) from None


def blobs(top: Path, where: str, commit: str) -> dict[PurePosixPath, str]:
    """Return the hashes of the ordinary files of a commit by path."""
    return {path: blob for path, (mode, blob) in _entries(top, where, commit).items() if mode.startswith(_FILE)}


def extract(top: Path, where: str, commit: str, folder: Path, wanted: Callable[[PurePosixPath], bool]) -> None:
    """Write files of a commit, and links that stay inside, to an empty folder; the repository is not touched."""
    entries = {path: entry for path, entry in _entries(top, where, commit).items() if wanted(path)}
    texts = dict(zip(entries, _contents(top, where, [blob for _, blob in entries.values()]), strict=True))
    for path, (mode, _) in sorted(
        entries.items(), key=lambda each: each[1][0] == _LINK
    ):  # links last, so that no file is written through one
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if mode != _LINK:
            target.write_bytes(texts[path])
            continue
        link = PurePosixPath(os.fsdecode(texts[path]))
        if not link.is_absolute() and link.parts.count("..") < len(
            path.parts
        ):  # the target is inside, whatever other links do
            target.symlink_to(link)


def first_change(file: Path, agreed: Collection[str]) -> int | None:
    """Return the first line that differs from the version with one of these SHA-256; None if git cannot tell."""
    try:
        top = top_of(file.parent, str(file), "")
        path = PurePosixPath(file.resolve().relative_to(top).as_posix())
        log = ("log", f"--max-count={_LOOKED_BACK}", "--format=%H", "--", f":(literal){path}")
        commits = git(top, str(file), "", *log).decode().split()
        listed = (_entries(top, str(file), commit, path).get(path, ("", ""))[1] for commit in commits)
        known = [blob for blob in dict.fromkeys(listed) if blob]
        before = next(content for content in _contents(top, str(file), known) if sha256(content).hexdigest() in agreed)
        one, other = before.splitlines(), read_at_most(file, MOST_BYTES).splitlines()
    except (PodsimError, ValueError, StopIteration, OSError):
        return None
    differs = next((place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))
    return max(1, min(len(other), differs + 1))


def _entries(top: Path, where: str, commit: str, *paths: PurePosixPath) -> dict[PurePosixPath, tuple[str, str]]:
    """Return mode and hash of the files and links of a commit by path."""
    asked = [str(path) for path in paths]
    listed = os.fsdecode(git(top, where, _FETCH, "ls-tree", "-r", "-z", "--full-tree", commit, *asked))
    split = (line.partition("\t") for line in listed.split("\0") if line)
    found = {PurePosixPath(path): (about.split()[0], about.split()[2]) for about, _, path in split}
    return {
        path: each
        for path, each in found.items()
        if (each[0] == _LINK or each[0].startswith(_FILE)) and ".." not in path.parts
    }


def _contents(top: Path, where: str, hashes: Sequence[str]) -> Iterator[bytes]:
    output = git(top, where, _FETCH, "cat-file", "--batch", given="".join(f"{hash_}\n" for hash_ in hashes).encode())
    start = 0
    for blob in hashes:
        end = output.index(b"\n", start)
        name, *about = output[start:end].decode().split()
        if name != blob or about[0] != "blob":
            raise PodsimError(f"git does not hold the file {blob}", where=where, do=_FETCH)
        size_bytes = int(about[1])
        yield output[end + 1 : end + 1 + size_bytes]
        start = end + 1 + size_bytes + 1
