"""What notebooks/predicted_against_published.ipynb concludes is so."""

from __future__ import annotations

import pandas as pd
import pytest

from notebooks.predicted_against_published import BLIND, KINDS, ROLES, WHOLE_RUNS, published_frame
from podsim.result.reference_data import rows
from podsim.validation.comparison import Validation
from tests.validation.notebook_texts import states

NAME = "predicted_against_published"


@pytest.fixture(scope="module")
def frame(everything: Validation) -> pd.DataFrame:
    return published_frame(everything)


def test_every_row_is_shown(frame: pd.DataFrame, everything: Validation) -> None:
    assert set(frame["kind"]) == set(KINDS) and set(frame["role"]) == set(ROLES)
    assert (frame["role"] != BLIND).sum() == len(everything.comparisons)


def test_blind_rows_are_those_of_the_first_version(frame: pd.DataFrame) -> None:
    """Counted in the file itself, whose errors are rounded to a tenth of a percent."""
    states(NAME, "Blind, 17 of 32 predictions were within 10 % and the furthest 55 % off.")
    blind = frame[frame["role"] == BLIND]
    kept = [abs(float(row["error_percent"])) for row in rows("first_predictions")]
    assert sorted(round(100 * error, 1) for error in blind["error"].abs()) == pytest.approx(sorted(kept), abs=0.11)
    assert (len(kept), sum(error <= 10 for error in kept), int(max(kept))) == (32, 17, 55)


def test_four_fifths_of_the_hold_out_rows(frame: pd.DataFrame) -> None:
    states(NAME, "at least four fifths are within 10 %")
    errors = frame[frame["role"] == "hold-out"]["error"].abs()
    assert (errors <= 0.1).mean() >= 0.8


def test_in_short(frame: pd.DataFrame) -> None:
    states(NAME, "every time and throughput of MLPerf submissions lies within 8 % of its logs")
    states(NAME, "every training throughput published elsewhere within 20 %, except averages of whole runs.")
    now = frame[frame["role"] != BLIND]
    assert now[now["kind"] == "MLPerf"]["error"].abs().max() < 0.08
    assert set(now[now["kind"] == "MLPerf"]["group"].str.partition(" ")[0]) == {"BERT", "ResNet-50"}
    elsewhere = now[now["group"] == "published throughput"]
    assert WHOLE_RUNS not in set(elsewhere["kind"])
    assert elsewhere["error"].abs().max() < 0.2
