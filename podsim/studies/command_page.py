"""The page "Command line": every command with its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from podsim.cli import app
from podsim.command_line.ending import EXIT_CODES
from podsim.studies.markdown import WRITTEN_NOTE, one_line


def command_page() -> str:
    """A page about the command line."""
    lines = [
        WRITTEN_NOTE,
        "\n# Command line\n",
        "`podsim COMMAND -h` says the same; `python -m podsim` does as `podsim`.\n",
    ]
    lines.append("Results go to standard output; what was written, progress and errors go to standard error.\n")
    lines.append("| exit code | meaning |\n|---|---|")
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    for name, command in _commands(typer.main.get_command(app), "podsim"):
        lines += [f"\n## `{name}`\n", one_line(command.help or ""), ""]
        lines += ["| argument | default | meaning |\n|---|---|---|"] if _shown(command) else []
        lines += [_parameter_row(parameter) for parameter in _shown(command)]
    return "\n".join(lines).rstrip() + "\n"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for key, inner in getattr(command, "commands", {}).items():
        if getattr(inner, "commands", None):
            yield from _commands(inner, f"{name} {key}")
        else:
            yield f"{name} {key}", inner


def _shown(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if parameter.name != "help"]


def _parameter_row(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if not names.startswith("`-"):
        names = f"`{parameter.name.upper()}`"
    choices = getattr(getattr(parameter, "type", None), "choices", None)
    values = " " + " or ".join(f"`{getattr(each, 'value', each)}`" for each in choices) if choices else ""
    default = getattr(parameter.default, "value", parameter.default)
    shown = "required" if parameter.required else "" if default in (None, False) else f"`{default}`"
    return f"| {names}{values} | {shown} | {one_line(parameter.help or '')} |"
