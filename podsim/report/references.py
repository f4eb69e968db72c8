"""Measured and published figures for a scenario, to be shown beside its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podsim.report.reference_data import rows, scenario_name
from podsim.report.rows import Reference
from podsim.specs import LoadedScenario

_MS_PER_S, _S_PER_MIN = 1000, 60
_QUANTITIES: Final = {
    "generation rate": "steps_per_s",
    "throughput": "throughput_samples_per_s",
    "time-to-train": "time_to_train_s",
}
_SECONDS: Final = {"h": 3600, "min": 60}
_SCOPES: Final = {"whole run": "average of a whole run with compilation, loading and evaluation"}


def references_of(loaded: LoadedScenario) -> tuple[Reference, ...]:
    """Published figures for a scenario; none unless it is a shipped one, unchanged."""
    return () if loaded.shipped_name is None else references_for(loaded.shipped_name)


def references_for(name: str) -> tuple[Reference, ...]:
    """Figures for the scenario called `name`; empty if none are known."""
    return (*_submitted(name), *_published(name))


def _submitted(name: str) -> Iterator[Reference]:
    for row in rows("mlperf_submissions"):
        if scenario_name(row) == name:
            label = f"MLPerf Training {row['round']} {row['division']}, logs"
            updates = float(row["step_ms_pure"] or row["step_ms_median"]) / _MS_PER_S
            yield Reference("weight_update_s", updates, f"{label}, median", row["role"], row["source"])
            score = float(row["score_physical_min"]) * _S_PER_MIN
            yield Reference("time_to_train_s", score, f"{label}, score", row["role"], row["source"])


def _published(name: str) -> Iterator[Reference]:
    """Figures for one scenario; those for several scenarios together have no share for each."""
    for row in rows("published_throughput"):
        if row["scenario"].split() == [name]:
            value = float(row["value"]) * _SECONDS.get(row["unit"], 1)
            scope = f", {_SCOPES[row['scope']]}" if row["scope"] in _SCOPES else ""
            label = f"{row['id']}: {row['model']}, {row['platform']}{scope}"
            yield Reference(_QUANTITIES[row["metric"]], value, label, row["role"], row["source_url"])
