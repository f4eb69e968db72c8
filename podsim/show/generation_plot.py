"""A chart of text generation: where the time of each kind of step goes, and what fills the memories.

Figures are made directly, without pyplot and its global state.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.patches import Patch

from podsim.format import format_bytes, format_duration_s, format_percent, format_significant
from podsim.result.generation import GenerationResult
from podsim.result.kinds import in_kind_order, kind_of
from podsim.result.rows import IN_PROCESSOR, STREAMING, MemoryReport
from podsim.result.step import StepReport
from podsim.show.chart_frame import framed, legend_entry, plain_frame, write_on_bar

_MOST_IPUS: Final = 16
_ONE_SCALE: Final = 4
_SHOWN_SHARE: Final = 0.02
_MS_PER_S: Final = 1000
_STEP_INCHES, _ROW_INCHES, _FRAME_INCHES = 1.35, 0.36, 1.1
_LABEL_FROM_SHARE: Final = 0.045
_LOADS_FROM: Final = -0.62
_TENANTS: Final = {"weights": "#6b4a9c", "kv_cache": "#b58ad0", "temporaries": "#d9a441", "code": "#8c8c8c"}
_OTHER_TENANT: Final = "#cccccc"
_MEMORIES: Final = {
    IN_PROCESSOR: ("In-Processor-Memory", "MiB", 2**20),
    STREAMING: ("Streaming Memory", "GiB", 2**30),
}


def plot_generation(result: GenerationResult) -> Figure:
    """Prefill over decode, at one scale unless one is much longer, over the memories of the first IPU of each stage."""
    ipus = sorted({row.ipu for row in result.memory.rows})[:_MOST_IPUS]
    steps_inches, memory_inches = 2 * _STEP_INCHES + 0.4, _FRAME_INCHES + _ROW_INCHES * len(ipus)
    figure, body = framed(result, generation_conclusion(result), 0.3 + steps_inches + memory_inches)
    heights = [steps_inches, memory_inches]
    upper, lower = body.subfigures(2, 1, squeeze=False, height_ratios=heights, hspace=0.06).flat
    steps = (result.prefill, result.decode)
    shorter_s, longer_s = sorted(step.time_s for step in steps)
    for axes, step in zip(upper.subplots(2, 1), steps, strict=True):
        _draw_step(axes, step, longer_s if longer_s <= _ONE_SCALE * shorter_s else step.time_s)
    _legend(upper, _kinds(result), "share of prefill, of decode")
    memories = [where for where in _MEMORIES if _fullest_share(result.memory, where) >= _SHOWN_SHARE]
    for axes, where in zip(lower.subplots(1, len(memories), squeeze=False).flat, memories, strict=True):
        _draw_memory(axes, result.memory, ipus, where)
    _legend(lower, _tenants(result.memory), None)
    return figure


def _fullest_share(memory: MemoryReport, where: str) -> float:
    ipu = memory.fullest_ipu(where)
    return 0.0 if ipu is None else memory.used_bytes(ipu, where) / memory.capacity_bytes(where)


def generation_conclusion(result: GenerationResult) -> str:
    """Title of the chart, in two lines: latency and throughput, and what binds them."""
    first, later = (
        f"after {format_duration_s(step.time_s)}, bound by {step.bound}" for step in (result.prefill, result.decode)
    )
    return f"{result.title}\n{format_significant(result.tokens_per_s)} tokens/s: first token {first}; next {later}"


def _draw_step(axes: Axes, step: StepReport, until_s: float) -> None:
    """One bar of its kinds of time; under it what I/O tiles load meanwhile."""
    breakdown, left = step.breakdown, 0.0
    for kind in in_kind_order(breakdown):
        colour, length = kind_of(kind).colour, breakdown[kind] * _MS_PER_S
        axes.barh(0, length, left=left, height=0.8, color=colour, linewidth=0)
        if breakdown[kind] >= _LABEL_FROM_SHARE * until_s:
            write_on_bar(axes, left + length / 2, 0, f"{kind_of(kind).label}\n{length:.3g} ms", colour)
        left += length
    if step.loads_ps:
        colour = kind_of("streaming").colour
        axes.barh(_LOADS_FROM, step.loads_s * _MS_PER_S, height=0.34, color=colour, linewidth=0)
        text = f"loads of weights by I/O tiles meanwhile, {format_duration_s(step.loads_s)}"
        write_on_bar(axes, step.loads_s * _MS_PER_S / 2, _LOADS_FROM, text, colour)
    lowest = _LOADS_FROM - 0.2 if step.loads_ps else -0.45
    axes.set(xlim=(0, until_s * _MS_PER_S), ylim=(lowest, 0.45), yticks=[], xlabel="mean over the IPUs [ms]")
    title = f"A {step.name} step: {format_duration_s(step.time_s, 4)}, bound by {step.bound}"
    axes.set_title(title, loc="left", fontsize=10.5)
    plain_frame(axes)


def _draw_memory(axes: Axes, memory: MemoryReport, ipus: Sequence[int], where: str) -> None:
    """Tenants of one memory, an IPU per row, before its capacity."""
    name, unit, size = _MEMORIES[where]
    capacity = memory.capacity_bytes(where)
    for row, ipu in enumerate(ipus):
        left = 0.0
        for tenant, byte_count in memory.tenants(ipu, where).items():
            colour, length = _TENANTS.get(tenant, _OTHER_TENANT), byte_count / size
            axes.barh(row, length, left=left, height=0.74, color=colour, linewidth=0)
            left += length
        share = format_percent(memory.used_bytes(ipu, where) / capacity, 0)
        axes.annotate(share, (left, row), (4, 0), textcoords="offset points", va="center", fontsize=8.5)
    axes.axvline(capacity / size, color="black", lw=1.2, ls=(0, (4, 2)))
    axes.set(xlim=(0, 1.1 * capacity / size), ylim=(len(ipus) - 0.45, -0.55), xlabel=f"[{unit}]")
    axes.set_yticks(range(len(ipus)), [f"IPU {ipu}" for ipu in ipus])
    axes.tick_params(axis="y", length=0)
    whose = "an IPU" if len(ipus) == 1 else "the first IPU of each stage"
    axes.set_title(f"{name} of {whose}, up to {format_bytes(capacity)}", loc="left", fontsize=10.5)
    plain_frame(axes)


def _legend(figure: SubFigure, handles: Sequence[Patch], title: str | None) -> None:
    figure.legend(handles=handles, loc="outside right upper", frameon=False, title=title, fontsize=9.5)


def _kinds(result: GenerationResult) -> list[Patch]:
    steps = (result.prefill, result.decode)
    names = in_kind_order(kind for step in steps for kind, time_ps in step.breakdown_ps.items() if time_ps)
    return [legend_entry(kind_of(kind).colour, f"{kind_of(kind).label}  {_shares(steps, kind)}") for kind in names]


def _shares(steps: Sequence[StepReport], kind: str) -> str:
    return ", ".join(format_percent(step.breakdown_ps.get(kind, 0) / step.time_ps) for step in steps)


def _tenants(memory: MemoryReport) -> list[Patch]:
    shown = dict.fromkeys(row.tenant for row in memory.rows)
    colours: Mapping[str, str] = {tenant: _TENANTS.get(tenant, _OTHER_TENANT) for tenant in shown}
    return [legend_entry(colour, tenant.replace("_", " ")) for tenant, colour in colours.items()]
