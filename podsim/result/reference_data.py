"""Published figures that ship with the package."""

from __future__ import annotations

import csv
from functools import lru_cache
from typing import Final

from podsim.scenario import data_file

PADDLE: Final = "PaddlePaddle"
"""Framework of submissions with the same configurations as PopART's."""


@lru_cache
def rows(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of `reference_data/<name>.csv`."""
    with data_file(f"reference_data/{name}.csv").open(encoding="utf-8", newline="") as file:
        return tuple(csv.DictReader(file))


def scenario_name(row: dict[str, str]) -> str:
    """Return the name of the scenario that replays an MLPerf submission."""
    if row["benchmark"] == "resnet":
        return f"resnet50_{row['round']}_pod{row['ipus']}"
    name = f"{row['benchmark']}_{row['round']}_pod{row['ipus']}_{row['division']}"
    if row["framework"] != PADDLE:
        return name
    variant = "" if row["submitter"] == "Graphcore" else f"@{row['submitter'].lower()}"
    return f"{name}_{PADDLE.lower()}{variant}"
