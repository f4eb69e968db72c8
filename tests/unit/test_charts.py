"""Charts of many runs show the numbers they are given."""

from __future__ import annotations

import pandas as pd
import pytest

from podsim.report.charts import accuracy_chart, cost_of_a_sample_chart, rounds_chart, time_to_train_chart
from tests.unit.report_examples import make_result

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


def test_bars_are_as_high_as_the_numbers() -> None:
    (axes,) = time_to_train_chart(FRAME, {"Net": 7.0}, "other").axes
    assert sorted(patch.get_height() for patch in axes.patches) == [4.5, 5.0, 10.0, 10.0, 10.0, 11.0]
    assert any(line.get_ydata()[0] == 7.0 for line in axes.lines)


def test_rounds_show_what_took_part_in_both() -> None:
    """Only the pod of 16 did."""
    (axes,) = rounds_chart(FRAME).axes
    assert sorted(patch.get_height() for patch in axes.patches) == [10.0, 10.0, 10.0, 11.0]


def test_errors_stand_where_they_are_and_calibration_is_hollow() -> None:
    """+10 %, 0 %, -10 %, the first row on top."""
    (axes,) = accuracy_chart(FRAME).axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [round(float(dot.get_xdata()[0]), 6) for dot in dots] == [-10.0, 0.0, 10.0]
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [False, True, False]


def test_the_cost_of_a_sample_adds_up() -> None:
    result = make_result()
    (axes,) = cost_of_a_sample_chart([result], ["one"], [4.0]).axes
    widths = [patch.get_width() for patch in axes.patches]
    assert sum(widths) == pytest.approx(result.weight_update_s / 4 * 1e6)


def test_a_notebook_shows_a_chart_as_a_picture() -> None:
    assert accuracy_chart(FRAME)._repr_png_().startswith(b"\x89PNG")
