"""Pages of docs/reference about scenarios: every key is on one of them, tables that are the same are printed once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from podsim.scenario import part_schema
from podsim.scenario.families.registry import forms
from tools.key_tables import rows_of
from tools.scenario_pages import scenario_pages

pages = cache(scenario_pages)
KINDS = {"training": "scenario_training.md", "forward": "scenario_forward.md", "generation": "scenario_generation.md"}


def keys(schema: dict[str, Any], definitions: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Path of each mapping and each of its keys."""
    for row in rows_of(schema, definitions):
        yield path, row.key
        for part in row.inner:
            yield from keys(part, definitions, f"{path}.{row.key}".lstrip("."))


def tables() -> Iterator[tuple[str, str, str]]:
    """Page, path of the mapping that the heading names, and key of each row."""
    for page, text in pages().items():
        for heading, section in re.findall(r"^## (.+)\n((?:(?!## ).*\n)*)", text, re.MULTILINE):
            path = re.match(r"`([\w.]+)`", heading)
            for key in re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE):
                yield page, path[1] if path else "", key


def test_every_key_of_every_kind_of_scenario_is_on_a_page() -> None:
    shown = {(path, key) for _, path, key in tables()}
    assert len(forms()) > 10
    for kind in forms():
        schema = part_schema(kind)
        assert set(keys(schema, schema["$defs"])) <= shown, kind
        own = {key for page, path, key in tables() if not path and page == KINDS[kind.rpartition("_")[2]]}
        assert {row.key for row in rows_of(schema, schema["$defs"])} <= own, kind


def test_no_table_is_printed_twice() -> None:
    found = [section for text in pages().values() for section in text.split("\n## ")[1:]]
    bodies = [section.partition("| key |")[2] for section in found]
    assert len(set(bodies)) == len(bodies)


def test_a_row_that_some_scenarios_have_says_which() -> None:
    text = pages()["scenario_forward.md"]
    (row,) = re.findall(r"^\| `forward` \|.+$", text, re.MULTILINE)
    assert row.endswith("For forward passes of transformers. |")
