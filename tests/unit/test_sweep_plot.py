"""Charts of studies: what is drawn for which keys, in which units, and where nothing was found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.backend_bases import MouseEvent
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from podsim.many.sweeps.chart_words import quantity
from podsim.many.sweeps.measured import measured_points
from podsim.many.sweeps.plot import study_sheet
from podsim.many.sweeps.run import Swept
from podsim.many.sweeps.space import space_of
from podsim.many.sweeps.spec import MeasuredSpec
from podsim.scenario.document import Document
from podsim.show.matplotlib_charts import PLAIN, figure_of


def drawn(
    monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, Any]], metric: str = "weight_update_s", **study: Any
) -> Figure:
    """The figure of a table that is given, instead of simulated."""
    space = space_of(Document({"kind": "study", "scenario": "template"} | study))
    usual = {"scenario": "template", "variant": None, "status": "done", "reason": None}
    table = [{"point": place} | usual | row for place, row in enumerate(rows)]
    frame = pd.DataFrame(table)
    monkeypatch.setattr(Swept, "to_frame", lambda _self: frame)
    monkeypatch.setattr(Swept, "rows", lambda _self: iter(table))
    swept = Swept(space, Path("t.csv"), len(rows), {"done": len(rows)}, ())
    return figure_of(study_sheet(swept, metric))


def crossed(**keys: list[Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{}]
    for key, values in keys.items():
        rows = [row | {key: value} for row in rows for value in values]
    return [row | {"weight_update_s": 0.5 + place} for place, row in enumerate(rows)]


def test_a_key_of_numbers_is_a_line_and_one_of_words_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    (axes,) = drawn(monkeypatch, crossed(a=["8 GB/s", "16 GB/s"]), keys={"a": ["8 GB/s", "16 GB/s"]}).axes
    assert [tuple(line) for line in axes.lines[0].get_xydata()] == [(8, 0.5), (16, 1.5)]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("a [GB/s]", "weight update [s]")
    (axes,) = drawn(monkeypatch, crossed(a=["none", "layer"]), keys={"a": ["none", "layer"]}).axes
    assert [bar.get_width() for bar in axes.patches] == [0.5, 1.5]
    assert [(text.get_text(), text.get_position()) for text in axes.texts] == [
        (" 0.5 s", (0.5, 0)),
        (" 1.5 s", (1.5, 1)),
    ]
    assert (axes.get_xlabel(), axes.get_ylim()[0] > axes.get_ylim()[1]) == (
        "weight update [s]",
        True,
    )  # the first on top


def test_large_numbers_are_written_out_with_their_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    """13,020.4 and 8,000 samples/s, and 1.302e+06 on no axis."""
    rows = [{"a": name, "throughput_samples_per_s": rate} for name, rate in (("x", 13020.4), ("y", 8000.0))]
    (axes,) = drawn(monkeypatch, rows, "throughput_samples_per_s", keys={"a": ["x", "y"]}).axes
    assert [text.get_text() for text in axes.texts] == [" 13,020 samples/s", " 8,000 samples/s"]
    assert [PLAIN(value, 0) for value in (0.25, 13020.4, 1302040.0, 2.5e9)] == [
        "0.25",
        "13,020.4",
        "1,302,040",
        "2,500,000,000",
    ]


def test_a_chart_says_what_runs_warn_of_and_what_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"a": each, "weight_update_s": 0.5, "warnings": f"uses 64 of {each} IPUs"} for each in (64, 128, 256)]
    rows[0]["warnings"] = None
    figure = drawn(monkeypatch, rows, keys={"a": [64, 128, 256]})
    assert [text.get_text() for text in figure.subfigs[0].texts[1:]] == [
        "a changes nothing here: weight update is the same at all 3 values",
        "warning at 2 points: uses 64 of 128 IPUs",
    ]


def test_a_key_of_few_words_tells_lines_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"a": ["none", "layer"], "b": [1, 2, 4]}
    (axes,) = drawn(monkeypatch, crossed(**keys), keys=keys).axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[0.5, 1.5, 2.5], [3.5, 4.5, 5.5]]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a: none", "a: layer"]


def test_keys_that_vary_together_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"a": at, "b": 10 * at, "weight_update_s": 1.0} for at in (1, 2)]
    (axes,) = drawn(monkeypatch, rows, keys={"a": [1, 2], "b": [10, 20]}, zipped=[["a", "b"]]).axes
    assert list(axes.lines[0].get_xdata()) == [1, 2]


def test_points_without_a_figure_are_crosses_that_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = crossed(a=[1, 2, 3])
    rows[1] |= {"weight_update_s": None, "status": "does not fit"}
    (axes,) = drawn(monkeypatch, rows, keys={"a": [1, 2, 3]}).axes
    cross = axes.lines[-1]
    assert (cross.get_label(), list(cross.get_xdata()), list(cross.get_ydata())) == ("does not fit", [2], [0])


@pytest.mark.parametrize(
    ("keys", "panels"), [({"a": [1, 2, 3], "b": [1, 2]}, 1), ({"a": [1, 2, 3], "b": [1, 2], "c": [1, 2, 3, 4]}, 2)]
)
def test_two_or_three_keys_are_heat_maps_of_one_scale(
    keys: Mapping[str, list[int]], panels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = crossed(**keys)
    figure = drawn(monkeypatch, rows, keys=keys)
    maps = [axes for axes in figure.axes if axes.images]
    assert len(maps) == panels
    assert {axes.images[0].get_clim() for axes in maps} == {(0.5, len(rows) - 0.5)}


def test_a_heat_map_has_small_values_below_and_numbers_in_their_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of `b` 1 and 2 upwards, of `a` 1, 2 and 3 across: the figure is 0.5 at a = b = 1, and 3.5 at a = 2, b = 2."""
    keys = {"a": [1, 2, 3], "b": [1, 2]}
    figure = drawn(monkeypatch, crossed(**keys), keys=keys)
    axes = figure.axes[0]
    (image,) = axes.images
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("a", "b")
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1", "2"]
    FigureCanvasAgg(figure).draw()
    low, high = (axes.transData.transform((0, place))[1] for place in (0, 1))
    assert low < high  # in pixels from the foot of the figure
    found = {}
    for a in (0, 1, 2):
        for b in (0, 1):
            at = axes.transData.transform((a, b))
            event = MouseEvent("motion_notify_event", figure.canvas, *at)
            found[a + 1, b + 1] = float(image.get_cursor_data(event))
    assert found == {(1, 1): 0.5, (1, 2): 1.5, (2, 1): 2.5, (2, 2): 3.5, (3, 1): 4.5, (3, 2): 5.5}
    written = {tuple(map(int, text.get_position())): float(text.get_text()) for text in axes.texts}
    assert written == {(a - 1, b - 1): value for (a, b), value in found.items()}


def test_the_file_itself_stands_beside_its_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    variants = [None, "a", "b", "c", "d"]
    axes = drawn(monkeypatch, crossed(variant=variants, b=[1, 2]), keys={"b": [1, 2]}, all_variants=True).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["no variant", "a", "b", "c", "d"]
    assert axes.images[0].get_array().tolist() == [[0.5, 2.5, 4.5, 6.5, 8.5], [1.5, 3.5, 5.5, 7.5, 9.5]]


def test_sampled_points_of_two_keys_are_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"a": at, "b": at**2, "weight_update_s": at} for at in (0.1, 0.2, 0.3, 0.5)]
    ranges = {"a": {"from": 0, "to": 1}, "b": {"from": 0, "to": 1}}
    axes = drawn(monkeypatch, rows, keys=ranges, samples={"count": 4}).axes[0]
    assert [tuple(place) for place in axes.collections[0].get_offsets()] == [(row["b"], row["a"]) for row in rows]


def test_more_keys_are_parallel_axes(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {name: [1, 2] for name in "abcd"}
    axes = drawn(monkeypatch, crossed(**keys), keys=keys).axes[0]
    assert [text.get_text() for text in axes.get_xticklabels()] == list("abcd")
    assert len(axes.lines) == 16 + 4  # the points, and the axes


def test_spans_of_ratios_are_logarithmic_and_small_ones_start_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    (axes,) = drawn(monkeypatch, crossed(a=[1, 2, 3]), keys={"a": [1, 2, 3]}).axes
    assert (axes.get_xscale(), axes.get_ylim()[0]) == ("linear", 0)
    rows = [{"a": at, "weight_update_s": float(at)} for at in (16, 64, 1024)]
    (axes,) = drawn(monkeypatch, rows, keys={"a": [16, 64, 1024]}).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [text.get_text() for text in axes.get_xticklabels()] == ["16", "64", "1,024"]


@pytest.mark.parametrize(
    ("metric", "most", "label", "divisor"),
    [
        ("weight_update_s", 0.6, "weight update [ms]", 1e-3),
        ("time_to_train_s", 400.0, "time to train [min]", 60),
        ("time_to_train_s", 9000.0, "time to train [h]", 3600),
        ("tokens_per_s", 900.0, "rate [tokens/s]", 1),
        ("memory.fullest_ipu_bytes", 2.0**29, "memory of the fullest IPU [MiB]", 2**20),
        ("mean_power_w", 100.0, "mean power [W]", 1),
        ("mfu", 0.4, "MFU", 1),
    ],
)
def test_units_keep_numbers_short(metric: str, most: float, label: str, divisor: float) -> None:
    assert (quantity(metric, most).label, quantity(metric, most).divisor) == (label, divisor)


def test_what_was_measured_is_published() -> None:
    """MLPerf v2.0 logs 629 ms per update of 2,304 packs with 2.0368 sequences each, and 6.703 min to train."""
    given = [MeasuredSpec(at=64, scenario="bert_v2.0_pod64_closed"), MeasuredSpec(at=16, scenario="template")]
    ((at, rate),) = measured_points(given, "throughput_samples_per_s")
    assert (at, rate) == (64, pytest.approx(2304 * 2.0368 / 0.629, rel=1e-3))
    ((_, seconds),) = measured_points(given, "time_to_train_s")
    assert seconds == pytest.approx(6.703 * 60, rel=1e-4)
    assert list(measured_points(given, "mfu")) == []
