"""The table of a study as a file: Parquet or CSV, the same bytes for the same rows."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

from podsim import harmless
from podsim.errors import OutputError, PodsimError
from podsim.metrics import BYTES, JOULES, PER_SECOND, SECONDS, WATTS, metric_of
from podsim.result.files import write_atomically
from podsim.study.store import Row

PARQUET, CSV = ".parquet", ".csv"
_ROWS_AT_ONCE: Final = 10_000
_SI: Final = (SECONDS, BYTES, WATTS, JOULES, PER_SECOND)
_NUMERIC: Final = re.compile(r"-?\d{1,300}(\.\d+)?(e[+-]?\d{1,3})?")
_KNOWN: Final = {"": None, "True": True, "False": False}
_TEXT, _REAL, _WHOLE, _FLAG = "string", "float64", "int64", "bool_"


def check_suffix(path: Path) -> None:
    """Refuse a table that cannot be written, before the work.

    Raises:
        OutputError: Its suffix is none of those that are known.
        PodsimError: Parquet is asked for, and pyarrow is not installed.
    """
    if path.suffix not in (PARQUET, CSV):
        what = f"`{path.suffix}` is not a format for tables" if path.suffix else "the name of a table needs a suffix"
        raise OutputError(what, where=str(path), do=f"end the name in {PARQUET} or {CSV}")
    if path.suffix == PARQUET:
        _pyarrow()


def unit_of(column: str) -> str | None:
    """The SI unit of a column of figures; None of those without one.

    >>> unit_of("weight_update_s"), unit_of("breakdown.matmul"), unit_of("mfu")
    ('s', 's', None)
    """
    unit = metric_of(column).unit
    return unit if unit in _SI else None


def write_table(path: Path, rows_of: Callable[[], Iterable[Row]], about: Mapping[str, str]) -> None:
    """Write all rows, whole or not at all.

    Args:
        path: A `.parquet` or `.csv` file, which is replaced.
        rows_of: Gives the rows, each time it is called.
        about: What the table stands on, kept in its metadata; beside a CSV, which has none.

    Raises:
        OutputError: It cannot be written.
    """
    temporary = path.with_name(f".podsim-{secrets.token_hex(8)}.tmp")
    try:
        types = _types(rows_of())
        if path.suffix == PARQUET:
            _write_parquet(temporary, types, rows_of(), about)
        else:
            _write_csv(temporary, types, rows_of())
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        if path.suffix == CSV:  # before the table, which is not known without it
            known = {**about, "sha256": _sha256(temporary)}
            write_atomically(about_file(path), (json.dumps(known, indent=2) + "\n").encode())
        temporary.replace(path)
    except OSError as error:
        what = f"cannot be written: {error.strerror or type(error).__name__}"
        do = "make room; the same command writes it from the rows kept"
        raise OutputError(what, where=str(path), do=do) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def fingerprint_of(path: Path) -> str | None:
    """Of what a finished table holds; None of one that does not say it, or that was changed."""
    if path.suffix == CSV:
        try:
            about = json.loads(about_file(path).read_bytes())
            return str(about["fingerprint"]) if about["sha256"] == _sha256(path) else None
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None
    arrow, parquet = _pyarrow()
    try:
        metadata = parquet.read_schema(path).metadata or {}
    except (OSError, arrow.ArrowException):
        return None
    found: bytes | None = metadata.get(b"podsim.fingerprint")
    return None if found is None else found.decode(errors="replace")


def about_file(path: Path) -> Path:
    """Where it is written what a CSV table stands on."""
    return path.with_name(f"{path.name}.json")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_rows(path: Path) -> Iterator[Row]:
    """The rows of a finished table, a few of them in memory at a time; nothing is None."""
    if path.suffix == CSV:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                yield {name: _read(text) for name, text in row.items()}
        return
    _, parquet = _pyarrow()
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(_ROWS_AT_ONCE):
            yield from batch.to_pylist()


def _read(text: str) -> Any:
    """A cell of a CSV table."""
    if not _NUMERIC.fullmatch(text):
        return _KNOWN.get(text, text)
    return int(text) if text.lstrip("-").isdigit() else float(text)


def typed(rows_of: Callable[[], Iterable[Row]]) -> tuple[Row, ...]:
    """All rows as a table would hold them, in memory; `rows_of` gives them, each time it is called."""
    types = _types(rows_of())
    return tuple({name: _cell(row.get(name), kind) for name, kind in types.items()} for row in rows_of())


def _types(rows: Iterable[Row]) -> dict[str, str]:
    """The type of each column that holds anything, in the order in which they first appear."""
    found: dict[str, set[type]] = {}
    for row in rows:
        for name, value in row.items():
            found.setdefault(name, set()).add(type(value))
    return {name: _type(name, kinds - {type(None)}) for name, kinds in found.items()}


def _type(name: str, kinds: set[type]) -> str:
    if not kinds:
        return _REAL if unit_of(name) else _TEXT
    if len(kinds) == 1:
        return {bool: _FLAG, int: _WHOLE, float: _REAL}.get(kinds.pop(), _TEXT)
    return _REAL if kinds == {int, float} else _TEXT


def _cell(value: Any, kind: str) -> Any:
    if value is None:
        return None
    return str(value) if kind == _TEXT else float(value) if kind == _REAL else value


def _write_csv(path: Path, types: Mapping[str, str], rows: Iterable[Row]) -> None:
    with path.open("x", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(map(harmless.csv, types))
        for row in rows:
            cells = (_cell(row.get(name), kind) for name, kind in types.items())
            writer.writerow([harmless.csv(each) if isinstance(each, str) else each for each in cells])


def _write_parquet(path: Path, types: Mapping[str, str], rows: Iterable[Row], about: Mapping[str, str]) -> None:
    arrow, parquet = _pyarrow()
    units = {name: unit_of(name) for name, kind in types.items() if kind in (_REAL, _WHOLE)}
    fields = [
        arrow.field(name, getattr(arrow, kind)(), metadata={"unit": unit} if (unit := units.get(name)) else None)
        for name, kind in types.items()
    ]
    schema = arrow.schema(fields, metadata={f"podsim.{key}": value for key, value in about.items()})
    left = iter(rows)
    with parquet.ParquetWriter(path, schema) as writer:
        while batch := list(islice(left, _ROWS_AT_ONCE)):
            columns = {name: [_cell(row.get(name), kind) for row in batch] for name, kind in types.items()}
            writer.write_table(arrow.table(columns, schema=schema))


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        do = "pip install 'podsim[sweep]', or give a name that ends in .csv"
        raise PodsimError("Parquet needs pyarrow, which is not installed", do=do) from error
    return pa, parquet
