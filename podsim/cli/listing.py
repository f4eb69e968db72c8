"""The catalogue as text: a line for each entry, its name first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from podsim.errors import PodsimError
from podsim.scenario.catalogue import LISTS, Catalogue, ListedScenario, catalogue


def listing(words: Sequence[str], *, as_json: bool) -> str:
    """All that is shipped, or the entries that contain all words.

    Raises:
        PodsimError: Nothing has.
    """
    found = catalogue().matching(words)
    if not any(getattr(found, each) for each in LISTS):
        what = f"nothing that is shipped has {' and '.join(f'`{word}`' for word in words)} in its name or description"
        raise PodsimError(what, do="use fewer or shorter words; `podsim list` shows all")
    return (json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if as_json else "\n".join(_lines(found))) + "\n"


def _lines(found: Catalogue) -> Iterator[str]:
    sections: dict[str, list[tuple[str, ...]]] = {
        "scenarios": [_scenario(each) for each in found.scenarios],
        "studies": [(each.name, f"podsim {each.command}", each.description) for each in found.studies],
        "systems": [(each.name, each.description) for each in found.systems],
        "software": [(each.name, each.description) for each in found.software],
    }
    for title, rows in sections.items():
        if rows:
            yield f"{title}:"
            yield from _aligned(rows)


def _scenario(each: ListedScenario) -> tuple[str, ...]:
    variants = f"; variants: {', '.join(each.variants)}" if each.variants else ""
    return each.name, each.kind, each.system, each.description + variants


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
