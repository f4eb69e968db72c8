"""Atomic writing of files, and checks of output paths."""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from podsim.errors import OutputError
from podsim.scenario.library import data_file


def check_writable(path: str | Path) -> None:
    """Refuse a path that cannot be written, before the computation of its content.

    Raises:
        OutputError: The folder is missing or is a file, the path is a folder, or it may not be written.
    """
    try:
        wrong = _wrong_with(Path(path))
    except OSError as error:
        wrong = f"cannot be written: {error.strerror or type(error).__name__}", "give another path"
    if wrong:
        raise OutputError(wrong[0], where=str(path), do=wrong[1])


def _wrong_with(target: Path) -> tuple[str, str] | None:
    """Return why a path cannot be written to and what to do, or None if it can."""
    folder = target.parent
    if target.is_dir():
        return "this is a folder, not a file", "give the name of a file inside the folder"
    if not folder.exists():
        return f"the folder `{folder}` does not exist", "make the folder, or give another path"
    if not folder.is_dir():
        return f"`{folder}` is not a folder", "give a path inside a folder"
    if not os.access(target if target.exists() else folder, os.W_OK):
        return "cannot be written: no permission", "give a path that you may write"
    return None


def check_new(path: str | Path, *, force: bool) -> None:
    """Refuse a path that cannot be written, or that holds a file already.

    Raises:
        OutputError: It cannot be written, or exists and may not be replaced.
    """
    check_writable(path)
    if not force and Path(path).is_file():
        raise OutputError("the file exists", where=str(path), do="give another name, or --force to replace it")


def check_outputs(outputs: Mapping[str, str | Path | None], inputs: Iterable[tuple[str, str | Path]] = ()) -> None:
    """Refuse outputs that would overwrite one another or what is read, however their paths are spelled.

    Raises:
        OutputError: Two paths are the same file, perhaps through links.
    """
    taken = [(purpose, Path(path)) for purpose, path in inputs]
    for purpose, given in outputs.items():
        if given is None or _is_device(path := Path(given)):
            continue
        if first := next((other for other, there in taken if _same_file(there, path)), None):
            what = f"this is both {first} and the {purpose}"
            raise OutputError(what, where=str(given), do="give two different paths")
        taken.append((f"the {purpose}", path))


def check_not_read(path: str | Path, purpose: str, inputs: Iterable[tuple[str, str]]) -> None:
    """Refuse to overwrite a file that a result was computed from.

    Raises:
        OutputError: The path is such a file.
    """
    check_outputs({purpose: path}, files_read(inputs))


def files_read(inputs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Path]]:
    """Yield a description and a path for each file that was read, and for each file its displayed path may mean."""
    for shown, _ in inputs:
        yield from (("a file that is read", path) for path in (Path(shown), data_file(shown)))


def _same_file(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.resolve() == other.resolve() or one.samefile(other)
    return False


def _is_device(path: Path) -> bool:
    with suppress(OSError):
        return path.exists() and not path.is_file()
    return False


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a file so that readers see either the old or the complete new content; a failure leaves no file.

    The bytes go to a temporary file in the same folder, which is then renamed. The target of a symbolic link is
    replaced and the link kept. A device or a pipe is written directly.

    Raises:
        OutputError: The path cannot be written.
    """
    check_writable(path)
    target = Path(path).resolve()
    try:
        if target.exists() and not target.is_file():
            target.write_bytes(data)
        else:
            _replace(target, data)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        cure = "give a path that can be written, or make room for the file"
        raise OutputError(f"cannot be written: {reason}", where=str(path), do=cure) from error


def _replace(target: Path, data: bytes) -> None:
    temporary = target.with_name(f".podsim-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
