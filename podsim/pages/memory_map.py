"""A map of the memories: what fills those of each IPU of a replica."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from podsim.format import format_bytes, format_percent
from podsim.pages.charts import Span, spans_chart
from podsim.pages.parts import Block, Chart, Folded, Grid
from podsim.pages.patterns import fills_in_turn, legend_of
from podsim.pages.time_charts import MOST_IPUS, left_out
from podsim.result.rows import IN_PROCESSOR, STREAMING, MemoryReport

_MEMORIES: Final = {
    IN_PROCESSOR: ("In-Processor-Memory", "MiB", 2**20),
    STREAMING: ("Streaming Memory", "GiB", 2**30),
}
_ROOM: Final = 1.02
_NEXT_TO_EMPTY: Final = 0.02


def memory_blocks(memory: MemoryReport) -> Iterator[Block]:
    """A map for each memory that is used; of one that is next to empty a line."""
    fills = fills_in_turn(_tenants(memory))
    for where in _MEMORIES:
        fullest = memory.fullest_ipu(where)
        if fullest is None:
            continue
        if memory.used_bytes(fullest, where) < _NEXT_TO_EMPTY * memory.capacity_bytes(where):
            yield f"{_title(memory, where, fullest)}."
            yield Folded(f"What is in the {_MEMORIES[where][0]}", [_numbers(memory, where)])
        else:
            yield _memory_chart(memory, where, fullest, fills)


def _title(memory: MemoryReport, where: str, fullest: int) -> str:
    """The IPU with the least room left."""
    used, capacity = memory.used_bytes(fullest, where), memory.capacity_bytes(where)
    share = f", {format_percent(used / capacity)} of it" if capacity else ""
    return f"{_MEMORIES[where][0]}: IPU {fullest} uses {format_bytes(used)} of {format_bytes(capacity)}{share}"


def _ipus(memory: MemoryReport, where: str) -> list[int]:
    return sorted({row.ipu for row in memory.rows if row.where == where})


def _tenants(memory: MemoryReport) -> list[str]:
    """What fills the memories, what takes most first."""
    sums: dict[str, int] = {}
    for row in memory.rows:
        sums[row.tenant] = sums.get(row.tenant, 0) + row.size_bytes
    return sorted(sums, key=lambda tenant: (-sums[tenant], tenant))


def _memory_chart(memory: MemoryReport, where: str, fullest: int, fills: Mapping[str, str]) -> Chart:
    name, unit, unit_bytes = _MEMORIES[where]
    ipus, capacity = _ipus(memory, where), memory.capacity_bytes(where)
    spans = [span for ipu in ipus[:MOST_IPUS] for span in _spans(memory, ipu, where, fills, unit_bytes)]
    whole = max(capacity, memory.used_bytes(fullest, where)) / unit_bytes * _ROOM
    title = _title(memory, where, fullest)
    line = f"capacity, {format_bytes(capacity)}"
    return Chart(
        title=title,
        description=f"Bars of what fills the {name} of each IPU, with its capacity as a line. {title}.",
        spec=spans_chart(spans, f"{name} of an IPU [{unit}]", (0.0, whole), {line: capacity / unit_bytes}),
        legend=legend_of({each.replace("_", " "): fills[each] for each in fills if _holds(memory, where, each)}),
        numbers=_numbers(memory, where),
        notes=[f"The dashed line is the {line}.", *left_out(len(ipus))],
    )


def _holds(memory: MemoryReport, where: str, tenant: str) -> bool:
    return any((row.tenant, row.where) == (tenant, where) for row in memory.rows)


def _spans(memory: MemoryReport, ipu: int, where: str, fills: Mapping[str, str], unit_bytes: int) -> Iterator[Span]:
    held, end = memory.tenants(ipu, where), 0
    for tenant in (each for each in fills if each in held):
        start, end = end, end + held[tenant]
        size = format_bytes(held[tenant])
        tip = {"IPU": str(ipu), "what": tenant.replace("_", " "), "size": size}
        bounds = (start / unit_bytes, end / unit_bytes)
        yield Span(f"IPU {ipu}", *bounds, fills[tenant], size, inside=True, tip=tip)


def _numbers(memory: MemoryReport, where: str) -> Grid:
    tenants = [tenant for tenant in _tenants(memory) if _holds(memory, where, tenant)]
    rows = []
    for ipu in _ipus(memory, where):
        held, used = memory.tenants(ipu, where), memory.used_bytes(ipu, where)
        cells = (f"{held.get(tenant, 0):,}" for tenant in tenants)
        rows.append((str(ipu), *cells, f"{used:,}", f"{memory.capacity_bytes(where) - used:,}"))
    names = (f">{tenant.replace('_', ' ')} [B]" for tenant in tenants)
    return Grid((">IPU", *names, ">used [B]", ">free [B]"), rows)
