"""Charts of a result: where its time goes, how each IPU spends it, what fills memories, which inputs move it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from podsim.errors import PodsimError
from podsim.format import (
    format_bytes,
    format_count,
    format_duration_s,
    format_error,
    format_percent,
    format_significant,
)
from podsim.report.chart import FASTER, SLOWER, TOTAL, Axis, Bar, Bars, Chart, Fill, Sheet, TextPlace, fills_in_turn
from podsim.report.table import Table, columns
from podsim.result.base import Result
from podsim.result.breakdown import exact_seconds
from podsim.result.forward import ForwardResult
from podsim.result.generation import GenerationResult
from podsim.result.kinds import fill_of_kind, in_kind_order, kind_of
from podsim.result.ranges import ranges_line
from podsim.result.result import RunResult
from podsim.result.rows import IN_PROCESSOR, STREAMING, IpuAccount, MemoryReport
from podsim.result.sources import Sources
from podsim.result.step import StepReport
from podsim.show.tables import moved_figure
from podsim.show.timeline import MOST_IPUS, left_out, timeline_chart

MEMORIES: Final = {
    IN_PROCESSOR: ("In-Processor-Memory", "MiB", 2**20),
    STREAMING: ("Streaming Memory", "GiB", 2**30),
}
_DIGITS: Final = 4
_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_ENOUGH: Final = 2.0
_ONE_SCALE: Final = 4
"""Steps of which one is no more than so many times as long as the other are drawn to one scale."""
_MEMORY_ROOM, _INPUT_ROOM = 1.02, 0.18
_NEXT_TO_EMPTY: Final = 0.02
_MOST_INPUTS: Final = 15
_LEAST_SHOWN: Final = 0.0005
_PERCENT: Final = 100


def unit_for_s(longest_s: float) -> tuple[float, str]:
    """The unit of an axis that goes up to a time: its length and its name. [s]

    >>> unit_for_s(12.5), unit_for_s(0.15)
    ((1.0, 's'), (0.001, 'ms'))
    """
    return next(((scale_s, name) for scale_s, name in _UNITS if longest_s >= _ENOUGH * scale_s), _UNITS[-1])


def result_sheet(result: Result, title: str, rows: Sequence[Sequence[Chart]]) -> Sheet:
    """Charts of a result below its title, what was simulated and what a reader must know."""
    return Sheet(
        title=f"{result.title}\n{title}",
        rows=rows,
        about=[*result.about, *filter(None, [ranges_line(result.ranges)])],
        warnings=[
            *(f"verdict: {each}" for each in result.verdict),
            *(f"warning: {each}" for each in result.warnings),
        ],
        inputs=result.inputs,
    )


def run_sheet(result: RunResult | ForwardResult) -> Sheet:
    """The timeline of a weight update or a session call, if it was recorded, over how each IPU spends it."""
    if isinstance(result, RunResult):
        what, breakdown_ps = "weight update", result.breakdown_ps
        told = f"{format_duration_s(result.weight_update_s, _DIGITS)} per weight update"
    else:
        what, breakdown_ps = "session call", result.call.breakdown_ps
        batches = format_count(result.batches_per_call)
        told = f"{format_duration_s(result.call.time_s, _DIGITS)} per call of {batches} batches"
    total_ps = sum(breakdown_ps.values()) or 1
    largest = sorted(breakdown_ps.items(), key=lambda item: -item[1])[:3]
    parts = ", ".join(f"{kind_of(kind).label} {format_percent(time_ps / total_ps, 0)}" for kind, time_ps in largest)
    slowest = max(result.ipus, key=lambda account: account.busy_s, default=None)
    pace = f"; IPU {slowest.ipu} sets the pace" if slowest is not None and len(result.ipus) > 1 else ""
    timeline = timeline_chart(result.trace, result.passes, what)
    charts = [*filter(None, [timeline]), ipus_chart(what, result.ipus, breakdown_ps)]
    return result_sheet(result, f"{told}: {parts}{pace}", [[chart] for chart in charts])


def generation_sheet(result: GenerationResult) -> Sheet:
    """Both kinds of steps of text generation, to one scale unless one is much longer, over what fills the memories."""
    steps = (result.prefill, result.decode)
    first, later = (f"after {format_duration_s(step.time_s)}, bound by {step.bound}" for step in steps)
    rate = format_significant(result.tokens_per_s)
    rows = [*([chart] for chart in step_charts(steps)), list(memory_charts(result.memory))]
    told = f"{rate} tokens/s: first token {first}; next {later}"
    return result_sheet(result, told, [row for row in rows if row])


def step_charts(steps: Sequence[StepReport]) -> list[Chart]:
    """A waterfall for each step, to one scale unless one is much longer."""
    shorter_s, longer_s = min(step.time_s for step in steps), max(step.time_s for step in steps)
    until_s = longer_s if longer_s <= _ONE_SCALE * shorter_s else 0.0
    return [
        waterfall(f"{step.name} step", step.breakdown, step.sources, step.loads_s, until_s, f", bound by {step.bound}")
        for step in steps
    ]


def waterfall(
    what: str,
    breakdown: Mapping[str, float],
    sources: Sources,
    loads_s: float = 0.0,
    until_s: float = 0.0,
    bound: str = "",
) -> Chart:
    """Kinds of time one after the other, until they add up to the whole.

    Args:
        what: The stretch of time, such as `weight update`.
        breakdown: Time by kind. [s]
        sources: What each kind stands on.
        loads_s: Loads of weights meanwhile, which are not part of it. [s]
        until_s: What the axis shows at least. [s]
        bound: What the title says at its end.
    """
    kinds = [kind for kind in in_kind_order(breakdown) if breakdown[kind]]
    total_s = sum(breakdown.values())
    end_s = max(total_s, loads_s, until_s)
    scale_s, unit = unit_for_s(end_s)
    ends = list(accumulate((breakdown[kind] for kind in kinds), initial=0.0))
    bars = []
    for kind, start, end in zip(kinds, ends, ends[1:], strict=False):
        share = format_percent(breakdown[kind] / total_s)
        tip = {
            "kind": kind_of(kind).label,
            "what it is": kind_of(kind).meaning,
            "time": format_duration_s(breakdown[kind], _DIGITS),
            "share": share,
            "stands on": sources.main(kind),
        }
        text = f"{format_duration_s(breakdown[kind])} · {share}"
        bars.append(Bar(kind_of(kind).label, start / scale_s, end / scale_s, fill_of_kind(kind), text, tip=tip))
    bars.append(Bar(what, 0.0, total_s / scale_s, TOTAL, format_duration_s(total_s, _DIGITS)))
    if loads_s:
        meanwhile = "loads of weights by I/O tiles meanwhile"
        bars.append(Bar(meanwhile, 0.0, loads_s / scale_s, fill_of_kind("streaming"), format_duration_s(loads_s)))
    largest = sorted(kinds, key=lambda kind: -breakdown[kind])[:3]
    most = ", ".join(f"{kind_of(kind).label} {format_percent(breakdown[kind] / total_s)}" for kind in largest)
    rows = []
    for kind in kinds:
        known, share = kind_of(kind), format_percent(breakdown[kind] / total_s)
        rows.append((known.label, f"{breakdown[kind]:.9g}", share, sources.main(kind), known.meaning))
    rows.append(("total", f"{total_s:.9g}", format_percent(1.0), "", ""))
    return Chart(
        title=f"Where one {what} goes: {format_duration_s(total_s, _DIGITS)}{bound}",
        description=f"Waterfall of the kinds of time of one {what}. Largest: {most}.",
        drawn=Bars(bars, Axis("time, mean over the IPUs", unit, (0.0, end_s / scale_s))),
        numbers=Table(columns("kind", ">seconds", ">share", "source", "what it is"), rows),
        notes=[f"Sources: {sources.text}."] if sources.text else [],
    )


def ipus_chart(what: str, accounts: Sequence[IpuAccount], mean_ps: Mapping[str, int]) -> Chart:
    """Bars of the kinds of time of each IPU of a replica, and of their mean."""
    shown = accounts[:MOST_IPUS]
    rows = [(_ipu_row(each), str(each.ipu), each.stages, each.seconds) for each in shown]
    mean = exact_seconds(mean_ps)
    if len(accounts) != 1:
        rows.append(("mean", "all", "", mean))
    total_s = max(sum(times_s.values()) for *_, times_s in rows) or 1.0
    scale_s, unit = unit_for_s(total_s)
    kinds = in_kind_order(kind for *_, times_s in rows for kind, time_s in times_s.items() if time_s)
    bars = []
    for row, ipu, stages, times_s in rows:
        end = 0.0
        for kind in in_kind_order(times_s):
            start, end = end, end + times_s[kind]
            share = format_percent(times_s[kind] / total_s, 0)
            tip = {
                "IPU": ipu,
                "holds": stages,
                "kind": kind_of(kind).label,
                "time": format_duration_s(times_s[kind], _DIGITS),
                "share": share,
            }
            if times_s[kind]:
                fill = fill_of_kind(kind)
                bars.append(Bar(row, start / scale_s, end / scale_s, fill, share, TextPlace.INSIDE, tip))
    pace = f"How the IPU spends one {what}"
    if len(accounts) > 1:
        slowest, idlest = max(accounts, key=lambda each: each.busy_s), min(accounts, key=lambda each: each.busy_s)
        pace = (
            f"IPU {slowest.ipu} is at work {format_percent(slowest.busy_s / total_s, 0)} of the time, "
            f"IPU {idlest.ipu} waits {format_percent(1 - idlest.busy_s / total_s, 0)}"
        )
    shares = {kind: format_percent(mean.get(kind, 0.0) / total_s) for kind in kinds}
    headers = (">IPU", "holds", *(f">{kind_of(kind).label} [s]" for kind in kinds))
    cells = [(ipu, stages, *(f"{times_s.get(kind, 0.0):.6g}" for kind in kinds)) for _, ipu, stages, times_s in rows]
    return Chart(
        title=pace,
        description=f"Bars of time by kind in one {what}, one for each IPU of a replica. {pace}.",
        drawn=Bars(bars, Axis(f"time in one {what}", unit, (0.0, total_s / scale_s))),
        legend={f"{kind_of(kind).label}  {shares[kind]}": fill_of_kind(kind) for kind in kinds},
        legend_title=f"share of the {what.split()[-1]}",
        numbers=Table(columns(*headers), cells),
        notes=left_out(len(accounts)),
    )


def _ipu_row(account: IpuAccount) -> str:
    return f"IPU {account.ipu}: {account.stages}" if account.stages else f"IPU {account.ipu}"


def is_next_to_empty(memory: MemoryReport, where: str) -> bool:
    """True if so little is in a memory that a chart would show nothing, or nothing is."""
    fullest = memory.fullest_ipu(where)
    return fullest is None or memory.used_bytes(fullest, where) < _NEXT_TO_EMPTY * memory.capacity_bytes(where)


def memory_charts(memory: MemoryReport) -> Iterator[Chart]:
    """Bars of the tenants of each memory of each IPU of a replica; memories that are next to empty are left out."""
    sums: dict[str, int] = {}
    for row in memory.rows:
        sums[row.tenant] = sums.get(row.tenant, 0) + row.size_bytes
    # What takes most has the first fill, in both memories the same.
    fills = fills_in_turn(sorted(sums, key=lambda tenant: (-sums[tenant], tenant)))
    for where in MEMORIES:
        if not is_next_to_empty(memory, where):
            yield _memory_chart(memory, where, fills)


def memory_title(memory: MemoryReport, where: str) -> str:
    """The IPU with the least room left in a memory that is used."""
    fullest, capacity = memory.fullest_ipu(where), memory.capacity_bytes(where)
    assert fullest is not None
    used = memory.used_bytes(fullest, where)
    share = f", {format_percent(used / capacity)} of it" if capacity else ""
    return f"{MEMORIES[where][0]}: IPU {fullest} uses {format_bytes(used)} of {format_bytes(capacity)}{share}"


def _memory_chart(memory: MemoryReport, where: str, fills: Mapping[str, Fill]) -> Chart:
    (name, unit, unit_bytes), capacity = MEMORIES[where], memory.capacity_bytes(where)
    ipus, bars = sorted({row.ipu for row in memory.rows if row.where == where}), []
    for ipu in ipus[:MOST_IPUS]:
        held, end = memory.tenants(ipu, where), 0
        for tenant in (each for each in fills if each in held):
            start, end = end, end + held[tenant]
            size = format_bytes(held[tenant])
            tip = {"IPU": str(ipu), "what": tenant.replace("_", " "), "size": size}
            bounds = (start / unit_bytes, end / unit_bytes)
            bars.append(Bar(f"IPU {ipu}", *bounds, fills[tenant], size, TextPlace.INSIDE, tip))
    whole = max(capacity, *(memory.used_bytes(ipu, where) for ipu in ipus)) / unit_bytes * _MEMORY_ROOM
    title, line = memory_title(memory, where), f"capacity, {format_bytes(capacity)}"
    inside = {row.tenant for row in memory.rows if row.where == where}
    return Chart(
        title=title,
        description=f"Bars of what fills the {name} of each IPU, with its capacity as a line. {title}.",
        drawn=Bars(bars, Axis(f"{name} of an IPU", unit, (0.0, whole)), {line: capacity / unit_bytes}),
        legend={tenant.replace("_", " "): fills[tenant] for tenant in fills if tenant in inside},
        numbers=memory_numbers(memory, where),
        notes=[f"The dashed line is the {line}.", *left_out(len(ipus))],
    )


def memory_numbers(memory: MemoryReport, where: str) -> Table:
    """A table of the tenants of a memory of each IPU."""
    held = [row for row in memory.rows if row.where == where]
    sums: dict[str, int] = {}
    for row in held:
        sums[row.tenant] = sums.get(row.tenant, 0) + row.size_bytes
    tenants = sorted(sums, key=lambda tenant: (-sums[tenant], tenant))
    rows = []
    for ipu in sorted({row.ipu for row in held}):
        sizes, used = memory.tenants(ipu, where), memory.used_bytes(ipu, where)
        cells = (f"{sizes.get(tenant, 0):,}" for tenant in tenants)
        rows.append((str(ipu), *cells, f"{used:,}", f"{memory.capacity_bytes(where) - used:,}"))
    names = (f">{tenant.replace('_', ' ')} [B]" for tenant in tenants)
    return Table(columns(">IPU", *names, ">used [B]", ">free [B]"), rows)


def tornado_sheet(result: Result) -> Sheet:
    """A tornado: how far each input moves the headline of a result.

    Raises:
        PodsimError: No input that is assumed or calibrated moves the result.
    """
    chart = inputs_chart(result.assumptions)
    if chart is None:
        raise PodsimError("no assumed or calibrated input moves this result", do="leave --tornado out")
    return result_sheet(result, chart.title, [[chart]])


def inputs_chart(assumptions: Sequence[Mapping[str, object]]) -> Chart | None:
    """Bars of how far each input moves the headline at both ends of its range; None where none is known to."""
    moving = [row for row in assumptions if _moves(row.get("influence"))]
    if not moving:
        return None
    rows, metric, key = moving[:_MOST_INPUTS], moved_figure(assumptions), str(moving[0]["key"])
    fills = {"at the lower end of its range": FASTER, "at the upper end": SLOWER}
    # Keys without the way to them, which the tip shows, but for those that would be taken for one another.
    short = {key: ".".join(key.split(".")[-2:]) for key in (str(row["key"]) for row in rows)}
    counts = Counter(short.values())
    names = {key: name if counts[name] == 1 else key for key, name in short.items()}
    bars = [bar for row in rows for bar in _input_bars(row, names[str(row["key"])], fills)]
    ends = [bar.end for bar in bars]
    reach = max(map(abs, ends)) or 1.0
    low, high = min(0.0, *ends), max(0.0, *ends)
    room = _INPUT_ROOM * (high - low)  # for the figures beside the bars, however short those of one side are
    domain = (low - room, high + room) if any(ends) else (-reach, reach)
    more = len(moving) - len(rows)
    return Chart(
        title=f"Measure this next: {key} moves {metric} most",
        description=f"Bars of how far each input moves {metric}; {key} moves it most, by up to {reach:.3g} %.",
        drawn=Bars(bars, Axis(f"change of {metric}", "%", domain), {"no change": 0.0}),
        legend=fills,
        notes=[f"{more} more inputs move it less."] if more else [],
    )


def _moves(influence: object) -> bool:
    if not isinstance(influence, Mapping):
        return False
    return any(influence[end] is None or abs(influence[end]) >= _LEAST_SHOWN for end in ("low", "high"))


def _input_bars(row: Mapping[str, object], name: str, fills: Mapping[str, Fill]) -> list[Bar]:
    """Both ends, the one that is further away first, so that it does not hide the other."""
    influence = row["influence"]
    assert isinstance(influence, Mapping)
    tip = {each: str(row.get(each) or "") for each in ("key", "value", "basis", "source")}
    bars = []
    for end, (where, fill) in zip(("low", "high"), fills.items(), strict=True):
        share = influence[end]
        change = "impossible" if share is None else format_error(share)
        shown = {"where": where, "change": change, **tip}
        bars.append(
            Bar(f"{name} = {row['value']}", 0.0, _PERCENT * (share or 0.0), fill, change, TextPlace.BEYOND, shown)
        )
    return sorted(bars, key=lambda bar: -abs(bar.end))
