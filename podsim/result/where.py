"""Report sections on time by kind, IPU and operation, and on memory by tenant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Final, TypeVar

from podsim.format import format_bytes, format_count, format_duration_s, format_percent, format_significant, unit_for_s
from podsim.report.chart import TOTAL, Axis, Bar, Bars, Chart, Fill, TextPlace, fills_in_turn
from podsim.report.report import Folded, Part
from podsim.report.table import Cell, Cells, Column, Passage, Table, columns
from podsim.result.breakdown import exact_seconds
from podsim.result.kinds import COMPUTE, OTHER, WAITING, fill_of_kind, in_kind_order, kind_of
from podsim.result.rows import (
    IN_PROCESSOR,
    STREAMING,
    IpuAccount,
    MemoryReport,
    OperationRow,
    PhaseTime,
    by_size,
    merged,
    part_of,
)
from podsim.result.sources import Sources
from podsim.units import ps_to_seconds

_Row = TypeVar("_Row")
MOST_IPUS: Final = 16
"""Most rows of a chart that are readable."""
_DIGITS: Final = 4
_LEAST: Final = 0.001
_MS_FROM_S: Final = 0.02
_MOST_OPERATIONS: Final = 8
_MEMORIES: Final = {
    IN_PROCESSOR: ("In-Processor-Memory", "MiB", 2**20),
    STREAMING: ("Streaming Memory", "GiB", 2**30),
}
_ROOM: Final = 1.02
_NEXT_TO_EMPTY: Final = 0.02


def merge_short_kinds(breakdown: Mapping[str, float]) -> dict[str, float]:
    """Return a breakdown in the order of kinds; kinds below 0.1 % of the total are merged into `other`.

    >>> merge_short_kinds({"sync": 0.001, "matmul": 4.0, "exchange": 0.002, "bubble": 0.0})
    {'matmul': 4.0, 'other': 0.003}
    """
    least = _LEAST * sum(breakdown.values())
    shown = {kind: breakdown[kind] for kind in in_kind_order(breakdown) if breakdown[kind] >= least > 0}
    rest = sum(time for time in breakdown.values() if 0 < time < least)
    return shown | ({OTHER: rest} if rest else {})


def largest(breakdown: Mapping[str, float], decimals: int = 0) -> str:
    """Return the three largest kinds with their shares, as text."""
    total = sum(breakdown.values()) or 1
    kinds = sorted(breakdown, key=lambda kind: -breakdown[kind])[:3]
    return ", ".join(f"{kind_of(kind).label} {format_percent(breakdown[kind] / total, decimals)}" for kind in kinds)


def waterfall(
    what: str,
    breakdown: Mapping[str, float],
    sources: Sources,
    told: str = "",
    *,
    loads_s: float = 0.0,
    until_s: float = 0.0,
) -> Chart:
    """Return a chart of the kinds of time, stacked up to the total; the table has the largest kind first.

    Concurrent loads of weights are not part of it. The axis goes up to `until_s` at least. [s]
    """
    times_s, total_s = merge_short_kinds(breakdown), sum(breakdown.values())
    end_s = max(total_s, loads_s, until_s)
    scale_s, unit = unit_for_s(end_s)
    shares = {kind: time_s / total_s for kind, time_s in times_s.items()}
    ends = list(accumulate(times_s.values(), initial=0.0))
    bars = []
    for (kind, time_s), start, end in zip(times_s.items(), ends, ends[1:], strict=False):
        known, share = kind_of(kind), format_percent(shares[kind])
        tip = {"kind": known.label, "what it is": known.meaning, "time": format_duration_s(time_s, _DIGITS)}
        tip |= {"share": share, "stands on": sources.main(kind)}
        text = f"{format_duration_s(time_s)} · {share}"
        bars.append(Bar(known.label, start / scale_s, end / scale_s, fill_of_kind(kind), text, tip=tip))
    bars.append(Bar(what.split(" ", 1)[1], 0.0, total_s / scale_s, TOTAL, format_duration_s(total_s, _DIGITS)))
    if loads_s:
        meanwhile = "loads of weights by I/O tiles meanwhile"
        bars.append(Bar(meanwhile, 0.0, loads_s / scale_s, fill_of_kind("streaming"), format_duration_s(loads_s)))
    finer, finer_s = ("ms", 1e-3) if total_s >= _MS_FROM_S else ("us", 1e-6)
    rows = [
        (
            kind_of(kind).label,
            Cell(format_percent(shares[kind]), shares[kind]),
            Cell(f"{time_s / finer_s:,.1f}", time_s / finer_s),
            sources.main(kind),
            kind_of(kind).meaning,
        )
        for kind, time_s in sorted(times_s.items(), key=lambda item: (item[0] == OTHER, -item[1]))
    ]
    heads = (*columns("kind", ">share", f">{finer}", "source"), Column("what it is", style="dim"))
    stands_on = [f"Sources: {sources.text}"] if sources.text else []
    return Chart(
        title=f"Where {what} goes: {format_duration_s(total_s, _DIGITS)}{told}",
        description=f"Waterfall of the kinds of time of {what}. Largest: {largest(breakdown, 1)}.",
        drawn=Bars(bars, Axis("time, mean over the IPUs", unit, (0.0, end_s / scale_s))),
        numbers=Table(heads, rows, notes=stands_on),
        notes=stands_on,
    )


def ipus_chart(what: str, accounts: Sequence[IpuAccount], mean_ps: Mapping[str, int]) -> Chart:
    """Return bars of the time by kind, of each IPU of a replica and of their mean; the table merges equal IPUs."""
    mean = exact_seconds(mean_ps)
    total_s = max([sum(mean.values()), *(sum(account.seconds.values()) for account in accounts)]) or 1.0
    shown = merge_short_kinds(mean)
    rows = [
        (f"IPU {account.ipu}" + f": {account.stages}" * bool(account.stages), account.stages, account.seconds)
        for account in accounts
    ]
    drawn = rows[:MOST_IPUS] + ([("mean", "", mean)] if len(accounts) != 1 else [])
    scale_s, unit = unit_for_s(total_s)
    bars = []
    for row, stages, times_s in drawn:
        end = 0.0
        for kind in [*(each for each in shown if each != OTHER), OTHER]:
            rest = sum(time_s for name, time_s in times_s.items() if name not in shown)
            start, end = end, end + (rest if kind == OTHER else times_s.get(kind, 0.0))
            if end == start:
                continue
            share = format_percent((end - start) / total_s, 0)
            tip = {"IPU": row.partition(":")[0].removeprefix("IPU "), "holds": stages, "kind": kind_of(kind).label}
            tip |= {"time": format_duration_s(end - start, _DIGITS), "share": share}
            bars.append(Bar(row, start / scale_s, end / scale_s, fill_of_kind(kind), share, TextPlace.INSIDE, tip))
    pace, slowest = f"How the IPU spends one {what}", None
    if len(accounts) > 1:
        slowest, idlest = max(accounts, key=lambda each: each.busy_s), min(accounts, key=lambda each: each.busy_s)
        pace = (
            f"IPU {slowest.ipu} is at work {format_percent(slowest.busy_s / total_s, 0)} of the time, "
            f"IPU {idlest.ipu} waits {format_percent(1 - idlest.busy_s / total_s, 0)}"
        )
    return Chart(
        title=pace,
        description=f"Bars of time by kind in one {what}, one for each IPU of a replica. {pace}.",
        drawn=Bars(bars, Axis(f"time in one {what}", unit, (0.0, total_s / scale_s))),
        legend={
            f"{kind_of(kind).label}  {format_percent(time_s / total_s)}": fill_of_kind(kind)
            for kind, time_s in shown.items()
        },
        legend_title=f"share of the {what.split()[-1]}",
        numbers=_ipu_table(accounts, mean_ps, slowest),
        notes=hidden_ipus_note(len(accounts)),
    )


def _ipu_table(accounts: Sequence[IpuAccount], mean_ps: Mapping[str, int], slowest: IpuAccount | None) -> Table:
    """Return a table of the shares of computing, data movement and waiting of the first IPUs, and of all."""

    def shares(time_ps: Mapping[str, int]) -> Iterator[Cell]:
        total_ps = sum(time_ps.values()) or 1
        families = {kind: kind_of(kind).family for kind in time_ps}
        compute, waiting = (
            sum(time_p for kind, time_p in time_ps.items() if families[kind] == family) / total_ps
            for family in (COMPUTE, WAITING)
        )
        yield from (Cell(format_percent(each), each) for each in (compute, 1 - (compute + waiting), waiting))

    told: dict[int, Cells] = {account.ipu: (account.stages, *shares(account.time_ps)) for account in accounts}
    alike, notes = _equal_neighbours(told)
    rows: list[Cells] = [(numbers_of(ipus), *cells) for ipus, cells in alike]
    if len(accounts) > 1:
        rows.append(("all", "mean", *shares(mean_ps)))
    pacing = None if slowest is None else slowest.ipu
    chosen = next((place for place, (ipus, _) in enumerate(alike) if pacing in ipus), None)
    return Table(columns(">IPU", "holds", ">compute", ">data", ">waiting"), rows, notes=notes, chosen=chosen)


def _equal_neighbours(ipus: Mapping[int, _Row]) -> tuple[list[tuple[list[int], _Row]], list[str]]:
    """Group IPUs with equal neighbours, and return the first groups with a note on the number left out."""
    alike = [([ipu for ipu, _ in members], told) for told, members in groupby(ipus.items(), key=itemgetter(1))]
    left = sum(len(members) for members, _ in alike[MOST_IPUS:])
    return alike[:MOST_IPUS], [f"and {left} more IPUs"] if left else []


def pace(accounts: Sequence[IpuAccount]) -> str:
    """Return the slowest IPU as the end of a sentence; empty for a single IPU."""
    return f"; IPU {max(accounts, key=lambda each: each.busy_s).ipu} sets the pace" if len(accounts) > 1 else ""


def numbers_of(ipus: Sequence[int]) -> str:
    """Return consecutive numbers of IPUs as text.

    >>> numbers_of([3]), numbers_of([4, 5, 6])
    ('3', '4 to 6')
    """
    return f"{ipus[0]}" if ipus[0] == ipus[-1] else f"{ipus[0]} to {ipus[-1]}"


def hidden_ipus_note(ipu_count: int) -> list[str]:
    """Return a note if a chart does not show all IPUs."""
    shown = f"The first {MOST_IPUS} of {format_count(ipu_count)} IPUs are shown."
    return [shown] if ipu_count > MOST_IPUS else []


def phases_line(phases: Sequence[PhaseTime]) -> Iterator[Passage]:
    """Yield one line with the parts of a weight update in order."""
    parts = []
    for part, group in groupby(merged(phases), key=lambda phase: part_of(phase.name)):
        members = list(group)
        cycles = sum(phase.count for phase in members)
        count = f" ({format_count(cycles)} cycles)" if len(members) == 1 and cycles > 1 else ""
        parts.append(f"{part} {format_duration_s(sum(phase.seconds for phase in members))}{count}")
    if parts:
        yield Passage(f"Phases: {', '.join(parts)}")


def sharing_lines(breakdown_ps: Mapping[str, int], shared_ps: Mapping[str, Mapping[str, int]]) -> Iterator[Passage]:
    """Yield a line for each kind of transfer that others slow: its time without them, and what each adds."""
    for kind, others in shared_ps.items():
        whole_ps = sum(breakdown_ps.values()) or 1
        slowed = ", ".join(
            f"{format_duration_s(ps_to_seconds(time_ps))} more beside {kind_of(rival).label}"
            for rival, time_ps in others.items()
        )
        alone = format_duration_s(ps_to_seconds(breakdown_ps.get(kind, 0)))
        if sum(others.values()) >= _LEAST * whole_ps:
            yield Passage(f"Links shared: {kind_of(kind).label} take {alone} alone, {slowed}")


def longest_operations(operations: Sequence[OperationRow]) -> Iterator[Table]:
    """Yield a table of the longest operations of the slowest stage."""
    stages: dict[str, float] = {}
    for row in operations:
        stages[row.stage] = stages.get(row.stage, 0.0) + row.total_s
    if not stages:
        return
    slowest = max(stages, key=lambda stage: stages[stage])
    rows: list[Cells] = []
    ordered = sorted((row for row in operations if row.stage == slowest), key=lambda row: -row.total_s)
    for row in ordered[:_MOST_OPERATIONS]:
        name = row.name.removeprefix(f"{row.block}_backward/").removeprefix(f"{row.block}/")
        times = (Cell(format_duration_s(each), each) for each in (row.total_s / max(1, row.count), row.total_s))
        share = row.total_s / (stages[slowest] or 1.0)
        count = Cell(format_count(row.count), row.count)
        rows.append((row.block, f"{name} ({row.kind})", count, *times, Cell(format_percent(share), share)))
    title = f"Slowest: {slowest}, {format_duration_s(stages[slowest])} of operations; the longest are"
    yield Table(columns("block", "operation", ">runs", ">each", ">time", ">share"), rows, title)


def memory_blocks(memory: MemoryReport) -> Iterator[Part]:
    """Yield a map of each used memory, or a line if it is almost empty."""
    fills = fills_in_turn(list(by_size(memory.rows)))  # the largest tenant has the first fill, in both memories
    for where, (name, *_) in _MEMORIES.items():
        fullest = memory.fullest_ipu(where)
        if fullest is None:
            continue
        if memory.used_bytes(fullest, where) < _NEXT_TO_EMPTY * memory.capacity_bytes(where):
            held = memory.tenants(fullest, where).items()
            inside = ", ".join(f"{tenant.replace('_', ' ')} {format_bytes(size)}" for tenant, size in held)
            yield f"{memory_title(memory, where)}; {inside}"
            yield Folded(f"What is in the {name}", [_numbers(memory, where)])
        else:
            yield _chart(memory, where, fills)


def memory_title(memory: MemoryReport, where: str = IN_PROCESSOR) -> str:
    """Return a title with the fullest IPU of a memory in use."""
    fullest, capacity = memory.fullest_ipu(where), memory.capacity_bytes(where)
    assert fullest is not None
    used = memory.used_bytes(fullest, where)
    share = f" ({format_percent(used / capacity)})" if capacity else ""
    return f"{_MEMORIES[where][0]}: IPU {fullest} uses {format_bytes(used)} of {format_bytes(capacity)}{share}"


def _chart(memory: MemoryReport, where: str, fills: Mapping[str, Fill]) -> Chart:
    (name, unit, unit_bytes), capacity = _MEMORIES[where], memory.capacity_bytes(where)
    ipus, bars = memory.ipus(where), []
    for ipu in ipus[:MOST_IPUS]:
        held, end = memory.tenants(ipu, where), 0
        for tenant in (fill for fill in fills if fill in held):
            start, end = end, end + held[tenant]
            size = format_bytes(held[tenant])
            tip = {"IPU": str(ipu), "what": tenant.replace("_", " "), "size": size}
            bounds = (start / unit_bytes, end / unit_bytes)
            bars.append(Bar(f"IPU {ipu}", *bounds, fills[tenant], size, TextPlace.INSIDE, tip))
    whole = max(capacity, *(memory.used_bytes(ipu, where) for ipu in ipus)) / unit_bytes * _ROOM
    title, line = memory_title(memory, where), f"capacity, {format_bytes(capacity)}"
    inside = {row.tenant for row in memory.rows if row.where == where}
    return Chart(
        title=title,
        description=f"Bars of what fills the {name} of each IPU, with its capacity as a line. {title}.",
        drawn=Bars(bars, Axis(f"{name} of an IPU", unit, (0.0, whole)), {line: capacity / unit_bytes}),
        legend={tenant.replace("_", " "): fills[tenant] for tenant in fills if tenant in inside},
        numbers=_numbers(memory, where),
        notes=[f"The dashed line is the {line}.", *hidden_ipus_note(len(ipus))],
    )


def _numbers(memory: MemoryReport, where: str) -> Table:
    """Return a table of the tenants of a memory, the largest first; equal neighbouring IPUs share a row."""
    _, unit, unit_bytes = _MEMORIES[where]
    held = {ipu: memory.tenants(ipu, where) for ipu in memory.ipus(where)}
    tenants = list(by_size(row for row in memory.rows if row.where == where))

    def cells(ipu: int) -> Sequence[int]:
        used = sum(held[ipu].values())
        return *(held[ipu].get(tenant, 0) for tenant in tenants), used, memory.capacity_bytes(where) - used

    alike, left = _equal_neighbours({ipu: cells(ipu) for ipu in held})
    rows: list[Cells] = [
        (numbers_of(ipus), *(Cell(format_significant(size / unit_bytes), size) for size in sizes))
        for ipus, sizes in alike
    ]
    names = (f">{tenant.replace('_', ' ')}" for tenant in tenants)
    return Table(columns(">IPU", *names, ">used", ">free"), rows, notes=[f"in {unit}", *left])
