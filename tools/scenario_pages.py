"""Pages of docs/reference about the keys of scenarios: one for each activity, one for each topic that they share.

A table that scenarios of several kinds have is printed once, and says of which kinds it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from podsim.scenario import part_schema
from tools.key_tables import BELOW, HEADER, NOTE, QUANTITIES, KeyRow, family_of, rows_of

_TRAINING, _FORWARD, _GENERATION, _SERVING = "training", "forward passes", "text generation", "serving"
_KINDS = {
    "bert_training": (_TRAINING, "BERT"),
    "decoder_training": (_TRAINING, "decoders"),
    "vision_training": (_TRAINING, "vision transformers"),
    "seq2seq_training": (_TRAINING, "encoder-decoders"),
    "convnet_training": (_TRAINING, "convolutional networks"),
    "molecules_training": (_TRAINING, "molecular graphs"),
    "bert_forward": (_FORWARD, "BERT"),
    "decoder_forward": (_FORWARD, "decoders"),
    "vision_forward": (_FORWARD, "vision transformers"),
    "seq2seq_forward": (_FORWARD, "encoder-decoders"),
    "graph_forward": (_FORWARD, "graphs"),
    "decoder_generation": (_GENERATION, "decoders"),
}
_TRANSFORMERS, _TOGETHER = ["BERT", "decoders", "vision transformers", "encoder-decoders"], "transformers"
_INDEX = "scenario"
_PAGES = {
    "training": ("Scenarios of training", "Weight updates, and the run that they make up."),
    "forward": (
        "Scenarios of forward passes",
        "Classification, embeddings, and any graph: batches go in, answers come out.",
    ),
    "generation": ("Scenarios of text generation", "Prompts go in, tokens come out."),
    "serving": (
        "Scenarios of serving",
        "Requests over time: what a scenario of text generation has more for `podsim serve`.",
    ),
    "models": ("Models in scenarios", "`model.kind` says which family it is."),
    "data": ("Data in scenarios", "What goes into a model."),
    "parallelism": (
        "Parallelism in scenarios",
        "How a model is divided over IPUs; `parallelism: auto` has podsim choose.",
    ),
    "memory": ("Memory and precision in scenarios", "What lies where on a chip, and in which formats."),
    "hardware": (
        "Hardware in scenarios",
        "`system` and `software` name [hardware files](hardware.md) and [software files](software.md), or change some\n"
        "of their keys. What is slower than it should be, and what it costs, stands in the scenario itself.",
    ),
}
"""Title and introduction of each page; its name begins with that of the index."""
_ACTIVITY_PAGES = {_TRAINING: "training", _FORWARD: "forward", _GENERATION: "generation"}
_TOPICS = {
    "serving": "serving",
    "model": "models",
    "data": "data",
    "parallelism": "parallelism",
    "memory": "memory",
    "precision": "memory",
    "cost": "hardware",
    "faults": "hardware",
}
"""Pages of the mappings that have one; the others stand with the activities that have them."""

_schema = cache(part_schema)


@dataclass
class _Part:
    """A mapping within scenarios: one table, and the kinds of scenarios that have it."""

    path: str
    family: str
    description: str
    rows: list[KeyRow]
    kinds: list[str] = field(default_factory=list)
    title: str = ""

    @property
    def page(self) -> str:
        """The page of its topic, or else of the first activity that has it."""
        return _TOPICS.get(self.path.partition(".")[0]) or _ACTIVITY_PAGES[_KINDS[self.kinds[0]][0]]


def scenario_pages() -> dict[str, str]:
    """Name of each page about scenarios and its text."""
    parts = _parts()
    made = {f"{_INDEX}.md": _index(parts)}
    for page, (title, intro) in _PAGES.items():
        lines = [NOTE, f"\n# {title}\n", intro, ""]
        for activity, name in _ACTIVITY_PAGES.items():
            if name == page:
                lines += _activity(activity, parts)
        for part in (part for part in parts if part.page == page):
            lines += _section(part, parts)
        made[f"{_INDEX}_{page}.md"] = "\n".join(lines).rstrip() + "\n"
    return made


def _parts() -> list[_Part]:
    """Return every mapping below the keys of a scenario; equal mappings of several kinds are merged."""
    found: dict[tuple[str, ...], _Part] = {}
    for kind in _KINDS:
        schema = _schema(kind)
        for path, mapping in _below(schema, schema["$defs"], ""):
            rows = rows_of(mapping, schema["$defs"])
            new = _Part(path, family_of(mapping), mapping.get("description", ""), rows)
            part = found.setdefault((new.path, new.family, new.description, *(row.text() for row in rows)), new)
            if kind not in part.kinds:
                part.kinds.append(kind)
    parts = list(found.values())
    for part in parts:
        heading = f"`{part.path}`{part.family}"
        same = [each for each in parts if (each.path, each.family) == (part.path, part.family)]
        part.title = f"{heading}, {_label(part.kinds)}" if len(same) > 1 else heading
    return parts


def _below(schema: dict[str, Any], definitions: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each mapping below another with its path, parents first."""
    for row in rows_of(schema, definitions):
        for part in row.inner:
            inner = f"{path}.{row.key}" if path else row.key
            yield inner, part
            yield from _below(part, definitions, inner)


def _label(kinds: Iterable[str]) -> str:
    """Return text for kinds of scenarios: activities, with the models unless all are meant."""
    models: dict[str, list[str]] = {}
    for kind in kinds:
        activity, model = _KINDS[kind]
        models.setdefault(activity, []).append(model)
    activities: dict[tuple[str, ...], list[str]] = {}
    for activity, found in models.items():
        whole = [model for each, model in _KINDS.values() if each == activity]
        shown = (
            []
            if found == whole
            else [_TOGETHER, *found[len(_TRANSFORMERS) :]]
            if found[: len(_TRANSFORMERS)] == _TRANSFORMERS
            else found
        )
        activities.setdefault(tuple(shown), []).append(activity)
    texts = [_listed(named) + (f" of {_listed(list(shown))}" if shown else "") for shown, named in activities.items()]
    return _listed(texts)


def _listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _activity(activity: str, parts: list[_Part]) -> Iterator[str]:
    """Yield the keys of an activity's scenarios; a row that only some kinds have names them."""
    kinds = [kind for kind, (each, _) in _KINDS.items() if each == activity]
    rows: dict[tuple[str, str], list[str]] = {}
    for kind in kinds:
        schema = _schema(kind)
        for row in rows_of(schema, schema["$defs"]):
            rows.setdefault((row.key, row.text()), []).append(kind)
    shown: dict[str, list[str]] = {}
    for (key, text), having in rows.items():
        inner = [part for part in parts if part.path == key and set(part.kinds) & set(having)]
        note = "" if having == kinds else f" For {_label(having)}."
        shown.setdefault(key, []).append(text.replace(BELOW, _links(inner)).removesuffix(" |") + f"{note} |")
    yield f"## Keys of a scenario of {activity}\n"
    yield HEADER
    yield from (text for texts in shown.values() for text in texts)


def _section(part: _Part, parts: list[_Part]) -> Iterator[str]:
    """Yield the keys of a mapping."""
    yield f"\n## {part.title}\n"
    if part.description:
        yield f"{part.description}\n"
    if _label(part.kinds) not in part.title:
        yield f"In scenarios of {_label(part.kinds)}.\n"
    yield HEADER
    for row in part.rows:
        path = f"{part.path}.{row.key}"
        inner = [each for each in parts if each.path == path and set(each.kinds) & set(part.kinds)]
        yield row.text().replace(BELOW, _links(inner))


def _links(parts: list[_Part]) -> str:
    """Return links to the keys of the mappings that a key allows."""
    targets = [f"{_INDEX}_{part.page}.md#{_anchor(part.title)}" for part in parts]
    if len(parts) == 1:
        return f"[mapping]({targets[0]})"
    names = [part.title.replace(f"`{part.path}`", "").removeprefix(",").strip() for part in parts]
    return "mapping: " + ", ".join(f"[{name}]({target})" for name, target in zip(names, targets, strict=True))


def _anchor(title: str) -> str:
    """Return the link target of a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _index(parts: list[_Part]) -> str:
    """Return the index of keys by page."""
    lines = [
        NOTE,
        "\n# Scenario files\n",
        "One question per file. Templates have every key with a comment:\n"
        "[one](../../scenarios/template.yaml) for BERT, [one](../../scenarios/image_template.yaml) for images.",
        "",
        QUANTITIES,
        "\nEach activity has a page with the keys of its scenarios; what several of them share has pages of its own.\n",
        "| page | keys |\n|---|---|",
    ]
    for page, (title, _) in _PAGES.items():
        mappings = dict.fromkeys(part.path for part in parts if part.page == page)
        keys = ", ".join(f"`{path}`" for path in mappings)
        whole = [activity for activity, name in _ACTIVITY_PAGES.items() if name == page]
        told = [f"all of a scenario of {whole[0]}"] if whole else []
        lines.append(f"| [{title}]({_INDEX}_{page}.md) | {'; '.join([*told, keys])} |")
    return "\n".join(lines) + "\n"
