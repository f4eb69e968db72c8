"""The page of a comparison: metrics, waterfalls from one result to another, and what differs in the inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from string import ascii_uppercase
from typing import Final

from podsim._version import __version__
from podsim.format import in_title
from podsim.many.compare import Comparison
from podsim.many.compare.difference import SAME, Difference, Row
from podsim.many.compare.plot import comparison_title, waterfall_chart
from podsim.many.compare.show import change_of_row, input_table, metric_table, value_of, verdict_of
from podsim.report.report import Folded, Part, Report, Section, Tile
from podsim.scenario.wording import counted

_PRECISION: Final = 4
_TILES: Final = 4
_PARTS: Final = re.compile(r"[@:/\\]")
"""Between the folders, the name and the variant of a side."""


def comparison_page(found: Comparison) -> Report:
    """A page of a comparison."""
    sides = list(zip(ascii_uppercase, found.subjects, strict=False))
    notes = [note for each in found.subjects for note in each.notes]
    notes += [note for each in found.differences for note in each.notes]
    return Report(
        title=comparison_title(found),
        about=[f"{letter}: {each.about}" for letter, each in sides],
        version=__version__,
        inputs=found.inputs,
        warnings=[f"({letter}) {text}" for letter, each in sides for text in each.warnings],
        notes=list(dict.fromkeys(notes)),
        tiles=[tile for letter, each in found.lettered() for tile in _tiles(each, letter, len(found.differences))],
        sections=[_section(each, letter) for letter, each in found.lettered()],
    )


def _changed(each: Difference) -> list[Row]:
    return [row for row in each.rows if row.verdict != SAME]


def _tiles(each: Difference, letter: str, count: int) -> Iterator[Tile]:
    """The metrics that changed, as many as have room."""
    for row in _changed(each)[: max(1, _TILES // count)]:
        first, second = (value_of(row.metric, value, _PRECISION) for value in (row.a, row.b))
        variant = _PARTS.split(each.b.label)[-1]
        verdict = f"{letter}, {variant}, is {verdict_of(row)}"
        yield Tile(
            in_title(row.metric.figure.label),
            change_of_row(row, _PRECISION) or second,
            (f"{first} to {second}", verdict),
        )


def _section(each: Difference, letter: str) -> Section:
    changed = _changed(each)
    blocks: list[Part] = []
    if changed:
        blocks.append(metric_table(changed, letter, _PRECISION))
    else:
        blocks.append("No metric changed.")
    if len(changed) < len(each.rows):
        same = metric_table([row for row in each.rows if row.verdict == SAME], letter, _PRECISION)
        blocks.append(Folded(f"{counted(len(same.rows), 'metric')} the same", [same]))
    blocks += [waterfall_chart(one, letter) for one in each.waterfalls if any(step.change_ps for step in one.steps)]
    if each.inputs:
        few, everything = (input_table(each, letter, everything=is_all) for is_all in (False, True))
        blocks.append(replace(few, notes=()))
        if left_out := len(everything.rows) - len(few.rows):
            blocks.append(Folded(f"{left_out} more, with those above", [replace(everything, title="")]))
    return Section(f"{letter} against A: {each.a.activity}", blocks)
