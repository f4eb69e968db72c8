"""Rows of published figures by benchmark and role, and the blind predictions of some."""

from __future__ import annotations

from collections.abc import Collection

from podsim.result.reference_data import PADDLE, rows
from podsim.validation.comparison import Blind

CALIBRATION, HOLD_OUT = "calibration", "hold-out"
EVALUATED = "v2.0"
"""Round whose evaluations a constant is fitted to; the rest of its logs is hold-out."""
CALLED = ("v1.1", "v2.0")
"""Rounds to whose ResNet weight updates the session call of TensorFlow is fitted."""
CALLED_BERT = ("v1.1",)
"""Rounds to whose BERT weight updates of the open division the session call and the unexplained work are fitted."""
_FIRST_NAMES = {"bert": "bert", "resnet": "resnet50"}


def submissions(benchmark: str, rounds: Collection[str] = (), *, paddle: bool = False) -> tuple[dict[str, str], ...]:
    """Return MLPerf submissions of one benchmark, in all rounds or some; `paddle` selects PaddlePaddle's."""
    found = (row for row in rows("mlperf_submissions") if row["benchmark"] == benchmark)
    return tuple(
        row for row in found if (not rounds or row["round"] in rounds) and (row["framework"] == PADDLE) == paddle
    )


def calibration_rows(benchmark: str) -> tuple[dict[str, str], ...]:
    """Return the submissions that constants are fitted to."""
    return tuple(row for row in submissions(benchmark) if row["role"] == CALIBRATION)


def role_of_update(row: dict[str, str]) -> str:
    """Return the role of a submission's weight update: `calibration` if a constant is fitted to it."""
    if row["benchmark"] == "resnet":
        return CALIBRATION if row["round"] in CALLED else row["role"]
    called = row["round"] in CALLED_BERT and row["division"] == "open"
    return CALIBRATION if called else row["role"]


def blind_predictions(name: str, quantity: str) -> tuple[Blind, ...]:
    """Return predictions of earlier versions that were made before the measured value was known."""
    found = (row for row in rows("blind_predictions") if (row["row"], row["quantity"]) == (name, quantity))
    return tuple(Blind(name, float(row["predicted"]), row["described_as"], row["version"]) for row in found)


def uncertainty_of(row: dict[str, str], column: str = "uncertainty") -> float:
    """Return the relative standard deviation of a measured value."""
    return float(row[column].removesuffix("%")) / 100


def blind_name(row: dict[str, str]) -> str:
    """Return the name of a submission in the blind predictions; submissions to MLPerf v2.0 ran on Bow."""
    name = f"mlperf {row['round']} {_FIRST_NAMES[row['benchmark']]} bow{row['ipus']}"
    return f"{name} {PADDLE} {row['submitter']}" if row["framework"] == PADDLE else name
