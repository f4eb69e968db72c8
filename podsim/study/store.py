"""Rows of a study: their columns, the database that keeps them during the work, and the final table.

Intermediate rows are in an SQLite database. Each portion of rows is a transaction, so that a killed process leaves
whole rows. A damaged row is computed again. Equal rows give a table of equal bytes.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import secrets
import sqlite3
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from zlib import crc32

from podsim import escaped
from podsim._version import __version__
from podsim.errors import DoesNotFitError, NoPlanError, OutputError, PodsimError
from podsim.metrics import BYTES, FULLEST, JOULES, METRICS, PER_SECOND, SECONDS, WATTS, metric_of
from podsim.packages import optional
from podsim.result.files import check_writable, write_atomically
from podsim.user_file import MOST_BYTES, opened, read_at_most
from podsim.watch import Tell, no_progress
from podsim.workers import mapped

if TYPE_CHECKING:
    from podsim.runs import Result

POINT, SCENARIO, VARIANT, STATUS, REASON = COLUMNS = ("point", "scenario", "variant", "status", "reason")
"""First columns of every row."""
DONE, REFUSED, FAILED = "done", "refused", "failed"  # statuses of a point; `failed` is a bug of podsim
PARQUET, CSV = ".parquet", ".csv"
Row = Mapping[str, Any]
_APPLICATION, _FORMAT = 0x706F6473, 1
"""SQLite's application number, `pods` in ASCII, and the version of the tables."""
_TABLES: Final = f"""
BEGIN IMMEDIATE;
DROP TABLE IF EXISTS row;
DROP TABLE IF EXISTS about;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_FORMAT};
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE row (number INTEGER PRIMARY KEY, status TEXT NOT NULL, data TEXT NOT NULL, checksum INTEGER NOT NULL);
COMMIT;
"""
_ROWS_AT_ONCE: Final = 10_000
_SI: Final = (SECONDS, BYTES, WATTS, JOULES, PER_SECOND)
_NUMERIC: Final = re.compile(r"-?\d{1,300}(\.\d+)?(e[+-]?\d{1,3})?")
_CONSTANTS: Final = {"": None, "True": True, "False": False}
"""Values of CSV cells that are neither numbers nor texts."""
_TEXT, _REAL, _WHOLE, _FLAG = "string", "float64", "int64", "bool_"


def status_of(error: PodsimError) -> str:
    """Return the status of a point that raised an error: `does not fit`, `no plan` or `refused`."""
    if isinstance(error, DoesNotFitError):
        return "does not fit"
    return "no plan" if isinstance(error, NoPlanError) else REFUSED


def figures_of(result: Result) -> Iterator[tuple[str, float | str | None]]:
    """Yield the columns of a result with their values: metrics, the fullest memory, and warnings."""
    yield from result.figures()
    if (fullest := METRICS[FULLEST].get(result)) is not None:
        yield FULLEST, fullest
    yield "warnings", "; ".join(result.warnings) or None


# Intermediate rows


class Store:
    """Rows by number, kept as JSON with a checksum, in a SQLite file or in memory.

    A file lets an interrupted command resume. Errors of the database are raised as `OutputError`.
    """

    def __init__(
        self,
        path: Path | None = None,
        fingerprint: str = "",
        *,
        what: str = "study",
        option: str = "",
        restart: bool = False,
    ) -> None:
        """Open the rows of a file, or create them.

        Args:
            path: The file; in memory if left out.
            fingerprint: Hash of all inputs of the rows; rows with another fingerprint are refused.
            what: Kind of the rows, for error messages.
            option: What the user can do about a file that cannot be used, for error messages.
            restart: Delete existing rows.
        """
        self.path, self._what, self._option = path, what, option
        if path is not None:
            check_writable(path)
        with self._refusing():
            if restart and path is not None:
                _drop(path)
            self._connection = sqlite3.connect(path or ":memory:", timeout=0, isolation_level="IMMEDIATE")
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
        return next(self._read("SELECT 1 FROM row WHERE number = ?", number), None) is not None

    def __len__(self) -> int:
        ((count,),) = self._read("SELECT count(*) FROM row")
        return int(count)

    def __getitem__(self, number: int) -> Row:
        """Return the row with a number, which must exist."""
        ((text,),) = self._read("SELECT data FROM row WHERE number = ?", number)
        row: Row = json.loads(text)
        return row

    def rows(self) -> Iterator[Row]:
        """Return all rows in order of their numbers, read one at a time."""
        return (json.loads(text) for (text,) in self._read("SELECT data FROM row ORDER BY number"))

    def statuses(self) -> dict[str, int]:
        """Return the number of rows by status, `done` first."""
        order = "GROUP BY status ORDER BY status <> ?, status"
        return dict(self._read(f"SELECT status, count(*) FROM row {order}", DONE))

    def add(self, rows: Iterable[tuple[int, Row]]) -> None:
        """Store rows with their numbers, durably if in a file."""
        texts = [(number, row[STATUS], json.dumps(row, allow_nan=False)) for number, row in rows]
        insert = "INSERT OR REPLACE INTO row VALUES (?1, ?2, ?3, crc32(CAST(?2 || ?3 AS BLOB)))"
        with self._refusing(), self._connection:
            self._connection.executemany(insert, texts)

    def fill(self, make: Callable[[int], Row], numbers: Sequence[int], tell: Tell = no_progress, **how: Any) -> None:
        """Make and store the rows of all numbers that have none.

        Args:
            make: Returns the row of a number; picklable, as it may run in other processes.
            numbers: Numbers of the wanted rows.
            tell: Progress callback, called as `tell(done, total)`.
            how: Arguments of `podsim.workers.mapped`, such as `processes`.
        """
        left = array("q", (number for number in numbers if number not in self))
        done, total = len(numbers) - len(left), len(numbers)
        tell(done, total)
        for portion in mapped(make, left, **how):
            self.add(portion)
            done += len(portion)
            tell(done, total)

    def remove(self) -> None:
        """Close the store and delete its file."""
        self._connection.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _open(self, fingerprint: str) -> None:
        """Check that the file holds rows of these inputs, or create its tables."""
        run = self._connection.execute
        self._connection.create_function("crc32", 1, crc32, deterministic=True)
        run("PRAGMA locking_mode = EXCLUSIVE")  # one process at a time; network disks have no shared memory
        (application,), (version,) = run("PRAGMA application_id").fetchone(), run("PRAGMA user_version").fetchone()
        (count,) = run("SELECT count(*) FROM sqlite_master").fetchone()
        if count and application != _APPLICATION:
            raise self._refusal("is a database of something else")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = NORMAL")
        if count and version != _FORMAT:
            raise self._refusal(
                f"holds rows of another version of podsim, in format {version}; this one reads {_FORMAT}"
            )
        if count and dict(run("SELECT key, value FROM about")).get("fingerprint") == fingerprint:
            with self._connection:  # remove damaged rows
                run("DELETE FROM row WHERE crc32(CAST(status || data AS BLOB)) <> checksum")
            return
        if count and run("SELECT number FROM row LIMIT 1").fetchone():
            raise self._refusal(f"holds rows of another {self._what}, other inputs or another version")
        about = {"fingerprint": fingerprint, "version": __version__, "kind": self._what}
        self._connection.executescript(_TABLES)
        with self._connection:
            self._connection.executemany("INSERT INTO about VALUES (?, ?)", about.items())

    def _read(self, query: str, *values: object) -> Iterator[Any]:
        with self._refusing():
            yield from self._connection.execute(query, values)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Convert errors of SQLite into an `OutputError` that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            match getattr(error, "sqlite_errorcode", None):
                case sqlite3.SQLITE_BUSY:
                    what, do = f"another {self._what} is writing this", f"wait until it ends, or {self._option}"
                    raise OutputError(what, where=str(self.path), do=do) from None
                case sqlite3.SQLITE_CORRUPT:
                    raise self._refusal("is damaged") from None
                case sqlite3.SQLITE_NOTADB:
                    raise self._refusal("is no file of rows") from None
            do = f"make room or {self._option}; the same command goes on where this one stopped"
            raise OutputError(f"cannot be written: {error}", where=str(self.path), do=do) from error

    def _refusal(self, what: str) -> OutputError:
        return OutputError(what, where=str(self.path), do=self._option)


def _drop(path: Path) -> None:
    """Delete a file with rows, and SQLite's files next to it, unless another process uses it."""
    with closing(sqlite3.connect(path, timeout=0)) as connection:
        try:
            connection.execute("PRAGMA user_version")
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


# Final table


def check_suffix(path: Path) -> None:
    """Raise `OutputError` if the suffix is no format for tables; callers check this before a simulation."""
    if path.suffix not in (PARQUET, CSV):
        what = f"`{path.suffix}` is not a format for tables" if path.suffix else "the name of a table needs a suffix"
        raise OutputError(what, where=str(path), do=f"end the name in {PARQUET} or {CSV}")
    if path.suffix == PARQUET:
        _pyarrow()


def write_table(path: Path, rows_of: Callable[[], Iterable[Row]], about: Mapping[str, str]) -> None:
    """Write a Parquet or CSV table with all rows, or nothing if that fails.

    Args:
        path: File of the table.
        rows_of: Returns all rows; called twice.
        about: Version, fingerprint and inputs of the table: metadata of Parquet, or a JSON file next to a CSV.

    Raises:
        OutputError: The table cannot be written.
    """
    temporary = path.with_name(f".podsim-{secrets.token_hex(8)}.tmp")
    try:
        types = _types(rows_of())
        (_write_parquet if path.suffix == PARQUET else _write_csv)(temporary, types, rows_of(), about)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        if path.suffix == CSV:  # before the table, because `fingerprint_of` needs both
            description = {**about, "sha256": _sha256(temporary)}
            write_atomically(about_file(path), (json.dumps(description, indent=2) + "\n").encode())
        temporary.replace(path)
    except OSError as error:
        what = f"cannot be written: {error.strerror or type(error).__name__}"
        do = "make room; the same command writes it from the rows kept"
        raise OutputError(what, where=str(path), do=do) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def fingerprint_of(path: Path) -> str | None:
    """Return the fingerprint of a finished table; None if it has none, or the file was changed since."""
    if path.suffix == CSV:
        try:
            about = json.loads(read_at_most(about_file(path), MOST_BYTES))
            return str(about["fingerprint"]) if about["sha256"] == _sha256(path) else None
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None
    arrow, parquet = _pyarrow()
    try:
        fingerprint = (parquet.read_schema(path).metadata or {}).get(b"podsim.fingerprint")
    except (OSError, arrow.ArrowException):
        return None
    return None if fingerprint is None else fingerprint.decode(errors="replace")


def about_file(path: Path) -> Path:
    """Return the path of the file that describes the inputs of a CSV table."""
    return path.with_name(f"{path.name}.json")


def _sha256(path: Path) -> str:
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a finished table, a few at a time; an empty cell is None."""
    if path.suffix == CSV:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                yield {name: _value(text) for name, text in row.items()}
        return
    _, parquet = _pyarrow()
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE):
            yield from batch.to_pylist()


def _value(text: str) -> Any:
    """Return the value of a CSV cell."""
    if not _NUMERIC.fullmatch(text):
        return _CONSTANTS.get(text, text)
    return int(text) if text.lstrip("-").isdigit() else float(text)


def typed(rows_of: Callable[[], Iterable[Row]]) -> tuple[Row, ...]:
    """Return all rows with the column types of a table; `rows_of` is called twice."""
    types = _types(rows_of())
    return tuple(dict(zip(types, _cells(row, types), strict=True)) for row in rows_of())


def _types(rows: Iterable[Row]) -> dict[str, str]:
    """Return the Arrow type of each column, in order of first appearance."""
    types: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            types.setdefault(name, set()).add(type(value))
    return {name: _type(name, python_types - {type(None)}) for name, python_types in types.items()}


def _type(name: str, python_types: set[type]) -> str:
    """Return the Arrow type of a column with values of these Python types; without values, its name decides."""
    if not python_types:
        return _REAL if metric_of(name).unit in _SI else _TEXT
    if len(python_types) == 1:
        return {bool: _FLAG, int: _WHOLE, float: _REAL}.get(python_types.pop(), _TEXT)
    return _REAL if python_types == {int, float} else _TEXT


def _cells(row: Row, types: Mapping[str, str]) -> Iterator[Any]:
    """Yield the values of a row, converted to the types of the columns."""
    converters = {_TEXT: str, _REAL: float}
    for name, kind in types.items():
        value = row.get(name)
        yield value if value is None or kind not in converters else converters[kind](value)


def _write_csv(path: Path, types: Mapping[str, str], rows: Iterable[Row], _: Mapping[str, str]) -> None:
    with path.open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(map(escaped.csv, types))
        for row in rows:
            writer.writerow([escaped.csv(cell) if isinstance(cell, str) else cell for cell in _cells(row, types)])


def _write_parquet(path: Path, types: Mapping[str, str], rows: Iterable[Row], about: Mapping[str, str]) -> None:
    arrow, parquet = _pyarrow()
    fields = []
    for name, kind in types.items():
        unit = metric_of(name).unit if kind in (_REAL, _WHOLE) else ""
        fields.append(arrow.field(name, getattr(arrow, kind)(), metadata={"unit": unit} if unit in _SI else None))
    schema = arrow.schema(fields, metadata={f"podsim.{key}": value for key, value in about.items()})
    left = iter(rows)
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := [dict(zip(types, _cells(row, types), strict=True)) for row in islice(left, _ROWS_AT_ONCE)]:
            writer.write_table(arrow.Table.from_pylist(batch, schema=schema))


def _pyarrow() -> tuple[Any, Any]:
    arrow = optional("pyarrow", "Parquet needs", or_else="give a name that ends in .csv")
    from pyarrow import parquet

    return arrow, parquet
