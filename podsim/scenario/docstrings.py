"""Descriptions of keys: the docstrings below fields, read from the source on first use.

pydantic can do the same, but for every model at import, which costs a tenth of a whole run.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from pydantic import BaseModel


@lru_cache
def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Return the description of each field of a model, inherited fields included."""
    docs: dict[str, str] = {}
    for kind in reversed(model.__mro__):
        docs |= _docs_of_module(kind.__module__).get(kind.__name__, {}) if issubclass(kind, BaseModel) else {}
    return docs


@lru_cache
def _docs_of_module(module: str) -> dict[str, dict[str, str]]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {node.name: dict(_docs_of_class(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs_of_class(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(node.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            value = text.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield field.target.id, inspect.cleandoc(value.value)
