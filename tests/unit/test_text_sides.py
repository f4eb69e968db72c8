"""Texts of charts stand on the side of their marks where there is room."""

from __future__ import annotations

from dataclasses import replace

import pytest
from matplotlib.text import Annotation

import podsim
from podsim.report.chart import Axis, Bar, Bars, Chart, Curves, Fill, Mark, TextPlace
from podsim.result.base import tornado_sheet
from podsim.show.matplotlib_charts import figure_of
from podsim.show.vega_charts import vega_spec
from tests.unit.page_examples import answer


@pytest.mark.parametrize(
    ("start", "end", "inside", "side", "at", "align", "shift"),
    [
        (0, 10, False, "right", 10, "left", 5),
        (70, 100, False, "left", 70, "right", -5),
        (100, 70, False, "left", 70, "right", -5),
        (0, 90, False, "inside", 45, "center", 0),
        (40, 50, True, "inside", 45, "center", 0),
        (-50, 10, False, "right", 10, "left", 5),
        (90, 150, False, "left", 90, "right", -5),
        (0, 62, False, "right", 62, "left", 5),
        (38, 63, False, "left", 38, "right", -5),
        (37, 63, False, "inside", 50, "center", 0),
    ],
)
def test_the_text_of_a_bar_in_a_page(
    start: float, end: float, inside: bool, side: str, at: float, align: str, shift: int
) -> None:
    """On an axis from 0 to 100, of which bars may show a part; beyond 62 there is no room on the right."""
    bar = Bar("row", start, end, Fill("#000000"), "text", TextPlace.INSIDE if inside else TextPlace.BESIDE)
    spec = vega_spec(Chart("title", "description", Bars([bar], Axis("axis", ends=(0, 100)))))
    (value,) = spec["data"]["values"]
    assert (value["side"], value["at"]) == (side, at)
    (layer,) = (each for each in spec["layer"] if each["mark"]["type"] == "text")
    assert (layer["mark"]["align"], layer["mark"]["dx"]) == (align, shift)
    assert layer["transform"][0]["filter"].startswith(f"datum.side === '{side}'")
    assert layer["encoding"]["x"]["field"] == "at"


def test_changes_of_a_tornado_stand_outside_of_their_bars() -> None:
    figure = figure_of(tornado_sheet(podsim.run("bert_v1.1_pod16_open")))
    (axes,) = (axes for part in figure.subfigs for axes in part.axes)
    notes = [text for text in axes.texts if isinstance(text, Annotation)]
    assert {note.xy[0] >= 0 for note in notes} == {True, False}
    for note in notes:
        wanted = ("left", (4, 0)) if note.xy[0] >= 0 else ("right", (-4, 0))
        assert (note.get_horizontalalignment(), note.xyann) == wanted
        assert note.get_text() == "0.0 %" or note.get_text().startswith("-" if note.xy[0] < 0 else "+")
    assert sorted(note.xy[0] for note in notes) == sorted(bar.get_width() for bar in axes.patches)


def test_the_letter_of_the_second_window_stands_to_its_right() -> None:
    """Of windows that lie close together at the start of a long update; others stand in the middle."""
    figure = figure_of(podsim.simulate("bert_v1.1_pod16_open", record=True).report().sheet())
    overview = figure.axes[0]
    letters = {text.get_text(): text for text in overview.texts if text.get_text() in ("A", "B", "C")}
    assert [letters[name].get_horizontalalignment() for name in "ABC"] == ["center", "left", "center"]
    spans = [patch.get_extents() for patch in overview.patches if patch.get_alpha() == 0.3]
    across = [overview.transData.inverted().transform(span)[:, 0] for span in spans]
    places = [letters[name].get_position()[0] for name in "ABC"]
    assert places == pytest.approx([across[0].mean(), across[1].max(), across[2].mean()])


def test_names_of_options_at_the_right_end_stand_to_their_left() -> None:
    """Of three options, at an MFU of 0.2, 0.2 and 0.3, of which the last has no room on its right."""
    (axes,) = figure_of(answer().report().sheet()).axes
    notes = [text for text in axes.texts if isinstance(text, Annotation)]
    sides = sorted((note.xy[0], note.get_horizontalalignment(), note.xyann[0] > 0) for note in notes)
    assert sides == [(0.2, "left", True), (0.2, "left", True), (0.3, "right", False)]


def test_the_line_of_the_front_is_what_some_option_reaches() -> None:
    """An MFU of 0.25 at least is reached in 1 s, and none of 0.2 in less than 0.5 s: it goes up before it goes on."""
    (chart,) = answer().report().sheet().rows[0]
    assert isinstance(chart.drawn, Curves)
    front = chart.drawn.series[0]
    assert (front.mark, front.x, front.y) == (Mark.STEPS_BEFORE, [0.2, 0.3], [0.5, 1.0])
    line = figure_of(answer().report().sheet()).axes[0].lines[0]
    assert line.get_drawstyle() == "steps-pre"
    spec = vega_spec(chart)
    assert [each["mark"].get("interpolate") for each in spec["layer"]] == ["step-before", None]


def test_two_options_are_bars_since_two_points_have_no_shape() -> None:
    found = answer()
    two = replace(found, ruled_out=found.ruled_out[1:])
    (chart,) = two.report().sheet().rows[0]
    assert isinstance(chart.drawn, Bars)
    # The figure that counts, a weight update: 0.5 s on 64 IPUs and 1 s on 16.
    assert [(bar.row, bar.text) for bar in chart.drawn.bars] == [
        (option.label, text) for option, text in zip(two.ranked, ("500 ms", "1 s"), strict=True)
    ]
    titles = [{section.title for section in each.report().sections} for each in (found, two)]
    assert titles[0] - titles[1] == {"Weighed"}
