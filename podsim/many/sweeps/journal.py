"""What a study has found so far: a file that grows by a line with every point, and outlives whatever ends the study.

The first line says which study it is, by a fingerprint; each other line is a row and its checksum. A line that was cut
off, when the process was killed or the disk was full, is dropped when the study goes on, and so is what follows a line
that was damaged. A lock keeps a second study from the same file; the system lifts it
when the process ends, however it ends.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NoReturn, Self
from zlib import crc32

from podsim.errors import OutputError
from podsim.many.sweeps.names import POINT
from podsim.many.sweeps.rows import Row
from podsim.many.sweeps.spec import MOST_POINTS
from podsim.result.files import check_writable

_FINGERPRINT: Final = "fingerprint"
_HEAD: Final = b'{"fingerprint": "'
_NONE: Final = -1
_SUM: Final = b"\t%08x"
_SUM_BYTES: Final = len(_SUM % 0)


class Journal:
    """Rows by the number of their point, on disk."""

    def __init__(self, path: Path, fingerprint: str, *, anew: bool = False) -> None:
        """Open the journal of a study, or begin it.

        Args:
            path: The file.
            fingerprint: Of all that rows depend on.
            anew: Drop rows that it holds.

        Raises:
            OutputError: It cannot be written, belongs to another study, or another process is at it.
        """
        self.path = path
        check_writable(path)
        try:
            self._file: IO[bytes] = path.open("a+b")
        except OSError as error:
            raise self._refused(error) from error
        self._lock()
        if anew:
            self._file.truncate(0)
        self._count = 0
        self._places = array("q")
        """Where the row of each point begins, by its number; eight bytes for each."""
        self._read(fingerprint)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __contains__(self, point: object) -> bool:
        return isinstance(point, int) and 0 <= point < len(self._places) and self._places[point] != _NONE

    def __len__(self) -> int:
        return self._count

    def add(self, row: Row) -> None:
        """Keep a row; it is in the hands of the system when this returns.

        Raises:
            OutputError: It cannot be written, as on a full disk; what was written before stays.
        """
        if row[POINT] in self:
            return
        place = self._file.seek(0, os.SEEK_END)
        try:
            self._write(row)
        except OSError as error:
            with suppress(OSError):
                self._file.truncate(place)
            raise self._refused(error) from error
        self._keep(row[POINT], place)

    def rows(self) -> Iterator[Row]:
        """All rows in the order of their points, read one by one."""
        for place in self._places:
            if place == _NONE:
                continue
            self._file.seek(place)
            yield _row(self._file.readline())

    def remove(self) -> None:
        """Delete the file, once its rows are kept elsewhere."""
        self.path.unlink(missing_ok=True)

    def _write(self, data: Any, *, summed: bool = True) -> None:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
        self._file.write(text + (_SUM % crc32(text) if summed else b"") + b"\n")
        self._file.flush()

    def _keep(self, point: int, place: int) -> None:
        self._places.extend([_NONE] * (point + 1 - len(self._places)))
        self._count += self._places[point] == _NONE
        self._places[point] = place

    def _read(self, fingerprint: str) -> None:
        self._file.seek(0)
        first = self._file.readline()
        end = 0
        if first.endswith(b"\n") and _content(first).get(_FINGERPRINT) == fingerprint:
            end = len(first)
            for line in self._file:
                point = _row(line).get(POINT)
                if type(point) is not int or not 0 <= point < MOST_POINTS:
                    break
                self._keep(point, end)
                end += len(line)
        elif self._file.readline() or not first.startswith(_HEAD[: len(first)]):
            self._file.close()
            what = "holds rows of another study, other inputs or another version, or is no journal"
            raise OutputError(what, where=str(self.path), do="give another --output, or --restart")
        self._file.truncate(end)
        if not end:
            self._write({_FINGERPRINT: fingerprint}, summed=False)

    def _lock(self) -> None:
        try:
            _lock(self._file)
        except OSError:
            self._file.close()
            what, do = "another study is writing this", "wait until it ends, or give another --output"
            raise OutputError(what, where=str(self.path), do=do) from None

    def _refused(self, error: OSError) -> OutputError:
        what = f"cannot be written: {error.strerror or type(error).__name__}"
        do = "make room or give another --output; the same command goes on where this one stopped"
        return OutputError(what, where=str(self.path), do=do)


def _content(line: bytes) -> dict[str, Any]:
    """What a line holds; nothing if it was damaged."""
    try:
        data = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _row(line: bytes) -> Row:
    """The row that a whole line holds; nothing if its checksum is another."""
    text, end = line[: -_SUM_BYTES - 1], line[-_SUM_BYTES - 1 :]
    return _content(text) if end == _SUM % crc32(text) + b"\n" else {}


def _no_number(constant: str) -> NoReturn:
    raise ValueError(constant)


if os.name == "nt":
    import msvcrt

    def _lock(file: IO[bytes]) -> None:
        file.seek(1 << 60)  # far behind the last byte, which stays readable
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]

else:
    import fcntl

    def _lock(file: IO[bytes]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
