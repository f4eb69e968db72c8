"""BERT-Large: how its batch is made, what its two phases take, what fills its memories, and what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from matplotlib.axes import Axes

from notebooks.charts import CLEAR, MEASURED_INK, PARTS, Chart, HoursRow, bare_frame, chart_of_height
from notebooks.figures import published_figure
from podsim.result.result import RunResult
from podsim.result.rows import IN_PROCESSOR, STREAMING
from podsim.runs import simulate
from podsim.scenario import TrainingScenario, load_scenario
from podsim.show.matplotlib_charts import write_on_bar

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
    """Simulate both phases of pre-training on each pod, by scenario name."""
    names = [f"bert_large_{phase}_pod{pod}" for phase in PHASES for pod in pods]
    return {name: simulate(name) for name in names}


def batch_frame(results: Mapping[str, RunResult]) -> DataFrame:
    """Return the factors of the batch, with a row for each scenario that trains with a fixed division.

    Columns: IPUs, IPUs per replica, replicas, micro-batch, accumulation, batch, their product; the time of a weight
    update, and the share of it outside of the main pipeline cycles: fill, flush, collectives, optimizer, host.
    """
    import pandas as pd

    return pd.DataFrame([_batch(name, result) for name, result in results.items()]).set_index("scenario")


def _batch(name: str, result: RunResult) -> dict[str, str | float]:
    division = load_scenario(name).require(TrainingScenario).parallelism
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
    """Return the rows of a chart: a published time, the predicted phases on each pod, a published time."""
    return [
        HoursRow("DGX A100, published", "other machine", {"": published_figure(DGX_A100_HOURS)}),
        *(HoursRow(f"IPU-POD{pod}, predicted", "predicted", hours(results, pod)) for pod in pods),
        HoursRow("IPU-POD64, published", "published", {"": published_figure(POD64_HOURS)}),
    ]


def phase_results(results: Mapping[str, RunResult]) -> dict[str, RunResult]:
    """Return the results by phase and pod, for example `phase 1, IPU-POD4`."""
    return {
        f"{phase.replace('phase', 'phase ')}, {result.simulated.system}": result
        for phase in PHASES
        for name, result in results.items()
        if phase in name
    }


_MEGA: Final = 1e6
_TITLES: Final = {IN_PROCESSOR: "In-Processor-Memory [MB]", STREAMING: "streaming memory [MB]"}
_ORDER: Final = ("weights", "accumulators", "stash", "temporaries", "optimizer_state", "activations", "code")
_LABEL_FROM_SHARE: Final = 0.05
_DASHED: Final = (0, (4, 2))


def memory_chart(result: RunResult) -> Chart:
    """Draw the memory of each IPU of a replica by tenant, with a panel for each memory in use."""
    ipus = sorted({row.ipu for row in result.memory.rows})
    used = [where for where in _TITLES if result.memory.fullest_ipu(where) is not None]
    figure = chart_of_height(1.5 + 0.5 * len(ipus))
    panels = figure.subplots(1, len(used), squeeze=False, sharey=True, width_ratios=[3, 1][: len(used)])[0]
    colours = _colours(result)
    for axes, where in zip(panels, used, strict=True):
        for place, ipu in enumerate(ipus):
            _bar(axes, place, result.memory.tenants(ipu, where), colours)
        axes.set_title(_TITLES[where], loc="left", fontsize=10)
        axes.margins(x=0.12)
        bare_frame(axes)
    _capacity(panels[0], result.memory.capacity_bytes(used[0]) / _MEGA)
    panels[0].set_yticks(range(len(ipus)), [_name(result, ipu) for ipu in ipus])
    panels[0].set_ylim(len(ipus) - 0.4, -0.6)
    for tenant, colour in colours.items():
        panels[0].plot([], [], "s", color=colour, label=tenant.replace("_", " "), markersize=8)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(colours), frameon=False, fontsize=8.5)
    return figure


def _colours(result: RunResult) -> dict[str, str]:
    """Return a colour for each tenant; a known tenant has the same colour in every chart."""
    tenants = {row.tenant for row in result.memory.rows}
    known = dict(zip(_ORDER, PARTS, strict=False))
    rest = dict.fromkeys(sorted(tenants - known.keys()), PARTS[-1])
    return {tenant: colour for tenant, colour in (known | rest).items() if tenant in tenants}


def _name(result: RunResult, ipu: int) -> str:
    stages = next((account.stages for account in result.ipus if account.ipu == ipu), "")
    return f"IPU {ipu}\n{stages}".rstrip()


def _bar(axes: Axes, place: int, tenants: Mapping[str, int], colours: Mapping[str, str]) -> None:
    total, left = sum(tenants.values()) / _MEGA, 0.0
    for tenant in (name for name in colours if name in tenants):
        size = tenants[tenant] / _MEGA
        axes.barh(place, size, 0.66, left=left, color=colours[tenant], linewidth=0)
        if size >= _LABEL_FROM_SHARE * total:
            write_on_bar(axes, left + size / 2, place, f"{size:.0f}", colours[tenant])
        left += size
    if len(tenants) > 1:
        beside = (2, 0)
        axes.annotate(
            f"{total:.0f}", (left, place), beside, textcoords="offset points", va="center", fontsize=9, bbox=CLEAR
        )


def _capacity(axes: Axes, megabytes: float) -> None:
    axes.axvline(megabytes, color="black", linewidth=1, linestyle=_DASHED)
    axes.annotate(
        f"holds {megabytes:.0f}",
        (megabytes, 1),
        (-3, 2),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right",
        fontsize=8.5,
        color=MEASURED_INK,
    )
