"""Rows of published figures by benchmark and role, and the blind predictions of some."""

from __future__ import annotations

from collections.abc import Collection

from podsim.report.reference_data import rows

CALIBRATION, HOLD_OUT = "calibration", "hold-out"
EVALUATED = "v2.0"
"""The round whose evaluations a constant is fitted to, and nothing else of its logs."""
CALLED = ("v1.1", "v2.0")
"""The rounds whose weight updates of convolutional networks the session call of TensorFlow is fitted to."""
_FIRST_NAMES = {"bert": "bert", "resnet": "resnet50"}


def submissions(benchmark: str, rounds: Collection[str] = ()) -> tuple[dict[str, str], ...]:
    """MLPerf submissions of one benchmark, of all rounds or of some."""
    found = (row for row in rows("mlperf_submissions") if row["benchmark"] == benchmark)
    return tuple(row for row in found if not rounds or row["round"] in rounds)


def calibration_rows(benchmark: str) -> tuple[dict[str, str], ...]:
    """Submissions that constants are fitted to."""
    return tuple(row for row in submissions(benchmark) if row["role"] == CALIBRATION)


def role_of_update(row: dict[str, str]) -> str:
    """Whether a constant is fitted to the weight update of a submission."""
    return CALIBRATION if row["benchmark"] == "resnet" and row["round"] in CALLED else row["role"]


def blind_predictions(name: str) -> dict[str, float]:
    """What the first version predicted of a row before its figures were known, by quantity."""
    return {row["quantity"]: float(row["predicted"]) for row in rows("first_predictions") if row["row"] == name}


def blind_name(row: dict[str, str]) -> str:
    """What the blind predictions call a submission; those of MLPerf v2.0 ran on Bow."""
    return f"mlperf {row['round']} {_FIRST_NAMES[row['benchmark']]} bow{row['ipus']}"
