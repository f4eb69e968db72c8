"""Known gaps: by hand, and held against the runs that were compared."""

from __future__ import annotations

import math

import pytest

import podsim
from podsim.result.evidence import residuals
from podsim.result.gaps import Gap, known_gaps
from podsim.validation.coverage import coverage

GAP = Gap("a gap", "family=vit stack=PyTorch ipu_count>=17 depth<=50", ("one",), "nobody knows")
NAMES = {"family": "vit", "stack": "PyTorch"}


@pytest.mark.parametrize(
    ("names", "sizes", "applies"),
    [
        (NAMES, {"ipu_count": 17.0, "depth": 50.0}, True),
        (NAMES, {"ipu_count": 16.0, "depth": 50.0}, False),
        (NAMES, {"ipu_count": 17.0, "depth": 51.0}, False),
        (NAMES | {"family": "resnet"}, {"ipu_count": 17.0, "depth": 50.0}, False),
        (NAMES, {"ipu_count": 17.0}, False),
    ],
)
def test_all_conditions_must_hold(names: dict[str, str], sizes: dict[str, float], applies: bool) -> None:
    assert GAP.applies_to(names, sizes) == applies


def test_gaps_have_runs_that_were_compared_and_hold_for_them() -> None:
    runs = {run.row: run for run in residuals().runs}
    for gap in known_gaps():
        assert gap.rows and gap.cause
        assert all(gap.applies_to(runs[row].names, runs[row].sizes) for row in gap.rows)


def test_no_run_is_off_by_more_than_its_range_without_a_gap() -> None:
    """The range is that which the runs of other origins give."""
    named = {row for gap in known_gaps() for row in gap.rows}
    assert [each.run.row for each in coverage(residuals()).outside if each.run.row not in named] == []


def test_a_run_with_a_gap_says_so_first() -> None:
    """A log error of -e says that the measured time was exp(e) of the predicted one."""
    (gap,) = (gap for gap in known_gaps() if gap.rows == ("LLM-007",))
    (error,) = (run.error for run in residuals().runs if run.row == "LLM-007")
    result = podsim.generate("gptj_6b_pod4_streamed", variant="int4")
    assert gap.text() in result.verdict
    assert f"published times differ by {math.exp(-error) - 1:+.0%} from predictions (LLM-007)" in gap.text()
    assert not any("4-bit" in line for line in podsim.generate("gptj_6b_pod4_streamed").verdict)
