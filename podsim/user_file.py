"""Safe reading of users' files, which may be devices, pipes, or larger than reported."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from podsim.errors import Problem, SpecError
from podsim.units import format_bytes

MOST_BYTES = 1 << 26
"""Largest result, baseline or table. [B]"""
_CHUNK_BYTES = 1 << 20
_NO_FILE = "this is not a file but a device or a pipe"


@contextmanager
def opened(path: Path) -> Iterator[BufferedReader]:
    """Open a regular file for reading; raise OSError or ValueError for everything else, without waiting for a pipe."""
    _check_kind(path.stat().st_mode)  # before it is opened, because opening may act on a device
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        _check_kind(os.fstat(file.fileno()).st_mode)
        yield file


def _check_kind(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "this is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, _NO_FILE)


def read_at_most(path: Path, most_bytes: int) -> bytes:
    """Return the content of a regular file, of a larger one the first `most_bytes` + 1 bytes.

    The size that the file system gives is a hint: files grow while they are read, and those of `/proc` have size 0.
    """
    with opened(path) as file:
        parts = [file.read(min(os.fstat(file.fileno()).st_size, most_bytes) + 1)]
        left = most_bytes + 1 - len(parts[0])
        while left and (more := file.read(min(left, _CHUNK_BYTES))):
            parts.append(more)
            left -= len(more)
    return b"".join(parts) if len(parts) > 1 else parts[0]


def content_of(
    path: Path, most_bytes: int, do: str, *, name: str = "", folder: str = "name a file in it", smaller: str = ""
) -> bytes:
    """Return the content of a file of a user; raise SpecError if it has no content that can be read.

    Args:
        path: The file.
        most_bytes: Largest size that is read. [B]
        do: Cure for what is not a regular file.
        name: Name of the file in messages, its path if left out.
        folder: Cure for a folder.
        smaller: Cure for a file that is too large, `do` if left out.
    """
    name = name or str(path)
    try:
        content = read_at_most(path, most_bytes)
    except IsADirectoryError:
        raise _problem(name, "this is a folder, not a file", folder) from None
    except (OSError, ValueError) as error:
        if getattr(error, "strerror", None) == _NO_FILE:
            raise _problem(name, _NO_FILE, do) from None
        reason = (error.strerror if isinstance(error, OSError) else None) or "the path is not valid"
        raise _problem(name, f"the file cannot be read: {reason}", "check the path and its permissions") from None
    if len(content) > most_bytes:
        raise _problem(name, f"the file has more than {format_bytes(most_bytes)}", smaller or do)
    return content


def _problem(name: str, message: str, do: str) -> SpecError:
    return SpecError([Problem(name, "", message, do)])
