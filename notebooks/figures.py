"""Published figures by their ids, which are those of `reference_data/published_throughput.csv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from podsim.result.reference_data import rows
from podsim.result.result import RunResult
from podsim.runs import simulate

if TYPE_CHECKING:
    from pandas import DataFrame


def published_row(identity: str) -> dict[str, str]:
    """Return the data row of a published throughput."""
    return next(row for row in rows("published_throughput") if row["id"] == identity)


def published_figure(identity: str) -> float:
    """Return the value of a published throughput, in its own unit."""
    return float(published_row(identity)["value"])


def throughput_frame(results: Mapping[str, RunResult], identities: Mapping[str, str]) -> DataFrame:
    """Return samples per second of results, and of published throughputs with their replays.

    Columns: `predicted`, `published` and `role`, the last two empty where nothing was published; names as index.

    Args:
        results: Results by name.
        identities: Ids of published throughputs by name.
    """
    import pandas as pd

    replayed = {name: _replayed(published_row(identity)) for name, identity in identities.items()}
    plain = {name: {"predicted": result.throughput_samples_per_s} for name, result in results.items()}
    return pd.DataFrame.from_dict(plain | replayed, orient="index", columns=["predicted", "published", "role"])


def _replayed(row: Mapping[str, str]) -> dict[str, str | float]:
    scenario, _, variant = row["scenario"].partition("@")
    predicted = simulate(scenario, variant=variant or None).throughput_samples_per_s
    return {"predicted": predicted, "published": float(row["value"]), "role": row["role"]}


def samples_of_update(result: RunResult) -> float:
    """Return the number of samples per weight update."""
    return result.throughput_samples_per_s * result.weight_update_s
