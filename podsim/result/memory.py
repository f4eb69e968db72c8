"""What fills the memories of the IPUs of a replica."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from podsim.format import format_bytes, format_percent, format_significant
from podsim.report.chart import Axis, Bar, Bars, Chart, Fill, TextPlace, fills_in_turn
from podsim.report.report import Folded, Part
from podsim.report.table import Cell, Cells, Table, columns
from podsim.result.rows import IN_PROCESSOR, STREAMING, MemoryReport
from podsim.result.where import MOST_IPUS, left_out, numbers_of

_MEMORIES: Final = {
    IN_PROCESSOR: ("In-Processor-Memory", "MiB", 2**20),
    STREAMING: ("Streaming Memory", "GiB", 2**30),
}
_ROOM: Final = 1.02
_NEXT_TO_EMPTY: Final = 0.02


def memory_blocks(memory: MemoryReport) -> Iterator[Part]:
    """A map for each memory that is used; of one that is next to empty a line."""
    sums: dict[str, int] = {}
    for row in memory.rows:
        sums[row.tenant] = sums.get(row.tenant, 0) + row.size_bytes
    # What takes most has the first fill, in both memories the same.
    fills = fills_in_turn(sorted(sums, key=lambda tenant: (-sums[tenant], tenant)))
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
    """The IPU with the least room left in a memory that is used."""
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
        for tenant in (each for each in fills if each in held):
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
        notes=[f"The dashed line is the {line}.", *left_out(len(ipus))],
    )


def _numbers(memory: MemoryReport, where: str) -> Table:
    """Tenants of a memory, the largest first, on the first IPUs; neighbours alike stand once."""
    _, unit, unit_bytes = _MEMORIES[where]
    held = {ipu: memory.tenants(ipu, where) for ipu in memory.ipus(where)}
    sums: dict[str, int] = {}
    for sizes in held.values():
        for tenant, size in sizes.items():
            sums[tenant] = sums.get(tenant, 0) + size
    tenants = sorted(sums, key=lambda tenant: (-sums[tenant], tenant))

    def cells(ipu: int) -> Sequence[int]:
        used = sum(held[ipu].values())
        return *(held[ipu].get(tenant, 0) for tenant in tenants), used, memory.capacity_bytes(where) - used

    alike = [(list(members), each) for each, members in groupby(held, key=cells)]
    rows: list[Cells] = [
        (numbers_of(members), *(Cell(format_significant(size / unit_bytes), size) for size in each))
        for members, each in alike[:MOST_IPUS]
    ]
    left = sum(len(members) for members, _ in alike[MOST_IPUS:])
    names = (f">{tenant.replace('_', ' ')}" for tenant in tenants)
    notes = [f"in {unit}"] + ([f"and {left} more IPUs"] if left else [])
    return Table(columns(">IPU", *names, ">used", ">free"), rows, notes=notes)
