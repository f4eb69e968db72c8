"""Rounds of MLPerf Training: which one a software stack took part in, and how long its reference runs take."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from podsim.errors import PodsimError
from podsim.result.reference_data import rows
from podsim.runs.training.outcome import mlperf_score

ROUNDS: Final = ("1.1", "2.0")
"""Rounds whose rules result files can follow."""


def round_of(sdk: str) -> str:
    """The round whose submissions ran on a version of the SDK.

    Raises:
        PodsimError: None did, or one whose rules are not known.
    """
    taken = {row["round"].removeprefix("v") for row in rows("mlperf_submissions") if _runs_on(row["sdk"], sdk)}
    known = sorted(taken & set(ROUNDS))
    if known:
        return known[0]
    took = f"took part in round {min(taken)}" if taken else "took part in no round"
    what = f"Poplar SDK {sdk} {took}, and result files follow the rules of {' or '.join(ROUNDS)}"
    raise PodsimError(what, where="--mlperf-round", do=f"say which: `--mlperf-round {ROUNDS[-1]}`")


def _runs_on(text: str, sdk: str) -> bool:
    version = text.split()[-1]
    return version == sdk or version.startswith(f"{sdk}.")


def reference_mean(benchmark: str, round_name: str, batch_size: int) -> float | None:
    """Samples or epochs to converge of MLPerf's reference runs at a batch size, or between two; None outside.

    Only points that MLPerf's checker keeps, of this round or an earlier one. Source: [mlperf_rcp].
    """
    points = sorted(
        (int(row["gbs"]), mlperf_score([float(run) for run in row["runs"].split()]))
        for row in rows("mlperf_rcp")
        if row["benchmark"] == benchmark and row["in_pruned_set"] == "true" and row["round"] <= round_name
    )
    for (low, low_mean), (high, high_mean) in pairwise(points):
        if low <= batch_size <= high:
            return low_mean + (high_mean - low_mean) * (batch_size - low) / (high - low)
    return None
