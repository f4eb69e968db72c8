"""Results that were written by `podsim run --format json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, NoReturn

from podsim.comparisons.record import subject_of
from podsim.comparisons.subject import Subject
from podsim.errors import PodsimError
from podsim.report.format import format_bytes

SUFFIX: Final = ".json"
_MOST_BYTES: Final = 1 << 28
_WRITE: Final = "write one with `podsim run NAME --format json > FILE`"


def read_result(path: Path, label: str) -> Subject:
    """A result that was written to a file.

    Args:
        path: The file.
        label: What it is called in messages.

    Raises:
        PodsimError: It cannot be read, or holds no result.
    """
    data = _parsed(_text(path, label), label)
    if not isinstance(data, dict):
        raise PodsimError("this is JSON, but no result of podsim", where=label, do=_WRITE)
    name = data.get("name")
    of = f" of {name}" if isinstance(name, str) else ""
    return subject_of(data, label, f"result{of} in a file, podsim {data.get('version')}")


def _text(path: Path, label: str) -> str:
    try:
        if path.stat().st_size > _MOST_BYTES:
            what = f"this file is larger than {format_bytes(_MOST_BYTES)}, which no result is"
            raise PodsimError(what, where=label, do=_WRITE)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise PodsimError("this file is not text in UTF-8", where=label, do=_WRITE) from error
    except OSError as error:
        what = f"this file cannot be read: {error.strerror or type(error).__name__}"
        raise PodsimError(what, where=label, do="check the path and its permissions") from error


def _parsed(text: str, label: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        what = f"this is not JSON: {error}" if isinstance(error, ValueError) else "this is nested too deeply"
        raise PodsimError(what, where=label, do=_WRITE) from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")
