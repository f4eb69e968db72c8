"""Tables of forward passes."""

from __future__ import annotations

from rich.console import Group
from rich.text import Text

from podsim.report.format import format_bytes, format_count, format_duration_s, format_percent
from podsim.report.forward import ForwardResult
from podsim.report.table import breakdown_table, memory_lines, operation_table, share_of_pod
from podsim.report.tables import Tables, headline, plain_table, titled

_DIGITS = 4
_MOST_IPUS = 16


def forward_tables(result: ForwardResult, *, ascii_only: bool) -> Tables:
    """The headline, where the time of a batch and of a call goes, stages, operations and memory."""
    batch, call = result.batch, result.call
    one = f"Where one batch goes: {format_duration_s(batch.time_s, _DIGITS)}, bound by {batch.bound}"
    many = f"Where a call of {result.batches_per_call} batches goes: {format_duration_s(call.time_s, _DIGITS)}"
    return (
        headline(result, _headline(result)),
        breakdown_table(one, batch.breakdown, ascii_only=ascii_only),
        breakdown_table(f"{many}, bound by {call.bound}", call.breakdown, ascii_only=ascii_only),
        _stages(result),
        operation_table(result.operations),
        memory_lines(result.memory),
    )


def _headline(result: ForwardResult) -> list[tuple[str, str, str]]:
    latency = format_duration_s(result.latency_s, _DIGITS)
    return [
        ("Latency", "latency_s", f"{latency} for a batch of {format_count(result.samples_per_batch)}"),
        ("Throughput", "throughput_samples_per_s", f"{format_count(result.throughput_samples_per_s)} samples/s"),
        ("Utilization", "utilization", format_percent(result.utilization)),
        *share_of_pod(result, result.utilization_of_pod),
        ("IPUs", "", f"{result.replication_factor} x {len(result.ipus)}"),
        ("Parameters", "", format_count(result.parameter_count)),
        ("Work", "", f"{result.flop_per_batch / 1e9:,.3g} GFLOP per batch"),
    ]


def _stages(result: ForwardResult) -> Group | None:
    """How evenly the work is spread over the stages; None for a single stage."""
    if len(result.ipus) == 1:
        return None
    table = plain_table(">IPU", "holds", ">busy", ">used", ">free")
    for account in result.ipus[:_MOST_IPUS]:
        used = result.memory.used_bytes(account.ipu)
        free = result.memory.in_processor_memory_bytes - used
        busy = format_percent(account.busy_s / result.call.time_s)
        cells = (str(account.ipu), account.stages, busy, format_bytes(used), format_bytes(free))
        table.add_row(*(Text(cell) for cell in cells))
    left = len(result.ipus) - _MOST_IPUS
    lines = [f"and {left} more IPUs"] if left > 0 else []
    return titled("IPUs of one replica: share of the call at work, In-Processor-Memory", table, *lines)
