"""Disk cache; `PODSIM_CACHE` names another folder, or is `off`.

An entry is a file with a checksum, written atomically and named by a hash of all inputs of its value. A damaged entry
is computed again. A folder that cannot be written is not an error.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

from podsim._version import __version__
from podsim.errors import PodsimError

_Value = TypeVar("_Value")
SWITCH = "PODSIM_CACHE"
_MOST_BYTES = 1 << 26
"""Size above which no entry is read."""
_PLAIN: dict[Any, tuple[type, ...]] = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
_MOST_PER_FOLDER = 64
"""Entries of one of the 256 folders beyond which the older half is removed."""


def folder() -> Path | None:
    """Return podsim's cache folder; None if it is switched off or the user has none."""
    wish, given = os.environ.get(SWITCH, ""), Path(os.environ.get("XDG_CACHE_HOME", ""))
    if wish and (wish == "off" or Path(wish).is_absolute()):
        return None if wish == "off" else Path(wish)
    if wish:
        do = f"use {SWITCH}=off, the whole path of a folder, or leave it out"
        raise PodsimError(f"`{wish}` is neither off nor a whole path", where=SWITCH, do=do)
    try:
        return (given if given.is_absolute() else _platform_folder()) / "podsim"
    except RuntimeError:  # there is no home folder
        return None


def _platform_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ".cache"


def digest(parts: Iterable[bytes]) -> str:
    """Return a hash of a sequence of byte strings, which depends on their boundaries."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d:" % len(part))
        whole.update(part)
    return whole.hexdigest()


def source(files: Iterable[Path]) -> bytes:
    """Return a hash of source files, so that cached results expire when the code changes."""
    contents = (path.read_bytes() if path.is_file() else b"" for path in sorted(files))
    return digest([__version__.encode(), *contents]).encode()


def simulator() -> str:
    """Return a hash of podsim's own code."""
    return source(Path(__file__).resolve().parent.rglob("*.py")).decode()


def library(name: str) -> Path:
    """Return the first file of a library, without importing it."""
    found = importlib.util.find_spec(name)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin)


def cached(
    key: str, make: Callable[[], _Value], write: Callable[[_Value], Any], read: Callable[[Any], _Value]
) -> _Value:
    """Return a value from the disk cache, or make and store it."""
    root = folder()
    if root is None:
        return make()
    path = root / key[:2] / f"{key[2:]}.json"
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, ArithmeticError):
        return read(_load(path))  # raises if it is missing or damaged
    value = make()
    _save(path, json.dumps(write(value)).encode())
    return value


def typed(value: _Value) -> _Value:
    """Return a dataclass read from disk; raise `TypeError` if a plain field has another type than declared."""
    for field in fields(value):  # type: ignore[arg-type]
        held = getattr(value, field.name)
        if is_dataclass(held):
            typed(held)
        elif field.type in _PLAIN and type(held) not in _PLAIN[field.type]:
            raise TypeError(field.name)
    return value


def _load(path: Path) -> Any:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(path)
    checksum, _, content = path.read_bytes().partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode() != checksum:
        raise ValueError(path)
    return json.loads(content)


def _save(path: Path, content: bytes) -> None:
    import tempfile

    with suppress(OSError):  # a folder that cannot be written, or a full disk
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _make_room(path.parent)


def _make_room(place: Path) -> None:
    """Remove the older half of a folder that is full; whatever else removes them meanwhile is welcome to."""
    files = list(place.iterdir())
    if len(files) > _MOST_PER_FOLDER:
        for path in sorted(files, key=lambda each: each.stat().st_mtime)[: len(files) // 2]:
            path.unlink(missing_ok=True)
