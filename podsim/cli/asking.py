"""Commands from functions: a parameter of a public function, with its type, default and docstring, is an option.

What a shell cannot say, such as a function that watches, is left to Python. Where an option has another name than the
parameter, or more than its type says, `_SHELL` says so.
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from podsim.cli import completion

Ask = partial[Any]
"""A function with what was asked for; takes further parameters when it is called."""


@dataclass(frozen=True, slots=True)
class _Option:
    """What a shell says otherwise than Python; `names` is empty for an argument, None for the name of the parameter."""

    names: tuple[str, ...] | None = None
    metavar: str | None = None
    least: int | None = None
    completes: Callable[..., list[str]] | None = None


_SHELL = {
    "scenario": _Option((), completes=completion.scenarios),
    "shape": _Option(()),
    "variant": _Option(completes=completion.variants),
    "overrides": _Option(("--set",), "KEY=VALUE"),
    "uncertainty": _Option(metavar="N"),
    "noise": _Option(metavar="N"),
    "loads": _Option(("--load",)),
    "users": _Option(least=1),
    "think": _Option(metavar="TIME"),
    "in_channels": _Option(("--in",)),
    "out_channels": _Option(("--out",)),
    "byte_count": _Option(("--bytes",)),
    "source": _Option(("--from",)),
    "target": _Option(("--to",)),
    "load_bytes": _Option(("--load",)),
    "memory": _Option(("--memory", "--available-memory")),
    "loop_supersteps": _Option(least=0),
    "ipu": _Option(completes=completion.chips),
    "system": _Option(completes=completion.systems),
}
_PYTHON_ALONE = ("record", "name")
_FOR_PYTHON = re.compile(r"[;,] in Python[^.;]*| \[[^\]]+\]$")
_DESCRIBED = re.compile(r"^    (\w+): (.+?)(?=^    \w|\Z)", re.MULTILINE | re.DOTALL)


def asks(function: Callable[..., Any], **fixed: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the parameters of a function as options, and its docstring where it has none.

    The command takes the function with what was asked as its first parameter, and options of its own.

    Args:
        function: What answers.
        fixed: What is always asked.
    """
    helps, known = _described(function), _Lenient(vars(builtins) | vars(sys.modules[function.__module__]))
    asked = [
        made
        for each in inspect.signature(function).parameters.values()
        if each.name not in (*_PYTHON_ALONE, *fixed) and (made := _option(each, known, helps.get(each.name, "")))
    ]

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        _, *own = inspect.signature(command, eval_str=True).parameters.values()

        def called(**given: Any) -> None:
            mine = {each.name: given.pop(each.name) for each in own}
            words = {key: _word(value) for key, value in given.items() if value is not None and value != []}
            command(partial(function, **fixed, **words), **mine)

        parameters = [*asked, *(each.replace(kind=each.KEYWORD_ONLY) for each in own)]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        called.__name__ = command.__name__
        called.__doc__ = command.__doc__ or (function.__doc__ or "").partition("\n")[0]
        return called

    return decorate


class _Unknown:
    """A type that only type checkers import; a shell cannot write it."""

    def __class_getitem__(cls, _: object) -> type[_Unknown]:
        return cls


class _Lenient(dict[str, Any]):
    """Names of a module."""

    def __missing__(self, name: str) -> type[_Unknown]:
        return _Unknown


def _described(function: Callable[..., Any]) -> dict[str, str]:
    """What a docstring says of each parameter, without what it says for Python alone."""
    arguments = (inspect.getdoc(function) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    return {name: _FOR_PYTHON.sub("", " ".join(said.split())) for name, said in _DESCRIBED.findall(arguments)}


def _option(parameter: inspect.Parameter, known: _Lenient, said: str) -> inspect.Parameter | None:
    """A parameter as Typer takes it; None if a shell cannot say it."""
    kind = parameter.annotation
    while isinstance(kind, str):
        kind = eval(kind, {}, known)
    is_optional = NoneType in get_args(kind)
    if (kind := _shell_kind(kind, parameter.name)) is None:
        return None
    shell = _SHELL.get(parameter.name, _Option())
    default = parameter.default
    if get_origin(kind) is list:
        default, is_optional = None, True
        said = f"{said.removesuffix('.')}; repeat for more."
    elif default not in (None, parameter.empty) and issubclass(kind, StrEnum):
        default = kind[default]
    elif default not in (None, parameter.empty):
        default = kind(default)
    names = ("--" + parameter.name.replace("_", "-"),) if shell.names is None else shell.names
    made = (
        typer.Option(*names, metavar=shell.metavar, min=shell.least, help=said, autocompletion=shell.completes)
        if names
        else typer.Argument(help=said, autocompletion=shell.completes)
    )
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind | None if is_optional else kind, made],
    )


def _shell_kind(kind: Any, name: str) -> Any:
    """The type of an option: text if a parameter takes text, else the first of its types that a shell can write."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if str in kinds:
        return str
    for each in kinds:
        if get_origin(each) is Literal:
            return StrEnum(name, {word: word.replace("_", "-") for word in get_args(each)})
        if get_origin(each) is Sequence:
            return list[get_args(each)]  # type: ignore[misc]
        if each in (bool, int, float, Path):
            return each
    return None


def _word(value: Any) -> Any:
    """A value as Python writes it."""
    return value.name if isinstance(value, StrEnum) else value
