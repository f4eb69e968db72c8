"""Commands from functions: a parameter of a public function, with its type, default and docstring, is an option.

What a shell cannot say, such as a function that watches, is left to Python. Functions are read, not imported: importing
them may import the simulation.
"""

from __future__ import annotations

import builtins
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import typer

from podsim import options
from podsim.cli.outputs import check_paths
from podsim.errors import PodsimError
from podsim.models import op

Ask = partial[Any]
"""A function with what was asked for; takes further parameters when it is called."""


def _names(kind: str) -> Callable[[], list[str]]:
    """Return a callback that completes shipped names; shells complete files if no name begins with the word."""
    return lambda: import_module("podsim.scenario").shipped_names()[kind]


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


@dataclass(frozen=True, slots=True)
class _Option:
    """Shell settings of a parameter; `names` is empty for an argument, None for the name of the parameter."""

    names: tuple[str, ...] | None = None
    metavar: str | None = None
    least: int | None = None
    most: int | None = None
    completes: Callable[..., list[str]] | None = None
    said: str = ""
    may_be_left_out: bool = False


_SCENARIOS: Final = _names("scenarios")
_SHELL: Final = {
    "scenario": _Option(completes=_SCENARIOS),  # an argument where it is required
    "scenarios": _Option((), "SCENARIO...", completes=_SCENARIOS),
    "sides": _Option((), "A B...", completes=_SCENARIOS),
    "study": _Option((), completes=_names("studies")),
    "goal": _Option((), "GOAL"),
    "paths": _Option((), "PATH...", may_be_left_out=True),
    "words": _Option((), "WORD"),
    "offered": _Option((), "SCENARIO", completes=_SCENARIOS),
    "logs": _Option((), "LOG"),
    "folder": _Option((), "DIR"),
    "kind": _Option((), completes=lambda: ["scenario", *import_module("podsim.scenario.load").KINDS]),
    "variant": _Option(completes=_variants),
    "overrides": _Option(("--set",), "KEY=VALUE"),
    "loads": _Option(("--load",)),
    "in_channels": _Option(("--in",)),
    "out_channels": _Option(("--out",)),
    "byte_count": _Option(("--bytes",)),
    "source": _Option(("--from",)),
    "target": _Option(("--to",)),
    "load_bytes": _Option(("--load",)),
    "memory": _Option(("--memory", "--available-memory")),
    "ipu": _Option(completes=lambda: ["gc200", "bow", "c600", "gc2"]),
    "system": _Option(completes=_names("systems")),
    "systems": _Option(("--system",), completes=_names("systems")),
    "times": _Option(metavar="NAME=FACTOR..."),
    "to": _Option(metavar="KEY=VALUE"),
    "limits": _Option(("--limit",), "FIGURE=BOUND"),
    "budget": _Option(metavar="PRICE"),
    "rack_power": _Option(metavar="POWER"),
    "output": _Option(("--output", "-o")),
    "scheduler": _Option(metavar="ADDRESS"),
    "against": _Option(metavar="REVISION"),
    "output_format": _Option(("--format",), said="What to print."),
    "plot": _Option(said="Write a chart (.png, .svg or .pdf)."),
    "report": _Option(metavar="FILE.html", said="Write a page with charts to hover over and zoom."),
    "force": _Option(said="Replace the output if it exists."),
    "unchanged": _Option(("--all",)),
    "precision": _Option(least=2, most=15),
    "save": _Option(("--save-dir",), "DIR"),
    "chakra": _Option(metavar="DIR"),
    "group": _Option(metavar="TEXT"),
    "measured": _Option(("--with",), "FILE.csv"),
    "write_stack": _Option(("--write",), "FILE.yaml"),
    "only": _Option(metavar="TEXT"),
    "charts": _Option(metavar="FOLDER"),
    "dimensions": _Option(("--dimension",), "NAME=SIZE"),
    "port": _Option(least=1, most=65535),
    **dict.fromkeys(("think", "deadline", "latency"), _Option(metavar="TIME")),
    **dict.fromkeys(("max_mean", "max_worst"), _Option(metavar="PERCENT")),
    **dict.fromkeys(("objective", "second"), _Option(metavar="FIGURE")),
    **dict.fromkeys(("users", "processes", "trials", "prompt_tokens", "output_tokens", "batch_size"), _Option(least=1)),
    **dict.fromkeys(("draws", "loop_supersteps"), _Option(least=0)),
    **dict.fromkeys(("uncertainty", "noise"), _Option(metavar="N")),
    **dict.fromkeys(("shape", "model"), _Option(())),
    "opens": _Option(("--open/--no-open",)),
    "as_json": _Option(("--json",), said="Print JSON, as `--format json` does."),
}
_PYTHON_ALONE: Final = ("record", "name", "aside")
_FOR_PYTHON: Final = re.compile(r"[;,] in Python[^.;]*| \[[^\]]+\]$")
_DESCRIBED: Final = re.compile(r"^    (\w+): (.+?)(?=^    \w|\Z)", re.MULTILINE | re.DOTALL)
_ROOT: Final = Path(__file__).resolve().parents[2]


def asks(place: str = "", **fixed: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function of the command line, whose parameters are options.

    Args:
        place: A public function, `module.name`, whose parameters are options as well. The command takes it with what
            was asked as its first parameter, and has its docstring if it has none itself.
        fixed: What that function is always asked.
    """
    home, _, name = place.rpartition(".")
    function = _read(home, name) if place else None
    theirs = {} if function is None else dict(_options(function, _Lenient(_TYPES), fixed))

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = dict(_options(command, _Lenient(_TYPES | vars(sys.modules[command.__module__])), ("ask",)))

        def called(**given: Any) -> None:
            words = {key: _word(value) for key, value in given.items() if value is not None and value != []}
            mine = {key: words.pop(key) for key in own if key in words}
            check_paths(mine)
            if function is None:
                return command(**mine)
            listed = words.pop(next(iter(theirs)), ()) if _takes_any(function) else ()
            return command(partial(getattr(import_module(home), name), *listed, **fixed, **words), **mine)

        parameters = {**theirs, **own}
        called.__signature__ = inspect.Signature([*parameters.values()])  # type: ignore[attr-defined]
        called.__annotations__ = {key: parameter.annotation for key, parameter in parameters.items()}
        called.__name__ = command.__name__
        called.__doc__ = _summary(command) or (_summary(function) if function else "")
        return called

    return decorate


class _Unknown:
    """A type or value that only the simulation knows; a shell cannot write it."""

    def __class_getitem__(cls, _: object) -> type[_Unknown]:
        return cls


class _Choice(StrEnum):
    """Words of a shell, each by that of Python."""


class _Lenient(dict[str, Any]):
    """Names of a module."""

    def __missing__(self, name: str) -> type[_Unknown]:
        return _Unknown


_TYPES: Final = vars(builtins) | vars(op) | vars(options) | {"Callable": Callable, "Path": Path}


def _read(home: str, name: str) -> Callable[..., Any]:
    """Return a function with the signature and docstring found in the source, without its body."""
    path = _ROOT.joinpath(*home.split("."))
    module = path.with_suffix(".py")
    source = (module if module.is_file() else path / "__init__.py").read_text(encoding="utf-8")
    start, quotes = source.index(f"\ndef {name}("), '\n    """\n'
    names = _Lenient(_TYPES)
    exec(f"from __future__ import annotations{source[start : source.index(quotes, start)]}{quotes}", {}, names)
    function: Callable[..., Any] = names[name]
    return function


def _summary(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "").partition("\n\nArgs:")[0]


def _takes_any(function: Callable[..., Any]) -> bool:
    return next(iter(inspect.signature(function).parameters.values())).kind is inspect.Parameter.VAR_POSITIONAL


def _options(
    function: Callable[..., Any], known: _Lenient, left_out: Mapping[str, Any] | Sequence[str]
) -> Iterator[tuple[str, inspect.Parameter]]:
    """Parameters as Typer takes them, with what the docstring says of each, but for those a shell cannot say."""
    arguments = (inspect.getdoc(function) or "").partition("\nArgs:\n")[2].partition("\n\n")[0]
    helps = {name: _FOR_PYTHON.sub("", " ".join(said.split())) for name, said in _DESCRIBED.findall(arguments)}
    for name, parameter in inspect.signature(function).parameters.items():
        is_python_alone = name in (*_PYTHON_ALONE, *left_out) or parameter.kind is parameter.VAR_KEYWORD
        if not is_python_alone and (made := _option(parameter, known, helps.get(name, ""))):
            yield name, made


def _option(parameter: inspect.Parameter, known: _Lenient, said: str) -> inspect.Parameter | None:
    name, kind = parameter.name, parameter.annotation
    default, is_required = parameter.default, parameter.default is parameter.empty
    while isinstance(kind, str):
        kind = eval(kind, {}, known)
    if get_origin(kind) is Annotated:  # as Typer takes it already
        return parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=kind)
    shell = _SHELL.get(name, _Option())
    if parameter.kind is parameter.VAR_POSITIONAL:
        kind, is_required = list[str], not shell.may_be_left_out
    elif (kind := _shell_kind(kind, name, is_required=is_required)) is None:
        return None
    is_list = get_origin(kind) is list
    if is_required:
        default = parameter.empty
    elif is_list or default in (None, _Unknown):
        kind, default = kind | None, None
    else:
        default = kind[default] if issubclass(kind, _Choice) else kind(default)
    names = ("--" + name.replace("_", "-"),) if shell.names is None else shell.names
    names = () if is_required and name == "scenario" else names
    if is_list and names:
        said = f"{said.removesuffix('.')}; repeat for more."
    about: dict[str, Any] = {"help": said or shell.said, "metavar": shell.metavar, "autocompletion": shell.completes}
    limits = {"min": shell.least, "max": shell.most} if kind in (int, int | None) else {}
    made: Any = typer.Option(*names, **about | limits) if names else typer.Argument(**about)
    return inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, made])


def _shell_kind(kind: Any, name: str, *, is_required: bool) -> Any:
    """Return `str` if a parameter takes text, else its first type that a shell can write, or a fallback."""
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    if str in kinds:
        return str
    for each in kinds:
        if get_origin(each) is Literal:
            return _Choice(name, {word: word.replace("_", "-") for word in get_args(each)})  # type: ignore[call-arg]
        if get_origin(each) is Sequence:
            return list[get_args(each)]  # type: ignore[misc]
        if each in (bool, int, float, Path) or (isinstance(each, type) and issubclass(each, StrEnum)):
            return each
    return str if is_required else None


def _word(value: Any) -> Any:
    """Return a value as Python spells it."""
    return value.name if isinstance(value, _Choice) else value
