"""Charts of many runs show the numbers they are given."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.text import Annotation

from notebooks.charts import cost_of_a_sample_chart
from notebooks.mlperf import accuracy_chart, rounds_chart, speedup_chart, speedups, time_to_train_chart
from podsim.result.kinds import kind_of
from podsim.result.result import RunResult
from tests.unit.report_examples import MAKESPAN_PS, make_result

FRAME = pd.DataFrame(
    {
        "scenario": ["net_a", "net_b", "net_c"],
        "benchmark": ["Net", "Net", "Net"],
        "round": ["v1.0", "v1.1", "v1.1"],
        "division": ["open", "open", "open"],
        "ipus": [16, 16, 64],
        "role": ["hold-out", "calibration", "hold-out"],
        "update_ms": [110.0, 100.0, 45.0],
        "measured_update_ms": [100.0, 100.0, 50.0],
        "train_min": [11.0, 10.0, 4.5],
        "measured_train_min": [10.0, 10.0, 5.0],
    }
).set_index("scenario")


def run(samples_of_update: float, updates: int) -> RunResult:
    """The example's weight update of 100 us, with so many samples and so often in a run."""
    update_s = make_result().weight_update_s
    return replace(
        make_result(),
        throughput_samples_per_s=samples_of_update / update_s,
        run_breakdown={"training": updates * update_s},
    )


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


def bars(axes: Axes, colour: str) -> list[float]:
    return [patch.get_height() for patch in axes.patches if to_hex(patch.get_facecolor()) == colour]


PREDICTED, MEASURED, OTHER = "#2171b5", "#bdbdbd", "#e6750f"


def test_bars_are_as_high_as_the_times() -> None:
    (axes,) = time_to_train_chart(FRAME.iloc[1:], {"Net": 7.0}, "other").axes
    assert (bars(axes, PREDICTED), bars(axes, MEASURED), bars(axes, OTHER)) == ([10.0, 4.5], [10.0, 5.0], [7.0])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["other", "POD16", "POD64"]
    assert axes.get_title(loc="left") == "Net: time to train [min]"
    assert set(texts(axes)) == {"10.0", "4.5", "5.0", "7.0", "predicted", "measured"}


def test_divisions_are_named_where_there_are_several() -> None:
    frame = FRAME.assign(division=["open", "closed", "open"]).iloc[1:]
    (axes,) = time_to_train_chart(frame, {"Net": 7.0}, "other").axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["other", "POD16\nclosed", "POD64\nopen"]


def test_measured_bars_have_whiskers_where_runs_are_known() -> None:
    """Of the first pod 9 to 12 minutes, and nothing of the second; the value is written above its whisker."""
    frame = FRAME.iloc[1:].assign(shortest_run_min=[9.0, float("nan")], longest_run_min=[12.0, float("nan")])
    (axes,) = time_to_train_chart(frame, {"Net": 7.0}, "other").axes
    whiskers = [list(line.get_ydata()) for line in axes.lines if line.get_marker() == "_"]
    assert whiskers == [[9.0, 12.0]]
    assert sorted(note.xy[1] for note in axes.texts if isinstance(note, Annotation)) == [4.5, 5.0, 7.0, 10.0, 12.0]


def test_every_benchmark_has_its_own_axes() -> None:
    frame = FRAME.assign(benchmark=["Net", "Net", "Other"])
    figure = time_to_train_chart(frame, {"Net": 7.0, "Other": 3.0}, "other")
    assert [bars(axes, OTHER) for axes in figure.axes] == [[7.0], [3.0]]


def test_rounds_show_what_took_part_in_both() -> None:
    """Only the pod of 16 did: predicted 11 to 10 minutes, measured 10 to 10."""
    (axes,) = rounds_chart(FRAME, ("v1.0", "v1.1")).axes
    lines = [line.get_xdata().tolist() for line in axes.lines if line.get_marker() == "None"]
    assert lines == [[11.0, 10.0], [10.0, 10.0]]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["Net POD16 open"]
    assert texts(axes) == ["11.0 → 10.0 min, -9 %  predicted", "10.0 → 10.0 min, 0 %  measured"]


def test_errors_stand_where_they_are_and_calibration_is_hollow() -> None:
    """+10 %, 0 %, -10 %, in the order of the frame from the top."""
    (axes,) = accuracy_chart(FRAME).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [round(float(dot.get_xdata()[0]), 6) for dot in dots] == [10.0, 0.0, -10.0]
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [False, True, False]
    assert axes.get_yticklabels()[0].get_text() == "Net v1.0 POD16 open"
    assert axes.get_ylim()[0] > axes.get_ylim()[1]
    assert {"+10.0", "0.0", "-10.0", "110.0", "±5 %", "±10 %"} <= set(texts(axes))


def test_no_dot_is_outside_of_the_chart() -> None:
    frame = FRAME.assign(update_ms=[150.0, 100.0, 45.0])
    (axes,) = accuracy_chart(frame).axes
    assert axes.get_xlim()[0] < -50 and axes.get_xlim()[1] > 50


def test_bands_reach_as_far_as_they_say() -> None:
    (axes,) = accuracy_chart(FRAME).axes
    assert [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in axes.patches] == [(-10, 10), (-5, 5)]


def test_the_cost_of_a_sample_adds_up() -> None:
    """100 us for 4 samples of each of 16 IPUs and for 1 of each of 64: 25 and 100 us, in bars of every kind."""
    frame = FRAME.iloc[1:].assign(measured_update_ms=[0.1, 0.16])
    (axes,) = cost_of_a_sample_chart(frame, {"net_b": run(64, 1), "net_c": run(64, 1)}).axes
    sums = {0: 0.0, 1: 0.0}
    for patch in axes.patches:
        sums[round(patch.get_y() + patch.get_height() / 2)] += patch.get_width()
    assert sums == {0: pytest.approx(25e-6), 1: pytest.approx(100e-6)}
    assert {"25 (25)", "100 (160)", "100 % (100 %)", "25 % (16 %)"} <= set(texts(axes))
    assert axes.get_title(loc="left") == "Time of one IPU for one sample [us]"


def test_bars_have_the_colours_of_their_kinds_and_columns_start_together() -> None:
    result = run(64, 1)
    frame = FRAME.iloc[1:]
    (axes,) = cost_of_a_sample_chart(frame, {"net_b": result, "net_c": result}).axes
    kinds = [kind for kind in result.breakdown_ps if result.breakdown_ps[kind]]
    assert {to_hex(patch.get_facecolor()) for patch in axes.patches} == {kind_of(kind).colour for kind in kinds}
    starts = [
        {round(patch.get_y()): patch.get_x() for patch in axes.patches if to_hex(patch.get_facecolor()) == colour}
        for colour in (kind_of("matmul").colour, kind_of("all_reduce").colour)
    ]
    assert all(len(set(start.values())) == 1 for start in starts)


def test_a_kind_too_small_to_see_stays_with_its_family() -> None:
    """The optimizer, 0.1 % of the update, is drawn with compute."""
    result = run(64, 1)
    parts = {"matmul": MAKESPAN_PS * 999 // 1000, "optimizer": MAKESPAN_PS // 1000}
    tiny = replace(result, breakdown_ps=parts)
    frame = FRAME.iloc[1:]
    (axes,) = cost_of_a_sample_chart(frame, {"net_b": tiny, "net_c": tiny}).axes
    assert "compute" in texts(axes)
    assert "optimizer" not in texts(axes)
    assert len(axes.patches) == 4


def test_long_samples_are_in_milliseconds() -> None:
    """100 us for 1/64 of a sample of each IPU: 6.4 ms."""
    frame = FRAME.iloc[2:]
    (axes,) = cost_of_a_sample_chart(frame, {"net_c": run(1, 1)}).axes
    assert axes.get_title(loc="left") == "Time of one IPU for one sample [ms]"
    assert any(text.startswith("6.40 (") for text in texts(axes))


def test_speedups_go_from_ipus_to_the_run() -> None:
    """4 times the IPUs; 2.5 times the samples of an update in 0.45 of its time; 1.25 times the samples of a run."""
    results = {"net_b": run(64, 100), "net_c": run(160, 50)}
    found = speedups(FRAME.iloc[1:], results, "")
    assert found == pytest.approx([4.0, 2.5 / 0.45, 2.5 / 0.45 / 1.25, 10 / 4.5])
    assert speedups(FRAME.iloc[1:], results, "measured_") == pytest.approx([4.0, 2.5 / 0.5, 2.5 / 0.5 / 1.25, 2.0])
    (axes,) = speedup_chart(FRAME.iloc[1:], results).axes
    assert bars(axes, PREDICTED) == pytest.approx(found)


def test_a_notebook_shows_a_chart_as_a_picture_and_the_same_bytes_again() -> None:
    first, second = (accuracy_chart(FRAME)._repr_png_() for _ in range(2))
    assert first.startswith(b"\x89PNG")
    assert first == second
