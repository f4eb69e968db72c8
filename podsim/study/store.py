"""Rows in a file: what a sweep, a plan or a check has found so far, whatever ends it.

The file is a database of SQLite. Its table `row` holds a point each: its number, what became of it, and its values as
JSON; its table `about` says to which study, inputs and version of podsim they belong. Each portion of rows is a
transaction, so that a process that is killed leaves whole rows and the same command goes on from them. A row has a
checksum, and one that was damaged is made again.
"""

from __future__ import annotations

import json
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self
from zlib import crc32

from podsim._version import __version__
from podsim.errors import OutputError
from podsim.result.files import check_writable
from podsim.watch import Tell, untold
from podsim.workers import mapped

STATUS: Final = "status"
Row = Mapping[str, Any]
_APPLICATION, _FORMAT = 0x706F6473, 1
"""`pods` in ASCII, by which SQLite knows whose file it is; and the version of the tables."""
_OLDER: Final = b'{"fingerprint": "'
"""How such files of older versions began, which were no databases."""
_TABLES: Final = f"""
DROP TABLE IF EXISTS row;
DROP TABLE IF EXISTS about;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_FORMAT};
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE row (number INTEGER PRIMARY KEY, status TEXT NOT NULL, data TEXT NOT NULL, checksum INTEGER NOT NULL);
"""


class Store:
    """Rows by the number of what they are about."""

    def __init__(
        self,
        path: Path | None = None,
        fingerprint: str = "",
        *,
        what: str = "study",
        option: str = "",
        anew: bool = False,
    ) -> None:
        """Open the rows of a study, or begin them.

        Args:
            path: The file; None keeps rows in memory alone.
            fingerprint: Hash of all that rows depend on.
            what: What they are rows of, for messages.
            option: The options of the command line that name another file or begin anew, for messages.
            anew: Drop rows that it holds.

        Raises:
            OutputError: It cannot be written, is damaged, belongs to something else or an older version, or another
                process is at it.
        """
        self.path, self._what, self._option = path, what, option
        if path is not None:
            check_writable(path)
        with self._told():
            if anew and path is not None:
                _drop(path)
            self._connection = sqlite3.connect(path or ":memory:", timeout=0, isolation_level=None)
            try:
                self._open(fingerprint)
            except BaseException:
                self._connection.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and 0 <= number < len(self._known) and bool(self._known[number])

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Row:
        """The row of a number that is known."""
        with self._told():
            (text,) = self._connection.execute("SELECT data FROM row WHERE number = ?", (number,)).fetchone()
        row: Row = json.loads(text)
        return row

    def rows(self) -> Iterator[Row]:
        """All rows by their numbers, read one by one."""
        with self._told():
            for (text,) in self._connection.execute("SELECT data FROM row ORDER BY number"):
                yield json.loads(text)

    def statuses(self) -> dict[str, int]:
        """How many rows there are of each status."""
        with self._told():
            return dict(self._connection.execute("SELECT status, count(*) FROM row GROUP BY status ORDER BY status"))

    def add(self, rows: Iterable[tuple[int, Row]]) -> None:
        """Keep rows with their numbers; they outlive this process when this returns.

        Raises:
            OutputError: They cannot be written, as on a full disk; what was written before stays.
        """
        texts = [(number, row[STATUS], json.dumps(row, allow_nan=False)) for number, row in rows]
        with self._told(), self._transaction():
            self._connection.executemany(
                "INSERT OR REPLACE INTO row VALUES (?, ?, ?, ?)",
                ((number, status, text, crc32(text.encode())) for number, status, text in texts),
            )
        for number, *_ in texts:
            self._know(number)

    def fill(
        self,
        make: Callable[[int], Row],
        numbers: Sequence[int],
        tell: Tell = untold,
        *,
        processes: int | None = None,
        scheduler: str | None = None,
        few: int = 2,
        lead: int = 0,
    ) -> None:
        """Make the rows that are missing, and keep them as they come.

        Args:
            make: Makes the row of a number; a function that processes can be sent.
            numbers: All that are wanted.
            tell: Is told of progress.
            processes: How many rows are made at a time; as many as there are cores by default.
            scheduler: Address of a Dask scheduler, to make them on its workers.
            few: So many rows are worth the start of processes.
            lead: So many are made before they start.

        Raises:
            PodsimError: They cannot be written, or as of `mapped`.
        """
        left = array("q", (number for number in numbers if number not in self))
        done, total = len(numbers) - len(left), len(numbers)
        tell(done, total)
        for portion in mapped(make, left, processes=processes, scheduler=scheduler, few=few, lead=lead):
            self.add(portion)
            done += len(portion)
            tell(done, total)

    def remove(self) -> None:
        """Delete the file, once its rows are kept elsewhere."""
        self._connection.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _open(self, fingerprint: str) -> None:
        self._known, self._count = bytearray(), 0
        run = self._connection.execute
        run("PRAGMA locking_mode = EXCLUSIVE")  # one process at a time, and no shared memory, which network disks lack
        (application,), (form,) = run("PRAGMA application_id").fetchone(), run("PRAGMA user_version").fetchone()
        (count,) = run("SELECT count(*) FROM sqlite_master").fetchone()
        if count and application != _APPLICATION:
            raise self._refusal("is a database of something else")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        if count and form != _FORMAT:
            raise self._refusal(f"holds rows of another version of podsim, in format {form}; this one reads {_FORMAT}")
        if count:
            if dict(run("SELECT key, value FROM about")).get("fingerprint") == fingerprint:
                self._learn()
                return
            if run("SELECT number FROM row LIMIT 1").fetchone():
                raise self._refusal(f"holds rows of another {self._what}, other inputs or another version")
        about = {"fingerprint": fingerprint, "version": __version__, "kind": self._what}
        with self._transaction():
            for statement in _TABLES.split(";"):
                run(statement)
            self._connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())

    def _learn(self) -> None:
        """Take account of the rows that are there; those that were damaged go."""
        damaged = []
        for number, status, text, checksum in self._connection.execute("SELECT * FROM row"):
            if crc32(str(text).encode()) == checksum and json.loads(text).get(STATUS) == status:
                self._know(number)
            else:
                damaged.append((number,))
        with self._transaction():
            self._connection.executemany("DELETE FROM row WHERE number = ?", damaged)

    def _know(self, number: int) -> None:
        self._known.extend(bytes(max(0, number + 1 - len(self._known))))
        self._count += not self._known[number]
        self._known[number] = True

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @contextmanager
    def _told(self) -> Iterator[None]:
        """What SQLite finds wrong, with what to do."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_BUSY:
                what, do = f"another {self._what} is writing this", f"wait until it ends, or {self._option}"
                raise OutputError(what, where=str(self.path), do=do) from None
            if code == sqlite3.SQLITE_CORRUPT:
                raise self._refusal("is damaged") from None
            if code == sqlite3.SQLITE_NOTADB:
                assert self.path is not None
                with self.path.open("rb") as file:
                    is_older = file.read(len(_OLDER)) == _OLDER
                older = "holds rows of an older version of podsim, which this one cannot go on from"
                raise self._refusal(older if is_older else "is no file of rows") from None
            do = f"make room or {self._option}; the same command goes on where this one stopped"
            raise OutputError(f"cannot be written: {error}", where=str(self.path), do=do) from error

    def _refusal(self, what: str) -> OutputError:
        return OutputError(what, where=str(self.path), do=self._option)


def _drop(path: Path) -> None:
    """Delete a file, whatever it holds, unless another process is at it."""
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("PRAGMA user_version")
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
