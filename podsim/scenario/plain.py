"""Mappings that a program gives, as the plain data that a file would hold."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.scenario.document import MAX_DEPTH, NO_TEXT, KeyPath, is_text
from podsim.scenario.wording import dotted, shown

_MOST_DIGITS = 50


def plain_data(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    """Mappings, lists and scalars, copied.

    Raises:
        SpecError: A key is not text, a value is none of them, or they are nested beyond reason.
    """
    data = _plain(mapping, ())
    assert isinstance(data, dict)
    return data


def _plain(value: Any, path: KeyPath) -> Any:
    if len(path) > MAX_DEPTH:
        raise _problem(path[:2], f"values are nested in more than {MAX_DEPTH} levels", "give a mapping of few levels")
    if isinstance(value, Mapping):
        return {_key(key, path): _plain(each, (*path, key)) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each, (*path, place)) for place, each in enumerate(value)]
    return _scalar(value, path)


def _key(key: Any, path: KeyPath) -> str:
    if isinstance(key, str) and not is_text(key):
        raise _problem(path, *NO_TEXT)
    if not isinstance(key, str) or not key:
        raise _problem(path, f"a key must be text, not {shown(key)}", 'write for example `{"data": {"dropout": 0.1}}`')
    return key


def _scalar(value: Any, path: KeyPath) -> Any:
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if isinstance(value, str) and not is_text(value):
        raise _problem(path, *NO_TEXT)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Integral):
        if abs(int(value)) >= 10**_MOST_DIGITS:
            what = f"a number of more than {_MOST_DIGITS} digits"
            raise _problem(path, what, "give a smaller one")
        return int(value)
    if isinstance(value, Real):
        if not math.isfinite(value):
            raise _problem(path, f"`{value}` is not a finite number", "give a finite one")
        return float(value)
    raise _problem(
        path, f"needs text, a number, a list or a mapping, not {type(value).__name__}", "give what a file could hold"
    )


def _problem(path: KeyPath, message: str, do: str) -> SpecError:
    return SpecError([Problem("", dotted(path) or "scenario", message, do)])
