"""MLPerf's reference convergence points, as data of the package."""

from __future__ import annotations

import csv
from functools import lru_cache

from podsim.runs.training.convergence import ReferencePoint
from podsim.scenario import data_file


@lru_cache
def reference_points(benchmark: str) -> tuple[ReferencePoint, ...]:
    """Samples to converge of MLPerf's reference runs, by batch size. Source: [mlperf_rcp]."""
    with data_file("reference_data/mlperf_rcp.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["benchmark"] == benchmark]
    return tuple(ReferencePoint(int(row["gbs"]), tuple(int(run) for run in row["runs"].split())) for row in rows)
