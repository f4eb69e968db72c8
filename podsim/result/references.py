"""Measured and published figures for a scenario, to be shown beside its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from podsim.metrics import STEPS, THROUGHPUT, TIME, UPDATE
from podsim.result.reference_data import rows, scenario_name
from podsim.result.rows import Reference
from podsim.scenario import LoadedScenario

_MS_PER_S, _S_PER_MIN = 1000, 60
_QUANTITIES: Final = {
    "generation rate": STEPS,
    "batched token time": STEPS,
    "throughput": THROUGHPUT,
    "time-to-train": TIME,
}
_SECONDS: Final = {"h": 3600, "min": 60}
_SCOPES: Final = {"whole run": "average of a whole run with compilation, loading and evaluation"}


def references_of(loaded: LoadedScenario) -> tuple[Reference, ...]:
    """Published figures for a scenario; none unless it is a shipped one, unchanged."""
    return () if loaded.shipped_name is None else references_for(loaded.shipped_name)


def references_for(name: str) -> tuple[Reference, ...]:
    """Figures for the scenario called `name`, or `name@variant`; empty if none are known."""
    return (*_submitted(name), *_published(name))


def _submitted(name: str) -> Iterator[Reference]:
    for row in rows("mlperf_submissions"):
        if scenario_name(row) == name:
            label = f"MLPerf Training {row['round']} {row['division']}, logs"
            updates = float(row["step_ms_pure"] or row["step_ms_median"]) / _MS_PER_S
            yield Reference(UPDATE, updates, f"{label}, median", row["role"], row["source"])
            score = float(row["score_physical_min"]) * _S_PER_MIN
            yield Reference(TIME, score, f"{label}, score", row["role"], row["source"])


def _published(name: str) -> Iterator[Reference]:
    """Figures for one scenario; those for several scenarios together have no share for each."""
    for row in rows("published_throughput"):
        if row["scenario"].split() == [name]:
            scope = f", {_SCOPES[row['scope']]}" if row["scope"] in _SCOPES else ""
            label = f"{row['id']}: {row['model']}, {row['platform']}{scope}"
            yield Reference(_QUANTITIES[row["metric"]], _value(row), label, row["role"], row["source_url"])


def _value(row: dict[str, str]) -> float:
    """The figure in the unit of its quantity; a time per token of a batch as steps per second."""
    if row["metric"] == "batched token time":
        return _MS_PER_S / (float(row["value"]) * float(row["global_batch"]))
    return float(row["value"]) * _SECONDS.get(row["unit"], 1)
