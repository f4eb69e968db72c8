"""Charts of memories, long runs, throughputs, packs and rates show the numbers they are given."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from notebooks.bert_large import memory_chart
from notebooks.charts import PARTS, PREDICTED, HoursRow, cost_of_a_sample_chart, hours_chart, throughput_chart
from notebooks.gpu_hours import chip_hours_chart
from notebooks.llama2_7b import rates_chart
from notebooks.packing import packing_chart
from podsim.result.rows import IN_PROCESSOR, STREAMING, MemoryReport, MemoryRow
from tests.unit.report_examples import make_result

MIB = 2**20
GREY, ORANGE = "#bdbdbd", "#e6750f"


def texts(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts if text.get_text()]


def widths(axes: Axes, colour: str | None = None) -> list[float]:
    return [patch.get_width() for patch in axes.patches if colour in (None, to_hex(patch.get_facecolor()))]


def rows_of(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def legend(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_memory_of_each_ipu_by_tenant_before_its_capacity() -> None:
    """100 and 300 MiB on IPU 0, 200 on IPU 1, of 800; 64 MiB of streaming memory."""
    left, right = memory_chart(make_result()).axes
    assert widths(left) == pytest.approx([size * MIB / 1e6 for size in (100, 300, 200)])
    assert widths(right) == pytest.approx([64 * MIB / 1e6])
    assert {"105", "315", "419", "210", "holds 839"} == set(texts(left))
    assert [row.splitlines()[0] for row in rows_of(left)] == ["IPU 0", "IPU 1"]
    (capacity,) = (line for line in left.lines if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2)
    assert capacity.get_xdata()[0] == pytest.approx(800 * MIB / 1e6)


def test_one_panel_where_streaming_memory_is_not_used_and_unknown_tenants_are_drawn() -> None:
    memory = MemoryReport((MemoryRow(0, "lookup tables", 10 * MIB, IN_PROCESSOR),), 800 * MIB, 0)
    (axes,) = memory_chart(replace(make_result(), memory=memory)).axes
    assert widths(axes) == pytest.approx([10 * MIB / 1e6])


def test_streaming_memory_alone_is_held_against_its_own_capacity() -> None:
    memory = MemoryReport((MemoryRow(0, "weights", 10 * MIB, STREAMING),), 800 * MIB, 100 * MIB)
    (axes,) = memory_chart(replace(make_result(), memory=memory)).axes
    assert axes.get_title(loc="left") == "streaming memory [MB]"
    assert "holds 105" in texts(axes)


def test_long_runs_are_divided_only_where_they_are_predicted() -> None:
    rows = [
        HoursRow("other", "other machine", {"": 20.0}),
        HoursRow("ours", "predicted", {"a": 6.0, "b": 0.25}),
        HoursRow("ours, a alone", "predicted", {"a": 3.0}),
        HoursRow("theirs", "published", {"": 5.0}),
    ]
    (axes,) = hours_chart(rows).axes
    assert (widths(axes, ORANGE), widths(axes, GREY)) == ([20.0], [5.0])
    assert (widths(axes, PARTS[0]), widths(axes, PARTS[1])) == ([6.0, 3.0], [0.25])
    assert texts(axes) == ["20.0 h", "6", "6.25 h", "3.00 h", "5.00 h"]
    assert legend(axes) == ["other machine", "predicted: a", "predicted: b", "published"]
    assert rows_of(axes) == [row.name for row in rows]
    assert axes.get_xlabel() == "time to train [h]"


def test_long_runs_of_one_part_have_the_colour_of_predictions() -> None:
    (axes,) = hours_chart([HoursRow("ours", "predicted", {"training": 2.0})]).axes
    assert widths(axes, PREDICTED) == [2.0]
    assert legend(axes) == ["predicted"]


def test_throughputs_are_dots_and_published_ones_diamonds() -> None:
    """The second is 10 % too fast; the third was fitted to, so that its dot is hollow."""
    frame = pd.DataFrame(
        {
            "predicted": [100.0, 1100.0, 50.0],
            "published": [float("nan"), 1000.0, 50.0],
            "role": [float("nan"), "hold-out", "calibration"],
        },
        index=["a", "b", "c"],
    )
    (axes,) = throughput_chart(frame, "images per second").axes
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [float(dot.get_xdata()[0]) for dot in dots] == [100.0, 1100.0, 50.0]
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [False, False, True]
    diamonds = [float(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "D"]
    assert diamonds[1:] == [1000.0, 50.0]
    assert texts(axes) == ["100", "1,100; published 1,000, +10.0 %", "50; published 50, 0.0 %"]
    assert rows_of(axes) == ["a", "b", "c"] and axes.get_xlabel().startswith("images per second")


def test_packs_bring_a_speed_up_and_cost_a_share_of_a_cycle() -> None:
    frame = pd.DataFrame(
        {"factor": [2.0], "predicted": [1.9], "published": [1.8], "cost": [0.05], "published_cost": [0.11]},
        index=["Net"],
    )
    left, right = packing_chart(frame).axes
    assert [patch.get_height() for patch in left.patches] == [1.9, 1.8]
    assert [patch.get_height() for patch in right.patches] == pytest.approx([5, 11])
    assert left.get_xticklabels()[0].get_text() == "Net\n2 per pack"
    assert texts(left) == ["1.90", "predicted", "1.80", "published"]


def test_rates_and_their_reciprocals_before_what_is_proportional() -> None:
    """5 tokens per second on 4 IPUs would be 10 on 8, or 100 ms."""
    left, right = rates_chart({"ours": {4: 5.0, 8: 8.0}}, [(8, 10.0)]).axes
    for axes, points, ideal, published in (
        (left, [5.0, 8.0], [5.0, 10.0], 10.0),
        (right, [200.0, 125.0], [200.0, 100.0], 100.0),
    ):
        line, dots, diamonds = axes.lines[:3]
        assert list(line.get_ydata()) == pytest.approx(ideal)
        assert list(dots.get_ydata()) == pytest.approx(points)
        assert (list(diamonds.get_xdata()), list(diamonds.get_ydata())) == ([8], [pytest.approx(published)])
        assert [label.get_text() for label in axes.get_xticklabels()] == ["4", "8"]
        assert axes.get_xlabel() == "IPUs"
    assert texts(left) == ["5", "8"] and texts(right) == ["200", "125"]


def test_the_cost_of_a_sample_does_without_measurements() -> None:
    frame = pd.DataFrame({"ipus": [16]}, index=["net"])
    result = replace(make_result(), throughput_samples_per_s=16 / make_result().weight_update_s)
    (axes,) = cost_of_a_sample_chart(frame, {"net": result}).axes
    assert {"total", "speed of\nan IPU", "100", "100 %"} <= set(texts(axes))


def test_hours_have_the_range_of_those_that_are_predicted() -> None:
    index = pd.MultiIndex.from_tuples([("1B", "GC200"), ("1B", "A100")], names=["model", "chip"])
    frame = pd.DataFrame({"hours": [20.0, 5.0], "least": [18.0, np.nan], "most": [27.0, np.nan]}, index=index)
    (axes,) = chip_hours_chart(frame).axes
    assert [patch.get_width() for patch in axes.patches] == [20, 5]
    (line,) = axes.lines
    assert list(map(float, line.get_xdata())) == [18, 27]
    assert texts(axes) == ["20  (18 to 27)", "5"] and axes.get_title(loc="left").startswith("LLaMa 1B")
