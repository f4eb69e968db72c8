"""Writes docs/reference from the schemas, the command line and simulations; `--check` only compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer.main

from podsim.cli.app import app
from podsim.cli.ending import EXIT_CODES
from podsim.scenario import part_schema
from podsim.scenario.quantity import INFORMATION
from tools.simulated_pages import bow_page, llama_page

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
_SCENARIOS = {
    "bert_training": "Scenario",
    "convnet_training": "Image scenario",
    "molecules_training": "Scenario of molecular graphs",
    "decoder_training": "Decoder scenario, training",
    "vision_training": "Vision transformer scenario",
    "seq2seq_training": "Encoder-decoder scenario",
    "decoder_generation": "Text generation scenario",
    "graph_forward": "Forward scenario",
    "bert_forward": "Forward passes of BERT",
    "decoder_forward": "Forward passes of a decoder",
    "vision_forward": "Forward passes of a vision transformer",
    "seq2seq_forward": "Forward passes of an encoder-decoder",
}
_NOTE = "<!-- written by tools/make_reference.py; change the docstrings of podsim and run `./dev docs` -->"
_FILES = {
    "Host": "host",
    "Ipu": "ipu",
    "Machine": "machine",
    "System": "pod",
    "Software": "software",
    "Vertices": "vertices",
}
_BEYOND_REASON = 10**12
_QUANTITIES = """A quantity is text with its unit: `k M G T` are decimal, `Ki Mi Gi` binary, `b` is bits and `B` bytes.
Where a quantity is asked for, `{value: 16 GB/s, source: …, basis: …}` does too and says what the number stands on:
`basis` is `published`, `measured`, `derived`, `calibrated` or `assumed`; `note` and `range` are optional."""


def pages() -> dict[str, str]:
    """Name of each page and its text."""
    return {
        "scenario.md": schema_page(
            "Scenario files",
            "One question per file. Templates have every key with a comment:\n"
            "[one](../../scenarios/template.yaml) for BERT, [one](../../scenarios/image_template.yaml) for images.",
            _SCENARIOS,
        ),
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
    """Write the pages, or name those that are out of date."""
    made = pages()
    old = {name: (FOLDER / name).read_text(encoding="utf-8") for name in made if (FOLDER / name).is_file()}
    moved = {name: text for name, text in made.items() if old.get(name) != text}
    if "--check" in sys.argv[1:]:
        for name in moved:
            print(f"docs/reference/{name}: out of date; run `./dev docs`", file=sys.stderr)
        return int(bool(moved))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in moved.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def schema_page(title: str, intro: str, kinds: Mapping[str, str], *, with_kind: bool = False) -> str:
    """A page about one or more kinds of file.

    Args:
        title: Of the page.
        intro: What stands above the tables.
        kinds: A heading for each kind of file.
        with_kind: Whether paths of keys begin with that heading, for files that are parts of others.
    """
    lines = [_NOTE, f"\n# {title}\n", intro, "", _QUANTITIES]
    for kind, heading in kinds.items():
        schema = part_schema(kind)
        lines += section(heading, schema, schema.get("$defs", {}), heading if with_kind else "")
    return "\n".join(lines) + "\n"


def section(
    title: str, schema: dict[str, Any], definitions: dict[str, Any], path: str, level: int = 2
) -> Iterator[str]:
    """A table of the keys of a mapping, then a section for each mapping in it.

    Args:
        title: Of the section.
        schema: Of the mapping.
        definitions: Schemas that it refers to, by name.
        path: Of the mapping in its file; nothing for the file itself.
        level: Of the heading.
    """
    yield f"\n{'#' * level} {title}\n"
    if description := schema.get("description"):
        yield f"{description}\n"
    yield "| key | value | default | meaning |\n|---|---|---|---|"
    required, inner = schema.get("x-required", schema.get("required", [])), []
    for key, value in schema["properties"].items():
        found = _definitions(value, definitions)
        meaning = value.get("description") or (found[0].get("description", "") if found else "")
        if reason := value.get(INFORMATION):
            meaning += f" Information: read by no model; {reason}."
        yield f"| `{key}` | {type_text(value)} | {_default_text(key, value, required)} | {_one_line(meaning)} |"
        inner += [(f"{path}.{key}" if path else key, each) for each in found]
    for inner_path, part in inner:
        yield from section(f"`{inner_path}`{_family(part)}", part, definitions, inner_path, 3)


def type_text(schema: dict[str, Any]) -> str:
    """What may stand at a key, in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"{_FILES[name]} file, or mapping with `base`" if name in _FILES else "mapping, below"
    if "oneOf" in schema:
        return " or ".join(dict.fromkeys(map(type_text, schema["oneOf"])))
    if "anyOf" in schema:
        texts = [type_text(option) for option in schema["anyOf"] if not _is_sourced(option)]
        texts = [text for text in texts if "file, or" in text] or texts
        return " or ".join(dict.fromkeys(text for text in texts if text))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{_word(value)}`" for value in schema.get("enum", [schema.get("const")]))
    return _plain_type_text(schema)


def _plain_type_text(schema: dict[str, Any]) -> str:
    match schema.get("type"):
        case "array" if "prefixItems" in schema:
            return f"list of {len(schema['prefixItems'])}: {type_text(schema['prefixItems'][0])}"
        case "array":
            return f"list of: {type_text(schema['items'])}"
        case "string" if "examples" in schema:
            return f"quantity, like `{schema['examples'][0]}`"
        case "string":
            return "text"
        case "boolean":
            return "`true` or `false`"
        case "object" if "properties" in schema:
            return f"`{{{', '.join(f'{key}: {_constant(value)}' for key, value in schema['properties'].items())}}}`"
        case "object":
            return "mapping"
        case "integer" | "number":
            return ("whole number" if schema["type"] == "integer" else "number") + _bounds(schema)
    return ""


def _constant(schema: dict[str, Any]) -> str:
    return str(schema.get("const", "…")).lower()


def _word(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _is_sourced(schema: dict[str, Any]) -> bool:
    """Whether it is the long form of a quantity, explained once per page."""
    return "basis" in schema.get("properties", {})


def _bounds(schema: dict[str, Any]) -> str:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    return "".join(
        f", {word} {schema[key]:g}" for key, word in words.items() if schema.get(key, _BEYOND_REASON) < _BEYOND_REASON
    )


def _default_text(key: str, schema: dict[str, Any], required: list[str]) -> str:
    if key in required:
        return "required"
    default = schema.get("default")
    if default is None or isinstance(default, dict):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _definitions(schema: dict[str, Any], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """The mappings that a key, or each entry of its list, may refer to."""
    given = schema.get("anyOf", [schema])
    options = [option for each in given for option in each.get("oneOf", [each])]
    entries = [each["items"] for each in options if each.get("type") == "array" and "items" in each]
    names = [option.get("$ref", "").rpartition("/")[2] for option in [*options, *entries]]
    return [definitions[name] for name in names if name and name not in _FILES]


def _family(schema: dict[str, Any]) -> str:
    """Of several mappings that may stand at a key, which one."""
    if "auto" in schema["properties"]:
        return " with `auto`"
    kind = schema["properties"].get("kind", {}).get("const")
    return f" of kind `{kind}`" if kind else ""


def command_page() -> str:
    """A page about the command line."""
    lines = [
        _NOTE,
        "\n# Command line\n",
        "`podsim COMMAND -h` says the same; `python -m podsim` does as `podsim`.\n",
    ]
    lines.append("Results go to standard output; what was written, progress and errors go to standard error.\n")
    lines.append("| exit code | meaning |\n|---|---|")
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items()]
    for name, command in _commands(typer.main.get_command(app), "podsim"):
        lines += [f"\n## `{name}`\n", _one_line(command.help or ""), ""]
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
    return f"| {names}{values} | {shown} | {_one_line(parameter.help or '')} |"


def _one_line(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main())
