"""Writes docs/reference from the schemas, the command line and simulations; `--check` only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import typer.main

from podsim.cli.app import app
from podsim.cli.ending import EXIT_CODES
from podsim.scenario import part_schema
from tools.generated import ROOT, renewed
from tools.key_tables import NOTE, QUANTITIES, one_line, section
from tools.scenario_pages import scenario_pages
from tools.simulated_pages import bow_page, llama_page

FOLDER = ROOT / "docs" / "reference"


def pages() -> dict[str, str]:
    """Name of each page and its text."""
    return {
        **scenario_pages(),
        "hardware.md": schema_page(
            "Hardware files",
            "A file describes one pod, machine, chip or host server, and names the files of what it is made of.\n"
            "`base` names a file to start from; the keys that follow replace its keys, at any depth.",
            {"pod": "Pod", "machine": "Machine", "ipu": "IPU", "host": "Host server"},
            with_kind=True,
        ),
        "software.md": schema_page(
            "Software files",
            "What changes with the framework and its SDK, and not with the hardware.",
            {"software": "Software stack"},
        ),
        "command_line.md": command_page(),
        "bow_over_gc200.md": bow_page(),
        "llama2_7b.md": llama_page(),
    }


def main() -> int:
    """Write the pages, or name outdated ones."""
    return renewed({FOLDER / name: text for name, text in pages().items()})


def schema_page(title: str, intro: str, kinds: Mapping[str, str], *, with_kind: bool = False) -> str:
    """Return a page about one or more kinds of file."""
    lines = [NOTE, f"\n# {title}\n", intro, "", QUANTITIES]
    for kind, heading in kinds.items():
        schema = part_schema(kind)
        lines += section(heading, schema, schema.get("$defs", {}), heading if with_kind else "")
    return "\n".join(lines) + "\n"


def command_page() -> str:
    """Return a page about the command line."""
    lines = [
        NOTE,
        "\n# Command line\n",
        "`podsim COMMAND -h` says the same; `python -m podsim` does as `podsim`. "
        "`podsim --extend FILE.py COMMAND` loads\n[functions of your own](../guides/extend.md).\n",
    ]
    lines.append("Results go to standard output; what was written, progress and errors go to standard error.\n")
    lines.append("| exit code | meaning |\n|---|---|")
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    for name, command in _commands(typer.main.get_command(app), "podsim"):
        lines += [f"\n## `{name}`\n", one_line(command.help or ""), ""]
        lines += ["| argument | default | meaning |\n|---|---|---|"] if _options(command) else []
        lines += [_parameter_row(parameter) for parameter in _options(command)]
    return "\n".join(lines).rstrip() + "\n"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    for key, inner in getattr(command, "commands", {}).items():
        if getattr(inner, "commands", None):
            yield from _commands(inner, f"{name} {key}")
        else:
            yield f"{name} {key}", inner


def _options(command: Any) -> list[Any]:
    return [parameter for parameter in command.params if parameter.name != "help"]


def _parameter_row(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if not names.startswith("`-"):
        names = f"`{parameter.name.upper()}`"
    choices = getattr(getattr(parameter, "type", None), "choices", None)
    values = " " + " or ".join(f"`{getattr(choice, 'value', choice)}`" for choice in choices) if choices else ""
    default = getattr(parameter.default, "value", parameter.default)
    shown = "required" if parameter.required else "" if default in (None, False) else f"`{default}`"
    return f"| {names}{values} | {shown} | {one_line(parameter.help or '')} |"


if __name__ == "__main__":
    sys.exit(main())
