"""From pydantic's findings to problems that name the place, the key and the cure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from podsim.errors import Problem
from podsim.specs.yaml_source import Document, KeyPath

_NEEDS = {
    "int_type": "needs a whole number",
    "int_from_float": "needs a whole number",
    "float_type": "needs a number",
    "float_parsing": "needs a number",
    "string_type": "needs text",
    "bool_type": "needs true or false",
    "list_type": "needs a list",
    "dict_type": "needs a mapping",
    "model_type": "needs a mapping of keys to values",
    "model_attributes_type": "needs a mapping of keys to values",
    "finite_number": "must be finite",
}
_BOUNDS = {
    "greater_than": ("gt", "must be above {}"),
    "greater_than_equal": ("ge", "must be {} or more"),
    "less_than": ("lt", "must be below {}"),
    "less_than_equal": ("le", "must be at most {}"),
    "too_short": ("min_length", "needs {} entries or more"),
    "too_long": ("max_length", "needs {} entries or fewer"),
}
_SHOWN_LENGTH = 40


def problems_of(error: ValidationError, document: Document, model: type[BaseModel]) -> Iterator[Problem]:
    """One problem per finding, in the order of the file."""
    for finding in error.errors(include_url=False):
        path = _path_in(document.data, finding["loc"])
        yield _problem(finding, path, document, model)


def _path_in(data: Any, location: tuple[int | str, ...]) -> KeyPath:
    """The part of pydantic's location that names keys and items of the data."""
    path: list[int | str] = []
    for part in location:
        items = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(items, dict) and part in items:
            data = items[part]
        elif part != location[-1]:
            continue
        path.append(part)
    return tuple(path)


def _problem(finding: Any, path: KeyPath, document: Document, model: type[BaseModel]) -> Problem:
    kind, given = finding["type"], finding["input"]
    dotted = ".".join(map(str, path))
    if kind == "extra_forbidden":
        return _unknown_key(path, document, model)
    if kind == "missing":
        parent = ".".join(map(str, path[:-1]))
        return Problem(document.where(path[:-1]), parent, f"key `{path[-1]}` is missing", f"add `{path[-1]}:`")
    shown = repr(given) if isinstance(given, str) else str(given)
    shown = shown if len(shown) <= _SHOWN_LENGTH else shown[:_SHOWN_LENGTH] + "…"
    if kind == "value_error":
        return Problem(document.where(path), dotted, str(finding["ctx"]["error"]))
    if kind == "literal_error":
        known = finding["ctx"]["expected"].replace("'", "`")
        close = difflib.get_close_matches(str(given), [part.strip("`, ") for part in known.split("`")], n=1)
        hint = f"did you mean `{close[0]}`? " if close else ""
        return Problem(document.where(path), dotted, f"{shown} is not one of {known}", f"{hint}write {known}")
    if kind in _BOUNDS:
        name, text = _BOUNDS[kind]
        return Problem(document.where(path), dotted, f"{text.format(finding['ctx'][name])}, not {shown}")
    return Problem(document.where(path), dotted, f"{_NEEDS.get(kind, finding['msg'])}, not {shown}")


def _unknown_key(path: KeyPath, document: Document, model: type[BaseModel]) -> Problem:
    key, parent = str(path[-1]), ".".join(map(str, path[:-1]))
    known = _keys(_model_at(model, path[:-1]))
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"did you mean `{close[0]}`? " if close else ""
    return Problem(document.where(path), parent, f"unknown key `{key}`", f"{hint}known here: {', '.join(known)}")


def _keys(model: type[BaseModel] | None) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _model_at(model: type[BaseModel] | None, path: KeyPath) -> type[BaseModel] | None:
    for part in path:
        if model is None or isinstance(part, int):
            continue
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        model = _model_in(fields[part].annotation) if part in fields else None
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first model named in an annotation, through unions and lists."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if found := _model_in(argument):
            return found
    return None
