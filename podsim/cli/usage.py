"""Errors in command lines: what is wrong and what to do, as for every other error."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from podsim.cli.ending import ERROR, INTERRUPTED, say
from podsim.errors import PodsimError
from podsim.scenario.wording import nearest

# typer brings its own click since 0.26; its public classes lead to what either of them raises.
UsageError: type[Exception] = next(each for each in typer.BadParameter.__mro__ if each.__name__ == "ClickException")
Abort: type[Exception] = typer.Abort
_UNPARSED = {"integer": "needs a whole number", "number": "needs a number"}
"""What the parser says of a text that is no number, by the kind of number."""
_QUOTED = re.compile(r"'([^']*)'")
_OF_CHANGES = ("--set", "--times", "--to")  # options that may be followed by several changes
_ASSIGNMENT = re.compile(r"[A-Za-z_][\w.\[\]-]*=")


class Commands(TyperGroup):
    """A group of commands that lists them under headings, and reports an unknown one like any other error."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands by heading, each with its whole first sentence."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            sentence = " ".join((command.help or "").partition("\n\n")[0].split())
            headings.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append((name, sentence))
        longest = max(map(len, self.commands))
        for heading, rows in headings.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(longest), sentence) for name, sentence in rows])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names; raise PodsimError if there is none."""
        name = args[0] if args else ""
        if not name.startswith("-") and not ctx.resilient_parsing and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            raise PodsimError(f"{ctx.command_path} has no command `{name}`", do=f"{_closest(name, known)} {_help(ctx)}")
        return super().resolve_command(ctx, args)


def one_change_each(words: Iterable[str]) -> Iterator[str]:
    """Yield the words of a command line; of several changes behind an option, each gets the option of its own.

    >>> list(one_change_each(["run", "--set", "a=1", "b.c=2", "x.yaml"]))
    ['run', '--set', 'a=1', '--set', 'b.c=2', 'x.yaml']
    >>> list(one_change_each(["--times", "links=2", "--set=a=1", "b=2", "--plot", "c=3"]))
    ['--times', 'links=2', '--set=a=1', '--set', 'b=2', '--plot', 'c=3']
    """
    option, is_value = "", False  # the option whose changes may follow; True if the next word is its value
    for word in words:
        name, equals, _ = word.partition("=")
        if name in _OF_CHANGES:
            option, is_value = name, not equals
        elif is_value:
            is_value = False
        elif option and _ASSIGNMENT.match(word):
            yield option
        else:
            option = ""
        yield word


def parsed(app: typer.Typer, name: str) -> object:
    """Let a command line parse its arguments and do as they say; its exit code where that goes wrong."""
    try:
        return app(args=list(one_change_each(sys.argv[1:])), prog_name=name, standalone_mode=False)
    except Abort:
        return INTERRUPTED
    except UsageError as error:
        say(usage_message(error))
        return ERROR


def usage_message(error: Any) -> str:
    """Return the parser's error in podsim's words, or the help if no command was given."""
    if type(error).__name__ == "NoArgsIsHelpError":
        return str(error.format_message())
    context: Any = getattr(error, "ctx", None)
    parameter = getattr(error, "param", None)
    path, help_text = context.command_path if context else "podsim", _help(context)
    name = getattr(error, "option_name", "")
    if hasattr(error, "possibilities"):
        known = [name for param in context.command.get_params(context) for name in param.opts if name.startswith("--")]
        wrong = PodsimError(f"{path} has no option `{name}`", do=f"{_closest(name, known)} {help_text}")
        return f"error: {wrong}"
    if parameter is not None:  # an option by its first long name, an argument in capitals
        names = sorted((opt for opt in parameter.opts if opt.startswith("-")), key=lambda each: each[:2] != "--")
        name = names[0] if names else str(parameter.metavar or parameter.name).upper()
    if type(error).__name__ == "MissingParameter":
        wrong = PodsimError(f"{path} needs {name}, which is missing", do=f"write `{path} {name}`; {help_text}")
    elif name:
        written, *known = _QUOTED.findall(error.message) or [""]
        close = nearest(written, known)  # of the values that the message lists, if it lists any
        meant = f"did you mean `{close}`? " if close else ""
        wrong = PodsimError(_sentence(error.message), where=name, do=f"{meant}{help_text}")
    else:
        wrong = PodsimError(_sentence(error.format_message()), where=path, do=help_text)
    return f"error: {wrong}"


def _help(context: Any) -> str:
    return f"`{context.command_path if context else 'podsim'} --help` shows what there is"


def _closest(written: str, known: list[str]) -> str:
    close = nearest(written, known)
    return f"did you mean `{close}`?" if close else f"use one of {', '.join(known)};"


def _sentence(message: str) -> str:
    """Return a message of the parser as part of a sentence."""
    if unparsed := re.match(r"Input should be a valid (integer|number)\b", message):
        return _UNPARSED[unparsed[1]]
    text = " ".join(message.split()).removeprefix("Value error, ").replace("(s)", "s").rstrip(".")
    return text[:1].lower() + text[1:]
