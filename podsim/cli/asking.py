"""Commands from functions: a parameter of a public function, with its type, default and docstring, is an option.

`podsim.options.Shell`, in the `Annotated` type of a parameter, says how a shell writes it. A function is imported when
its command is asked for, so that other commands do not wait for it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import typer
import typer.main
from typer.core import TyperCommand
from typer.models import CommandInfo

from podsim.cli.outputs import check_paths
from podsim.errors import PodsimError
from podsim.options import Shell

Ask = partial[Any]
"""A function with the requested arguments; takes further parameters when it is called."""

_UNIT: Final = re.compile(r" \[[^\]]+\]$")
_DESCRIBED: Final = re.compile(r"^    (\w+): (.+?)(?=^    \w|\Z)", re.MULTILINE | re.DOTALL)


class LazyCommand:
    """Command of the command line whose options are made when it is asked for."""

    def __init__(self, command: Callable[..., None], place: str, said: str, fixed: Mapping[str, Any]) -> None:
        self._command, self._said, self._fixed = command, said, fixed
        self._home, _, self._name = place.rpartition(".")

    def register(self, app: typer.Typer, name: str, **settings: Any) -> None:
        """Add the command to an application."""
        app.command(name, cls=partial(_Registered, lazy=self), **settings)(_without_options)  # type: ignore[arg-type]

    @cached_property
    def function(self) -> Callable[..., Any] | None:
        """Public function whose parameters are options, if there is one."""
        return getattr(import_module(self._home), self._name) if self._name else None

    @property
    def summary(self) -> str:
        """Docstring of the command without its arguments, or that of the function if the command has none."""
        return self._said or _summary(self._command) or (_summary(self.function) if self.function else "")

    @cached_property
    def parser_command(self) -> Any:
        """Command with all options."""
        function = self.function
        theirs = {} if function is None else dict(_options(function, self._fixed))
        own = dict(_options(self._command, ("ask",)))

        def called(**given: Any) -> None:
            words = {key: _word(value) for key, value in given.items() if value is not None and value != []}
            mine = {key: words.pop(key) for key in own if key in words}
            check_paths(mine)
            if function is None:
                return self._command(**mine)
            listed = words.pop(next(iter(theirs)), ()) if _takes_any(function) else ()
            return self._command(partial(function, *listed, **self._fixed, **words), **mine)

        parameters = {**theirs, **own}
        called.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
        called.__annotations__ = {key: parameter.annotation for key, parameter in parameters.items()}
        settings: dict[str, Any] = {"pretty_exceptions_short": False, "rich_markup_mode": None}
        return typer.main.get_command_from_info(CommandInfo(self._command.__name__, callback=called), **settings)


def asks(place: str = "", said: str = "", **fixed: Any) -> Callable[[Callable[..., None]], LazyCommand]:
    """Make a command of a function of the command line, whose parameters are options.

    Args:
        place: A public function, `module.name`, whose parameters are options as well. The command takes it with the
            requested arguments as its first parameter, and has its docstring if it has none itself.
        said: Help instead of a docstring.
        fixed: Arguments that the function always has.
    """
    return lambda command: LazyCommand(command, place, said, fixed)


class _Registered(TyperCommand):
    """Command of a parser that takes options, callback and help from a lazy command."""

    def __init__(self, *args: Any, lazy: LazyCommand, **settings: Any) -> None:
        self._lazy = lazy
        super().__init__(*args, **settings)

    def __getattribute__(self, name: str) -> Any:
        """Return the options and the callback of the made command, and the help without making it."""
        if name == "help":
            return self._lazy.summary
        return (
            getattr(self._lazy.parser_command, name)
            if name in ("params", "callback")
            else super().__getattribute__(name)
        )


def _without_options() -> None:
    """Stand for the callback of a command until its options are made."""


class _Unknown:
    """A type that only the simulation knows; a shell cannot write it."""

    def __class_getitem__(cls, _: object) -> type[_Unknown]:
        return cls


class _Choice(StrEnum):
    """Words of a shell, each by that of Python."""


class _Known(dict[str, Any]):
    """Names that annotations of a module use; a name imported for type checkers alone stands for an unknown type."""

    def __missing__(self, name: str) -> Any:
        builtins = self["__builtins__"]
        known: Mapping[str, Any] = builtins if isinstance(builtins, dict) else vars(builtins)
        return known.get(name, _Unknown)


def _summary(function: Callable[..., Any]) -> str:
    return re.split(r"\n\n(?:Args|Note):", inspect.getdoc(function) or "")[0]


def _takes_any(function: Callable[..., Any]) -> bool:
    return next(iter(inspect.signature(function).parameters.values())).kind is inspect.Parameter.VAR_POSITIONAL


def _options(
    function: Callable[..., Any], left_out: Mapping[str, Any] | Sequence[str]
) -> Iterator[tuple[str, inspect.Parameter]]:
    """Yield the parameters of a function as Typer parameters, with help texts; leave out what a shell cannot write."""
    arguments = (inspect.getdoc(function) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    helps = {name: _UNIT.sub("", " ".join(said.split())) for name, said in _DESCRIBED.findall(arguments)}
    known = _Known(inspect.unwrap(function).__globals__)
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in left_out and parameter.kind is not parameter.VAR_KEYWORD:
            made = _option(parameter, known, helps.get(name, ""))
            if made is not None:
                yield name, made


def _option(parameter: inspect.Parameter, known: _Known, said: str) -> inspect.Parameter | None:
    name, kind = parameter.name, parameter.annotation
    default, is_required = parameter.default, parameter.default is parameter.empty
    while isinstance(kind, str):
        kind = eval(kind, {}, known)
    kinds, marks = _unwrapped(kind)
    if marks and not any(isinstance(mark, Shell) for mark in marks):  # as Typer takes it already
        return parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=kind)
    shell = next((mark for mark in reversed(marks) if isinstance(mark, Shell)), Shell())
    if not shell.is_option:
        return None
    if parameter.kind is parameter.VAR_POSITIONAL:
        kind, is_required = list[str], not shell.may_be_left_out
    elif (kind := _shell_kind(kinds, name, is_required=is_required)) is None:
        return None
    is_list = get_origin(kind) is list
    if is_required:
        default = parameter.empty
    elif is_list or default is None or not isinstance(default, str | int | float):
        kind, default = kind | None, None
    else:
        default = kind[default] if issubclass(kind, _Choice) else kind(default)
    names = ("--" + name.replace("_", "-"),) if shell.names is None else shell.names
    names = () if shell.is_argument and is_required else names
    if is_list and names:
        said = f"{said.removesuffix('.')}; repeat for more."
    about: dict[str, Any] = {"help": said or shell.said, "metavar": shell.metavar}
    about["autocompletion"] = _completed(shell.completes)
    limits = {"min": shell.least, "max": shell.most} if kind in (int, int | None) else {}
    made: Any = typer.Option(*names, **about | limits) if names else typer.Argument(**about)
    return inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, made])


def _unwrapped(kind: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the types that a type is a union of, and the metadata of all of them."""
    if get_origin(kind) is Annotated:
        kinds, marks = _unwrapped(get_args(kind)[0])
        return kinds, (*marks, *get_args(kind)[1:])
    if get_origin(kind) in (Union, UnionType):
        found = [_unwrapped(each) for each in get_args(kind)]
        return tuple(each for kinds, _ in found for each in kinds), tuple(mark for _, marks in found for mark in marks)
    return (kind,), ()


def _shell_kind(kinds: tuple[Any, ...], name: str, *, is_required: bool) -> Any:
    """Return `str` if a parameter takes text, else its first type that a shell can write, or a fallback."""
    if str in kinds:
        return str
    for each in kinds:
        if get_origin(each) is Literal:
            return _Choice(name, {word: word.replace("_", "-") for word in get_args(each)})  # type: ignore[call-arg]
        if get_origin(each) is Sequence:
            return list[get_args(each)]  # type: ignore[misc]
        if isinstance(each, type) and (each in (bool, int, float, Path) or issubclass(each, StrEnum)):
            return each
    return str if is_required else None


def _completed(words: str | tuple[str, ...]) -> Callable[..., list[str]] | None:
    """Return a callback that completes words; shells complete files if no name begins with the word."""
    if words == "variants":
        return _variants
    if words == "kinds":
        return lambda: ["scenario", *import_module("podsim.scenario.load").KINDS]
    if isinstance(words, tuple):
        return lambda: [*words]
    return (lambda: import_module("podsim.scenario").shipped_names()[words]) if words else None


def _variants(ctx: typer.Context) -> list[str]:
    """Return the variants of the scenario on the command line."""
    # With nothing after `--variant`, the line is not understood and its words are left as they are.
    for word in (ctx.params.get("scenario"), *ctx.args):
        try:
            if word and not word.startswith("-"):
                return [*import_module("podsim.scenario").variant_names(word)]
        except PodsimError:
            continue
    return []


def _word(value: Any) -> Any:
    """Return a value as Python spells it."""
    return value.name if isinstance(value, _Choice) else value
