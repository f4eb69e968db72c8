"""A chart of what fills the memories of the IPUs of a replica."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from matplotlib.axes import Axes

from podsim.report.chart_frame import write_on_bar
from podsim.report.result import RunResult
from podsim.report.rows import IN_PROCESSOR, STREAMING
from podsim.studies.chart import CLEAR, MEASURED_INK, PARTS, Chart, bare_frame, chart_of_height

_MEGA: Final = 1e6
_TITLES: Final = {IN_PROCESSOR: "In-Processor-Memory [MB]", STREAMING: "streaming memory [MB]"}
_ORDER: Final = ("weights", "accumulators", "stash", "temporaries", "optimizer_state", "activations", "code")
_LABEL_FROM_SHARE: Final = 0.05
_DASHED: Final = (0, (4, 2))


def memory_chart(result: RunResult) -> Chart:
    """A bar for each IPU of a replica and each memory that is used, stage after stage, with what fills it."""
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
    """A colour for each tenant, the same in every chart as far as its tenants are known."""
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
