"""What a plan's memories hold, as rows of a result."""

from __future__ import annotations

from collections.abc import Sequence

from podsim.placement.memory import IpuMemory
from podsim.result.rows import MemoryReport, MemoryRow


def memory_report(memory: Sequence[IpuMemory]) -> MemoryReport:
    """The tenants of the IPUs of a replica, those that take nothing left out."""
    rows = tuple(
        MemoryRow(ipu.ipu, tenant.name, tenant.byte_count, tenant.storage)
        for ipu in memory
        for tenant in ipu.tenants
        if tenant.byte_count
    )
    first = memory[0]
    return MemoryReport(rows, first.capacity_bytes, first.streaming_capacity_bytes)
