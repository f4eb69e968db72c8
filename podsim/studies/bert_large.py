"""The story of BERT-Large: how its batch is made, what its two phases take, and what was published of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from podsim.activity import simulate
from podsim.report.result import RunResult
from podsim.specs import TrainingScenario, load_scenario
from podsim.studies.figures import figure
from podsim.studies.hours_chart import HoursRow

if TYPE_CHECKING:
    from pandas import DataFrame

PHASES: Final = ("phase1", "phase2")
PODS: Final = (4, 16, 64)
POD64_HOURS, DGX_A100_HOURS = "BLOG-001", "BLOG-002"
"""Both phases on an IPU-POD64, and on a DGX A100 in the same chart."""
THROUGHPUTS: Final = {
    "phase 1, Bow Pod16, TensorFlow 2": "GCP-039",
    "phase 1 in packs, Bow Pod16, PyTorch": "GCP-041",
    "phase 1 in packs, Bow Pod64, PyTorch": "GCP-045",
}
"""Published throughputs of the same phases, by their names."""
_S_PER_H: Final = 3600
_MAIN: Final = "main"


def bert_large_results(pods: Sequence[int] = PODS) -> dict[str, RunResult]:
    """Both phases of pre-training on each pod, by name of the scenario."""
    names = [f"bert_large_{phase}_pod{pod}" for phase in PHASES for pod in pods]
    return {name: simulate(name) for name in names}


def batch_frame(results: Mapping[str, RunResult]) -> DataFrame:
    """How a batch is made: a row for each scenario that trains with a fixed division.

    Columns: IPUs, IPUs per replica, replicas, micro-batch, accumulation, batch, their product; the time of a weight
    update, and the share of it outside of the main pipeline cycles: fill, flush, collectives, optimizer, host.
    """
    import pandas as pd

    return pd.DataFrame([_batch(name, result) for name, result in results.items()]).set_index("scenario")


def _batch(name: str, result: RunResult) -> dict[str, str | float]:
    division = load_scenario(name).of(TrainingScenario).parallelism
    replicas = division.replication_factor
    main_s = sum(phase.seconds for phase in result.phases if phase.name == _MAIN)
    return {
        "scenario": name,
        "IPUs": result.simulated.ipus_used,
        "IPUs per replica": result.simulated.ipus_used // replicas,
        "replicas": replicas,
        "micro-batch": division.micro_batch_size,
        "accumulation": division.accumulation_factor,
        "batch": division.batch_size,
        "update [s]": result.weight_update_s,
        "outside main cycles [%]": 100 * (1 - main_s / result.weight_update_s),
    }


def hours(results: Mapping[str, RunResult], pod: int) -> dict[str, float]:
    """Predicted hours of both phases on one pod. [h]"""
    times = {phase: results[f"bert_large_{phase}_pod{pod}"].time_to_train_s for phase in PHASES}
    return {phase.replace("phase", "phase "): (time or float("nan")) / _S_PER_H for phase, time in times.items()}


def hours_rows(results: Mapping[str, RunResult], pods: Sequence[int]) -> list[HoursRow]:
    """For a chart: both published times, then both phases on each pod."""
    return [
        HoursRow("DGX A100, published", "other machine", {"": figure(DGX_A100_HOURS)}),
        *(HoursRow(f"IPU-POD{pod}, predicted", "predicted", hours(results, pod)) for pod in pods),
        HoursRow("IPU-POD64, published", "published", {"": figure(POD64_HOURS)}),
    ]


def phase_results(results: Mapping[str, RunResult]) -> dict[str, RunResult]:
    """The same results by phase and pod in words, for example `phase 1, IPU-POD4`."""
    return {
        f"{phase.replace('phase', 'phase ')}, {result.simulated.system}": result
        for phase in PHASES
        for name, result in results.items()
        if phase in name
    }
