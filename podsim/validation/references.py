"""Measured figures for a scenario, to be shown beside its result."""

from __future__ import annotations

from podsim.report.rows import Reference
from podsim.validation.reference_data import rows, scenario_name

_MS_PER_S, _S_PER_MIN = 1000, 60


def references_for(name: str) -> tuple[Reference, ...]:
    """What was measured for the scenario called `name`; empty if nothing is known."""
    for row in rows("mlperf_submissions"):
        if scenario_name(row) == name:
            label = f"MLPerf Training {row['round']} {row['division']}, logs"
            updates = row["step_ms_pure"] or row["step_ms_median"]
            return (
                Reference("weight_update_s", float(updates) / _MS_PER_S, f"{label}, median"),
                Reference("time_to_train_s", float(row["score_physical_min"]) * _S_PER_MIN, f"{label}, score"),
            )
    return ()
