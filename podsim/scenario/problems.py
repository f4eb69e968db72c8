"""Translation of pydantic's errors into problems with place, key and cure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError

from podsim.errors import Problem
from podsim.scenario.base import keys_of
from podsim.scenario.docstrings import field_docs
from podsim.scenario.document import Document, KeyPath
from podsim.scenario.parameters import PARAMETERS
from podsim.scenario.software import Software
from podsim.scenario.wording import known_here, nearest, quoted

_AUTO: Final = "auto"
_NEEDS = {
    "int_type": ("a whole number", "write for example `12`"),
    "int_from_float": ("a whole number", "write for example `12`"),
    "float_type": ("a number", "write for example `0.5`"),
    "string_type": ("text", "write a word, or text in quotes"),
    "bool_type": ("true or false", "write `true` or `false`"),
    "list_type": ("a list", "write for example `[6, 6, 6, 6]`"),
    "tuple_type": ("a list", "write for example `[6, 6, 6, 6]`"),
    "dict_type": ("a mapping of keys to values", "write `key: value` lines under it"),
    "model_type": ("a mapping of keys to values", "write `key: value` lines under it"),
    "model_attributes_type": ("a mapping of keys to values", "write `key: value` lines under it"),
}
_BOUNDS = {
    "greater_than": ("gt", "too small", "write a number above {}"),
    "greater_than_equal": ("ge", "too small", "write {} or more"),
    "less_than": ("lt", "too large", "write a number below {}"),
    "less_than_equal": ("le", "too large", "write {} or less"),
}
_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "bandwidth": ("bandwidth_per_direction",),
    "data_parallel": ("replication_factor",),
    "frequency": ("clock",),
    "global_batch_size": ("batch_size",),
    "gradient_accumulation": ("accumulation_factor",),
    "gradient_accumulation_steps": ("accumulation_factor",),
    "heads": ("head_count",),
    "hidden": ("hidden_size",),
    "ipus": ("ipu_count",),
    "layers": ("layer_count",),
    "replicas": ("replication_factor",),
    "sdk": ("software",),
    "seq_len": ("sequence_length",),
}
"""Keys by the names that they have in other software."""
_RINGS: Final = "remove it; `collective_rings` says how many rings a collective has, by turns in each direction"
_NO_LONGER_KEYS: Final[Mapping[str, str]] = {
    "attention_copies": "remove it; copies follow from layouts, at `layout_change_cycles_per_byte`",
    "collective_both_ways": _RINGS,
    "collective_both_ways_along_torus": _RINGS,
    "collective_link_share": f"{_RINGS}, each on a link of its own as far as there are",
    "collective_step_latency": "remove it; write `first_hop_latency` and `hop_latency` of `ipu_link` in the machine",
    "halved_collective_size": "remove it; methods of collectives follow from links, IPUs and bytes",
    "gateway_hops": "remove it; gateways pass on fragments of `gw_link.fragment_size` in the machine",
}
"""Keys of software stacks up to 0.8.0, and their replacements."""
_MOST_PATHS: Final = 2
_LENGTHS = {"too_short": ("min_length", "few", "{} or more"), "too_long": ("max_length", "many", "{} or fewer")}


def problems_of(error: ValidationError, document: Document, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield one problem for each error, in the order of the file."""
    for finding in error.errors(include_url=False):
        path = _data_path(document.data, finding["loc"])
        yield _problem(finding, path, document, model)


def _data_path(data: Any, location: tuple[int | str, ...]) -> KeyPath:
    """Return the key path of pydantic's location, which also names alternatives of unions."""
    path: list[int | str] = []
    for part in location:
        items = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(items, dict) and part in items:
            data = items[part]
        elif part != location[-1] or not isinstance(data, dict):  # name of an alternative of a union
            continue
        path.append(part)
    return tuple(path)


def _problem(finding: Any, path: KeyPath, document: Document, model: type[BaseModel]) -> Problem:
    kind = finding["type"]
    if kind == "missing":
        return _missing_key(path, document, model)
    if kind == "extra_forbidden":
        owner = _model_at(model, path[:-1])
        if owner is Software and (cure := _NO_LONGER_KEYS.get(str(path[-1]))):
            return Problem(document.where(path), _dotted(path[:-1]), f"`{path[-1]}` is no longer a key", cure)
        known = _keys(owner)
        do = known_here(str(path[-1]), known, meant=_meant_key(path, known, model))
        message = f"unknown key `{path[-1]}`"
        return Problem(document.where(path), _dotted(path[:-1]), message + _elsewhere(path, model), do)
    return Problem(document.where(path), _dotted(path), *_wrong_value(kind, finding["input"], finding.get("ctx", {})))


def _elsewhere(path: KeyPath, model: type[BaseModel]) -> str:
    """Return where an unknown key belongs, in words: to other activities or explicit layouts; or an empty text."""
    from podsim.scenario.families.registry import activities_with
    from podsim.scenario.scenario import Scenario

    activities = activities_with(lambda form: str(path[-1]) in _keys(_model_at(form, path[:-1])))
    if activities and _AUTO in _keys(_model_at(model, path[:-1])):
        return f" beside `{_AUTO}`: it belongs to a division that is given whole"
    if not issubclass(model, Scenario):
        return ""
    if not activities or model.activity in activities:
        return ""
    return f" in {model.activity.label}; it belongs to {' and '.join(activity.label for activity in activities)}"


def _meant_key(path: KeyPath, known: Sequence[str], model: type[BaseModel]) -> str:
    """Return the key that a synonym means, or the one or two other key paths with this name, or an empty text."""
    written = str(path[-1])
    names = (written, *_SYNONYMS.get(written.casefold(), ()))
    if synonyms := [name for name in names if name in known]:
        return synonyms[0]
    similar = nearest(written, known)
    if similar and sorted(similar) == sorted(written):
        return ""
    places = [place for name in names for place in _key_paths(model, name)]
    if path[0] in (written, "system") and written in PARAMETERS:
        places += [tuple(key.split(".")) for key in PARAMETERS[written]]
    below = [place for place in places if place[: len(path) - 1] == path[:-1]]
    key_paths = list(dict.fromkeys(below or places))
    return "` or `".join(map(_dotted, key_paths)) if len(key_paths) <= _MOST_PATHS else ""


def _key_paths(model: type[BaseModel], name: str, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield the key paths of a model that end in `name`, without keys inside lists."""
    for key, attribute in keys_of(model).items():
        annotation = model.model_fields[attribute].annotation
        inner = _model_in(annotation) if get_origin(annotation) not in (list, tuple, Sequence) else None
        if key == name:
            yield (*path, key)
        elif inner is not None:
            yield from _key_paths(inner, name, (*path, key))


def _dotted(path: KeyPath) -> str:
    return ".".join(map(str, path))


def _missing_key(path: KeyPath, document: Document, model: type[BaseModel]) -> Problem:
    owner, key = _model_at(model, path[:-1]), str(path[-1])
    names = keys_of(owner) if owner else {}
    meaning = field_docs(owner).get(names.get(key, ""), "").rstrip(".") if owner else ""
    do = f"add `{key}:` ({meaning})" if meaning else f"add `{key}:`"
    return Problem(document.where(path[:-1]), _dotted(path[:-1]), f"key `{key}` is missing", do)


def _wrong_value(kind: str, value: Any, context: Any) -> tuple[str, str | None]:
    """Return the problem of a value, and the cure."""
    if kind == "value_error":
        return str(context["error"]), getattr(context["error"], "do", None)
    if kind == "literal_error":
        return _wrong_choice(value, context["expected"].replace("'", "`"))
    if kind in _BOUNDS:
        name, what, do = _BOUNDS[kind]
        return f"{quoted(value)} is {what}", do.format(f"{context[name]:.13g}")
    if kind in _LENGTHS:
        name, what, do = _LENGTHS[kind]
        return f"has too {what} entries: {len(value)}", f"write {do.format(context[name])}"
    if kind == "finite_number":
        return f"{quoted(value)} is not a finite number", "write for example `0.5`"
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        return f"needs text, not {quoted(value)}", f'put it in quotes, `"{quoted(value).strip("`")}"`'
    needs, cure = _NEEDS.get(kind, ("another value", "see the reference of scenario files"))
    return f"needs {needs}, not {quoted(value)}", cure


def _wrong_choice(value: Any, expected: str) -> tuple[str, str]:
    choices = expected.split("`")[1::2]
    if len(choices) < 2:
        return f"needs {expected}, not {quoted(value)}", f"write {expected}"
    close = nearest(str(value), choices)
    return f"{quoted(value)} is not one of {expected}", f"did you mean `{close}`?" if close else "write one of them"


def _keys(model: type[BaseModel] | None) -> list[str]:
    return list(keys_of(model)) if model else []


def _model_at(model: type[BaseModel] | None, path: KeyPath) -> type[BaseModel] | None:
    for part in path:
        if model is None or isinstance(part, int):
            continue
        name = keys_of(model).get(part)
        model = _model_in(model.model_fields[name].annotation) if name else None
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the first model in an annotation, through unions and lists."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        if model := _model_in(argument):
            return model
    return None
