"""The page of a comparison: metrics, waterfalls from one result to another, and what differs in the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_uppercase
from typing import Final

from podsim._version import __version__
from podsim.many.compare import Comparison
from podsim.many.compare.cells import input_cells, metric_cells, waterfall_cells
from podsim.many.compare.difference import SAME, Difference, Row, Waterfall
from podsim.many.compare.wording import change_of, change_of_row, duration_of_ps, value_of, verdict_of
from podsim.pages.charts import Span, spans_chart
from podsim.pages.parts import Block, Chart, Folded, Grid, Page, Section, Tile, in_title
from podsim.pages.patterns import FASTER, SLOWER, TOTAL, fill_of, legend_of
from podsim.pages.time_charts import unit_for_s
from podsim.result.kinds import kind_of
from podsim.units import ps_to_seconds

_PRECISION: Final = 4
_TILES: Final = 4
_SMALL: Final = 0.35
_MARGIN: Final = 0.18
_NUMBERS: Final = {"A", "change", "change [ps]"}
_FILLS: Final = {"less time": fill_of(FASTER), "more time": fill_of(SLOWER)}


def comparison_page(found: Comparison) -> Page:
    """A page of a comparison."""
    sides = list(zip(ascii_uppercase, found.subjects, strict=False))
    notes = [note for each in found.subjects for note in each.notes]
    notes += [note for each in found.differences for note in each.notes]
    return Page(
        title=f"{' and '.join(each.label for each in found.subjects[1:])} against {found.subjects[0].label}",
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
        verdict = f"{letter} is {verdict_of(row)}"
        yield Tile(
            in_title(row.metric.figure.label),
            change_of_row(row, _PRECISION) or second,
            (f"{first} to {second}", verdict),
        )


def _section(each: Difference, letter: str) -> Section:
    changed = _changed(each)
    blocks: list[Block] = []
    if changed:
        blocks.append(_grid(metric_cells(changed, letter, _PRECISION), letter))
    else:
        blocks.append("No metric changed.")
    if len(changed) < len(each.rows):
        same = [row for row in each.rows if row.verdict == SAME]
        blocks.append(
            Folded(f"{len(same)} metrics that are the same", [_grid(metric_cells(same, letter, _PRECISION), letter)])
        )
    blocks += [waterfall_chart(one, letter) for one in each.waterfalls if any(step.change_ps for step in one.steps)]
    blocks += _inputs(each, letter)
    return Section(f"{letter} against A: {each.a.activity}", blocks)


def _grid(cells: Sequence[Sequence[str]], letter: str, title: str = "") -> Grid:
    headers = [f">{header}" if header in {*_NUMBERS, letter} else header for header in cells[0]]
    return Grid(headers, cells[1:], title)


def _inputs(each: Difference, letter: str) -> Iterator[Block]:
    if not each.inputs:
        return
    few, left_out = input_cells(each.inputs, letter, everything=False)
    yield Grid(few[0], few[1:], "What differs in the inputs")
    if left_out:
        cells, _ = input_cells(each.inputs, letter, everything=True)
        yield Folded(f"{left_out} more, with those above", [Grid(cells[0], cells[1:])])


def waterfall_chart(waterfall: Waterfall, letter: str) -> Chart:
    """What each kind of time adds or takes on the way from A to another; it adds up exactly."""
    a_ps, b_ps = waterfall.a_ps, waterfall.b_ps
    scale_s, unit = unit_for_s(ps_to_seconds(max(a_ps, b_ps)))
    change = f", {change_of(b_ps / a_ps - 1, _PRECISION)}" if a_ps else ""
    times = " to ".join(duration_of_ps(each, _PRECISION) for each in (a_ps, b_ps))
    bars = list(_bars(waterfall, letter))
    lowest, highest = ends_of_axis([each for _, *ends, _, _ in bars for each in ends])
    low, high = (ps_to_seconds(each) / scale_s for each in (lowest, highest))
    spans = [
        Span(
            name,
            max(low, ps_to_seconds(start_ps) / scale_s),
            ps_to_seconds(end_ps) / scale_s,
            fill,
            text,
            tip={"what": name, "time": text},
        )
        for name, start_ps, end_ps, fill, text in bars
    ]
    cut = ["The axis does not begin at 0."] if lowest > 0 else []
    cells = waterfall_cells(waterfall, letter, _PRECISION, unchanged=True)
    return Chart(
        title=f"{waterfall.span.capitalize()} from A to {letter}: {times}{change}",
        description=f"Waterfall of the {waterfall.span} from A to {letter}, {times}, by kind of time.",
        spec=spans_chart(spans, f"{waterfall.span} [{unit}]", (low, high)),
        legend=legend_of(_FILLS),
        numbers=_grid([row[:-1] for row in cells], letter),
        notes=cut,
    )


def _bars(waterfall: Waterfall, letter: str) -> Iterator[tuple[str, int, int, str, str]]:
    """Name, start, end, fill and text of each bar: all of A, what changed, all of the other. [ps]"""
    at_ps = waterfall.a_ps
    yield "A", 0, at_ps, fill_of(TOTAL), duration_of_ps(at_ps, _PRECISION)
    for step in waterfall.steps:
        if step.change_ps:
            more = step.change_ps > 0
            text = f"{'+' if more else '-'}{duration_of_ps(abs(step.change_ps), _PRECISION)}"
            fill = _FILLS["more time" if more else "less time"]
            yield kind_of(step.kind).label, at_ps, at_ps + step.change_ps, fill, text
            at_ps += step.change_ps
    yield letter, 0, at_ps, fill_of(TOTAL), duration_of_ps(at_ps, _PRECISION)


def ends_of_axis(edges_ps: list[int]) -> tuple[int, int]:
    """Ends of an axis on which bars are seen that are short beside the whole; it begins at 0 unless they are.

    >>> ends_of_axis([0, 100, 100, 60, 0, 60]), ends_of_axis([0, 1000, 1000, 1020, 0, 1020])
    ((0, 100), (996, 1024))
    """
    reached = [each for each in edges_ps if each]
    low, high = min(reached, default=0), max(reached, default=1)
    room = round((high - low) * _MARGIN)
    return (0, high) if high - low > _SMALL * high or high == low else (max(0, low - room), high + room)
