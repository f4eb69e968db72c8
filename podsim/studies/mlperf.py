"""MLPerf submissions beside their replays, as a frame for notebooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from podsim.activity import simulate
from podsim.report.reference_data import rows, scenario_name
from podsim.report.result import RunResult
from podsim.validation.reference_data import submissions

if TYPE_CHECKING:
    from pandas import DataFrame

_BENCHMARKS = {"resnet": "ResNet-50", "bert": "BERT"}
_MS_PER_S, _S_PER_MIN = 1000, 60


def mlperf_results() -> dict[str, RunResult]:
    """Every submission replayed, by name of its scenario."""
    names = [scenario_name(row) for benchmark in _BENCHMARKS for row in submissions(benchmark)]
    return {name: simulate(name) for name in names}


def mlperf_frame(results: Mapping[str, RunResult]) -> DataFrame:
    """One row per submission.

    Columns: benchmark, round, division, ipus, role, `update_ms` and `measured_update_ms`, `train_min` and
    `measured_train_min`, `samples_per_s`, and `scenario` as the index.
    """
    import pandas as pd

    records = []
    for benchmark, label in _BENCHMARKS.items():
        for row in submissions(benchmark):
            result = results[scenario_name(row)]
            records.append(
                {
                    "scenario": scenario_name(row),
                    "benchmark": label,
                    "round": row["round"],
                    "division": row["division"],
                    "ipus": int(row["ipus"]),
                    "role": row["role"],
                    "update_ms": result.weight_update_s * _MS_PER_S,
                    "measured_update_ms": float(row["step_ms_pure"] or row["step_ms_median"]),
                    "train_min": (result.time_to_train_s or float("nan")) / _S_PER_MIN,
                    "measured_train_min": float(row["score_physical_min"]),
                    "samples_per_s": result.throughput_samples_per_s,
                }
            )
    return pd.DataFrame(records).set_index("scenario").sort_values(["benchmark", "round", "ipus", "division"])


def dgx_a100_minutes(round_name: str) -> dict[str, float]:
    """Time to train on one DGX A100 (8 GPUs) in the same round, by benchmark. [min]"""
    found = (row for row in rows("mlperf_gpu_reference") if row["round"] == round_name)
    return {_BENCHMARKS[row["benchmark"]]: float(row["score_min"]) for row in found if row["benchmark"] in _BENCHMARKS}
