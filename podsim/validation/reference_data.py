"""Rows of published figures by benchmark and role."""

from __future__ import annotations

from podsim.report.reference_data import rows

CALIBRATION = "calibration"


def submissions(benchmark: str) -> tuple[dict[str, str], ...]:
    """MLPerf submissions of one benchmark."""
    return tuple(row for row in rows("mlperf_submissions") if row["benchmark"] == benchmark)


def calibration_rows(benchmark: str) -> tuple[dict[str, str], ...]:
    """Submissions that constants are fitted to."""
    return tuple(row for row in submissions(benchmark) if row["role"] == CALIBRATION)
