"""Charts of a faster clock and of more IPUs show the numbers they are given."""

from __future__ import annotations

import pandas as pd
import pytest
from matplotlib.axes import Axes

from notebooks.bow_over_gc200 import bow_chart
from notebooks.llama2_7b import pods_chart

BOW = pd.DataFrame(
    {
        "group": ["Net, fast", "Net, slow", "Net, fast"],
        "ratio": [1.3, 1.1, 1.2],
        "ratio_of_shares": [1.35, 1.1, 1.25],
        "clock_ratio": [1.4, 1.4, 1.4],
        "clock": [0.8, 0.3, 0.6],
        "links": [0.15, 0.01, 0.35],
        "hosts": [0.0, 0.69, 0.0],
        "streaming memory": [0.05, 0.0, 0.05],
        "pipeline waits": [0.0, 0.0, 0.0],
    },
    index=["net_fast", "net_slow", "net_other"],
)
PODS = pd.DataFrame(
    {"ipus": [4, 16], "tokens_per_s": [3.0, 10.0], "sequences": [1, 2], "links": [0.25, 0.5], "host": [0.75, 0.5]},
    index=["pod4", "pod16"],
)


def texts(axes: Axes) -> list[str]:
    return [text.get_text().strip() for text in axes.texts]


def bars(axes: Axes) -> list[float]:
    return [round(patch.get_width(), 6) for patch in axes.patches]


def names(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_ratios_of_a_group_in_one_row_least_first_before_both_marks() -> None:
    """Means are 1.1 and 1.25; the shares of the faster group give 1.3 on average."""
    left, right = bow_chart(BOW, 1.42).axes
    assert [label.get_text() for label in left.get_yticklabels()] == ["Net, slow (1)", "Net, fast (2)"]
    assert [" ".join(text.split()) for text in texts(left)] == ["clocks 1.40", "published mean 1.42"]
    points = [line.get_xdata() for line in left.lines if line.get_marker() == "o"]
    assert [list(point) for point in points] == [[1.1], [1.1], [pytest.approx(1.3)], [1.3, 1.2]]
    assert bars(right) == [0.3, 0.01, 0.69, 0, 0, 0.7, 0.25, 0, 0.05, 0]


def test_shares_that_can_be_read_have_a_number_and_a_name() -> None:
    right = bow_chart(BOW, 1.42).axes[1]
    assert texts(right) == ["30 %", "69 %", "70 %", "25 %"]
    assert names(right) == ["clock", "links", "hosts", "streaming memory"]
    assert right.get_xlabel() == "share of a weight update [%]"


def test_throughput_before_what_is_proportional() -> None:
    left, right = pods_chart(PODS).axes
    proportional, dots = left.lines
    assert list(proportional.get_ydata()) == pytest.approx([3, 12])
    assert list(dots.get_ydata()) == [3, 10]
    assert texts(left) == ["3.0", "10.0, 2 sequences"]
    assert bars(right) == [0.25, 0.75, 0.5, 0.5]
    assert (left.get_xlabel(), left.get_ylabel()) == ("IPUs", "tokens per second")
