"""How many times as fast a larger pod is, from the results of runs and a frame of measurements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from podsim.report.result import RunResult

if TYPE_CHECKING:
    from pandas import DataFrame


def speedups(frame: DataFrame, results: Mapping[str, RunResult], prefix: str) -> list[float]:
    """Ratios of the last row to the first: IPUs, samples per second, time in weight updates, time to train.

    Args:
        frame: Scenarios as index; columns `ipus`, and `update_ms` and `train_min` behind the prefix.
        results: Runs by scenario; the number of samples comes from them.
        prefix: Of the columns: nothing or `measured_`.
    """
    small, large = frame.index[0], frame.index[-1]
    updates, trains = frame[f"{prefix}update_ms"], frame[f"{prefix}train_min"]
    samples = samples_of_update(results[large]) / samples_of_update(results[small])
    rate = samples * updates[small] / updates[large]
    work = samples_of_run(results[large]) / samples_of_run(results[small])
    return [frame["ipus"][large] / frame["ipus"][small], rate, rate / work, trains[small] / trains[large]]


def samples_of_update(result: RunResult) -> float:
    """Samples of one weight update."""
    return result.throughput_samples_per_s * result.weight_update_s


def samples_of_run(result: RunResult) -> float:
    """Samples of all weight updates of a run."""
    return result.throughput_samples_per_s * result.run_breakdown["training"]
