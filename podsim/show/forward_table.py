"""Tables of forward passes."""

from __future__ import annotations

from rich.console import Group

from podsim.format import format_count, format_duration_s, format_percent
from podsim.metrics import THROUGHPUT
from podsim.result.forward import ForwardResult
from podsim.show.power_table import spent_rows
from podsim.show.table import breakdown_table, ipu_table, memory_lines, operation_table, share_of_pod
from podsim.show.tables import Tables, headline

_DIGITS = 4


def forward_tables(result: ForwardResult, *, ascii_only: bool) -> Tables:
    """The headline, where the time of a batch and of a call goes, stages, operations and memory."""
    batch, call = result.batch, result.call
    one = f"Where one batch goes: {format_duration_s(batch.time_s, _DIGITS)}, bound by {batch.bound}"
    many = f"Where a call of {result.batches_per_call} batches goes: {format_duration_s(call.time_s, _DIGITS)}"
    return (
        headline(result, forward_headline(result)),
        breakdown_table(one, batch.breakdown, batch.sources, ascii_only=ascii_only),
        breakdown_table(f"{many}, bound by {call.bound}", call.breakdown, call.sources, ascii_only=ascii_only),
        _stages(result),
        operation_table(result.operations),
        memory_lines(result.memory),
    )


def forward_headline(result: ForwardResult) -> list[tuple[str, str, str]]:
    """Label, name of the quantity and value of the numbers that matter most."""
    latency = format_duration_s(result.latency_s, _DIGITS)
    return [
        ("Latency", "latency_s", f"{latency} for a batch of {format_count(result.samples_per_batch)}"),
        ("Throughput", THROUGHPUT, f"{format_count(result.throughput_samples_per_s)} samples/s"),
        ("Utilization", "utilization", format_percent(result.utilization)),
        *share_of_pod(result, result.utilization_of_pod),
        ("IPUs", "", f"{result.replication_factor} x {len(result.ipus)}"),
        ("Parameters", "", format_count(result.parameter_count)),
        ("Work", "", f"{result.flop_per_batch / 1e9:,.3g} GFLOP per batch"),
        *spent_rows(result),
    ]


def _stages(result: ForwardResult) -> Group | None:
    """How evenly the work is spread over the stages; None for a single stage."""
    if len(result.ipus) == 1:
        return None
    rows = [(account, (account.busy_s / result.call.time_s,), False) for account in result.ipus]
    title = "IPUs of one replica: share of the call at work, In-Processor-Memory"
    return ipu_table(title, (">busy",), rows, result.memory)
