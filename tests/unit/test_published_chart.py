"""The chart of predictions against published figures shows the numbers it is given."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.axes import Axes

from notebooks.predicted_against_published import published_chart, published_frame
from podsim.validation.comparison import Blind, NotRun, RowComparison, Validation

SEEN = RowComparison(
    "BERT weight update", "a", 104.0, 100.0, "ms", "hold-out", "source", blind=(Blind("a", 150.0, "", "0.1.0"),)
)
FITTED = RowComparison("GEMM fp16", "b", 9.2, 10.0, "TFLOP/s", "calibration", "source")
SHORTER = RowComparison("BERT effect of a change", "c", -40.0, -50.0, "ms", "hold-out", "source")
REFUSED = NotRun(
    "published throughput",
    "d",
    10.0,
    "images/s",
    "hold-out",
    "source",
    "does not fit",
    blind=(Blind("d", 9.0, "", "0.1.0"),),
)
FRAME = published_frame(Validation((SEEN, FITTED, SHORTER), (REFUSED,)))
KINDS = ("MLPerf", "kernels", "ratios and differences", "other training")


def dots(axes: Axes) -> list[tuple[float, float]]:
    lines = [line for line in axes.lines if line.get_marker() != "None"]
    return [(float(x), round(float(y), 6)) for line in lines for x, y in zip(*line.get_data(), strict=True)]


def test_a_blind_prediction_is_a_row_of_its_own_even_of_what_does_not_run_now() -> None:
    found = FRAME[["name", "role", "predicted"]].to_numpy().tolist()
    assert found == [
        ["a", "hold-out", 104.0],
        ["b", "calibration", 9.2],
        ["c", "hold-out", -40.0],
        ["a", "blind", 150.0],
        ["d", "blind", 9.0],
    ]
    assert list(FRAME["kind"]) == ["MLPerf", "kernels", "ratios and differences", "MLPerf", "other training"]
    assert list(FRAME["error"]) == pytest.approx([0.04, -0.08, -0.2, 0.5, -0.1])


def test_every_role_has_its_panel_with_ratios_over_sizes() -> None:
    blind, held, fitted = published_chart(FRAME, ("blind", "hold-out", "calibration"), KINDS).axes
    assert dots(blind) == [(100.0, 1.5), (10.0, 0.9)]
    assert dots(held) == [(100.0, 1.04), (50.0, 0.8)]
    assert dots(fitted) == [(10.0, 0.92)]


def test_titles_count_rows_in_the_bands() -> None:
    blind, held, fitted = published_chart(FRAME, ("blind", "hold-out", "calibration"), KINDS).axes
    assert held.get_title(loc="left") == "hold-out, rows: 2\n1 within 5 %, 1 within 10 %"
    assert fitted.get_title(loc="left") == "calibration, rows: 1\n0 within 5 %, 1 within 10 %"
    assert blind.get_title(loc="left").startswith("blind, rows: 2")


def test_kinds_left_out_are_not_counted_and_every_dot_is_inside() -> None:
    (axes,) = published_chart(FRAME, ("hold-out",), ("MLPerf",)).axes
    assert dots(axes) == [(100.0, 1.04)]
    (axes,) = published_chart(FRAME, ("blind",), KINDS).axes
    assert axes.get_ylim()[0] < 0.9 and axes.get_ylim()[1] > 1.5


def test_bands_reach_from_nine_to_eleven_tenths() -> None:
    (axes,) = published_chart(FRAME, ("hold-out",), KINDS).axes
    bands = [(patch.get_y(), patch.get_y() + patch.get_height()) for patch in axes.patches]
    assert bands == [pytest.approx((0.9, 1.1)), pytest.approx((0.95, 1.05))]


def test_no_kind_is_left_out_however_many_there_are() -> None:
    kinds = [f"kind {place}" for place in range(9)]
    frame = pd.DataFrame({"role": "hold-out", "kind": kinds, "predicted": 1.0, "published": 1.0})
    (axes,) = published_chart(frame, ("hold-out",), kinds).axes
    assert len(dots(axes)) == 9
