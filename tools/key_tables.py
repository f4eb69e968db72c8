"""Tables of the keys of a mapping, from its schema, as pages of docs/reference have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from podsim.scenario.quantity import INFORMATION

NOTE = "<!-- written by tools/make_reference.py; change the docstrings of podsim and run `./dev docs` -->"
_FILES = {
    "Host": "host",
    "Ipu": "ipu",
    "Machine": "machine",
    "System": "pod",
    "Software": "software",
    "Vertices": "vertices",
}
_BEYOND_REASON = 10**12
BELOW = "mapping, below"
HEADER = "| key | value | default | meaning |\n|---|---|---|---|"
QUANTITIES = """A quantity is text with its unit: `k M G T` are decimal, `Ki Mi Gi` binary, `b` is bits and `B` bytes.
Where a quantity is asked for, `{value: 16 GB/s, source: …, basis: …}` does too and says what the number stands on:
`basis` is `published`, `measured`, `derived`, `calibrated` or `assumed`; `note` and `range` are optional."""


def section(
    title: str, schema: dict[str, Any], definitions: dict[str, Any], path: str, level: int = 2
) -> Iterator[str]:
    """Yield a table of the keys of a mapping, then a section for each inner mapping."""
    rows = rows_of(schema, definitions)
    yield f"\n{'#' * level} {title}\n"
    if description := schema.get("description"):
        yield f"{description}\n"
    yield HEADER
    yield from (row.text() for row in rows)
    for row in rows:
        inner_path = f"{path}.{row.key}" if path else row.key
        for part in row.inner:
            yield from section(f"`{inner_path}`{family_of(part)}", part, definitions, inner_path, 3)


@dataclass(frozen=True)
class KeyRow:
    """Row of a table of keys."""

    key: str
    value: str  # description of the allowed values
    default: str  # default value, or `required`
    meaning: str
    inner: tuple[dict[str, Any], ...]  # schemas of the mappings that are allowed

    def text(self) -> str:
        """Return the row of a table that starts with `HEADER`."""
        return f"| `{self.key}` | {self.value} | {self.default} | {self.meaning} |"


def rows_of(schema: dict[str, Any], definitions: dict[str, Any]) -> list[KeyRow]:
    """Return the keys of a mapping, in the order of its schema."""
    required, rows = schema.get("x-required", schema.get("required", [])), []
    for key, value in schema["properties"].items():
        found = tuple(definitions_of(value, definitions))
        meaning = value.get("description") or (found[0].get("description", "") if found else "")
        if reason := value.get(INFORMATION):
            meaning += f" Information: read by no model; {reason}."
        rows.append(KeyRow(key, type_text(value), _default_text(key, value, required), one_line(meaning), found))
    return rows


def type_text(schema: dict[str, Any]) -> str:
    """Return a description of the values that a key allows."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"{_FILES[name]} file, or mapping with `base`" if name in _FILES else BELOW
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
    """Return True for the long form of a quantity, which a page explains once."""
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


def definitions_of(schema: dict[str, Any], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the mappings that a key, or the entries of its list, may refer to."""
    given = schema.get("anyOf", [schema])
    options = [option for each in given for option in each.get("oneOf", [each])]
    entries = [each["items"] for each in options if each.get("type") == "array" and "items" in each]
    names = [option.get("$ref", "").rpartition("/")[2] for option in [*options, *entries]]
    return [definitions[name] for name in names if name and name not in _FILES]


def family_of(schema: dict[str, Any]) -> str:
    """Return the text that distinguishes one of several mappings at a key."""
    if "auto" in schema["properties"]:
        return " with `auto`"
    kind = schema["properties"].get("kind", {}).get("const")
    return f" of kind `{kind}`" if kind else ""


def one_line(text: str) -> str:
    """Return text for a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
