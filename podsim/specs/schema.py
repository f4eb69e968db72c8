"""JSON Schemas of the files, for editors that complete and check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from podsim.errors import Problem, SpecError
from podsim.specs.auto import AUTO, AUTO_PARTS, PARALLELISM
from podsim.specs.base import Spec, keys_of
from podsim.specs.docstrings import field_docs
from podsim.specs.load import KINDS
from podsim.specs.resolve import REFERENCES
from podsim.specs.wording import kind_name, known_here

_BASE = {"type": "string", "description": "A file to start from: a name, or a path."}
_VARIANTS = {
    "type": "object",
    "description": "Named differences.",
    "additionalProperties": {"type": "object"},
}


_FAMILIES = (
    "scenario",
    "image_scenario",
    "decoder_scenario",
    "vision_scenario",
    "seq2seq_scenario",
    "inference_scenario",
    "forward_scenario",
    "bert_pass",
    "vision_pass",
)
_DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


def json_schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a kind of file.

    A file may leave out whatever its base has, at any depth, so no key is required by the schema;
    `x-required` lists what must come from somewhere. A scenario may be of any family.

    Raises:
        SpecError: There is no such kind.
    """
    if kind == "scenario":
        parts = [part_schema(family) for family in _FAMILIES]
        definitions = {name: part for each in parts for name, part in each.pop("$defs").items()}
        return _DIALECT | {"title": "podsim scenario", "anyOf": parts, "$defs": definitions}
    return _DIALECT | part_schema(kind)


def part_schema(kind: str) -> dict[str, Any]:
    """JSON Schema of a kind of file; of one family of scenarios.

    Raises:
        SpecError: There is no such kind.
    """
    if kind not in KINDS:
        raise SpecError([Problem("", "", f"`{kind}` is not a kind of file", known_here(kind, KINDS, "use one"))])
    schema = KINDS[kind].model_json_schema(by_alias=True)
    definitions = schema.setdefault("$defs", {})
    if KINDS[kind] in AUTO_PARTS:
        _may_be_auto(schema, definitions, AUTO_PARTS[KINDS[kind]])
    described = {model.__name__: model for model in _models(Spec)}
    for part in (schema, *definitions.values()):
        if (model := described.get(part.get("title", ""))) is not None:
            _describe(part, model)
        if "required" in part and part.get("title") not in _WHOLE:
            part["x-required"] = part.pop("required")
    _refer(kind, schema, definitions)
    if kind in _FAMILIES:
        schema["properties"]["variants"] = _VARIANTS
    return schema | {"title": f"podsim {kind_name(kind)}"}


def _may_be_auto(schema: dict[str, Any], definitions: dict[str, Any], part: type[BaseModel]) -> None:
    """A division may be given, be `auto`, or be `auto` with pins."""
    auto = part.model_json_schema()
    definitions |= auto["$defs"]
    division = schema["properties"][PARALLELISM]
    given = {"$ref": division.pop("$ref", None) or division.pop("allOf")[0]["$ref"]}
    division["anyOf"] = [given, {"const": AUTO}, auto["properties"][PARALLELISM]]


def _models(root: type[Spec]) -> Iterator[type[Spec]]:
    for model in root.__subclasses__():
        yield model
        yield from _models(model)


def _describe(part: dict[str, Any], model: type[Spec]) -> None:
    """Say what each property means."""
    docs = field_docs(model)
    for key, name in keys_of(model).items():
        part["properties"][key] |= {"description": docs[name]} if name in docs else {}


_WHOLE = {"RequestLengthSpec", "StageSpec"}
"""Entries of lists are replaced as a whole."""


def _refer(kind: str, part: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Let a part start from a base, and let its references be names."""
    properties = part["properties"]
    properties["base"] = _BASE
    for key, referred in REFERENCES[kind].items():
        mapping = {"$ref": properties[key]["$ref"]}
        name = {"type": "string"}
        properties[key] = properties[key] | {"anyOf": [name, mapping]}
        del properties[key]["$ref"]
        _refer(referred, definitions[mapping["$ref"].rpartition("/")[2]], definitions)
