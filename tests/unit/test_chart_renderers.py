"""A chart that is made once shows the same numbers in a file and on a page."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PathCollection
from matplotlib.patches import Rectangle

from podsim.report.chart import (
    FASTER,
    SLOWER,
    Axis,
    Bar,
    Bars,
    Chart,
    Curves,
    Key,
    Mark,
    Series,
    Sheet,
    Study,
    StudyPlot,
    TextPlace,
    TimelineBar,
    TimelineChart,
    TimelineStretch,
    band,
    in_proportion,
)
from podsim.result.kinds import FAMILIES, KINDS, fill_of_kind
from podsim.show.matplotlib_charts import PLAIN, figure_of
from podsim.show.vega_charts import vega_spec


def axes_of(drawn: Bars | Curves | TimelineChart | Study, **more: Any) -> list[Axes]:
    """The axes of a chart in a file, laid out."""
    figure = figure_of(Sheet("A title", [[Chart("One of them", "A chart by hand.", drawn, **more)]]))
    FigureCanvasAgg(figure).draw()
    return list(figure.axes)


def values_of(drawn: Bars | Curves | TimelineChart | Study) -> list[dict[str, Any]]:
    """The data of a chart on a page."""
    values: list[dict[str, Any]] = vega_spec(Chart("One of them", "A chart by hand.", drawn))["data"]["values"]
    return values


def test_bars_begin_and_end_alike() -> None:
    bars = [Bar("a", 1, 4, FASTER), Bar("a", 4, 6, SLOWER), Bar("b", 8, 5, FASTER, "-3 s", TextPlace.BEYOND)]
    drawn = Bars(bars, Axis("time", "s", (0, 10)), {"limit": 9.0})
    (axes,) = axes_of(drawn)
    rectangles = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    assert [(rectangle.get_x(), rectangle.get_x() + rectangle.get_width()) for rectangle in rectangles] == [
        (1, 4),
        (4, 6),
        (8, 5),
    ]
    assert [(each["start"], each["end"]) for each in values_of(drawn)] == [(1, 4), (4, 6), (8, 5)]
    heights = [rectangle.get_y() + rectangle.get_height() / 2 for rectangle in rectangles]
    assert heights == pytest.approx([0, 0, 1])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is on top
    spec = vega_spec(Chart("", "", drawn))
    assert spec["encoding"]["y"]["sort"] == ["a", "b"]
    assert axes.get_xlabel() == spec["layer"][0]["encoding"]["x"]["axis"]["title"] == "time [s]"
    assert list(axes.get_xlim()) == spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0, 10]
    assert axes.lines[0].get_xdata()[0] == spec["layer"][-1]["data"]["values"][0]["at"] == 9  # type: ignore[index]
    # Beyond its end, which is at the left, and not beside 8 where there would be room.
    (text,) = axes.texts
    assert (text.xy[0], text.get_horizontalalignment()) == (5, "right")  # type: ignore[attr-defined]
    assert (values_of(drawn)[2]["at"], values_of(drawn)[2]["side"]) == (5, "left")


def test_curves_go_through_the_same_points() -> None:
    series = [
        Series("line", Mark.LINE, [1, 2, 4], [3, 5, 9], "#1b6ca8", (6, 3), "square"),
        Series("points", Mark.POINTS, [2, 3], [7, 8], "#e6750f", (), "diamond"),
    ]
    drawn = Curves(series, Axis("rate", "1/s", (0, 5)), Axis("time", "ms"), {"saturation": 4.5, "asked for": 2.5})
    (axes,) = axes_of(drawn)
    line, points, *rules = axes.lines
    assert [tuple(map(float, at)) for at in line.get_xydata()] == [(1, 3), (2, 5), (4, 9)]  # type: ignore[union-attr]
    assert (line.get_marker(), points.get_marker(), points.get_linestyle()) == ("s", "D", "None")
    assert [(each["x"], each["y"]) for each in values_of(drawn)] == [(1, 3), (2, 5), (4, 9), (2, 7), (3, 8)]
    assert [rule.get_xdata()[0] for rule in rules] == [4.5, 2.5]  # type: ignore[index]
    assert [text.get_text().strip() for text in axes.texts] == ["saturation", "asked for"]
    spec = vega_spec(Chart("", "", drawn))
    assert [each["data"]["values"][0]["at"] for each in spec["layer"][-2:]] == [4.5, 2.5]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_ylim()[0]) == ("rate [1/s]", "time [ms]", 0)
    shape = spec["layer"][1]["encoding"]["shape"]["scale"]
    assert dict(zip(shape["domain"], shape["range"], strict=True)) == {"line": "square", "points": "diamond"}


def test_stretches_have_areas_below_and_lines_at_their_heights() -> None:
    """From 0 to 2 there are 3, from 2 to 3 there is 1."""
    series = [
        Series("most", Mark.AREA, [0, 2, 3], [3, 1], "#9cc3e4"),
        Series("mean", Mark.LEVELS, [0, 2, 3], [2, 1], "#08306b"),
    ]
    drawn = Curves(series, Axis("time", "s", (0, 3)), Axis("requests", ends=(0, 4)))
    (axes,) = axes_of(drawn)
    area, levels = (patch.get_data() for patch in axes.patches)  # type: ignore[attr-defined]
    assert (list(area.values), list(area.edges), list(levels.values)) == ([3, 1], [0, 2, 3], [2, 1])
    assert [(each["mark"], each["x"], each["end"], each["y"]) for each in values_of(drawn)] == [
        ("area", 0, 2, 3),
        ("area", 2, 3, 1),
        ("levels", 0, 2, 2),
        ("levels", 2, 3, 1),
    ]


def test_a_timeline_has_a_window_for_each_stretch() -> None:
    """A window from 2 to 5 shows one of two operations, cut to it, and where the second part begins."""
    pieces = [
        TimelineBar("IPU 0", 0, 4, fill_of_kind("matmul"), "layer", "matmul", "4 ms"),
        TimelineBar("IPU 0", 4, 10, fill_of_kind("host"), "call", "host", "6 ms"),
        TimelineBar("IPU 1", 0, 10, fill_of_kind("bubble"), "wait", "bubble", "10 ms"),
    ]
    parts = [TimelineStretch("fill", 0, 4), TimelineStretch("host", 4, 10)]
    stretches = [
        TimelineStretch("All of it", 0, 10),
        TimelineStretch("Start: fill", 0, 2),
        TimelineStretch("End: host", 2, 5),
    ]
    drawn = TimelineChart("update", ["IPU 0", "IPU 1"], pieces, Axis("time", "ms"), parts, stretches)
    overview, start, end = axes_of(drawn)
    assert [overview.get_xlim(), start.get_xlim(), end.get_xlim()] == [(0, 10), (0, 2), (2, 5)]
    assert [axes.get_title(loc="left") for axes in (start, end)] == ["A   Start: fill", "B   End: host"]
    shown = sorted(
        (box.x0, box.x1)
        for collection in end.collections
        for path in collection.get_paths()
        for box in [path.get_extents()]
    )
    assert shown == [(2, 4), (2, 5), (4, 5)]
    assert [line.get_xdata()[0] for line in end.lines] == [4]  # type: ignore[index]
    assert [(each["start"], each["end"], each["what"]) for each in values_of(drawn)] == [
        (0, 4, "layer"),
        (4, 10, "call"),
        (0, 10, "wait"),
    ]


def study(plot: StudyPlot, *keys: Key, figures: list[float | None]) -> Study:
    statuses = ["done" if value is not None else "does not fit" for value in figures]
    return Study(plot, keys, Axis("rate", "samples/s"), figures, range(len(figures)), statuses)


CLOCK = Key("clock", Axis("clock", "GHz"), ["1", "2"], [1.0, 2.0], [0, 1, 0, 1])
LINK = Key("link", Axis("link", "GB/s"), ["8", "16"], [8.0, 16.0], [0, 0, 1, 1])
WORDS = Key("words", Axis("words"), ["layer", "none"], [], [0, 0, 1, 1])
FIGURES: list[float | None] = [10.0, 20.0, 30.0, None]


def test_a_band_lies_between_its_ends() -> None:
    """The first and the last of three points have a range; of 10 at 2, 30 at 6 is in proportion."""
    ends = [(8.0, 12.0), None, (20.0, 30.0)]
    series = [*band("80 %", [1, 2, 3], ends, "#1b6ca8"), in_proportion("ideal", [2, 3, 6], [10, 15, 25])]
    drawn = Curves(series, Axis("IPUs", is_log=True, ticks=[1, 3]), Axis("rate", is_log=True))
    (axes,) = axes_of(drawn)
    (area,) = axes.collections
    corners = {tuple(map(float, corner)) for corner in area.get_paths()[0].vertices}  # type: ignore[union-attr]
    assert corners == {(1, 8), (1, 12), (3, 20), (3, 30)}
    assert [(each["x"], each["y"], each.get("to")) for each in values_of(drawn)] == [
        *((1, 8, 12), (3, 20, 30)),
        *((2, 10, None), (6, 30, None)),
    ]
    assert vega_spec(Chart("", "", drawn))["layer"][0]["encoding"]["y2"] == {"field": "to"}
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "3"]
    assert band("80 %", [1, 2, 3], [None, (1, 2), None], "#1b6ca8") == []


def test_numbers_of_axes_are_written_out_and_apart() -> None:
    """1.302e+06 on no axis; of ticks at 1, 1.01 and 2 the second would lie on the first."""
    assert [PLAIN(value, 0) for value in (0.25, 13020.4, 1302040.0, 2.5e9)] == [
        *("0.25", "13,020.4", "1,302,040", "2,500,000,000"),
    ]
    line = Series("", Mark.LINE, [1, 1.01, 2], [1, 2, 3], "#1b6ca8")
    (axes,) = axes_of(Curves([line], Axis("a", from_zero=False, ticks=[1, 1.01, 2]), Axis("b")))
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2"]


def test_of_points_that_meet_in_a_cell_the_best_is_shown() -> None:
    """Two points at 1 GHz and 8 GB/s: 10 and 40 samples/s. Where less is better, it is 10."""
    clock = Key("clock", CLOCK.axis, CLOCK.values, CLOCK.numbers, [*CLOCK.at, 0])
    link = Key("link", LINK.axis, LINK.values, LINK.numbers, [*LINK.at, 0])
    drawn = study(StudyPlot.HEAT_MAP, link, clock, figures=[*FIGURES, 40.0])
    axes, _ = axes_of(drawn)
    texts = {text.get_position(): text.get_text() for text in axes.texts}
    assert texts == {(0, 0): "40", (1, 0): "20", (0, 1): "30", (1, 1): "–"}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("clock [GHz]", "link [GB/s]")
    spec = vega_spec(Chart("", "", drawn))
    assert spec["encoding"]["y"]["sort"] == ["16", "8"]  # from above: the first key goes upwards, as in the file
    assert (spec["encoding"]["x"]["sort"], spec["encoding"]["x"]["title"]) == (["1", "2"], "clock [GHz]")
    tips = spec["layer"][1]["encoding"]["tooltip"]
    assert [(tip["field"], tip["title"]) for tip in tips[:2]] == [("k0", "link [GB/s]"), ("k1", "clock [GHz]")]
    low, high = (axes.transData.transform((0, place))[1] for place in (0, 1))
    assert low < high  # in pixels from the foot of the figure
    least = replace(drawn, more_is_better=False)
    texts = {text.get_position(): text.get_text() for text in axes_of(least)[0].texts}
    assert texts[0, 0] == "10"
    # A page draws one over the other: the last is seen.
    assert [each["figure"] for each in values_of(drawn) if (each["k0"], each["k1"]) == ("8", "1")] == [10, 40]
    assert [each["figure"] for each in values_of(least) if (each["k0"], each["k1"]) == ("8", "1")] == [40, 10]


def test_maps_of_a_third_key_have_one_scale() -> None:
    third = Key("c", Axis("c"), ["x", "y"], [], [0, 0, 1, 1])
    maps = [axes for axes in axes_of(study(StudyPlot.HEAT_MAP, LINK, CLOCK, third, figures=FIGURES)) if axes.images]
    assert [axes.get_title() for axes in maps] == ["c x", "c y"]
    assert {axes.images[0].get_clim() for axes in maps} == {(10, 30)}


def test_dots_and_parallel_axes_have_each_point_at_its_values() -> None:
    axes, _ = axes_of(study(StudyPlot.DOTS, LINK, CLOCK, figures=FIGURES))
    (dots,) = (collection for collection in axes.collections if isinstance(collection, PathCollection))
    assert [tuple(map(float, at)) for at in dots.get_offsets()] == [(1, 8), (2, 8), (1, 16)]  # type: ignore[union-attr]
    assert [float(at) for line in axes.lines for at in (*line.get_xdata(), *line.get_ydata())] == [2, 16]
    axes, _ = axes_of(study(StudyPlot.PARALLEL, LINK, CLOCK, WORDS, figures=FIGURES))
    assert [list(line.get_ydata()) for line in axes.lines[:3]] == [[0, 0, 0], [0, 1, 0], [1, 0, 1]]
    values = values_of(study(StudyPlot.PARALLEL, LINK, CLOCK, WORDS, figures=FIGURES))
    assert [(value["p0"], value["p1"], value["p2"]) for value in values] == [(1, 1, 1), (0, 0, 0), (0, 1, 0), (1, 0, 1)]


def test_families_of_kinds_are_hatched_apart_in_files() -> None:
    """On paper printed in grey; one family is plain, and the others differ."""
    bars = [Bar(kind.name, 0, 1, fill_of_kind(kind.name)) for kind in KINDS]
    (axes,) = axes_of(Bars(bars, Axis("share", ends=(0, 1))))
    found = [(kind.family, patch.get_hatch()) for kind, patch in zip(KINDS, axes.patches, strict=True)]
    hatches = {family: {hatch for of, hatch in found if of == family} for family in FAMILIES}
    assert all(len(hatch) == 1 for hatch in hatches.values())
    assert all(one.isdisjoint(other) for one, other in combinations(hatches.values(), 2))


def test_a_bar_too_narrow_for_its_hatch_has_none() -> None:
    (axes,) = axes_of(Bars([Bar("a", 0, 0.01, SLOWER), Bar("a", 0.01, 1, SLOWER)], Axis("share", ends=(0, 1))))
    assert [patch.get_hatch() for patch in axes.patches] == [None, "////"]
