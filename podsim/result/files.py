"""Writing a file whole or not at all."""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from podsim.errors import OutputError
from podsim.scenario.library import data_file


def check_writable(path: str | Path) -> None:
    """Refuse a path that cannot be written, before the work whose result it is to hold.

    Raises:
        OutputError: The folder is missing or is a file, the path is a folder, or it may not be written.
    """
    try:
        _check_place(path)
    except OSError as error:
        what = f"cannot be written: {error.strerror or type(error).__name__}"
        raise OutputError(what, where=str(path), do="give another path") from error


def _check_place(path: str | Path) -> None:
    target = Path(path)
    if target.is_dir():
        raise OutputError(
            "this is a folder, not a file", where=str(path), do="give the name of a file inside the folder"
        )
    if not target.parent.exists():
        raise OutputError(
            f"the folder `{target.parent}` does not exist",
            where=str(path),
            do="make the folder, or give another path",
        )
    if not target.parent.is_dir():
        raise OutputError(f"`{target.parent}` is not a folder", where=str(path), do="give a path inside a folder")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise OutputError("cannot be written: no permission", where=str(path), do="give a path that you may write")


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
        OutputError: Two of them are the same file, be it through links.
    """
    taken = [(purpose, Path(path)) for purpose, path in inputs]
    for purpose, path in outputs.items():
        if path is None or _is_device(Path(path)):
            continue
        first = next((other for other, there in taken if _same_file(there, Path(path))), None)
        if first is not None:
            what = f"this is both {first} and the {purpose}"
            raise OutputError(what, where=str(path), do="give two different paths")
        taken.append((f"the {purpose}", Path(path)))


def check_not_read(path: str | Path, purpose: str, inputs: Iterable[tuple[str, str]]) -> None:
    """Refuse to overwrite a file that a result stands on.

    Raises:
        OutputError: It is one of them.
    """
    check_outputs({purpose: path}, files_read(inputs))


def files_read(inputs: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Path]]:
    """What each file is that was read, and every path that its displayed path may stand for."""
    for shown, _ in inputs:
        yield "a file that is read", Path(shown)
        yield "a file that is read", data_file(shown)


def _same_file(one: Path, other: Path) -> bool:
    with suppress(OSError):
        if one.resolve() == other.resolve():
            return True
        return one.samefile(other)
    return False


def _is_device(path: Path) -> bool:
    with suppress(OSError):
        return path.exists() and not path.is_file()
    return False


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write a file so that a reader sees all of it or what was there before; a failure leaves nothing.

    The bytes go to a temporary file in the same folder that then takes the name. A symbolic link keeps
    pointing where it did; a device or a pipe is written directly.

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
