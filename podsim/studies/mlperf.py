"""MLPerf submissions beside their replays, as a frame for notebooks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from podsim.activity import simulate
from podsim.report.reference_data import rows, scenario_name
from podsim.report.result import RunResult
from podsim.validation.reference_data import role_of_update, submissions

if TYPE_CHECKING:
    from pandas import DataFrame

_BENCHMARKS = {"resnet": "ResNet-50", "bert": "BERT"}
_MS_PER_S, _S_PER_MIN = 1000, 60


def mlperf_results(rounds: Collection[str]) -> dict[str, RunResult]:
    """Every submission of these rounds on IPUs replayed, by name of its scenario."""
    names = [scenario_name(row) for benchmark in _BENCHMARKS for row in submissions(benchmark, rounds)]
    return {name: simulate(name) for name in names}


def mlperf_frame(results: Mapping[str, RunResult]) -> DataFrame:
    """One row per submission whose replay is among the results.

    Columns: benchmark, round, division, ipus, role of the weight update, `update_ms` and `measured_update_ms`,
    `train_min` and `measured_train_min`, `samples_per_s`, `shortest_run_min` and `longest_run_min` of the runs logged,
    and `scenario` as the index.
    """
    import pandas as pd

    known = [row for benchmark in _BENCHMARKS for row in submissions(benchmark) if scenario_name(row) in results]
    records = [_record(row, results[scenario_name(row)]) for row in known]
    return pd.DataFrame(records).set_index("scenario").sort_values(["benchmark", "round", "ipus", "division"])


def _record(row: dict[str, str], result: RunResult) -> dict[str, str | float]:
    runs = _logged_runs_min(row)
    return {
        "scenario": scenario_name(row),
        "benchmark": _BENCHMARKS[row["benchmark"]],
        "round": row["round"],
        "division": row["division"],
        "ipus": int(row["ipus"]),
        "role": role_of_update(row),
        "update_ms": result.weight_update_s * _MS_PER_S,
        "measured_update_ms": float(row["step_ms_pure"] or row["step_ms_median"]),
        "train_min": (result.time_to_train_s or float("nan")) / _S_PER_MIN,
        "measured_train_min": float(row["score_physical_min"]),
        "samples_per_s": result.throughput_samples_per_s,
        "shortest_run_min": min(runs, default=float("nan")),
        "longest_run_min": max(runs, default=float("nan")),
    }


def _logged_runs_min(submission: dict[str, str]) -> list[float]:
    """Times to train of the single runs, if they are at hand. [min]"""
    keys = ("round", "division", "benchmark", "ipus", "framework", "submitter")
    wanted = [submission[key] for key in keys]
    return [float(run["ttt_physical_min"]) for run in rows("mlperf_runs") if [run[key] for key in keys] == wanted]


def dgx_a100_minutes(round_name: str) -> dict[str, float]:
    """Time to train on one DGX A100 (8 GPUs) in the same round, by benchmark. [min]"""
    found = (row for row in rows("mlperf_gpu_reference") if row["round"] == round_name)
    return {_BENCHMARKS[row["benchmark"]]: float(row["score_min"]) for row in found if row["benchmark"] in _BENCHMARKS}
