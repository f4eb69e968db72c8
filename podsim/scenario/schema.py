"""JSON Schemas of the files, for editors that complete and check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from podsim.errors import Problem, SpecError
from podsim.scenario.auto import AUTO, auto_part
from podsim.scenario.base import Spec, keys_of
from podsim.scenario.docstrings import field_docs
from podsim.scenario.families.registry import forms
from podsim.scenario.load import KINDS
from podsim.scenario.pins import PARALLELISM
from podsim.scenario.resolve import KIND as SCENARIO
from podsim.scenario.resolve import REFERENCES, VARIANTS
from podsim.scenario.wording import kind_name, known_here

_BASE = {"type": "string", "description": "A file to start from: a name, or a path."}
_VARIANTS = {
    "type": "object",
    "description": "Named differences.",
    "additionalProperties": {"type": "object"},
}


_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def json_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file.

    A file may leave out everything that its base has, at any depth. So no key is required by the schema; `x-required`
    lists the keys that the file or its bases must give. A scenario may be of any family.
    """
    if kind == "scenario":
        parts = [part_schema(name) for name in forms()]
        definitions = {name: section for part in parts for name, section in part.pop("$defs").items()}
        return _DIALECT | {"title": "podsim scenario", "anyOf": parts, "$defs": definitions}
    return _DIALECT | part_schema(kind)


def part_schema(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of file; for scenarios, of one family of models and one activity."""
    scenario = forms().get(kind)
    if scenario is None and kind not in KINDS:
        kinds = [SCENARIO, *KINDS]
        raise SpecError([Problem("", "", f"`{kind}` is not a kind of file", known_here(kind, kinds, "use one"))])
    model = scenario or KINDS[kind]
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.setdefault("$defs", {})
    if scenario is not None:
        _allow_auto(schema, definitions, scenario.model_fields[PARALLELISM].annotation)
    sections = {section.__name__: section for section in _models(Spec)}
    for part in (schema, *definitions.values()):
        if (section := sections.get(part.get("title", ""))) is not None:
            _describe(part, section)
        if "required" in part and part.get("title") not in _LIST_ENTRIES:
            part["x-required"] = part.pop("required")
    _allow_bases(kind if scenario is None else SCENARIO, schema, definitions)
    if scenario is not None:
        schema["properties"][VARIANTS] = _VARIANTS
    return schema | {"title": f"podsim {kind_name(kind).replace('_', ' ')}"}


def _allow_auto(schema: dict[str, Any], definitions: dict[str, Any], division: Any) -> None:
    """Allow a layout to be explicit, `auto`, or `auto` with pins."""
    if division.auto is None:
        return
    auto = auto_part(division.auto).model_json_schema()
    definitions |= auto["$defs"]
    division = schema["properties"][PARALLELISM]
    explicit = {"$ref": division.pop("$ref", None) or division.pop("allOf")[0]["$ref"]}
    division["anyOf"] = [explicit, {"const": AUTO}, auto["properties"][PARALLELISM]]


def _models(root: type[Spec]) -> Iterator[type[Spec]]:
    for model in root.__subclasses__():
        yield model
        yield from _models(model)


def _describe(part: dict[str, Any], model: type[Spec]) -> None:
    """Add the description of each property."""
    docs = field_docs(model)
    for key, name in keys_of(model).items():
        part["properties"][key] |= {"description": docs[name]} if name in docs else {}


_LIST_ENTRIES = {"RequestLengthSpec", "StageSpec"}
"""Entries of lists, which are replaced as a whole."""


def _allow_bases(kind: str, part: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Allow a section to have a base, and its references to other files to be names."""
    properties = part["properties"]
    properties["base"] = _BASE
    for key, referred in REFERENCES[kind].items():
        mapping = {"$ref": properties[key]["$ref"]}
        name = {"type": "string"}
        properties[key] = properties[key] | {"anyOf": [name, mapping]}
        del properties[key]["$ref"]
        _allow_bases(referred, definitions[mapping["$ref"].rpartition("/")[2]], definitions)
