"""EfficientNet-B4 on larger and larger pods, beside the published time to train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from notebooks.charts import HoursRow
from notebooks.figures import published_figure
from podsim.result.result import RunResult
from podsim.runs import simulate

PODS: Final = (16, 64, 256)
HOURS: Final = "BLOG-011"
THROUGHPUTS: Final = {"Bow Pod16, SDK 3.0": "GCP-023"}
"""A published throughput of the same network, by its name."""
EVERY_EPOCH: Final = ("run.checkpoint={every_epochs: 1}", "run.validation={samples: 50000}")
"""A checkpoint and a validation for every epoch, an assumption; the scenario has neither."""
CALLS: Final = ("run.session_calls_per_epoch=5",)
"""As many session calls as ResNet-50 makes for an epoch in the same round; the scenario has one."""
ASSUMPTIONS: Final = {
    "": (),
    "5 session calls per epoch": CALLS,
    "checkpoint and validation\nafter each epoch": EVERY_EPOCH,
    "all three": (*CALLS, *EVERY_EPOCH),
}
_S_PER_H: Final = 3600


def pods_results() -> dict[str, RunResult]:
    """Simulate the 350 epochs on every pod, by scenario name."""
    return {name: simulate(name) for name in (f"efficientnet_b4_pod{pod}" for pod in PODS)}


def assumed_results() -> dict[str, RunResult]:
    """Simulate the run on 256 IPUs under each assumption, by name of the assumption."""
    return {name: simulate(f"efficientnet_b4_pod{PODS[-1]}", overrides=each) for name, each in ASSUMPTIONS.items()}


def hours_rows(pods: Mapping[str, RunResult], assumed: Mapping[str, RunResult]) -> list[HoursRow]:
    """Return the rows of a chart: medium pods, the assumptions on the largest pod, the published time."""
    smaller = [_row(result.simulated.system, result) for result in list(pods.values())[1:-1]]
    largest = [_row(name or result.simulated.system, result) for name, result in assumed.items()]
    return [*smaller, *largest, HoursRow("IPU-POD256, published", "published", {"": published_figure(HOURS)})]


def hours(result: RunResult) -> float:
    """Time to train. [h]"""
    return (result.time_to_train_s or float("nan")) / _S_PER_H


def _row(name: str, result: RunResult) -> HoursRow:
    """Return a row with the parts that take any time."""
    parts = {part: time_s / _S_PER_H for part, time_s in result.run_breakdown.items() if time_s}
    return HoursRow(name, "predicted", parts)
